//! [`Why`]: why a release is as it is.
//!
//! **It costs no privacy.** Each number in it is one of four: a setting; an amount that a ledger granted, which follows
//! from earlier releases; an output of the kernel that was paid for at this timestamp, such as a noisy distance or an
//! estimate from randomised reports; or a number of reports of devices, which is public. The rest is computed from
//! these, as every decision of a mechanism is. So the loss is that of the release (post-processing, Dwork and Roth
//! 2014, proposition 2.1). What a mechanism draws and does not publish, such as a noisy threshold, is never in it.

use std::collections::BTreeMap;

use serde::de::Error as _;
use serde::ser::{Error as _, SerializeStruct as _};
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use tidegate_kernel::oracle::OracleKind;
use tidegate_kernel::{Cohort, Epsilon};

use super::{Freshness, Release, Spent, readable_variance};

/// Why a release is as it is, from settings, grants and what was paid for: see [the module](self).
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Why {
    /// The decision.
    pub reason: Reason,
    /// What was asked or measured, and paid for.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub asked: Vec<Paid>,
    /// Estimated change since the last publication.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub dissimilarity: Option<f64>,
    /// Error of a publication that it was compared with, as far as the mechanism could tell.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<f64>,
    /// Unit of both.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub measure: Option<Measure>,
    /// Publishes once in so many timestamps.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub every: Option<u64>,
}

/// Decision behind a release.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Reason {
    /// The schedule publishes at this timestamp.
    Schedule,
    /// The schedule publishes at another timestamp.
    Between,
    /// The change exceeds the error of publishing.
    Changed,
    /// The change does not exceed the error of publishing.
    Unchanged,
    /// There was nothing to compare with.
    First,
    /// An earlier publication took the budget of this timestamp.
    Absorbed,
    /// The window had nothing left to publish with.
    NoBudget,
    /// Too few devices answered.
    NoReports,
    /// Another timestamp of the window is expected to be worth more.
    Allocation,
    /// A histogram of the budget that watches; no exact one is due.
    Watched,
    /// An exact histogram was due.
    Exact,
    /// The reserve was spent, because the estimate was too uncertain, as after a jump.
    Reserve,
    /// Nothing was published, and the estimate goes on.
    Forecast,
    /// Each reading has a budget of its own.
    Reading,
    /// Decided with noise of which nothing else may be shown.
    Held,
    /// Budget was spent.
    Spent,
    /// No budget was spent.
    Unspent,
}

/// Unit of a dissimilarity.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Measure {
    /// Mean squared difference of frequencies.
    MeanSquare,
    /// Mean absolute difference of counts.
    MeanDistance,
    /// Squared difference of means, in the squared unit of the numbers.
    SquaredMean,
}

/// What users paid for at a timestamp.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Paid {
    /// What for.
    pub purpose: Purpose,
    /// Amount that each user spent who was asked.
    pub epsilon: Epsilon,
    /// Share of the population that was asked.
    pub share: f64,
    /// Number of questions, each to another part of those who were asked.
    pub questions: usize,
    /// How devices randomised, if all did alike.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub oracle: Option<OracleKind>,
    /// Number of reports of devices.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reports: Option<u64>,
    /// Class whose members were asked.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub class: Option<u32>,
    /// Number of classes whose members were asked, each with this amount, where there are too many to list.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub classes: Option<usize>,
}

/// Most classes of which each is listed.
const MAX_CLASSES: usize = 64;

/// What budget was spent for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Purpose {
    /// To measure how much the stream has changed.
    Measure,
    /// To publish.
    Publish,
    /// To publish, from the reserve.
    Reserve,
}

impl Paid {
    /// A curator's spend, of everyone.
    pub(crate) const fn by_curator(purpose: Purpose, epsilon: Epsilon) -> Self {
        Self { purpose, epsilon, share: 1.0, questions: 1, oracle: None, reports: None, class: None, classes: None }
    }

