use tidegate_kernel::Sealed;

fn leak(secret: &Sealed<u64>) -> serde_json::Result<String> {
    serde_json::to_string(secret)
}

fn main() {}
