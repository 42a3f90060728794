use tidegate_kernel::Permit;

fn forge(permit: Permit) -> Permit {
    permit.for_class(7)
}

fn main() {}