    /// A curator's spends, by class. Of many classes, those that spend the same amount are counted.
    pub(crate) fn by_class(purpose: Purpose, spends: &[(u32, Epsilon)]) -> Vec<Self> {
        if spends.len() <= MAX_CLASSES {
            let of_one = |&(class, epsilon): &(u32, Epsilon)| {
                let class = Some(class);
                Self { class, ..Self::by_curator(purpose, epsilon) }
            };
            return spends.iter().map(of_one).collect();
        }
        let mut by_amount: BTreeMap<u64, (Epsilon, usize)> = BTreeMap::new();
        for (_, epsilon) in spends {
            by_amount.entry(epsilon.units()).or_insert((*epsilon, 0)).1 += 1;
        }
        let of_many = |(epsilon, count)| Self { classes: Some(count), ..Self::by_curator(purpose, epsilon) };
        by_amount.into_values().map(of_many).collect()
    }

    /// A question to the devices of a cohort.
    pub(crate) fn of_devices(
        purpose: Purpose,
        cohort: Cohort,
        epsilon: Epsilon,
        oracle: OracleKind,
        reports: u64,
    ) -> Self {
        let (share, oracle, reports) = (cohort.share(), Some(oracle), Some(reports));
        Self { purpose, epsilon, share, questions: 1, oracle, reports, class: None, classes: None }
    }
}

impl Why {
    /// A reason without numbers.
    pub const fn new(reason: Reason) -> Self {
        Self { reason, asked: Vec::new(), dissimilarity: None, error: None, measure: None, every: None }
    }

    /// The schedule, which publishes once in so many timestamps.
    pub(crate) fn schedule(publishes: bool, every: u64) -> Self {
        let reason = if publishes { Reason::Schedule } else { Reason::Between };
        Self { every: Some(every), ..Self::new(reason) }
    }

    /// With what was paid for.
    #[must_use]
    pub(crate) fn asked(self, asked: Vec<Paid>) -> Self {
        Self { asked, ..self }
    }

    /// With what was compared. An error or a change that is not known is left out.
    #[must_use]
    pub(crate) fn compared(self, measure: Measure, dissimilarity: Option<f64>, error: Option<f64>) -> Self {
        let known = |number: Option<f64>| number.filter(|number| number.is_finite()).map(readable_variance);
        let (dissimilarity, error) = (known(dissimilarity), known(error));
        let measure = Some(measure).filter(|_| dissimilarity.is_some() || error.is_some());
        Self { dissimilarity, error, measure, ..self }
    }
}

impl Why {
    /// The same about a mean: what was compared are shares of a squared range.
    #[must_use]
    pub(crate) fn of_mean(self, squared_range: f64) -> Self {
        let scaled = |share: Option<f64>| share.map(|share| readable_variance(share * squared_range));
        let (dissimilarity, error) = (scaled(self.dissimilarity), scaled(self.error));
        Self { dissimilarity, error, measure: self.measure.map(|_| Measure::SquaredMean), ..self }
    }
}

impl Serialize for Release {
    /// In JSON, a reason that is not there is left out. Binary formats, which leave out nothing, have it as JSON.
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let is_text = serializer.is_human_readable();
        let Self { timestamp, statistic, freshness, spent, reports, seeded, why } = self;
        let length = if is_text && why.is_none() { 6 } else { 7 };
        let mut fields = serializer.serialize_struct("Release", length)?;
        fields.serialize_field("timestamp", timestamp)?;
        fields.serialize_field("statistic", statistic)?;
        fields.serialize_field("freshness", freshness)?;
        fields.serialize_field("spent", spent)?;
        fields.serialize_field("reports", reports)?;
        fields.serialize_field("seeded", seeded)?;
        match why {
            None if is_text => fields.skip_field("why")?,
            Some(why) if is_text => fields.serialize_field("why", why)?,
            why => {
                let text = why.as_ref().map(serde_json::to_string).transpose().map_err(S::Error::custom)?;
                fields.serialize_field("why", &text)?;
            }
        }
        fields.end()
    }
}

/// Reads a reason.
pub(super) fn read<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Box<Why>>, D::Error> {
    if deserializer.is_human_readable() {
        return Option::deserialize(deserializer);
    }
    let text = Option::<String>::deserialize(deserializer)?;
    text.as_deref().map(serde_json::from_str).transpose().map_err(D::Error::custom)
}

impl Release {
    /// The release with a reason.
    #[must_use]
    pub(crate) fn because(self, why: Why) -> Self {
        Self { why: Some(Box::new(why)), ..self }
    }

