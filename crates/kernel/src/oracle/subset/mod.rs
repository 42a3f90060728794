//! Subset selection (Ye and Barg 2018).
//!
//! A uniform subset of a given size is drawn from a draft of about that size, by adding or removing random elements
//! until the size is right. The draft must be exchangeable: given its size, each set of that size is equally likely.
//! Adding a uniform element from outside, or removing one from inside, preserves that. The size of drafts affects speed
//! only.

mod coins;
mod darts;

use std::num::NonZeroU64;

use crate::epsilon::Epsilon;
use crate::noise::Below;
use crate::oracle::Support;
use crate::oracle::choice::best_subset_size;
use crate::oracle::unary::BitsCodec;
use crate::random::Randomness;
use crate::randomised_response::{ResponseError, odds};
use coins::Coins;
use darts::Darts;

/// A report is a set of `size` values. It contains the true value with probability `size·truth / (size·truth +
/// (domain-size)·other)`, where `truth/other` is just below e^eps. The rest is uniform among the other values. Any one
/// set with the true value is `truth/other` times as likely as any one set without it.
#[derive(Clone, Debug)]
pub(crate) struct Subset {
    domain: u32,
    size: u32,
    own_weight: u64,
    below_total: Below,
    codec: BitsCodec,
    draft: Draft,
}

#[derive(Clone, Debug)]
enum Draft {
    Coins(Coins),
    Darts(Darts),
}

impl Subset {
    /// Creates the oracle with the set size of the lowest variance.
    pub(crate) fn new(domain: u32, epsilon: Epsilon) -> Result<Self, ResponseError> {
        let codec = BitsCodec::new(domain)?;
        let size = best_subset_size(domain, epsilon.exp_as_f64());
        let (inside, outside) = (u64::from(size), u64::from(domain - size));
        let (truth, other) = odds(inside, outside, epsilon)?;
        let own_weight = inside * truth;
        let total = NonZeroU64::MIN.saturating_add(own_weight + outside * other.get() - 1);
        let draft = match Darts::new(domain, size, own_weight, total) {
            Some(darts) => Draft::Darts(darts),
            None => Draft::Coins(Coins::new(domain, size)),
        };
        Ok(Self { domain, size, own_weight, below_total: Below::new(total), codec: codec.with_ones(size), draft })
    }

    /// The number of values in every report.
    #[cfg(feature = "simulation")]
    pub(crate) const fn size(&self) -> u32 {
        self.size
    }

    #[allow(clippy::cast_precision_loss)]
    pub(crate) fn support(&self) -> Support {
        let own = self.own_weight as f64 / self.below_total.bound() as f64;
        let other = (f64::from(self.size) - own) / f64::from(self.domain - 1);
        Support { own, other }
    }

    pub(crate) const fn codec(&self) -> &BitsCodec {
        &self.codec
    }

    /// The log-probability of a well-formed report.
    #[allow(clippy::cast_precision_loss)]
    pub(crate) fn log_likelihood(&self, value: u32, report: &[u8]) -> f64 {
        let holds_own = report[(value / 8) as usize] >> (value % 8) & 1 == 1;
        let total = self.below_total.bound();
        let (weight, rest) =
            if holds_own { (self.own_weight, self.size - 1) } else { (total - self.own_weight, self.size) };
        // Divide by the number of sets of that size among the other values.
        let others = self.domain - 1;
        let log_sets: f64 = (0..rest).map(|drawn| (f64::from(others - drawn) / f64::from(drawn + 1)).ln()).sum();
        (weight as f64 / total as f64).ln() - log_sets
    }

    pub(crate) fn perturb(&self, value: u32, random: &mut impl Randomness, report: &mut [u8]) {
        match &self.draft {
            Draft::Coins(coins) => {
                let own = self.below_total.sample(random) < self.own_weight;
                coins.draw(value, self.size, own, random, report);
            }
            Draft::Darts(darts) => darts.draw(value, self.size, random, report),
        }
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use dashu::rational::RBig;

    use super::*;
    use crate::exact::{exp_bounds, many_epsilons};
    use crate::{MAX_RESPONSE_EPSILON, UNITS_PER_EPSILON};

    #[test]
    fn sets_with_the_true_value_keep_exact_bounds() {
        let almost = RBig::from_parts(999_999_999.into(), 1_000_000_000_u64.into());
        for units in many_epsilons(MAX_RESPONSE_EPSILON.units()) {
            let (below, above) = exp_bounds(units, UNITS_PER_EPSILON);
            for domain in [2, 3, 10, 1_000, 100_000] {
                let subset = Subset::new(domain, Epsilon::from_units(units).unwrap()).unwrap();
                // There are size / (domain - size) sets with the true value for each without it.
                let with = u128::from(subset.own_weight) * u128::from(domain - subset.size);
                let without = u128::from(subset.below_total.bound() - subset.own_weight) * u128::from(subset.size);
                let ratio = RBig::from_parts(with.into(), without.into());
                assert!(ratio <= below, "{units} units over {domain} values lose too much");
                assert!(ratio >= &above * &almost, "{units} units over {domain} values are wasted");
            }
        }
    }
}
