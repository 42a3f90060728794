//! Floating-point random numbers for simulations. Never use them for releases.

use tidegate_kernel::{Randomness, SeededRandom};

use crate::stream::as_float;

/// Draws from [0, 1).
pub(crate) fn unit(random: &mut SeededRandom) -> f64 {
    as_float(random.next_word() >> 11) / as_float(1 << 53)
}

/// Draws Laplace noise by inversion. Its last bits reveal the sum (Mironov 2012), so it protects nothing.
pub(crate) fn laplace(scale: f64, random: &mut SeededRandom) -> f64 {
    let size = -scale * (1.0 - unit(random)).ln();
    if random.next_word() & 1 == 0 { size } else { -size }
}
