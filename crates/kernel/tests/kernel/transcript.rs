//! Transcripts: the loss of each primitive has its closed form, and replays detect decisions on raw data.

use std::num::NonZeroU64;
use std::sync::Arc;

use tidegate_kernel::oracle::{Oracle, OracleKind};
use tidegate_kernel::primitives::{
    AboveThreshold, Bound, ChannelLimits, ChannelParts, ClassHistograms, Comparisons, ContinuousGroups, DeviationTests,
    Neighbours, Placed, Protects, Scores, SealedQuery, Side, SymbolChannel, bucket_probabilities, noisy_bound,
    noisy_histogram, noisy_max, noisy_scalar, randomised_bucket, sampled_distance, sampled_histogram, seal_symbol,
};
use tidegate_kernel::simulation::Transcript;
use tidegate_kernel::{Randomness, SeededRandom};

use crate::support::{account, assert_fits, class_permit, epsilon, permit_at as permit, sealed_at, tally};

/// The transcript of a run in which step `n` publishes its option `choices[n]`, and the last of them afterwards.
fn scripted(choices: &[usize], run: impl Fn(&mut SeededRandom)) -> Arc<Transcript> {
    let choices = choices.to_vec();
    let script = move |choice: tidegate_kernel::simulation::Choice<'_>| {
        choices.get(choice.step).or(choices.last()).copied().unwrap_or(0)
    };
    let mut random = SeededRandom::scripted(1, Box::new(script));
    run(&mut random);
    Arc::new(random.into_transcript().unwrap())
}

fn replayed(transcript: &Arc<Transcript>, run: impl Fn(&mut SeededRandom)) -> Transcript {
    let mut random = transcript.replay();
    run(&mut random);
    random.into_transcript().unwrap()
}

/// The losses of all options of a run with one step.
fn losses<T>(one: T, other: T, run: impl Fn(&T, &mut SeededRandom)) -> Vec<f64> {
    let transcript = scripted(&[0], |random| run(&one, random));
    let replayed = replayed(&transcript, |random| run(&other, random));
    assert!(transcript.is_followed_by(&replayed) && transcript.steps().len() == 1);
    let (one, other) = (&transcript.steps()[0], &replayed.steps()[0]);
    one.log_likelihoods.iter().zip(&other.log_likelihoods).map(|(one, other)| one - other).collect()
}

fn largest(losses: &[f64]) -> f64 {
    losses.iter().map(|loss| loss.abs()).fold(0.0, f64::max)
}

#[track_caller]
fn assert_close(found: f64, expected: f64) {
    assert!((found - expected).abs() < 1e-9, "{found}, not {expected}");
}

#[test]
fn laplace_noise_loses_its_epsilon_in_both_directions() {
    let run = |reading: &i64, random: &mut SeededRandom| {
        let reading = sealed_at(0, *reading);
        let _ = noisy_scalar(permit(0, epsilon("0.7")), &reading, 0..=20, Protects::Reading, random).unwrap();
    };
    // Far above, far below, none, one scale above and below.
    let losses = losses(20, 0, run);
    assert_close(losses[0], 0.7);
    assert_close(losses[1], -0.7);
    assert_close(losses[2], 0.7);
}

#[test]
fn histogram_cells_are_steps_of_one_call() {
    let run = |counts: [u64; 3], random: &mut SeededRandom| {
        let counts = sealed_at(0, counts.to_vec());
        let once = NonZeroU64::MIN;
        let _ = noisy_histogram(permit(0, epsilon("1")), &counts, Neighbours::Replace, once, random).unwrap();
    };
    let transcript = scripted(&[0, 1, 0], |random| run([4, 0, 2], random));
    assert_eq!(transcript.steps().iter().map(|step| step.call).collect::<Vec<_>>(), [0, 0, 0]);
    assert_eq!(transcript.spends(), [epsilon("1")]);
    assert_close(transcript.loss(&replayed(&transcript, |random| run([3, 1, 2], random))), 1.0);
}

