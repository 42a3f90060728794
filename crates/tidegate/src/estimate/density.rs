//! [`Density`]: a bounded number that moves, seen through coarse answers.
//!
//! What is believed about the number is a density over cells of its domain. An answer multiplies it by how likely each cell makes that
//! answer; time blurs it. How the number moves is not known, so several models are kept, each with a density of its own, and weighed by how
//! well they have foretold the answers.

use serde::{Deserialize, Serialize};

/// The domain is divided into so many cells, or one for each of its points where it has fewer.
pub const MOST_CELLS: usize = 128;

/// How a number moves: a level takes steps, jumps now and then to anywhere, and the number scatters around it. Lengths are parts of
/// the domain's width; steps and scatter have two-sided exponential distributions, so that a large one now and then is no surprise.
#[derive(Clone, Copy, Debug)]
struct Model {
    step: f64,
    scatter: f64,
}

const fn moving(step: f64, scatter: f64) -> Model {
    Model { step, scatter }
}

/// The models. The first has no level: each number lies anywhere, and has nothing to do with the one before.
const MODELS: [Model; 16] = [
    moving(0.0, f64::INFINITY),
    moving(0.0005, 0.01),
    moving(0.0005, 0.05),
    moving(0.0005, 0.15),
    moving(0.002, 0.01),
    moving(0.002, 0.05),
    moving(0.002, 0.15),
    moving(0.006, 0.01),
    moving(0.006, 0.05),
    moving(0.006, 0.15),
    moving(0.02, 0.01),
    moving(0.02, 0.05),
    moving(0.02, 0.15),
    moving(0.06, 0.01),
    moving(0.06, 0.05),
    moving(0.06, 0.15),
];

/// How likely a level jumps to anywhere within a timestamp.
const JUMP: f64 = 0.001;

/// What the first model, which never strays from the middle of the domain, weighs before anything is seen.
const FIRST: f64 = 0.6;

/// How much of what was learned about the models is kept from one number to the next.
const MEMORY: f64 = 0.9999;

/// Models of a smaller weight are left out where the past is looked at again.
const NEGLIGIBLE: f64 = 0.01;

/// After so many timestamps without an answer a density blurs no further.
const LONGEST_GAP: u64 = 4_096;

/// A blur by a two-sided exponential distribution, mirrored at the ends of the domain.
#[derive(Clone, Copy, Debug)]
enum Blur {
    By {
        ratio: f64,
        factor: f64,
    },
    /// All of it over the whole domain.
    Away,
}

impl Blur {
    #[allow(clippy::cast_precision_loss)] // a few cells
    fn new(scale: f64, cells: usize) -> Self {
        if scale.is_infinite() {
            return Self::Away;
        }
        let ratio = (-1.0 / (scale * cells as f64)).exp();
        Self::By { ratio, factor: (1.0 - ratio) / (1.0 + ratio) }
    }

    /// The blurred density. It is its own adjoint: so it also takes what is known about the blurred number back to the number itself.
    fn apply(self, density: &[f64]) -> Vec<f64> {
        let Self::By { ratio, factor } = self else {
            return vec![density.iter().sum::<f64>() * share(density.len()); density.len()];
        };
        let total = |density: &mut dyn Iterator<Item = &f64>| density.fold(0.0, |sum, mass| mass + ratio * sum);
        // Beyond an end the mirror image goes on.
        let mut running = total(&mut density.iter().rev());
        let mut blurred: Vec<f64> = density
            .iter()
            .map(|mass| {
                running = mass + ratio * running;
                running - mass
            })
            .collect();
        running = total(&mut density.iter());
        for (blurred, mass) in blurred.iter_mut().zip(density).rev() {
            running = mass + ratio * running;
            *blurred = factor * (*blurred + running);
        }
        blurred
    }
}

/// What is believed about a number that moves.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Density {
    /// The logarithm of each model's weight; the largest is zero.
    weights: Vec<f64>,
    /// Each model's density of the level, after the last answer.
    levels: Vec<Vec<f64>>,
}

/// An answer that was given, and how many timestamps after the one before.
#[derive(Clone, Debug, PartialEq)]
pub struct Seen {
    /// How many timestamps have passed since the answer before; zero for the first.
    pub gap: u64,
    /// What was said.
    pub answer: Answer,
}

