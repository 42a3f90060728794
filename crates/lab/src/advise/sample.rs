//! What past releases tell about a stream: how much of their movement is its own, and streams that may have been behind
//! them.
//!
//! A release is the truth and noise, whose variance it states. Two releases that are `g` timestamps apart differ by
//! what the stream has moved and by both noises, so the mean square of a step is that of the stream plus what is known
//! of the noise, which is taken off:
//!
//! ```text
//! movement = max(0, sum of [ (r_j - r_i)² - v_i - v_j ] / sum of g_ij)        over neighbouring fresh releases i, j
//! ```
//!
//! Given that, the stream is taken for a walk seen through the noise, and drawn from what is then known of it: forward
//! by a Kalman filter, backward at random. So a draw moves as much as the stream does, follows the releases as far as
//! they can be trusted, and is the table itself where that states no noise. Repeated releases (approximated, nullified,
//! or equal to the last) are no observations of their own.
//!
//! Symbols state no variance: nothing is taken off there, and a release makes its stream look more restless than it is.

use std::borrow::Cow;
use std::io::Read;

use tidegate_kernel::simulation::standard_normal;
use tidegate_kernel::{Grid, SeededRandom};

use super::typical::scaled;
use super::{AdviseError, Data};
use crate::stream::{CountStream, DataStream, NumberStream, Space, SymbolStream, as_float};
use tidegate_table::released::{self, ReleasedTable};
use tidegate_table::{TableError, TableReader};

/// The most timestamps from the first to the last of a sample, gaps counted.
pub const LONGEST: u64 = 1_000_000;
/// A release may lie so many standard deviations outside the domain, and no more: noise does not go that far.
const FARTHEST: f64 = 20.0;

/// Past releases of a stream, or raw data of it.
#[derive(Clone, Debug, PartialEq)]
pub struct Sample {
    table: ReleasedTable,
    movement: Movement,
    /// The steps' variances, by value, that the stream is drawn with.
    steps: Vec<f64>,
}

/// How much a stream moves in a timestamp, as a sample tells.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Movement {
    /// The mean square of a step, noise included, averaged over the values.
    pub observed: f64,
    /// What of that is the noise that the releases state.
    pub noise: f64,
    /// How far the difference of the two may be off: about its standard error.
    pub standard_error: f64,
}

impl Movement {
    /// What is left for the stream: never less than nothing.
    pub fn of_stream(&self) -> f64 {
        (self.observed - self.noise).max(0.0)
    }

    /// Whether that can be told from noise: it is above two standard errors, or there is no noise.
    pub fn is_told(&self) -> bool {
        self.noise <= 0.0 || self.of_stream() > 2.0 * self.standard_error
    }
}

impl Sample {
    /// Reads a [table](released) that fits the data; `name` is what errors call it.
    ///
    /// # Errors
    /// What is not a table of such releases; a number that cannot be one of the domain, noise allowed for.
    pub fn read(name: &str, source: impl Read, data: &Data) -> Result<Self, AdviseError> {
        Self::of_table(name, released::read(name, source, |number, variance| check(data, number, variance))?, data)
    }

    /// Reads an open table, such as one in memory, as [`Sample::read`] does.
    ///
    /// # Errors
    /// As [`Sample::read`].
    pub fn read_table<R: Read>(name: &str, table: TableReader<R>, data: &Data) -> Result<Self, AdviseError> {
        let table = released::read_table(table, |number, variance| check(data, number, variance))?;
        Self::of_table(name, table, data)
    }

    /// Takes a table of releases; `name` is what errors call it.
    ///
    /// # Errors
    /// What is not a table of such releases.
    pub fn of_table(name: &str, table: ReleasedTable, data: &Data) -> Result<Self, AdviseError> {
        let (given, expected) = (table.values.len(), data.columns());
        if given != expected {
            return Err(AdviseError::SampleWidth { file: name.to_owned(), given, expected });
        }
        let content = |problem: &str| TableError::Content { file: name.to_owned(), problem: problem.to_owned() };
        let (first, last) = (table.lines[0].timestamp, table.lines[table.lines.len() - 1].timestamp);
        if last - first >= LONGEST {
            return Err(content(&format!("it spans more than {LONGEST} timestamps")).into());
        }
        if table.lines.len() < 2 {
            return Err(content("a single timestamp does not tell how a stream moves").into());
        }
        let table = if matches!(data, Data::Counts { .. }) { in_shares(table).map_err(content)? } else { table };
        let (movement, steps) = movement(&table);
        Ok(Self { table, movement, steps })
    }

    /// Whether it may be raw data: nothing in the table says that it was released.
    pub const fn may_be_raw(&self) -> bool {
        !self.table.is_release
    }

