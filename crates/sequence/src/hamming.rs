//! Optimal channel for the Hamming distance: answers with the symbol itself as often as epsilon-SIP allows.
//!
//! Only about `e^epsilon + 1` symbols can be told apart at all, because a symbol `y` that its owner always answers with
//! needs an output probability `q(y)` of `theta = 1/(e^epsilon + 1)` or more. The likeliest symbols are kept, each with
//! `q = max(belief, theta)`; what is left of the probability goes to the likeliest of all, or to one more symbol that
//! is kept in part. All other symbols, those believed impossible among them, share one row. O(d + e^epsilon log
//! e^epsilon).
//!
//! For a skewed belief the channel always gives the same answer, which minimises the expected distance. To estimate
//! frequencies, use a frequency oracle instead.

use tidegate_kernel::Epsilon;

use crate::channel::{Channel, ChannelMatrixError, Parts, SUM_TOLERANCE};

/// Least probability of an output that is kept in part; integer weights could not represent much less.
const LEAST_PART: f64 = 1e-9;

/// A channel under construction, over the likeliest symbols in descending order of belief.
struct Draft {
    /// Output probabilities.
    q: Vec<f64>,
    /// Row of each output's own symbol.
    own: Vec<Row>,
    /// Row of all symbols not kept.
    tail: Row,
}

/// Outputs, by rank, and probabilities.
type Row = Vec<(usize, f64)>;

/// The belief, ranked.
struct Ranked {
    /// Likeliest symbols, in descending order of belief; ties keep their order.
    symbols: Vec<u32>,
    belief: Vec<f64>,
    /// `e^epsilon` and derived quantities.
    u: f64,
    l: f64,
    cap: f64,
    theta: f64,
}

/// Returns the optimal epsilon-SIP channel for the Hamming distance under a belief.
///
/// # Errors
/// A belief that is empty or no distribution.
///
/// ```
/// use tidegate_sequence::hamming;
///
/// let belief = [0.6, 0.3, 0.1];
/// let channel = hamming::channel(&belief, "0.5".parse()?)?;
/// let error = channel.expected_cost(&belief, |x, y| f64::from(u8::from(x != y)))?;
/// assert!((error - 0.350_656_195).abs() < 1e-9);
/// assert!(channel.leakage(&belief)?.largest() < 0.5 + 1e-12);
/// assert!(channel.ldp_loss() < 2.0 * 0.5 + 1e-12); // for every symbol, whatever the belief
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub fn channel(belief: &[f64], epsilon: Epsilon) -> Result<Channel, ChannelMatrixError> {
    let ranked = Ranked::new(belief, epsilon)?;
    let (kept, rest) = ranked.keep();
    let k = kept.len();
    // Summed directly, to avoid cancellation.
    let mut in_tail = vec![true; belief.len()];
    ranked.symbols[..k].iter().for_each(|symbol| in_tail[*symbol as usize] = false);
    let total: f64 = belief.iter().sum();
    let tail: f64 = belief.iter().zip(&in_tail).filter(|(_, in_tail)| **in_tail).map(|(b, _)| b).sum::<f64>() / total;

    let whole = ranked.without_a_part(&kept, rest);
    if let Some(draft) = ranked.with_a_part(&kept, rest, tail)
        && draft.keeps_to(ranked.cap)
        && ranked.value(&draft) > ranked.value(&whole) + 1e-15
        // If rounding spoils the part, keeping whole symbols is as good.
        && let Ok(channel) = ranked.build(draft, belief.len())
    {
        return Ok(channel);
    }
    ranked.build(whole, belief.len())
}