/// What was said of one number, or of several in a row.
#[derive(Clone, Debug, PartialEq)]
pub enum Answer {
    /// For each cell, how likely the answer is if the number lies there.
    One(Vec<f64>),
    /// The mean of several numbers, each moved into a range, with noise. All lengths are in cells.
    Mean {
        /// How many numbers.
        count: u32,
        /// The lower end of the range.
        low: f64,
        /// Its upper end.
        high: f64,
        /// The mean with its noise.
        mean: f64,
        /// The scale of the noise: a Laplace distribution's of the same variance.
        scale: f64,
    },
}

impl Answer {
    /// How many numbers it is about.
    const fn count(&self) -> u32 {
        match self {
            Self::One(_) => 1,
            Self::Mean { count, .. } => *count,
        }
    }
}

/// A level and the numbers around it, of one model.
struct Movement<'a> {
    model: Model,
    scatter: Blur,
    /// Where a level jumps to.
    anywhere: &'a [f64],
}

impl<'a> Movement<'a> {
    /// Those of all models.
    fn all(anywhere: &'a [f64]) -> impl Iterator<Item = Self> {
        let of =
            move |model: &Model| Self { model: *model, scatter: Blur::new(model.scatter, anywhere.len()), anywhere };
        MODELS.iter().map(of)
    }

    fn has_level(&self) -> bool {
        self.model.scatter.is_finite()
    }

    /// The step of so many timestamps, and the probability of a jump in them.
    #[allow(clippy::cast_precision_loss)] // a few thousand at most
    fn over(&self, gap: u64, cells: usize) -> (Blur, f64) {
        let gap = gap.min(LONGEST_GAP) as f64;
        (Blur::new(self.model.step * gap.sqrt(), cells), 1.0 - (1.0 - JUMP).powf(gap))
    }

    /// The level so many timestamps later.
    fn later(&self, level: &[f64], gap: u64) -> Vec<f64> {
        if gap == 0 || !self.has_level() {
            return level.to_vec();
        }
        let (step, jump) = self.over(gap, level.len());
        let total: f64 = level.iter().sum();
        let moved = step.apply(level);
        moved.iter().zip(self.anywhere).map(|(mass, even)| mass * (1.0 - jump) + even * total * jump).collect()
    }

    /// How likely each level so many timestamps earlier makes something, given how likely each level makes it.
    fn earlier(&self, likely: &[f64], gap: u64) -> Vec<f64> {
        if gap == 0 || !self.has_level() {
            return likely.to_vec();
        }
        let (step, jump) = self.over(gap, likely.len());
        let anywhere: f64 = self.anywhere.iter().zip(likely).map(|(mass, likely)| mass * likely).sum();
        step.apply(likely).iter().map(|likely| likely * (1.0 - jump) + anywhere * jump).collect()
    }

    /// How likely each level makes an answer.
    #[allow(clippy::cast_precision_loss)] // a few cells
    fn of_level(&self, answer: &Answer, cells: usize) -> Vec<f64> {
        match answer {
            Answer::One(likelihood) => self.scatter.apply(likelihood),
            Answer::Mean { count, low, high, mean, scale } => {
                let moved: Vec<f64> = (0..cells).map(|cell| (cell as f64 + 0.5).clamp(*low, *high)).collect();
                let squares: Vec<f64> = moved.iter().map(|place| (place - low).powi(2)).collect();
                let (means, squares) = (self.scatter.apply(&moved), self.scatter.apply(&squares));
                let count = f64::from(*count);
                // The numbers scatter around a level that moves on meanwhile, by no more than the range shows.
                let drift =
                    (2.0 * (self.model.step * cells as f64).powi(2) * count / 3.0).min((high - low).powi(2) / 12.0);
                let likely = |(expected, square): (&f64, &f64)| {
                    let scatter = (square - (expected - low).powi(2)).max(0.0) / count;
                    let scale = (scale * scale + (scatter + drift) / 2.0).sqrt();
                    (-(mean - expected).abs() / scale).exp() / scale
                };
                means.iter().zip(&squares).map(likely).collect()
            }
        }
    }

