//! Learning an event that happens more often on one stream than on its neighbour.
//!
//! A learner makes a score of a transcript, high where the first stream seems the likelier one. It is fitted on one
//! part of the runs; where to cut the score, and which learner to believe, is decided on another. What comes of it is
//! an [`Event`], a fixed yes-or-no question about a transcript. Nothing here claims anything: an event is only as good
//! as fresh runs show it to be.

use std::collections::HashMap;

use super::binomial::wilson;

/// The transcripts of runs on both streams of a pair.
pub(super) type Sample = [Vec<Vec<f64>>; 2];

/// A part of them.
type Runs<'a> = [&'a [Vec<f64>]; 2];

/// A fixed question about a transcript.
#[derive(Clone, Debug)]
pub(super) struct Event {
    score: Score,
    cut: f64,
    /// Whether it asks for scores of the cut and more, or for those below.
    above: bool,
    /// On which stream it is likelier.
    pub(super) likelier_on: usize,
    /// What the runs that it was chosen by make one hope for.
    pub(super) promise: f64,
}

impl Event {
    pub(super) fn happened(&self, transcript: &[f64]) -> bool {
        (self.score.of(transcript) >= self.cut) == self.above
    }

    /// In words.
    pub(super) fn description(&self) -> String {
        let sign = if self.above { "at least" } else { "below" };
        format!("{} {sign} {:.4}", self.score.name(), self.cut)
    }
}

/// What a learner makes of a transcript.
#[derive(Clone, Debug)]
enum Score {
    /// A single number of it.
    Number(usize),
    /// At which binary place a single number ends: what noise in floating point gives away.
    LastBit(usize),
    /// Some numbers of it, each weighed by how far its mean differs.
    Projection(Vec<(usize, f64)>),
    /// All of it at once, each number taken as one of a few classes: how much likelier this outcome was.
    Outcome { encoder: Encoder, ratios: HashMap<u64, f64> },
    /// Each number by itself, given what was decided: how much likelier it was, multiplied.
    Bayes { encoder: Encoder, decisions: Vec<usize>, patterns: HashMap<u64, Tables>, anywhere: Tables },
    /// Each number, and each with the next one, with weights that were learned together.
    Regression { encoder: Encoder, groups: Vec<Group> },
}

/// The logarithms of likelihood ratios: of a pattern, and within it of each class of each number.
#[derive(Clone, Debug)]
struct Tables {
    pattern: f64,
    of_class: Vec<Vec<f64>>,
}

/// A number, or two, with a weight for each class.
#[derive(Clone, Debug)]
struct Group {
    first: usize,
    second: Option<usize>,
    weights: Vec<f64>,
}

impl Group {
    fn class_of(&self, codes: &[usize], encoder: &Encoder) -> usize {
        let second = self.second.map_or(0, |second| codes[second] * encoder.classes[self.first].count());
        codes[self.first] + second
    }
}

impl Score {
    fn name(&self) -> String {
        match self {
            Self::Number(place) => format!("number {place}"),
            Self::LastBit(place) => format!("last binary place of number {place}"),
            Self::Projection(_) => "weighted sum".to_owned(),
            Self::Outcome { .. } => "log-likelihood ratio of the whole outcome".to_owned(),
            Self::Bayes { decisions, .. } if decisions.is_empty() => "sum of log-likelihood ratios".to_owned(),
            Self::Bayes { .. } => "sum of log-likelihood ratios, given the decisions".to_owned(),
            Self::Regression { .. } => "logistic regression".to_owned(),
        }
    }

