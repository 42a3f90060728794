use tidegate_kernel::Sealed;

fn leak(secret: &Sealed<u64>) -> String {
    format!("{secret}")
}

fn main() {}
