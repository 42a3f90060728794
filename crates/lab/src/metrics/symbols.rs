//! Released symbols beside the true ones.

use super::{Metric, Metrics, NotComparable, mean};
use crate::stream::{Space, SymbolStream, as_float};

/// Compares the sequences released for each user with the true ones.
///
/// - `mae`, on a line: the distance of a released symbol from the true one;
/// - `euclidean`, on a grid: the same, in cells;
/// - `mse`: its square;
/// - `error_rate`: how often the two differ;
/// - `histogram_distance`: the total variation distance, 0 to 1, of the distributions of the released and of the true
///   symbols, those of all users together.
///
/// All but the last are means over a user's timestamps and then over the users: everybody weighs alike, however many
/// symbols they have, as in the paper's "average user".
///
/// ```
/// use tidegate_lab::SymbolStream;
/// use tidegate_lab::metrics::{Metric, compare_symbols};
/// use tidegate_lab::stream::Space;
///
/// let stream = SymbolStream::new("clicks", Space::Line { symbols: 4 }, vec![vec![0, 3], vec![1]])?;
/// let metrics = compare_symbols(&stream, &[vec![0, 1], vec![1]])?;
/// assert_eq!((metrics[&Metric::Mae], metrics[&Metric::Mse]), (0.5, 1.0));
/// assert_eq!(metrics[&Metric::ErrorRate], 0.25);
/// assert!((metrics[&Metric::HistogramDistance] - 1.0 / 3.0).abs() < 1e-15);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub fn compare_symbols(stream: &SymbolStream, released: &[Vec<u32>]) -> Result<Metrics, NotComparable> {
    let (truth, domain, space) = (stream.sequences(), stream.domain(), stream.space());
    if released.len() != truth.len() {
        return Err(NotComparable::Users { given: released.len(), expected: truth.len() });
    }
    for (user, (released, truth)) in released.iter().zip(truth).enumerate() {
        if released.len() != truth.len() {
            return Err(NotComparable::Sequence { user, given: released.len(), expected: truth.len() });
        }
        if let Some(symbol) = released.iter().find(|symbol| **symbol >= domain) {
            return Err(NotComparable::Symbol { user, given: *symbol, domain });
        }
    }
    let mean_of = |error: &dyn Fn(u32, u32) -> f64| {
        mean(released.iter().zip(truth).map(|(released, truth)| {
            mean(released.iter().zip(truth).map(|(released, truth)| error(*released, *truth)))
        }))
    };
    let distance = match space {
        Space::Line { .. } => Metric::Mae,
        Space::Grid { .. } => Metric::Euclidean,
    };
    let (released, truth) = (histogram(released, domain), histogram(truth, domain));
    let apart: f64 = released.iter().zip(&truth).map(|(released, truth)| (released - truth).abs()).sum();
    Ok(Metrics::from([
        (Metric::Mse, mean_of(&|released, truth| space.distance(released, truth).powi(2))),
        (distance, mean_of(&|released, truth| space.distance(released, truth))),
        (Metric::ErrorRate, mean_of(&|released, truth| f64::from(u8::from(released != truth)))),
        (Metric::HistogramDistance, apart / 2.0),
    ]))
}

/// The share of each symbol among all of all users.
fn histogram(sequences: &[Vec<u32>], domain: u32) -> Vec<f64> {
    let mut counts = vec![0_u64; domain as usize];
    sequences.iter().flatten().for_each(|symbol| counts[*symbol as usize] += 1);
    let total = as_float(counts.iter().sum());
    counts.into_iter().map(|count| as_float(count) / total).collect()
}
