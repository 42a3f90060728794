//! Linear programmes: the optimal channel, or nearly so, for any distance (feature `programme`).
//!
//! By the factored form of [`channel`](crate::channel), the best epsilon-SIP channel is a transport problem with caps:
//! rows `r(y|c)`, one for each cell of symbols, and outputs `q(y)`, such that
//!
//! ```text
//! sum_y r(y|c) = 1,   sum_c b(c) r(y|c) = q(y),   0 <= r(y|c) <= K q(y),   K = e^epsilon + 1
//! ```
//!
//! with the least `l sum_y q(y) M(y) + (1 - l) sum_c b(c) sum_y r(y|c) D(c, y)`, `b(c)` being the belief that the
//! symbol is in the cell, `D(c, y)` its mean distance from `y` there, and `M(y)` the mean distance overall.
//!
//! An interior-point solver finds the optimum up to about 10⁻⁸, and may be off the constraints by as much. So nothing
//! that it returns is used as it is: it is repaired until every `r(y|c) <= K q(y)` holds with a margin of 10⁻⁹,
//! which is checked, and is used only if it is then cheaper than the channel that is known without it. A solver that
//! fails, or is wrong, costs accuracy but never privacy.

use clarabel::algebra::CscMatrix;
use clarabel::solver::{
    DefaultSettings, DefaultSolver, IPSolver, NonnegativeConeT, SolverStatus, SupportedConeT, ZeroConeT,
};
use tidegate_kernel::Epsilon;

use crate::bins::{self, LineDistance, Shares, index};
use crate::channel::{Channel, ChannelMatrixError, Parts};
use crate::distance::Distance;
use crate::effort::{self, Effort};

/// Maximum number of symbols with a cell and an output each; beyond, cells are quantiles of the belief.
pub const FULL_LIMIT: usize = 128;

/// Limits of the number of cells for larger domains: three for each likely output of the optimum.
const CELLS: (f64, f64) = (32.0, 96.0);

/// Margin of the caps after the repair.
const MARGIN: f64 = 1e-9;

/// Smaller probabilities in a row are solver noise.
const NOISE: f64 = 1e-9;

/// Outputs less likely than this are dropped; the cheapest choice is taken.
const LEAST_OUTPUTS: [f64; 4] = [1e-7, 1e-6, 1e-5, 1e-4];

/// Returns an epsilon-SIP channel for a belief and a distance, by linear programming; see the [module](self).
///
/// Up to [`FULL_LIMIT`] symbols it is the optimum, up to about one part in 10⁶ (50 ms for 50 symbols, a second for
/// 128). For more symbols on a line, cells of neighbouring symbols are answered alike and the answers are the middles
/// of cells and the representatives of the [`bins`](bins::channel): some tenths of a percent above the optimum (one
/// percent from epsilon 3 on), in a time that hardly depends on the number of symbols (20 ms to a second). For more
/// symbols and a matrix, it is the [clusters](crate::clusters::channel). It is never worse than what is known without a
/// programme, and is that where the solver fails. For the Hamming distance the optimum is
/// [known](crate::hamming::channel), and nothing is solved.
///
/// # Errors
/// A belief that is no distribution, an epsilon that is out of range, a matrix of another size than the belief.
///
/// ```
/// use tidegate_sequence::channel::Channel;
/// use tidegate_sequence::distance::Distance;
/// use tidegate_sequence::effort::{self, Effort};
/// use tidegate_sequence::programme;
///
/// let (belief, epsilon, distance) = ([0.25; 4], "1".parse()?, Distance::Absolute);
/// let cost = |channel: &Channel| channel.expected_cost(&belief, |x, y| distance.between(x, y));
/// assert!((cost(&effort::channel(&belief, epsilon, &distance, Effort::Fast)?)? - 0.6113).abs() < 1e-4);
/// assert!((cost(&programme::channel(&belief, epsilon, &distance)?)? - 0.5044).abs() < 1e-4);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub fn channel(belief: &[f64], epsilon: Epsilon, distance: &Distance) -> Result<Channel, ChannelMatrixError> {
    let known = effort::channel(belief, epsilon, distance, Effort::Fast)?;
    let belief = bins::normalised(belief)?;
    let shares = Shares::new(epsilon)?;
    let full = belief.len() <= FULL_LIMIT;
    let line = match distance {
        Distance::Hamming => return Ok(known),
        Distance::Matrix(_) | Distance::Grid { .. } if !full => return Ok(known),
        Distance::Absolute | Distance::Matrix(_) | Distance::Grid { .. } => LineDistance::Absolute,
        Distance::Squared => LineDistance::Squared,
    };
    if bins::is_identity_private(&belief, &shares) {
        return Ok(known);
    }
    let (cell_of, outputs) = if full {
        (own_cells(&belief), (0..index(belief.len())).collect())
    } else {
        quantile_cells(&belief, &shares, line, known.outputs())
    };
    let between = |symbol, output| distance.between(symbol, output);
    let solved = solve(&belief, &cell_of, outputs, &shares, between);
    cheaper(known, solved, &belief, between)
}