    fn of(&self, transcript: &[f64]) -> f64 {
        match self {
            Self::Number(place) => number(transcript, *place),
            Self::LastBit(place) => last_bit(number(transcript, *place)),
            Self::Projection(weights) => {
                let score = weights.iter().map(|(place, weight)| weight * number(transcript, *place)).sum::<f64>();
                if score.is_nan() { f64::NEG_INFINITY } else { score }
            }
            Self::Outcome { encoder, ratios } => {
                ratios.get(&outcome(encoder.codes(transcript))).copied().unwrap_or(0.0)
            }
            Self::Bayes { encoder, decisions, patterns, anywhere } => {
                let codes: Vec<usize> = encoder.codes(transcript).collect();
                let pattern = outcome(decisions.iter().map(|place| codes[*place]));
                let tables = patterns.get(&pattern).unwrap_or(anywhere);
                let terms = codes.iter().zip(&tables.of_class).map(|(code, of_class)| of_class[*code]);
                tables.pattern + terms.sum::<f64>()
            }
            Self::Regression { encoder, groups } => {
                let codes: Vec<usize> = encoder.codes(transcript).collect();
                groups.iter().map(|group| group.weights[group.class_of(&codes, encoder)]).sum()
            }
        }
    }
}

/// A number of a transcript, which may be shorter than others.
fn number(transcript: &[f64], place: usize) -> f64 {
    transcript.get(place).copied().unwrap_or(f64::NEG_INFINITY)
}

/// The binary exponent of a number's lowest bit that is set; that of zero is above all others.
fn last_bit(number: f64) -> f64 {
    if number == 0.0 || !number.is_finite() {
        return f64::from(f64::MAX_EXP);
    }
    let bits = number.to_bits();
    let (exponent, fraction) = ((bits >> 52) & 0x7ff, bits & ((1 << 52) - 1));
    let significand = if exponent == 0 { fraction } else { fraction | 1 << 52 };
    let exponent = i32::try_from(exponent.max(1)).unwrap_or(i32::MAX) - 1075;
    f64::from(exponent) + f64::from(significand.trailing_zeros())
}

/// Which of a few classes a number is in.
#[derive(Clone, Debug)]
struct Classes {
    edges: Vec<f64>,
    /// Whether each class is a single number.
    exact: bool,
}

/// A number that takes no more values than this is taken as what it is.
const EXACT: usize = 24;

impl Classes {
    /// Those of a number with these values, sorted: its values, or so many ranges that are equally frequent.
    fn new(sorted: &[f64], ranges: usize) -> Self {
        let mut distinct = sorted.to_vec();
        distinct.dedup();
        if distinct.len() <= EXACT {
            return Self { edges: distinct, exact: true };
        }
        let mut edges: Vec<f64> = (1..ranges).map(|range| sorted[range * sorted.len() / ranges]).collect();
        edges.dedup();
        Self { edges, exact: false }
    }

    fn count(&self) -> usize {
        self.edges.len() + 1
    }

    fn of(&self, number: f64) -> usize {
        self.edges.partition_point(|edge| *edge <= number)
    }
}

/// Makes classes of the numbers of a transcript that are not always the same.
#[derive(Clone, Debug)]
struct Encoder {
    places: Vec<usize>,
    classes: Vec<Classes>,
}

impl Encoder {
    fn new(columns: &[(usize, Vec<f64>)], ranges: usize) -> Self {
        let classes = columns.iter().map(|(_, sorted)| Classes::new(sorted, ranges)).collect();
        Self { places: columns.iter().map(|(place, _)| *place).collect(), classes }
    }

    fn codes(&self, transcript: &[f64]) -> impl Iterator<Item = usize> {
        self.places.iter().zip(&self.classes).map(|(place, classes)| classes.of(number(transcript, *place)))
    }
}

/// Stands for some classes together.
fn outcome(codes: impl Iterator<Item = usize>) -> u64 {
    // FNV-1a: a collision would merge two outcomes, which costs power and nothing else.
    codes.fold(0xcbf2_9ce4_8422_2325, |hash, code| {
        (hash ^ code as u64).wrapping_mul(0x0000_0100_0000_01b3).rotate_left(7)
    })
}

