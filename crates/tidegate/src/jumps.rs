//! [`JumpSight`]: how soon a mechanism that follows a stream sees a jump, and which jumps it may miss.
//!
//! The mechanisms called `track` look at every timestamp, with noise, and believe a jump when the evidence is strong
//! enough: five scales of the noise of a look, or of the mean of several looks. So with noise of scale `s` a jump of
//! `5 s` is seen at once, and one of `j` within about `(5 s / j)²` timestamps. A jump that is over before that may be
//! missed. These are rules of thumb, computed from the constants that the mechanisms use.
//!
//! | mechanism | a look at a timestamp | `s` |
//! | --- | --- | --- |
//! | `central.track` | the histogram that watches, with its share `rho` of the budget | `w/(rho epsilon)` users |
//! | `personal_track` | the same, summed over the classes | root of the sum of squares |
//! | `local.track` | the reports of `1/w` of the users | their standard deviation, as a share of the users |
//! | `scalar.track` | noise on a reading | the noise scale |
//! | `scalar.track` | a randomised bit, or a batch's mean | none: see [`JumpSight::OfAnySize`] |

use tidegate_kernel::SLOTS;
use tidegate_kernel::oracle::OracleKind;
use tidegate_kernel::primitives::Neighbours;

use crate::central::{CentralChoice, watch_share};
use crate::local::LocalKind;
use crate::scalar::{Look, ScalarKind};
use crate::spec::StreamSpec;

/// Evidence for a jump, in scales of noise.
const EVIDENCE: f64 = 5.0;

/// How soon a jump is seen.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum JumpSight {
    /// The sooner the larger it is.
    BySize {
        /// The smallest jump that one look shows.
        at_once: f64,
        /// Its unit.
        unit: JumpUnit,
    },
    /// After some readings, whatever its size: a bit does not tell how far a reading is from its forecast, and a mean
    /// comes at the end of its batch.
    OfAnySize {
        /// About how many timestamps it takes at most.
        timestamps: f64,
    },
}

/// The unit of a jump.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum JumpUnit {
    /// Users with a value.
    Users,
    /// Share of the users with a value.
    Share,
    /// The unit of the readings.
    Reading,
}

impl JumpSight {
    /// Returns how soon the mechanism of a spec sees a jump; `None` if it is not `track`, or the spec is invalid.
    ///
    /// ```
    /// use tidegate::jumps::JumpSight;
    /// use tidegate::spec::StreamSpec;
    ///
    /// let spec: StreamSpec =
    ///     serde_json::from_str(r#"{ "mechanism": "central.track", "epsilon": 1, "window": 20, "domain": 4 }"#)?;
    /// let sight = JumpSight::of(&spec).ok_or("it is track")?;
    /// // Noise of scale 20/0.3 on the histogram that watches.
    /// assert!(matches!(sight, JumpSight::BySize { at_once, .. } if (at_once - 333.3).abs() < 0.1));
    /// assert!((sight.timestamps(100.0) - 11.1).abs() < 0.1);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn of(spec: &StreamSpec) -> Option<Self> {
        match spec {
            StreamSpec::Central(spec) => {
                let sensitivity = if spec.neighbours == Some(Neighbours::Replace) { 2.0 } else { 1.0 };
                #[allow(clippy::cast_precision_loss)] // a window
                let scale = |epsilon: f64, window: u64| sensitivity * window as f64 / (watch_share() * epsilon);
                let scale = match spec.mechanism {
                    CentralChoice::Track => scale(spec.epsilon?.as_f64(), spec.window?.get()),
                    CentralChoice::PersonalTrack => {
                        let classes = spec.classes.iter().flatten();
                        classes
                            .map(|class| scale(class.epsilon.as_f64(), class.window.get()).powi(2))
                            .sum::<f64>()
                            .sqrt()
                    }
                    _ => return None,
                };
                Some(Self::BySize { at_once: EVIDENCE * scale, unit: JumpUnit::Users })
            }
            StreamSpec::Local(spec) if spec.mechanism == LocalKind::Track => {
                let settings = spec.settings().ok()?;
                let (domain, epsilon) = (settings.domain, settings.epsilon);
                #[allow(clippy::cast_precision_loss)] // a number of users
                let users = settings.population.get() as f64;
                #[allow(clippy::cast_precision_loss)] // at most 2^16
                let part = (u64::from(SLOTS) / settings.window.get()) as f64 / f64::from(SLOTS);
                let frequency = f64::from(domain).recip();
                let kind = settings.oracle.unwrap_or_else(|| OracleKind::best(domain, epsilon));
                let of_report = kind.variance(domain, epsilon, 1).at(frequency);
                let sampling = (1.0 - part) * frequency * (1.0 - frequency);
                let deviation = ((of_report + sampling) / (users * part)).sqrt();
                Some(Self::BySize { at_once: EVIDENCE * deviation, unit: JumpUnit::Share })
            }
            StreamSpec::Scalar(spec) if spec.mechanism == ScalarKind::Track => {
                let settings = spec.settings().ok()?;
                Some(match Look::of_track(&settings).ok()? {
                    Look::Noise { scale } => {
                        Self::BySize { at_once: EVIDENCE * scale * settings.grid.step(), unit: JumpUnit::Reading }
                    }
                    Look::Bit { bias, every } => Self::OfAnySize { timestamps: every * (EVIDENCE / bias).powi(2) },
                    Look::Mean { most } => Self::OfAnySize { timestamps: most },
                })
            }
            _ => None,
        }
    }

    /// Returns about how many timestamps a jump has to last to be seen, at least one.
    pub fn timestamps(self, jump: f64) -> f64 {
        match self {
            Self::BySize { at_once, .. } => (at_once / jump.abs()).powi(2).max(1.0),
            Self::OfAnySize { timestamps } => timestamps.max(1.0),
        }
    }
}
