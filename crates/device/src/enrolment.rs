//! [`StreamPolicy`]: the signed privacy policy of a stream.

use std::fmt;
use std::ops::Deref;
use std::str::FromStr;

use ed25519_dalek::{Signature, Signer, SigningKey, VerifyingKey};
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};
use tidegate_kernel::oracle::OracleKind;
use tidegate_kernel::{MAX_DOMAIN, MAX_RESPONSE_EPSILON, Window};

use crate::clock::Ticks;
use crate::device::DevicePolicy;
use crate::poprf::is_public_key;
use crate::sequence::{SequenceError, SequencePolicy};
use crate::slot::slot_of;
use crate::wire::{bytes_of, digits_of};

/// Maximum length of a name, in bytes.
pub const MAX_NAME: usize = 64;

/// The policy of a stream. It never changes: another guarantee is another stream.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct StreamPolicy {
    /// The stream's name: lower-case letters, digits, `_` and `-`, at most [`MAX_NAME`].
    pub stream: String,
    /// Budget, window and domain.
    pub protects: DevicePolicy,
    /// The oracle that questions must use; `None` for any.
    pub oracle: Option<OracleKind>,
    /// The time scale of timestamps.
    pub ticks: Ticks,
    /// The key of the hash that assigns devices to slots.
    pub slot_key: [u8; 16],
    /// How devices release their own sequences; `None` for a stream whose questions an oracle answers.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sequence: Option<SequencePolicy>,
    /// The public key of the tokens without which no report is counted; `None` for a stream without
    /// [credentials](crate::credential).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub issuer: Option<[u8; 32]>,
}

/// The part of a policy that every stream has. Its encoding is signed and saved, and never changes.
#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct CommonPolicy {
    stream: String,
    protects: DevicePolicy,
    oracle: Option<OracleKind>,
    ticks: Ticks,
    slot_key: [u8; 16],
}

impl CommonPolicy {
    fn of(policy: &StreamPolicy) -> Self {
        let StreamPolicy { stream, protects, oracle, ticks, slot_key, sequence: _, issuer: _ } = policy;
        Self { stream: stream.clone(), protects: *protects, oracle: *oracle, ticks: *ticks, slot_key: *slot_key }
    }
}

/// Encodes the common part of a policy, for states.
pub(crate) mod common {
    use serde::{Deserialize, Deserializer, Serialize, Serializer};

    use super::{CommonPolicy, StreamPolicy};

    pub(crate) fn serialize<S: Serializer>(policy: &StreamPolicy, serializer: S) -> Result<S::Ok, S::Error> {
        CommonPolicy::of(policy).serialize(serializer)
    }

    pub(crate) fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<StreamPolicy, D::Error> {
        let CommonPolicy { stream, protects, oracle, ticks, slot_key } = CommonPolicy::deserialize(deserializer)?;
        Ok(StreamPolicy { stream, protects, oracle, ticks, slot_key, sequence: None, issuer: None })
    }
}