    /// Whether the releases state how noisy they are.
    pub const fn states_variance(&self) -> bool {
        self.table.states_variance
    }

    /// How much the stream moves, as far as can be told.
    pub const fn movement(&self) -> Movement {
        self.movement
    }

    /// A warning about advice from this sample, if there is reason for one.
    pub const fn warning(&self) -> Option<&'static str> {
        if self.may_be_raw() {
            Some(
                "it has neither variances nor freshness, so it may be raw data, and advice that is computed from raw \
                 data tells something about them: keep it to yourself, or take a sample of past releases",
            )
        } else if !self.states_variance() {
            Some("it states no variance, so that its noise is taken for movement of the stream")
        } else {
            None
        }
    }

    /// The number of timestamps from the first to the last.
    pub fn length(&self) -> usize {
        let lines = &self.table.lines;
        usize::try_from(lines[lines.len() - 1].timestamp - lines[0].timestamp).unwrap_or(usize::MAX).saturating_add(1)
    }

    /// A stream that may have been behind the sample, of at least so many timestamps: where the sample is shorter, it
    /// goes back the way that it came, and forth again.
    ///
    /// # Errors
    /// Where the data are not those that the sample was read for.
    pub fn draw(&self, data: &Data, least: usize, random: &mut SeededRandom) -> Result<DataStream, AdviseError> {
        let columns: Vec<Vec<f64>> = (0..self.table.values.len()).map(|value| self.draw_value(value, random)).collect();
        let length = columns[0].len();
        let there_and_back = (0..length).chain((1..length.saturating_sub(1)).rev());
        let places: Vec<usize> = there_and_back.cycle().take(length.max(least)).collect();
        match *data {
            Data::Counts { population, .. } => {
                let row = |place: usize| {
                    let shares: Vec<f64> = columns.iter().map(|column| column[place].max(0.0)).collect();
                    let nothing = shares.iter().all(|share| *share == 0.0);
                    scaled(&if nothing { vec![1.0; shares.len()] } else { shares })
                };
                let rows = places.into_iter().map(row).collect();
                let stream = CountStream::new("sample", self.table.values.clone(), rows)?;
                Ok(stream.with_population(population.get())?.into())
            }
            Data::Numbers { grid, .. } => {
                let values = places.into_iter().map(|place| on_grid(&grid, columns[0][place])).collect();
                Ok(NumberStream::new("sample", grid, values)?.into())
            }
            Data::Symbols { domain } => {
                #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)] // checked when it was read
                let symbols = places.into_iter().map(|place| columns[0][place] as u32).collect();
                Ok(SymbolStream::new("sample", Space::Line { symbols: domain }, vec![symbols])?.into())
            }
        }
    }

    /// One value's course over all timestamps, drawn given the releases.
    fn draw_value(&self, value: usize, random: &mut SeededRandom) -> Vec<f64> {
        let step = self.steps[value];
        let first = self.table.lines[0].timestamp;
        let mut observations = observations(&self.table, value).peekable();
        // The filter: mean and variance of the level given all up to now.
        let mut known: Vec<(f64, f64)> = Vec::with_capacity(self.length());
        for timestamp in (first..).take(self.length()) {
            let before = known.last().map(|(mean, variance)| (*mean, variance + step));
            let observed = observations.next_if(|observation| observation.timestamp == timestamp);
            known.push(match (before, observed) {
                (None, Some(Observation { number, variance, .. })) => (number, variance),
                (Some(before), None) => before,
                (Some((mean, spread)), Some(Observation { number, variance, .. })) => {
                    let gain = if spread + variance > 0.0 { spread / (spread + variance) } else { 1.0 };
                    (mean + gain * (number - mean), spread * (1.0 - gain))
                }
                // The first line is an observation.
                (None, None) => (0.0, 0.0),
            });
        }
        let mut drawn = vec![0.0; known.len()];
        let mut after: Option<f64> = None;
        for (place, (mean, variance)) in known.into_iter().enumerate().rev() {
            let (mean, variance) = match after {
                None => (mean, variance),
                Some(after) if variance + step > 0.0 => {
                    let gain = variance / (variance + step);
                    (mean + gain * (after - mean), variance * (1.0 - gain))
                }
                Some(_) => (mean, 0.0),
            };
            let number = mean + variance.sqrt() * if variance > 0.0 { standard_normal(random) } else { 0.0 };
            drawn[place] = number;
            after = Some(number);
        }
        drawn
    }
}