/// Returns the cheaper of a known private channel and that of a programme, if any.
pub(crate) fn cheaper(
    known: Channel,
    solved: Option<Channel>,
    belief: &[f64],
    distance: impl Fn(u32, u32) -> f64,
) -> Result<Channel, ChannelMatrixError> {
    let Some(solved) = solved else { return Ok(known) };
    let better = solved.expected_cost(belief, &distance)? < known.expected_cost(belief, &distance)?;
    Ok(if better { solved } else { known })
}

/// Cell of every possible symbol; `None` for the others.
pub(crate) type CellOf = Vec<Option<usize>>;

/// One cell for each possible symbol.
pub(crate) fn own_cells(belief: &[f64]) -> CellOf {
    let mut cells = 0;
    belief
        .iter()
        .map(|weight| {
            (*weight > 0.0).then(|| {
                cells += 1;
                cells - 1
            })
        })
        .collect()
}

/// Cells of neighbouring symbols with about equal masses, heavy symbols alone; and candidate outputs: the middle of
/// each cell, and known good ones.
#[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)] // numbers of cells
fn quantile_cells(belief: &[f64], shares: &Shares, distance: LineDistance, known: &[(u32, f64)]) -> (CellOf, Vec<u32>) {
    let wanted = (3.0 * shares.cap).clamp(CELLS.0, CELLS.1).floor();
    let mut cell_of = Vec::with_capacity(belief.len());
    // Mass of each cell, and sum of mass times position.
    let mut sums: Vec<(f64, f64)> = Vec::new();
    let mut members: Vec<Vec<u32>> = Vec::new();
    let (mut before, mut last_key) = (0.0, None);
    for (symbol, weight) in belief.iter().enumerate() {
        if *weight <= 0.0 {
            cell_of.push(None);
            continue;
        }
        let step = ((before + weight / 2.0) * wanted) as usize;
        let key = if *weight * wanted > 1.0 { (true, symbol) } else { (false, step) };
        before += weight;
        if last_key != Some(key) {
            sums.push((0.0, 0.0));
            members.push(Vec::new());
            last_key = Some(key);
        }
        let cell = sums.len() - 1;
        sums[cell].0 += weight;
        sums[cell].1 += weight * f64::from(index(symbol));
        members[cell].push(index(symbol));
        cell_of.push(Some(cell));
    }
    let middle = |cell: usize| match distance {
        LineDistance::Squared => (sums[cell].1 / sums[cell].0).round() as u32,
        LineDistance::Absolute => {
            let mut rest = sums[cell].0 / 2.0;
            let reached = members[cell].iter().find(|symbol| {
                rest -= belief[**symbol as usize];
                rest <= 0.0
            });
            reached.or(members[cell].last()).copied().unwrap_or_default()
        }
    };
    let mut outputs: Vec<u32> = (0..sums.len()).map(middle).chain(known.iter().map(|(output, _)| *output)).collect();
    outputs.sort_unstable();
    outputs.dedup();
    (cell_of, outputs)
}

/// Rows, and their output distribution.
struct Rows {
    rows: Vec<Vec<f64>>,
    outputs: Vec<f64>,
}

/// Transport problem with caps: masses of cells, and their mean distance from each output.
struct Transport {
    masses: Vec<f64>,
    distances: Vec<Vec<f64>>,
    /// Mean distance of each output.
    means: Vec<f64>,
    shares: Shares,
}

impl Transport {
    fn new(
        belief: &[f64],
        cell_of: &CellOf,
        outputs: &[u32],
        shares: Shares,
        distance: impl Fn(u32, u32) -> f64,
    ) -> Self {
        let cells = cell_of.iter().flatten().max().map_or(0, |last| last + 1);
        let mut masses = vec![0.0; cells];
        let mut distances = vec![vec![0.0; outputs.len()]; cells];
        for ((symbol, weight), cell) in (0_u32..).zip(belief).zip(cell_of) {
            let Some(cell) = *cell else { continue };
            masses[cell] += weight;
            for (sum, output) in distances[cell].iter_mut().zip(outputs) {
                *sum += weight * distance(symbol, *output);
            }
        }
        let mut means = vec![0.0; outputs.len()];
        for (row, mass) in distances.iter_mut().zip(&masses) {
            for (entry, mean) in row.iter_mut().zip(&mut means) {
                *mean += *entry;
                *entry /= mass;
            }
        }
        Self { masses, distances, means, shares }
    }

