//! Who may do what: [`Role`]s, and [`Tokens`], of which nothing but hashes is kept.

use std::fmt;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};
use subtle::{Choice, ConditionallySelectable, ConstantTimeEq};
use tidegate::kernel::NoEntropy;
use zeroize::Zeroizing;

/// What the holder of a token may do.
///
/// | | operator | ingest | analyst |
/// | --- | --- | --- | --- |
/// | create, pause, resume and retire streams | yes | | |
/// | send reports and events | yes | yes | |
/// | read streams, releases, answers, the feed and metrics; ask | yes | | yes |
///
/// Policies, the operator's key, questions to devices and the API's description are for everybody.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Role {
    /// Everything.
    Operator,
    /// Sends reports and events.
    Ingest,
    /// Reads what was published.
    Analyst,
}

impl Role {
    /// All of them.
    pub const ALL: [Self; 3] = [Self::Operator, Self::Ingest, Self::Analyst];

    /// The name that users read.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Operator => "operator",
            Self::Ingest => "ingest",
            Self::Analyst => "analyst",
        }
    }

    /// Whether it may do what is for a role.
    pub fn may(self, needed: Self) -> bool {
        self == Self::Operator || self == needed
    }

    /// What its tokens begin with, so that whoever finds one knows what it opens.
    const fn prefix(self) -> &'static str {
        match self {
            Self::Operator => "tg_o_",
            Self::Ingest => "tg_i_",
            Self::Analyst => "tg_a_",
        }
    }
}

impl fmt::Display for Role {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(self.name())
    }
}

/// Something that must not be seen. It cannot be printed by accident, and is wiped when it is dropped.
#[derive(Clone)]
pub struct Secret(Zeroizing<String>);

impl Secret {
    /// Hides a text.
    pub fn new(text: String) -> Self {
        Self(Zeroizing::new(text))
    }

    /// The text, for whoever it is meant for.
    pub fn reveal(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("Secret(..)")
    }
}

/// A new token: what its holder gets, and what the service keeps.
#[derive(Debug)]
pub struct Token {
    /// What its holder sends: `tg_`, a letter for the role, `_`, and 256 random bits in 43 letters.
    pub secret: Secret,
    /// Its SHA-256, in hexadecimal digits.
    pub sha256: String,
}

impl Token {
    /// Draws a token.
    ///
    /// ```
    /// use tidegate_server::http::auth::{Role, Token, TokenEntry, Tokens};
    ///
    /// let token = Token::new(Role::Analyst)?;
    /// let entry = TokenEntry { name: "dashboard".to_owned(), role: Role::Analyst, sha256: token.sha256 };
    /// let tokens = Tokens::new(vec![entry])?;
    /// assert_eq!(tokens.find(token.secret.reveal()).map(|entry| entry.role), Some(Role::Analyst));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// [`NoEntropy`] where the operating system gives no randomness.
    pub fn new(role: Role) -> Result<Self, NoEntropy> {
        let mut bytes = Zeroizing::new([0_u8; 32]);
        getrandom::fill(bytes.as_mut_slice()).map_err(NoEntropy::from)?;
        let letters = Zeroizing::new(URL_SAFE_NO_PAD.encode(bytes.as_slice()));
        let secret = Secret::new(format!("{}{}", role.prefix(), letters.as_str()));
        let sha256 = Self::hash(secret.reveal());
        Ok(Self { secret, sha256 })
    }

    /// The SHA-256 of a token, in hexadecimal digits. A token has 256 random bits, so that no slower hash is needed.
    pub fn hash(secret: &str) -> String {
        digest(secret).iter().map(|byte| format!("{byte:02x}")).collect()
    }
}

fn digest(secret: &str) -> [u8; 32] {
    Sha256::digest(secret.as_bytes()).into()
}

/// A token as the service knows it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TokenEntry {
    /// What logs call its holder.
    pub name: String,
    /// What its holder may do.
    pub role: Role,
    /// The SHA-256 of the token, in hexadecimal digits.
    pub sha256: String,
}

/// Why tokens are not accepted.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum TokenError {
    /// A name that is empty, too long, or has odd letters.
    #[error("a token's name has 1 to 64 letters, digits, _, - and .")]
    Name,
    /// A name that is there twice.
    #[error("token {0}: there are two of this name")]
    Twice(String),
    /// What is no hash.
    #[error("token {0}: sha256 has 64 hexadecimal digits")]
    Hash(String),
    /// The same hash under two names.
    #[error("token {0}: another has the same sha256")]
    Same(String),
}

/// The tokens that a service knows.
#[derive(Clone, Debug, Default)]
pub struct Tokens(Vec<([u8; 32], TokenEntry)>);

