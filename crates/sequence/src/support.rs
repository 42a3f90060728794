//! Channels over batches with too many sequences to tell all apart.
//!
//! Of `d^w` sequences, the likeliest under the belief have a class of their own. Any other sequence has the class of
//! its middle symbol: a likely symbol, or those around one. So every sequence that a user may have is answered, by a
//! channel over some hundred classes:
//!
//! ```text
//! x_1 .. x_w ──▶ kernel: its class ──▶ channel over classes ──▶ output ──▶ a public sequence of w answers
//! ```
//!
//! The belief in classes is exact, whatever the number of sequences. A likely sequence has the product of its
//! transitions. The rest of a middle symbol has what the chain gives that symbol, less the likely sequences through it.
//! The same difference gives the belief after the batch. Thus the channel is epsilon-SIP for every sequence, and 2
//! epsilon-LDP for any belief ([proof](tidegate_kernel::proofs::sequence_classes)).
//!
//! Which sequences are listed, and what is answered for a class, concerns the error only. Sequences are found by beam
//! search, answers from the belief in the symbols of each cluster.

use std::collections::HashMap;

use tidegate_kernel::Epsilon;
use tidegate_kernel::primitives::SequenceClasses;

use crate::batch::{BatchChannelError, improved};
use crate::belief::Belief;
use crate::bins::{Shares, identity, index, normalised};
use crate::channel::{Channel, ChannelMatrixError};
use crate::clusters::best_clusters;
use crate::distance::Distance;
use crate::effort::Effort;
use crate::model::{Model, ModelError};

/// Largest number of sequences with a class of their own.
pub const MAX_SUPPORT: u32 = 2048;

/// Maximum number of classes of middle symbols.
pub const MIDDLES: usize = 96;

/// Continuations of a sequence that the beam search looks at.
const BRANCHES: usize = 48;

/// Number of outputs whose answers follow from the belief in each symbol of their cluster.
const REFINED: usize = 32;

/// Members of a cluster among which its representative is chosen.
const CANDIDATES: usize = 24;

/// A channel over classes of sequences; see the [module](self).
#[derive(Clone, Debug)]
pub struct SupportedChannel {
    classes: SequenceClasses,
    /// Over classes.
    belief: Vec<f64>,
    /// Over classes; outputs are classes too.
    channel: Channel,
    /// The answers for each class that is an output.
    answers: HashMap<u32, Vec<u32>>,
    length: usize,
}

impl SupportedChannel {
    /// The classes, for the kernel.
    pub const fn classes(&self) -> &SequenceClasses {
        &self.classes
    }

    /// The channel over classes.
    pub const fn channel(&self) -> &Channel {
        &self.channel
    }

    /// The belief over classes that the channel fits.
    pub fn belief(&self) -> &[f64] {
        &self.belief
    }

    /// The public sequence that an output stands for; `None` for a class that is no output.
    pub fn answers(&self, output: u32) -> Option<&[u32]> {
        self.answers.get(&output).map(Vec::as_slice)
    }

    /// Updates a belief with the release of `output` for the next symbols, and moves past them. Returns the probability
    /// of that output. Belief and model may be those of an observer who knows another model than the channel.
    ///
    /// # Errors
    /// [`ModelError::Impossible`], [`ModelError::OtherModel`].
    pub fn release(&self, model: &Model, belief: &mut Belief, output: u32) -> Result<f64, ModelError> {
        let likelihoods = self.channel.likelihood(output);
        let listed = self.classes.listed();
        let of_symbol: Vec<f64> =
            self.classes.rest().iter().map(|class| likelihoods[listed + *class as usize]).collect();
        let probabilities = probabilities(model, belief, self.classes.table(), self.length);
        let mut after = belief.clone();
        for _ in 0..self.classes.place() {
            after.pass(model)?;
        }
        let share = after.weigh(model, &of_symbol)?;
        for _ in self.classes.place() + 1..self.length {
            after.pass(model)?;
        }
        let sequences = self.classes.table().chunks_exact(self.length).zip(probabilities.iter().zip(&likelihoods));
        let corrections = sequences.map(|(symbols, (weight, likelihood))| {
            (symbols, weight * (likelihood - of_symbol[symbols[self.classes.place()] as usize]))
        });
        let probability = after.correct(model, share, corrections, (belief, output))?;
        *belief = after;
        Ok(probability)
    }
}