#[test]
fn buckets_and_comparisons_lose_the_ratio_of_their_weights() {
    let one = epsilon("1");
    let run = |reading: &i64, random: &mut SeededRandom| {
        let _ = randomised_bucket(permit(0, one), &sealed_at(0, *reading), 0..=9, 5, random).unwrap();
    };
    let probabilities = bucket_probabilities(5, one).unwrap();
    let losses = losses(0, 9, run);
    assert_eq!(losses.len(), 5);
    assert_close(largest(&losses), (probabilities.truth / probabilities.other).ln());

    let compare = |reading: i64, random: &mut SeededRandom| {
        let mut comparisons = Comparisons::new(one, NonZeroU64::new(2).unwrap()).unwrap();
        for (timestamp, reading) in [(0, 5), (1, reading), (2, 6)] {
            comparisons.admit(permit(timestamp, one), &sealed_at(timestamp, reading)).unwrap();
        }
        for other in [0, 2] {
            let _ = comparisons.compare(1, other, random).unwrap();
        }
    };
    let transcript = scripted(&[0], |random| compare(9, random));
    let loss = transcript.loss(&replayed(&transcript, |random| compare(0, random)));
    assert!(loss <= 1.0 + 1e-9 && loss > 1.0 - 1e-8, "{loss}");
}

#[test]
fn reports_lose_their_epsilon_through_every_oracle() {
    let one = epsilon("1");
    for kind in OracleKind::ALL {
        let oracle = Oracle::new(kind, 4, one).unwrap();
        let run = |value: &u32, random: &mut SeededRandom| {
            oracle.perturb(permit(0, one), *value, random).unwrap();
        };
        let loss = largest(&losses(0, 3, run));
        assert!(loss <= 1.0 + 1e-12 && loss > 1.0 - 1e-8, "{kind}: {loss}");
    }
}

#[test]
fn symbols_lose_the_ratio_of_the_channel() {
    let limits = ChannelLimits::new(epsilon("1")).unwrap();
    let rows = vec![vec![(0, 1.0)], vec![(1, 1.0)]];
    let parts = ChannelParts { outputs: &[(0, 0.3), (1, 0.7)], rows: &rows, mixtures: &rows, mixture_of: &[0, 1] };
    let channel = SymbolChannel::new(&limits, parts).unwrap();
    let run = |symbol: &u32, random: &mut SeededRandom| {
        let _ =
            channel.answer(permit(0, limits.loss()), &seal_symbol(account(), 0, *symbol, 2).unwrap(), random).unwrap();
    };
    let expected: Vec<f64> =
        (0..2).map(|output| (channel.probability(0, output) / channel.probability(1, output)).ln()).collect();
    for (found, expected) in losses(0, 1, run).into_iter().zip(expected) {
        assert_close(found, expected);
    }
}

/// The probabilities of all options of a one-step run sum to one.
#[track_caller]
fn assert_complete(run: impl Fn(&mut SeededRandom)) -> Vec<f64> {
    let transcript = scripted(&[0], run);
    let probabilities: Vec<f64> = transcript.steps()[0].log_likelihoods.iter().map(|log| log.exp()).collect();
    assert_close(probabilities.iter().sum(), 1.0);
    probabilities
}

#[test]
fn report_noisy_max_loses_nearly_its_epsilon() {
    let run = |scores: &Vec<i64>, random: &mut SeededRandom| {
        let _ =
            noisy_max(permit(0, epsilon("1")), &sealed_at(0, scores.clone()), 1, Scores::AnyDirection, random).unwrap();
    };
    for scores in [vec![0, 0, 0], vec![5, 0, -40], vec![0, 3], vec![7]] {
        assert_complete(|random| run(&scores, random));
    }
    // Two scores with noise of ratio q: the second wins with probability q^(d+1)/(1+q), d behind; the first one wins
    // ties.
    let q = (-0.5_f64).exp();
    let probabilities = assert_complete(|random| run(&vec![3, 0], random));
    assert_close(probabilities[1], q.powi(4) / (1.0 + q));
    // One score rises and all others fall.
    let loss = largest(&losses(vec![40, 0, 0, 0], vec![39, 1, 1, 1], run));
    assert!(loss <= 1.0 && loss > 0.99, "{loss}");
}

