use tidegate_kernel::Ledger;

fn copy(ledger: &Ledger) -> Ledger {
    Ledger::clone(ledger)
}

fn main() {}
