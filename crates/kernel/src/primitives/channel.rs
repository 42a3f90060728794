//! Perturbation of a symbol through a public channel.

use super::{Noised, PrimitiveError, paid};
use crate::account::Account;
use crate::epsilon::Epsilon;
use crate::interval::Interval;
use crate::permit::Permit;
use crate::random::{Closed, FreshRandom, Randomness};
use crate::sealed::Sealed;
use crate::step::RandomisedStep;

/// The largest epsilon of a [`ChannelLimits`].
pub const MAX_CHANNEL_EPSILON: Epsilon = Epsilon::whole::<10>();

/// Sum of the weights of every distribution: 2^62, so that 62 random bits select an item.
const TOTAL: u64 = 1 << 62;

/// Tolerance for rounding a distribution, in weight: less than one part in 10⁹.
const TOLERANCE: u64 = 1 << 32;

/// Why a channel was rejected. All fields are public.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
#[allow(missing_docs)] // the messages name the fields
pub enum ChannelError {
    /// An epsilon so small that e^epsilon rounds to one, or too large for the weights.
    #[error("epsilon {given} is outside {}..={MAX_CHANNEL_EPSILON}, the range of a channel", Epsilon::MIN)]
    Epsilon { given: Epsilon },
    /// No symbols, or too many.
    #[error("a channel over {given} symbols is outside 1..={}", crate::MAX_DOMAIN)]
    Domain { given: usize },
    /// An index out of range.
    #[error("{what} {given} is not below {limit}")]
    Index { what: &'static str, given: u32, limit: usize },
    /// A list that is not strictly ascending.
    #[error("{what} {index} is not in strictly ascending order")]
    Order { what: &'static str, index: usize },
    /// Numbers that are not a probability distribution.
    #[error("{what} {index} is not a probability distribution: its numbers are not from 0 to 1, or do not sum to 1")]
    Distribution { what: &'static str, index: usize },
    /// A cell gives some output more than `e^epsilon + 1` times its probability in the independent answer.
    #[error("cell {cell} gives some output more than e^epsilon + 1 times its probability in the independent answer")]
    AboveLimit { cell: usize },
}

/// The exact privacy limits of a channel of a given epsilon. Computing them takes longer than checking a channel, so
/// reuse them.
#[derive(Clone, Copy, Debug)]
pub struct ChannelLimits {
    epsilon: Epsilon,
    /// The loss of an answer: twice epsilon.
    loss: Epsilon,
    /// Number of the 2^64 words that give an independent answer: a share of at least `e^-epsilon`.
    independent: u64,
    /// `e^epsilon + 1`.
    ratio: Interval,
}

impl ChannelLimits {
    /// Computes the limits for an epsilon, which is half of the [loss](Self::loss) of an answer.
    ///
    /// # Errors
    /// [`ChannelError::Epsilon`] above [`MAX_CHANNEL_EPSILON`].
    pub fn new(epsilon: Epsilon) -> Result<Self, ChannelError> {
        let error = ChannelError::Epsilon { given: epsilon };
        let loss = epsilon.checked_mul(2).filter(|_| epsilon <= MAX_CHANNEL_EPSILON).ok_or(error)?;
        let power = epsilon.exp();
        let independent = Interval::integer(1).div(power).probability_up().ok_or(error)?;
        Ok(Self { epsilon, loss, independent, ratio: power.add(Interval::integer(1)) })
    }

    /// The epsilon: for any symbol, the probability of an output differs from that in the independent answer by a
    /// factor of at most e^epsilon.
    pub const fn epsilon(&self) -> Epsilon {
        self.epsilon
    }

    /// The loss of an answer, and the amount of its permit: twice [`ChannelLimits::epsilon`].
    pub const fn loss(&self) -> Epsilon {
        self.loss
    }

    /// The largest weight of an output in a row, given its weight in the independent answer.
    fn largest(&self, output: u64) -> u64 {
        self.ratio.floor_times(output).map_or(TOTAL, |limit| limit.min(TOTAL))
    }
}

/// A public channel in factored form, computed by the caller. With probability `e^-epsilon` the answer is drawn from
/// `outputs`, independently of the symbol. Otherwise the symbol's mixture selects a cell, and the cell's row an output.
#[derive(Clone, Copy, Debug)]
pub struct ChannelParts<'a> {
    /// The outputs, ascending, and the probability of each in the independent answer.
    pub outputs: &'a [(u32, f64)],
    /// For each cell: positions in `outputs`, ascending, and probabilities.
    pub rows: &'a [Vec<(u32, f64)>],
    /// Mixtures: cells, ascending, with weights that sum to one.
    pub mixtures: &'a [Vec<(u32, f64)>],
    /// The index of each symbol's mixture.
    pub mixture_of: &'a [u32],
}

/// A channel in exact integer weights that is within its [limits](ChannelLimits).
///
/// ```
/// use tidegate_kernel::primitives::{ChannelLimits, ChannelParts, SymbolChannel, seal_symbol};
/// use tidegate_kernel::{Ledger, SystemRandom, Window};
///
/// // A bit that is believed to be 1 with probability 0.7: itself, or with probability e^-1 one drawn from the belief.
/// let limits = ChannelLimits::new("1".parse()?)?;
/// let (rows, mixtures) = (vec![vec![(0, 1.0)], vec![(1, 1.0)]], vec![vec![(0, 1.0)], vec![(1, 1.0)]]);
/// let outputs = [(0, 0.3), (1, 0.7)];
/// let parts = ChannelParts { outputs: &outputs, rows: &rows, mixtures: &mixtures, mixture_of: &[0, 1] };
/// let channel = SymbolChannel::new(&limits, parts)?;
///
/// let mut ledger = Ledger::new("2".parse()?, Window::EVENT);
/// let permit = ledger.spend(0, limits.loss())?;
/// let answer = channel.answer(permit, &seal_symbol(ledger.account(), 0, 1, 2)?, &mut SystemRandom::new()?)?;
/// assert!(*answer.value() < 2);
///
/// // With a belief of 0.1 the same would tell too much, and is refused.
/// let parts = ChannelParts { outputs: &[(0, 0.1), (1, 0.9)], ..parts };
/// assert!(SymbolChannel::new(&limits, parts).is_err());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug)]
pub struct SymbolChannel {
    loss: Epsilon,
    independent: u64,
    /// The symbol at each position.
    symbols: Vec<u32>,
    outputs: Table,
    rows: Vec<Table>,
    mixtures: Vec<Table>,
    mixture_of: Vec<u32>,
}

/// A distribution: items, ascending, with integer weights that sum to [`TOTAL`].
#[derive(Clone, Debug)]
struct Table {
    items: Vec<(u32, u64)>,
}

impl Table {
    fn weight_of(&self, item: u32) -> u64 {
        self.items.binary_search_by_key(&item, |(item, _)| *item).map_or(0, |found| self.items[found].1)
    }

    fn total(&self) -> Option<u64> {
        self.items.iter().try_fold(0_u64, |sum, (_, weight)| sum.checked_add(*weight))
    }

    /// Draws an item with probability exactly its weight over [`TOTAL`].
    #[inline]
    fn sample(&self, random: &mut impl Randomness) -> u32 {
        let mut point = random.next_word() >> 2;
        let mut last = 0;
        for &(item, weight) in &self.items {
            last = item;
            match point.checked_sub(weight) {
                Some(beyond) => point = beyond,
                None => break,
            }
        }
        last
    }
}

impl SymbolChannel {
    /// Creates a channel from its parts. The floats are rounded to integer weights, and privacy rests only on an exact
    /// check of those. Rounding moves each distribution by less than one part in 10⁹, always towards the limits. Takes
    /// O(number of entries).
    ///
    /// # Errors
    /// Invalid parts, and [`ChannelError::AboveLimit`] for a channel that is not private enough.
    pub fn new(limits: &ChannelLimits, parts: ChannelParts<'_>) -> Result<Self, ChannelError> {
        let ChannelParts { outputs, rows, mixtures, mixture_of } = parts;
        let domain = mixture_of.len();
        if domain == 0 || domain > crate::MAX_DOMAIN as usize {
            return Err(ChannelError::Domain { given: domain });
        }
        check_list(outputs, domain, "the list of outputs", 0)?;
        let weights = round_to_largest(outputs).ok_or(ChannelError::Distribution { what: "outputs", index: 0 })?;
        // From here on, outputs are given by position, as in the rows.
        let by_position = (0_u32..).zip(weights).map(|(position, (_, weight))| (position, weight)).collect();
        let outputs_table = Table { items: by_position };
        let spare = most_likely(&outputs_table);
        let mut row_tables = Vec::with_capacity(rows.len());
        for (cell, row) in rows.iter().enumerate() {
            check_list(row, outputs.len(), "row", cell)?;
            row_tables.push(round_row(row, cell, &outputs_table, &spare, limits)?);
        }
        let mut mixture_tables = Vec::with_capacity(mixtures.len());
        for (index, mixture) in mixtures.iter().enumerate() {
            check_list(mixture, rows.len(), "mixture", index)?;
            let error = ChannelError::Distribution { what: "mixture", index };
            mixture_tables.push(Table { items: round_to_largest(mixture).ok_or(error)? });
        }
        let channel = Self {
            loss: limits.loss,
            independent: limits.independent,
            symbols: outputs.iter().map(|(symbol, _)| *symbol).collect(),
            outputs: outputs_table,
            rows: row_tables,
            mixtures: mixture_tables,
            mixture_of: mixture_of.to_vec(),
        };
        channel.verify(limits)?;
        Ok(channel)
    }

    /// Checks the assumptions of the [proof](crate::proofs::symbol_channel) in exact arithmetic, after rounding.
    fn verify(&self, limits: &ChannelLimits) -> Result<(), ChannelError> {
        let complete = |table: &Table, what, index| match table.total() {
            Some(TOTAL) => Ok(()),
            _ => Err(ChannelError::Distribution { what, index }),
        };
        complete(&self.outputs, "outputs", 0)?;
        for (cell, row) in self.rows.iter().enumerate() {
            complete(row, "row", cell)?;
            for &(position, weight) in &row.items {
                let Some((_, output)) = self.outputs.items.get(position as usize) else {
                    return Err(ChannelError::Index { what: "output", given: position, limit: self.symbols.len() });
                };
                if weight > limits.largest(*output) {
                    return Err(ChannelError::AboveLimit { cell });
                }
            }
        }
        for (index, mixture) in self.mixtures.iter().enumerate() {
            complete(mixture, "mixture", index)?;
            if let Some((cell, _)) = mixture.items.iter().find(|(cell, _)| *cell as usize >= self.rows.len()) {
                return Err(ChannelError::Index { what: "cell", given: *cell, limit: self.rows.len() });
            }
        }
        match self.mixture_of.iter().find(|mixture| **mixture as usize >= self.mixtures.len()) {
            Some(mixture) => Err(ChannelError::Index { what: "mixture", given: *mixture, limit: self.mixtures.len() }),
            None => Ok(()),
        }
    }

    /// The number of symbols.
    pub fn domain(&self) -> u32 {
        u32::try_from(self.mixture_of.len()).unwrap_or(u32::MAX)
    }

    /// The loss of an answer, and the amount of its permit.
    pub const fn loss(&self) -> Epsilon {
        self.loss
    }

    /// The possible answers.
    #[cfg(feature = "simulation")]
    pub(crate) fn outputs(&self) -> impl Iterator<Item = u32> + '_ {
        self.symbols.iter().copied()
    }

    /// The probability of the answer `output` for `symbol`, from the same integer weights that
    /// [`SymbolChannel::answer`] uses; zero outside the domain. For audits.
    #[allow(clippy::cast_precision_loss)] // a probability to the precision of a float is what is asked for
    pub fn probability(&self, symbol: u32, output: u32) -> f64 {
        let (Some(mixture), Ok(position)) = (self.mixture_of.get(symbol as usize), self.symbols.binary_search(&output))
        else {
            return 0.0;
        };
        let Ok(position) = u32::try_from(position) else { return 0.0 };
        let share = |weight: u64| weight as f64 / TOTAL as f64;
        let independent = self.independent as f64 / 2_f64.powi(64);
        let cells = &self.mixtures[*mixture as usize].items;
        let own = |(cell, weight): &(u32, u64)| share(*weight) * share(self.rows[*cell as usize].weight_of(position));
        independent * share(self.outputs.weight_of(position)) + (1.0 - independent) * cells.iter().map(own).sum::<f64>()
    }

    /// Answers a symbol.
    ///
    /// # Guarantee
    /// Any change of the symbol is protected at a loss of at most the permit's epsilon, for any prior knowledge about
    /// the symbol ([proof](crate::proofs::symbol_channel)). Moreover, for any symbol, the probability of an output
    /// differs from that in the independent answer by a factor of at most e^(epsilon/2). If the independent answer has
    /// the distribution that an observer expects of the output, that bounds what the observer learns.
    ///
    /// # Errors
    /// [`PrimitiveError::Account`], [`PrimitiveError::Timestamp`] and [`PrimitiveError::ClassPermit`] if the permit
    /// does not match the symbol; [`PrimitiveError::ChannelPermit`] if its amount is not [`SymbolChannel::loss`]. A
    /// symbol outside the domain is read as the last one, because an error would reveal it; [`seal_symbol`] rejects it
    /// before sealing.
    pub fn answer(
        &self,
        permit: Permit,
        symbol: &Sealed<u32>,
        random: &mut impl Randomness,
    ) -> Result<Noised<u32>, PrimitiveError> {
        let epsilon = paid(&permit, symbol)?;
        if epsilon != self.loss {
            return Err(PrimitiveError::ChannelPermit { permit: epsilon, channel: self.loss });
        }
        let random = &mut FreshRandom::new(random)?;
        let symbol = (*symbol.content()).min(self.domain() - 1);
        Ok(Noised::new(random.publish(ChannelAnswer { symbol, channel: self }), epsilon, random))
    }
}

/// One draw of an answer.
pub(crate) struct ChannelAnswer<'a> {
    pub(crate) symbol: u32,
    pub(crate) channel: &'a SymbolChannel,
}

