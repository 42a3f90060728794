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
