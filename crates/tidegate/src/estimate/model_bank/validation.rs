//! Validation of a loaded model bank.

use super::{FilterState, Group, MAX_CONSTANT_LEVELS, MAX_UNIT, MIN_SWITCH_PROBABILITY, MIN_UNIT, ModelBank};
use crate::estimate::block::MAX_DISTANCE;
use crate::estimate::model::{Covariance, DYNAMIC_MODELS, Model, model};
use crate::estimate::seasonal::Phase;

impl ModelBank {
    /// Whether the state is a valid bank whose groups end at the `expected` indices.
    pub fn fits(&self, expected: &[usize]) -> bool {
        let Self {
            reference,
            largest_square,
            groups,
            switch_probability,
            clock,
            ages,
            filters,
            origins,
            unit,
            totals,
            evidence,
            posterior,
        } = self;
        let numbers = expected.last().copied().unwrap_or(0);
        let positive = |number: &f64| number.is_finite() && *number > 0.0;
        let weight = |weight: &f64| weight.is_finite() && *weight >= 0.0;
        let all = |numbers: &[f64], count: usize, holds: &dyn Fn(&f64) -> bool| {
            numbers.len() == count && numbers.iter().all(holds)
        };
        let group_fits = |group: &Group| {
            all(&group.prior, DYNAMIC_MODELS + 1, &weight)
                && all(&group.learned, DYNAMIC_MODELS + 1, &weight)
                && group.switch_rates.iter().all(positive)
        };
        let covariance_fits = |covariance: &Covariance| {
            covariance.iter().flatten().all(|cell| cell.is_finite())
                && (0..3).all(|place| covariance[place][place] >= 0.0)
        };
        let filter_fits = |(index, filter): (usize, &FilterState)| {
            let possible = groups.iter().any(|group| {
                let place = index.min(DYNAMIC_MODELS);
                group.prior.get(place).is_some_and(|likely| *likely > 0.0)
                    || group.learned.get(place).is_some_and(|likely| *likely > 0.0)
            });
            let numbers = if possible { numbers } else { 0 };
            let phases =
                if let Model::Seasonal { period, .. } = model(index) { period.min(numbers * period) } else { 0 };
            let phase_fits = |place: &Phase| place.fits(*clock);
            covariance_fits(&filter.covariance)
                && filter.phases.len() == phases
                && filter.phases.iter().all(phase_fits)
                && filter.likelihoods.len() == numbers
                && filter.states.len() == numbers * model(index).order()
                && filter.states.iter().all(|state| state.abs() <= MAX_DISTANCE)
                && filter.likelihoods.iter().all(|weight| weight.is_finite() && *weight >= 0.0)
        };
        groups.iter().map(|group| group.end).eq(expected.iter().copied())
            && expected.is_sorted()
            && groups.iter().all(group_fits)
            && (1..=MAX_CONSTANT_LEVELS).contains(&ages.len())
            && ages.windows(2).all(|pair| pair[0] > pair[1])
            && filters.len() == DYNAMIC_MODELS + ages.len()
            && filters.iter().enumerate().all(filter_fits)
            && all(origins, numbers, &|number| number.is_finite())
            && (MIN_UNIT..=MAX_UNIT).contains(unit)
            && totals.len() == numbers
            && totals.iter().all(|total| total.is_finite() && *total >= f32::MIN_POSITIVE)
            && all(&posterior.means, numbers, &|number| number.is_finite())
            && all(&posterior.variances, numbers, &weight)
            && evidence.is_finite()
            && positive(reference)
            && positive(largest_square)
            && (MIN_SWITCH_PROBABILITY..=1.0).contains(switch_probability)
    }
}
