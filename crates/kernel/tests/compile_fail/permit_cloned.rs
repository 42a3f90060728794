use tidegate_kernel::Permit;

fn twice(permit: Permit) -> (Permit, Permit) {
    (permit.clone(), permit)
}

fn main() {}