#[test]
fn a_noisy_bound_loses_at_most_its_epsilon() {
    let candidates = [10, 6, 2].map(|at| Bound { at, cost: at });
    let run = |reading: &i64, random: &mut SeededRandom| {
        let members = [(permit(0, epsilon("1")), &sealed_at(0, *reading))];
        let _ = noisy_bound(members, &candidates, 0..=10, Protects::Reading, random).unwrap();
    };
    assert_complete(|random| run(&4, random));
    let loss = largest(&losses(0, 10, run));
    assert!(loss <= 1.0 && loss > 0.5, "{loss}");
}

#[test]
fn deviation_tests_have_the_tails_of_their_noise() {
    for threshold in [-7, 0, 1, 30] {
        let run = |readings: &[i64; 2], random: &mut SeededRandom| {
            let mut tests = DeviationTests::new(0..=10, Protects::Reading, epsilon("1"), threshold, 2).unwrap();
            for (timestamp, reading) in (0..).zip(readings) {
                tests.admit(permit(timestamp, epsilon("1")), &sealed_at(timestamp, *reading)).unwrap();
            }
            let _ = tests.ask(&[0, 1], random).unwrap();
        };
        assert_complete(|random| run(&[3, 8], random));
        let loss = largest(&losses([0, 0], [0, 10], run));
        assert!(loss <= 1.0 && (threshold == 1 || loss > 0.3), "{threshold}: {loss}");
    }
}

/// All outcomes of a group of readings, with their probabilities: how many joined before the first that did not.
fn courses(readings: &[i64], threshold: i64) -> Vec<f64> {
    let run = |random: &mut SeededRandom| offer_all(readings, threshold, random);
    let mut probabilities = Vec::new();
    for joined in 0..readings.len() {
        let mut choices = vec![0; joined];
        choices.push(1);
        let transcript = scripted(&choices, |random| {
            run(random);
        });
        // The group ends with the first that does not join.
        let steps = transcript.steps().iter().take(joined + 1);
        probabilities.push(steps.map(|step| step.log_likelihood).sum::<f64>().exp());
    }
    probabilities
}

/// How many readings joined the first group.
fn offer_all(readings: &[i64], threshold: i64, random: &mut SeededRandom) -> usize {
    let one = epsilon("1");
    let mut groups = ContinuousGroups::new(0..=4, Protects::Reading, one, threshold).unwrap();
    let mut joined = 0;
    for (timestamp, reading) in (0..).zip(readings) {
        match groups.offer(permit(timestamp, one), &sealed_at(timestamp, *reading), random).unwrap().into_value() {
            Placed::Opens => {}
            Placed::Joins => joined += 1,
            Placed::Alone => break,
        }
    }
    joined
}

#[test]
fn the_noisy_threshold_is_summed_out() {
    let readings = [0, 4, 0, 4];
    for threshold in [-9, 0, 5, 60] {
        // All outcomes: none, one, two or three joined.
        let probabilities = courses(&readings, threshold);
        assert_close(probabilities.iter().sum(), 1.0);
        // The frequencies of drawn outcomes agree.
        let mut random = SeededRandom::new(1);
        let counts = tally(20_000, readings.len(), || offer_all(&readings, threshold, &mut random));
        assert_fits(&counts, &probabilities);
    }
}

#[test]
fn the_sparse_vector_technique_loses_at_most_epsilon() {
    let one = epsilon("1");
    let run = |reading: i64, random: &mut SeededRandom| {
        let readings = [reading, 4, 0, 4].map(|reading| sealed_at(0, reading));
        let mut test = AboveThreshold::open(permit(0, one), 3, 4, random).unwrap();
        for reading in &readings {
            let query = SealedQuery::reading(reading, 0..=4, Protects::Reading).unwrap();
            if test.ask([], &query, random).unwrap().into_value() == Side::Above {
                break;
            }
        }
    };
    let mut worst: f64 = 0.0;
    for joined in 0..=4 {
        let choices = [vec![0; joined], vec![1]].concat();
        for (from, to) in [(0, 4), (4, 0)] {
            let transcript = scripted(&choices, |random| run(from, random));
            worst = worst.max(transcript.loss(&replayed(&transcript, |random| run(to, random))));
        }
    }
    assert!(worst <= 1.0 && worst > 0.2, "{worst}");
}

