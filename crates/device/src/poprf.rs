//! A partially oblivious pseudorandom function: RFC 9497, mode POPRF, suite ristretto255-SHA512, one element at a time.
//!
//! The key's owner evaluates the function on an input that it does not see, and on public information that it does.
//! It proves that it used the key of a known public key. Group arithmetic is `curve25519-dalek`'s; secret scalars are
//! used in constant time.

use curve25519_dalek::ristretto::{CompressedRistretto, RistrettoPoint};
use curve25519_dalek::scalar::Scalar;
use curve25519_dalek::traits::IsIdentity;
use sha2::{Digest, Sha512};

/// An encoded element of the group.
pub(crate) type Element = [u8; 32];

/// An encoded proof: two scalars.
pub(crate) type Proof = [u8; 64];

/// `contextString` of the RFC.
const CONTEXT: &[u8] = b"OPRFV1-\x02-ristretto255-SHA512";

/// `expand_message_xmd` of RFC 9380 for 64 bytes, with SHA-512: a single block.
fn expand(parts: &[&[u8]], domain: &[&[u8]]) -> [u8; 64] {
    let length = domain.iter().map(|part| part.len()).sum::<usize>();
    #[allow(clippy::cast_possible_truncation)] // domains are constants of this module
    let length = length as u8;
    let with_domain = |hasher: Sha512| {
        domain.iter().fold(hasher, |hasher, part| hasher.chain_update(part)).chain_update([length]).finalize()
    };
    let padded = Sha512::new().chain_update([0; 128]);
    let message = parts.iter().fold(padded, |hasher, part| hasher.chain_update(part));
    let first = with_domain(message.chain_update([0, 64, 0]));
    with_domain(Sha512::new().chain_update(first).chain_update([1])).into()
}

fn hash_to_group(input: &[u8]) -> RistrettoPoint {
    RistrettoPoint::from_uniform_bytes(&expand(&[input], &[b"HashToGroup-", CONTEXT]))
}

fn hash_to_scalar(parts: &[&[u8]]) -> Scalar {
    Scalar::from_bytes_mod_order_wide(&expand(parts, &[b"HashToScalar-", CONTEXT]))
}

/// The length of a part, as it precedes the part. Parts are shorter than 2^16 bytes.
#[allow(clippy::cast_possible_truncation)]
const fn length(part: &[u8]) -> [u8; 2] {
    (part.len() as u16).to_be_bytes()
}

/// The scalar of public information.
fn scalar_of(info: &[u8]) -> Scalar {
    hash_to_scalar(&[b"Info", &length(info), info])
}

/// Decodes an element; `None` for an invalid encoding and for the identity.
fn element(bytes: &Element) -> Option<RistrettoPoint> {
    CompressedRistretto(*bytes).decompress().filter(|point| !point.is_identity())
}

/// A scalar from 64 uniform bytes.
pub(crate) fn scalar(bytes: &[u8; 64]) -> Scalar {
    Scalar::from_bytes_mod_order_wide(bytes)
}

/// Whether bytes are a public key.
pub(crate) fn is_public_key(bytes: &Element) -> bool {
    element(bytes).is_some()
}

/// `Finalize`: the output for an input and its evaluated element.
fn output(input: &[u8], info: &[u8], evaluated: &RistrettoPoint) -> [u8; 64] {
    let evaluated = evaluated.compress().to_bytes();
    let mut hasher = Sha512::new();
    for part in [input, info, &evaluated] {
        hasher.update(length(part));
        hasher.update(part);
    }
    hasher.chain_update(b"Finalize").finalize().into()
}

/// A key of the function.
pub(crate) struct SecretKey(Scalar);

impl SecretKey {
    /// `DeriveKeyPair`. `None` with probability 2^-252 for a seed.
    pub(crate) fn derive(seed: &[u8; 32], info: &[u8]) -> Option<Self> {
        let of = |counter: u8| {
            let bytes = expand(&[seed, &length(info), info, &[counter]], &[b"DeriveKeyPair", CONTEXT]);
            Scalar::from_bytes_mod_order_wide(&bytes)
        };
        (0..=u8::MAX).map(of).find(|key| *key != Scalar::ZERO).map(Self)
    }

    pub(crate) fn public(&self) -> Element {
        RistrettoPoint::mul_base(&self.0).compress().to_bytes()
    }

    /// The key for public information. `None` for information that inverts the key, which nobody finds.
    pub(crate) fn tweaked(&self, info: &[u8]) -> Option<TweakedKey> {
        let key = self.0 + scalar_of(info);
        (key != Scalar::ZERO).then(|| TweakedKey { key, inverse: key.invert() })
    }
}

