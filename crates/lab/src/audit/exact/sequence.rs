//! All sequences of symbols and of answers.

use tidegate::sequence::baseline::{self, BaselineKind};
use tidegate::sequence::batched::{self, channel as channel_of_batch};
use tidegate::sequence::belief::Belief;
use tidegate::sequence::channel::Channel;
use tidegate::sequence::crr::{self, Guarantee};
use tidegate::sequence::effort;
use tidegate::sequence::leakage::{Exact, ExactError, exact};
use tidegate::sequence::model::Model;
use tidegate::sequence::support;
use tidegate_kernel::Epsilon;
use tidegate_kernel::oracle::{Oracle, OracleKind};
use tidegate_kernel::primitives::{ChannelLimits, ChannelParts, SymbolChannel};

use super::largest_difference;
use super::oracle::laws;
use crate::audit::targets::sequence::{Method, Promise, SequenceTarget};
use crate::experiment::RunError;

/// How many steps are enumerated where the promise is about one: so many different beliefs, from all answers before,
/// are tried.
const STEPS: u32 = 3;

/// The largest loss, or gain of belief, of what a target promises; `None` where there are too many sequences.
pub fn largest_loss(target: &SequenceTarget) -> Result<Option<f64>, RunError> {
    let length = u32::try_from(target.length).map_err(RunError::unsupported)?;
    match &target.method {
        Method::Crr(settings) => of_channels(&target.model, 1, length, target.promise, |_, belief| {
            let epsilon = sip(settings)?;
            let channel =
                effort::channel(belief, epsilon, &settings.distance, settings.effort).map_err(RunError::failed)?;
            matrix(&channel, epsilon)
        }),
        Method::Batched(batched::BatchedSettings { batch, length, support: Some(listed), .. }) => {
            of_channels(&target.model, *length, 1, target.promise, |released, _| {
                supported(&target.model, released, *length, *listed, batch)
            })
        }
        Method::Batched(batched::BatchedSettings { batch, length, .. }) => {
            of_channels(&target.model, *length, 1, target.promise, |_, belief| {
                let epsilon = sip(batch)?;
                let domain = target.model.domain();
                let channel = channel_of_batch(belief, domain, *length, epsilon, &batch.distance, batch.effort);
                matrix(&channel.map_err(RunError::failed)?, epsilon)
            })
        }
        Method::Baseline(kind, settings) => Ok(of_baseline(*kind, settings)?.map(|loss| loss * f64::from(length))),
    }
}

/// A row for each sequence, of the probabilities with which the kernel answers its class, after these outputs.
fn supported(
    model: &Model,
    released: &[u32],
    length: u32,
    listed: u32,
    settings: &crr::CrrSettings,
) -> Result<Vec<Vec<f64>>, RunError> {
    let epsilon = sip(settings)?;
    let mut belief = Belief::new(model);
    let channel = |belief: &Belief| {
        support::channel(model, belief, length, listed, epsilon, &settings.distance, settings.effort)
            .map_err(RunError::failed)
    };
    for output in released {
        channel(&belief)?.release(model, &mut belief, *output).map_err(RunError::failed)?;
    }
    let over = channel(&belief)?;
    let of_classes = matrix(over.channel(), epsilon)?;
    let sequences = model.domain().pow(length);
    let row = |number: u32| {
        let symbols: Vec<u32> =
            (0..length).rev().map(|place| number / model.domain().pow(place) % model.domain()).collect();
        let class = over.classes().class_of(&symbols).and_then(|class| of_classes.get(class as usize));
        let class = class.ok_or_else(|| RunError::failed("a sequence without a class"))?;
        // A class that is no output has probability zero: there may be more of those than sequences.
        Ok(class.iter().take(sequences as usize).copied().collect())
    };
    (0..sequences).map(row).collect()
}

