//! [`channel`]: a channel for a belief and a distance, at a chosen effort.

use serde::{Deserialize, Serialize};
use tidegate_kernel::Epsilon;

use crate::bins::{self, LineDistance};
use crate::channel::{Channel, ChannelMatrixError};
use crate::clusters;
use crate::distance::Distance;
use crate::grid;
use crate::hamming;

/// Time that a channel may take.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Effort {
    /// [Bins](bins), [clusters] and [blocks](grid): tens of microseconds to milliseconds.
    #[default]
    Fast,
    /// Optimal or nearly so, by linear programming: milliseconds to seconds. Mechanisms reject it without the feature
    /// `programme`; [`channel`] then works as with [`Effort::Fast`]. For the Hamming distance both are optimal, in
    /// microseconds.
    Thorough,
}

/// Returns an epsilon-SIP channel for a belief, with an expected distance as small as the effort allows.
///
/// # Errors
/// A belief that is no distribution, an epsilon that is out of range, a matrix of another size than the belief.
///
/// ```
/// use tidegate_sequence::distance::Distance;
/// use tidegate_sequence::effort::{self, Effort};
///
/// let belief = [0.4, 0.3, 0.2, 0.1];
/// for distance in [Distance::Hamming, Distance::Absolute, Distance::Squared] {
///     let channel = effort::channel(&belief, "1".parse()?, &distance, Effort::Fast)?;
///     assert!(channel.leakage(&belief)?.largest() <= 1.0 + 1e-9);
/// }
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub fn channel(
    belief: &[f64],
    epsilon: Epsilon,
    distance: &Distance,
    effort: Effort,
) -> Result<Channel, ChannelMatrixError> {
    #[cfg(feature = "programme")]
    if effort == Effort::Thorough {
        return crate::programme::channel(belief, epsilon, distance);
    }
    #[cfg(not(feature = "programme"))]
    let _ = effort;
    match distance {
        Distance::Hamming => hamming::channel(belief, epsilon),
        Distance::Absolute => bins::channel(belief, epsilon, LineDistance::Absolute),
        Distance::Squared => bins::channel(belief, epsilon, LineDistance::Squared),
        Distance::Grid { columns } => grid::channel(belief, *columns, epsilon),
        Distance::Matrix(matrix) => clusters::channel(belief, epsilon, matrix),
    }
}
