//! Choice of the oracle with the lowest variance. It uses floating point, because it affects accuracy and not privacy,
//! but only operations that are exact to the last bit on every platform (IEEE 754): devices and collectors must choose
//! alike. So e^ε comes from integers, not from `f64::exp`.

use crate::epsilon::Epsilon;
use crate::oracle::index_codec::IndexCodec;
use crate::oracle::local_hash::SEED_LENGTH;
use crate::oracle::piecewise::{REPORT_LENGTH, worst_variance};
use crate::oracle::{OracleKind, Support, Variance};
use crate::randomised_response::MAX_DOMAIN;

/// Relative difference below which [`OracleKind::best`] treats variances as equal.
pub const AUTO_TOLERANCE: f64 = 0.01;

/// Largest domain for which [`OracleKind::best`] does not weigh what counting costs.
pub const AUTO_CELLS: u32 = 16_384;

/// Largest factor of the variance that [`OracleKind::best`] gives up for quick counting in larger domains.
pub const AUTO_COST: f64 = 1.3;

impl OracleKind {
    /// The oracle with the lowest variance, averaged over the domain. Among those within [`AUTO_TOLERANCE`] of the
    /// lowest, the one with the shortest report wins, then the one with the lower variance.
    ///
    /// In domains beyond [`AUTO_CELLS`], an oracle that counts a report in constant time wins if its variance is at
    /// most [`AUTO_COST`] times the lowest. All others visit each cell of the domain for each report.
    pub fn best(domain: u32, epsilon: Epsilon) -> Self {
        let mean_variance = |kind: Self| kind.variance(domain, epsilon, 1).at(1.0 / f64::from(domain));
        let candidates = Self::ALL.map(|kind| (kind, mean_variance(kind), kind.report_length(domain, epsilon)));
        let lowest = candidates.iter().map(|(_, variance, _)| *variance).fold(f64::INFINITY, f64::min);
        if domain > AUTO_CELLS {
            let quick = [Self::Grr, Self::Hadamard].map(|kind| (kind, mean_variance(kind)));
            let quick = quick.into_iter().reduce(|best, next| if next.1 < best.1 { next } else { best });
            if let Some((kind, _)) = quick.filter(|(_, variance)| *variance <= lowest * AUTO_COST) {
                return kind;
            }
        }
        // Differences due to rounding are ties, and the simpler oracle, which comes first, wins.
        let beats = |(_, a, short): &(Self, f64, usize), (_, b, long): &(Self, f64, usize)| {
            short < long || (short == long && *a < b * (1.0 - 1e-9))
        };
        let best = candidates
            .into_iter()
            .filter(|(_, variance, _)| *variance <= lowest * (1.0 + AUTO_TOLERANCE))
            .reduce(|best, next| if beats(&next, &best) { next } else { best });
        best.map_or(Self::Grr, |(kind, _, _)| kind)
    }

    /// The variance of an estimated frequency, as a function of the true frequency, in closed form.
    /// [`Oracle::variance`](crate::oracle::Oracle::variance) equals it up to the rounding of integer weights.
    #[allow(clippy::cast_precision_loss)] // a number of reports
    pub fn variance(self, domain: u32, epsilon: Epsilon, reports: u64) -> Variance {
        let ratio = epsilon.exp_as_f64();
        match self.support(domain, ratio) {
            Some(support) => Variance::of(support, reports),
            None => Variance { constant: worst_variance(domain, ratio) / reports as f64, slope: 0.0 },
        }
    }

