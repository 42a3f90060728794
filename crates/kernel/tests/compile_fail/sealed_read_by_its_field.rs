use tidegate_kernel::Sealed;

fn leak(secret: &Sealed<u64>) -> u64 {
    *secret.0
}

fn main() {}
