//! Saving a mechanism, and going on with it.

use std::collections::VecDeque;

use serde::{Deserialize, Serialize};
use tidegate_kernel::primitives::Held;
use tidegate_kernel::{Ledger, Locked, NoEntropy, StreamId, VaultKey, Window};

use super::smoothing::Smoothing;
use super::track;
use super::truncation::{Batches, SavedBatches, candidates};
use super::{Machine, Scalar, ScalarError, ScalarKind, ScalarSettings};

/// The version of what is saved: of `track` the ninth, of all others the first.
const fn version_of(kind: ScalarKind) -> u16 {
    match kind {
        ScalarKind::Track => 9,
        _ => 1,
    }
}

/// The saved form of an [`Scalar`]: plain data, but for the readings that it holds, which are [locked](Locked).
///
/// `L` is the ledger, borrowed when the mechanism is saved and owned when it is loaded.
#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SavedScalar<L = Ledger> {
    version: u16,
    kind: ScalarKind,
    settings: ScalarSettings,
    ledger: L,
    last: Option<u64>,
    stream: StreamId,
    bound: Option<i64>,
    batches: Option<SavedBatches>,
    sample: Option<Locked>,
    machine: SavedMachine,
}

impl SavedScalar {
    /// The ledger, which holds no readings.
    pub(crate) const fn ledger(&self) -> &Ledger {
        &self.ledger
    }
}

/// State of each mechanism between two timestamps.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
enum SavedMachine {
    Nothing,
    Group { group: Locked, smoothing: Smoothing, waiting: VecDeque<u64> },
    Window { window: Locked, released: VecDeque<f64> },
    Batch { held: Locked, done: u64, due: bool },
    Track { state: Box<track::State>, held: Locked },
}

/// Context that encrypted parts are bound to, beside the ledger: another stream, other settings or another moment
/// cannot decrypt them.
fn context(kind: ScalarKind, settings: &ScalarSettings, stream: StreamId, last: Option<u64>, batches: u64) -> String {
    let last = last.map_or_else(|| "none".to_owned(), |last| last.to_string());
    let version = version_of(kind);
    format!("event {version} {kind} stream {stream} last {last} batches {batches} {}", settings.context())
}

impl Scalar {
    /// How many batches there were, or questions of `track`.
    fn progress(&self) -> u64 {
        match (&self.machine, &self.batches) {
            (Machine::Batched(batched), _) => batched.done,
            (Machine::Track(track), _) => track.asked,
            (_, Some(batches)) => batches.begun,
            _ => 0,
        }
    }

