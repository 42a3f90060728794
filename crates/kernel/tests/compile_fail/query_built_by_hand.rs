use tidegate_kernel::primitives::Query;

fn insensitive(query: Query) -> Query {
    Query { sensitivity: 0, ..query }
}

fn main() {}