/// Returns an epsilon-SIP channel for a batch of `length` symbols, that tells the `support` likeliest sequences apart,
/// and of all others the middle symbol. The distance of two sequences is the sum over their symbols.
///
/// # Errors
/// A support outside 1..=[`MAX_SUPPORT`]; a batch without symbols; a belief of another model; a matrix for another
/// domain.
///
/// ```
/// use tidegate_sequence::belief::Belief;
/// use tidegate_sequence::distance::Distance;
/// use tidegate_sequence::effort::Effort;
/// use tidegate_sequence::model::Model;
/// use tidegate_sequence::support;
///
/// // Ten symbols out of 1,000: 10^30 sequences.
/// let model = Model::uniform(1000)?;
/// let belief = Belief::new(&model);
/// let supported = support::channel(&model, &belief, 10, 64, "5".parse()?, &Distance::Absolute, Effort::Fast)?;
/// assert!(supported.channel().leakage(supported.belief())?.largest() <= 5.0 + 1e-9);
/// assert!(supported.channel().ldp_loss() <= 10.0 + 1e-9);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub fn channel(
    model: &Model,
    belief: &Belief,
    length: u32,
    support: u32,
    epsilon: Epsilon,
    distance: &Distance,
    effort: Effort,
) -> Result<SupportedChannel, BatchChannelError> {
    if !(1..=MAX_SUPPORT).contains(&support) {
        return Err(BatchChannelError::Support { given: support });
    }
    if let Some(expected) = distance.domain().filter(|expected| *expected != model.domain() as usize) {
        return Err(ChannelMatrixError::Belief { given: model.domain() as usize, expected }.into());
    }
    let length = length as usize;
    if length == 0 {
        return Err(ChannelMatrixError::Empty { what: "symbol" }.into());
    }
    let place = (length - 1) / 2;
    let marginals = marginals(model, belief, length)?;
    let sequences = likeliest(model, belief, length, support as usize);
    let table: Vec<u32> = sequences.iter().flatten().copied().collect();
    let listed = probabilities(model, belief, &table, length);
    let sequences: Vec<(Vec<u32>, f64)> = sequences.into_iter().zip(listed.iter().copied()).collect();
    // What the middle symbols have beyond the listed sequences.
    let mut remaining = marginals[place].clone();
    for (symbols, probability) in &sequences {
        let held = &mut remaining[symbols[place] as usize];
        *held = (*held - probability).max(0.0);
    }
    let middles = Middles::new(&remaining, distance);
    let mut masses = vec![0.0; middles.centres.len()];
    middles.class_of.iter().zip(&remaining).for_each(|(class, weight)| masses[*class as usize] += weight);
    let whole: Vec<f64> = listed.iter().chain(&masses).copied().collect();
    let total: f64 = whole.iter().sum();
    let whole = normalised(&whole.iter().map(|weight| weight / total).collect::<Vec<f64>>())?;
    let shares = Shares::new(epsilon)?;
    let paths = Paths { sequences: &sequences, place, remaining: &remaining, middles: &middles, masses: &masses };
    let classes = ClassDistances::new(&paths.all(model, &marginals, distance), &whole, distance);
    let over_classes = match identity(&whole, &shares) {
        Some(identity) => identity?,
        None => {
            let between = |one, other| classes.between(one, other);
            let representative =
                |members: &[(u32, f64)], mass: f64| classes.representative(members, mass, shares.independent);
            let mean = |answer: u32| classes.means[answer as usize];
            let clustered = best_clusters(&whole, &shares, between, mean, representative)?;
            improved(clustered, &whole, &shares, between, effort)?
        }
    };
    let answers = paths.answers(model, &marginals, &over_classes, (&whole, &shares), (&classes.paths, distance));
    let classes = SequenceClasses::new(length, &table, place, middles.class_of)?;
    Ok(SupportedChannel { classes, belief: whole, channel: over_classes, answers, length })
}

/// Distribution of each of the next symbols.
fn marginals(model: &Model, belief: &Belief, length: usize) -> Result<Vec<Vec<f64>>, ModelError> {
    let mut belief = belief.clone();
    let mut marginals = vec![belief.present().to_vec()];
    for _ in 1..length {
        belief.pass(model)?;
        marginals.push(belief.present().to_vec());
    }
    Ok(marginals)
}

/// Probability of each sequence of a table.
fn probabilities(model: &Model, belief: &Belief, table: &[u32], length: usize) -> Vec<f64> {
    let mut contexts: HashMap<u32, Vec<(f64, Option<u32>)>> = HashMap::new();
    let of = |symbols: &[u32]| {
        let [first, rest @ ..] = symbols else { return 0.0 };
        let mut probability = belief.present()[*first as usize];
        if let Some(second) = rest.first() {
            let contexts = contexts.entry(*first).or_insert_with(|| belief.contexts(model, *first));
            let share = |(share, before): &(f64, Option<u32>)| share * model.transition(*before, *first, *second);
            probability *= contexts.iter().map(share).sum::<f64>();
        }
        let later = symbols.windows(3).map(|step| model.transition(Some(step[0]), step[1], step[2]));
        probability * later.product::<f64>()
    };
    table.chunks_exact(length).map(of).collect()
}

