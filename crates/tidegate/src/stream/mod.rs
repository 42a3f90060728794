//! [`Stream`]: a running stream of any family, made from a spec.
//!
//! ```
//! use tidegate::kernel::SystemRandom;
//! use tidegate::spec::StreamSpec;
//! use tidegate::stream::Stream;
//!
//! let toml = r#"
//!     mechanism = "central.track"
//!     epsilon = 1.0
//!     window = 7
//!     domain = ["home", "shop"]
//! "#;
//! let mut stream = Stream::new(toml::from_str::<StreamSpec>(toml)?)?;
//! let random = &mut SystemRandom::new()?;
//! for (t, user, place) in [(0, "ann", "shop"), (0, "bob", "home"), (1, "ann", "home")] {
//!     for release in stream.push(stream.value(t, user, place)?, random)?.releases {
//!         println!("{}: {:?}", release.timestamp, release.statistic); // timestamp 0, once 1 begins
//!     }
//! }
//! let rest = stream.finish(random)?.releases; // timestamp 1
//! assert_eq!(rest[0].timestamp, 1);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! | a stream | takes | by |
//! | --- | --- | --- |
//! | local | each user's value, answered by a device in this process | [`Stream::push`] |
//! | local | estimates from reports of devices elsewhere | [`Stream::open`], [`Stream::answer`] |
//! | central | each user's value, or counts | [`Stream::push`] |
//! | scalar | a reading a timestamp | [`Stream::push`] |
//! | sequence | each user's symbol | [`Stream::push`] |
//!
//! A timestamp of users is complete, and released, when an entry of a later one comes, or at [`Stream::finish`].
//!
//! **Save before you show.** [`Stream::save`] before a release is visible to anybody, and load only the latest state:
//! an older one spends again what was spent since.

mod budget;
mod central;
mod error;
mod intake;
mod local;
mod saved;
mod scalar;
mod sequence;
mod users;

use std::collections::HashSet;
use std::fmt;
use std::sync::Arc;

use tidegate_kernel::oracle::Estimate;
use tidegate_kernel::primitives::ClassHistograms;
use tidegate_kernel::{Account, ClassLedgers, Ledger, Question, Randomness, Sealed, Window};

use crate::central::classes::Classes;
use crate::local::plbu::Plbu;
use crate::local::{Local, Step};
use crate::post_processing::Refinement;
use crate::release::Release;
use crate::spec::{CentralMachine, Intake, LocalMachine, Said, SpecError, StandingQueries, StreamSpec, Values};

pub use budget::{Balance, Budget};
use central::{ByClass, Shared};
pub use error::StreamError;
use error::other_settings;
use local::Collector;
use scalar::Numbers;
use sequence::Sequences;

/// A part of a stream's input. Its `Debug` form shows the timestamp, and nothing of the data.
pub enum Entry {
    /// The value of a user, by its number in the domain: for all families but scalar.
    Value {
        /// The timestamp; not before the last entry's.
        timestamp: u64,
        /// The user, who has one value at a timestamp.
        user: Arc<str>,
        /// The number of the value.
        value: u32,
    },
    /// How many users hold each value, for a whole timestamp of a central stream without classes.
    Counts {
        /// The timestamp.
        timestamp: u64,
        /// A count for each value of the domain.
        counts: Vec<u64>,
    },
    /// The same, sealed for the stream's [account](Stream::account).
    Histogram(Sealed<Vec<u64>>),
    /// The same for each class of a central stream, with the number of registered users of each class, which is
    /// public. A stream that takes these knows no users by name: whoever pushes keeps their classes.
    ByClass {
        /// The counts of each class, sealed for the stream's [account](Stream::account).
        histograms: Sealed<ClassHistograms>,
        /// The registered users of each class.
        members: Vec<u64>,
    },
    /// A reading of a scalar stream, sealed for the stream's [account](Stream::account).
    Reading(Sealed<i64>),
}