    /// All of the mechanism's state, to be serialised. Saving it, loading it and going on is the same as going on.
    ///
    /// Readings that are held back are encrypted under the key, and bound to the rest of the state: parts of two states
    /// do not make a third. The key is the operator's: whoever has it and a saved state can read the readings and
    /// publish them again. Save before releases become visible, in one transaction with them, and load only the latest,
    /// once: an older state has budget that was spent since, and readings that were published since, and nothing in it
    /// tells that it is older.
    ///
    /// # Errors
    /// [`NoEntropy`] where the operating system gives no randomness to encrypt with.
    ///
    /// ```
    /// use tidegate::scalar::{Scalar, ScalarKind, SavedScalar, ScalarSettings};
    /// use tidegate::kernel::{Grid, SystemRandom, VaultKey};
    ///
    /// let settings = ScalarSettings::new("1".parse()?, Grid::new(0.0, 612.0, 1.0)?, 10);
    /// let mut mechanism = Scalar::new(ScalarKind::Contin, settings)?;
    /// mechanism.push(mechanism.seal(0, 240.0)?, &mut SystemRandom::new()?)?;
    /// let key = VaultKey::new()?;
    /// let kept = key.to_bytes(); // kept apart from what is saved
    /// let saved = serde_json::to_string(&mechanism.save(&key)?)?;
    /// drop(mechanism);
    ///
    /// let loaded = Scalar::load(serde_json::from_str(&saved)?, &VaultKey::from_bytes(*kept))?;
    /// assert_eq!(loaded.waiting(), 1);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn save(&self, key: &VaultKey) -> Result<SavedScalar<&Ledger>, NoEntropy> {
        let stream = match self.stream.get() {
            Some(stream) => *stream,
            None => {
                let drawn = StreamId::new()?;
                *self.stream.get_or_init(|| drawn)
            }
        };
        let context = context(self.kind, &self.settings, stream, self.last, self.progress());
        let vault = &key.vault(&self.ledger, &context);
        let machine = match &self.machine {
            Machine::Constant | Machine::Laplace(_) | Machine::Labels(_) => SavedMachine::Nothing,
            Machine::Pegasus(pegasus) => SavedMachine::Group {
                group: pegasus.group.groups.lock(vault)?,
                smoothing: pegasus.group.smoothing.clone(),
                waiting: VecDeque::new(),
            },
            Machine::PegasusDelay(pegasus) => SavedMachine::Group {
                group: pegasus.group.groups.lock(vault)?,
                smoothing: pegasus.group.smoothing.clone(),
                waiting: pegasus.waiting.clone(),
            },
            Machine::Comporder(comporder) => match &comporder.window {
                None => SavedMachine::Nothing,
                Some(window) => {
                    SavedMachine::Window { window: window.lock(vault)?, released: comporder.released.clone() }
                }
            },
            Machine::Track(track) => {
                SavedMachine::Track { state: Box::new(track.state()), held: track.held.lock(vault)? }
            }
            Machine::Batched(batched) => {
                SavedMachine::Batch { held: batched.held.lock(vault)?, done: batched.done, due: batched.due }
            }
        };
        let (batches, sample) = match &self.batches {
            None => (None, None),
            Some(batches) => {
                let public = SavedBatches { begun: batches.begun, first: batches.first, due: batches.due };
                (Some(public), Some(batches.sample.lock(vault)?))
            }
        };
        Ok(SavedScalar {
            version: version_of(self.kind),
            kind: self.kind,
            settings: self.settings,
            ledger: &self.ledger,
            last: self.last,
            stream,
            bound: self.bound,
            batches,
            sample,
            machine,
        })
    }

    /// Goes on with what was saved.
    ///
    /// # Errors
    /// [`ScalarError::Version`], [`ScalarError::Locked`] where the key is another or the state was changed, and
    /// [`ScalarError::Misfit`] for a state that no mechanism with its settings can have been in.
    pub fn load(saved: SavedScalar, key: &VaultKey) -> Result<Self, ScalarError> {
        let SavedScalar { version, kind, mut settings, ledger, last, stream, bound, batches, sample, machine } = saved;
        if version != version_of(kind) {
            return Err(ScalarError::Version { found: version, known: version_of(kind) });
        }
        let misfit = |what| ScalarError::Misfit { what };
        if let SavedMachine::Track { state, .. } = &machine {
            settings.periods = state.periods;
        }
        let mut event = Self::new(kind, settings)?;
        let expected_clock = if kind == ScalarKind::Constant { None } else { last };
        let same_budget = (ledger.budget(), ledger.window()) == (settings.epsilon, Window::EVENT);
        if !same_budget || ledger.clock() != expected_clock {
            return Err(misfit("the ledger"));
        }
        if let Some(bound) = bound {
            if settings.truncation.is_none() || !candidates(&settings.grid.range()).contains(&bound) {
                return Err(misfit("the bound"));
            }
            event.bound = Some(bound);
            event.set_range()?;
        }
        (event.ledger, event.last, event.stream) = (ledger, last, stream.into());
        let progress = match (&machine, &batches) {
            (SavedMachine::Batch { done, .. }, _) => *done,
            (SavedMachine::Track { state, .. }, _) => state.asked,
            (_, Some(batches)) => batches.begun,
            _ => 0,
        };
        let context = context(kind, &settings, stream, last, progress);
        let vault = &key.vault(&event.ledger, &context);
        let recent = |timestamp: u64| last.is_some_and(|last| timestamp <= last);
        match (&mut event.batches, batches, sample) {
            (None, None, None) => {}
            (Some(empty), Some(SavedBatches { begun, first, due }), Some(sample)) => {
                let sample = Held::unlock(&sample, vault)?;
                let share = event.shares.bound;
                let fits = sample.amounts().all(|amount| Some(amount) == share)
                    && sample.timestamps().all(|timestamp| recent(timestamp) && Some(timestamp) >= first);
                if !fits || first.is_some_and(|first| !recent(first)) || (begun == 0) != first.is_none() {
                    return Err(misfit("the sample"));
                }
                *empty = Batches { begun, first, due, sample };
            }
            _ => return Err(misfit("the sample")),
        }
        match (&mut event.machine, machine) {
            (Machine::Constant | Machine::Laplace(_) | Machine::Labels(_), SavedMachine::Nothing) => {}
            (Machine::Comporder(comporder), SavedMachine::Nothing) if comporder.window.is_none() => {}
            (Machine::Pegasus(pegasus), SavedMachine::Group { group, smoothing, waiting }) => {
                pegasus.group.groups.unlock(&group, vault)?;
                let members = pegasus.group.groups.members();
                // The average of a closed group stays until the next one is opened, and is not looked at.
                if !waiting.is_empty() || (members > 0 && !smoothing.fits(settings.smoother, members)) {
                    return Err(misfit("the open group"));
                }
                if members > 0 {
                    pegasus.group.smoothing = smoothing;
                }
            }
            (Machine::PegasusDelay(pegasus), SavedMachine::Group { group, smoothing, waiting }) => {
                pegasus.group.groups.unlock(&group, vault)?;
                let members = pegasus.group.groups.members();
                let in_order = waiting.iter().is_sorted_by(|first, second| first < second);
                let fits = waiting.len() <= members && in_order && waiting.iter().all(|timestamp| recent(*timestamp));
                if !fits || (members > 0 && !smoothing.fits(settings.smoother, members)) {
                    return Err(misfit("the open group"));
                }
                if members > 0 {
                    pegasus.group.smoothing = smoothing;
                }
                pegasus.waiting = waiting;
            }
            (Machine::Comporder(comporder), SavedMachine::Window { window: locked, released }) => {
                let Some(window) = &mut comporder.window else { return Err(misfit("the window")) };
                window.unlock(&locked, vault)?;
                let is_window = window.members().all(|(timestamp, _)| recent(timestamp));
                if released.len() != window.members().len() || !is_window {
                    return Err(misfit("the window"));
                }
                comporder.released = released;
            }
            (Machine::Batched(batched), SavedMachine::Batch { held, done, due }) => {
                batched.held = Held::unlock(&held, vault)?;
                (batched.done, batched.due) = (done, due);
                let first = batched.held.timestamps().next();
                let in_batch = last.is_none_or(|last| {
                    first.is_none_or(|first| last >= first && last - first < u64::from(settings.delay))
                });
                if !batched.held.amounts().all(|amount| amount == settings.epsilon)
                    || !batched.held.timestamps().all(recent)
                    || !in_batch
                {
                    return Err(misfit("the batch"));
                }
            }
            (Machine::Track(track), SavedMachine::Track { state, held }) => {
                let held = Held::unlock(&held, vault)?;
                if !track.load(*state, held, last, settings.delay) {
                    return Err(misfit("what is believed"));
                }
            }
            _ => return Err(misfit("the mechanism")),
        }
        Ok(event)
    }
}
