//! Counter-examples of [the errata](../../../docs/errata.md) that are about errors and bounds; those about privacy are
//! mutants of the audit.

/// The variance of generalised randomised response over `d` values, for a frequency of `f` among `n` reports.
fn grr(epsilon: f64, d: f64, n: f64, f: f64) -> f64 {
    let odds = epsilon.exp();
    (d - 2.0 + odds) / (n * (odds - 1.0).powi(2)) + f * (d - 2.0) / (n * (odds - 1.0))
}

/// The variance that comes from asking `m` of `n` users, for a frequency of `f`.
fn sampling(m: f64, n: f64, f: f64) -> f64 {
    f * (1.0 - f) / m * (n - m) / (n - 1.0)
}

#[track_caller]
fn assert_close(found: f64, expected: f64) {
    assert!((found - expected).abs() < 1e-5 * expected.abs().max(0.1), "{found} is not {expected}");
}

/// The variance of each frequency where two of six users report one of three values, by going through every pair of
/// users and every pair of reports.
fn enumerated(values: [usize; 6], epsilon: f64) -> [f64; 3] {
    let odds = epsilon.exp();
    let (own, other) = (odds / (odds + 2.0), 1.0 / (odds + 2.0));
    let (mut first, mut second) = ([0.0; 3], [0.0; 3]);
    let pairs = (0..6).flat_map(|a| (a + 1..6).map(move |b| (a, b)));
    for (a, b) in pairs {
        for (told_a, told_b) in (0..3).flat_map(|one| (0..3).map(move |two| (one, two))) {
            let probability = |value: usize, told: usize| if value == told { own } else { other };
            let weight = probability(values[a], told_a) * probability(values[b], told_b) / 15.0;
            for cell in 0..3 {
                let count = f64::from(u8::from(told_a == cell)) + f64::from(u8::from(told_b == cell));
                let estimate = (count / 2.0 - other) / (own - other);
                first[cell] += weight * estimate;
                second[cell] += weight * estimate * estimate;
            }
        }
    }
    [0, 1, 2].map(|cell| second[cell] - first[cell] * first[cell])
}

/// Ren et al. 2022, sections 5.3.2 and 6.2: the error of a publication leaves out what sampling users adds.
#[test]
fn the_error_of_a_sample_has_the_variance_of_sampling() {
    let exact = enumerated([0, 0, 1, 1, 1, 2], 1.0);
    for (variance, count) in exact.into_iter().zip([2.0, 3.0, 1.0]) {
        let f = count / 6.0;
        assert_close(variance, grr(1.0, 3.0, 2.0, f) + sampling(2.0, 6.0, f));
        assert!(variance > 1.05 * grr(1.0, 3.0, 2.0, f));
    }
    [0.815_570, 0.875_179, 0.733_739].into_iter().zip(exact).for_each(|(stated, exact)| assert_close(exact, stated));
}

/// Ren et al. 2022, section 5.3.2: averaged over values, the part that grows with the frequency has a factor of 1/d.
#[test]
fn the_mean_error_of_a_histogram_has_a_factor_of_one_over_d() {
    for (d, over) in [(5_u8, 1.61), (77, 2.60)] {
        let (d, odds) = (f64::from(d), 1.0_f64.exp());
        // Frequencies sum to one, whatever they are.
        let mean = grr(1.0, d, 1.0, 1.0 / d);
        let printed = (d - 2.0 + odds) / (odds - 1.0).powi(2) + (d - 2.0) / (odds - 1.0);
        assert!((printed / mean - over).abs() < 0.005, "{d}: {}", printed / mean);
    }
}

/// Ren et al. 2022, Theorem 6.1: that dividing the population has the smaller error at any epsilon.
#[test]
fn dividing_the_budget_is_better_at_a_large_epsilon() {
    let n = 1e9;
    let errors = |epsilon: f64| {
        let budget = grr(epsilon / 2.0, 2.0, n, 0.5);
        let population = grr(epsilon, 2.0, n / 2.0, 0.5) + sampling(n / 2.0, n, 0.5);
        (n * budget, n * population)
    };
    let (budget, population) = errors(4.0);
    assert!((budget - 0.181).abs() < 5e-4 && (population - 0.288).abs() < 5e-4, "{budget} {population}");
    let (budget, population) = errors(1.0);
    assert!(population < budget);
}

/// Liu and Zhao 2026, Theorem 3.1: the variance of a node is that of the users who serve its level.
#[test]
fn the_variance_of_a_node_is_that_of_its_level() {
    let (n, levels, f, odds) = (1e4, 9.0, 0.5, 1.0_f64.exp());
    let oue = |users: f64| 4.0 * odds / (users * (odds - 1.0).powi(2));
    let m = n / (levels - 1.0);
    let exact = oue(m) + f / m + sampling(m, n, f);
    assert!((exact / oue(n) - 9.6).abs() < 0.05, "{}", exact / oue(n));
}

/// Liu and Zhao 2026, section 3.1: a warm-up of `epsilon/w` at each timestamp, if it counts as nothing published.
#[test]
fn a_warm_up_that_is_not_charged_costs_up_to_one_and_a_half_epsilon() {
    let cost = |w: f64| (w - 1.0) / w + 1.0 / (2.0 * w) + 0.5;
    for w in [1.0, 3.0, 20.0] {
        assert_close(cost(w), 1.5 - 1.0 / (2.0 * w));
    }
    assert_close(cost(20.0), 1.475);
}

/// Jiang, Li and Tandon 2024, Theorem 2: the leakage of many steps, where the largest over the secrets is meant.
#[test]
fn many_steps_leak_in_proportion_for_the_likeliest_sequence() {
    let (epsilon, steps, delta) = (0.1_f64, 1_000.0_f64, 1e-5_f64);
    // Equally likely bits through the paper's channel: the answer is the bit with a probability of 1 - e^-epsilon / 2.
    // Some sequence equals the answers, and so is believed 2 - e^-epsilon times as much at each step.
    let leaked = steps * (2.0 - (-epsilon).exp()).ln();
    let claimed = epsilon * (2.0 * steps * (1.0 / delta).ln()).sqrt() + steps * epsilon * (epsilon.exp() - 1.0);
    assert!((leaked - 90.90).abs() < 0.01 && (claimed - 25.69).abs() < 0.01, "{leaked} {claimed}");
}

/// Jiang, Li and Tandon 2024, Algorithm 2: at its uniform start an entry may not grow any more where `1/beta` exceeds
/// the bound, which holds for each sequence that is not likely.
#[test]
fn the_algorithm_for_batches_stops_where_it_begins() {
    // Three bits of a chain that stays with a probability of 0.9: only the two constant sequences are likely.
    let likely = |bits: u32| {
        let moves = (bits ^ (bits >> 1)) & 0b11;
        (0..2).fold(0.5, |belief, at| belief * if moves >> at & 1 == 1 { 0.1 } else { 0.9 })
    };
    let total: f64 = (0..8).map(likely).sum();
    assert_close(total, 1.0);
    let frozen = |epsilon: f64| (0..8).filter(|bits| 1.0 / likely(*bits) > epsilon.exp()).count();
    assert_eq!((frozen(2.0), frozen(0.5)), (6, 8));
}
