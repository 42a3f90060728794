use tidegate_kernel::{Epsilon, Permit};

fn main() {
    let _ = Permit::new(0, Epsilon::MAX);
}