    /// What is believed about a number that an answer was given for, from what is believed about its level beforehand (with what
    /// came later, if that is known), and how likely each level makes the answer.
    fn number(&self, level: &[f64], answer: &Answer, likely: &[f64]) -> Vec<f64> {
        match answer {
            Answer::One(likelihood) => product(&self.scatter.apply(level), likelihood).0,
            Answer::Mean { .. } => self.scatter.apply(&product(level, likely).0),
        }
    }
}

#[allow(clippy::cast_precision_loss)] // a few cells
fn share(cells: usize) -> f64 {
    1.0 / cells as f64
}

/// What is believed of a level beforehand: the ends are less likely than the middle, and the upper part of the domain less than the lower, for
/// the upper end is mostly set with room to spare.
#[allow(clippy::cast_precision_loss)] // a few cells
fn beforehand(cells: usize) -> Vec<f64> {
    let width = share(cells);
    let middle = |cell: usize| (cell as f64 + 0.5) * width;
    let mut bump: Vec<f64> = (0..cells).map(|cell| middle(cell).sqrt() * (1.0 - middle(cell)).powf(1.5)).collect();
    let total: f64 = bump.iter().sum();
    bump.iter_mut().for_each(|mass| *mass /= total);
    bump
}

/// The product of a density and a likelihood, scaled to a density, and what it summed to.
fn product(density: &[f64], likelihood: &[f64]) -> (Vec<f64>, f64) {
    let mut product: Vec<f64> = density.iter().zip(likelihood).map(|(mass, likely)| mass * likely).collect();
    let total: f64 = product.iter().sum();
    if total > 0.0 {
        product.iter_mut().for_each(|mass| *mass /= total);
        (product, total)
    } else {
        // Nothing is possible any more, to the accuracy of numbers: what was believed before stands.
        (density.to_vec(), f64::MIN_POSITIVE)
    }
}

/// The logarithm of each model's weight beforehand.
#[allow(clippy::cast_precision_loss)] // a few models
fn first_weights() -> Vec<f64> {
    let other = ((1.0 - FIRST) / (MODELS.len() as f64 - 1.0) / FIRST).ln();
    let mut weights = vec![other; MODELS.len()];
    weights[0] = 0.0;
    weights
}

impl Density {
    /// Nothing is known yet.
    pub fn new(cells: usize) -> Self {
        Self { weights: first_weights(), levels: vec![beforehand(cells); MODELS.len()] }
    }

    /// How many cells there are.
    pub fn cells(&self) -> usize {
        self.levels[0].len()
    }

    /// Whether it can be what is believed about a number over so many cells.
    pub fn fits(&self, cells: usize) -> bool {
        let is_density = |level: &Vec<f64>| {
            level.len() == cells
                && level.iter().all(|mass| (0.0..=1.0).contains(mass))
                && (level.iter().sum::<f64>() - 1.0).abs() < 1e-6
        };
        self.weights.len() == MODELS.len()
            && self.levels.len() == MODELS.len()
            && self.weights.iter().all(|weight| weight.is_finite() && *weight <= 0.0)
            && self.weights.contains(&0.0)
            && self.levels.iter().all(is_density)
    }

    /// What the models weigh, together one.
    fn shares(&self) -> Vec<f64> {
        let total: f64 = self.weights.iter().map(|weight| weight.exp()).sum();
        self.weights.iter().map(|weight| weight.exp() / total).collect()
    }

    /// How likely it is that a number has nothing to do with the one before.
    pub fn without_level(&self) -> f64 {
        self.shares()[0]
    }

    /// About how far the level moves in a timestamp, if there is one, as part of the domain's width.
    pub fn pace(&self) -> f64 {
        let with_level = || MODELS.iter().zip(self.shares()).skip(1);
        let total: f64 = with_level().map(|(_, share)| share).sum();
        let sum: f64 = with_level().map(|(model, share)| share * model.step.ln()).sum();
        if total > 0.0 { (sum / total).exp() } else { MODELS[1].step }
    }

    /// What is expected of the number so many timestamps after the last answer.
    pub fn expected(&self, gap: u64) -> Vec<f64> {
        let anywhere = beforehand(self.cells());
        let mut mixture = vec![0.0; self.cells()];
        for ((movement, weight), level) in Movement::all(&anywhere).zip(self.shares()).zip(&self.levels) {
            let number = movement.scatter.apply(&movement.later(level, gap));
            mixture.iter_mut().zip(number).for_each(|(sum, mass)| *sum += weight * mass);
        }
        mixture
    }

