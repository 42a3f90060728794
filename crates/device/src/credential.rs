//! Credentials of devices, and the tokens that they draw with them: one for each timestamp.
//!
//! ```text
//! operator ──▶ credential of a device it knows ──▶ device
//! device   ──▶ blinded nonces of a block of timestamps, signed with the credential ──▶ service
//! device   ◀── evaluations, and proofs that they are by the policy's key ◀── service
//! device   ──▶ report, nonce, and proof of the token ──▶ service
//! ```
//!
//! The service learns from a draw which device draws for which block, and nothing of the tokens: a blinded nonce is a
//! uniformly random element of a group of prime order, whatever the nonce is. The function is the POPRF of RFC 9497;
//! its public information is the stream and the timestamp, so a token is good for one timestamp of one stream. Its
//! public key is part of the signed policy, so a service cannot recognise a device by a key of its own.

use std::fmt;

use curve25519_dalek::scalar::Scalar;
use hmac::{Hmac, KeyInit as _, Mac as _};
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256, Sha512};
use tidegate_kernel::Randomness;

use crate::enrolment::is_name;
use crate::poprf::{self, Element, Proof, SecretKey, TweakedKey};
use crate::wire::{ReportId, StreamTag, TokenProof, bytes_of, digits_of};

/// How many timestamps a draw is for. Blocks begin at multiples of it.
pub const BLOCK: u64 = TOKENS as u64;

const TOKENS: usize = 16;
const ELEMENT: usize = size_of::<Element>();
const EVALUATION: usize = ELEMENT + size_of::<Proof>();

/// Why a credential, a draw or its answer is not accepted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum TokenError {
    /// An invalid credential.
    #[error("a credential has a stream and a device, each a name, and a key of 64 hexadecimal digits")]
    Credential,
    /// An invalid draw.
    #[error("a draw has {TOKENS} elements of the group ristretto255, in {} hexadecimal digits", 2 * TOKENS * ELEMENT)]
    Elements,
    /// A draw that the device's credential has not signed.
    #[error("the draw is not signed with the credential of this device for this stream")]
    Unsigned,
    /// An answer that the policy's key has not made.
    #[error("the answer has no tokens of the key in the stream's policy")]
    OtherKey,
}

type Mac = Hmac<Sha256>;

/// A keyed hash of the parts. All but the last have a fixed length.
fn mac(key: &[u8; 32], heading: &[u8], parts: &[&[u8]]) -> Mac {
    // HMAC fills a short key up with zeros.
    let mut block = [0; 64];
    block[..32].copy_from_slice(key);
    let mac = Mac::new(&block.into()).chain_update(heading);
    parts.iter().fold(mac, |mac, part| mac.chain_update(part))
}

fn key_of(key: &[u8; 32], heading: &[u8], last: &str) -> [u8; 32] {
    mac(key, heading, &[last.as_bytes()]).finalize().into_bytes().into()
}

/// The public information of a token.
fn info(stream: StreamTag, timestamp: u64) -> [u8; 24] {
    let mut info = [0; 24];
    info[..16].copy_from_slice(stream.as_bytes());
    info[16..].copy_from_slice(&timestamp.to_le_bytes());
    info
}

fn timestamps(block: u64) -> impl Iterator<Item = u64> {
    (0..BLOCK).map(move |position| block.saturating_mul(BLOCK).saturating_add(position))
}

/// The credential of a device for a stream: a secret that its operator has derived from the device's name. `Debug`
/// hides the key.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "CredentialText", into = "CredentialText")]
pub struct Credential {
    stream: String,
    device: String,
    key: [u8; 32],
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct CredentialText {
    stream: String,
    device: String,
    key: String,
}

impl Credential {
    /// The stream.
    pub fn stream(&self) -> &str {
        &self.stream
    }

    /// The device's name.
    pub fn device(&self) -> &str {
        &self.device
    }

    /// Signs a draw.
    fn mac(&self, block: u64, elements: &[u8]) -> Mac {
        mac(&self.key, b"tidegate draw\n", &[&block.to_le_bytes(), elements])
    }
}

impl fmt::Debug for Credential {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "Credential({:?} of {:?}, ..)", self.device, self.stream)
    }
}