    fn cost(&self, solution: &Rows) -> f64 {
        let l = self.shares.independent;
        let mean = |row: &[f64], distances: &[f64]| -> f64 { row.iter().zip(distances).map(|(r, d)| r * d).sum() };
        let independent = mean(&solution.outputs, &self.means);
        let cells = solution.rows.iter().zip(&self.distances).zip(&self.masses);
        let own: f64 = cells.map(|((row, distances), mass)| mass * mean(row, distances)).sum();
        l * independent + (1.0 - l) * own
    }

    /// Optimum up to solver accuracy, before repair; `None` if there is none.
    fn optimum(&self) -> Option<Vec<Vec<f64>>> {
        let (cells, outputs) = (self.masses.len(), self.means.len());
        // In units of the best constant's cost, so that tolerances mean the same for every distance.
        let unit = self.means.iter().copied().fold(f64::INFINITY, f64::min);
        if !(unit > 0.0 && unit.is_finite()) {
            return None;
        }
        let l = self.shares.independent;
        let (entries, variables) = (cells * outputs, cells * outputs + outputs);
        // Order of constraints: sums of rows, sums of columns, caps, signs.
        let (columns_at, caps_at) = (cells, cells + outputs);
        let signs_at = caps_at + entries;
        let constraints = signs_at + entries;
        let mut starts = Vec::with_capacity(variables + 1);
        let (mut places, mut values) = (Vec::with_capacity(5 * entries), Vec::with_capacity(5 * entries));
        let mut costs = Vec::with_capacity(variables);
        for (cell, (mass, distances)) in self.masses.iter().zip(&self.distances).enumerate() {
            for (output, distance) in distances.iter().enumerate() {
                starts.push(places.len());
                let entry = cell * outputs + output;
                places.extend([cell, columns_at + output, caps_at + entry, signs_at + entry]);
                values.extend([1.0, *mass, 1.0, -1.0]);
                costs.push((1.0 - l) * mass * distance / unit);
            }
        }
        for (output, mean) in self.means.iter().enumerate() {
            starts.push(places.len());
            places.push(columns_at + output);
            values.push(-1.0);
            for cell in 0..cells {
                places.push(caps_at + cell * outputs + output);
                values.push(-self.shares.cap);
            }
            costs.push(l * mean / unit);
        }
        starts.push(places.len());
        let matrix = CscMatrix::new(constraints, variables, starts, places, values);
        let mut bounds = vec![0.0; constraints];
        bounds[..cells].fill(1.0);
        let cones: [SupportedConeT<f64>; 2] = [ZeroConeT(cells + outputs), NonnegativeConeT(2 * entries)];
        let settings = DefaultSettings { verbose: false, max_iter: 100, ..DefaultSettings::default() };
        let none = CscMatrix::zeros((variables, variables));
        let mut solver = DefaultSolver::new(&none, &costs, &matrix, &bounds, &cones, settings).ok()?;
        solver.solve();
        let usable = matches!(
            solver.solution.status,
            SolverStatus::Solved | SolverStatus::AlmostSolved | SolverStatus::MaxIterations
        );
        let found = &solver.solution.x[..entries];
        (usable && found.iter().all(|value| value.is_finite()))
            .then(|| found.chunks(outputs).map(<[f64]>::to_vec).collect())
    }

    fn marginal(&self, rows: &[Vec<f64>]) -> Vec<f64> {
        let mut outputs = vec![0.0; self.means.len()];
        for (row, mass) in rows.iter().zip(&self.masses) {
            for (sum, entry) in outputs.iter_mut().zip(row) {
                *sum += mass * entry;
            }
        }
        outputs
    }

    /// Largest `r(y|c) / q(y)`.
    fn worst(rows: &[Vec<f64>], outputs: &[f64]) -> f64 {
        let ratios = rows.iter().flat_map(|row| row.iter().zip(outputs)).filter(|(r, _)| **r > 0.0);
        ratios.map(|(r, q)| r / q).fold(0.0, f64::max)
    }
}

