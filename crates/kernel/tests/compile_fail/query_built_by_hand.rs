use tidegate_kernel::primitives::SealedQuery;

fn insensitive(query: SealedQuery) -> SealedQuery {
    SealedQuery { sensitivity: 0, ..query }
}

fn main() {}
