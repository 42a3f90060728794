//! The device side of tidegate for apps in Kotlin and Swift, by [UniFFI](https://mozilla.github.io/uniffi-rs).
//!
//! It wraps [`tidegate_device::staged`]: the app saves bytes in its own store, and gets a reply only for the proof that
//! they are stored. Questions, policies and times are the service's JSON texts. There is no unsafe code by hand; what
//! UniFFI generates is.

use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use ed25519_dalek::VerifyingKey;
use tidegate_device::absence::{AbsenceTerms, AbsenceTrust, SignedTime};
use tidegate_device::clock::{ClockReading, Steady};
use tidegate_device::enrolment::{SignedPolicy, VerifiedPolicy};
use tidegate_device::staged::{Confirmed, Found, Save, Saved, Staged, StagedAgent, Turn};
use tidegate_device::wire::{BatchWriter, StreamTag};
use tidegate_device::{AgentError, AgentReply, Beginning};
use tidegate_kernel::oracle::Report;
use tidegate_kernel::{Question, SystemRandom};

uniffi::setup_scaffolding!();

/// Why a call fails. Never send it to the service: it may depend on the value.
#[derive(Debug, thiserror::Error, uniffi::Error)]
#[uniffi(flat_error)]
pub enum DeviceError {
    /// An argument that cannot be read.
    #[error("{0}")]
    Argument(String),
    /// A save is outstanding, or has failed. Open the device again from what is stored.
    #[error("a save is outstanding, or was given up: open the device again from what is stored")]
    Outstanding,
    /// Other contents are stored than were to be saved. Open the device again from what is stored.
    #[error("{0}")]
    NotSaved(String),
    /// The owner must consent to another policy, or to other terms. Nothing has changed.
    #[error("{0}")]
    Consent(String),
    /// The service's time does not count. Ask again.
    #[error("{0}")]
    Time(String),
    /// Another failure on the device.
    #[error("{0}")]
    Device(String),
}

impl From<AgentError> for DeviceError {
    fn from(error: AgentError) -> Self {
        match error {
            AgentError::OtherPolicy { .. } | AgentError::OtherTerms { .. } => Self::Consent(error.to_string()),
            AgentError::Source | AgentError::Value(_) => Self::Argument(error.to_string()),
            error => Self::Device(error.to_string()),
        }
    }
}

fn argument(name: &str, problem: impl fmt::Display) -> DeviceError {
    DeviceError::Argument(format!("{name}: {problem}"))
}

/// A reading of the clocks.
///
/// The steady clock cannot be set, and counts sleep: on Android `SystemClock.elapsedRealtime`, whose run is the boot
/// (`Settings.Global.BOOT_COUNT`); on iOS `mach_continuous_time`, whose run is the start of the app.
#[derive(Clone, Debug, uniffi::Record)]
pub struct Clocks {
    /// Seconds since 1970 by the wall clock.
    pub wall: u64,
    /// Identity of the steady clock's run, of up to 16 bytes.
    pub run: Vec<u8>,
    /// Seconds of the steady clock.
    pub steady: u64,
}

impl Clocks {
    fn reading(&self) -> Result<ClockReading, DeviceError> {
        let mut run = [0; 16];
        let place = run.get_mut(..self.run.len()).ok_or_else(|| argument("run", "has at most 16 bytes"))?;
        place.copy_from_slice(&self.run);
        Ok(ClockReading { wall: self.wall, steady: Steady { run, seconds: self.steady } })
    }
}

/// What the app's store holds for a data source.
#[derive(Clone, Debug, uniffi::Record)]
pub struct Stored {
    /// The contents; none if nothing is stored.
    pub contents: Option<Vec<u8>>,
    /// The mark of a second place that is not restored with the first; none without such a place.
    pub mark: Option<u64>,
}

