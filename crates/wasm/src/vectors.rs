//! Test vectors of the device: policy, question, value and seed, with the bytes that follow. `testdata/README.md` says
//! how another implementation checks itself against them.

use std::fmt::Write as _;
use std::str::FromStr;

use ed25519_dalek::VerifyingKey;
use serde::{Deserialize, Serialize};
use tidegate_device::Device;
use tidegate_device::enrolment::SignedPolicy;
use tidegate_device::sequence::{SequenceMemory, SequenceRule};
use tidegate_device::wire::{BatchWriter, ReportId, StreamTag};
use tidegate_kernel::oracle::{Oracle, OracleKind};
use tidegate_kernel::{Epsilon, Ledger, Question, SeededRandom, SystemRandom, Window};

/// Input of a device.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Given {
    /// The operator's public key.
    pub operator: String,
    /// The device's secret identity, 16 bytes.
    pub identity: String,
    /// The policy with its signature.
    pub policy: SignedPolicy,
    /// The question.
    pub question: Question,
    /// The values, the last of which is the present one: one for an oracle, several for a batch of symbols.
    pub values: Vec<u32>,
    /// The seed of the randomness.
    pub seed: u64,
}

/// Output that a device computes from it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Computed {
    /// Fingerprint of the policy.
    pub fingerprint: String,
    /// Slot of the device.
    pub slot: u16,
    /// Identity of the report.
    pub id: String,
    /// The report.
    pub report: String,
    /// The batch with this report alone.
    pub batch: String,
}

/// A line of the file of vectors.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Vector {
    /// What a device is given.
    pub given: Given,
    /// What follows.
    pub computed: Computed,
}

fn digits_of(bytes: &[u8]) -> String {
    bytes.iter().fold(String::new(), |mut digits, byte| {
        // Writing to a string does not fail.
        let _ = write!(digits, "{byte:02x}");
        digits
    })
}

fn array<const N: usize>(digits: &str) -> Result<[u8; N], String> {
    let mut bytes = [0; N];
    for (byte, at) in bytes.iter_mut().zip((0..).step_by(2)) {
        let pair = digits.get(at..at + 2).ok_or("digits are missing")?;
        *byte = u8::from_str_radix(pair, 16).map_err(|error| error.to_string())?;
    }
    Ok(bytes)
}

impl Given {
    /// Computes what a new device answers. Its ledger is empty, and it has nothing to do with the system's randomness.
    ///
    /// # Errors
    /// If the policy is not the operator's, or the device refuses.
    pub fn compute(&self) -> Result<Computed, String> {
        let said = |error: &dyn std::fmt::Display| error.to_string();
        let key = VerifyingKey::from_bytes(&array(&self.operator)?).map_err(|error| said(&error))?;
        let policy = self.policy.clone().verified(&key).map_err(|error| said(&error))?;
        let identity: [u8; 16] = array(&self.identity)?;
        let (slot, question) = (policy.slot_of(&identity), &self.question);
        let (mut device, random) = (Device::new(policy.protects, slot), &mut SeededRandom::new(self.seed));
        let last = self.values.last().copied().ok_or("no value")?;
        let report = match &policy.sequence {
            None => device.answer(question.timestamp, question, last, random),
            Some(sequence) => {
                let rule = SequenceRule::new(sequence).map_err(|error| said(&error))?;
                let memory = &mut SequenceMemory::new(&rule);
                let symbols = || rule.batch_of(self.values.iter().copied());
                device.answer_sequence(question.timestamp, question, &rule, memory, symbols, random)
            }
        };
        let report = report.map_err(|error| said(&error))?;
        let tag = StreamTag::of(&policy.stream);
        let id = ReportId::of(&identity, tag, question.timestamp, question.phase);
        let mut batch = BatchWriter::new(tag, question.timestamp, question.phase, report.as_bytes().len());
        batch.push(id, report.as_bytes()).map_err(|error| said(&error))?;
        Ok(Computed {
            fingerprint: policy.fingerprint().map_err(|error| said(&error))?.to_string(),
            slot,
            id: digits_of(id.as_bytes()),
            report: digits_of(report.as_bytes()),
            batch: digits_of(&batch.write().map_err(|error| said(&error))?),
        })
    }
}

/// Checks lines of vectors, and returns how many there are.
///
/// # Errors
/// The first line that is computed otherwise.
pub fn check(lines: &str) -> Result<u32, String> {
    let mut count = 0;
    for (line, number) in lines.lines().zip(1..) {
        let Vector { given, computed } =
            serde_json::from_str(line).map_err(|error| format!("line {number}: {error}"))?;
        let found = given.compute().map_err(|error| format!("line {number}: {error}"))?;
        if found != computed {
            return Err(format!("line {number}: computed {found:?}, but it says {computed:?}"));
        }
        count = number;
    }
    Ok(count)
}

/// Perturbs so many values under a budget for each, with the system's randomness, and returns a sum of all bytes.
///
/// # Errors
/// An unknown oracle, or no randomness.
pub fn perturb(oracle: &str, domain: u32, epsilon: &str, count: u32) -> Result<u32, String> {
    let kind = OracleKind::from_str(oracle).map_err(|error| error.to_string())?;
    let epsilon: Epsilon = epsilon.parse().map_err(|_| "epsilon".to_owned())?;
    let oracle = Oracle::new(kind, domain, epsilon).map_err(|error| error.to_string())?;
    let mut random = SystemRandom::new().map_err(|error| error.to_string())?;
    let mut ledger = Ledger::new(epsilon, Window::EVENT);
    let mut sum = 0_u32;
    for number in 0..count {
        let permit = ledger.spend(number.into(), epsilon).map_err(|error| error.to_string())?;
        let report = oracle.perturb(permit, number % domain, &mut random).map_err(|error| error.to_string())?;
        sum = report.as_bytes().iter().fold(sum, |sum, byte| sum.wrapping_add(u32::from(*byte)));
    }
    Ok(sum)
}
