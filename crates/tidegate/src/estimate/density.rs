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
    jump: f64,
}

const fn moving(step: f64, scatter: f64, jump: f64) -> Model {
    Model { step, scatter, jump }
}

/// The models. The first has no level: each number has nothing to do with the one before.
const MODELS: [Model; 10] = [
    moving(0.0, f64::INFINITY, 0.0),
    moving(0.0005, 0.0, 0.002),
    moving(0.002, 0.0, 0.002),
    moving(0.006, 0.0, 0.002),
    moving(0.02, 0.0, 0.002),
    moving(0.06, 0.0, 0.002),
    moving(0.006, 0.0, 0.05),
    moving(0.001, 0.05, 0.001),
    moving(0.004, 0.05, 0.001),
    moving(0.015, 0.05, 0.001),
];

/// How much of what was learned about the models is kept from one answer to the next.
const MEMORY: f64 = 0.9999;

/// The first model, which never strays from the middle of the domain, is preferred where answers tell little: by the square of this over
/// what an answer tells, up to parity.
const CLEAR: f64 = 0.1;

/// Models of a smaller weight are left out where the past is looked at again.
const NEGLIGIBLE: f64 = 1e-3;

/// After so many timestamps without an answer a density blurs no further.
const LONGEST_GAP: u64 = 256;

