use tidegate_kernel::{SeededRandom, SystemRandom};

fn pretend(seeded: SeededRandom) -> SystemRandom {
    SystemRandom(seeded.0)
}

fn main() {}
