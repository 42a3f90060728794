//! [`Device`]: the device agent, whose state is on disk before a report leaves.

use std::io;
use std::path::Path;
use std::sync::{Mutex, PoisonError};

use ed25519_dalek::{SigningKey, VerifyingKey};
use pyo3::prelude::*;
use serde::de::DeserializeOwned;
use tidegate::kernel::{Question, SystemRandom};
use tidegate_device::clock::Clock;
use tidegate_device::disk::Folder;
use tidegate_device::enrolment::{SignedPolicy, StreamPolicy, VerifiedPolicy};
use tidegate_device::{Agent, AgentError, AgentReply, Beginning, RefusalReason};
use tidegate_release::Error;

use crate::error::{BadData, BudgetExceeded, Failure, Refused};
use crate::work::Owner;

/// A device with its ledger.
#[pyclass(frozen, module = "tidegate._tidegate")]
pub(crate) struct Device {
    /// `None` once it is closed.
    opened: Mutex<Option<Opened>>,
    owner: Owner,
    beginning: &'static str,
    policy: StreamPolicy,
}

struct Opened {
    agent: Agent<Folder>,
    clock: Clock,
    random: SystemRandom,
}

fn bad_policy(problem: impl std::fmt::Display) -> Failure {
    Error::Spec(format!("policy: {problem}")).into()
}

/// Reads JSON that is no secret.
fn read<T: DeserializeOwned>(text: &str, bad: impl Fn(String) -> Failure) -> Result<T, Failure> {
    serde_json::from_str(text).map_err(|error| bad(error.to_string()))
}

/// The policy, if the operator has signed it.
fn verified(policy: &str, operator: &[u8; 32]) -> Result<VerifiedPolicy, Failure> {
    let signed: SignedPolicy = read(policy, bad_policy)?;
    let bad_key = |_| Error::Spec("operator: expected the public key of an operator, 64 hexadecimal digits".to_owned());
    let operator = VerifyingKey::from_bytes(operator).map_err(bad_key)?;
    signed.verified(&operator).map_err(bad_policy)
}

fn folder(path: &str) -> Result<Folder, Failure> {
    Folder::open(Path::new(path)).map_err(|error| {
        let problem = match error.kind() {
            io::ErrorKind::WouldBlock => "another device or process has this folder open: close it first".to_owned(),
            _ => error.to_string(),
        };
        Error::State(format!("{path}: {problem}")).into()
    })
}

fn failed(error: AgentError) -> Failure {
    match error {
        AgentError::Value(_) => Failure::Raised(BadData::new_err("value: expected a value of the policy's domain")),
        AgentError::Source => Error::Spec(format!("source: {error}")).into(),
        AgentError::Entropy(_) | AgentError::BeforeEpoch => Error::run(error).into(),
        error => Error::State(error.to_string()).into(),
    }
}

#[pymethods]
impl Device {
    /// Opens the state of a data source in a folder.
    #[new]
    fn new(
        py: Python<'_>,
        path: &str,
        source: &str,
        policy: &str,
        operator: [u8; 32],
        witness: Vec<u8>,
        consent: bool,
    ) -> Result<Self, Failure> {
        py.detach(|| {
            let policy = verified(policy, &operator)?;
            let mut random = SystemRandom::new().map_err(Error::run)?;
            let (clock, disk) = (Clock::new(&mut random), folder(path)?);
            let (now, random_too) = (clock.read(), &mut random);
            let opened = if consent {
                Agent::enrol_anew(disk, source, policy, &witness, now, random_too)
            } else {
                Agent::open(disk, source, policy, &witness, now, random_too)
            };
            let (agent, beginning) = opened.map_err(failed)?;
            let beginning = match beginning {
                Beginning::Resumed => "resumed",
                Beginning::New => "new",
                Beginning::OtherPolicy => "other_policy",
                _ => "lost",
            };
            let policy = agent.policy().clone();
            Ok(Self {
                opened: Mutex::new(Some(Opened { agent, clock, random })),
                owner: Owner::new(),
                beginning,
                policy,
            })
        })
    }

    /// Answers a question; the report and its spend are on disk when this returns.
    fn answer(&self, py: Python<'_>, stream: &str, question: &str, value: u32) -> Result<Vec<u8>, Failure> {
        py.detach(|| {
            let question = parse(question)?;
            self.with(|Opened { agent, clock, random }| {
                match agent.answer(clock.read(), stream, &question, value, random).map_err(failed)? {
                    AgentReply::Report(report) => Ok(report.into_bytes()),
                    AgentReply::Refused(RefusalReason::Budget) => {
                        let text = "the device refuses the question: too little budget is left in its window";
                        Err(Failure::Raised(BudgetExceeded::new_err(text)))
                    }
                    AgentReply::Refused(reason) => Err(Failure::Raised(Refused::new_err(reason.code()))),
                }
            })
        })
    }

    /// The identity of the report for a question.
    fn report_id(&self, py: Python<'_>, question: &str) -> Result<Vec<u8>, Failure> {
        py.detach(|| {
            let question = parse(question)?;
            self.with(|opened| match opened.agent.report_id(&question) {
                Some(id) => Ok(id.as_bytes().to_vec()),
                None => Err(Failure::Raised(Refused::new_err(RefusalReason::NoToken.code()))),
            })
        })
    }

    /// Gives the folder free.
    fn close(&self, py: Python<'_>) {
        py.detach(|| *self.opened.lock().unwrap_or_else(PoisonError::into_inner) = None);
    }

    /// The timestamp by the device's clock.
    fn now(&self, py: Python<'_>) -> Result<Option<u64>, Failure> {
        py.detach(|| self.with(|opened| Ok(self.policy.ticks.timestamp(opened.clock.read().wall))))
    }

    /// How the device began: `resumed`, `new`, `other_policy` or `lost`.
    #[getter]
    const fn beginning(&self) -> &'static str {
        self.beginning
    }

    /// The policy in JSON.
    #[getter]
    fn policy(&self) -> Result<String, Failure> {
        Ok(serde_json::to_string(&self.policy).map_err(Error::run)?)
    }
}

impl Device {
    fn with<T>(&self, act: impl FnOnce(&mut Opened) -> Result<T, Failure>) -> Result<T, Failure> {
        self.owner.check()?;
        let mut opened = self.opened.lock().unwrap_or_else(PoisonError::into_inner);
        let closed = || Error::State("the device is closed: open it again".to_owned());
        act(opened.as_mut().ok_or_else(closed)?)
    }
}

fn parse(question: &str) -> Result<Question, Failure> {
    read(question, |problem| Failure::Raised(BadData::new_err(format!("question: {problem}"))))
}

/// Signs a policy, and returns it with the signature, in JSON.
#[pyfunction]
pub(crate) fn sign_policy(policy: &str, operator: [u8; 32]) -> Result<String, Failure> {
    let policy: StreamPolicy = read(policy, bad_policy)?;
    let signed = policy.sign(&SigningKey::from_bytes(&operator)).map_err(bad_policy)?;
    Ok(serde_json::to_string(&signed).map_err(Error::run)?)
}

/// The public key of an operator's secret one.
#[pyfunction]
pub(crate) fn public_key(operator: [u8; 32]) -> [u8; 32] {
    SigningKey::from_bytes(&operator).verifying_key().to_bytes()
}
