//! The mechanisms in which each class of users has a guarantee of its own: accounts, choice of budgets, estimators,
//! state.

use std::num::NonZeroU64;

use tidegate::central::budget_selection::{sampling_error, select};
use tidegate::central::classes::{Classes, Requirement};
use tidegate::central::stratified::{Differences, Group, Offers, estimate, expected_error, group};
use tidegate::central::{CentralError, Estimator, Personal, PersonalKind, PersonalSettings};
use tidegate::kernel::oracle::OracleKind;
use tidegate::kernel::primitives::{
    ClassHistograms, Neighbours, common_unit, histogram_noise, sampling_probability, seal_class_histograms,
};
use tidegate::kernel::simulation::{estimate_of, multinomial};
use tidegate::kernel::{Epsilon, Sealed, SeededRandom};
use tidegate::local::plbu::Plbu;
use tidegate::release::{Freshness, Release};

use crate::central::{check_laplace, counts_of, fullest_window, measured_distance, spent_at};
use crate::support::bytes;

const ESTIMATORS: [Estimator; 2] = [Estimator::Sampling, Estimator::Stratified];

fn epsilon(text: &str) -> Epsilon {
    text.parse().unwrap()
}

pub fn classes(requirements: &[(&str, u64)]) -> Classes {
    let requirement = |(budget, window): &(&str, u64)| Requirement {
        epsilon: epsilon(budget),
        window: NonZeroU64::new(*window).unwrap(),
    };
    Classes::numbered(&requirements.iter().map(requirement).collect::<Vec<_>>()).unwrap()
}

fn settings(domain: u32, estimator: Estimator) -> PersonalSettings {
    PersonalSettings { estimator, ..PersonalSettings::new(domain) }
}

fn seal(mechanism: &Personal, timestamp: u64, classes: usize, counts: Vec<u64>) -> Sealed<ClassHistograms> {
    let numbers: Vec<u32> = (0..classes as u32).collect();
    ClassHistograms::seal(mechanism.ledgers().account(), timestamp, &numbers, counts).unwrap()
}

fn push(
    mechanism: &mut Personal,
    timestamp: u64,
    members: &[u64],
    counts: Vec<u64>,
    random: &mut SeededRandom,
) -> Release {
    let sealed = seal(mechanism, timestamp, members.len(), counts);
    let mut releases = mechanism.push(&sealed, members, random).unwrap();
    assert_eq!(releases.len(), 1);
    releases.remove(0)
}

/// What each class has spent at a timestamp.
pub fn spends_at(mechanism: &Personal, timestamp: u64) -> Vec<u64> {
    mechanism.ledgers().iter().map(|(_, ledger)| spent_at(ledger, timestamp)).collect()
}

fn save(mechanism: &Personal) -> Vec<u8> {
    postcard::to_allocvec(mechanism).unwrap()
}

fn load(bytes: &[u8]) -> Personal {
    postcard::from_bytes(bytes).unwrap()
}

#[test]
fn budget_selection_reproduces_example_2() {
    let budgets = ["0.1", "0.4", "0.8"].map(|budget| Some(epsilon(budget)));
    let error =
        |threshold: &str| sampling_error(&budgets, &[2, 5, 3], epsilon(threshold), 1, Neighbours::AddRemove).error;
    assert!((error("0.1") - 200.0).abs() < 0.005);
    assert!((error("0.4") - 15.31).abs() < 0.005);
    // The paper prints 89.74, which its own formula does not give.
    assert!((error("0.8") - 27.73).abs() < 0.005);
    let best = select(&budgets, &[2, 5, 3], 1, Neighbours::AddRemove).unwrap();
    assert_eq!((best.threshold, best.error), (epsilon("0.4"), error("0.4")));
}

#[test]
fn budget_selection_reads_the_registration_and_skips_those_who_have_nothing() {
    // With four careful users registered the threshold is that of the others, with five it is theirs: so it must not
    // depend on who is there.
    let budgets = [Some(epsilon("0.4")), Some(epsilon("0.8"))];
    let of = |members: &[u64]| select(&budgets, members, 1, Neighbours::AddRemove).unwrap();
    assert_eq!(of(&[4, 7]).threshold, epsilon("0.8"));
    assert!((of(&[4, 7]).error - 9.82).abs() < 0.005);
    assert_eq!(of(&[5, 7]).threshold, epsilon("0.4"));
    assert!((of(&[5, 7]).error - 12.5).abs() < 0.005);
    let exhausted = select(&[None, Some(epsilon("0.8"))], &[4, 7], 1, Neighbours::AddRemove).unwrap();
    assert_eq!((exhausted.threshold, exhausted.kept), (epsilon("0.8"), vec![0.0, 1.0]));
    assert_eq!(select(&[None, None], &[4, 7], 1, Neighbours::AddRemove), None);
    // A class without members does not set the threshold.
    assert_eq!(of(&[5, 0]).threshold, epsilon("0.4"));
    // A count's share of the bias is a d-th of the total's.
    let at = |domain| sampling_error(&budgets, &[4, 7], epsilon("0.8"), domain, Neighbours::AddRemove).error;
    assert!(at(10) < at(1) && at(10) > 2.0 / 0.64);
    let replace = sampling_error(&budgets, &[4, 7], epsilon("0.8"), 1, Neighbours::Replace);
    assert!(replace.error > at(1) && replace.kept[0] < 1.0);
}

