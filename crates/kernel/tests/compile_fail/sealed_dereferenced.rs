use tidegate_kernel::Sealed;

fn leak(secret: &Sealed<Vec<u64>>) -> u64 {
    (**secret)[0]
}

fn main() {}