/// Why a policy is not accepted.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[non_exhaustive]
#[allow(missing_docs)] // the messages name the fields
pub enum PolicyError {
    /// An invalid name.
    #[error("a stream's name has 1 to {MAX_NAME} lower-case letters, digits, _ and -")]
    Name,
    /// A domain out of range.
    #[error("a domain of {given} values is outside 2..={MAX_DOMAIN}")]
    Domain { given: u32 },
    /// An epsilon out of range.
    #[error("epsilon {given} is above {MAX_RESPONSE_EPSILON}, the most that a report can spend")]
    Epsilon { given: String },
    /// A sequence that a device cannot release.
    #[error(transparent)]
    Sequence(#[from] SequenceError),
    /// An invalid key of tokens.
    #[error("issuer: the public key of tokens is no element of the group ristretto255")]
    Issuer,
    /// The policy could not be encoded.
    #[error("the policy cannot be encoded")]
    Encoding,
    /// An invalid fingerprint.
    #[error("a policy's fingerprint is 64 hexadecimal digits")]
    Fingerprint,
    /// The signature is not the operator's signature of this policy.
    #[error("the policy is not signed by the operator that this device trusts")]
    Signature,
}

/// Whether a name has 1 to [`MAX_NAME`] lower-case letters, digits, `_` and `-`.
pub fn is_name(name: &str) -> bool {
    let allowed = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'_' || byte == b'-';
    (1..=MAX_NAME).contains(&name.len()) && name.bytes().all(allowed)
}

impl StreamPolicy {
    /// Checks that a device can follow the policy.
    pub fn check(&self) -> Result<(), PolicyError> {
        if !is_name(&self.stream) {
            return Err(PolicyError::Name);
        }
        let DevicePolicy { epsilon, domain, window: _ } = self.protects;
        if !(2..=MAX_DOMAIN).contains(&domain) {
            return Err(PolicyError::Domain { given: domain });
        }
        if self.issuer.as_ref().is_some_and(|key| !is_public_key(key)) {
            return Err(PolicyError::Issuer);
        }
        if let Some(sequence) = &self.sequence {
            // One release of many spends the budget of a window, so the budget may be larger than a release.
            return Ok(sequence.check(&self.protects, self.oracle)?);
        }
        if epsilon > MAX_RESPONSE_EPSILON {
            return Err(PolicyError::Epsilon { given: epsilon.to_string() });
        }
        Ok(())
    }

    /// The slot of a device, from its identity.
    pub fn slot_of(&self, identity: &[u8]) -> u16 {
        slot_of(&self.slot_key, identity)
    }

    /// The signed message: the whole policy after a unique header.
    fn message(&self) -> Result<Vec<u8>, PolicyError> {
        let common = CommonPolicy::of(self);
        let message = match (&self.sequence, &self.issuer) {
            (None, None) => postcard::to_extend(&common, b"tidegate stream policy 1\n".to_vec()),
            (Some(sequence), None) => postcard::to_extend(&common, b"tidegate stream policy 2\n".to_vec())
                .and_then(|message| postcard::to_extend(sequence, message)),
            (sequence, Some(issuer)) => postcard::to_extend(&common, b"tidegate stream policy 3\n".to_vec())
                .and_then(|message| postcard::to_extend(&(issuer, sequence), message)),
        };
        message.map_err(|_| PolicyError::Encoding)
    }

    /// Identifies this policy uniquely. A person who consents to a policy names its fingerprint.
    ///
    /// # Errors
    /// [`PolicyError::Encoding`].
    pub fn fingerprint(&self) -> Result<Fingerprint, PolicyError> {
        Ok(Fingerprint(Sha256::digest(self.message()?).into()))
    }

    /// Describes the changes of another policy: `epsilon 20 instead of 1`. Empty only for the same policy.
    pub fn differences(&self, other: &Self) -> Vec<String> {
        // Destructured fully, so that new fields are compared too.
        let parts = |policy: &Self| {
            let Self { stream, protects, oracle, ticks, slot_key: _, sequence, issuer } = policy;
            let DevicePolicy { epsilon, window, domain } = protects;
            let window = match window {
                Window::Timestamps(length) => length.to_string(),
                Window::Unbounded => "for all time".to_owned(),
            };
            let oracle = oracle.map_or("any", OracleKind::name).to_owned();
            let of_sequence = |part: fn(&SequencePolicy) -> String| sequence.as_ref().map_or("none".to_owned(), part);
            [
                ("stream", stream.clone()),
                ("epsilon", epsilon.to_string()),
                ("window", window),
                ("domain", domain.to_string()),
                ("oracle", oracle),
                ("seconds a tick", ticks.seconds.to_string()),
                ("epoch", ticks.epoch.to_string()),
                ("sequence mechanism", of_sequence(|sequence| sequence.mechanism.to_string())),
                ("epsilon of a release", of_sequence(|sequence| sequence.epsilon.to_string())),
                ("metric", of_sequence(|sequence| sequence.metric.to_string())),
                ("key of tokens", issuer.map_or("none".to_owned(), |key| digits_of(&key))),
            ]
        };
        let pairs = parts(self).into_iter().zip(parts(other));
        let changed = pairs.filter(|((_, own), (_, others))| own != others);
        let mut differences: Vec<String> =
            changed.map(|((what, own), (_, others))| format!("{what} {others} instead of {own}")).collect();
        if self.slot_key != other.slot_key {
            differences.push("another key for slots".to_owned());
        }
        if let (Some(own), Some(others)) = (&self.sequence, &other.sequence)
            && own.model != others.model
        {
            differences.push("another model".to_owned());
        }
        differences
    }