#[test]
fn no_class_exceeds_its_window_under_any_sequence_of_decisions() {
    // As for the mechanisms with one guarantee: a stream that stands still against one that jumps, from the saved
    // state, over one value.
    struct Search {
        members: Vec<u64>,
        end: u64,
        random: SeededRandom,
        leaves: usize,
        fullest: Vec<f64>,
    }
    fn explore(search: &mut Search, bytes: &[u8], high: bool, timestamp: u64, spends: &mut Vec<Vec<u64>>) {
        if timestamp == search.end {
            search.leaves += 1;
            let mechanism = load(bytes);
            for (class, declared) in mechanism.classes().all().iter().enumerate() {
                let Requirement { epsilon, window } = declared.requirement;
                let of_class: Vec<u64> = spends.iter().map(|spends| spends[class]).collect();
                let fullest = fullest_window(&of_class, window.get());
                assert!(fullest <= epsilon.units(), "class {class}: {of_class:?}");
                search.fullest[class] = search.fullest[class].max(fullest as f64 / epsilon.units() as f64);
            }
            return;
        }
        for publish in [false, true] {
            for _ in 0..40 {
                let mut mechanism = load(bytes);
                let now = publish != high;
                let counts = search.members.iter().map(|members| if now { 20 * members } else { 0 }).collect();
                let release = push(&mut mechanism, timestamp, &search.members, counts, &mut search.random);
                if (release.freshness == Freshness::Fresh) == publish {
                    spends.push(spends_at(&mechanism, timestamp));
                    explore(search, &save(&mechanism), now, timestamp + 1, spends);
                    spends.pop();
                    break;
                }
            }
        }
    }
    let with_events = [("0.5", 1), ("1", 2), ("0.7", 3), ("1", 5)];
    let without = [("0.3", 2), ("1", 3), ("0.6", 5)];
    for (requirements, end) in [(&with_events[..], 8), (&without, 9)] {
        for kind in PersonalKind::ALL {
            for estimator in ESTIMATORS {
                let declared = classes(requirements);
                let mechanism = Personal::new(kind, declared, settings(1, estimator)).unwrap();
                let members = [300, 200, 400, 100][..requirements.len()].to_vec();
                let random = SeededRandom::new(11);
                let mut search = Search { members, end, random, leaves: 0, fullest: vec![0.0; requirements.len()] };
                explore(&mut search, &save(&mechanism), false, 0, &mut Vec::new());
                let all = 1 << (end - 1);
                // Both decisions are found nearly everywhere, but for timestamps at which nobody has anything left.
                assert!(search.leaves <= all && search.leaves >= all / 4, "{kind} {estimator:?}: {}", search.leaves);
                let fullest = search.fullest.iter().copied().fold(0.0, f64::max);
                assert!(fullest > 0.9, "{kind} {estimator:?}: windows are hardly used, at most {fullest}");
            }
        }
    }
}

/// Errata of the paper: nobody is exposed to more than the threshold, so what measuring does not need is there to
/// publish with.
#[test]
fn what_measuring_does_not_use_is_left_for_publishing() {
    let declared = classes(&[("0.2", 120), ("0.6", 80), ("1", 40)]);
    let mechanism = || Personal::new(PersonalKind::Pbd, declared.clone(), settings(1, Estimator::Sampling)).unwrap();
    // With these members the threshold of measuring is the share of the second class, 0.6 / 160.
    let members = [1, 1_000, 300];
    let shares = [("0.2", 240), ("0.6", 160), ("1", 80)].map(|(budget, parts)| epsilon(budget).divided_by(parts));
    let threshold = select(&shares, &members, 1, Neighbours::AddRemove).unwrap().threshold;
    assert_eq!(threshold, epsilon("0.00375"));
    // The first publication offers half of 0.1, 0.3 and 0.85. The threshold of publishing is 0.15; nobody spends more.
    let mut mechanism = mechanism();
    push(&mut mechanism, 0, &members, vec![1_000_000; 3], &mut SeededRandom::new(12));
    let spent = spends_at(&mechanism, 0);
    assert!(
        (spent[0] as i64 - 50_000_000).abs() < 100 && spent[1] == 150_000_000 && spent[2] == 150_000_000,
        "{spent:?}"
    );
    // The paper would count 0.25 as spent by the third class; here the rest is offered again: half of 0.85 - 0.15.
    let release = push(&mut mechanism, 1, &[0, 0, 300], vec![0, 0, 9_000_000_000], &mut SeededRandom::new(13));
    assert_eq!(release.freshness, Freshness::Fresh);
    let publishing = spends_at(&mechanism, 1)[2] - 12_500_000;
    assert_eq!(publishing, (500_000_000 - 150_000_000) / 2, "alone, the class measures with its own share of 0.0125");
}