#[test]
fn sampled_counts_lose_the_epsilon_of_the_class() {
    let (careful, relaxed) = (epsilon("0.5"), epsilon("1"));
    for neighbours in [Neighbours::AddRemove, Neighbours::Replace] {
        let permits = || [class_permit(0, careful), class_permit(1, relaxed)];
        let (more, less) = match neighbours {
            Neighbours::AddRemove => (vec![3, 1, 2, 2], vec![2, 1, 2, 2]),
            Neighbours::Replace => (vec![3, 1, 2, 2], vec![2, 2, 2, 2]),
        };
        let counts = |counts: &Vec<u64>, random: &mut SeededRandom| {
            let sealed = ClassHistograms::seal(account(), 0, &[0, 1], counts.clone()).unwrap();
            let _ = sampled_histogram(permits(), &sealed, relaxed, neighbours, random).unwrap();
        };
        assert_close(largest(&losses(more.clone(), less.clone(), counts)), 0.5);
        let distance = |counts: &Vec<u64>, random: &mut SeededRandom| {
            let sealed = ClassHistograms::seal(account(), 0, &[0, 1], counts.clone()).unwrap();
            let _ = sampled_distance(permits(), &sealed, &[-50, 50], relaxed, neighbours, random).unwrap();
        };
        assert_close(largest(&losses(more, less, distance)), 0.5);
    }
}

#[test]
fn a_diverging_replay_has_infinite_loss() {
    // The amount, the number of steps, or a coin depends on the reading.
    let amount = |reading: i64, random: &mut SeededRandom| {
        let amount = if reading > 0 { epsilon("0.5") } else { epsilon("0.4") };
        let _ = noisy_scalar(permit(0, amount), &sealed_at(0, reading), 0..=1, Protects::Reading, random).unwrap();
    };
    let number = |reading: i64, random: &mut SeededRandom| {
        for _ in 0..=reading {
            let one = epsilon("1");
            let _ = noisy_scalar(permit(0, one), &sealed_at(0, reading), 0..=1, Protects::Reading, random).unwrap();
        }
    };
    let coin = |reading: i64, random: &mut SeededRandom| {
        if reading > 0 {
            random.next_word();
        }
    };
    let innocent = |_: i64, random: &mut SeededRandom| {
        random.next_word();
        amount(0, random);
    };
    type Run<'a> = &'a dyn Fn(i64, &mut SeededRandom);
    let runs: [(Run<'_>, f64); 4] =
        [(&amount, f64::INFINITY), (&number, f64::INFINITY), (&coin, f64::INFINITY), (&innocent, 0.0)];
    for (number, (run, expected)) in runs.into_iter().enumerate() {
        for (one, other) in [(0, 1), (1, 0)] {
            let transcript = scripted(&[0], |random| run(one, random));
            let loss = transcript.loss(&replayed(&transcript, |random| run(other, random)));
            assert!(loss.to_bits() == f64::to_bits(expected), "{number}: {loss}");
        }
    }
}

#[test]
fn replaying_the_same_stream_has_no_loss() {
    let run = |random: &mut SeededRandom| {
        random.next_word();
        offer_all(&[0, 4, 1, 3], 5, random)
    };
    for seed in 0..50 {
        let mut random = SeededRandom::recording(seed);
        let joined = run(&mut random);
        let transcript = Arc::new(random.into_transcript().unwrap());
        assert!(transcript.words() == 1 && transcript.log_likelihood() <= 0.0);
        let mut again = transcript.replay();
        assert_eq!(run(&mut again), joined);
        let again = again.into_transcript().unwrap();
        assert!(transcript.is_followed_by(&again) && transcript.loss(&again) == 0.0);
    }
    assert!(SeededRandom::new(1).into_transcript().is_none());
}
