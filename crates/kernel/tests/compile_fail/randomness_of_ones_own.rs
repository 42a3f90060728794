use tidegate_kernel::{Provenance, Randomness};

struct AlwaysFour;

impl Randomness for AlwaysFour {
    fn next_word(&mut self) -> u64 {
        4
    }

    fn provenance(&self) -> Provenance {
        Provenance::System
    }
}

fn main() {}