/// As for `ba`, but that the first timestamp has one share: an implementation that forgets to record its last
/// publication would take more, and have no nullified timestamps.
#[test]
fn personalised_absorption_pays_back_what_it_borrowed() {
    use Freshness::{Approximated, Fresh, Nullified};
    for estimator in ESTIMATORS {
        let mut mechanism = Personal::new(PersonalKind::Pba, classes(&[("1", 5)]), settings(20, estimator)).unwrap();
        let mut random = SeededRandom::new(23);
        let (share, mut seen, mut standing) = (100_000_000, Vec::new(), vec![1_000; 20]);
        for timestamp in 0..10 {
            // It stands still at 3 and 4, at what was released.
            let jumps = !(3..=4).contains(&timestamp);
            let counts = standing.iter().map(|count: &u64| if jumps { count ^ (1 << 20) } else { *count }).collect();
            let release = push(&mut mechanism, timestamp, &[1_000], counts, &mut random);
            standing = counts_of(&release).counts.iter().map(|count| count.round().max(0.0) as u64).collect();
            let measured = if timestamp == 0 { 0 } else { share };
            seen.push(((spends_at(&mechanism, timestamp)[0] - measured) / share, release.freshness));
        }
        // 5 takes the shares of 3 and 4, and borrows those of 6 and 7.
        let standing = [(0, Approximated), (0, Approximated), (3, Fresh), (0, Nullified), (0, Nullified)];
        assert_eq!(seen, [&[(1, Fresh); 3][..], &standing, &[(1, Fresh); 2]].concat(), "{estimator:?}");
    }
}

/// The paper nullifies a timestamp for all if one user has borrowed it. Here each class pays back for itself.
#[test]
fn a_class_with_a_long_window_does_not_hold_up_one_with_a_short_window() {
    for estimator in ESTIMATORS {
        let declared = classes(&[("1", 40), ("1", 2)]);
        let mut mechanism = Personal::new(PersonalKind::Pba, declared, settings(4, estimator)).unwrap();
        let (mut random, members) = (SeededRandom::new(14), [1_000, 1_000]);
        let mut fresh = Vec::new();
        for timestamp in 0..60 {
            // It stands still until 20, then jumps at each timestamp.
            let count = if timestamp < 20 { 1_000 } else { 1_000_000 * (1 + timestamp % 2) };
            let release = push(&mut mechanism, timestamp, &members, vec![count; 8], &mut random);
            if timestamp > 20 {
                fresh.push(release.freshness == Freshness::Fresh);
            }
        }
        assert!(fresh.iter().filter(|fresh| **fresh).count() >= 19, "{estimator:?}: {fresh:?}");
    }
}

#[test]
fn state_saved_between_any_two_timestamps_goes_on_bit_for_bit() {
    for kind in PersonalKind::ALL {
        for estimator in ESTIMATORS {
            for neighbours in [Neighbours::AddRemove, Neighbours::Replace] {
                let drive = |interrupted: bool| {
                    let declared = classes(&[("0.5", 4), ("1", 2), ("2", 3)]);
                    let settings = PersonalSettings { neighbours, ..settings(3, estimator) };
                    let mut mechanism = Personal::new(kind, declared, settings).unwrap();
                    let mut random = SeededRandom::new(15);
                    let mut releases = Vec::new();
                    for timestamp in 0..40 {
                        let count = if timestamp % 5 == 0 { 3_000 } else { 1_000 };
                        let members = [3 * count, if timestamp % 7 == 0 { 0 } else { 500 }, 900];
                        let counts = vec![count, count, count, 50, 100, 350, 300, 300, 300];
                        releases.push(push(&mut mechanism, timestamp, &members, counts, &mut random));
                        if interrupted {
                            mechanism = load(&save(&mechanism));
                            mechanism = serde_json::from_str(&serde_json::to_string(&mechanism).unwrap()).unwrap();
                        }
                    }
                    assert!(mechanism.finish().is_empty());
                    releases
                };
                assert_eq!(drive(false), drive(true), "{kind} {estimator:?}");
            }
        }
    }
}

