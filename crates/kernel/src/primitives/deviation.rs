//! The deviation of a group of readings from its mean.

/// The number of values times the sum of their absolute deviations from the mean, exactly: `sum_i |n·x_i - sum_j x_j|`.
/// No value is above `width`.
#[inline]
pub(super) fn times_count(values: &[u64], width: u64) -> i128 {
    let count = values.len() as u64;
    let bound = count.checked_mul(count).and_then(|square| square.checked_mul(width));
    if bound.is_some_and(|bound| bound < 1 << 62) {
        let sum: u64 = values.iter().sum();
        let distances: u64 = values.iter().map(|value| (count * value).abs_diff(sum)).sum();
        return i128::from(distances);
    }
    let (count, sum) = (i128::from(count), values.iter().map(|value| i128::from(*value)).sum::<i128>());
    values.iter().map(|value| (count * i128::from(*value) - sum).abs()).sum()
}

/// Sensitivity of the deviation of `count` readings when one changes by at most `sensitivity`:
/// `2·sensitivity·(count-1)/count`, in units of `1/fine` of a grid unit, rounded up.
#[inline]
pub(super) fn sensitivity(count: u64, sensitivity: u64, fine: u64) -> u64 {
    let Some(others) = count.checked_sub(1) else { return 0 };
    let moves = u128::from(sensitivity) * u128::from(fine) * 2 * u128::from(others);
    u64::try_from(moves.div_ceil(u128::from(count))).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn small_and_large_numbers_are_computed_alike() {
        let values: Vec<u64> = (0..100).map(|i| i * i * 7919 % 10_007).collect();
        let small = times_count(&values, 10_007);
        assert_eq!(small, times_count(&values, u64::MAX));
        let mean = values.iter().sum::<u64>() as i128;
        assert_eq!(small, values.iter().map(|value| (100 * i128::from(*value) - mean).abs()).sum::<i128>());
        assert_eq!(times_count(&[u64::MAX, 0], u64::MAX), 2 * i128::from(u64::MAX));
        assert_eq!((times_count(&[], 5), times_count(&[3], 5)), (0, 0));
    }

    #[test]
    fn the_sensitivity_is_rounded_up_in_the_fine_unit() {
        assert_eq!([1, 2, 3, 4].map(|count| sensitivity(count, 10, 1)), [0, 10, 14, 15]);
        assert_eq!(sensitivity(3, 10, 64), 854);
        assert_eq!(sensitivity(0, 10, 1), 0);
    }
}