    /// Takes an answer in, and returns what is believed about the number, or each of the numbers, that it was given for.
    pub fn observe(&mut self, seen: &Seen) -> Vec<f64> {
        let memory = MEMORY.powf(f64::from(seen.answer.count()));
        let anywhere = beforehand(self.cells());
        let mut numbers = Vec::with_capacity(MODELS.len());
        for (index, (movement, first)) in Movement::all(&anywhere).zip(first_weights()).enumerate() {
            let level = movement.later(&self.levels[index], seen.gap);
            let likely = movement.of_level(&seen.answer, level.len());
            numbers.push(movement.number(&level, &seen.answer, &likely));
            let (level, total) = product(&level, &likely);
            self.levels[index] = level;
            self.weights[index] = memory * self.weights[index] + (1.0 - memory) * first + total.ln();
        }
        let most = self.weights.iter().copied().fold(f64::NEG_INFINITY, f64::max);
        self.weights.iter_mut().for_each(|weight| *weight -= most);
        let mut mixture = vec![0.0; self.cells()];
        for (weight, number) in self.shares().iter().zip(&numbers) {
            mixture.iter_mut().zip(number).for_each(|(sum, mass)| *sum += weight * mass);
        }
        mixture
    }

    /// Takes an answer in without judging the models by it.
    pub fn pass(&mut self, seen: &Seen) {
        let anywhere = beforehand(self.cells());
        for (movement, level) in Movement::all(&anywhere).zip(&mut self.levels) {
            let later = movement.later(level, seen.gap);
            *level = product(&later, &movement.of_level(&seen.answer, later.len())).0;
        }
    }

    /// What is believed about the numbers of each of the first `count` answers once all of the given ones are known. `start` is what was believed
    /// before the first of them. The models weigh what they weigh here.
    pub fn smooth(&self, start: &Self, seen: &[Seen], count: usize) -> Vec<Vec<f64>> {
        let cells = self.cells();
        let anywhere = beforehand(cells);
        let mut mixtures = vec![vec![0.0; cells]; count];
        for (index, (movement, weight)) in Movement::all(&anywhere).zip(self.shares()).enumerate() {
            if weight < NEGLIGIBLE {
                continue;
            }
            let likely: Vec<Vec<f64>> = seen.iter().map(|seen| movement.of_level(&seen.answer, cells)).collect();
            // Forwards: the level before each answer.
            let mut before = Vec::with_capacity(count);
            let mut level = start.levels[index].clone();
            for (seen, likely) in seen.iter().zip(&likely).take(count) {
                let expected = movement.later(&level, seen.gap);
                level = product(&expected, likely).0;
                before.push(expected);
            }
            // Backwards: how likely each level makes what comes after it, scaled so that it does not vanish.
            let mut after = vec![share(cells); cells];
            for (place, (seen, likely)) in seen.iter().zip(&likely).enumerate().rev() {
                if let (Some(mixture), Some(before)) = (mixtures.get_mut(place), before.get(place)) {
                    let number = movement.number(&product(before, &after).0, &seen.answer, likely);
                    mixture.iter_mut().zip(number).for_each(|(sum, mass)| *sum += weight * mass);
                }
                after = movement.earlier(&product(&after, likely).0, seen.gap);
            }
        }
        for mixture in &mut mixtures {
            let total: f64 = mixture.iter().sum();
            mixture.iter_mut().for_each(|mass| *mass /= total);
        }
        mixtures
    }
}

/// Where the given part of a density's mass lies below, in cells.
#[allow(clippy::cast_precision_loss)] // a few cells
pub fn quantile(density: &[f64], part: f64) -> f64 {
    let mut below = 0.0;
    for (cell, mass) in density.iter().enumerate() {
        if below + mass >= part && *mass > 0.0 {
            return cell as f64 + (part - below) / mass;
        }
        below += mass;
    }
    density.len() as f64
}

/// The expected squared distance from a place, both in cells.
#[allow(clippy::cast_precision_loss)] // a few cells
pub fn scatter_around(density: &[f64], place: f64) -> f64 {
    // A twelfth is the variance within a cell.
    let square = |cell: usize| (cell as f64 + 0.5 - place).powi(2) + 1.0 / 12.0;
    density.iter().enumerate().map(|(cell, mass)| mass * square(cell)).sum()
}