const NEIGHBOURS: [(Neighbours, u64); 2] = [(Neighbours::AddRemove, 1), (Neighbours::Replace, 2)];

/// With one class nothing is sampled or shrunk: what is left is the noise.
#[test]
fn the_first_release_and_the_measured_distance_have_the_noise_of_either_kind_of_neighbours() {
    for (kind, estimator) in VARIANTS {
        for (neighbours, sensitivity) in NEIGHBOURS {
            let what = format!("{kind} {estimator:?} {neighbours:?}");
            let mut random = SeededRandom::new(42);
            let settings = PersonalSettings { neighbours, ..settings(100, estimator) };
            let members = [100_000];
            let new = || Personal::new(kind, classes(&[("1", 2)]), settings).unwrap();
            // Distribution spends half of the half that publishes at first; absorption half of it, too, in a window of
            // two.
            let scale = 4.0 * sensitivity as f64;
            let errors: Vec<f64> = (0..80)
                .flat_map(|_| {
                    let release = push(&mut new(), 0, &members, vec![1_000; 100], &mut random);
                    counts_of(&release).counts.iter().map(|count| count - 1_000.0).collect::<Vec<f64>>()
                })
                .collect();
            check_laplace(&errors, scale, &format!("{what}: first release"));

            let mut mechanism = new();
            let first = push(&mut mechanism, 0, &members, vec![1_000; 100], &mut random);
            let stated = counts_of(&first).variances[0];
            assert!((stated / (2.0 * scale * scale) - 1.0).abs() < 0.02, "{what}: {stated}");
            let shift = 5 * sensitivity;
            let moved: Vec<u64> = counts_of(&first).counts.iter().map(|count| count.round() as u64 + shift).collect();
            let saved = save(&mechanism);
            let noise: Vec<f64> = (0..8_000)
                .map(|_| {
                    let repeated = push(&mut load(&saved), 1, &members, moved.clone(), &mut random);
                    assert_eq!(repeated.freshness, Freshness::Approximated, "{what}");
                    100.0 * (measured_distance(&first, &repeated) - shift as f64)
                })
                .collect();
            // A quarter of epsilon measures.
            check_laplace(&noise, 4.0 * sensitivity as f64, &format!("{what}: distance"));
        }
    }
}

/// Mean and variance of a count of which a part is of a class that is sampled: chance of a false alarm below 10⁻⁶ for
/// each check.
#[test]
fn a_careful_class_is_sampled_for_either_kind_of_neighbours() {
    for kind in PersonalKind::ALL {
        for (neighbours, _) in NEIGHBOURS {
            let mut random = SeededRandom::new(43);
            let settings = PersonalSettings { neighbours, ..settings(100, Estimator::Sampling) };
            let declared = classes(&[("0.4", 2), ("1", 2)]);
            let errors: Vec<f64> = (0..200)
                .flat_map(|_| {
                    let mut mechanism = Personal::new(kind, declared.clone(), settings).unwrap();
                    let counts = [vec![10; 100], vec![1_000; 100]].concat();
                    let release = push(&mut mechanism, 0, &[100, 100_000], counts, &mut random);
                    // What measuring leaves to the second class makes its offer depend on the first; a hundred members
                    // change nothing.
                    assert_eq!(spends_at(&mechanism, 0), [100_000_000, 250_000_000]);
                    counts_of(&release).counts.iter().map(|count| count - 1_000.0).collect::<Vec<f64>>()
                })
                .collect();
            let n = errors.len() as f64;
            let kept = sampling_probability(neighbours, epsilon("0.1"), epsilon("0.25")).unwrap();
            let noise = histogram_noise(neighbours, NonZeroU64::MIN, epsilon("0.25")).unwrap().laplace_variance();
            let variance = 10.0 * kept * (1.0 - kept) + noise;
            let mean = errors.iter().sum::<f64>() / n;
            let square = errors.iter().map(|error| (error - 10.0 * kept).powi(2)).sum::<f64>() / n;
            assert!((mean - 10.0 * kept).abs() < 5.0 * (variance / n).sqrt(), "{kind} {neighbours:?}: {mean}");
            // Of noise and a binomial number the fourth moment is at most that of noise alone.
            let spread = 5.0 * variance * (5.0 / n).sqrt();
            assert!((square - variance).abs() < spread, "{kind} {neighbours:?}: {square}, not {variance}");
            assert!((square + 0.21 * noise - variance).abs() > spread, "a scale wrong by 10 % would pass");
        }
    }
}

