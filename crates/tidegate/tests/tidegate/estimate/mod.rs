//! State estimation.

mod class_track;
mod release_filter;
mod scalar_track;

/// The mean, and its standard error.
pub(crate) fn mean_of(values: impl Iterator<Item = f64> + Clone) -> (f64, f64) {
    let count = values.clone().count() as f64;
    let mean = values.clone().sum::<f64>() / count;
    let squares = values.map(|value| (value - mean).powi(2)).sum::<f64>();
    (mean, (squares / (count - 1.0) / count).sqrt())
}