impl fmt::Debug for Entry {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Entry").field("timestamp", &self.timestamp()).finish_non_exhaustive()
    }
}

impl Entry {
    /// Its timestamp.
    pub const fn timestamp(&self) -> u64 {
        match self {
            Self::Value { timestamp, .. } | Self::Counts { timestamp, .. } => *timestamp,
            Self::Histogram(sealed) => sealed.timestamp(),
            Self::ByClass { histograms, .. } => histograms.timestamp(),
            Self::Reading(sealed) => sealed.timestamp(),
        }
    }

    const fn kind(&self) -> &'static str {
        match self {
            Self::Value { .. } => "values of users",
            Self::Counts { .. } | Self::Histogram(_) => "counts",
            Self::ByClass { .. } => "counts of classes",
            Self::Reading(_) => "readings",
        }
    }
}

/// Releases that one call brought about.
#[derive(Debug, Default)]
pub struct Released {
    /// The releases, in the order of time.
    pub releases: Vec<Release>,
    /// Whose they are, in a sequence stream.
    pub user: Option<Arc<str>>,
    /// How many users there are, where that is public.
    pub population: Option<u64>,
}

/// A running stream of any family.
///
/// # Guarantee
/// That of the mechanism of its spec: see the pages of the families. Every budget is kept by the kernel's ledgers,
/// which are saved and loaded with the stream. The `Debug` form shows no entry of the open timestamp.
pub struct Stream {
    spec: StreamSpec,
    values: Option<Values>,
    machine: Machine,
    refinement: Refinement,
    queries: Option<StandingQueries>,
}

impl fmt::Debug for Stream {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut shown = formatter.debug_struct("Stream");
        shown.field("mechanism", &self.spec.mechanism().full_name).field("last", &self.last());
        shown.finish_non_exhaustive()
    }
}

// There is one of it; its size does not matter.
#[allow(clippy::large_enum_variant)]
enum Machine {
    Local(Collector<Local>),
    LocalByClass(Collector<Plbu>),
    Central(Shared),
    CentralByClass(ByClass),
    Scalar(Numbers),
    Sequence(Sequences),
}

impl Stream {
    /// A stream at its beginning.
    ///
    /// # Errors
    /// A spec that cannot be followed.
    pub fn new(spec: StreamSpec) -> Result<Self, SpecError> {
        if spec.input().split()?.is_some() {
            let problem = "this is a single stream; several series in one table are for `tidegate release`".to_owned();
            return Err(SpecError::Input { key: "series_names", problem });
        }
        let values = spec.values()?;
        let domain = values.as_ref().map_or(0, Values::count);
        let machine = match &spec {
            StreamSpec::Local(spec) => match spec.mechanism()? {
                LocalMachine::One(local) => Machine::Local(Collector::new(local, domain)),
                LocalMachine::ByClass(plbu) => Machine::LocalByClass(Collector::new(plbu, domain)),
            },
            StreamSpec::Central(spec) => match spec.mechanism()? {
                CentralMachine::One(central) => Machine::Central(Shared::new(central)),
                CentralMachine::Personal(personal) => Machine::CentralByClass(ByClass::new(personal)),
            },
            StreamSpec::Scalar(spec) => Machine::Scalar(Numbers::new(spec)?),
            StreamSpec::Sequence(spec) => Machine::Sequence(Sequences::new(spec)?),
        };
        let (refinement, queries) = (spec.refinement()?, spec.standing_queries()?);
        Ok(Self { spec, values, machine, refinement, queries })
    }

    /// The spec that it was made from.
    pub const fn spec(&self) -> &StreamSpec {
        &self.spec
    }

    /// The values of the domain; `None` for a scalar stream.
    pub const fn values(&self) -> Option<&Values> {
        self.values.as_ref()
    }

    /// An entry with the value of a user, by its name.
    ///
    /// # Errors
    /// [`StreamError::Entry`] for a value that the domain does not have.
    pub fn value(&self, timestamp: u64, user: &str, value: &str) -> Result<Entry, StreamError> {
        let value = self.values.as_ref().and_then(|values| values.find(value));
        let value = value.ok_or_else(|| StreamError::entry("value", "a value of the domain, as the spec names it"))?;
        Ok(Entry::Value { timestamp, user: user.into(), value })
    }