impl RandomisedStep for ChannelAnswer<'_> {
    type Output = u32;

    fn draw(&mut self, random: &mut impl Randomness) -> u32 {
        let SymbolChannel { independent, symbols, outputs, rows, mixtures, mixture_of, .. } = self.channel;
        let position = if random.next_word() < *independent {
            outputs.sample(random)
        } else {
            let cell = mixtures[mixture_of[self.symbol as usize] as usize].sample(random);
            rows[cell as usize].sample(random)
        };
        symbols[position as usize]
    }
}

/// The symbol is outside the domain. The message does not contain it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the symbol is outside the domain 0..{domain}")]
#[allow(missing_docs)] // the messages name the fields
pub struct SymbolError {
    pub domain: u32,
}

/// Seals the stream's symbol at `timestamp`.
///
/// # Errors
/// If the symbol is not below `domain`.
pub fn seal_symbol(account: Account, timestamp: u64, symbol: u32, domain: u32) -> Result<Sealed<u32>, SymbolError> {
    if symbol < domain { Ok(Sealed::at(account, timestamp, symbol)) } else { Err(SymbolError { domain }) }
}

/// Checks that a list has strictly ascending items below `limit`, with numbers that can be probabilities.
fn check_list(list: &[(u32, f64)], limit: usize, what: &'static str, index: usize) -> Result<(), ChannelError> {
    if list.windows(2).any(|pair| pair[0].0 >= pair[1].0) {
        return Err(ChannelError::Order { what, index });
    }
    // Ascending, so the last is the largest.
    if let Some((given, _)) = list.last().filter(|(item, _)| *item as usize >= limit) {
        return Err(ChannelError::Index { what, given: *given, limit });
    }
    if list.iter().any(|(_, probability)| !(0.0..=1.0 + 1e-9).contains(probability)) {
        return Err(ChannelError::Distribution { what, index });
    }
    Ok(())
}

