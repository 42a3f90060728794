use tidegate_kernel::Sealed;

fn guess(secret: &Sealed<u64>, other: &Sealed<u64>) -> bool {
    secret == other
}

fn main() {}