    /// An entry with the reading of a scalar stream, as text. Every text is taken: see [`Intake::seal`].
    ///
    /// # Errors
    /// [`StreamError::Kind`] for another family.
    pub fn reading(&self, timestamp: u64, reading: &str) -> Result<Entry, StreamError> {
        let (intake, account) = self.intake().ok_or_else(|| self.takes_no("readings"))?;
        Ok(Entry::Reading(intake.seal(account, timestamp, reading)))
    }

    /// The sealer of a scalar stream's readings, and the account to seal them for.
    pub const fn intake(&self) -> Option<(Intake, Account)> {
        match &self.machine {
            Machine::Scalar(numbers) => Some((numbers.intake, numbers.mechanism.ledger().account())),
            _ => None,
        }
    }

    /// The account that sealed data must be sealed for; `None` where devices keep their own.
    pub const fn account(&self) -> Option<Account> {
        match (&self.machine, self.ledger()) {
            (_, Some(ledger)) => Some(ledger.account()),
            (Machine::CentralByClass(by_class), None) => Some(by_class.mechanism.ledgers().account()),
            _ => None,
        }
    }

    /// The ledgers of a curator's classes, by class; `None` where there are no classes, or devices keep their own.
    pub const fn class_ledgers(&self) -> Option<&ClassLedgers> {
        match &self.machine {
            Machine::CentralByClass(by_class) => Some(by_class.mechanism.ledgers()),
            _ => None,
        }
    }

    /// The curator's ledger; `None` where devices keep their own, and where each class or user has one.
    pub const fn ledger(&self) -> Option<&Ledger> {
        match &self.machine {
            Machine::Central(shared) => Some(shared.mechanism.ledger()),
            Machine::Scalar(numbers) => Some(numbers.mechanism.ledger()),
            _ => None,
        }
    }

    /// The classes that users choose from, where each class has a guarantee of its own.
    pub const fn classes(&self) -> Option<&Classes> {
        match &self.machine {
            Machine::LocalByClass(collector) => Some(collector.classes()),
            Machine::CentralByClass(by_class) => Some(by_class.registry.classes()),
            _ => None,
        }
    }

    /// Enrols a user in a class, or moves the user there.
    ///
    /// # Errors
    /// [`StreamError::Entry`] for a class that there is not, or one that the user cannot move to, and
    /// [`StreamError::Kind`] where there are no classes.
    pub fn enrol(&mut self, user: &str, class: &str) -> Result<(), StreamError> {
        let classes = self.classes().ok_or_else(|| self.takes_no("classes"))?;
        let number = classes.find(class).ok_or_else(|| {
            let names: Vec<&str> = classes.all().iter().map(|class| class.name.as_str()).collect();
            StreamError::entry("class", format!("a class of the spec: {}", names.join(", ")))
        })?;
        match &mut self.machine {
            Machine::LocalByClass(collector) => collector.enrol(user, number),
            Machine::CentralByClass(by_class) => by_class.enrol(user, number),
            _ => Ok(()),
        }
    }

    /// Lets all users leave who are not among these: for a curator's streams with classes.
    ///
    /// # Errors
    /// A registry that does not know its users.
    pub fn keep_only(&mut self, present: &HashSet<&str>) -> Result<(), StreamError> {
        match &mut self.machine {
            Machine::CentralByClass(by_class) => by_class.keep_only(present),
            _ => Ok(()),
        }
    }

    /// The last timestamp that is over; `None` before the first, and in a sequence stream, where each user has a time
    /// of their own.
    pub const fn last(&self) -> Option<u64> {
        match &self.machine {
            Machine::Local(collector) => collector.last,
            Machine::LocalByClass(collector) => collector.last,
            Machine::Central(shared) => shared.last,
            Machine::CentralByClass(by_class) => by_class.last,
            Machine::Scalar(numbers) => numbers.last,
            Machine::Sequence(_) => None,
        }
    }