/// The weight of a probability.
#[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss, clippy::cast_precision_loss)]
// Checked to lie between 0 and slightly above 1, so the product is well below 2^63.
fn weight(probability: f64) -> u64 {
    (probability * TOTAL as f64) as u64
}

/// Weights that sum to [`TOTAL`]. The rounding error goes to the largest; `None` if it exceeds the tolerance.
fn round_to_largest(list: &[(u32, f64)]) -> Option<Vec<(u32, u64)>> {
    let mut items: Vec<(u32, u64)> = list.iter().map(|&(item, probability)| (item, weight(probability))).collect();
    settle(&mut items, |_| TOTAL)?;
    Some(items)
}

/// Makes weights sum to [`TOTAL`] by changing the largest, up to `most`. Returns the weight still missing, or `None` if
/// the difference exceeds the tolerance.
fn settle(items: &mut [(u32, u64)], most: impl Fn(u32) -> u64) -> Option<u64> {
    let sum = items.iter().try_fold(0_u64, |sum, (_, weight)| sum.checked_add(*weight))?;
    if sum.abs_diff(TOTAL) > TOLERANCE {
        return None;
    }
    let largest = items.iter_mut().max_by_key(|(_, weight)| *weight)?;
    if let Some(excess) = sum.checked_sub(TOTAL) {
        largest.1 = largest.1.checked_sub(excess)?;
        return Some(0);
    }
    let missing = TOTAL - sum;
    let added = missing.min(most(largest.0).saturating_sub(largest.1));
    largest.1 += added;
    Some(missing - added)
}