/// Into how many ranges numbers are divided, where the whole outcome counts, and where each number counts by itself.
const OUTCOME_RANGES: [usize; 3] = [1, 3, 8];
const BAYES_RANGES: usize = 40;
/// A number of so few values is taken for a decision.
const DECISION: usize = 4;
/// Patterns that occur less often have no tables of their own.
const PATTERN_RUNS: usize = 200;
/// How many numbers, of those whose means differ most, are tried by themselves.
const SINGLE_NUMBERS: usize = 12;
/// A group of numbers of more classes is not weighed.
const GROUP_CLASSES: usize = 200;

/// What an event will have to show: on so many fresh runs, with bounds so many standard deviations away.
#[derive(Clone, Copy, Debug)]
pub(super) struct Trial {
    pub(super) runs: f64,
    pub(super) deviations: f64,
}

impl Trial {
    /// The bound that can be hoped for: of what so few runs leave open, one standard deviation is expected to go the
    /// wrong way.
    #[allow(clippy::cast_precision_loss)]
    fn promise(&self, hits: [usize; 2], of: [usize; 2]) -> f64 {
        let (low, _) = wilson(hits[0] as f64, of[0] as f64, 1.0);
        let (_, high) = wilson(hits[1] as f64, of[1] as f64, 1.0);
        let (low, _) = wilson(low * self.runs, self.runs, self.deviations);
        let (_, high) = wilson(high * self.runs, self.runs, self.deviations);
        (low / high).ln()
    }
}

/// The event with which a trial can be expected to show the most; `None` where there are no runs or nothing to see in
/// them.
pub(super) fn learn(sample: &Sample, trial: Trial) -> Option<Event> {
    let [one, other] = sample.each_ref().map(|runs| runs.split_at(runs.len() / 2));
    let (fit, tune) = ([one.0, other.0], [one.1, other.1]);
    let events = fitted(&fit).into_iter().filter_map(|score| best_cut(score, &tune, trial));
    events.max_by(|a, b| a.promise.total_cmp(&b.promise))
}

/// All learners, fitted.
fn fitted(sides: &Runs<'_>) -> Vec<Score> {
    if sides.iter().any(|runs| runs.is_empty()) {
        return Vec::new();
    }
    let columns = columns(sides);
    let mut weights: Vec<(usize, f64, f64)> =
        columns.iter().filter_map(|(place, _)| mean_difference(sides, *place).map(|(d, s)| (*place, d, s))).collect();
    let mut scores = vec![Score::Projection(weights.iter().map(|(place, d, s)| (*place, d / s)).collect())];
    weights.sort_by(|a, b| b.1.abs().total_cmp(&a.1.abs()));
    scores.extend(weights.iter().take(SINGLE_NUMBERS).map(|(place, ..)| Score::Number(*place)));
    let full = |column: &(usize, Vec<f64>)| !Classes::new(&column.1, BAYES_RANGES).exact;
    scores.extend(
        columns.iter().filter(|column| full(column)).take(SINGLE_NUMBERS).map(|(place, _)| Score::LastBit(*place)),
    );
    scores.extend(OUTCOME_RANGES.map(|ranges| outcomes(sides, Encoder::new(&columns, ranges))));
    let encoder = Encoder::new(&columns, BAYES_RANGES);
    let is_decision = |place: &usize| encoder.classes[*place].exact && encoder.classes[*place].edges.len() <= DECISION;
    let decisions = (0..columns.len()).filter(is_decision).collect();
    scores.push(bayes(sides, encoder.clone(), Vec::new()));
    scores.push(bayes(sides, encoder.clone(), decisions));
    scores.push(regression(sides, encoder));
    scores
}

/// The numbers that are not always the same, each with its values sorted.
fn columns(sides: &Runs<'_>) -> Vec<(usize, Vec<f64>)> {
    let runs = || sides.iter().flat_map(|runs| runs.iter());
    let length = runs().map(Vec::len).max().unwrap_or(0);
    let column = |place: usize| {
        let mut column: Vec<f64> = runs().map(|run| number(run, place)).collect();
        column.sort_unstable_by(f64::total_cmp);
        let is_constant = column.first().zip(column.last()).is_none_or(|(least, most)| least.total_cmp(most).is_eq());
        (!is_constant).then_some((place, column))
    };
    (0..length).filter_map(column).collect()
}

