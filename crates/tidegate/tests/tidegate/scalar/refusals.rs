//! Rejected settings, readings and queries.

use std::num::NonZeroU64;

use tidegate::kernel::primitives::{DeviationTests, PrimitiveError, Protects};
use tidegate::kernel::{Epsilon, Grid, GridError, SeededRandom, Window};
use tidegate::post_processing::{PostProcessing, PostProcessingError};
use tidegate::query::{History, Query, QueryError};
use tidegate::release::{Freshness, Number, Release, Spent, Statistic};
use tidegate::scalar::{Publication, Scalar, ScalarError, ScalarKind, ScalarSettings, Truncation};

use super::{epsilon, settings};

#[test]
fn settings_that_cannot_be_are_refused_with_what_is_allowed() {
    let refused = |kind, settings| Scalar::new(kind, settings).unwrap_err();
    let one = epsilon("1");
    let base = settings("1", 10);
    let all = ScalarSettings { grouping: Some(one), ..base };
    assert_eq!(refused(ScalarKind::Contin, all), ScalarError::Grouping { given: one, epsilon: one });
    assert!(Scalar::new(ScalarKind::Laplace, all).is_ok());
    let labels = ScalarSettings { publication: Some(Publication::Labels), ..base };
    let expected = ScalarError::Publication { kind: ScalarKind::Contin, given: "labels" };
    assert_eq!(refused(ScalarKind::Contin, labels), expected);
    for given in [-1.0, f64::NAN, f64::INFINITY] {
        let threshold = ScalarSettings { threshold: Some(given), ..base };
        assert!(matches!(refused(ScalarKind::Contin, threshold), ScalarError::Threshold { .. }));
    }
    for percent in [0, 100] {
        let sample = Truncation { percent, ..Truncation::default() };
        let sampled = ScalarSettings { truncation: Some(sample), ..base };
        assert_eq!(refused(ScalarKind::Laplace, sampled), ScalarError::Percent { given: percent });
    }
    let protects = Protects::Contribution(NonZeroU64::MIN);
    let contributed = ScalarSettings { truncation: Some(Truncation::default()), protects, ..base };
    assert_eq!(refused(ScalarKind::Laplace, contributed), ScalarError::TruncatedContribution);
    for buckets in [0, 1, 102] {
        let bucketed = ScalarSettings { buckets: Some(buckets), ..base };
        assert!(matches!(refused(ScalarKind::Bucorder, bucketed), ScalarError::Primitive(_)), "{buckets}");
    }
    let too_wide = ScalarSettings::new(one, Grid::new(0.0, 1.0, 1e-9).unwrap(), 100);
    assert!(matches!(refused(ScalarKind::Discontin, too_wide), ScalarError::Primitive(PrimitiveError::Scale(_))));
    let long = ScalarSettings::new(one, Grid::new(0.0, 1.0, 1.0).unwrap(), u32::MAX);
    let expected = PrimitiveError::Batch { given: 1 << 32, most: DeviationTests::MAX_BATCH };
    assert_eq!(refused(ScalarKind::Discontin, long), ScalarError::Primitive(expected));
    let longest = ScalarSettings { delay: (1 << 20) - 1, ..long };
    assert!(Scalar::new(ScalarKind::Discontin, longest).is_ok());
    let tiny = ScalarSettings { epsilon: Epsilon::MIN, ..base };
    assert!(matches!(refused(ScalarKind::Contin, tiny), ScalarError::Grouping { .. }));
}

#[test]
fn rejects_bad_readings_and_earlier_timestamps() {
    let mut mechanism = Scalar::new(ScalarKind::Contin, settings("1", 10)).unwrap();
    for reading in [f64::NAN, f64::INFINITY, -0.1, 100.1] {
        assert_eq!(mechanism.seal(0, reading).err(), Some(GridError::Reading { low: 0.0, high: 100.0 }));
    }
    let random = &mut SeededRandom::new(1);
    mechanism.push(mechanism.seal(5, 3.0).unwrap(), random).unwrap();
    for timestamp in [4, 5] {
        let late = mechanism.push(mechanism.seal(timestamp, 3.0).unwrap(), random).unwrap_err();
        assert_eq!(late, ScalarError::Time { given: timestamp, last: 5 });
    }
    assert_eq!(mechanism.waiting(), 1);
}

#[test]
fn parses_names_and_rejects_unknown_ones() {
    for kind in ScalarKind::ALL {
        assert_eq!(kind.name().parse(), Ok(kind));
        assert_eq!(serde_json::to_string(&kind).unwrap(), format!("{:?}", kind.name()));
    }
    let message = "lpa".parse::<ScalarKind>().unwrap_err().to_string();
    assert!(ScalarKind::ALL.iter().all(|kind| message.contains(kind.name())), "{message}");
}

#[test]
fn queries_and_repairs_of_frequencies_refuse_numbers() {
    let statistic = Statistic::from(Number { value: 3.0, variance: 1.0 });
    assert_eq!((statistic.domain(), statistic.leaves()), (0, (&[][..], &[][..])));
    let release = Release {
        timestamp: 4,
        statistic: statistic.clone(),
        freshness: Freshness::Fresh,
        spent: Spent::Nothing,
        reports: 1,
        seeded: false,
        why: None,
    };
    let mut history = History::new(Window::EVENT, 10).unwrap();
    assert_eq!(history.push(release.clone(), None), Ok(()));
    assert!(matches!(history.answer(&Query::counting(0, 1)), Err(QueryError::OtherUnit { .. })));
    for repair in [PostProcessing::Clip, PostProcessing::Consistency, PostProcessing::NormSub] {
        assert_eq!(repair.apply(&statistic), Err(PostProcessingError::NotFrequencies));
    }
    let unsound = Statistic::from(Number { value: f64::NAN, variance: 1.0 });
    assert!(matches!(
        history.push(Release { statistic: unsound, ..release }, None),
        Err(QueryError::BadRelease { .. })
    ));
}
