//! Estimates that are known to be nowhere negative and to have a given sum.

/// Of all numbers that sum to `total` and of which none is negative, those nearest to the given ones, each squared distance divided by its variance: what is
/// uncertain gives way first. Takes a few passes over the numbers.
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
    // Each pass finds the shift for those that are positive after the last; once none is lost any more, it is the right one.
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
        if count == 0 || weight <= 0.0 || count >= positive {
            break;
        }
        positive = count;
        shift = (sum - total) / weight;
    }
    for (number, variance) in numbers.iter_mut().zip(variances) {
        *number = (*number - shift * variance).max(0.0);
    }
}