    /// Releases the open timestamp, and then one at which nobody is present, or no reading came.
    ///
    /// # Errors
    /// As [`Stream::push`]. A sequence stream has no empty timestamps.
    pub fn pass_empty(&mut self, timestamp: u64, random: &mut impl Randomness) -> Result<Released, StreamError> {
        let mut out = Released::default();
        let (out, of) = (&mut out, timestamp);
        self.check_time(timestamp, true)?;
        self.close_unrefined(random, out)?;
        match &mut self.machine {
            Machine::Local(collector) => collector.open_empty(of),
            Machine::LocalByClass(collector) => collector.open_empty(of),
            Machine::Central(shared) => shared.open_empty(of),
            Machine::CentralByClass(by_class) => by_class.open_empty(of),
            Machine::Scalar(numbers) => numbers.pass_empty(of, random, out)?,
            Machine::Sequence(_) => return Err(self.takes_no("empty timestamps")),
        }
        self.close_unrefined(random, out)?;
        self.refine(out, 0);
        Ok(std::mem::take(out))
    }

    /// Releases the open timestamp of users, adding to what was released before.
    pub(crate) fn close(&mut self, random: &mut impl Randomness, out: &mut Released) -> Result<(), StreamError> {
        let first = out.releases.len();
        self.close_unrefined(random, out)?;
        self.refine(out, first);
        Ok(())
    }

    fn close_unrefined(&mut self, random: &mut impl Randomness, out: &mut Released) -> Result<(), StreamError> {
        match &mut self.machine {
            Machine::Local(collector) => collector.close(random, out),
            Machine::LocalByClass(collector) => collector.close(random, out),
            Machine::Central(shared) => shared.close(random, out),
            Machine::CentralByClass(by_class) => by_class.close(random, out),
            Machine::Scalar(_) | Machine::Sequence(_) => Ok(()),
        }
    }

    /// Releases the open timestamp, and all that is held back.
    ///
    /// # Errors
    /// As [`Stream::push`].
    pub fn finish(&mut self, random: &mut impl Randomness) -> Result<Released, StreamError> {
        let mut out = Released::default();
        self.close_unrefined(random, &mut out)?;
        if let Machine::Scalar(numbers) = &mut self.machine {
            numbers.finish(random, &mut out)?;
        }
        self.refine(&mut out, 0);
        Ok(out)
    }

    /// How much is held back: readings of a scalar stream, or users of a sequence stream with an incomplete batch,
    /// which is never released.
    pub fn waiting(&self) -> usize {
        match &self.machine {
            Machine::Scalar(numbers) => numbers.mechanism.waiting(),
            Machine::Sequence(sequences) => sequences.incomplete(),
            _ => 0,
        }
    }

    /// An upper bound of what the releases of any user of a sequence stream with a model have leaked so far: in
    /// sequence information privacy if the model is right, and in local privacy in any case. It follows from spends,
    /// which are public.
    pub fn leakage(&self) -> Option<(f64, f64)> {
        match &self.machine {
            Machine::Sequence(sequences) => sequences.leakage(),
            _ => None,
        }
    }

    /// Begins a timestamp of a local stream whose devices are elsewhere: see [`Local::open`].
    ///
    /// # Errors
    /// As there, and [`StreamError::Kind`] for another family.
    pub fn open(&mut self, timestamp: u64) -> Result<Step, StreamError> {
        match &mut self.machine {
            Machine::Local(collector) => {
                let step = collector.mechanism.open(timestamp)?;
                Ok(self.note_step(step))
            }
            _ => Err(self.takes_no("answers")),
        }
    }

