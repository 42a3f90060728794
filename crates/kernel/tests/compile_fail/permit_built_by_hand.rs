use tidegate_kernel::{Epsilon, Permit};

fn main() {
    let _ = Permit { timestamp: 0, epsilon: Epsilon::MAX, class: None };
}
