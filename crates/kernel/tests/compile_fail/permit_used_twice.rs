use tidegate_kernel::{Epsilon, Permit};

fn halves_of_both(permit: Permit) {
    let _ = permit.split(Epsilon::MIN);
    let _ = permit.split(Epsilon::MIN);
}

fn main() {}
