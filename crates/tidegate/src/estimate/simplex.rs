//! Estimates that are known to be nowhere negative and to have a given sum.

/// Of all numbers that sum to `total` and of which none is negative, those nearest to the given ones, each squared
/// distance divided by its variance or another weight: what is uncertain gives way first, and what has none does not.
/// Where that leaves nothing to give way, they do not sum to it. Takes a few passes over the numbers.
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
    // Each pass finds the shift for those that are positive after the last; once none is lost any more, it is the right
    // one.
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

/// A number that is so many standard deviations from zero gives way half as much as its variance alone would have it.
const LARGE: f64 = 3.0;

/// Estimates of numbers that are known to sum to `total` and to be nowhere negative, from estimates of each by itself
/// with their variances, of which none knows the others.
///
/// Two errors show in that they do not fit, and each is mended where it is made:
///
/// - *Their sum.* What is too small to be seen is believed to be as large as the others of its kind. So mostly many of
///   them are off together, each by as much: all are moved evenly.
/// - *Negative ones.* Of numbers that are next to nothing, up to half are believed to be negative. Where those become
///   zero, the sum is too large because of the other half, which is as far off: what is uncertain gives way, as
///   [`project`] has it, but of what is large a part only. Its weight is its variance `v`, divided by `1 + x²/(9v)`.
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
    // As parts of the largest, so that they are not too small to be told from nothing.
    let most = variances.iter().copied().fold(0.0, f64::max);
    let weight = |(number, variance): (&f64, &f64)| {
        let large = number / (LARGE * variance.sqrt());
        if *variance > 0.0 { variance / most / (1.0 + large * large) } else { 0.0 }
    };
    let weights: Vec<f64> = numbers.iter().zip(variances).map(weight).collect();
    project(numbers, &weights, total);
}
