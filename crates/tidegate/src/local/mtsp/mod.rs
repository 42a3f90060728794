//! `mtsp` and `mtsp_population`: trees over an ordered domain, published when a whole window shows that it pays.
//!
//! At each timestamp a first round of questions, one for each level of a binary tree, put to as many disjoint parts of
//! those asked, estimates the dissimilarity to the last release. From the dissimilarities of the last `w` timestamps
//! follows how many of them should have been published, and whether this one is among them (`allocation`). If so, a
//! second round publishes a tree in which cold parts stay whole (`pruning`), and each node is averaged with its earlier
//! publications as long as it does not seem to have moved (`grouping`).
//!
//! `mtsp` divides the budget: everyone answers, each user about one level. `mtsp_population` divides the population, at
//! the whole budget.
//!
//! **A level without reports** is left out of the dissimilarity. In a publication, nodes without any report keep their
//! numbers and groups.
//!
//! Source: Liu and Zhao: MTSP-LDP: A Framework for Multi-Task Streaming Data Publication under Local Differential
//! Privacy, Proc. ACM Manag. Data 4(1), 2026, doi:10.1145/3786669, Algorithms 1 to 3.

mod allocation;
mod dissimilarity;
mod grouping;
mod phase;
mod pruning;

use serde::{Deserialize, Serialize};
use tidegate_kernel::oracle::{Estimate, OracleKind};
use tidegate_kernel::{Cohort, Epsilon, Question, View};

use crate::local::adaptive::done;
use crate::local::division::{Answer, Division, Prospect};
use crate::local::{LocalError, LocalSettings, Step};
use crate::policy::Pool;
use crate::release::why::{Measure, Paid, Purpose, Reason, Why};
use crate::release::{Freshness, UNSTATED};
use crate::tree::{Tree, TreeShape};
use allocation::Allocation;
use dissimilarity::{dissimilarity, margin};
pub use grouping::{GroupAverage, MEDIAN_OF};
use grouping::{Groups, Mean};
use phase::{Asked, Phase, Publishing};
use pruning::{Node, Pruned};

#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Mtsp {
    division: Division,
    /// Spend of the first round of a timestamp.
    share: u64,
    /// Budget of the second rounds of a window.
    pool: Pool,
    allocation: Allocation,
    /// Estimated number of users.
    users: f64,
    /// Last publication, without the drift since.
    last: Tree,
    groups: Groups,
    phase: Phase,
}

impl Mtsp {
    /// Creates the mechanism with budget division.
    pub(super) fn of_budget(settings: &LocalSettings) -> Result<Self, LocalError> {
        Self::new(Division::of_budget(settings), settings)
    }

    /// Creates the mechanism with population division. A timestamp's share must have a slot for each level.
    pub(super) fn of_population(settings: &LocalSettings) -> Result<Self, LocalError> {
        let levels = u64::from(TreeShape::new(settings.domain).height());
        Self::new(Division::of_population(settings, 2 * levels)?, settings)
    }

    #[allow(clippy::cast_precision_loss)]
    fn new(division: Division, settings: &LocalSettings) -> Result<Self, LocalError> {
        let shape = TreeShape::new(settings.domain);
        let nodes = shape.offset(shape.height() + 1);
        Ok(Self {
            share: division.share(settings, 2)?,
            pool: Pool::new(division.total() / 2, settings.window.get()),
            division,
            allocation: Allocation::new(settings.window.get()),
            users: settings.population.get() as f64,
            last: uniform(shape),
            groups: Groups::new(nodes, settings.smoother),
            phase: Phase::Idle,
        })
    }

    /// Account that pays for questions.
    pub(super) const fn account(&self) -> &Division {
        &self.division
    }

    /// Whether a loaded state matches these settings.
    pub(super) fn fits(&self, settings: &LocalSettings) -> bool {
        let shape = TreeShape::new(settings.domain);
        let nodes = shape.offset(shape.height() + 1);
        let phase_fits = match &self.phase {
            Phase::Idle => true,
            Phase::Comparing(asked) => asked.cohorts.len() == shape.height() as usize,
            Phase::Publishing(publishing) | Phase::Decided { publishing, .. } => publishing.fits(shape, nodes),
        };
        let (frequencies, variances) = self.last.nodes();
        *self.last.shape() == shape
            && frequencies.len() == nodes
            && variances.len() == nodes
            && self.groups.fits(nodes, settings.smoother)
            && self.division.fits(settings)
            && phase_fits
    }