/// What is to be saved.
#[derive(Clone, Debug, uniffi::Record)]
pub struct ToSave {
    /// The contents.
    pub contents: Vec<u8>,
    /// Their SHA-256, in hexadecimal digits.
    pub version: String,
    /// The version that they replace. If another is stored, save nothing, and open again.
    pub replaces: Option<String>,
    /// The mark for a second place.
    pub mark: u64,
}

impl From<&Save> for ToSave {
    fn from(save: &Save) -> Self {
        let Save { contents, version, replaces, mark } = save;
        let replaces = replaces.map(|version| version.to_string());
        Self { contents: contents.clone(), version: version.to_string(), replaces, mark: *mark }
    }
}

/// The clocks that count while the device is away: the owner's consent.
#[derive(Clone, Debug, uniffi::Enum)]
pub enum Absences {
    /// None: no time is known to have passed.
    Strict,
    /// The wall clock and the service's signed time, until a moment in seconds since 1970.
    SignedTime {
        /// End of the consent.
        until: u64,
    },
    /// The wall clock alone.
    WallClock {
        /// End of the consent.
        until: u64,
    },
}

impl Absences {
    fn terms(&self, operator: &VerifyingKey) -> Option<AbsenceTerms> {
        match *self {
            Self::Strict => None,
            Self::SignedTime { until } => {
                Some(AbsenceTerms { trusts: AbsenceTrust::SignedTime { key: operator.to_bytes() }, until })
            }
            Self::WallClock { until } => Some(AbsenceTerms { trusts: AbsenceTrust::WallClock, until }),
        }
    }
}

/// What a data source is enrolled with.
#[derive(Clone, Debug, uniffi::Record)]
pub struct Enrolment {
    /// Name of the data source.
    pub source: String,
    /// The signed policy, as the service sends it.
    pub policy: String,
    /// The operator's public key, 32 bytes. It comes with the app, never from the service.
    pub operator: Vec<u8>,
    /// The clocks that count while the device is away.
    pub absences: Absences,
    /// What distinguishes this phone from a copy, such as a random value in its keystore. It may be empty.
    pub witness: Vec<u8>,
}

impl Enrolment {
    fn operator(&self) -> Result<VerifyingKey, DeviceError> {
        let bytes = self.operator.as_slice().try_into().map_err(|_| argument("operator", "has 32 bytes"))?;
        VerifyingKey::from_bytes(bytes).map_err(|error| argument("operator", error))
    }

    fn verified(&self) -> Result<(VerifiedPolicy, Option<AbsenceTerms>), DeviceError> {
        let operator = self.operator()?;
        let signed: SignedPolicy = serde_json::from_str(&self.policy).map_err(|error| argument("policy", error))?;
        let policy = signed.verified(&operator).map_err(|error| argument("policy", error))?;
        Ok((policy, self.absences.terms(&operator)))
    }
}

/// The terms of absence in words, to show to the owner before the device is enrolled. None by the strict rule.
#[uniffi::export]
pub fn statement(enrolment: &Enrolment, clocks: &Clocks) -> Result<Option<String>, DeviceError> {
    let (policy, terms) = enrolment.verified()?;
    Ok(terms.map(|terms| terms.statement(&policy, clocks.wall)))
}

/// How a device was opened.
#[derive(Clone, Copy, Debug, PartialEq, Eq, uniffi::Enum)]
pub enum Begun {
    /// Its state was loaded.
    Resumed,
    /// Nothing was stored: a whole window counts as spent.
    New,
    /// The owner consented to another policy.
    OtherPolicy,
    /// The state cannot be trusted: a whole window counts as spent.
    Lost,
}

/// A device that is opened once its state is stored.
#[derive(Debug, uniffi::Object)]
pub struct Opening(Mutex<Option<Staged<Beginning>>>);