impl TryFrom<CredentialText> for Credential {
    type Error = TokenError;

    fn try_from(CredentialText { stream, device, key }: CredentialText) -> Result<Self, TokenError> {
        let key = bytes_of(&key).and_then(|key| key.try_into().ok()).ok_or(TokenError::Credential)?;
        let is_valid = is_name(&stream) && is_name(&device);
        is_valid.then_some(Self { stream, device, key }).ok_or(TokenError::Credential)
    }
}

impl From<Credential> for CredentialText {
    fn from(Credential { stream, device, key }: Credential) -> Self {
        Self { stream, device, key: digits_of(&key) }
    }
}

/// A request for the tokens of a block of timestamps.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DrawRequest {
    /// The device's name.
    pub device: String,
    /// The block: its first timestamp, divided by [`BLOCK`].
    pub block: u64,
    /// A blinded element for each timestamp, in hexadecimal digits.
    pub elements: String,
    /// HMAC-SHA-256 of block and elements under the credential's key, in hexadecimal digits.
    pub mac: String,
}

/// The answer to a [`DrawRequest`].
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DrawAnswer {
    /// For each timestamp the evaluated element and its proof, in hexadecimal digits.
    pub evaluations: String,
}

/// The tokens of a block: drawn, or about to be. Everything in it follows from a random seed and the service's answer,
/// so a draw that is repeated is repeated identically.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Draw {
    block: u64,
    seed: [u8; 32],
    /// The secrets of all tokens; empty before the answer.
    secrets: Vec<[u8; 32]>,
}

impl fmt::Debug for Draw {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "Draw({}, ..)", self.block)
    }
}

impl Draw {
    /// Begins the draw of a block. Keep it before the request leaves: the service answers no other one for this block.
    pub fn new(block: u64, random: &mut impl Randomness) -> Self {
        let mut seed = [0; 32];
        seed.as_chunks_mut().0.iter_mut().for_each(|part: &mut [u8; 8]| *part = random.next_word().to_le_bytes());
        Self { block, seed, secrets: Vec::new() }
    }

    /// The block.
    pub const fn block(&self) -> u64 {
        self.block
    }

    /// Whether the answer has come.
    pub const fn is_complete(&self) -> bool {
        !self.secrets.is_empty()
    }

    /// Whether it is a possible state.
    pub(crate) const fn is_possible(&self) -> bool {
        self.secrets.is_empty() || self.secrets.len() == TOKENS
    }

    fn expand(&self, heading: &[u8], timestamp: u64) -> [u8; 64] {
        let hasher = Sha512::new().chain_update(heading).chain_update(self.seed);
        hasher.chain_update(timestamp.to_le_bytes()).finalize().into()
    }

    fn nonce(&self, timestamp: u64) -> [u8; 16] {
        let mut nonce = [0; 16];
        nonce.copy_from_slice(&self.expand(b"tidegate token nonce\n", timestamp)[..16]);
        nonce
    }

    fn blind(&self, timestamp: u64) -> Scalar {
        poprf::scalar(&self.expand(b"tidegate token blind\n", timestamp))
    }

    /// The request for the tokens.
    pub fn request(&self, credential: &Credential) -> DrawRequest {
        let elements: Vec<u8> = timestamps(self.block)
            .flat_map(|timestamp| poprf::blind(&self.nonce(timestamp), &self.blind(timestamp)))
            .collect();
        let mac = credential.mac(self.block, &elements).finalize().into_bytes();
        DrawRequest {
            device: credential.device.clone(),
            block: self.block,
            elements: digits_of(&elements),
            mac: digits_of(&mac),
        }
    }

