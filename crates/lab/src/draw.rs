//! Random numbers in floating point, for what is simulated and never released.

use tidegate_kernel::{Randomness, SeededRandom};

use crate::stream::as_float;

/// A number from 0 to 1, that excluded.
pub(crate) fn unit(random: &mut SeededRandom) -> f64 {
    as_float(random.next_word() >> 11) / as_float(1 << 53)
}

/// Laplace noise of a scale, by inversion. It gives itself away in its last bits, and so is nothing to protect anybody
/// with.
pub(crate) fn laplace(scale: f64, random: &mut SeededRandom) -> f64 {
    let size = -scale * (1.0 - unit(random)).ln();
    if random.next_word() & 1 == 0 { size } else { -size }
}