/// A key for some public information.
pub(crate) struct TweakedKey {
    key: Scalar,
    inverse: Scalar,
}

impl TweakedKey {
    /// `BlindEvaluate`: evaluates a blinded element, and proves it. `nonce` must be unpredictable and never be used for
    /// two proofs. `None` for an invalid element.
    pub(crate) fn evaluate_blinded(&self, blinded: &Element, nonce: Scalar) -> Option<(Element, Proof)> {
        let blinded = element(blinded)?;
        let evaluated = blinded * self.inverse;
        let tweaked = RistrettoPoint::mul_base(&self.key).compress().to_bytes();
        let weight = composite(&tweaked, &evaluated, &blinded);
        let (m, z) = (evaluated * weight, blinded * weight);
        let challenge = challenge(&tweaked, &m, &z, &RistrettoPoint::mul_base(&nonce), &(m * nonce));
        let mut proof = [0; 64];
        proof[..32].copy_from_slice(challenge.as_bytes());
        proof[32..].copy_from_slice((nonce - challenge * self.key).as_bytes());
        Some((evaluated.compress().to_bytes(), proof))
    }

    /// `Evaluate`: the output for an input.
    pub(crate) fn evaluate(&self, input: &[u8], info: &[u8]) -> [u8; 64] {
        output(input, info, &(hash_to_group(input) * self.inverse))
    }
}

/// `Blind`: the blinded element of an input.
pub(crate) fn blind(input: &[u8], blind: &Scalar) -> Element {
    (hash_to_group(input) * blind).compress().to_bytes()
}

/// `Finalize` of the client: the output for an input. `None` where the proof does not show that the blinded element was
/// evaluated under the key of `public`.
pub(crate) fn finalize(
    public: &Element,
    input: &[u8],
    info: &[u8],
    blind: &Scalar,
    evaluated: &Element,
    proof: &Proof,
) -> Option<[u8; 64]> {
    let blinded = hash_to_group(input) * blind;
    let evaluated = element(evaluated)?;
    let tweaked = element(public)? + RistrettoPoint::mul_base(&scalar_of(info));
    let part = |bytes: &[u8]| Scalar::from_canonical_bytes(bytes.try_into().ok()?).into_option();
    let (given, response) = (part(&proof[..32])?, part(&proof[32..])?);
    let encoded = tweaked.compress().to_bytes();
    let weight = composite(&encoded, &evaluated, &blinded);
    let (m, z) = (evaluated * weight, blinded * weight);
    // All of this is known to the service that has sent the proof.
    let first = RistrettoPoint::vartime_double_scalar_mul_basepoint(&given, &tweaked, &response);
    let expected = challenge(&encoded, &m, &z, &first, &(m * response + z * given));
    let is_valid = !tweaked.is_identity() && *blind != Scalar::ZERO && expected == given;
    is_valid.then(|| output(input, info, &(evaluated * blind.invert())))
}

/// The weight of the only element in `ComputeComposites`.
fn composite(tweaked: &Element, evaluated: &RistrettoPoint, blinded: &RistrettoPoint) -> Scalar {
    const DOMAIN: &[u8] = b"Seed-OPRFV1-\x02-ristretto255-SHA512";
    let seed: [u8; 64] = Sha512::new()
        .chain_update(length(tweaked))
        .chain_update(tweaked)
        .chain_update(length(DOMAIN))
        .chain_update(DOMAIN)
        .finalize()
        .into();
    let (evaluated, blinded) = (evaluated.compress().to_bytes(), blinded.compress().to_bytes());
    let (of_seed, of_element) = (length(&seed), length(&evaluated));
    hash_to_scalar(&[&of_seed, &seed, &[0, 0], &of_element, &evaluated, &of_element, &blinded, b"Composite"])
}

