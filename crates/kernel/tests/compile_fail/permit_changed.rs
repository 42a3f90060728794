use tidegate_kernel::{Epsilon, Permit};

fn raise(mut permit: Permit) -> Permit {
    permit.epsilon = Epsilon::MAX;
    permit
}

fn main() {}