    /// `None` for the oracle of means, whose reports support no values.
    fn support(self, domain: u32, ratio: f64) -> Option<Support> {
        let d = f64::from(domain);
        Some(match self {
            Self::Piecewise => return None,
            Self::Grr => Support { own: ratio / (ratio + d - 1.0), other: 1.0 / (ratio + d - 1.0) },
            Self::Sue => Support { own: ratio.sqrt() / (ratio.sqrt() + 1.0), other: 1.0 / (ratio.sqrt() + 1.0) },
            Self::Oue => Support { own: 0.5, other: 1.0 / (ratio + 1.0) },
            Self::Blh => hash_support(2, ratio),
            Self::Olh => hash_support(best_buckets(ratio), ratio),
            Self::Hadamard => Support { own: ratio / (ratio + 1.0), other: 0.5 },
            Self::Subset => subset_support(domain, best_subset_size(domain, ratio), ratio),
        })
    }

    /// The length of a report in bytes.
    fn report_length(self, domain: u32, epsilon: Epsilon) -> usize {
        match self {
            Self::Grr => IndexCodec::new(domain).length(),
            Self::Sue | Self::Oue | Self::Subset => domain.div_ceil(8) as usize,
            Self::Blh => SEED_LENGTH + 1,
            Self::Olh => SEED_LENGTH + IndexCodec::new(best_buckets(epsilon.exp_as_f64())).length(),
            Self::Hadamard => IndexCodec::new(columns(domain)).length(),
            Self::Piecewise => REPORT_LENGTH,
        }
    }
}

/// The number of columns of a domain's Hadamard matrix, as far as a number of 32 bits tells it: no oracle has a domain
/// that large.
pub(super) const fn columns(domain: u32) -> u32 {
    match domain.saturating_add(1).checked_next_power_of_two() {
        Some(columns) => columns,
        None => 1 << 31,
    }
}

/// The number of buckets with the lowest variance: an integer next to `e^eps + 1`.
pub(super) fn best_buckets(ratio: f64) -> u32 {
    #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)] // between 2 and the largest domain
    let fewer = (ratio.floor() + 1.0).clamp(2.0, f64::from(MAX_DOMAIN) - 1.0) as u32;
    let variance = |buckets: u32| Variance::of(hash_support(buckets, ratio), 1).constant;
    if variance(fewer) <= variance(fewer + 1) { fewer } else { fewer + 1 }
}

/// The subset size with the lowest variance: an integer next to `domain / (e^eps + 1)`.
pub(super) fn best_subset_size(domain: u32, ratio: f64) -> u32 {
    #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)] // between 0 and the domain, a u32
    let floor = (f64::from(domain) / (ratio + 1.0)) as u32;
    let largest = domain.saturating_sub(1).max(1);
    let (small, large) = (floor.clamp(1, largest), (floor + 1).clamp(1, largest));
    let variance = |size: u32| Variance::of(subset_support(domain, size, ratio), 1).at(1.0 / f64::from(domain));
    if variance(small) <= variance(large) { small } else { large }
}

fn hash_support(buckets: u32, ratio: f64) -> Support {
    let g = f64::from(buckets);
    Support { own: ratio / (ratio + g - 1.0), other: 1.0 / g }
}

fn subset_support(domain: u32, size: u32, ratio: f64) -> Support {
    let (d, k) = (f64::from(domain), f64::from(size));
    let own = k * ratio / (k * ratio + d - k);
    Support { own, other: (k - own) / (d - 1.0) }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use crate::oracle::Oracle;

    #[test]
    fn a_domain_that_no_oracle_has_is_refused_without_a_panic() {
        for domain in [0, 1 << 31, u32::MAX] {
            assert!(Oracle::auto(domain, "1".parse().unwrap()).is_err(), "{domain}");
        }
    }

    #[test]
    fn lengths_are_those_of_the_reports() {
        for epsilon in ["0.1", "1", "3", "6"] {
            let epsilon: Epsilon = epsilon.parse().unwrap();
            for domain in [2, 8, 9, 256, 257, 70_000] {
                for kind in OracleKind::ALL {
                    let oracle = Oracle::new(kind, domain, epsilon).unwrap();
                    assert_eq!(
                        kind.report_length(domain, epsilon),
                        oracle.report_length(),
                        "{kind} {domain} {epsilon}"
                    );
                }
            }
        }
    }
}
