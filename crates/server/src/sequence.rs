//! Streams of sequences, which devices release themselves: their policy, their questions, and the counts of what they
//! released.
//!
//! A device answers through a channel of its own, which follows from its earlier releases. So a count of released
//! symbols is no unbiased estimate of how many users hold a symbol, and states no variance. An estimate would need
//! each device's channel: a server would have to link the reports of a device over time, and many channels have no
//! inverse.

use std::num::NonZeroU64;

use tidegate::kernel::oracle::{Aggregate, OracleKind};
use tidegate::kernel::{Cohort, Epsilon, Question, View, Window};
use tidegate::release::{Counts, Freshness, Release, Spent, UNSTATED};
use tidegate::sequence::crr::{CrrError, CrrSettings};
use tidegate::sequence::effort::Effort;
use tidegate::spec::{SequenceMachine, SequenceSpec, SpecError, StreamSpec};
use tidegate_device::DevicePolicy;
use tidegate_device::sequence::{Metric, PolicyModel, SequenceMechanism, SequencePolicy};

use crate::stream::{Declaration, DeclarationError};

/// How a stream of sequences is asked and counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct SequenceCounter {
    /// Largest loss of a release.
    loss: Epsilon,
    domain: u32,
    length: u32,
    population: u64,
}

fn refused(key: &'static str, problem: impl ToString) -> DeclarationError {
    DeclarationError::Devices { key, problem: problem.to_string() }
}

/// Returns the mechanism of a spec, and the settings of one release.
fn mechanism(spec: &SequenceSpec) -> Result<(SequenceMechanism, CrrSettings), DeclarationError> {
    let model = spec.model()?;
    Ok(match spec.mechanism(model.as_ref())? {
        SequenceMachine::Crr(crr) => (SequenceMechanism::Crr, crr.settings().clone()),
        SequenceMachine::Batched(batched) => {
            let settings = batched.settings();
            if settings.part.is_some_and(|part| part < settings.length) {
                return Err(refused("part", "devices answer a whole batch together; delete this key"));
            }
            if settings.support.is_some() {
                return Err(refused("support", "devices tell all batches apart; delete this key"));
            }
            (SequenceMechanism::Batched { length: settings.length }, settings.batch.clone())
        }
        SequenceMachine::Baseline(_) => {
            let (mechanism, why) = (spec.mechanism.name().to_owned(), "it uses no model; run a local stream instead");
            return Err(DeclarationError::NotServed { mechanism, why });
        }
    })
}

fn of_crr(error: CrrError) -> DeclarationError {
    SpecError::from(error).into()
}

/// Returns the part of a policy that is about sequences, and what it protects.
///
/// # Errors
/// A spec that devices cannot follow.
pub(crate) fn policy(spec: &SequenceSpec) -> Result<(DevicePolicy, SequencePolicy), DeclarationError> {
    let (mechanism, settings) = mechanism(spec)?;
    if settings.effort == Effort::Thorough {
        return Err(refused("effort", "devices have no linear programmes, so their effort is \"fast\""));
    }
    let metric = Metric::of(&settings.distance);
    let metric = metric.ok_or_else(|| refused("distance", "a table of distances is not for devices"))?;
    let model = spec.model()?.ok_or_else(|| refused("model", "devices need a model"))?;
    let model = PolicyModel::of(&model).map_err(|error| refused("model", error))?;
    let epsilon = settings.step().map_err(of_crr)?;
    // The spec counts batches, and a device timestamps.
    let window = match settings.window {
        Window::Timestamps(batches) => {
            let length = NonZeroU64::from(NonZeroU64::new(u64::from(mechanism.length())).unwrap_or(NonZeroU64::MIN));
            Window::Timestamps(batches.saturating_mul(length))
        }
        Window::Unbounded => Window::Unbounded,
    };
    let protects =
        DevicePolicy { epsilon: settings.loss_budget().map_err(of_crr)?, window, domain: spec.values()?.count() };
    let policy = SequencePolicy { mechanism, epsilon, metric, model };
    Ok((protects, policy))
}

impl SequenceCounter {
    /// Returns how a stream is asked and counted; `None` for another family.
    ///
    /// # Errors
    /// An invalid spec.
    pub(crate) fn of(declaration: &Declaration) -> Result<Option<Self>, DeclarationError> {
        let StreamSpec::Sequence(spec) = &declaration.spec else { return Ok(None) };
        let (mechanism, settings) = mechanism(spec)?;
        let step = settings.step().map_err(of_crr)?;
        let loss = step.checked_mul(2).ok_or_else(|| of_crr(CrrError::Budget { given: step }))?;
        let population =
            spec.population.ok_or(SpecError::Missing { key: "population", mechanism: spec.mechanism.name() });
        let (domain, length) = (spec.values()?.count(), mechanism.length());
        Ok(Some(Self { loss, domain, length, population: population?.get() }))
    }

    /// Returns the declared number of devices.
    pub(crate) const fn population(&self) -> u64 {
        self.population
    }

    /// Returns the number of timestamps between questions.
    pub(crate) const fn length(&self) -> u64 {
        self.length as u64
    }

    /// Returns the last timestamp of the batch that a timestamp belongs to, at which devices are asked.
    pub(crate) fn end(&self, timestamp: u64) -> u64 {
        (timestamp - timestamp % self.length()).saturating_add(self.length() - 1)
    }