/// What is expected of a number, where it cannot be one of these data.
fn check(data: &Data, number: f64, variance: f64) -> Result<(), Cow<'static, str>> {
    let slack = FARTHEST * variance.sqrt();
    match data {
        Data::Counts { .. } if number < -slack => Err("a count or a share, no farther below 0 than noise goes".into()),
        Data::Numbers { grid, .. } if number < grid.low() - slack || number > grid.high() + slack => Err(format!(
            "a number within the domain, {}..{}, or no farther outside than noise goes",
            grid.low(),
            grid.high()
        )
        .into()),
        Data::Symbols { domain } if number.fract() != 0.0 || !(0.0..f64::from(*domain)).contains(&number) => {
            Err(format!("a symbol: a whole number from 0 to {}", domain - 1).into())
        }
        _ => Ok(()),
    }
}

/// Counts as shares of their sum. A table of shares stays one, up to noise: it is told by its sums, which are nearer to
/// one than to two people.
fn in_shares(mut table: ReleasedTable) -> Result<ReleasedTable, &'static str> {
    const MOST_OF_SHARES: f64 = 1.5;
    let sums: Vec<f64> = table.lines.iter().map(|line| line.numbers.iter().sum()).collect();
    let mean = sums.iter().sum::<f64>() / as_float(sums.len() as u64);
    if mean <= 0.0 {
        return Err("its counts sum to nothing");
    }
    if mean <= MOST_OF_SHARES {
        return Ok(table);
    }
    for (line, sum) in table.lines.iter_mut().zip(sums) {
        // Where noise outweighs the users of a timestamp, their usual number is the better guess.
        let users = if sum > mean / 2.0 { sum } else { mean };
        line.numbers.iter_mut().for_each(|number| *number /= users);
        line.variances.iter_mut().for_each(|variance| *variance /= users * users);
    }
    Ok(table)
}

#[derive(Clone, Copy)]
struct Observation {
    timestamp: u64,
    number: f64,
    variance: f64,
}

/// What was seen of a value: releases that are not repeats.
fn observations(table: &ReleasedTable, value: usize) -> impl Iterator<Item = Observation> + '_ {
    let mut last: Option<(f64, f64)> = None;
    table.lines.iter().filter_map(move |line| {
        let (number, variance) = (line.numbers[value], line.variances[value]);
        #[allow(clippy::float_cmp)] // a repeat is exactly the same
        let repeats = last.is_some_and(|last| variance > 0.0 && last == (number, variance)) || !line.fresh;
        let first = last.is_none();
        if !repeats || first {
            last = Some((number, variance));
        }
        (first || !repeats).then_some(Observation { timestamp: line.timestamp, number, variance })
    })
}

/// The movement of a table, and the variance of the stream's steps for each value.
fn movement(table: &ReleasedTable) -> (Movement, Vec<f64>) {
    let (mut observed, mut noise, mut spread) = (Vec::new(), Vec::new(), Vec::new());
    for value in 0..table.values.len() {
        let (mut squares, mut noises, mut time, mut fourth) = (0.0, 0.0, 0.0, 0.0);
        let mut last: Option<Observation> = None;
        for now in observations(table, value) {
            if let Some(last) = last {
                squares += (now.number - last.number).powi(2);
                fourth += (now.number - last.number).powi(4);
                noises += now.variance + last.variance;
                time += as_float(now.timestamp - last.timestamp);
            }
            last = Some(now);
        }
        // A single observation says nothing about movement.
        observed.push(if time > 0.0 { squares / time } else { 0.0 });
        noise.push(if time > 0.0 { noises / time } else { 0.0 });
        // Neighbouring steps share a release, which makes the variance of their sum larger by a half at most. For
        // normal numbers the variance of a square is two thirds of the fourth moment.
        spread.push(if time > 0.0 { (1.5 * fourth * 2.0 / 3.0).sqrt() / time } else { 0.0 });
    }
    let mean = |numbers: &[f64]| numbers.iter().sum::<f64>() / as_float(numbers.len() as u64);
    // Values that share users err together: no less than this is known.
    let movement = Movement { observed: mean(&observed), noise: mean(&noise), standard_error: mean(&spread) };
    // Cutting each value's at zero leaves too much of those above: all together must not move more than can be told of
    // them.
    let cut: Vec<f64> = observed.iter().zip(&noise).map(|(observed, noise)| (observed - noise).max(0.0)).collect();
    let total = mean(&cut);
    let factor = if total > 0.0 { movement.of_stream() / total } else { 0.0 };
    (movement, cut.into_iter().map(|step| step * factor).collect())
}

/// The nearest number on the grid.
fn on_grid(grid: &Grid, number: f64) -> f64 {
    let steps = ((number - grid.low()) / grid.step()).round();
    (grid.low() + steps * grid.step()).clamp(grid.low(), grid.high())
}