    /// The release with a reason: its own, or what its cost tells. `reason` is that of a mechanism which gives none.
    #[must_use]
    pub fn explained(self, reason: Option<Reason>) -> Self {
        if self.why.is_some() {
            return self;
        }
        let asked = match &self.spent {
            Spent::Nothing => Vec::new(),
            Spent::Everyone(epsilon) => vec![Paid::by_curator(Purpose::Publish, *epsilon)],
            Spent::Slots { count, first, epsilon } => {
                let cohort = Cohort::Slots { first: *first, count: *count };
                vec![Paid { share: cohort.share(), ..Paid::by_curator(Purpose::Publish, *epsilon) }]
            }
            Spent::Classes(classes) => {
                let spends: Vec<_> = classes.iter().map(|spend| (spend.class, spend.epsilon)).collect();
                Paid::by_class(Purpose::Publish, &spends)
            }
        };
        let by_cost = match (&self.freshness, asked.is_empty()) {
            (Freshness::Nullified, _) => Reason::Absorbed,
            (_, true) => Reason::Unspent,
            (_, false) => Reason::Spent,
        };
        self.because(Why::new(reason.unwrap_or(by_cost)).asked(asked))
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use crate::release::{Number, UNSTATED};

    fn release(spent: Spent, freshness: Freshness) -> Release {
        let statistic = Number { value: 1.0, variance: UNSTATED }.into();
        Release { timestamp: 3, statistic, freshness, spent, reports: 0, seeded: false, why: None }
    }

    #[test]
    fn a_release_without_a_reason_is_explained_by_its_cost() {
        let epsilon: Epsilon = "0.5".parse().unwrap();
        let slots = Spent::Slots { first: 0, count: 16_384, epsilon };
        for (spent, freshness, reason, share) in [
            (Spent::Nothing, Freshness::Approximated, Reason::Unspent, None),
            (Spent::Nothing, Freshness::Nullified, Reason::Absorbed, None),
            (Spent::Everyone(epsilon), Freshness::Fresh, Reason::Spent, Some(1.0)),
            (slots, Freshness::Fresh, Reason::Spent, Some(0.25)),
        ] {
            let why = release(spent, freshness).explained(None).why.unwrap();
            assert_eq!((why.reason, why.asked.first().map(|asked| asked.share)), (reason, share));
        }
        let own = release(Spent::Nothing, Freshness::Fresh).because(Why::new(Reason::First));
        assert_eq!(own.clone().explained(Some(Reason::Held)), own);
    }

    #[test]
    fn many_classes_are_counted_by_amount() {
        let (low, high): (Epsilon, Epsilon) = ("0.25".parse().unwrap(), "0.5".parse().unwrap());
        let spends = |count: u32| Spent::by_class((0..count).map(|class| (class, if class == 7 { high } else { low })));
        let asked = |count| release(spends(count), Freshness::Fresh).explained(None).why.unwrap().asked;
        let few = asked(64);
        assert_eq!((few.len(), few[7].class, few[7].epsilon, few[7].classes), (64, Some(7), high, None));
        let many: Vec<_> = asked(65_535).iter().map(|paid| (paid.epsilon, paid.class, paid.classes)).collect();
        assert_eq!(many, [(low, None, Some(65_534)), (high, None, Some(1))]);
    }

    #[test]
    fn a_release_of_an_earlier_version_has_no_reason() {
        let old = serde_json::to_string(&release(Spent::Nothing, Freshness::Fresh)).unwrap();
        assert!(!old.contains("why"));
        assert_eq!(serde_json::from_str::<Release>(&old).unwrap().why, None);
        let new = release(Spent::Nothing, Freshness::Fresh).because(Why::new(Reason::Changed).compared(
            Measure::MeanSquare,
            Some(0.5),
            Some(f64::INFINITY),
        ));
        let text = serde_json::to_string(&new).unwrap();
        assert!(text.contains(r#""why":{"reason":"changed","dissimilarity":0.5,"measure":"mean_square"}"#), "{text}");
        assert_eq!(serde_json::from_str::<Release>(&text).unwrap(), new);
        let bytes = postcard::to_allocvec(&new).unwrap();
        assert_eq!(postcard::from_bytes::<Release>(&bytes).unwrap(), new);
    }
}