    /// Takes the answer.
    ///
    /// # Errors
    /// [`TokenError::OtherKey`] unless all of it is proven to be made with `issuer`, the key of the policy. Nothing has
    /// changed then.
    pub fn finish(&mut self, stream: StreamTag, issuer: &[u8; 32], answer: &DrawAnswer) -> Result<(), TokenError> {
        let evaluations: Vec<[u8; EVALUATION]> = chunks_of(&answer.evaluations).ok_or(TokenError::OtherKey)?;
        let secret = |(timestamp, evaluation): (u64, &[u8; EVALUATION])| {
            let (evaluated, proof) = evaluation.split_first_chunk()?;
            let (nonce, info, blind) = (self.nonce(timestamp), info(stream, timestamp), self.blind(timestamp));
            poprf::finalize(issuer, &nonce, &info, &blind, evaluated, proof.first_chunk()?).map(secret_of)
        };
        let secrets: Option<Vec<_>> = timestamps(self.block).zip(&evaluations).map(secret).collect();
        self.secrets = secrets.ok_or(TokenError::OtherKey)?;
        Ok(())
    }

    /// The token of a timestamp, if it was drawn.
    pub fn token(&self, stream: StreamTag, timestamp: u64) -> Option<ReportToken> {
        let position = usize::try_from(timestamp % BLOCK).ok()?;
        let secret = *self.secrets.get(position).filter(|_| timestamp / BLOCK == self.block)?;
        Some(ReportToken { stream, timestamp, nonce: self.nonce(timestamp), secret })
    }
}

/// Decodes digits of exactly one item for each timestamp of a block.
fn chunks_of<const N: usize>(digits: &str) -> Option<Vec<[u8; N]>> {
    let bytes = Some(digits).filter(|digits| digits.len() == 2 * TOKENS * N).and_then(bytes_of)?;
    Some(bytes.as_chunks().0.to_vec())
}

fn secret_of(output: [u8; 64]) -> [u8; 32] {
    let mut secret = [0; 32];
    secret.copy_from_slice(&output[..32]);
    secret
}

/// A token: it authorises one report for each phase of a timestamp of a stream.
pub struct ReportToken {
    stream: StreamTag,
    timestamp: u64,
    nonce: [u8; 16],
    secret: [u8; 32],
}

impl fmt::Debug for ReportToken {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "ReportToken({}, ..)", self.timestamp)
    }
}

impl ReportToken {
    /// The identity of the token's report for a phase. Identities of other phases do not tell it.
    pub fn report_id(&self, phase: u16) -> ReportId {
        let identity = mac(&self.secret, b"tidegate token identity\n", &[]).finalize().into_bytes();
        let mut first = [0; 16];
        first.copy_from_slice(&identity[..16]);
        ReportId::of(&first, self.stream, self.timestamp, phase)
    }

    fn mac(&self, phase: u16, report: &[u8]) -> Mac {
        let (timestamp, phase) = (self.timestamp.to_le_bytes(), phase.to_le_bytes());
        mac(&self.secret, b"tidegate token report\n", &[self.stream.as_bytes(), &timestamp, &phase, report])
    }

    /// The proof that goes with the report for a phase. Whoever sees it cannot attach it to another report.
    pub fn prove(&self, phase: u16, report: &[u8]) -> TokenProof {
        let mac = self.mac(phase, report).finalize().into_bytes();
        let mut proof = [0; 32];
        proof[..16].copy_from_slice(&self.nonce);
        proof[16..].copy_from_slice(&mac[..16]);
        TokenProof::from(proof)
    }
}

/// The service's side for a stream: derives credentials, answers draws, and checks tokens. It keeps nothing for a
/// device.
pub struct Issuer {
    stream: String,
    credentials: [u8; 32],
    nonces: [u8; 32],
    key: SecretKey,
}

impl fmt::Debug for Issuer {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "Issuer({:?}, ..)", self.stream)
    }
}

impl Issuer {
    /// The issuer of a stream, from a secret. Equal secrets make equal issuers. `None` with probability 2^-252.
    pub fn new(secret: &[u8; 32], stream: &str) -> Option<Self> {
        let credentials = key_of(secret, b"tidegate issuer credentials 1\n", stream);
        let nonces = key_of(secret, b"tidegate issuer nonces 1\n", stream);
        let seed = key_of(secret, b"tidegate issuer tokens 1\n", stream);
        let key = SecretKey::derive(&seed, b"tidegate")?;
        Some(Self { stream: stream.to_owned(), credentials, nonces, key })
    }

