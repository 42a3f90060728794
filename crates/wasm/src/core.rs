//! [`Core`]: one device in one page. Bytes and text in, bytes and text out; the page stores and sends.

use ed25519_dalek::VerifyingKey;
use serde::Serialize;
use serde_json::{Value, json};
use tidegate_device::absence::{AbsenceTerms, SignedTime};
use tidegate_device::clock::{ClockReading, Steady};
use tidegate_device::credential::{Credential, DrawAnswer};
use tidegate_device::enrolment::{SignedPolicy, StreamPolicy, VerifiedPolicy};
use tidegate_device::staged::{Confirmed, Found, Save, Saved, Staged, StagedAgent, Turn};
use tidegate_device::wire::{BatchWriter, StreamTag};
use tidegate_device::{AgentError, AgentReply, Beginning};
use tidegate_kernel::{Question, Randomness, SystemRandom};

/// An error of the device. It stays in the page.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{code}: {message}")]
pub struct CoreError {
    /// Name of the error, for programs.
    pub code: &'static str,
    /// What is wrong and what to do, for people.
    pub message: String,
}

impl CoreError {
    fn new(code: &'static str, message: impl ToString) -> Self {
        Self { code, message: message.to_string() }
    }

    /// An argument that cannot be read. The message repeats nothing of it.
    fn argument(name: &str, expected: &str) -> Self {
        Self::new("argument", format_args!("{name}: expected {expected}"))
    }
}

impl From<AgentError> for CoreError {
    fn from(error: AgentError) -> Self {
        let code = match error {
            AgentError::OtherPolicy { .. } | AgentError::OtherTerms { .. } => "other_policy",
            AgentError::Value(_) => "value",
            AgentError::Spent => "spent",
            AgentError::Source => "argument",
            AgentError::BeforeEpoch => "before_epoch",
            AgentError::Token(_) => "token",
            _ => "device",
        };
        Self::new(code, error)
    }
}

/// Outcome of a step of the device. It exists only once the state that it follows from was saved.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Reply {
    /// A JSON object: `kind` and what belongs to it.
    pub text: String,
    /// The batch to send, for the kind `report`.
    pub batch: Option<Vec<u8>>,
}

impl Reply {
    fn of(value: &Value) -> Self {
        Self { text: value.to_string(), batch: None }
    }
}

/// Consequence of a step.
#[derive(Debug)]
pub enum Step<'a> {
    /// Nothing has changed.
    Done(Reply),
    /// Store this, and pass to [`Core::confirm`] what the store then gives back.
    Save(&'a Save),
}

/// A step whose state is not saved yet.
#[derive(Debug)]
enum Pending {
    Opened(Staged<Beginning>),
    Answered(Box<Question>, Staged<Result<AgentReply, AgentError>>),
    Draws(Staged<Result<Option<u64>, AgentError>>),
    Drawn(Staged<Result<(), AgentError>>),
}

impl Pending {
    const fn save(&self) -> &Save {
        match self {
            Self::Opened(staged) => staged.save(),
            Self::Answered(_, staged) => staged.save(),
            Self::Draws(staged) => staged.save(),
            Self::Drawn(staged) => staged.save(),
        }
    }
}

#[derive(Debug)]
enum State {
    /// Not opened, or given up after a step that was not saved: open it again from what is stored.
    Closed,
    Ready(StagedAgent),
    Saving(Box<Pending>),
}

/// Seconds of the two clocks of a page.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Clocks {
    /// Since 1970.
    pub wall: f64,
    /// Since the page was opened.
    pub steady: f64,
}

/// Options with which a page opens a device.
#[derive(Clone, Copy, Debug)]
pub struct Opening<'a> {
    /// What the page's store has for the source.
    pub stored: Option<&'a [u8]>,
    /// Name of the source of data.
    pub source: &'a str,
    /// The policy, as the service sends it.
    pub policy: &'a str,
    /// Public key of the operator whom the owner trusts, in hexadecimal digits.
    pub operator: &'a str,
    /// The owner's consent to clocks, as JSON of [`AbsenceTerms`]; empty for none.
    pub terms: &'a str,
    /// Whether the owner consents to this policy and these terms in place of earlier ones.
    pub consents: bool,
}

/// One device in one page.
#[derive(Debug)]
pub struct Core {
    state: State,
    credential: Option<Credential>,
    random: SystemRandom,
    /// Identity of this run of the page's steady clock.
    run: [u8; 16],
}