    /// Signs the policy.
    pub fn sign(self, operator: &SigningKey) -> Result<SignedPolicy, PolicyError> {
        self.check()?;
        let signature = operator.sign(&self.message()?).to_bytes().to_vec();
        Ok(SignedPolicy { policy: self, signature })
    }
}

/// The SHA-256 of a policy's signed message, as 64 hexadecimal digits.
///
/// ```
/// use tidegate_device::enrolment::Fingerprint;
///
/// let digits = "0123456789abcdef".repeat(4);
/// let fingerprint: Fingerprint = digits.parse()?;
/// assert_eq!(fingerprint.to_string(), digits);
/// assert!("0123".parse::<Fingerprint>().is_err());
/// # Ok::<(), tidegate_device::enrolment::PolicyError>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Fingerprint([u8; 32]);

impl fmt::Display for Fingerprint {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&digits_of(&self.0))
    }
}

impl FromStr for Fingerprint {
    type Err = PolicyError;

    fn from_str(digits: &str) -> Result<Self, PolicyError> {
        let bytes = bytes_of(digits).and_then(|bytes| bytes.try_into().ok());
        bytes.map(Self).ok_or(PolicyError::Fingerprint)
    }
}

/// A policy as received by a device, not yet verified.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SignedPolicy {
    /// The policy. Do not trust it before [`SignedPolicy::verified`].
    pub policy: StreamPolicy,
    /// The operator's Ed25519 signature.
    pub signature: Vec<u8>,
}

impl SignedPolicy {
    /// Verifies the operator's signature, and that a device can follow the policy.
    ///
    /// # Errors
    /// [`PolicyError::Signature`] for a missing or wrong signature or a changed policy; and those of
    /// [`StreamPolicy::check`].
    pub fn verified(self, operator: &VerifyingKey) -> Result<VerifiedPolicy, PolicyError> {
        let signature = Signature::from_slice(&self.signature).map_err(|_| PolicyError::Signature)?;
        operator.verify_strict(&self.policy.message()?, &signature).map_err(|_| PolicyError::Signature)?;
        self.policy.check()?;
        Ok(VerifiedPolicy(self.policy))
    }
}

/// A policy with a verified signature. Only [`SignedPolicy::verified`] creates one, and it cannot be deserialised.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct VerifiedPolicy(StreamPolicy);

impl VerifiedPolicy {
    /// The policy.
    pub fn into_policy(self) -> StreamPolicy {
        self.0
    }
}

impl Deref for VerifiedPolicy {
    type Target = StreamPolicy;