/// By how many standard deviations the means of a number differ, and that deviation; `None` where it is not always
/// finite.
#[allow(clippy::cast_precision_loss)]
fn mean_difference(sides: &Runs<'_>, place: usize) -> Option<(f64, f64)> {
    let mean_of = |runs: &[Vec<f64>]| runs.iter().map(|run| number(run, place)).sum::<f64>() / runs.len() as f64;
    let means = sides.map(mean_of);
    let variance_of = |runs: &[Vec<f64>], mean: f64| {
        runs.iter().map(|run| (number(run, place) - mean).powi(2)).sum::<f64>() / runs.len() as f64
    };
    let deviation = f64::midpoint(variance_of(sides[0], means[0]), variance_of(sides[1], means[1])).sqrt();
    (deviation.is_finite() && deviation > 0.0).then(|| ((means[0] - means[1]) / deviation, deviation))
}

/// How many runs on either side are imagined to have had each outcome: of outcomes that few runs had, little is
/// believed.
const OUTCOME_PRIOR: f64 = 8.0;
/// The same for classes of single numbers, which many runs have.
const CLASS_PRIOR: f64 = 0.5;

/// The logarithm of a likelihood ratio from two counts, drawn towards zero where they are small.
#[allow(clippy::cast_precision_loss)]
fn log_ratio(counts: [usize; 2], totals: [usize; 2], prior: f64) -> f64 {
    let share = |side: usize| (counts[side] as f64 + prior) / (totals[side] as f64 + 2.0 * prior);
    (share(0) / share(1)).ln()
}

fn outcomes(sides: &Runs<'_>, encoder: Encoder) -> Score {
    let mut counts: HashMap<u64, [usize; 2]> = HashMap::new();
    for (side, runs) in sides.iter().enumerate() {
        for run in *runs {
            counts.entry(outcome(encoder.codes(run))).or_default()[side] += 1;
        }
    }
    let totals = sides.map(<[_]>::len);
    let ratios =
        counts.into_iter().map(|(outcome, counts)| (outcome, log_ratio(counts, totals, OUTCOME_PRIOR))).collect();
    Score::Outcome { encoder, ratios }
}

fn bayes(sides: &Runs<'_>, encoder: Encoder, decisions: Vec<usize>) -> Score {
    let mut codes_of: HashMap<u64, [Vec<Vec<usize>>; 2]> = HashMap::new();
    for (side, runs) in sides.iter().enumerate() {
        for run in *runs {
            let codes: Vec<usize> = encoder.codes(run).collect();
            let pattern = outcome(decisions.iter().map(|place| codes[*place]));
            codes_of.entry(pattern).or_default()[side].push(codes);
        }
    }
    let totals = sides.map(<[_]>::len);
    let empty = || encoder.classes.iter().map(|classes| vec![[0_usize; 2]; classes.count()]).collect::<Vec<_>>();
    let mut all = empty();
    let mut patterns = HashMap::new();
    for (pattern, codes) in &codes_of {
        let mut counts = empty();
        for (side, runs) in codes.iter().enumerate() {
            for (place, code) in runs.iter().flat_map(|codes| codes.iter().enumerate()) {
                counts[place][*code][side] += 1;
                all[place][*code][side] += 1;
            }
        }
        let within = [codes[0].len(), codes[1].len()];
        if within.iter().all(|runs| *runs >= PATTERN_RUNS) {
            patterns.insert(*pattern, tables(&counts, log_ratio(within, totals, CLASS_PRIOR), within));
        }
    }
    Score::Bayes { encoder, decisions, patterns, anywhere: tables(&all, 0.0, totals) }
}

fn tables(counts: &[Vec<[usize; 2]>], pattern: f64, totals: [usize; 2]) -> Tables {
    let of_class =
        |counts: &Vec<[usize; 2]>| counts.iter().map(|counts| log_ratio(*counts, totals, CLASS_PRIOR)).collect();
    Tables { pattern, of_class: counts.iter().map(of_class).collect() }
}

