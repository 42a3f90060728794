//! Variants of the scalar mechanisms: other ways of publishing that the paper on delay-allowed release compares.

use super::ScalarKind;
use crate::mechanisms::{Mechanism, Preset};

type Fixed = (&'static str, Preset);

const POINTS: Fixed = ("publication", Preset::Text("points"));
const SUMS: Fixed = ("publication", Preset::Text("sums"));
const CLIPPED_SUMS: Fixed = ("publication", Preset::Text("clipped_sums"));
const MEDIAN: Fixed = ("smoother", Preset::Text("median"));
/// The default of [`Truncation`](super::Truncation).
const CUT: Fixed = ("truncation", Preset::Table(&[("every", 10), ("percent", 20)], "{ every = 10, percent = 20 }"));

/// Declares a variant: its mechanism, its name, what it does, and the keys that it fixes.
macro_rules! variant {
    ($kind:ident, $name:literal, $summary:literal, $fixed:expr) => {
        ScalarKind::$kind.mechanism().variant(($name, concat!("scalar.", $name)), $summary, $fixed)
    };
}

/// All variants.
pub(crate) const VARIANTS: &[Mechanism] = &[
    variant!(Contin, "contin_points", "as contin, but noise on each number and the mean of the group", &[POINTS]),
    variant!(
        Discontin,
        "discontin_points",
        "as discontin, but noise on each number and the mean of the group",
        &[POINTS]
    ),
    variant!(Bucorder, "bucorder_sums", "randomised parts of the domain, noise on the sum of each", &[SUMS]),
    variant!(
        Bucorder,
        "bucorder_clipped_sums",
        "as bucorder_sums, with numbers moved into their part first",
        &[CLIPPED_SUMS]
    ),
    variant!(Pegasus, "pegasus_median", "as pegasus, with the median instead of the mean", &[MEDIAN]),
    variant!(PegasusDelay, "pegasus_delay_median", "as pegasus_delay, with the median instead of the mean", &[MEDIAN]),
    variant!(
        Contin,
        "contin_points_median",
        "as contin_points, with the median instead of the mean",
        &[POINTS, MEDIAN]
    ),
    variant!(
        Discontin,
        "discontin_points_median",
        "as discontin_points, with the median instead of the mean",
        &[POINTS, MEDIAN]
    ),
    variant!(Laplace, "laplace_truncated", "laplace on numbers cut off at a private bound", &[CUT]),
    variant!(Clamped, "clamped_truncated", "clamped on numbers cut off at a private bound", &[CUT]),
    variant!(PegasusDelay, "pegasus_delay_truncated", "pegasus_delay on numbers cut off at a private bound", &[CUT]),
    variant!(Contin, "contin_points_truncated", "contin_points on numbers cut off at a private bound", &[POINTS, CUT]),
    variant!(
        Discontin,
        "discontin_points_truncated",
        "discontin_points on numbers cut off at a private bound",
        &[POINTS, CUT]
    ),
    variant!(Comporder, "comporder_truncated", "comporder on numbers cut off at a private bound", &[CUT]),
    variant!(Bucorder, "bucorder_truncated", "bucorder on numbers cut off at a private bound", &[CUT]),
    variant!(Bucorder, "bucorder_sums_truncated", "bucorder_sums on numbers cut off at a private bound", &[SUMS, CUT]),
];
