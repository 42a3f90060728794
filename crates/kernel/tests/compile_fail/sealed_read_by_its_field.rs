use tidegate_kernel::Sealed;

fn leak(secret: &Sealed<u64>) -> u64 {
    *secret.value
}

fn main() {}