/// The mean and mean squared error of the first release over many runs, in cell 0, and what was stated.
fn first_release(estimator: Estimator, members: [u64; 3], of: impl Fn(&mut SeededRandom) -> Vec<u64>) -> [f64; 3] {
    let declared = classes(&[("0.2", 1), ("1", 1), ("2", 1)]);
    let mut random = SeededRandom::new(16);
    let (runs, mut sum, mut squares, mut stated) = (4_000, 0.0, 0.0, 0.0);
    for _ in 0..runs {
        let counts = of(&mut random);
        let domain = counts.len() / 3;
        let truth: Vec<u64> =
            (0..domain).map(|cell| counts[cell] + counts[domain + cell] + counts[2 * domain + cell]).collect();
        let mut mechanism =
            Personal::new(PersonalKind::Pba, declared.clone(), settings(domain as u32, estimator)).unwrap();
        let release = push(&mut mechanism, 0, &members, counts, &mut random);
        let counts = counts_of(&release);
        sum += counts.counts[0] - truth[0] as f64;
        let errors = counts.counts.iter().zip(&truth).map(|(count, truth)| (count - *truth as f64).powi(2));
        squares += errors.sum::<f64>() / domain as f64;
        stated += counts.variances.iter().sum::<f64>() / domain as f64;
    }
    [sum, squares, stated].map(|sum| sum / f64::from(runs))
}

/// Users of all classes draw their values from one distribution.
fn alike(members: [u64; 3], random: &mut SeededRandom) -> Vec<u64> {
    let weights = [4.0, 3.0, 2.0, 1.0, 1.0, 1.0, 1.0, 1.0];
    members.iter().flat_map(|members| multinomial(*members, &weights, random).unwrap()).collect()
}

#[test]
fn the_stratified_estimate_has_about_the_stated_error_and_is_unbiased_for_classes_that_are_alike() {
    let members = [3_000, 2_000, 1_000];
    let [mean, error, stated] = first_release(Estimator::Stratified, members, |random| alike(members, random));
    // Of 4,000 runs with a standard deviation of about 25 each, the mean is within five standard errors.
    assert!(mean.abs() < 2.0, "{mean}");
    assert!((error / stated - 1.0).abs() < 0.15, "{error} {stated}");
    // Everyone at the careful class's budget of 0.1 for publishing would have 200.
    assert!(error < 180.0, "{error}");
}

#[test]
fn the_stratified_estimate_notices_classes_that_differ() {
    // The careful class holds other values than the rest, whatever the others say.
    let members = [3_000, 2_000, 1_000];
    let differ = |_: &mut SeededRandom| {
        vec![3_000, 0, 0, 0, 0, 0, 0, 0, 250, 250, 250, 250, 250, 250, 250, 250, 125, 125, 125, 125, 125, 125, 125, 125]
    };
    let [mean, error, _] = first_release(Estimator::Stratified, members, differ);
    assert!(mean.abs() < 5.0, "{mean}");
    assert!(error < 230.0, "hardly more than the noise of the careful class: {error}");
}

#[test]
fn a_sample_has_the_bias_and_error_that_were_foreseen() {
    let members = [300, 2_000, 1_000];
    // Everyone in one cell of one, so that the foreseen error is exact.
    let [mean, error, stated] = first_release(Estimator::Sampling, members, |_| members.to_vec());
    let offers = ["0.1", "0.5", "1"].map(|offer| Some(epsilon(offer)));
    let selection = select(&offers, &members, 1, Neighbours::AddRemove).unwrap();
    let bias: f64 = selection.kept.iter().zip(members).map(|(p, members)| (1.0 - p) * members as f64).sum();
    assert!((mean + bias).abs() < 5.0 * (stated / 4_000.0).sqrt() + 1e-9, "{mean} {bias}");
    assert!((error / stated - 1.0).abs() < 0.15, "{error} {stated}");
}

#[test]
fn on_classes_that_are_alike_the_stratified_estimator_beats_sampling() {
    for members in [[60, 80, 60], [600, 800, 600], [6_000, 8_000, 6_000], [50_000, 900, 40]] {
        let of = |estimator| first_release(estimator, members, |random| alike(members, random))[1];
        let (sampled, stratified) = (of(Estimator::Sampling), of(Estimator::Stratified));
        assert!(stratified < 1.02 * sampled, "{members:?}: {stratified} {sampled}");
    }
}

