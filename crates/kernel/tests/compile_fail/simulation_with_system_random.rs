use tidegate_kernel::SystemRandom;
use tidegate_kernel::simulation::{binomial, multinomial, sample_without_replacement};

fn simulate(random: &mut SystemRandom) {
    let _ = binomial(10, 0.5, random);
    let _ = multinomial(10, &[0.5, 0.5], random);
    let _ = sample_without_replacement(3, &[5, 5], random);
}

fn main() {}