/// The challenge of a proof.
fn challenge(
    tweaked: &Element,
    m: &RistrettoPoint,
    z: &RistrettoPoint,
    first: &RistrettoPoint,
    second: &RistrettoPoint,
) -> Scalar {
    let [m, z, first, second] = [m, z, first, second].map(|point| point.compress().to_bytes());
    let of = length(tweaked);
    hash_to_scalar(&[&of, tweaked, &of, &m, &of, &z, &of, &first, &of, &second, b"Challenge"])
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use crate::wire::{bytes_of, digits_of};

    fn array<const N: usize>(digits: &str) -> [u8; N] {
        bytes_of(digits).unwrap().try_into().unwrap()
    }

    const INFO: &[u8] = b"test info";
    const BLIND: &str = "64d37aed22a27f5191de1c1d69fadb899d8862b58eb4220029e036ec4c1f6706";
    const NONCE: &str = "222a5e897cf59db8145db8d16e597e8facb80ae7d4e26d9881aa6f61d645fc0e";

    fn number(digits: &str) -> Scalar {
        Scalar::from_canonical_bytes(array(digits)).unwrap()
    }

    fn key() -> SecretKey {
        SecretKey::derive(&[0xa3; 32], b"test key").unwrap()
    }

    /// RFC 9497, appendix A.1.3.1 and A.1.3.2: input, blinded element, evaluated element, proof, output.
    const VECTORS: [[&str; 5]; 2] = [
        [
            "00",
            "c8713aa89241d6989ac142f22dba30596db635c772cbf25021fdd8f3d461f715",
            "1a4b860d808ff19624731e67b5eff20ceb2df3c3c03b906f5693e2078450d874",
            "41ad1a291aa02c80b0915fbfbb0c0afa15a57e2970067a602ddb9e8fd6b7100d\
             e32e1ecff943a36f0b10e3dae6bd266cdeb8adf825d86ef27dbc6c0e30c52206",
            "ca688351e88afb1d841fde4401c79efebb2eb75e7998fa9737bd5a82a152406d\
             38bd29f680504e54fd4587eddcf2f37a2617ac2fbd2993f7bdf45442ace7d221",
        ],
        [
            "5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a",
            "f0f0b209dd4d5f1844dac679acc7761b91a2e704879656cb7c201e82a99ab07d",
            "8c3c9d064c334c6991e99f286ea2301d1bde170b54003fb9c44c6d7bd6fc1540",
            "4c39992d55ffba38232cdac88fe583af8a85441fefd7d1d4a8d0394cd1de7701\
             8bf135c174f20281b3341ab1f453fe72b0293a7398703384bed822bfdeec8908",
            "7c6557b276a137922a0bcfc2aa2b35dd78322bd500235eb6d6b6f91bc5b56a52\
             de2d65612d503236b321f5d0bebcbc52b64b92e426f29c9b8b69f52de98ae507",
        ],
    ];

    #[test]
    fn agrees_with_the_vectors_of_the_rfc() {
        let key = key();
        assert_eq!(digits_of(key.0.as_bytes()), "145c79c108538421ac164ecbe131942136d5570b16d8bf41a24d4337da981e07");
        assert_eq!(digits_of(&key.public()), "c647bef38497bc6ec077c22af65b696efa43bff3b4a1975a3e8e0a1c5a79d631");
        let tweaked = key.tweaked(INFO).unwrap();
        for [input, blinded, evaluated, proof, output] in VECTORS {
            let input = bytes_of(input).unwrap();
            assert_eq!(digits_of(&blind(&input, &number(BLIND))), blinded);
            let answer = tweaked.evaluate_blinded(&array(blinded), number(NONCE)).unwrap();
            assert_eq!((digits_of(&answer.0).as_str(), digits_of(&answer.1).as_str()), (evaluated, proof));
            let found = finalize(&key.public(), &input, INFO, &number(BLIND), &answer.0, &answer.1).unwrap();
            assert_eq!(digits_of(&found), output);
            assert_eq!(digits_of(&tweaked.evaluate(&input, INFO)), output);
        }
    }

    #[test]
    fn rejects_every_changed_part_of_an_answer() {
        let (key, [_, _, evaluated, proof, _]) = (key(), VECTORS[0]);
        let (evaluated, proof): (Element, Proof) = (array(evaluated), array(proof));
        let finalize = |public: &Element, info: &[u8], evaluated: &Element, proof: &Proof| {
            finalize(public, &[0], info, &number(BLIND), evaluated, proof)
        };
        let public = key.public();
        assert!(finalize(&public, INFO, &evaluated, &proof).is_some());
        let other = SecretKey::derive(&[0xa4; 32], b"test key").unwrap().public();
        assert_eq!(finalize(&other, INFO, &evaluated, &proof), None);
        assert_eq!(finalize(&public, b"test inf0", &evaluated, &proof), None);
        assert_eq!(finalize(&public, INFO, &[0; 32], &proof), None, "the identity");
        assert_eq!(finalize(&public, INFO, &array(VECTORS[1][2]), &proof), None);
        for position in 0..64 {
            let mut changed = proof;
            changed[position] ^= 1;
            assert_eq!(finalize(&public, INFO, &evaluated, &changed), None, "byte {position}");
        }
        for invalid in [[0; 32], [0xff; 32]] {
            assert!(key.tweaked(INFO).unwrap().evaluate_blinded(&invalid, number(NONCE)).is_none());
            assert!(!is_public_key(&invalid));
        }
    }
}