/// Repairs the solver's rows to keep every cap with a margin; `None` if that fails.
///
/// Drops noise and outputs below `least`, normalises rows, and moves excess over a cap to where the row has room. A
/// remaining excess is removed by mixing every row with `q`, which leaves `q` unchanged.
fn repair(transport: &Transport, found: &[Vec<f64>], least: f64) -> Option<Rows> {
    let mut rows = found.to_vec();
    rows.iter_mut().flatten().filter(|entry| **entry < NOISE).for_each(|entry| *entry = 0.0);
    let likely: Vec<bool> = transport.marginal(&rows).iter().map(|q| *q >= least).collect();
    for row in &mut rows {
        row.iter_mut().zip(&likely).filter(|(_, likely)| !**likely).for_each(|(entry, _)| *entry = 0.0);
        let sum: f64 = row.iter().sum();
        if sum < 0.5 {
            return None;
        }
        row.iter_mut().for_each(|entry| *entry /= sum);
    }
    let strict = transport.shares.cap * (1.0 - MARGIN);
    let mut outputs = transport.marginal(&rows);
    for _ in 0..30 {
        if Transport::worst(&rows, &outputs) <= strict {
            break;
        }
        let caps: Vec<f64> = outputs.iter().map(|q| q * transport.shares.cap * (1.0 - 2.0 * MARGIN)).collect();
        rows.iter_mut().for_each(|row| level(row, &caps));
        outputs = transport.marginal(&rows);
    }
    let worst = Transport::worst(&rows, &outputs);
    if worst > strict {
        let share = (worst - transport.shares.cap * (1.0 - 2.0 * MARGIN)) / (worst - 1.0);
        for row in &mut rows {
            row.iter_mut().zip(&outputs).for_each(|(entry, q)| *entry += share * (q - *entry));
        }
    }
    (Transport::worst(&rows, &outputs) <= strict).then_some(Rows { rows, outputs })
}

/// Moves the excess over caps to outputs with room, preferably those that the row already has.
fn level(row: &mut [f64], caps: &[f64]) {
    let above: f64 = row.iter().zip(caps).map(|(entry, cap)| (entry - cap).max(0.0)).sum();
    if above <= 0.0 {
        return;
    }
    let room = |row: &[f64], everywhere: bool| -> f64 {
        let open = row.iter().zip(caps).filter(|(entry, _)| everywhere || **entry > 0.0);
        open.map(|(entry, cap)| (cap - entry).max(0.0)).sum()
    };
    let nearby = room(row, false);
    let everywhere = nearby < 2.0 * above;
    let share = above / if everywhere { room(row, true) } else { nearby };
    for (entry, cap) in row.iter_mut().zip(caps) {
        if *entry > *cap {
            *entry = *cap;
        } else if everywhere || *entry > 0.0 {
            *entry += share * (cap - *entry);
        }
    }
}

/// Best channel that answers all symbols of a cell alike with one of the ascending `outputs`, repaired and checked;
/// `None` if there is none. Impossible symbols are answered like their best cell.
pub(crate) fn solve(
    belief: &[f64],
    cell_of: &CellOf,
    outputs: Vec<u32>,
    shares: &Shares,
    distance: impl Fn(u32, u32) -> f64,
) -> Option<Channel> {
    let transport = Transport::new(belief, cell_of, &outputs, *shares, &distance);
    let found = transport.optimum()?;
    let repaired = LEAST_OUTPUTS.iter().filter_map(|least| repair(&transport, &found, *least));
    let best = repaired
        .map(|rows| (transport.cost(&rows), rows))
        .min_by(|(one, _), (other, _)| one.total_cmp(other))
        .map(|(_, rows)| rows)?;
    let channel = assemble(cell_of, &outputs, &best, shares, distance)?;
    // Checked by definition.
    let leakage = channel.leakage(belief).ok()?.largest();
    let private = leakage <= -shares.independent.ln() + 1e-12 && channel.excess(belief).ok()? <= 1e-12;
    private.then_some(channel)
}

fn assemble(
    cell_of: &CellOf,
    outputs: &[u32],
    best: &Rows,
    shares: &Shares,
    distance: impl Fn(u32, u32) -> f64,
) -> Option<Channel> {
    let kept: Vec<usize> = (0..outputs.len()).filter(|output| best.outputs[*output] > 0.0).collect();
    let sparse = |row: &[f64]| -> Vec<(u32, f64)> {
        let entries = kept.iter().enumerate().map(|(position, output)| (index(position), row[*output]));
        entries.filter(|(_, entry)| *entry > 0.0).collect()
    };
    let rows: Vec<Vec<(u32, f64)>> = best.rows.iter().map(|row| sparse(row)).collect();
    let cells = rows.len();
    let mixtures: Vec<Vec<(u32, f64)>> = (0..cells).map(|cell| vec![(index(cell), 1.0)]).collect();
    let suits = |symbol: u32, cell: usize| -> f64 {
        rows[cell].iter().map(|(position, r)| r * distance(symbol, outputs[kept[*position as usize]])).sum()
    };
    let mixture_of = (0_u32..)
        .zip(cell_of)
        .map(|(symbol, cell)| {
            let best = || (0..cells).map(|cell| (suits(symbol, cell), cell)).min_by(|a, b| a.0.total_cmp(&b.0));
            cell.or_else(|| best().map(|(_, cell)| cell)).map(index)
        })
        .collect::<Option<_>>()?;
    let outputs = kept.iter().map(|output| (outputs[*output], best.outputs[*output])).collect();
    Channel::new(Parts { independent: shares.independent, outputs, rows, mixtures, mixture_of }).ok()
}