/// Verifies a policy.
fn verified(policy: &str, operator: &str) -> Result<VerifiedPolicy, CoreError> {
    let key: Option<[u8; 32]> = bytes_of(operator).and_then(|bytes| bytes.try_into().ok());
    let key = key.and_then(|key| VerifyingKey::from_bytes(&key).ok()).filter(|key| !key.is_weak());
    let key =
        key.ok_or_else(|| CoreError::argument("operatorKey", "64 hexadecimal digits of an Ed25519 public key"))?;
    let signed: SignedPolicy =
        serde_json::from_str(policy).map_err(|_| CoreError::new("policy", "the service has sent no signed policy"))?;
    signed.verified(&key).map_err(|error| CoreError::new("policy", error))
}

fn bytes_of(digits: &str) -> Option<Vec<u8>> {
    if !digits.len().is_multiple_of(2) || !digits.bytes().all(|digit| digit.is_ascii_hexdigit()) {
        return None;
    }
    (0..digits.len()).step_by(2).map(|at| u8::from_str_radix(&digits[at..at + 2], 16).ok()).collect()
}

fn terms_of(text: &str) -> Result<Option<AbsenceTerms>, CoreError> {
    if text.is_empty() {
        return Ok(None);
    }
    serde_json::from_str(text).map(Some).map_err(|_| CoreError::argument("clock", "which clocks count, and until when"))
}

/// Whole seconds of a clock; a number that is none is the first second.
#[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)] // `as` saturates
const fn whole(seconds: f64) -> u64 {
    seconds as u64
}

/// Terms that the owner is asked to consent to, as JSON.
///
/// # Errors
/// If the operator has not signed the policy.
pub fn offer(policy: &str, operator: &str, terms: &str, wall: f64) -> Result<String, CoreError> {
    let (policy, terms) = (verified(policy, operator)?, terms_of(terms)?);
    let fingerprint = policy.fingerprint().map_err(|error| CoreError::new("policy", error))?.to_string();
    let clock = terms.map(|terms| terms.statement(&policy, whole(wall)));
    #[derive(Serialize)]
    struct Offer<'a> {
        fingerprint: String,
        policy: &'a StreamPolicy,
        clock: Option<String>,
    }
    serde_json::to_string(&Offer { fingerprint, policy: &policy, clock })
        .map_err(|error| CoreError::new("policy", error))
}

impl Core {
    /// Creates a device that is not opened yet.
    ///
    /// # Errors
    /// If the browser provides no randomness.
    pub fn new() -> Result<Self, CoreError> {
        let mut random = SystemRandom::new().map_err(|error| CoreError::new("device", error))?;
        let mut run = [0; 16];
        run[..8].copy_from_slice(&random.next_word().to_le_bytes());
        run[8..].copy_from_slice(&random.next_word().to_le_bytes());
        Ok(Self { state: State::Closed, credential: None, random, run })
    }

    const fn reading(&self, clocks: Clocks) -> ClockReading {
        ClockReading { wall: whole(clocks.wall), steady: Steady { run: self.run, seconds: whole(clocks.steady) } }
    }

    /// Opens the device from what is stored. Whatever was open or not saved is given up.
    ///
    /// # Errors
    /// Those of [`StagedAgent::open`], and arguments that cannot be read.
    pub fn open(&mut self, opening: Opening<'_>, clocks: Clocks) -> Result<Step<'_>, CoreError> {
        self.state = State::Closed;
        let policy = verified(opening.policy, opening.operator)?;
        let terms = terms_of(opening.terms)?;
        let found = Found { contents: opening.stored, mark: None };
        let (now, begin) =
            (self.reading(clocks), if opening.consents { StagedAgent::enrol_anew } else { StagedAgent::open });
        let staged = begin(found, opening.source, policy, terms, b"", now, &mut self.random)?;
        Ok(self.saving(Pending::Opened(staged)))
    }

    /// Sets the credential with which the device draws tokens.
    ///
    /// # Errors
    /// If it is no credential, or another stream's.
    pub fn use_credential(&mut self, credential: &str) -> Result<(), CoreError> {
        let expected = || CoreError::argument("credential", "the credential of this device for this stream");
        let credential: Credential = serde_json::from_str(credential).map_err(|_| expected())?;
        if self.agent()?.policy().stream != credential.stream() {
            return Err(expected());
        }
        self.credential = Some(credential);
        Ok(())
    }

    /// Answers a question.
    ///
    /// # Errors
    /// A question that cannot be read, a value outside the domain, or a device that is not ready.
    pub fn answer(&mut self, question: &str, value: u32, clocks: Clocks) -> Result<Step<'_>, CoreError> {
        let question: Question = serde_json::from_str(question)
            .map_err(|_| CoreError::argument("question", "a question as the service sends it"))?;
        let (now, agent) = (self.reading(clocks), self.take()?);
        let stream = agent.policy().stream.clone();
        match agent.answer(now, &stream, &question, value, &mut self.random) {
            Turn::Done(agent, reply) => self.done(agent, |agent| answered(agent, &question, reply)),
            Turn::Save(staged) => Ok(self.saving(Pending::Answered(Box::new(question), staged))),
        }
    }