/// The SIP of a step.
fn sip(settings: &crr::CrrSettings) -> Result<Epsilon, RunError> {
    match settings.guarantee {
        Guarantee::Sequence => Ok(settings.epsilon),
        Guarantee::Local => settings
            .epsilon
            .divided_by(2)
            .ok_or_else(|| RunError::unsupported(format!("epsilon {} has no half", settings.epsilon))),
    }
}

/// The probabilities with which the kernel answers through a channel, from its integer weights: a row for each symbol.
fn matrix(channel: &Channel, epsilon: Epsilon) -> Result<Vec<Vec<f64>>, RunError> {
    let limits = ChannelLimits::new(epsilon).map_err(RunError::failed)?;
    let parts = ChannelParts {
        outputs: channel.outputs(),
        rows: channel.rows(),
        mixtures: channel.mixtures(),
        mixture_of: channel.mixture_of(),
    };
    let kernel = SymbolChannel::new(&limits, parts).map_err(RunError::failed)?;
    let row = |symbol| (0..kernel.domain()).map(|output| kernel.probability(symbol, output)).collect();
    Ok((0..kernel.domain()).map(row).collect())
}

fn of_channels(
    model: &Model,
    batch: u32,
    length: u32,
    promise: Promise,
    mut channel: impl FnMut(&[u32], &[f64]) -> Result<Vec<Vec<f64>>, RunError>,
) -> Result<Option<f64>, RunError> {
    let steps = match promise {
        Promise::LocalWindow => length,
        // Batches have many more sequences.
        Promise::Sequence | Promise::Local => {
            if batch > 1 {
                STEPS - 1
            } else {
                STEPS
            }
        }
    };
    // What one step loses locally, whatever was answered before.
    let mut of_a_step: f64 = 0.0;
    let found = exact(model, batch, steps, |released, belief| {
        let matrix = channel(released, belief)?;
        let laws: Vec<Vec<f64>> = matrix.iter().map(|row| row.iter().map(|p| p.ln()).collect()).collect();
        of_a_step = of_a_step.max(largest_difference(&laws));
        Ok::<_, RunError>(matrix)
    });
    let Exact { steps, local, .. } = match found {
        Ok(found) => found,
        Err(ExactError::TooLarge { .. }) => return Ok(None),
        Err(error) => return Err(RunError::failed(error)),
    };
    Ok(Some(match promise {
        Promise::Sequence => steps.into_iter().fold(0.0, f64::max),
        Promise::Local => of_a_step,
        Promise::LocalWindow => local,
    }))
}

/// All reports of one step of a baseline, and the symbols that are drawn from them.
fn of_baseline(kind: BaselineKind, settings: &baseline::BaselineSettings) -> Result<Option<f64>, RunError> {
    let oracle_kind = match kind {
        BaselineKind::Rr => OracleKind::Grr,
        BaselineKind::Oue => OracleKind::Oue,
    };
    let oracle = Oracle::new(oracle_kind, settings.domain, settings.epsilon).map_err(RunError::failed)?;
    let Some(laws) = laws(&oracle)? else { return Ok(None) };
    if kind == BaselineKind::Rr {
        return Ok(Some(largest_difference(&laws)));
    }
    // Reports are enumerated as numbers: their bits are the symbols that they name. One of those is drawn, or any if
    // there are none.
    let domain = settings.domain as usize;
    let answers = |law: &Vec<f64>| {
        let mut answers = vec![0.0; domain];
        for (report, log) in law.iter().enumerate() {
            let named: Vec<usize> = (0..domain).filter(|symbol| report >> symbol & 1 == 1).collect();
            let drawn = if named.is_empty() { (0..domain).collect() } else { named };
            #[allow(clippy::cast_precision_loss)] // a few symbols
            let share = log.exp() / drawn.len() as f64;
            drawn.into_iter().for_each(|symbol| answers[symbol] += share);
        }
        answers.into_iter().map(f64::ln).collect::<Vec<_>>()
    };
    Ok(Some(largest_difference(&laws.iter().map(answers).collect::<Vec<_>>())))
}