#[test]
fn classes_are_merged_where_that_lowers_the_error() {
    let budgets = ["0.5", "0.5", "1", "8"].map(|budget| Some(epsilon(budget)));
    let unknown = Differences::unknown(4, 10);
    let group_of = |budgets: &[Option<Epsilon>], members: &[u64]| {
        group(&Offers { budgets, members, domain: 10, neighbours: Neighbours::AddRemove }, &unknown)
    };
    let merged = |members: &[u64]| -> Vec<Vec<usize>> {
        let groups = group_of(&budgets, members);
        let alone = group_of(&budgets[..1], &members[..1]);
        assert!(expected_error(&groups) <= expected_error(&alone) * 1.001 || members[0] == 0);
        groups.into_iter().map(|group| group.classes).collect()
    };
    // Two classes that spend the same are always one group.
    assert!(merged(&[1_000, 1_000, 10, 1_000]).iter().any(|classes| classes.starts_with(&[0, 1])));
    // Huge careful classes say more about themselves than others can, so that theirs is noise on top; but as nothing is
    // known about differences yet, there are two groups to compare.
    assert_eq!(merged(&[10_000_000, 10_000_000, 10_000_000, 10_000_000]), [vec![0, 1, 2], vec![3]]);
    let same = [budgets[0]; 4];
    assert_eq!(group_of(&same, &[10_000_000; 4]).len(), 1, "classes that spend the same cannot lean");
    // A class without members is in no group; one without budget is a group that takes no part.
    assert!(!merged(&[0, 5, 5, 5]).concat().contains(&0));
    let groups = group_of(&[None, budgets[2]], &[5, 5]);
    assert_eq!((groups.len(), groups[0].amounts.len(), &groups[1].amounts), (2, 0, &vec![budgets[2].unwrap()]));
    assert!(expected_error(&groups).is_finite());
    assert!(expected_error(&group_of(&[None], &[5])).is_infinite());
}

#[test]
fn a_group_leans_only_where_its_classes_were_seen_to_be_alike() {
    let budgets = ["0.01", "0.02", "0.03", "0.04"].map(|budget| Some(epsilon(budget)));
    let members = [5_000; 4];
    let offers = Offers { budgets: &budgets, members: &members, domain: 10, neighbours: Neighbours::AddRemove };
    let leans = |groups: &[Group]| groups.iter().any(|group| group.amounts.iter().any(|e| *e != group.amounts[0]));
    // What is known after so many publications, if noise happens to be zero.
    let after = |publications: usize, counts: [[u64; 10]; 4]| {
        let mut differences = Differences::unknown(4, 10);
        for _ in 0..publications {
            let mut groups = group(&offers, &differences);
            let published = |group: &Group| -> Vec<i64> {
                let unit = common_unit(group.amounts.iter().copied()).unwrap().units();
                let cell = |cell: usize| {
                    let classes = group.classes.iter().zip(&group.amounts);
                    classes.map(|(class, amount)| (amount.units() / unit * counts[*class][cell]) as i64).sum()
                };
                (0..10).map(cell).collect()
            };
            let histograms: Vec<Vec<i64>> = groups.iter().map(published).collect();
            let estimates = estimate(&mut groups, &histograms, &offers, &mut differences);
            let all: f64 = estimates.iter().map(|estimate| estimate[0]).sum();
            let truth: u64 = counts.iter().map(|counts| counts[0]).sum();
            assert!(counts[0][0] != 500 || (all - truth as f64).abs() < 1e-6, "{all}");
        }
        group(&offers, &differences)
    };
    let alike = [[500; 10]; 4];
    let careful_differ = [[5_000, 0, 0, 0, 0, 0, 0, 0, 0, 0], [500; 10], [500; 10], [500; 10]];
    assert!(!leans(&after(0, alike)));
    assert!(leans(&after(20, alike)));
    assert!(!leans(&after(20, careful_differ)));
}

#[test]
fn bad_settings_and_calls_are_refused_with_what_is_allowed() {
    let declared = classes(&[("1", 4), ("2", 2)]);
    let new =
        |domain, declared: &Classes| Personal::new(PersonalKind::Pbd, declared.clone(), PersonalSettings::new(domain));
    assert_eq!(new(0, &declared).unwrap_err(), CentralError::Domain { given: 0 });
    assert_eq!(new(1 << 24, &declared).unwrap_err(), CentralError::Domain { given: 1 << 24 });
    assert!(matches!(new(2, &classes(&[("0.000000001", 1)])).unwrap_err(), CentralError::Epsilon { window: 1, .. }));

    let random = &mut SeededRandom::new(17);
    let mut mechanism = new(3, &declared).unwrap();
    let before = save(&mechanism);
    let wide = seal(&mechanism, 0, 2, vec![1; 4]);
    assert_eq!(mechanism.push(&wide, &[1, 1], random), Err(CentralError::Cells { given: 2, expected: 3 }));
    let one = seal(&mechanism, 0, 1, vec![1; 3]);
    assert_eq!(mechanism.push(&one, &[1], random), Err(CentralError::Classes { given: 1, expected: 2 }));
    let others = seal_class_histograms(mechanism.ledgers().account(), 0, [], &[1, 2], 3).unwrap();
    assert_eq!(mechanism.push(&others, &[1, 1], random), Err(CentralError::Classes { given: 2, expected: 2 }));
    let good = seal(&mechanism, 4, 2, vec![1; 6]);
    let short = mechanism.push(&good, &[1], random).unwrap_err();
    assert_eq!(short.to_string(), "1 numbers of members were given for 2 classes");
    assert_eq!(save(&mechanism), before);
    // Nobody is registered: nothing is published, and nothing is spent.
    assert!(mechanism.push(&seal(&mechanism, 3, 2, vec![0; 6]), &[0, 0], random).unwrap()[0].spent.most().is_none());
    assert!(mechanism.push(&good, &[3, 3], random).is_ok());
    assert_eq!(mechanism.push(&good, &[3, 3], random), Err(CentralError::Time { given: 4, last: 4 }));
}