    pub(super) fn open(&mut self, timestamp: u64, settings: &LocalSettings) -> Result<Step, LocalError> {
        let shape = *self.last.shape();
        let views = (1..=shape.height()).map(|level| pruning::view(shape, pruning::nodes_of(shape, level))).collect();
        let (questions, cohorts, spent) = self.ask(timestamp, Round::First, self.share, views, settings)?;
        self.phase = Phase::Comparing(Asked { timestamp, cohorts, spent });
        Ok(Step::Ask(questions))
    }

    pub(super) fn answer(
        &mut self,
        answers: &[Option<Estimate>],
        settings: &LocalSettings,
    ) -> Result<Step, LocalError> {
        match std::mem::replace(&mut self.phase, Phase::Idle) {
            Phase::Idle => Err(LocalError::Unasked),
            Phase::Comparing(asked) => self.compare(&asked, &asked.read(answers), settings),
            Phase::Publishing(publishing) => Ok(self.finish(publishing, None, answers, settings)),
            Phase::Decided { publishing, compared } => Ok(self.finish(publishing, Some(compared), answers, settings)),
        }
    }

    /// Publishes the answers of a second round. `compared` are the dissimilarity and the error.
    fn finish(
        &mut self,
        publishing: Publishing,
        compared: Option<(f64, f64)>,
        answers: &[Option<Estimate>],
        settings: &LocalSettings,
    ) -> Step {
        let Publishing { asked, reports, pruned, drift, first_look } = publishing;
        let answers = asked.read(answers);
        let own_reports = count(&answers);
        let measured = self.division.asked(Purpose::Measure, self.share, reports, settings);
        let first = self.last.shape().height() as usize;
        let measured = Paid { questions: first, oracle: settings.oracle, ..measured };
        let epsilon = match &self.division {
            Division::Budget(_) => {
                Epsilon::from_units(asked.spent.units().saturating_sub(measured.epsilon.units())).unwrap_or(asked.spent)
            }
            Division::Population(_) => asked.spent,
        };
        let published = asked.explained(Purpose::Publish, epsilon, own_reports, settings);
        let (tree, freshness, reason) = if answers.iter().all(Option::is_none) {
            (drifted(&self.last, drift, |_| true), Freshness::Approximated, Reason::NoReports)
        } else {
            (self.publish(&answers, &pruned, &first_look, drift), Freshness::Fresh, Reason::Changed)
        };
        let (dissimilarity, error) = compared.unzip();
        let why = Why::new(reason).asked(vec![measured, published]);
        let why = why.compared(Measure::MeanSquare, dissimilarity, error);
        done(asked.timestamp, tree, freshness, asked.spent, reports + own_reports, why)
    }