/// An open device.
#[derive(Debug, uniffi::Record)]
pub struct Opened {
    /// The device.
    pub device: Arc<Device>,
    /// How it was opened.
    pub begun: Begun,
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

fn random() -> Result<SystemRandom, DeviceError> {
    SystemRandom::new().map_err(|error| DeviceError::Device(error.to_string()))
}

#[uniffi::export]
impl Opening {
    /// Opens a data source from what is stored. With `consents`, the owner consents to the policy and the terms if
    /// they are others than before.
    #[uniffi::constructor]
    pub fn new(
        enrolment: &Enrolment,
        stored: &Stored,
        clocks: &Clocks,
        consents: bool,
    ) -> Result<Arc<Self>, DeviceError> {
        let (policy, terms) = enrolment.verified()?;
        let found = Found { contents: stored.contents.as_deref(), mark: stored.mark };
        let (source, witness, now) = (&enrolment.source, &enrolment.witness, clocks.reading()?);
        let open = if consents { StagedAgent::enrol_anew } else { StagedAgent::open };
        let staged = open(found, source, policy, terms, witness, now, &mut random()?)?;
        Ok(Arc::new(Self(Mutex::new(Some(staged)))))
    }

    /// What is to be saved.
    pub fn save(&self) -> Result<ToSave, DeviceError> {
        locked(&self.0).as_ref().map(|staged| staged.save().into()).ok_or(DeviceError::Outstanding)
    }

    /// Gives the device, for the contents that were read from the store after it confirmed them.
    pub fn confirm(&self, read_back: &[u8]) -> Result<Opened, DeviceError> {
        let staged = locked(&self.0).take().ok_or(DeviceError::Outstanding)?;
        let Confirmed { agent, reply } = confirm(staged, read_back)?;
        let begun = match reply {
            Beginning::Resumed => Begun::Resumed,
            Beginning::New => Begun::New,
            Beginning::OtherPolicy => Begun::OtherPolicy,
            _ => Begun::Lost,
        };
        Ok(Opened { device: Arc::new(Device(Mutex::new(Some(agent)))), begun })
    }
}

fn confirm<T>(staged: Staged<T>, read_back: &[u8]) -> Result<Confirmed<T>, DeviceError> {
    staged.confirm(Saved::read_back(read_back)).map_err(|error| DeviceError::NotSaved(error.to_string()))
}

/// An open device. It answers nothing while a save is outstanding.
#[derive(Debug, uniffi::Object)]
pub struct Device(Mutex<Option<StagedAgent>>);

/// A reply to a question.
#[derive(Clone, Debug, PartialEq, Eq, uniffi::Enum)]
pub enum Reply {
    /// A report.
    Report {
        /// The body of `POST /v1/streams/{stream}/reports`, of type `application/vnd.tidegate.batch`.
        batch: Vec<u8>,
    },
    /// No report, with the reason's code.
    Refused {
        /// The code.
        reason: String,
    },
}

/// A reply that is given once the device's state is stored.
#[derive(Debug, uniffi::Object)]
pub struct Answering {
    device: Arc<Device>,
    question: Question,
    staged: Mutex<Option<Turned>>,
}

#[derive(Debug)]
enum Turned {
    Done(Result<Reply, DeviceError>),
    Save(Staged<Result<AgentReply, AgentError>>),
}

#[uniffi::export]
impl Device {
    /// Asks for the service's time: the nonce for `GET /v1/time?nonce=...`. None under terms that do not count it.
    pub fn ask_time(&self, clocks: &Clocks) -> Result<Option<String>, DeviceError> {
        let (now, mut random) = (clocks.reading()?, random()?);
        let mut agent = locked(&self.0);
        let agent = agent.as_mut().ok_or(DeviceError::Outstanding)?;
        Ok(agent.ask_time(now, &mut random).map(|request| request.nonce))
    }