    /// Returns the question about the batch that ends at a timestamp.
    pub(crate) const fn question(&self, timestamp: u64) -> Question {
        Question {
            timestamp,
            phase: 0,
            cohort: Cohort::Everyone,
            epsilon: self.loss,
            oracle: OracleKind::Grr,
            domain: self.domain,
            view: View::Sequence { length: self.length },
        }
    }

    /// Returns the releases of a batch: how many reports have each symbol, at each of its timestamps. The first states
    /// the largest spend of a device.
    pub(crate) fn releases(&self, timestamp: u64, count: Option<&Aggregate>) -> Vec<Release> {
        let (reports, sequences) = count.map_or((0, Vec::new()), |count| (count.reports(), count.supports()));
        let first = timestamp.saturating_sub(self.length() - 1);
        let domain = u64::from(self.domain);
        let release = |place: u32| {
            // The symbol at this place is this digit of the sequence's number, from the left.
            let unit = domain.saturating_pow(self.length - 1 - place);
            let mut symbols = vec![0_u64; self.domain as usize];
            for (number, reports) in (0_u64..).zip(&sequences) {
                #[allow(clippy::cast_possible_truncation)] // below the domain
                let symbol = (number / unit % domain) as usize;
                symbols[symbol] += reports;
            }
            #[allow(clippy::cast_precision_loss)] // a count of reports
            let counts = symbols.into_iter().map(|count| count as f64).collect();
            let statistic = Counts { counts, variances: vec![UNSTATED; self.domain as usize] }.into();
            let spent = if place == 0 { Spent::Everyone(self.loss) } else { Spent::Nothing };
            let (timestamp, freshness) = (first + u64::from(place), Freshness::Fresh);
            Release { timestamp, statistic, freshness, spent, reports, seeded: false, why: None }
        };
        (0..self.length).map(release).collect()
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use tidegate::release::Statistic;

    use super::*;

    fn declaration(more: &str) -> Declaration {
        let json = format!(
            r#"{{ "name": "visits", "tick": 10, "spec": {{ "family": "sequence", "epsilon": 1, "population": 50,
                "domain": ["home", "out"],
                "model": {{ "prior": [0.5, 0.5], "transitions": [[0.9, 0.1], [0.2, 0.8]] }}, {more} }} }}"#
        );
        serde_json::from_str(&json).unwrap()
    }

    #[test]
    fn a_batch_is_counted_symbol_by_symbol() {
        let counter = SequenceCounter::of(&declaration(r#""mechanism": "batched", "length": 3"#)).unwrap().unwrap();
        assert_eq!([0, 1, 2, 3].map(|timestamp| counter.end(timestamp)), [2, 2, 2, 5]);
        let question = counter.question(5);
        assert_eq!((question.epsilon.to_string(), question.cells()), ("2".to_owned(), 8));
        let mut count = question.oracle().unwrap().aggregate();
        for report in [0b011, 0b001, 0b111] {
            count.add(&[report]).unwrap();
        }
        let releases = counter.releases(5, Some(&count));
        let counted: Vec<_> = releases
            .iter()
            .map(|release| match &release.statistic {
                Statistic::Counts(counts) => (release.timestamp, counts.counts.clone(), release.reports),
                other => unreachable!("{other:?}"),
            })
            .collect();
        assert_eq!(counted, [(3, vec![2.0, 1.0], 3), (4, vec![1.0, 2.0], 3), (5, vec![0.0, 3.0], 3)]);
        assert_eq!(releases[0].spent.most(), Some(question.epsilon));
        assert_eq!(releases[1].spent, Spent::Nothing);
        assert_eq!(counter.releases(5, None).len(), 3, "also of a batch that nobody reported");
    }

    #[test]
    fn policies_state_the_loss_that_holds_whatever_the_model() {
        let signed = |more| declaration(more).policy([7; 16]).map(|policy| policy.unwrap());
        let policy = signed(r#""mechanism": "crr", "window": 4, "budget": 3"#).unwrap();
        assert_eq!(policy.protects.epsilon.to_string(), "6");
        assert_eq!((policy.protects.window, policy.oracle), (Window::of(4).unwrap(), None));
        let sequence = policy.sequence.unwrap();
        assert_eq!((sequence.epsilon.to_string(), sequence.loss().unwrap().to_string()), ("1".into(), "2".into()));
        // With the guarantee that needs no model, epsilon bounds local privacy itself.
        let policy = signed(r#""mechanism": "crr", "guarantee": "local""#).unwrap();
        assert_eq!(policy.protects.epsilon.to_string(), "1");
        assert_eq!(policy.sequence.unwrap().epsilon.to_string(), "0.5");
        // A window of batches is one of all their timestamps.
        let policy = signed(r#""mechanism": "batched", "length": 3, "window": 4, "budget": 3"#).unwrap();
        assert_eq!(policy.protects.window, Window::of(12).unwrap());
    }

    #[test]
    fn specs_that_devices_cannot_follow_are_refused_by_key() {
        let cases = [
            (r#""mechanism": "crr", "effort": "thorough""#, "spec.effort"),
            (r#""mechanism": "crr", "distance": { "matrix": [[0, 1], [1, 0]] }"#, "spec.distance"),
            (r#""mechanism": "batched", "length": 4, "part": 2"#, "spec.part"),
            (r#""mechanism": "batched", "length": 4, "support": 9"#, "spec.support"),
        ];
        for (more, expected) in cases {
            let refused = declaration(more).check().unwrap_err().to_string();
            assert!(refused.starts_with(expected), "{refused}");
        }
    }
}
