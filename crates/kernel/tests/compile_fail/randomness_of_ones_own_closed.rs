use tidegate_kernel::random::closed::Closed;

struct AlwaysFour;

impl Closed for AlwaysFour {}

fn main() {}
