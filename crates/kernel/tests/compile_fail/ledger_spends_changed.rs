use tidegate_kernel::Ledger;

fn forget(ledger: &mut Ledger) {
    ledger.spends.clear();
    ledger.spent = 0;
}

fn main() {}