/// The two most likely outputs. Weight that the limit cuts off a row goes to one of them, where it changes least.
fn most_likely(outputs: &Table) -> Vec<u32> {
    let mut best: [Option<(u32, u64)>; 2] = [None, None];
    for &(position, weight) in &outputs.items {
        if best[0].is_none_or(|(_, first)| weight > first) {
            best = [Some((position, weight)), best[0]];
        } else if best[1].is_none_or(|(_, second)| weight > second) {
            best[1] = Some((position, weight));
        }
    }
    best.into_iter().flatten().map(|(position, _)| position).collect()
}

/// A row whose weights are within the limits and sum to [`TOTAL`].
fn round_row(
    row: &[(u32, f64)],
    cell: usize,
    outputs: &Table,
    spare: &[u32],
    limits: &ChannelLimits,
) -> Result<Table, ChannelError> {
    let most = |position: u32| limits.largest(outputs.items[position as usize].1);
    let mut cut = 0_u64;
    let mut items = Vec::with_capacity(row.len() + spare.len());
    for &(position, probability) in row {
        let wanted = weight(probability);
        let given = wanted.min(most(position));
        cut = cut.saturating_add(wanted - given);
        items.push((position, given));
    }
    if cut > TOLERANCE {
        return Err(ChannelError::AboveLimit { cell });
    }
    let mut missing = settle(&mut items, most).ok_or(ChannelError::Distribution { what: "row", index: cell })?;
    for &position in spare {
        if missing == 0 {
            break;
        }
        let place = items.partition_point(|(item, _)| *item < position);
        if items.get(place).is_none_or(|(item, _)| *item != position) {
            items.insert(place, (position, 0));
        }
        let added = missing.min(most(position).saturating_sub(items[place].1));
        items[place].1 += added;
        missing -= added;
    }
    if missing > 0 {
        return Err(ChannelError::AboveLimit { cell });
    }
    Ok(Table { items })
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use dashu::integer::UBig;
    use dashu::rational::RBig;

    use super::*;
    use crate::exact::{exp_bounds, many_epsilons, power_of_two_times};
    use crate::{Ledger, SeededRandom, UNITS_PER_EPSILON, Window};

    /// Two outputs; the answer to symbol 0 is the first, unless it is independent.
    fn channel(independent: u64) -> SymbolChannel {
        let table = |items: &[(u32, u64)]| Table { items: items.to_vec() };
        SymbolChannel {
            loss: Epsilon::MIN,
            independent,
            symbols: vec![0, 1],
            outputs: table(&[(1, TOTAL)]),
            rows: vec![table(&[(0, TOTAL)])],
            mixtures: vec![table(&[(0, TOTAL)])],
            mixture_of: vec![0],
        }
    }

    #[test]
    fn words_below_the_limit_give_independent_answers() {
        let drawn = SeededRandom::new(8).next_word();
        for (independent, expected) in [(drawn - 1, 0), (drawn, 0), (drawn + 1, 1)] {
            let mut ledger = Ledger::new(Epsilon::MIN, Window::EVENT);
            let symbol = seal_symbol(ledger.account(), 0, 0, 1).unwrap();
            let permit = ledger.spend(0, Epsilon::MIN).unwrap();
            let answer = channel(independent).answer(permit, &symbol, &mut SeededRandom::new(8)).unwrap();
            assert_eq!(*answer.value(), expected);
        }
    }

    #[test]
    fn rejects_more_symbols_than_the_largest_domain() {
        let limits = ChannelLimits::new(Epsilon::whole::<1>()).unwrap();
        let given = crate::MAX_DOMAIN as usize + 1;
        let mixture_of = vec![0; given];
        let (rows, mixtures) = ([vec![(0, 1.0)]], [vec![(0, 1.0)]]);
        let parts = ChannelParts { outputs: &[(0, 1.0)], rows: &rows, mixtures: &mixtures, mixture_of: &mixture_of };
        assert_eq!(SymbolChannel::new(&limits, parts).map(drop), Err(ChannelError::Domain { given }));
    }

    #[test]
    fn excess_of_rows_goes_to_the_likeliest_outputs() {
        let limits = ChannelLimits::new(Epsilon::whole::<1>()).unwrap();
        let outputs = Table { items: vec![(0, TOTAL / 4), (1, TOTAL / 2), (2, TOTAL / 8), (3, TOTAL / 8)] };
        assert_eq!(most_likely(&outputs), [1, 0]);
        assert_eq!(most_likely(&Table { items: vec![(0, 5), (1, 5), (2, 7), (3, 6)] }), [2, 3]);
        assert_eq!(most_likely(&Table { items: vec![(0, 5), (1, 5), (2, 5)] }), [0, 1]);
        // If an output may have at most twice its weight, a row of two halves is at its limit.
        let limits = ChannelLimits { ratio: Interval::integer(2), ..limits };
        let row = |outputs: &[(u32, u64)], spare: &[u32]| {
            let outputs = Table { items: outputs.to_vec() };
            round_row(&[(0, 0.5), (2, 0.5)], 3, &outputs, spare, &limits).map(|table| table.items)
        };
        let (half, quarter, some) = (TOTAL / 2, TOTAL / 4, 1_000);
        let at_limit = [(0, quarter), (1, half), (2, quarter)];
        assert_eq!(row(&at_limit, &[1, 0]).unwrap(), [(0, half), (2, half)]);
        // With slightly less on the first output, the spare outputs take the excess.
        let less = [(0, quarter - some), (1, half + some), (2, quarter)];
        let expected = [(0, half - 2 * some), (1, 2 * some), (2, half)];
        assert_eq!(row(&less, &[1, 2]).unwrap(), expected);
        assert_eq!(row(&less, &[0, 1]).unwrap(), expected);
        assert_eq!(row(&less, &[0]).unwrap_err(), ChannelError::AboveLimit { cell: 3 });
    }

    #[test]
    fn limits_lie_on_the_private_side_of_exact_bounds() {
        let whole = power_of_two_times(1_u8, 64);
        let almost = RBig::ONE - power_of_two_times(1_u8, -50);
        for units in many_epsilons(MAX_CHANNEL_EPSILON.units()) {
            let limits = ChannelLimits::new(Epsilon::from_units(units).unwrap()).unwrap();
            let (below, above) = exp_bounds(units, UNITS_PER_EPSILON);
            // The independent answer has probability e^-epsilon or slightly more.
            assert!(RBig::from(limits.independent) * &below >= whole, "{units}");
            assert!(RBig::from(limits.independent - 1) * &above * &almost < whole, "{units}");
            for output in [1, 2, 3, 1_000_003, (1 << 40) + 7, TOTAL / 3, TOTAL] {
                // A row gives an output at most (e^epsilon + 1) times its weight, and at most the total.
                let largest = limits.largest(output);
                let bound = RBig::from(UBig::from(output)) * (&below + RBig::ONE);
                assert!(largest <= TOTAL && RBig::from(largest) <= bound, "{units} {output}");
                let is_tight = RBig::from(largest) > &bound * &almost - RBig::ONE;
                assert!(largest == TOTAL || is_tight, "{units} {output}");
            }
        }
    }
}