/// How often the regression looks at all runs, and how large its steps are at first.
const EPOCHS: usize = 4;
const STEP: f64 = 0.3;

fn regression(sides: &Runs<'_>, encoder: Encoder) -> Score {
    let count = |place: usize| encoder.classes[place].count();
    let single = (0..encoder.places.len()).map(|first| (first, None));
    let pairs = (1..encoder.places.len()).map(|second| (second - 1, Some(second)));
    let mut groups: Vec<Group> = single
        .chain(pairs)
        .map(|(first, second)| (first, second, count(first) * second.map_or(1, count)))
        .filter(|(.., classes)| *classes <= GROUP_CLASSES)
        .map(|(first, second, classes)| Group { first, second, weights: vec![0.0; classes] })
        .collect();
    let encoded = sides.map(|runs| {
        let classes_of = |run: &Vec<f64>| {
            let codes: Vec<usize> = encoder.codes(run).collect();
            groups.iter().map(|group| group.class_of(&codes, &encoder)).collect::<Vec<usize>>()
        };
        runs.iter().map(classes_of).collect::<Vec<_>>()
    });
    // Steps that shrink with what was learned about a class (Adagrad).
    let mut squares: Vec<Vec<f64>> = groups.iter().map(|group| vec![1e-3; group.weights.len()]).collect();
    for _ in 0..EPOCHS {
        for pair in encoded[0].iter().zip(&encoded[1]) {
            for (classes, target) in [(pair.0, 1.0), (pair.1, 0.0)] {
                let score: f64 = groups.iter().zip(classes).map(|(group, class)| group.weights[*class]).sum();
                let slope = target - 1.0 / (1.0 + (-score).exp());
                for ((group, squares), class) in groups.iter_mut().zip(&mut squares).zip(classes) {
                    squares[*class] += slope * slope;
                    group.weights[*class] += STEP * slope / squares[*class].sqrt();
                }
            }
        }
    }
    Score::Regression { encoder, groups }
}

/// The cut of a score, and the direction, that promise most.
fn best_cut(score: Score, sides: &Runs<'_>, trial: Trial) -> Option<Event> {
    let scores = sides.map(|runs| {
        let mut scores: Vec<f64> = runs.iter().map(|run| score.of(run)).collect();
        scores.sort_unstable_by(f64::total_cmp);
        scores
    });
    let totals = scores.each_ref().map(Vec::len);
    let mut best: Option<(f64, f64, bool, usize)> = None;
    for cut in candidates(&scores) {
        let below = scores.each_ref().map(|side| side.partition_point(|score| *score < cut));
        for above in [true, false] {
            let hits = |side: usize| if above { totals[side] - below[side] } else { below[side] };
            for (likelier, other) in [(0, 1), (1, 0)] {
                let promise = trial.promise([hits(likelier), hits(other)], [totals[likelier], totals[other]]);
                if promise.is_finite() && best.is_none_or(|(most, ..)| promise > most) {
                    best = Some((promise, cut, above, likelier));
                }
            }
        }
    }
    best.map(|(promise, cut, above, likelier_on)| Event { score, cut, above, likelier_on, promise })
}

/// Where a score may be cut: at some of the values that it takes, and more closely at both ends, since the rarest
/// events may be the most telling ones.
fn candidates(scores: &[Vec<f64>; 2]) -> Vec<f64> {
    const EACH: usize = 200;
    let mut cuts: Vec<f64> = Vec::with_capacity(3 * EACH);
    for side in scores {
        cuts.extend(side.iter().step_by((side.len() / EACH).max(1)));
        let ends = (0..usize::BITS).map(|power| 1_usize << power).take_while(|rank| *rank <= side.len());
        cuts.extend(ends.flat_map(|rank| [side[rank - 1], side[side.len() - rank]]));
    }
    cuts.sort_unstable_by(f64::total_cmp);
    cuts.dedup();
    cuts
}