fn used(kind: PersonalKind, estimator: Estimator) -> Personal {
    let declared = classes(&[("0.5", 3), ("1", 2)]);
    let mut mechanism = Personal::new(kind, declared, settings(2, estimator)).unwrap();
    let mut random = SeededRandom::new(18);
    for timestamp in 0..5 {
        let count = if timestamp % 2 == 0 { 100 } else { 900 };
        push(&mut mechanism, timestamp, &[1_000, 500], vec![count, 1_000 - count, 200, 300], &mut random);
    }
    mechanism
}

const VARIANTS: [(PersonalKind, Estimator); 4] = [
    (PersonalKind::Pbd, Estimator::Sampling),
    (PersonalKind::Pbd, Estimator::Stratified),
    (PersonalKind::Pba, Estimator::Sampling),
    (PersonalKind::Pba, Estimator::Stratified),
];

#[test]
fn saved_mechanisms_of_version_1_still_load() {
    let golden: Vec<String> = serde_json::from_str(include_str!("../golden/personal_v1.json")).unwrap();
    assert_eq!(golden.len(), VARIANTS.len());
    for (text, (kind, estimator)) in golden.iter().zip(VARIANTS) {
        let mut mechanism = load(&bytes(text));
        let now = save(&mechanism);
        assert_eq!(save(&load(&now)), now, "{kind}");
        assert_eq!((mechanism.kind(), mechanism.settings().estimator), (kind, estimator));
        push(&mut mechanism, 5, &[1_000, 500], vec![500, 500, 200, 300], &mut SeededRandom::new(19));
    }
}

#[test]
fn states_that_do_not_fit_together_are_not_loaded() {
    for (kind, estimator) in VARIANTS {
        let json = serde_json::to_value(used(kind, estimator)).unwrap();
        let refused = |change: &dyn Fn(&mut serde_json::Value)| {
            let mut changed = json.clone();
            change(&mut changed);
            assert_ne!(changed, json);
            serde_json::from_value::<Personal>(changed).map(drop).unwrap_err().to_string()
        };
        assert!(serde_json::from_value::<Personal>(json.clone()).is_ok());
        assert!(refused(&|state| state["version"] = 9.into()).contains("version 9"));
        assert!(refused(&|state| state["settings"]["domain"] = 4.into()).contains("does not fit"));
        assert!(refused(&|state| state["classes"][0]["requirement"]["window"] = 7.into()).contains("does not fit"));
        assert!(refused(&|state| state["classes"][1]["requirement"]["epsilon"] = "3".into()).contains("does not fit"));
        assert!(refused(&|state| state["classes"][1]["name"] = "0".into()).contains("two classes"));
        assert!(
            refused(&|state| state["kind"] = if kind == PersonalKind::Pba { "pbd" } else { "pba" }.into())
                .contains("fit")
        );
        let other = if estimator == Estimator::Sampling { "stratified" } else { "sampling" };
        assert!(refused(&|state| state["settings"]["estimator"] = other.into()).contains("does not fit"));
        assert!(refused(&|state| state["more"] = 1.into()).contains("more"));
    }
}

#[test]
fn memory_does_not_grow_with_time() {
    for (kind, estimator) in VARIANTS {
        let mut mechanism = Personal::new(kind, classes(&[("0.5", 3), ("1", 2)]), settings(2, estimator)).unwrap();
        let (mut random, mut largest_early) = (SeededRandom::new(20), 0);
        for timestamp in 0..1_500 {
            let count = if timestamp % 7 == 0 { 800 } else { 200 };
            push(&mut mechanism, timestamp, &[1_000, 500], vec![count, 1_000 - count, 200, 300], &mut random);
            let size = save(&mechanism).len();
            if timestamp < 500 {
                largest_early = largest_early.max(size);
            } else {
                assert!(size <= largest_early + 64, "{kind}: {size} bytes at {timestamp}, {largest_early} before");
            }
        }
    }
}