    /// Decides whether to publish, given the dissimilarity.
    fn compare(
        &mut self,
        asked: &Asked,
        answers: &[Option<Answer<'_>>],
        settings: &LocalSettings,
    ) -> Result<Step, LocalError> {
        let timestamp = asked.timestamp;
        let reports = count(answers);
        let dissimilarity = dissimilarity(answers, &self.last);
        let unchanged = |mechanism: &Self, drift: f64, freshness: Freshness, reason: Reason, error: Option<f64>| {
            let why = Why::new(reason).asked(vec![asked.explained(Purpose::Measure, asked.spent, reports, settings)]);
            let why = why.compared(Measure::MeanSquare, dissimilarity, error);
            Ok(done(timestamp, drifted(&mechanism.last, drift, |_| true), freshness, asked.spent, reports, why))
        };
        let Some(dissimilarity) = dissimilarity else {
            return unchanged(self, UNSTATED, Freshness::Approximated, Reason::NoReports, None);
        };
        // Part of the dissimilarity is the error of the last publication itself. The root has none.
        let own_variances = &self.last.nodes().1[1..];
        #[allow(clippy::cast_precision_loss)]
        let own = own_variances.iter().sum::<f64>() / own_variances.len() as f64;
        let drift = (dissimilarity - own).max(0.0);
        // With a level that nobody answered about, the drift of its nodes is not known.
        let stated = margin(answers, &self.last, dissimilarity).map_or(UNSTATED, |margin| drift + margin);
        self.note_users(asked, answers);
        self.allocation.note(timestamp, dissimilarity);
        let prospects = self.prospects(answers);
        let oracles = self.allocation_oracles(&prospects, settings);
        let choice = self.allocation.best(|publications| self.cost(publications, &prospects, &oracles, settings));
        if !choice.newest {
            return unchanged(self, stated, Freshness::Approximated, Reason::Allocation, None);
        }
        let amount = self.amount(timestamp, choice.publications);
        if amount == 0 {
            return unchanged(self, stated, Freshness::Nullified, Reason::NoBudget, None);
        }
        let errors = self.expected_errors(amount, &prospects, settings);
        let error = mean_over_nodes(&errors, &prospects);
        if error >= dissimilarity {
            return unchanged(self, stated, Freshness::Approximated, Reason::Unchanged, Some(error));
        }
        let pruned = self.prune(answers, &errors, drift);
        let shape = *self.last.shape();
        let views = pruned.levels(shape).into_iter().map(|level| pruning::view(shape, level)).collect();
        let (questions, cohorts, second) = self.ask(timestamp, Round::Second, amount, views, settings)?;
        self.pool.note_spend(timestamp, amount);
        let spent = self.division.spent_on_both(asked.spent, second, settings);
        let first_look = if settings.reuse { self.read_nodes(answers) } else { Vec::new() };
        let asked = Asked { timestamp, cohorts, spent };
        let publishing = Publishing { asked, reports, pruned, drift: stated, first_look };
        self.phase = Phase::Decided { publishing, compared: (dissimilarity, error) };
        Ok(Step::Ask(questions))
    }

    /// Spend of one of so many publications: its part of the pool, limited to what the window has left.
    fn amount(&mut self, timestamp: u64, publications: u64) -> u64 {
        self.pool.remaining(timestamp).min(self.pool.total() / publications.max(1))
    }

    /// Pays for a round of questions, one for each view, to disjoint parts of the cohort.
    fn ask(
        &mut self,
        timestamp: u64,
        round: Round,
        amount: u64,
        views: Vec<View>,
        settings: &LocalSettings,
    ) -> Result<(Vec<Question>, Vec<Cohort>, Epsilon), LocalError> {
        let (paid, epsilon) = self.division.pay(timestamp, amount, settings)?;
        #[allow(clippy::cast_possible_truncation)] // a tree over at most 2^24 values has at most 24 levels
        let (parts, first_phase) = match round {
            Round::First => (views.len() as u32, 0),
            Round::Second => (views.len() as u32, self.last.shape().height() as u16),
        };
        let cohorts = paid.split(parts, round.first_slot(timestamp));
        let question = |((phase, cohort), view): ((u16, &Cohort), View)| {
            let mut question = Question {
                timestamp,
                phase,
                cohort: *cohort,
                epsilon,
                oracle: OracleKind::Grr,
                domain: settings.domain,
                view,
            };
            question.oracle = settings.oracle_for(question.cells(), epsilon);
            question
        };
        let questions = (first_phase..).zip(&cohorts).zip(views).map(question).collect();
        Ok((questions, cohorts, epsilon))
    }

    /// Updates the number of users from the reports of a first round.
    #[allow(clippy::cast_precision_loss)]
    fn note_users(&mut self, asked: &Asked, answers: &[Option<Answer<'_>>]) {
        let answered = answers.iter().zip(&asked.cohorts).filter(|(answer, _)| answer.is_some());
        let share: f64 = answered.map(|(_, cohort)| cohort.share()).sum();
        if share > 0.0 {
            self.users = count(answers) as f64 / share;
        }
    }

    /// Predicted questions about each level.
    fn prospects(&self, answers: &[Option<Answer<'_>>]) -> Vec<Prospect> {
        let shape = self.last.shape();
        let prospect = |(level, answer): (u32, &Option<Answer<'_>>)| {
            let cells = shape.nodes(level);
            // The maximum if nothing is known.
            let mean = 1.0 / f64::from(cells);
            let scatter = answer.as_ref().map_or(mean * (1.0 - mean), Answer::scatter);
            Prospect { cells, part: 1.0 / f64::from(shape.height()), users: self.users, scatter, mean: None }
        };
        (1..).zip(answers).map(prospect).collect()
    }

    /// Mean variance of each level's nodes in a publication paid with `amount`, without pruning.
    fn expected_errors(&self, amount: u64, prospects: &[Prospect], settings: &LocalSettings) -> Vec<f64> {
        let too_few_slots =
            matches!(self.division, Division::Population(_)) && amount < u64::from(self.last.shape().height());
        let error = |prospect: &Prospect| match too_few_slots {
            true => f64::INFINITY,
            false => self.division.expected_error(amount, prospect, settings),
        };
        prospects.iter().map(error).collect()
    }

    /// Oracle whose variance allocates the budget to each level.
    ///
    /// The cost must be convex in the number of publications. That holds for each oracle with a variance convex in
    /// epsilon, but not for the best of several, nor for oracles that choose an integer by epsilon. For these,
    /// optimised unary encoding stands in, whose variance they have up to rounding.
    fn allocation_oracles(&self, prospects: &[Prospect], settings: &LocalSettings) -> Vec<OracleKind> {
        let whole = match self.division {
            Division::Budget(_) => Epsilon::from_units(self.pool.total()).unwrap_or(settings.epsilon),
            // Everyone asked spends the same, so one oracle's variance is divided by their number.
            Division::Population(_) => {
                return prospects
                    .iter()
                    .map(|prospect| settings.oracle_for(prospect.cells, settings.epsilon))
                    .collect();
            }
        };
        let oracle = |prospect: &Prospect| match settings.oracle {
            Some(OracleKind::Olh | OracleKind::Subset) => OracleKind::Oue,
            Some(oracle) => oracle,
            None => {
                let error =
                    |kind: OracleKind| kind.variance(prospect.cells, whole, 1).at(1.0 / f64::from(prospect.cells));
                if error(OracleKind::Grr) <= error(OracleKind::Oue) { OracleKind::Grr } else { OracleKind::Oue }
            }
        };
        prospects.iter().map(oracle).collect()
    }

    /// Total error of publications that share the pool evenly.
    #[allow(clippy::cast_precision_loss)]
    fn cost(&self, publications: u64, prospects: &[Prospect], oracles: &[OracleKind], settings: &LocalSettings) -> f64 {
        let amount = self.pool.total() as f64 / publications as f64;
        let error = |(prospect, oracle): (&Prospect, &OracleKind)| {
            self.division.expected_error_with(*oracle, amount, prospect, settings)
        };
        let errors: Vec<f64> = prospects.iter().zip(oracles).map(error).collect();
        publications as f64 * mean_over_nodes(&errors, prospects)
    }

    /// Returns the nodes too cold to be divided: their frequency, by the first round and the last release, is below the
    /// standard error of their children.
    fn prune(&self, answers: &[Option<Answer<'_>>], errors: &[f64], drift: f64) -> Pruned {
        let shape = *self.last.shape();
        Pruned::new(shape, |node| {
            let level = node.level as usize;
            // `errors` and `answers` start at level 1.
            let Some(error_below) = errors.get(level) else { return false };
            let (frequency, variance) = self.last.node(node.level, node.number);
            let mut known = Mean::default();
            known.add(frequency, variance + drift, 1.0 / (variance + drift));
            let answer = level.checked_sub(1).and_then(|index| answers.get(index)?.as_ref());
            if let Some(answer) = answer
                && let Some(&frequency) = answer.frequencies.get(node.number as usize)
            {
                let variance = answer.variance_at(frequency);
                known.add(frequency, variance, 1.0 / variance);
            }
            known.read().is_some_and(|(frequency, _)| frequency < error_below.sqrt())
        })
    }

    /// Estimates of each node from the answers of a first round.
    fn read_nodes(&self, answers: &[Option<Answer<'_>>]) -> Vec<Mean> {
        let shape = *self.last.shape();
        let levels: Vec<Vec<Node>> =
            (1..=shape.height()).map(|level| pruning::nodes_of(shape, level).collect()).collect();
        measure(shape, &levels, answers)
    }

    /// Adds a publication, and returns the tree to release.
    fn publish(&mut self, answers: &[Option<Answer<'_>>], pruned: &Pruned, first_look: &[Mean], drift: f64) -> Tree {
        let shape = *self.last.shape();
        let levels = pruned.levels(shape);
        let mut measured = measure(shape, &levels, answers);
        for (level, nodes) in (1..).zip(&levels) {
            for node in nodes.iter().filter(|node| node.level == level) {
                if let Some(first) = first_look.get(node.position) {
                    measured[node.position].merge(first);
                }
            }
        }
        let unknown = infer_below(shape, levels.last().map_or(&[], Vec::as_slice), &mut measured);
        let (frequencies, variances) = self.last.nodes();
        let published = Tree::from_positions(shape, |position| {
            let before = (frequencies[position], variances[position]);
            let Some((frequency, variance)) = self.groups.publish(position, &measured[position]) else { return before };
            // The group may have moved, so it is stated to be no better than its newest member.
            let newest = measured[position].read().map_or(variance, |(_, newest)| newest.max(variance));
            (frequency, newest + unknown[position])
        });
        self.last = published;
        drifted(&self.last, drift, |position| measured[position].read().is_none())
    }
}

/// Round of a timestamp.
#[derive(Clone, Copy)]
enum Round {
    First,
    Second,
}

impl Round {
    /// First slot of the division of everyone into levels. It advances by about the golden section of the ring with
    /// each round, so that over time each user answers about every level equally often.
    fn first_slot(self, timestamp: u64) -> u16 {
        let round = match self {
            Self::First => timestamp.wrapping_mul(2),
            Self::Second => timestamp.wrapping_mul(2).wrapping_add(1),
        };
        #[allow(clippy::cast_possible_truncation)] // slots are counted modulo 2^16
        let slot = round.wrapping_mul(40_503) as u16;
        slot
    }
}

/// Tree before any answer: uniform, with the largest error everywhere but at the root.
fn uniform(shape: TreeShape) -> Tree {
    let nodes: Vec<Node> = (0..=shape.height()).flat_map(|level| pruning::nodes_of(shape, level)).collect();
    Tree::from_positions(shape, |position| {
        let Node { level, number, .. } = nodes[position];
        let frequency = f64::from(shape.leaves(level, number)) / f64::from(shape.domain());
        (frequency, if level == 0 { 0.0 } else { 1.0 })
    })
}

/// Increases the error of nodes that kept their numbers by the change since.
fn drifted(tree: &Tree, drift: f64, kept: impl Fn(usize) -> bool) -> Tree {
    let (frequencies, variances) = tree.nodes();
    Tree::from_positions(*tree.shape(), |position| {
        let drift = if position > 0 && kept(position) { drift } else { 0.0 };
        (frequencies[position], variances[position] + drift)
    })
}

/// Estimates of each node of a tree from answers about divisions of the domain. A node in several divisions is
/// averaged.
fn measure(shape: TreeShape, levels: &[Vec<Node>], answers: &[Option<Answer<'_>>]) -> Vec<Mean> {
    let mut measured = vec![Mean::default(); shape.offset(shape.height() + 1)];
    for (nodes, answer) in levels.iter().zip(answers) {
        let Some(answer) = answer else { continue };
        #[allow(clippy::cast_precision_loss)]
        let weight = 1.0 / answer.variance_at(1.0 / nodes.len() as f64);
        for (node, &frequency) in nodes.iter().zip(answer.frequencies) {
            measured[node.position].add(frequency, answer.variance_at(frequency), weight);
        }
    }
    measured
}

/// Gives the descendants of nodes their shares, in proportion to their values. Returns the expected squared error of
/// these shares, for each node of the tree.
///
/// Let a node have frequency `f` and a descendant the share `s` of it. However `f` is really divided, the squared error
/// of `s f`, averaged over the descendants of a level, is at most `f² s (1 - s)`: as if all of it were in one of them.
fn infer_below(shape: TreeShape, nodes: &[Node], measured: &mut [Mean]) -> Vec<f64> {
    let mut unknown = vec![0.0; measured.len()];
    for &node in nodes {
        let whole = measured[node.position];
        let square = whole.read().map_or(0.0, |(frequency, variance)| frequency.max(0.0).powi(2) + variance);
        let values = f64::from(shape.leaves(node.level, node.number));
        for level in node.level + 1..=shape.height() {
            for child in pruning::below(shape, node, level) {
                let share = f64::from(shape.leaves(child.level, child.number)) / values;
                measured[child.position] = whole.part(share);
                unknown[child.position] = square * share * (1.0 - share);
            }
        }
    }
    unknown
}

/// Mean over all nodes but the root of numbers that are equal within a level.
fn mean_over_nodes(errors: &[f64], prospects: &[Prospect]) -> f64 {
    let sum: f64 = errors.iter().zip(prospects).map(|(error, prospect)| error * f64::from(prospect.cells)).sum();
    sum / prospects.iter().map(|prospect| f64::from(prospect.cells)).sum::<f64>()
}

fn count(answers: &[Option<Answer<'_>>]) -> u64 {
    answers.iter().flatten().map(|answer| answer.reports).sum()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::num::NonZeroU64;

    #[allow(clippy::unwrap_used)]
    fn settings(domain: u32, epsilon: &str, window: u64, oracle: Option<OracleKind>) -> LocalSettings {
        let (window, users) = (NonZeroU64::new(window).unwrap(), NonZeroU64::new(1_000).unwrap());
        LocalSettings { oracle, ..LocalSettings::new(epsilon.parse().unwrap(), window, domain, users) }
    }

    #[test]
    #[allow(clippy::unwrap_used)]
    fn the_cost_of_publications_is_convex_in_their_number() {
        // The early end of the search relies on it, for any oracle.
        let oracles: Vec<_> = OracleKind::ALL.into_iter().map(Some).chain([None]).collect();
        for (domain, epsilon) in [2, 3, 5, 7, 16, 200].into_iter().flat_map(|d| ["0.1", "1", "8"].map(|e| (d, e))) {
            for &oracle in &oracles {
                let settings = settings(domain, epsilon, 60, oracle);
                for mechanism in [Mtsp::of_budget(&settings).unwrap(), Mtsp::of_population(&settings).unwrap()] {
                    let silent: Vec<Option<Answer<'_>>> = (0..TreeShape::new(domain).height()).map(|_| None).collect();
                    let prospects = mechanism.prospects(&silent);
                    let oracles = mechanism.allocation_oracles(&prospects, &settings);
                    let cost = |k| if k == 0 { 0.0 } else { mechanism.cost(k, &prospects, &oracles, &settings) };
                    for k in 1..60 {
                        let (before, here, after) = (cost(k - 1), cost(k), cost(k + 1));
                        // Up to rounding of epsilon.
                        assert!(
                            before + after - 2.0 * here >= -1e-5 * here,
                            "{oracle:?} d={domain} epsilon={epsilon} k={k}: {before} {here} {after}"
                        );
                    }
                }
            }
        }
    }

    #[test]
    #[allow(clippy::unwrap_used)]
    fn the_account_grants_every_sequence_of_allocations_and_no_window_exceeds_it() {
        for window in 1..=4_u64 {
            let settings = settings(2, "1", window, None);
            let (length, choices) = (7, window + 1);
            for sequence in 0..choices.pow(length) {
                for mut mechanism in [Mtsp::of_budget(&settings).unwrap(), Mtsp::of_population(&settings).unwrap()] {
                    let mut spends = Vec::new();
                    for timestamp in 0..u64::from(length) {
                        // Any number of publications, or none at this timestamp.
                        let publications = sequence / choices.pow(u32::try_from(timestamp).unwrap()) % choices;
                        let mut spent = mechanism.share;
                        mechanism.division.pay(timestamp, mechanism.share, &settings).unwrap();
                        let amount = if publications == 0 { 0 } else { mechanism.amount(timestamp, publications) };
                        if amount > 0 {
                            mechanism.division.pay(timestamp, amount, &settings).unwrap();
                            mechanism.pool.note_spend(timestamp, amount);
                            spent += amount;
                        }
                        spends.push(spent);
                    }
                    let length = usize::try_from(window).unwrap();
                    let largest = spends.windows(length).map(|window| window.iter().sum::<u64>()).max();
                    assert!(largest <= Some(mechanism.division.total()), "{sequence} {spends:?}");
                }
            }
        }
    }

    #[test]
    fn the_uniform_tree_counts_values_and_not_padding() {
        let tree = uniform(TreeShape::new(3));
        assert_eq!(tree.nodes().0, [1.0, 2.0 / 3.0, 1.0 / 3.0, 1.0 / 3.0, 1.0 / 3.0, 1.0 / 3.0]);
        assert_eq!(tree.node(0, 0), (1.0, 0.0));
    }
}