impl Ranked {
    fn new(belief: &[f64], epsilon: Epsilon) -> Result<Self, ChannelMatrixError> {
        let size = u32::try_from(belief.len()).unwrap_or(u32::MAX);
        if size == 0 {
            return Err(ChannelMatrixError::Empty { what: "symbol" });
        }
        if let Some(&given) = belief.iter().find(|weight| !(weight.is_finite() && **weight >= 0.0)) {
            return Err(ChannelMatrixError::Probability { what: "a belief", given });
        }
        let total: f64 = belief.iter().sum();
        if (total - 1.0).abs() > SUM_TOLERANCE {
            return Err(ChannelMatrixError::Sum { what: "a belief", given: total });
        }
        let u = epsilon.exp_as_f64();
        let cap = u + 1.0;
        // At most `cap` symbols are kept, one more in part, and one for rounding.
        #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)] // saturates
        let needed = (cap as usize).saturating_add(3);
        let mut symbols: Vec<u32> = (0..size).collect();
        let order = |a: &u32, b: &u32| belief[*b as usize].total_cmp(&belief[*a as usize]).then_with(|| a.cmp(b));
        if needed < symbols.len() {
            symbols.select_nth_unstable_by(needed, order);
            symbols.truncate(needed);
        }
        symbols.sort_unstable_by(order);
        let belief = symbols.iter().map(|symbol| belief[*symbol as usize] / total).collect();
        Ok(Self { symbols, belief, u, l: 1.0 / u, cap, theta: 1.0 / cap })
    }

    /// Whether moving output probability from the likeliest symbol to this rank pays.
    fn pays(&self, rank: usize) -> bool {
        self.u * self.belief[rank] > self.l * self.belief[0]
    }

    /// Output probabilities of the kept symbols, and the rest.
    fn keep(&self) -> (Vec<f64>, f64) {
        let (mut kept, mut rest) = (Vec::new(), 1.0);
        for (rank, &belief) in self.belief.iter().enumerate() {
            let needed = belief.max(self.theta);
            // A symbol with a belief of `theta` or more always fits, up to rounding of `rest`.
            if belief < self.theta && (needed > rest + 1e-15 || !self.pays(rank)) {
                break;
            }
            kept.push(needed);
            rest = (rest - needed).max(0.0);
        }
        (kept, rest)
    }

    /// Mass that each kept output needs beyond its own symbol's belief; the tail fills it.
    fn wants(&self, q: &[f64]) -> Row {
        let wants = q.iter().zip(&self.belief).map(|(q, belief)| (q - belief).max(0.0));
        wants.enumerate().filter(|(_, want)| *want > 0.0).collect()
    }

    /// Gives the rest to the likeliest symbol.
    fn without_a_part(&self, kept: &[f64], rest: f64) -> Draft {
        let mut q = kept.to_vec();
        q[0] += rest;
        let wants = self.wants(&q);
        let tail = if wants.is_empty() { q.iter().copied().enumerate().collect() } else { scaled(&wants, 1.0) };
        let own = (0..q.len()).map(|rank| vec![(rank, 1.0)]).collect();
        Draft { q, own, tail }
    }

    /// Keeps one more symbol, of rank `z`, in part; `None` if that is impossible or does not pay.
    fn with_a_part(&self, kept: &[f64], rest: f64, tail: f64) -> Option<Draft> {
        let z = kept.len();
        if z >= self.belief.len() || rest <= LEAST_PART || !self.pays(z) {
            return None;
        }
        let heavy = self.belief.iter().take_while(|belief| **belief >= self.theta).count();
        if tail >= self.theta {
            Some(self.part_fed_by_the_tail(kept, rest, tail))
        } else if heavy == z {
            self.part_taken_from_the_last(kept, tail)
        } else {
            self.part_shared_with_the_last(kept, rest, tail, heavy)
        }
    }

    /// The tail alone fills the output of rank `z`.
    fn part_fed_by_the_tail(&self, kept: &[f64], rest: f64, tail: f64) -> Draft {
        let (z, b) = (kept.len(), self.belief[kept.len()]);
        let wants = self.wants(kept);
        let mut q = kept.to_vec();
        q.push(rest);
        let most = self.cap * rest;
        let others = (rest * (1.0 - self.cap * b) / (tail - b)).clamp(0.0, most);
        let row = |to_z: f64| -> Row {
            let mut row = scaled(&wants, 1.0 - to_z);
            row.push((z, to_z));
            row
        };
        let mut own: Vec<Row> = (0..z).map(|rank| vec![(rank, 1.0)]).collect();
        own.push(row(most));
        Draft { q, own, tail: row(others) }
    }

    /// All kept symbols have a belief of `theta` or more: the last one fills what the tail lacks.
    fn part_taken_from_the_last(&self, kept: &[f64], tail: f64) -> Option<Draft> {
        let (z, j) = (kept.len(), kept.len().checked_sub(1)?);
        let lacking = self.theta - tail;
        let mut q = kept.to_vec();
        q[j] = self.belief[j] - lacking;
        if q[j] < LEAST_PART {
            return None;
        }
        q.push(self.theta);
        let moved = lacking / self.belief[j];
        let mut own: Vec<Row> = (0..j).map(|rank| vec![(rank, 1.0)]).collect();
        own.push(vec![(j, 1.0 - moved), (z, moved)]);
        own.push(vec![(z, 1.0)]);
        Some(Draft { q, own, tail: vec![(z, 1.0)] })
    }

