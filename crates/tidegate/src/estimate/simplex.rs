//! Projection of estimates onto non-negative numbers with a known sum.

/// Projects onto the simplex of non-negative numbers that sum to `total`: the nearest point, with each squared distance
/// divided by its variance. Numbers of zero variance stay as they are; if they leave too little, the sum is not met.
/// Takes a few passes.
///
/// ```
/// use tidegate::estimate::simplex::project;
///
/// let mut frequencies = vec![0.5, 0.75, -0.5];
/// project(&mut frequencies, &[1.0; 3], 1.0);
/// assert!((frequencies[0] - 0.375).abs() < 1e-12 && frequencies[2] == 0.0);
/// ```
pub fn project(numbers: &mut [f64], variances: &[f64], total: f64) {
    let total = total.max(0.0);
    let mut shift = 0.0;
    // Each pass finds the shift for the numbers still positive; done once none is lost.
    let mut positive = usize::MAX;
    loop {
        let (mut sum, mut weight, mut count) = (0.0, 0.0, 0);
        for (number, variance) in numbers.iter().zip(variances) {
            if positive == usize::MAX || number - shift * variance > 0.0 {
                sum += number;
                weight += variance;
                count += 1;
            }
        }
        let next = (sum - total) / weight;
        if count == 0 || !next.is_finite() || count >= positive {
            break;
        }
        positive = count;
        shift = next;
    }
    for (number, variance) in numbers.iter_mut().zip(variances) {
        *number = (*number - shift * variance).max(0.0);
    }
}

/// At this many standard deviations from zero, a number's weight is halved.
const LARGE: f64 = 3.0;

/// Imposes a known `total` and non-negativity on independent estimates.
///
/// Corrects two errors:
///
/// - *Wrong sum.* Small numbers get pulled towards their common mean, so many are off by the same amount. All are
///   shifted evenly.
/// - *Negative numbers.* Clamping them to zero makes the sum too large, because small positive ones are as uncertain.
///   The excess is removed by [`project`], with weight `v / (1 + x²/(9v))` for an estimate `x` of variance `v`.
///
/// ```
/// use tidegate::estimate::simplex::shift_and_project;
///
/// let mut frequencies = vec![0.68, 0.1, 0.1, -0.08]; // 0.2 is missing: 0.05 of each
/// shift_and_project(&mut frequencies, &[0.01; 4], 1.0);
/// assert!((frequencies.iter().sum::<f64>() - 1.0).abs() < 1e-12 && frequencies[3] == 0.0);
/// // Of the 0.03 that the last one gets, the first gives one twelfth.
/// assert!((frequencies[0] - 0.7275).abs() < 1e-4 && (frequencies[1] - 0.1362).abs() < 1e-4);
/// ```
#[allow(clippy::cast_precision_loss)] // how many there are
pub fn shift_and_project(numbers: &mut [f64], variances: &[f64], total: f64) {
    let excess = (numbers.iter().sum::<f64>() - total.max(0.0)) / numbers.len() as f64;
    numbers.iter_mut().for_each(|number| *number -= excess);
    // Scaled by the largest variance, against underflow.
    let most = variances.iter().copied().fold(0.0, f64::max);
    let weight = |(number, variance): (&f64, &f64)| {
        let large = number / (LARGE * variance.sqrt());
        if *variance > 0.0 { variance / most / (1.0 + large * large) } else { 0.0 }
    };
    let weights: Vec<f64> = numbers.iter().zip(variances).map(weight).collect();
    project(numbers, &weights, total);
}
