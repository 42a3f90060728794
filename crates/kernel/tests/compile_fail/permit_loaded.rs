use tidegate_kernel::Permit;

fn load(saved: &str) -> serde_json::Result<Permit> {
    serde_json::from_str(saved)
}

fn main() {}