    fn deref(&self) -> &StreamPolicy {
        &self.0
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
pub(crate) mod tests {
    use std::num::NonZeroU64;

    use super::*;

    pub(crate) fn policy(window: u64) -> StreamPolicy {
        StreamPolicy {
            stream: "visits".to_owned(),
            protects: DevicePolicy { epsilon: "1".parse().unwrap(), window: Window::of(window).unwrap(), domain: 6 },
            oracle: None,
            ticks: Ticks { epoch: 1_000, seconds: NonZeroU64::new(10).unwrap() },
            slot_key: *b"sixteen byte key",
            sequence: None,
            issuer: None,
        }
    }

    #[test]
    fn slots_are_hashed_with_the_key_of_the_policy() {
        let own = policy(3);
        let other = StreamPolicy { slot_key: [9; 16], ..policy(3) };
        for identity in [&b"a device"[..], b"another"] {
            assert_eq!(own.slot_of(identity), slot_of(b"sixteen byte key", identity));
            assert_ne!(own.slot_of(identity), other.slot_of(identity));
        }
    }

    #[test]
    fn a_policy_counts_only_as_the_operator_signed_it() {
        let operator = SigningKey::from_bytes(&[7; 32]);
        let signed = policy(3).sign(&operator).unwrap();
        assert_eq!(signed.clone().verified(&operator.verifying_key()).unwrap().into_policy(), policy(3));
        let other = SigningKey::from_bytes(&[8; 32]).verifying_key();
        assert_eq!(signed.clone().verified(&other), Err(PolicyError::Signature));
        let changes: [fn(&mut StreamPolicy); 5] = [
            |policy| policy.protects.epsilon = "2".parse().unwrap(),
            |policy| policy.protects.window = Window::EVENT,
            |policy| policy.protects.domain = 7,
            |policy| policy.stream.push('2'),
            |policy| policy.oracle = Some(OracleKind::Grr),
        ];
        for change in changes {
            let mut forged = signed.clone();
            change(&mut forged.policy);
            assert_eq!(forged.verified(&operator.verifying_key()), Err(PolicyError::Signature));
        }
        let cut = SignedPolicy { signature: signed.signature[..63].to_vec(), ..signed };
        assert_eq!(cut.verified(&operator.verifying_key()), Err(PolicyError::Signature));
    }

    #[test]
    fn every_change_of_a_policy_changes_its_fingerprint() {
        type Change = fn(&mut StreamPolicy);
        let changes: [(Change, &str); 8] = [
            (|policy| policy.stream.push('2'), "stream visits2 instead of visits"),
            (|policy| policy.protects.epsilon = "20".parse().unwrap(), "epsilon 20 instead of 1"),
            (|policy| policy.protects.window = Window::EVENT, "window 1 instead of 3"),
            (|policy| policy.protects.domain = 7, "domain 7 instead of 6"),
            (|policy| policy.oracle = Some(OracleKind::Grr), "oracle grr instead of any"),
            (|policy| policy.ticks.seconds = NonZeroU64::MIN, "seconds a tick 1 instead of 10"),
            (|policy| policy.ticks.epoch = 0, "epoch 0 instead of 1000"),
            (|policy| policy.slot_key = [9; 16], "another key for slots"),
        ];
        let own = policy(3);
        let fingerprint = own.fingerprint().unwrap();
        assert!(own.differences(&own).is_empty() && own.clone().fingerprint().unwrap() == fingerprint);
        for (change, named) in changes {
            let mut other = own.clone();
            change(&mut other);
            assert_eq!(own.differences(&other), [named]);
            assert_ne!(other.fingerprint().unwrap(), fingerprint, "{named}");
        }
    }

    #[test]
    fn a_policy_that_cannot_be_followed_is_not_signed() {
        let operator = SigningKey::from_bytes(&[7; 32]);
        for stream in ["", "Visits", "visits ", "b\u{e9}", &"x".repeat(65)] {
            let policy = StreamPolicy { stream: stream.to_owned(), ..policy(3) };
            assert_eq!(policy.sign(&operator), Err(PolicyError::Name));
        }
        let mut narrow = policy(3);
        narrow.protects.domain = 1;
        assert_eq!(narrow.sign(&operator), Err(PolicyError::Domain { given: 1 }));
        let mut loose = policy(3);
        loose.protects.epsilon = "1000".parse().unwrap();
        assert!(matches!(loose.sign(&operator), Err(PolicyError::Epsilon { .. })));
    }
}
