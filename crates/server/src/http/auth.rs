//! Authorisation: [`Role`]s, and [`Tokens`], of which only hashes are kept.

use std::fmt;
use std::sync::Arc;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};
use subtle::{Choice, ConditionallySelectable, ConstantTimeEq};
use tidegate::kernel::NoEntropy;
use zeroize::Zeroizing;

/// Role of a token.
///
/// | | operator | ingest | analyst |
/// | --- | --- | --- | --- |
/// | create, pause, resume and retire streams; credentials of devices | yes | | |
/// | send reports and events; draw tokens | yes | yes | |
/// | read streams, releases, answers, the feed and metrics; ask | yes | | yes |
///
/// Policies, the operator's key, questions to devices and the API's description are public.
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
    /// All roles.
    pub const ALL: [Self; 3] = [Self::Operator, Self::Ingest, Self::Analyst];

    /// Returns the name that users read.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Operator => "operator",
            Self::Ingest => "ingest",
            Self::Analyst => "analyst",
        }
    }

    /// Whether it includes another role.
    pub fn may(self, needed: Self) -> bool {
        self == Self::Operator || self == needed
    }

    /// Prefix of its tokens, which tells a finder what a token opens.
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

/// A secret text. `Debug` hides it, and it is zeroised on drop.
#[derive(Clone)]
pub struct Secret(Zeroizing<String>);

impl Secret {
    /// Wraps a text.
    pub fn new(text: String) -> Self {
        Self(Zeroizing::new(text))
    }

    /// Returns the text.
    pub fn reveal(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("Secret(..)")
    }
}

/// A new token: the secret for its holder, and the hash for the service.
#[derive(Debug)]
pub struct ApiToken {
    /// Secret: `tg_`, a letter for the role, `_`, and 256 random bits in base64.
    pub secret: Secret,
    /// SHA-256 of the secret, in hexadecimal digits.
    pub sha256: String,
}

impl ApiToken {
    /// Draws a token.
    ///
    /// ```
    /// use tidegate_server::http::auth::{ApiToken, Role, TokenEntry, Tokens};
    ///
    /// let token = ApiToken::new(Role::Analyst)?;
    /// let entry = TokenEntry { name: "dashboard".to_owned(), role: Role::Analyst, sha256: token.sha256 };
    /// let tokens = Tokens::new(vec![entry])?;
    /// assert_eq!(tokens.find(token.secret.reveal()).map(|entry| entry.role), Some(Role::Analyst));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// [`NoEntropy`].
    pub fn new(role: Role) -> Result<Self, NoEntropy> {
        let mut bytes = Zeroizing::new([0_u8; 32]);
        getrandom::fill(bytes.as_mut_slice()).map_err(NoEntropy::from)?;
        let letters = Zeroizing::new(URL_SAFE_NO_PAD.encode(bytes.as_slice()));
        let secret = Secret::new(format!("{}{}", role.prefix(), letters.as_str()));
        let sha256 = Self::hash(secret.reveal());
        Ok(Self { secret, sha256 })
    }

    /// Hashes a secret with SHA-256, in hexadecimal digits. With 256 random bits, no slower hash is needed.
    pub fn hash(secret: &str) -> String {
        hex::encode(digest(secret))
    }
}

fn digest(secret: &str) -> [u8; 32] {
    Sha256::digest(secret.as_bytes()).into()
}

/// A token that the service knows.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TokenEntry {
    /// Name of its holder in logs.
    pub name: String,
    /// Its role.
    pub role: Role,
    /// SHA-256 of the secret, in hexadecimal digits.
    pub sha256: String,
}

/// Error of [`Tokens::new`].
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
#[allow(missing_docs)]
pub enum TokenError {
    #[error("a token's name has 1 to 64 letters, digits, _, - and .")]
    Name,
    #[error("token {0}: two tokens have this name")]
    Twice(String),
    #[error("token {0}: sha256 has 64 hexadecimal digits")]
    Hash(String),
    #[error("token {0}: another token has the same sha256")]
    Same(String),
}

/// Tokens that a service knows.
#[derive(Clone, Debug, Default)]
pub struct Tokens(Vec<([u8; 32], Arc<TokenEntry>)>);

