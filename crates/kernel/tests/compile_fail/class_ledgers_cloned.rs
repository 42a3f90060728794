use tidegate_kernel::ClassLedgers;

fn copy(ledgers: &ClassLedgers) -> ClassLedgers {
    ClassLedgers::clone(ledgers)
}

fn main() {}
