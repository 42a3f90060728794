use tidegate_kernel::Sealed;

fn leak(secret: Sealed<u64>) {
    let Sealed { value: _content, timestamp: _, account: _ } = secret;
}

fn main() {}
