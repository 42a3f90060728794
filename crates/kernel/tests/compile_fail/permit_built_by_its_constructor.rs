use tidegate_kernel::{Account, Epsilon, Permit};

fn forge(account: Account) -> Permit {
    Permit::new(account, 0, Epsilon::MAX)
}

fn main() {}
