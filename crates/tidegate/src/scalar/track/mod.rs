//! `track`: queries that adapt to the answers so far, and estimates from all of them.
//!
//! Batches of readings are summed with noise, after clamping to the range where they are expected. So noise is shared
//! by the batch, and scales with that range instead of the domain. Independent or fast-moving readings are queried
//! singly, by a randomised response about whether each lies above its forecast.
//!
//! If one contributor to a count is protected, noise is small relative to the domain, and each reading gets its own.

mod cell_grid;
mod planner;
mod queries;

use std::ops::RangeInclusive;

use serde::{Deserialize, Serialize};
use tidegate_kernel::primitives::{Held, PrimitiveError, Protects, Summing, bucket_probabilities};
use tidegate_kernel::{MAX_RESPONSE_EPSILON, Permit, Randomness, Sealed};

use super::bucorder::{best, explained};
use super::output::Output;
use super::settings::{ScalarSettings, Shares};
use super::{Frame, ScalarError};
use crate::estimate::grid_filter::GridModels;
use crate::estimate::model_bank::{ConstantPrior, ModelBank};
use crate::estimate::noise::ObservationNoise;
use crate::release::Release;
use cell_grid::CellGrid;
use planner::{QueryPlanner, median};
use queries::AdaptiveQueries;

/// With one contributor protected, readings get noise of their own if its scale is below this share of the domain.
const SMALL_NOISE: f64 = 1.0 / 16.0;

#[derive(Debug)]
pub(super) struct Track {
    planner: QueryPlanner,
    /// Noise on single readings, if it is small enough.
    noise: Option<Summing>,
    /// Readings of the open batch.
    pub(super) held: Held,
    pub(super) state: State,
}

/// State without the readings; none of it is secret.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub(super) enum State {
    /// Adaptive queries.
    Queries(Box<AdaptiveQueries>),
    /// Noise on each reading.
    Noise(Box<DirectNoise>),
}

#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct DirectNoise {
    bank: ModelBank,
    last: Option<u64>,
}

impl Track {
    pub(super) fn new(
        settings: &ScalarSettings,
        shares: &Shares,
        range: &RangeInclusive<i64>,
    ) -> Result<Self, ScalarError> {
        let grid = CellGrid::new(range);
        let protects = settings.protects;
        let noise = match protects {
            Protects::Reading => None,
            Protects::Contribution(_) => Some(Summing::new(range.clone(), protects, shares.publication)?)
                .filter(|summing| summing.scale().as_f64() < SMALL_NOISE * grid.points),
        };
        // With a larger epsilon, a randomised response is almost surely true.
        let epsilon = if noise.is_some() { shares.publication } else { shares.publication.min(MAX_RESPONSE_EPSILON) };
        let buckets = if noise.is_some() { 2 } else { best(epsilon, range)? };
        let probabilities = bucket_probabilities(buckets, epsilon).map_err(PrimitiveError::from)?;
        let single_explained = explained(buckets, epsilon)?;
        let models = GridModels::new(grid.cells);
        let state = match noise {
            Some(summing) => State::Noise(Box::new(DirectNoise {
                bank: ModelBank::new(1, summing.scale().laplace_variance(), ConstantPrior::Possible),
                last: None,
            })),
            None => State::Queries(Box::new(AdaptiveQueries::new(&models))),
        };
        let delay = settings.delay;
        let planner = QueryPlanner { grid, models, epsilon, protects, buckets, probabilities, single_explained, delay };
        Ok(Self { planner, noise, held: Held::default(), state })
    }

    pub(super) fn waiting(&self) -> usize {
        match &self.state {
            State::Queries(queries) => queries.waiting.len(),
            State::Noise(_) => 0,
        }
    }

    pub(super) fn push(
        &mut self,
        permit: Permit,
        reading: Sealed<i64>,
        frame: Frame<'_>,
        random: &mut impl Randomness,
        releases: &mut Vec<Release>,
    ) -> Result<(), ScalarError> {
        let epsilon = self.planner.epsilon;
        let permit = if permit.epsilon() > epsilon { super::split(permit, Some(epsilon))?.0 } else { permit };
        let timestamp = reading.timestamp();
        let State::Queries(queries) = &mut self.state else {
            releases.push(self.add_noise(permit, &reading, frame.output, random)?);
            return Ok(());
        };
        let planner = &self.planner;
        let open = *queries
            .open
            .get_or_insert_with(|| planner.next_query(&queries.now, queries.last, timestamp, &mut queries.turns));
        self.held.push(permit, reading)?;
        queries.waiting.push_back(timestamp);
        if self.held.len() >= open.count as usize {
            let believed = queries.ask(planner, &mut self.held, random)?;
            if frame.settings.delay == 0 {
                // Earlier readings of the batch were released as they came.
                queries.answered.clear();
                queries.likelihoods.clear();
                queries.waiting.clear();
                releases.push(planner.release(timestamp, median(&believed), frame.output));
                return Ok(());
            }
        }
        queries.release_due(planner, timestamp, frame, releases)
    }

    /// Publishes a reading with noise, and releases the filtered estimate.
    fn add_noise(
        &mut self,
        permit: Permit,
        reading: &Sealed<i64>,
        output: &Output,
        random: &mut impl Randomness,
    ) -> Result<Release, ScalarError> {
        let (Some(summing), State::Noise(direct)) = (&self.noise, &mut self.state) else {
            return Err(ScalarError::Misfit { what: "what is believed" });
        };
        let timestamp = reading.timestamp();
        let gap = direct.last.map_or(0, |last| timestamp - last);
        #[allow(clippy::cast_precision_loss)] // published already
        let noisy = (summing.publish([(permit, reading)], random)?.into_value() - self.planner.grid.low) as f64;
        direct.bank.observe(gap, &[noisy], ObservationNoise::laplace(summing.scale().laplace_variance()));
        direct.last = Some(timestamp);
        let estimates = direct.bank.estimate(0);
        let (mean, variance) = (estimates.means[0].clamp(0.0, self.planner.grid.points - 1.0), estimates.variances[0]);
        Ok(output.release(timestamp, mean, variance))
    }

    /// Releases all that waits, after a query about the open batch.
    pub(super) fn finish(
        &mut self,
        output: &Output,
        random: &mut impl Randomness,
        releases: &mut Vec<Release>,
    ) -> Result<(), ScalarError> {
        let State::Queries(queries) = &mut self.state else { return Ok(()) };
        if queries.waiting.is_empty() {
            return Ok(());
        }
        if queries.open.is_some() {
            queries.ask(&self.planner, &mut self.held, random)?;
        }
        queries.release_all(&self.planner, output, releases)
    }

    /// Whether a state and its held readings are valid for these settings, after a reading at `last`.
    pub(super) fn fits(&self, state: &State, held: &Held, last: Option<u64>, delay: u32) -> bool {
        match state {
            State::Noise(direct) => {
                self.noise.is_some() && direct.bank.fits(&[1]) && direct.last == last && held.is_empty()
            }
            State::Queries(queries) => {
                self.noise.is_none()
                    && held.amounts().all(|amount| amount == self.planner.epsilon)
                    && queries.fits(&self.planner, held, last, delay)
            }
        }
    }
}