    /// The question to the service for its signed time, as JSON; empty if no time counts. Pass the answer to
    /// [`attest`](Self::attest).
    ///
    /// # Errors
    /// If the device is not ready.
    pub fn ask_time(&mut self, clocks: Clocks) -> Result<String, CoreError> {
        let now = self.reading(clocks);
        let State::Ready(agent) = &mut self.state else { return Err(not_ready()) };
        let asked = agent.ask_time(now, &mut self.random);
        asked.map_or_else(
            || Ok(String::new()),
            |request| serde_json::to_string(&request).map_err(|error| CoreError::new("device", error)),
        )
    }

    /// Takes the service's signed time.
    ///
    /// # Errors
    /// If it is not the answer to the last [`ask_time`](Self::ask_time), in time and signed by the operator.
    pub fn attest(&mut self, time: &str, clocks: Clocks) -> Result<(), CoreError> {
        let time: SignedTime = serde_json::from_str(time).map_err(|_| CoreError::new("time", "no signed time"))?;
        let now = self.reading(clocks);
        let State::Ready(agent) = &mut self.state else { return Err(not_ready()) };
        agent.attest(now, &time).map_err(|error| CoreError::new("time", error))
    }

    /// Prepares the draw of tokens of the present block, or of the next.
    ///
    /// # Errors
    /// If the device is not ready.
    pub fn draw(&mut self, ahead: bool, clocks: Clocks) -> Result<Step<'_>, CoreError> {
        let (now, agent) = (self.reading(clocks), self.take()?);
        let turn = if ahead { agent.draw_ahead(now, &mut self.random) } else { agent.draw(now, &mut self.random) };
        match turn {
            Turn::Done(agent, reply) => {
                let credential = self.credential.clone();
                self.done(agent, |agent| draws(agent, credential.as_ref(), reply))
            }
            Turn::Save(staged) => Ok(self.saving(Pending::Draws(staged))),
        }
    }

    /// Takes the service's answer to a draw.
    ///
    /// # Errors
    /// Tokens of another key than the policy's.
    pub fn drawn(&mut self, block: u64, answer: &str) -> Result<Step<'_>, CoreError> {
        let answer: DrawAnswer =
            serde_json::from_str(answer).map_err(|_| CoreError::new("token", "the service has sent no tokens"))?;
        match self.take()?.drawn(block, &answer) {
            Turn::Done(agent, reply) => self.done(agent, |_| drawn(reply)),
            Turn::Save(staged) => Ok(self.saving(Pending::Drawn(staged))),
        }
    }

    /// Notes the value of a timestamp up to now, for streams whose releases take several.
    ///
    /// # Errors
    /// If the device is not ready.
    pub fn gather(&mut self, timestamp: u64, value: u32, clocks: Clocks) -> Result<(), CoreError> {
        let now = self.reading(clocks);
        let State::Ready(agent) = &mut self.state else { return Err(not_ready()) };
        agent.gather(now, timestamp, value);
        Ok(())
    }

    /// Takes the bytes that the store gives back after a save, and returns the reply that waited for it.
    ///
    /// # Errors
    /// If nothing was to be saved, or these are other bytes: the device is then closed.
    pub fn confirm(&mut self, stored: &[u8]) -> Result<Reply, CoreError> {
        let State::Saving(pending) = std::mem::replace(&mut self.state, State::Closed) else { return Err(not_ready()) };
        let credential = self.credential.as_ref();
        let (agent, reply) = match *pending {
            Pending::Opened(staged) => {
                let Confirmed { agent, reply } = confirmed(staged, stored)?;
                (agent, Ok(opened(&reply)))
            }
            Pending::Answered(question, staged) => {
                let Confirmed { agent, reply } = confirmed(staged, stored)?;
                let reply = answered(&agent, &question, reply);
                (agent, reply)
            }
            Pending::Draws(staged) => {
                let Confirmed { agent, reply } = confirmed(staged, stored)?;
                let reply = draws(&agent, credential, reply);
                (agent, reply)
            }
            Pending::Drawn(staged) => {
                let Confirmed { agent, reply } = confirmed(staged, stored)?;
                (agent, drawn(reply))
            }
        };
        self.state = State::Ready(agent);
        reply
    }

    /// Gives the device up until it is opened again.
    pub fn close(&mut self) {
        self.state = State::Closed;
    }

    /// What was spent in the window that ends now, as JSON.
    ///
    /// # Errors
    /// If the device is not ready.
    pub fn spent(&self, clocks: Clocks) -> Result<String, CoreError> {
        let agent = self.agent()?;
        let timestamp = agent.policy().ticks.timestamp(whole(clocks.wall));
        let spent = timestamp.and_then(|timestamp| agent.device().spent_in_window(timestamp));
        let budget = agent.policy().protects.epsilon.to_string();
        let spent = spent.map_or_else(|| budget.clone(), |spent| spent.to_string());
        Ok(json!({ "timestamp": timestamp, "spent": spent, "budget": budget }).to_string())
    }

    fn agent(&self) -> Result<&StagedAgent, CoreError> {
        match &self.state {
            State::Ready(agent) => Ok(agent),
            State::Closed | State::Saving(_) => Err(not_ready()),
        }
    }

    /// Takes the agent for a step. Until the step is done, the device is closed.
    fn take(&mut self) -> Result<StagedAgent, CoreError> {
        match std::mem::replace(&mut self.state, State::Closed) {
            State::Ready(agent) => Ok(agent),
            // What waits for its confirmation goes on waiting.
            other => {
                self.state = other;
                Err(not_ready())
            }
        }
    }

    fn done(
        &mut self,
        agent: StagedAgent,
        reply: impl FnOnce(&StagedAgent) -> Result<Reply, CoreError>,
    ) -> Result<Step<'_>, CoreError> {
        let reply = reply(&agent);
        self.state = State::Ready(agent);
        reply.map(Step::Done)
    }

    fn saving(&mut self, pending: Pending) -> Step<'_> {
        self.state = State::Saving(Box::new(pending));
        match &self.state {
            State::Saving(pending) => Step::Save(pending.save()),
            State::Closed | State::Ready(_) => Step::Done(Reply::default()),
        }
    }
}

