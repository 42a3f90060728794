use tidegate_kernel::Permit;

fn save(permit: &Permit) -> serde_json::Result<String> {
    serde_json::to_string(permit)
}

fn main() {}
