//! Released numbers beside the true ones.

use super::{Metric, Metrics, NotComparable, coverage, mean};
use crate::stream::NumberStream;

/// Below this share of the domain's width, a relative error is taken relative to it: as with frequencies, where a
/// thousandth of all users takes the place of a rarer value.
pub const SMALLEST_SHARE_OF_DOMAIN: f64 = 0.001;

/// Compares the numbers released for each timestamp with the true ones. `r` is a released number, `c` the true one:
///
/// - `mse`: the mean of `(r - c)²`;
/// - `mae`: the mean of `|r - c|`;
/// - `mre`: the mean of `|r - c| / max(|c|, 0.001 · width)`, with the width of the domain and 0.001 being
///   [`SMALLEST_SHARE_OF_DOMAIN`].
///
/// ```
/// use tidegate_kernel::Grid;
/// use tidegate_lab::NumberStream;
/// use tidegate_lab::metrics::{Metric, compare_numbers};
///
/// let stream = NumberStream::new("visitors", Grid::new(0.0, 500.0, 1.0)?, vec![200.0, 0.0])?;
/// let metrics = compare_numbers(&stream, &[210.0, -1.0])?;
/// assert_eq!((metrics[&Metric::Mae], metrics[&Metric::Mse]), (5.5, 50.5));
/// assert_eq!(metrics[&Metric::Mre], (10.0 / 200.0 + 1.0 / 0.5) / 2.0);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub fn compare_numbers(stream: &NumberStream, released: &[f64]) -> Result<Metrics, NotComparable> {
    let truth = stream.values();
    if released.len() != truth.len() {
        return Err(NotComparable::Length { given: released.len(), expected: truth.len() });
    }
    if let Some(timestamp) = released.iter().position(|number| !number.is_finite()) {
        return Err(NotComparable::NotFinite { timestamp });
    }
    let least = SMALLEST_SHARE_OF_DOMAIN * (stream.grid().high() - stream.grid().low());
    let mean_of = |error: &dyn Fn(f64, f64) -> f64| mean(released.iter().zip(truth).map(|(r, c)| error(*r, *c)));
    Ok(Metrics::from([
        (Metric::Mse, mean_of(&|r, c| (r - c).powi(2))),
        (Metric::Mae, mean_of(&|r, c| (r - c).abs())),
        (Metric::Mre, mean_of(&|r, c| (r - c).abs() / c.abs().max(least))),
    ]))
}

/// Returns the share of timestamps at which `|r - c| ≤ 1.96 √v`, where `v` is the variance that was stated with `r`;
/// `None` where not each release states one.
///
/// ```
/// use tidegate_kernel::Grid;
/// use tidegate_lab::NumberStream;
/// use tidegate_lab::metrics::coverage_of_numbers;
///
/// let stream = NumberStream::new("visitors", Grid::new(0.0, 500.0, 1.0)?, vec![200.0, 0.0])?;
/// assert_eq!(coverage_of_numbers(&stream, &[210.0, -1.0], &[25.0, 25.0]), Some(0.5));
/// assert_eq!(coverage_of_numbers(&stream, &[210.0, -1.0], &[]), None);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub fn coverage_of_numbers(stream: &NumberStream, released: &[f64], variances: &[f64]) -> Option<f64> {
    let truth = stream.values();
    let stated = released.len() == truth.len() && variances.len() == truth.len();
    let cells = released.iter().zip(truth).zip(variances).map(|((r, c), v)| (*r, *c, *v));
    coverage(cells).filter(|_| stated)
}