fn not_ready() -> CoreError {
    CoreError::new("not_ready", "the device is not open, or a save is not confirmed: open it again")
}

fn confirmed<T>(staged: Staged<T>, stored: &[u8]) -> Result<Confirmed<T>, CoreError> {
    staged.confirm(Saved::read_back(stored)).map_err(|error| CoreError::new("not_saved", error))
}

fn opened(beginning: &Beginning) -> Reply {
    let beginning = match beginning {
        Beginning::Resumed => "resumed",
        Beginning::New => "new",
        Beginning::OtherPolicy => "other_policy",
        _ => "lost",
    };
    Reply::of(&json!({ "kind": "opened", "beginning": beginning }))
}

fn answered(
    agent: &StagedAgent,
    question: &Question,
    reply: Result<AgentReply, AgentError>,
) -> Result<Reply, CoreError> {
    let report = match reply? {
        AgentReply::Report(report) => report,
        AgentReply::Refused(reason) => return Ok(Reply::of(&json!({ "kind": "refused", "reason": reason.code() }))),
    };
    let tag = StreamTag::of(&agent.policy().stream);
    let id = agent.report_id(question).ok_or_else(|| CoreError::new("token", "there is no token for this report"))?;
    let mut batch = BatchWriter::new(tag, question.timestamp, question.phase, report.as_bytes().len());
    let pushed = batch.push_with(id, agent.prove(question, &report), report.as_bytes());
    let batch = pushed.and_then(|()| batch.write()).map_err(|error| CoreError::new("device", error))?;
    let text = json!({ "kind": "report", "timestamp": question.timestamp, "phase": question.phase }).to_string();
    Ok(Reply { text, batch: Some(batch) })
}

fn draws(
    agent: &StagedAgent,
    credential: Option<&Credential>,
    reply: Result<Option<u64>, AgentError>,
) -> Result<Reply, CoreError> {
    let Some((block, draw)) = reply?.and_then(|block| Some((block, agent.pending_draw(block)?))) else {
        return Ok(Reply::of(&json!({ "kind": "no_draw" })));
    };
    let none = || CoreError::argument("credential", "one: this stream counts reports with tokens only");
    let request = draw.request(credential.ok_or_else(none)?);
    Ok(Reply::of(&json!({ "kind": "draw", "block": block, "request": request })))
}

fn drawn(reply: Result<(), AgentError>) -> Result<Reply, CoreError> {
    reply?;
    Ok(Reply::of(&json!({ "kind": "drawn" })))
}