/// Likely sequences, in ascending order, by beam search.
fn likeliest(model: &Model, belief: &Belief, length: usize, most: usize) -> Vec<Vec<u32>> {
    let likelier = |one: &(u32, f64), other: &(u32, f64)| other.1.total_cmp(&one.1).then(one.0.cmp(&other.0));
    let mut first: Vec<(u32, f64)> =
        (0..).zip(belief.present().iter().copied()).filter(|(_, weight)| *weight > 0.0).collect();
    first.sort_unstable_by(likelier);
    first.truncate(most);
    let mut beam: Vec<(Vec<u32>, f64)> = first.into_iter().map(|(symbol, weight)| (vec![symbol], weight)).collect();
    let mut known = HashMap::new();
    for position in 1..length {
        let mut longer: Vec<(usize, u32, f64)> = Vec::new();
        for (at, (symbols, weight)) in beam.iter().enumerate() {
            let (before, present) = match symbols[..] {
                [.., before, present] => (Some(before), present),
                [present] => (None, present),
                [] => continue,
            };
            let extended = if position == 1 {
                after_first(model, belief, present)
            } else {
                known.entry((before, present)).or_insert_with(|| model.likely_next(before, present, BRANCHES)).clone()
            };
            longer.extend(extended.into_iter().map(|(symbol, share)| (at, symbol, weight * share)));
        }
        longer.sort_unstable_by(|one, other| other.2.total_cmp(&one.2).then((one.0, one.1).cmp(&(other.0, other.1))));
        longer.retain(|(_, _, weight)| *weight > 0.0);
        longer.truncate(most);
        let extend = |(at, symbol, weight): (usize, u32, f64)| ([&beam[at].0[..], &[symbol]].concat(), weight);
        beam = longer.into_iter().map(extend).collect();
    }
    let mut sequences: Vec<Vec<u32>> = beam.into_iter().map(|(symbols, _)| symbols).collect();
    sequences.sort_unstable();
    sequences
}

/// Likely second symbols: at order 2, over all symbols that may have been before the first.
fn after_first(model: &Model, belief: &Belief, present: u32) -> Vec<(u32, f64)> {
    let contexts = belief.contexts(model, present);
    if let [(_, before)] = contexts[..] {
        return model.likely_next(before, present, BRANCHES);
    }
    let mut next: Vec<u32> = contexts
        .iter()
        .flat_map(|(_, before)| model.likely_next(*before, present, BRANCHES))
        .map(|(symbol, _)| symbol)
        .collect();
    next.sort_unstable();
    next.dedup();
    let share = |symbol| -> f64 {
        contexts.iter().map(|(share, before)| share * model.transition(*before, present, symbol)).sum()
    };
    next.into_iter().map(|symbol| (symbol, share(symbol))).collect()
}

/// Classes of middle symbols.
struct Middles {
    /// Symbol that stands for each class.
    centres: Vec<u32>,
    class_of: Vec<u32>,
}

impl Middles {
    /// Divides the symbols by what remains of them: likely ones, and around them the others.
    fn new(remaining: &[f64], distance: &Distance) -> Self {
        let mut possible: Vec<u32> = (0..index(remaining.len())).filter(|x| remaining[*x as usize] > 0.0).collect();
        let likelier = |one: &u32, other: &u32| {
            remaining[*other as usize].total_cmp(&remaining[*one as usize]).then(one.cmp(other))
        };
        possible.sort_unstable_by(likelier);
        let is_all = possible.len() < MIDDLES;
        let near = !matches!(distance, Distance::Hamming);
        let mut centres = possible.clone();
        centres.truncate(if near && !is_all { MIDDLES / 2 } else { MIDDLES - 1 });
        if near && !is_all {
            // The others where most is far from all centres.
            let off_centre =
                |x: u32| centres.iter().map(|centre| distance.between(x, *centre)).fold(f64::MAX, f64::min);
            let mut off: Vec<(u32, f64)> = possible.iter().map(|x| (*x, off_centre(*x))).collect();
            while centres.len() < MIDDLES {
                let worth = |(x, off): &(u32, f64)| remaining[*x as usize] * off;
                let Some((next, _)) = off.iter().copied().max_by(|one, other| worth(one).total_cmp(&worth(other)))
                else {
                    break;
                };
                off.iter_mut().for_each(|(x, off)| *off = off.min(distance.between(*x, next)));
                centres.push(next);
            }
        }
        if centres.is_empty() || (!near && !is_all) {
            // All others together, and the likeliest of them in front.
            centres.push(possible.get(centres.len()).copied().unwrap_or(0));
        }
        centres.dedup();
        let own: HashMap<u32, u32> = (0_u32..).zip(&centres).map(|(class, centre)| (*centre, class)).collect();
        let last = index(centres.len() - 1);
        let nearest = |x: u32| {
            let off = (0_u32..).zip(&centres).map(|(class, centre)| (distance.between(x, *centre), class));
            off.min_by(|(one, _), (other, _)| one.total_cmp(other)).map_or(last, |(_, class)| class)
        };
        let class = |x: u32| own.get(&x).copied().unwrap_or_else(|| if near { nearest(x) } else { last });
        Self { class_of: (0..index(remaining.len())).map(class).collect(), centres }
    }
}