    /// Some kept symbols have a belief below `theta`: the last one and the tail share the output of rank `z`.
    fn part_shared_with_the_last(&self, kept: &[f64], rest: f64, tail: f64, heavy: usize) -> Option<Draft> {
        let (z, j) = (kept.len(), kept.len().checked_sub(1)?);
        let wanted: f64 = self.belief[heavy..j].iter().map(|belief| self.theta - belief).sum();
        let room = self.theta * (1.0 - wanted / tail);
        // Equals `rest + wanted`, so it is positive.
        let spare = self.belief[j] + tail - self.theta;
        let part = if spare > 1e-15 { room.min(rest * self.belief[j] / spare) } else { room };
        let moved = part * (1.0 - self.cap * tail) / self.belief[j];
        let to_last = 1.0 - self.cap * part - wanted / tail;
        if part < LEAST_PART || moved > 1.0 || to_last < -1e-12 {
            return None;
        }
        let mut q = kept.to_vec();
        q[j] = self.theta + rest - part;
        q.push(part);
        let mut row: Row = (heavy..j).map(|rank| (rank, (self.theta - self.belief[rank]) / tail)).collect();
        row.push((j, to_last.max(0.0)));
        row.push((z, self.cap * part));
        let mut own: Vec<Row> = (0..j).map(|rank| vec![(rank, 1.0)]).collect();
        own.push(vec![(j, 1.0 - moved), (z, moved)]);
        own.push(row.clone());
        Some(Draft { q, own, tail: row })
    }

    /// Probability of a correct answer.
    fn value(&self, draft: &Draft) -> f64 {
        let own = |rank: usize| draft.own[rank].iter().find(|(output, _)| *output == rank).map_or(0.0, |(_, p)| *p);
        let of = |rank: usize| self.belief[rank] * (self.l * draft.q[rank] + (1.0 - self.l) * own(rank));
        (0..draft.q.len()).map(of).sum()
    }

    fn build(&self, draft: Draft, domain: usize) -> Result<Channel, ChannelMatrixError> {
        // Outputs ascend by symbol, ranks descend by belief.
        let mut ranks: Vec<usize> = (0..draft.q.len()).collect();
        ranks.sort_unstable_by_key(|rank| self.symbols[*rank]);
        let mut positions = vec![0_u32; ranks.len()];
        for (position, rank) in (0..).zip(&ranks) {
            positions[*rank] = position;
        }
        let outputs = ranks.iter().map(|rank| (self.symbols[*rank], draft.q[*rank])).collect();
        let placed = |row: Row| row.into_iter().map(|(rank, p)| (positions[rank], p)).collect();
        // Cell 0 is the tail's; kept symbols follow.
        let mut rows: Vec<Vec<(u32, f64)>> = vec![placed(draft.tail)];
        let mut mixture_of = vec![0; domain];
        for (cell, (row, symbol)) in (1..).zip(draft.own.into_iter().zip(&self.symbols)) {
            rows.push(placed(row));
            mixture_of[*symbol as usize] = cell;
        }
        let mixtures = (0..).take(rows.len()).map(|cell| vec![(cell, 1.0)]).collect();
        Channel::new(Parts { independent: self.l, outputs, rows, mixtures, mixture_of })
    }
}

impl Draft {
    /// Whether no row exceeds `cap` times the output probability, up to rounding.
    fn keeps_to(&self, cap: f64) -> bool {
        let rows = self.own.iter().chain([&self.tail]).flatten();
        self.q.iter().all(|q| *q > 0.0) && rows.into_iter().all(|(rank, p)| *p <= cap * self.q[*rank] + 1e-12)
    }
}

/// Weights scaled to a sum.
fn scaled(weights: &[(usize, f64)], sum: f64) -> Row {
    let total: f64 = weights.iter().map(|(_, weight)| weight).sum();
    weights.iter().map(|(rank, weight)| (*rank, sum * weight / total)).collect()
}
