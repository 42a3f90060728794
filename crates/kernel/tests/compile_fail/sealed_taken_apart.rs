use tidegate_kernel::Sealed;

fn leak(secret: Sealed<u64>) {
    let Sealed(_content) = secret;
}

fn main() {}