/// What all members of each class answer.
fn answer(mechanism: &mut Plbu, timestamp: u64, counts: &[[u64; 3]], random: &mut SeededRandom) -> Release {
    let questions = mechanism.open(timestamp).unwrap();
    let estimates = questions.iter().zip(counts).map(|(question, counts)| {
        (counts.iter().sum::<u64>() > 0).then(|| estimate_of(&question.oracle().unwrap(), counts, random).unwrap())
    });
    let estimates: Vec<_> = estimates.collect();
    mechanism.answer(timestamp, &estimates).unwrap().remove(0)
}

#[test]
fn the_local_baseline_asks_each_class_for_its_share_and_averages_by_inverse_variance() {
    let counts = [[3_000, 2_000, 1_000], [1_500, 1_000, 500]];
    let mut random = SeededRandom::new(21);
    let declared = classes(&[("1", 4), ("3", 2)]);
    let (mut sum, mut squares, mut stated, runs) = (0.0, 0.0, 0.0, 2_000);
    let mut mechanism = Plbu::new(declared.clone(), 3, Some(OracleKind::Grr)).unwrap();
    for timestamp in 0..runs {
        let release = answer(&mut mechanism, timestamp, &counts, &mut random);
        assert_eq!((release.reports, release.spent.most()), (9_000, Some(epsilon("1.5"))));
        let of = counts_of(&release);
        sum += of.counts[0] - 4_500.0;
        squares += (of.counts[0] - 4_500.0).powi(2);
        stated += of.variances[0];
        for (_, ledger) in mechanism.ledgers().iter() {
            let spent: u64 = ledger.spends().map(|(_, amount)| amount.units()).sum();
            assert!(spent <= ledger.budget().units());
        }
    }
    let [mean, error, stated] = [sum, squares, stated].map(|sum| sum / runs as f64);
    assert!(mean.abs() < 5.0 * (stated / runs as f64).sqrt(), "{mean}");
    // The mean of so many squares of nearly normal errors is within 16 % in all but one of 10⁶ cases.
    assert!((error / stated - 1.0).abs() < 0.16, "{error} {stated}");
    // It is no worse than either class by itself.
    let alone = |class: usize, share: &str| {
        OracleKind::Grr.variance(3, epsilon(share), counts[class].iter().sum()).at(0.5) * 9_000_f64.powi(2)
    };
    assert!(stated < alone(0, "0.25").min(alone(1, "1.5")));
}

#[test]
fn the_local_baseline_lets_the_last_release_stand_where_nobody_answers_and_can_be_saved_anywhere() {
    let declared = classes(&[("1", 4), ("3", 2)]);
    let mut random = SeededRandom::new(22);
    let mut mechanism = Plbu::new(declared.clone(), 3, None).unwrap();
    let fresh = answer(&mut mechanism, 0, &[[5, 5, 5], [0, 0, 0]], &mut random);
    assert_eq!((fresh.freshness, fresh.reports), (Freshness::Fresh, 15));
    let silent = answer(&mut mechanism, 1, &[[0; 3]; 2], &mut random);
    assert_eq!((&silent.statistic, silent.freshness), (&fresh.statistic, Freshness::Approximated));
    let questions = mechanism.open(2).unwrap();
    let reload = |mechanism: &Plbu| -> Plbu {
        let bytes = postcard::to_allocvec(mechanism).unwrap();
        let loaded: Plbu = postcard::from_bytes(&bytes).unwrap();
        serde_json::from_str(&serde_json::to_string(&loaded).unwrap()).unwrap()
    };
    let mut loaded = reload(&mechanism);
    let estimates: Vec<_> = questions
        .iter()
        .map(|question| estimate_of(&question.oracle().unwrap(), &[9, 8, 7], &mut random).ok())
        .collect();
    let answered = mechanism.answer(2, &estimates).unwrap();
    assert_eq!(loaded.answer(2, &estimates).unwrap(), answered);
    assert_eq!(postcard::to_allocvec(&loaded).unwrap(), postcard::to_allocvec(&mechanism).unwrap());

    assert!(matches!(mechanism.answer(2, &estimates), Err(CentralError::Answer { .. })));
    assert_eq!(mechanism.open(2).unwrap_err(), CentralError::Time { given: 2, last: 2 });
    mechanism.open(3).unwrap();
    assert!(matches!(mechanism.answer(3, &estimates[..1]), Err(CentralError::Length { given: 1, .. })));
    let tiny = classes(&[("0.000000001", 4)]);
    assert!(matches!(Plbu::new(tiny, 3, None).map(drop), Err(CentralError::Epsilon { .. })));
    assert_eq!(Plbu::new(declared, 1, None).map(drop), Err(CentralError::Domain { given: 1 }));
    let mut json = serde_json::to_value(&mechanism).unwrap();
    json["domain"] = 4.into();
    assert!(serde_json::from_value::<Plbu>(json).is_err());
}