impl Tokens {
    /// These. There is none by default, and none that opens everything.
    ///
    /// # Errors
    /// [`TokenError`].
    pub fn new(entries: Vec<TokenEntry>) -> Result<Self, TokenError> {
        let mut tokens: Vec<([u8; 32], TokenEntry)> = Vec::with_capacity(entries.len());
        for entry in entries {
            let allowed = |byte: u8| byte.is_ascii_alphanumeric() || b"_-.".contains(&byte);
            if !(1..=64).contains(&entry.name.len()) || !entry.name.bytes().all(allowed) {
                return Err(TokenError::Name);
            }
            let hash = from_hex(&entry.sha256).ok_or_else(|| TokenError::Hash(entry.name.clone()))?;
            if tokens.iter().any(|(_, other)| other.name == entry.name) {
                return Err(TokenError::Twice(entry.name));
            }
            if tokens.iter().any(|(other, _)| *other == hash) {
                return Err(TokenError::Same(entry.name));
            }
            tokens.push((hash, entry));
        }
        Ok(Self(tokens))
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Whether there is none: then nothing but what is for everybody can be done.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The token that this is, if any. How long that takes does not depend on which it is, or on how much of it is
    /// right: all are compared, whole.
    pub fn find(&self, secret: &str) -> Option<&TokenEntry> {
        self.position(secret).map(|position| &self.0[position].1)
    }

    pub(super) fn entry(&self, position: usize) -> Option<&TokenEntry> {
        self.0.get(position).map(|(_, entry)| entry)
    }

    pub(super) fn position(&self, secret: &str) -> Option<usize> {
        let given = digest(secret);
        let (mut found, mut position) = (Choice::from(0), 0_u64);
        for ((hash, _), place) in self.0.iter().zip(0_u64..) {
            let same = hash.ct_eq(&given);
            position.conditional_assign(&place, same);
            found |= same;
        }
        bool::from(found).then(|| usize::try_from(position).ok()).flatten()
    }
}

fn from_hex(digits: &str) -> Option<[u8; 32]> {
    if digits.len() != 64 || !digits.bytes().all(|digit| digit.is_ascii_hexdigit()) {
        return None;
    }
    let mut bytes = [0; 32];
    for (byte, start) in bytes.iter_mut().zip((0..).step_by(2)) {
        *byte = u8::from_str_radix(&digits[start..start + 2], 16).ok()?;
    }
    Some(bytes)
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    fn entry(name: &str, role: Role, sha256: String) -> TokenEntry {
        TokenEntry { name: name.to_owned(), role, sha256 }
    }

    #[test]
    fn a_token_is_found_by_its_secret_and_by_nothing_else() {
        let made: Vec<_> = Role::ALL.iter().map(|role| (Token::new(*role).unwrap(), *role)).collect();
        let entries = made.iter().map(|(token, role)| entry(role.name(), *role, token.sha256.clone())).collect();
        let tokens = Tokens::new(entries).unwrap();
        for (token, role) in &made {
            let secret = token.secret.reveal();
            assert_eq!(secret.len(), 48);
            assert_eq!(tokens.find(secret).unwrap().role, *role);
            assert!(tokens.find(&secret[..47]).is_none() && tokens.find(&format!("{secret}a")).is_none());
            assert!(tokens.find(&token.sha256).is_none(), "the hash opens nothing");
            assert!(!format!("{token:?} {tokens:?}").contains(secret));
        }
        assert!(tokens.find("").is_none() && Tokens::default().find("").is_none());
    }

    #[test]
    fn only_an_operator_may_do_everything() {
        for role in Role::ALL {
            for needed in Role::ALL {
                assert_eq!(role.may(needed), role == needed || role == Role::Operator);
            }
        }
    }

    #[test]
    fn tokens_that_are_none_are_refused() {
        let hash = Token::hash("x");
        let of = |entries: &[(&str, &str)]| {
            let entries = entries.iter().map(|(name, hash)| entry(name, Role::Ingest, (*hash).to_owned()));
            Tokens::new(entries.collect()).map(|_| ())
        };
        assert_eq!(of(&[("", &hash)]), Err(TokenError::Name));
        assert_eq!(of(&[("a b", &hash)]), Err(TokenError::Name));
        assert_eq!(of(&[("a", "")]), Err(TokenError::Hash("a".to_owned())));
        assert_eq!(of(&[("a", &"ü".repeat(32))]), Err(TokenError::Hash("a".to_owned())));
        assert_eq!(of(&[("a", &hash), ("a", &Token::hash("y"))]), Err(TokenError::Twice("a".to_owned())));
        assert_eq!(of(&[("a", &hash), ("b", &hash.to_uppercase())]), Err(TokenError::Same("b".to_owned())));
        assert_eq!(of(&[("a", &hash), ("b", &Token::hash("y"))]), Ok(()));
    }
}