impl Tokens {
    /// Checks and collects tokens. There are none by default.
    ///
    /// # Errors
    /// [`TokenError`].
    pub fn new(entries: Vec<TokenEntry>) -> Result<Self, TokenError> {
        let mut tokens: Vec<([u8; 32], Arc<TokenEntry>)> = Vec::with_capacity(entries.len());
        for entry in entries {
            let allowed = |byte: u8| byte.is_ascii_alphanumeric() || b"_-.".contains(&byte);
            if !(1..=64).contains(&entry.name.len()) || !entry.name.bytes().all(allowed) {
                return Err(TokenError::Name);
            }
            let mut hash = [0; 32];
            hex::decode_to_slice(&entry.sha256, &mut hash).map_err(|_| TokenError::Hash(entry.name.clone()))?;
            if tokens.iter().any(|(_, other)| other.name == entry.name) {
                return Err(TokenError::Twice(entry.name));
            }
            if tokens.iter().any(|(other, _)| *other == hash) {
                return Err(TokenError::Same(entry.name));
            }
            tokens.push((hash, Arc::new(entry)));
        }
        Ok(Self(tokens))
    }

    /// Returns the number of tokens.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Whether there are no tokens, so that only public routes can be used.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Finds a token by its secret, in constant time: all hashes are compared completely.
    pub fn find(&self, secret: &str) -> Option<&TokenEntry> {
        self.position(secret).map(|position| &*self.0[position].1)
    }

    /// Finds a token for a request.
    pub(super) fn known(&self, secret: &str) -> Option<Known> {
        self.position(secret).map(|position| {
            let (hash, entry) = &self.0[position];
            Known { id: id_of(hash), entry: Arc::clone(entry) }
        })
    }

    /// Whether a request's token is still there, with the same role.
    pub(super) fn contains(&self, known: &Known) -> bool {
        self.0.iter().any(|(hash, entry)| id_of(hash) == known.id && entry.role == known.entry.role)
    }

    /// Returns the number of tokens that may send events.
    pub(super) fn senders(&self) -> usize {
        self.0.iter().filter(|(_, entry)| entry.role.may(Role::Ingest)).count()
    }

    fn position(&self, secret: &str) -> Option<usize> {
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

/// Token of a request.
#[derive(Clone, Debug)]
pub(super) struct Known {
    /// First half of its hash.
    pub(super) id: u128,
    pub(super) entry: Arc<TokenEntry>,
}

fn id_of(hash: &[u8; 32]) -> u128 {
    hash.iter().take(16).fold(0, |id, byte| id << 8 | u128::from(*byte))
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    fn entry(name: &str, role: Role, sha256: String) -> TokenEntry {
        TokenEntry { name: name.to_owned(), role, sha256 }
    }

    #[test]
    fn finds_a_token_by_its_secret_only() {
        let made: Vec<_> = Role::ALL.iter().map(|role| (ApiToken::new(*role).unwrap(), *role)).collect();
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
    fn only_operators_include_other_roles() {
        for role in Role::ALL {
            for needed in Role::ALL {
                assert_eq!(role.may(needed), role == needed || role == Role::Operator);
            }
        }
    }

    #[test]
    fn rejects_invalid_tokens() {
        let hash = ApiToken::hash("x");
        let of = |entries: &[(&str, &str)]| {
            let entries = entries.iter().map(|(name, hash)| entry(name, Role::Ingest, (*hash).to_owned()));
            Tokens::new(entries.collect()).map(|_| ())
        };
        assert_eq!(of(&[("", &hash)]), Err(TokenError::Name));
        assert_eq!(of(&[("a b", &hash)]), Err(TokenError::Name));
        assert_eq!(of(&[("a", "")]), Err(TokenError::Hash("a".to_owned())));
        assert_eq!(of(&[("a", &"ü".repeat(32))]), Err(TokenError::Hash("a".to_owned())));
        assert_eq!(of(&[("a", &hash), ("a", &ApiToken::hash("y"))]), Err(TokenError::Twice("a".to_owned())));
        assert_eq!(of(&[("a", &hash), ("b", &hash.to_uppercase())]), Err(TokenError::Same("b".to_owned())));
        assert_eq!(of(&[("a", &hash), ("b", &ApiToken::hash("y"))]), Ok(()));
    }
}