    /// The public key, for the policy.
    pub fn public(&self) -> [u8; 32] {
        self.key.public()
    }

    /// The credential of a device.
    ///
    /// # Errors
    /// [`TokenError::Credential`] for an invalid name.
    pub fn credential(&self, device: &str) -> Result<Credential, TokenError> {
        if !is_name(device) {
            return Err(TokenError::Credential);
        }
        let key = key_of(&self.credentials, b"device\n", device);
        Ok(Credential { stream: self.stream.clone(), device: device.to_owned(), key })
    }

    /// Checks the form and the signature of a draw, which is cheap. Returns its blinded elements.
    ///
    /// # Errors
    /// [`TokenError::Elements`] and [`TokenError::Unsigned`].
    pub fn check(&self, request: &DrawRequest) -> Result<Vec<[u8; 32]>, TokenError> {
        let elements: Vec<Element> = chunks_of(&request.elements).ok_or(TokenError::Elements)?;
        let mac = bytes_of(&request.mac).ok_or(TokenError::Unsigned)?;
        let credential = self.credential(&request.device).map_err(|_| TokenError::Unsigned)?;
        let expected = credential.mac(request.block, elements.as_flattened());
        expected.verify_slice(&mac).map_err(|_| TokenError::Unsigned)?;
        Ok(elements)
    }

    /// Evaluates the elements of a draw that was checked. The same draw has the same answer.
    ///
    /// # Errors
    /// [`TokenError::Elements`] where one is no element of the group.
    pub fn answer(&self, block: u64, elements: &[[u8; 32]]) -> Result<DrawAnswer, TokenError> {
        let mut evaluations = Vec::with_capacity(TOKENS * EVALUATION);
        for (timestamp, element) in timestamps(block).zip(elements) {
            let info = info(StreamTag::of(&self.stream), timestamp);
            // Two proofs with one nonce would reveal the key: it follows from all that the proof is about.
            let hasher = Sha512::new().chain_update(b"tidegate proof nonce\n").chain_update(self.nonces);
            let nonce = poprf::scalar(&hasher.chain_update(info).chain_update(element).finalize().into());
            let key = self.key.tweaked(&info).ok_or(TokenError::Elements)?;
            let (evaluated, proof) = key.evaluate_blinded(element, nonce).ok_or(TokenError::Elements)?;
            evaluations.extend_from_slice(&evaluated);
            evaluations.extend_from_slice(&proof);
        }
        Ok(DrawAnswer { evaluations: digits_of(&evaluations) })
    }

    /// The check of the tokens of a timestamp. `None` for a timestamp that inverts the key, which nobody finds.
    pub fn checker(&self, timestamp: u64) -> Option<TokenChecker> {
        let stream = StreamTag::of(&self.stream);
        Some(TokenChecker { stream, timestamp, key: self.key.tweaked(&info(stream, timestamp))? })
    }
}

/// Checks the tokens of one timestamp.
pub struct TokenChecker {
    stream: StreamTag,
    timestamp: u64,
    key: TweakedKey,
}

impl fmt::Debug for TokenChecker {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "TokenChecker({}, ..)", self.timestamp)
    }
}

impl TokenChecker {
    /// The token of a nonce, which only the issuer and whoever has drawn it can compute. It costs a multiplication on
    /// the curve.
    pub fn token(&self, nonce: [u8; 16]) -> ReportToken {
        let (stream, timestamp) = (self.stream, self.timestamp);
        let secret = secret_of(self.key.evaluate(&nonce, &info(stream, timestamp)));
        ReportToken { stream, timestamp, nonce, secret }
    }

    /// Whether a report comes with a token, and has its identity.
    pub fn accepts(&self, phase: u16, id: ReportId, proof: TokenProof, report: &[u8]) -> bool {
        let (nonce, mac) = proof.parts();
        let token = self.token(nonce);
        token.mac(phase, report).verify_truncated_left(&mac).is_ok() && token.report_id(phase) == id
    }
}