/// What stands for a class: a sequence, and how certain each of its symbols is.
type Path = Vec<(u32, f64)>;

/// Sequences that stand for classes.
struct Paths<'a> {
    sequences: &'a [(Vec<u32>, f64)],
    place: usize,
    remaining: &'a [f64],
    middles: &'a Middles,
    masses: &'a [f64],
}

impl Paths<'_> {
    /// One for each class. From a middle symbol on, and back from it, a path takes the likeliest step.
    fn all(&self, model: &Model, marginals: &[Vec<f64>], distance: &Distance) -> Vec<Path> {
        let own = |(symbols, _): &(Vec<u32>, f64)| symbols.iter().map(|symbol| (*symbol, 1.0)).collect::<Path>();
        let mut all: Vec<Path> = self.sequences.iter().map(own).collect();
        let before: Vec<Vec<Option<u32>>> =
            marginals[..self.place].iter().map(|marginal| model.likely_before(marginal)).collect();
        for (centre, mass) in self.middles.centres.iter().zip(self.masses) {
            let certain = if *mass > 0.0 { self.remaining[*centre as usize] / mass } else { 1.0 };
            let mut path = vec![(*centre, certain); marginals.len()];
            for at in (0..self.place).rev() {
                let (next, certain) = path[at + 1];
                path[at] = match before[at][next as usize] {
                    Some(symbol) => {
                        let joint = marginals[at][symbol as usize] * model.transition(None, symbol, next);
                        (symbol, certain * (joint / marginals[at + 1][next as usize]).min(1.0))
                    }
                    None => (next, 0.0),
                };
            }
            for at in self.place + 1..path.len() {
                let (symbol, certain) = path[at - 1];
                path[at] = match model.likely_next(None, symbol, 1).first() {
                    Some((next, share)) => (*next, certain * share),
                    None => (symbol, 0.0),
                };
            }
            // For a distance between symbols, what is nearly right counts too.
            if !matches!(distance, Distance::Hamming) {
                path.iter_mut().for_each(|(_, certain)| *certain = 1.0);
            }
            all.push(path);
        }
        all
    }

    /// The answers of each output: the path of its class or, of the likeliest outputs, the best answer for each symbol
    /// of its cluster.
    fn answers(
        &self,
        model: &Model,
        marginals: &[Vec<f64>],
        channel: &Channel,
        (belief, shares): (&[f64], &Shares),
        (paths, distance): (&[Path], &Distance),
    ) -> HashMap<u32, Vec<u32>> {
        let mut order: Vec<usize> = (0..channel.outputs().len()).collect();
        order.sort_by(|one, other| channel.outputs()[*other].1.total_cmp(&channel.outputs()[*one].1));
        let path = |class: u32| paths[class as usize].iter().map(|(symbol, _)| *symbol).collect::<Vec<u32>>();
        let mut answers: HashMap<u32, Vec<u32>> =
            channel.outputs().iter().map(|(class, _)| (*class, path(*class))).collect();
        for position in order.into_iter().take(REFINED) {
            // Share of each class that this output stands for.
            let mixed: Vec<f64> =
                channel.mixtures().iter().map(|mixture| share_of(channel, mixture, position)).collect();
            let shares_of: Vec<f64> = channel.mixture_of().iter().map(|mixture| mixed[*mixture as usize]).collect();
            let mass: f64 = shares_of.iter().zip(belief).map(|(share, weight)| share * weight).sum();
            if mass <= 0.0 {
                continue;
            }
            let mut own = self.symbols_of(model, marginals, &shares_of);
            let l = shares.independent;
            for (own, all) in own.iter_mut().zip(marginals) {
                own.iter_mut().zip(all).for_each(|(own, all)| *own = (1.0 - l) * *own + l * mass * all);
                trim(own);
            }
            let best = own.iter().map(|weights| distance.best_answer(weights)).collect();
            answers.insert(channel.outputs()[position].0, best);
        }
        answers
    }

    /// Weights of the symbols at each position, of a share of each class. Steps from the middle follow order 1.
    fn symbols_of(&self, model: &Model, marginals: &[Vec<f64>], shares: &[f64]) -> Vec<Vec<f64>> {
        let listed = self.sequences.len();
        let share_of = |x: usize| shares[listed + self.middles.class_of[x] as usize];
        let mut own: Vec<Vec<f64>> = vec![Vec::new(); marginals.len()];
        own[self.place] = self.remaining.iter().enumerate().map(|(x, weight)| weight * share_of(x)).collect();
        for at in self.place + 1..own.len() {
            let mut next = vec![0.0; self.remaining.len()];
            let mut last = own[at - 1].clone();
            trim(&mut last);
            model.carry(&last, &mut next);
            own[at] = next;
        }
        let possible = |(weight, all): (&f64, &f64)| if *all > 0.0 { (weight / all).min(1.0) } else { 0.0 };
        let mut later: Vec<f64> = own[self.place].iter().zip(&marginals[self.place]).map(possible).collect();
        for at in (0..self.place).rev() {
            later = model.carry_back(&later);
            own[at] = marginals[at].iter().zip(&later).map(|(weight, later)| weight * later).collect();
        }
        for ((symbols, weight), share) in self.sequences.iter().zip(shares) {
            for (own, symbol) in own.iter_mut().zip(symbols) {
                own[*symbol as usize] += weight * share;
            }
        }
        own
    }
}