/// A blur by a two-sided exponential distribution, mirrored at the ends of the domain.
#[derive(Clone, Copy, Debug)]
enum Blur {
    Nothing,
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
        if scale == 0.0 {
            return Self::Nothing;
        }
        if scale.is_infinite() {
            return Self::Away;
        }
        let ratio = (-1.0 / (scale * cells as f64)).exp();
        Self::By { ratio, factor: (1.0 - ratio) / (1.0 + ratio) }
    }

    /// The blurred density. It is its own adjoint but for [`Blur::Away`]: so it also takes what is known about the blurred number back
    /// to the number itself.
    fn apply(self, density: &[f64]) -> Vec<f64> {
        let Self::By { ratio, factor } = self else { return density.to_vec() };
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
pub struct Density {
    /// The logarithm of each model's weight; the largest is zero.
    weights: Vec<f64>,
    /// What they are at first.
    first: Vec<f64>,
    /// Each model's density of the level, after the last answer.
    levels: Vec<Vec<f64>>,
    /// How much more likely the middle is than the ends, of a number without a past: from nothing at zero to a parabola at one.
    bulge: f64,
}

/// How likely each cell makes an answer that was given, and how many timestamps after the one before.
#[derive(Clone, Debug)]
pub struct Seen {
    /// How many timestamps have passed since the answer before; zero for the first.
    pub gap: u64,
    /// For each cell, how likely the answer is.
    pub likelihood: Vec<f64>,
}

/// A level and the numbers around it, of one model.
struct Movement {
    step: Blur,
    scatter: Blur,
    jump: f64,
    bulge: f64,
}

impl Movement {
    fn of(model: &Model, cells: usize, bulge: f64) -> Self {
        let (step, scatter) = (Blur::new(model.step, cells), Blur::new(model.scatter, cells));
        Self { step, scatter, jump: model.jump, bulge }
    }

    /// The level so many timestamps later.
    fn later(&self, level: &[f64], gap: u64) -> Vec<f64> {
        let mut level = level.to_vec();
        for _ in 0..gap.min(LONGEST_GAP) {
            level = self.step.apply(&level);
            let even = share(level.len()) * self.jump * level.iter().sum::<f64>();
            level.iter_mut().for_each(|mass| *mass = *mass * (1.0 - self.jump) + even);
        }
        level
    }

    /// The density of the number, given that of the level.
    fn number(&self, level: &[f64]) -> Vec<f64> {
        match self.scatter {
            Blur::Away => centred(level.len(), self.bulge),
            scatter => scatter.apply(level),
        }
    }

    /// How likely each level makes something, given how likely each number makes it.
    fn of_level(&self, likelihood: &[f64]) -> Vec<f64> {
        match self.scatter {
            Blur::Away => vec![product(&centred(likelihood.len(), self.bulge), likelihood).1; likelihood.len()],
            scatter => scatter.apply(likelihood),
        }
    }
}

#[allow(clippy::cast_precision_loss)] // a few cells
fn share(cells: usize) -> f64 {
    1.0 / cells as f64
}

/// What is believed of a number without a past: the middle is a little more likely than the ends.
#[allow(clippy::cast_precision_loss)] // a few cells
fn centred(cells: usize, bulge: f64) -> Vec<f64> {
    let width = share(cells);
    let bump = |cell: usize| {
        let middle = (cell as f64 + 0.5) * width;
        (middle * (1.0 - middle)).powf(bulge)
    };
    let total: f64 = (0..cells).map(bump).sum();
    (0..cells).map(|cell| bump(cell) / total).collect()
}

/// The product of a density and a likelihood, scaled to a density, and what it summed to.
fn product(density: &[f64], likelihood: &[f64]) -> (Vec<f64>, f64) {
    let mut product: Vec<f64> = density.iter().zip(likelihood).map(|(mass, likely)| mass * likely).collect();
    let total: f64 = product.iter().sum();
    if total > 0.0 {
        product.iter_mut().for_each(|mass| *mass /= total);
    }
    (product, total)
}

impl Density {
    /// Nothing is known yet. `telling` is how much an answer tells, from nothing at zero to all at one: for randomised response, the square of
    /// the difference between the probabilities of a true and of a false answer.
    pub fn new(cells: usize, telling: f64) -> Self {
        let preference = (telling / CLEAR).powi(2).clamp(1e-9, 1.0).ln();
        let mut first = vec![preference; MODELS.len()];
        first[0] = 0.0;
        // The less an answer tells, the more depends on what is believed beforehand.
        let bulge = 1.0 / (1.0 + 10.0 * telling.clamp(0.0, 1.0));
        Self { weights: first.clone(), first, levels: vec![vec![share(cells); cells]; MODELS.len()], bulge }
    }

    /// How many cells there are.
    pub fn cells(&self) -> usize {
        self.levels[0].len()
    }

    /// Whether it can be what is believed about a number over so many cells.
    pub fn fits(&self, cells: usize) -> bool {
        let weights = self.weights.iter().chain(&self.first);
        let number = |given: usize| given == MODELS.len();
        number(self.weights.len())
            && number(self.first.len())
            && number(self.levels.len())
            && (0.0..=1.0).contains(&self.bulge)
            && weights.clone().all(|weight| weight.is_finite() && *weight <= 0.0)
            && self
                .levels
                .iter()
                .all(|level| level.len() == cells && level.iter().all(|mass| mass.is_finite() && *mass >= 0.0))
    }

    /// The models with what they weigh.
    fn models(&self) -> impl Iterator<Item = (Movement, f64)> {
        let total: f64 = self.weights.iter().map(|weight| weight.exp()).sum();
        let (cells, bulge) = (self.cells(), self.bulge);
        let of = move |(model, weight): (&Model, &f64)| (Movement::of(model, cells, bulge), weight.exp() / total);
        MODELS.iter().zip(&self.weights).map(of)
    }

    /// What is expected of the number so many timestamps after the last answer.
    pub fn expected(&self, gap: u64) -> Vec<f64> {
        let mut mixture = vec![0.0; self.cells()];
        for ((movement, weight), level) in self.models().zip(&self.levels) {
            let number = movement.number(&movement.later(level, gap));
            mixture.iter_mut().zip(number).for_each(|(sum, mass)| *sum += weight * mass);
        }
        mixture
    }

    /// Takes an answer in, and returns what is believed about the number that it was given for.
    pub fn observe(&mut self, seen: &Seen) -> Vec<f64> {
        let mut numbers = Vec::with_capacity(MODELS.len());
        for (index, model) in MODELS.iter().enumerate() {
            let movement = Movement::of(model, self.cells(), self.bulge);
            let level = movement.later(&self.levels[index], seen.gap);
            numbers.push(product(&movement.number(&level), &seen.likelihood).0);
            let (level, likely) = product(&level, &movement.of_level(&seen.likelihood));
            self.levels[index] = level;
            let (weight, first) = (self.weights[index], self.first[index]);
            self.weights[index] = MEMORY * weight + (1.0 - MEMORY) * first + likely.max(f64::MIN_POSITIVE).ln();
        }
        let most = self.weights.iter().copied().fold(f64::NEG_INFINITY, f64::max);
        self.weights.iter_mut().for_each(|weight| *weight -= most);
        let mut mixture = vec![0.0; self.cells()];
        for ((_, weight), number) in self.models().zip(&numbers) {
            mixture.iter_mut().zip(number).for_each(|(sum, mass)| *sum += weight * mass);
        }
        mixture
    }

    /// What is believed about the first `count` of the given numbers once all of them are known, and moves `start`, which is what was believed before
    /// the first of them, to after those. The models weigh what they weigh here.
    pub fn smooth(&self, start: &mut Self, seen: &[Seen], count: usize) -> Vec<Vec<f64>> {
        let cells = self.cells();
        let mut mixtures = vec![vec![0.0; cells]; count];
        for (index, (movement, weight)) in self.models().enumerate() {
            // Forwards: the level before each answer.
            let mut before = Vec::with_capacity(seen.len());
            let mut level = start.levels[index].clone();
            let seldom = weight < NEGLIGIBLE;
            for (place, seen) in seen.iter().enumerate() {
                if place == count {
                    start.levels[index].clone_from(&level);
                    if seldom {
                        break;
                    }
                }
                let expected = movement.later(&level, seen.gap);
                level = product(&expected, &movement.of_level(&seen.likelihood)).0;
                before.push(expected);
            }
            if count == seen.len() {
                start.levels[index].clone_from(&level);
            }
            if seldom {
                continue;
            }
            // Backwards: how likely each level makes what comes after it.
            let mut after = vec![1.0; cells];
            for (place, seen) in seen.iter().enumerate().rev() {
                if let Some(mixture) = mixtures.get_mut(place) {
                    let (level, _) = product(&before[place], &after);
                    let (number, _) = product(&movement.number(&level), &seen.likelihood);
                    mixture.iter_mut().zip(number).for_each(|(sum, mass)| *sum += weight * mass);
                }
                let likely = product(&after, &movement.of_level(&seen.likelihood)).0;
                // Scaled, so that it does not vanish: the steps are symmetric, and so lead back as they lead ahead.
                after = movement.later(&likely, seen.gap);
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