    /// Goes on with what came back: see [`Local::answer`].
    ///
    /// # Errors
    /// As there, and [`StreamError::Kind`] for another family.
    pub fn answer(&mut self, questions: &[Question], answers: &[Option<Estimate>]) -> Result<Step, StreamError> {
        let Machine::Local(collector) = &mut self.machine else { return Err(self.takes_no("answers")) };
        let step = collector.mechanism.answer(questions, answers)?;
        Ok(self.note_step(step))
    }

    /// Takes note of a timestamp that is over: some need no question.
    fn note_step(&mut self, step: Step) -> Step {
        let Step::Done(release) = step else { return step };
        if let Machine::Local(collector) = &mut self.machine {
            collector.last = Some(release.timestamp);
        }
        Step::Done(self.refinement.push(release))
    }

    /// The open questions of a local stream: after a restart, to be asked again.
    pub fn open_questions(&self) -> &[Question] {
        match &self.machine {
            Machine::Local(collector) => collector.mechanism.open_questions(),
            _ => &[],
        }
    }

    /// The answers of the spec's queries, and the events of its monitors, after a release. To be called once for each
    /// release, in their order; `population` is the number of users where that is public.
    ///
    /// # Errors
    /// A release that does not come after the last one, or is not of this stream.
    pub fn answer_queries(&mut self, release: &Release, population: Option<u64>) -> Result<Vec<Said<'_>>, StreamError> {
        match &mut self.queries {
            Some(queries) => Ok(queries.push(release, population)?),
            None => Ok(Vec::new()),
        }
    }

    /// As [`Stream::answer_queries`], as JSON objects.
    ///
    /// # Errors
    /// As there.
    pub fn answer_queries_in_json(
        &mut self,
        release: &Release,
        population: Option<u64>,
    ) -> Result<Vec<String>, StreamError> {
        let (Some(queries), Some(values)) = (&mut self.queries, &self.values) else { return Ok(Vec::new()) };
        let line = |said: &Said<'_>| serde_json::to_string(&said.line(release.timestamp, values));
        let lines = queries.push(release, population)?.iter().map(line).collect::<Result<_, _>>();
        lines.map_err(|error| StreamError::State(error.to_string()))
    }

    /// The standing queries of the spec; `None` where there are none.
    pub const fn standing_queries(&self) -> Option<&StandingQueries> {
        self.queries.as_ref()
    }

    /// The budgets before a timestamp: one, or one for each class. A sequence stream tells that of a user who has
    /// released nothing yet.
    pub fn budgets(&self, timestamp: u64) -> Vec<Budget> {
        let by_class = |classes: &Classes, ledgers: &ClassLedgers| {
            let named = (0_u32..).zip(classes.all());
            let budget = |(number, class): (u32, &crate::central::classes::Class)| {
                Some(Budget::of(Some(class.name.clone()), ledgers.get(number)?, timestamp))
            };
            named.filter_map(budget).collect()
        };
        match &self.machine {
            Machine::Local(collector) => {
                let (settings, left) = (collector.mechanism.settings(), collector.mechanism.left(timestamp));
                let (window, epsilon) = (Window::Timestamps(settings.window), settings.epsilon);
                let spent = collector.mechanism.most_spent(timestamp);
                let slots_left = collector.mechanism.slots_left(timestamp);
                vec![Budget { class: None, window, epsilon, spent, left, slots_left }]
            }
            Machine::LocalByClass(collector) => by_class(collector.classes(), collector.mechanism.ledgers()),
            Machine::Central(shared) => vec![Budget::of(None, shared.mechanism.ledger(), timestamp)],
            Machine::CentralByClass(personal) => by_class(personal.registry.classes(), personal.mechanism.ledgers()),
            Machine::Scalar(numbers) => vec![Budget::of(None, numbers.mechanism.ledger(), timestamp)],
            Machine::Sequence(sequences) => {
                sequences.with_new_ledger(|ledger| Budget::of(None, ledger, timestamp)).into_iter().collect()
            }
        }
    }

    const fn takes_no(&self, given: &'static str) -> StreamError {
        StreamError::Kind { family: self.spec.family().name(), given }
    }
}