/// Drops weights that hardly count.
fn trim(weights: &mut [f64]) {
    let most = weights.iter().copied().fold(0.0, f64::max);
    weights.iter_mut().filter(|weight| **weight < 1e-4 * most).for_each(|weight| *weight = 0.0);
}

/// Probability of an output, by its position, for a mixture of cells.
fn share_of(channel: &Channel, mixture: &[(u32, f64)], position: usize) -> f64 {
    let of_cell = |cell: u32| {
        let found = channel.rows()[cell as usize].iter().find(|(at, _)| *at as usize == position);
        found.map_or(0.0, |(_, share)| *share)
    };
    mixture.iter().map(|(cell, weight)| weight * of_cell(*cell)).sum()
}

/// Distances between the paths of classes.
struct ClassDistances {
    paths: Vec<Path>,
    table: Vec<f64>,
    /// Expected distance of each answer.
    means: Vec<f64>,
}

impl ClassDistances {
    fn new(paths: &[Path], belief: &[f64], distance: &Distance) -> Self {
        let between = |one: &Path, other: &Path| -> f64 {
            let steps = one.iter().zip(other);
            steps.map(|((symbol, certain), (answer, _))| certain * distance.between(*symbol, *answer)).sum()
        };
        let table: Vec<f64> = paths.iter().flat_map(|one| paths.iter().map(move |other| between(one, other))).collect();
        let mut means = vec![0.0; paths.len()];
        for (row, weight) in table.chunks_exact(paths.len()).zip(belief) {
            means.iter_mut().zip(row).for_each(|(mean, distance)| *mean += weight * distance);
        }
        Self { paths: paths.to_vec(), table, means }
    }

    fn between(&self, class: u32, answer: u32) -> f64 {
        self.table[class as usize * self.paths.len() + answer as usize]
    }

    /// Best answer for a cluster among its heaviest members.
    fn representative(&self, members: &[(u32, f64)], mass: f64, independent: f64) -> u32 {
        let mut candidates = members.to_vec();
        candidates.sort_by(|one, other| other.1.total_cmp(&one.1).then(one.0.cmp(&other.0)));
        candidates.truncate(CANDIDATES);
        let cost = |answer: u32| {
            let own: f64 = members.iter().map(|(class, weight)| weight * self.between(*class, answer)).sum();
            (1.0 - independent) * own + independent * mass * self.means[answer as usize]
        };
        let costs = candidates.into_iter().map(|(answer, _)| (cost(answer), answer));
        costs.min_by(|(one, _), (other, _)| one.total_cmp(other)).map_or(0, |(_, answer)| answer)
    }
}