    /// Takes the service's time, as it was sent. It counts for the next minute of the steady clock.
    pub fn attest(&self, clocks: &Clocks, time: &str) -> Result<(), DeviceError> {
        let said: SignedTime = serde_json::from_str(time).map_err(|error| argument("time", error))?;
        let now = clocks.reading()?;
        let mut agent = locked(&self.0);
        let agent = agent.as_mut().ok_or(DeviceError::Outstanding)?;
        agent.attest(now, &said).map_err(|error| DeviceError::Time(error.to_string()))
    }

    /// Notes the value at a timestamp, for a stream of sequences whose releases take several symbols.
    pub fn gather(&self, clocks: &Clocks, timestamp: u64, value: u32) -> Result<(), DeviceError> {
        let now = clocks.reading()?;
        locked(&self.0).as_mut().ok_or(DeviceError::Outstanding)?.gather(now, timestamp, value);
        Ok(())
    }

    /// Answers a question, as the service sent it, about the present value. The reply comes once the state is stored.
    pub fn answer(
        self: Arc<Self>,
        clocks: &Clocks,
        stream: &str,
        question: &str,
        value: u32,
    ) -> Result<Arc<Answering>, DeviceError> {
        let question: Question = serde_json::from_str(question).map_err(|error| argument("question", error))?;
        let (now, mut random) = (clocks.reading()?, random()?);
        let agent = locked(&self.0).take().ok_or(DeviceError::Outstanding)?;
        let turned = match agent.answer(now, stream, &question, value, &mut random) {
            Turn::Done(agent, reply) => Turned::Done(self.goes_on(agent, reply, &question)),
            Turn::Save(staged) => Turned::Save(staged),
        };
        Ok(Arc::new(Answering { device: self, question, staged: Mutex::new(Some(turned)) }))
    }
}

impl Device {
    /// Takes the agent back, and packs its report.
    fn goes_on(
        &self,
        agent: StagedAgent,
        reply: Result<AgentReply, AgentError>,
        question: &Question,
    ) -> Result<Reply, DeviceError> {
        let packed = match reply {
            Ok(AgentReply::Report(report)) => batch(&agent, question, &report).map(|batch| Reply::Report { batch }),
            Ok(AgentReply::Refused(reason)) => Ok(Reply::Refused { reason: reason.code().to_owned() }),
            Err(error) => Err(error.into()),
        };
        *locked(&self.0) = Some(agent);
        packed
    }
}

/// The batch of one report.
fn batch(agent: &StagedAgent, question: &Question, report: &Report) -> Result<Vec<u8>, DeviceError> {
    let failed = |problem: String| DeviceError::Device(problem);
    let id = agent.report_id(question).ok_or_else(|| failed("there is no token for this report".to_owned()))?;
    let (tag, bytes) = (StreamTag::of(&agent.policy().stream), report.as_bytes());
    let mut batch = BatchWriter::new(tag, question.timestamp, question.phase, bytes.len());
    batch.push_with(id, agent.prove(question, report), bytes).map_err(|error| failed(error.to_string()))?;
    batch.write().map_err(|error| failed(error.to_string()))
}

#[uniffi::export]
impl Answering {
    /// What is to be saved; none if nothing has changed.
    pub fn save(&self) -> Result<Option<ToSave>, DeviceError> {
        match locked(&self.staged).as_ref() {
            None => Err(DeviceError::Outstanding),
            Some(Turned::Done(_)) => Ok(None),
            Some(Turned::Save(staged)) => Ok(Some(staged.save().into())),
        }
    }

    /// Gives the reply, for the contents that were read from the store after it confirmed them; for none if there was
    /// nothing to save.
    pub fn confirm(&self, read_back: Option<Vec<u8>>) -> Result<Reply, DeviceError> {
        match locked(&self.staged).take().ok_or(DeviceError::Outstanding)? {
            Turned::Done(reply) => reply,
            Turned::Save(staged) => {
                let Confirmed { agent, reply } = confirm(staged, &read_back.unwrap_or_default())?;
                self.device.goes_on(agent, reply, &self.question)
            }
        }
    }
}
