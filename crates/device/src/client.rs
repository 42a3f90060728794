//! [`Client`]: an HTTP client of a collector that it does not trust.
//!
//! Calls block, without an async runtime, for a bounded time. Retries send identical bytes, so that a collector counts
//! them once. Redirects are not followed, so that a token reaches only its intended host.
//!
//! ```no_run
//! use std::time::Duration;
//! use tidegate_device::client::{Client, ClientOptions, operator_key};
//!
//! let client = Client::new("https://collector.example", ClientOptions::default())?;
//! let operator = operator_key("3d4017c3e843895a92b70aa74d1b7ebc9c982ccf2ec4968cc0cd55f12af4660c")?;
//! let policy = client.policy("visits", &operator)?;
//! let asking = client.questions(&policy.stream, None, Duration::from_secs(20))?;
//! println!("round {}: {} questions", asking.round, asking.questions.len());
//! # Ok::<(), tidegate_device::client::ClientError>(())
//! ```

use std::fmt;
use std::io;
use std::net::IpAddr;
use std::sync::{Mutex, PoisonError};
use std::thread;
use std::time::Duration;

use ed25519_dalek::VerifyingKey;
use serde::de::DeserializeOwned;
use tidegate_kernel::{Randomness, SystemRandom};
use ureq::http::header::{AUTHORIZATION, CONTENT_TYPE, RETRY_AFTER};
use ureq::http::{HeaderMap, HeaderValue, Response, StatusCode, Uri};
use ureq::tls::{PemItem, RootCerts, TlsConfig, parse_pem};

use crate::api::{BATCH, OpenQuestions, Problem, Receipt};
use crate::credential::{DrawAnswer, DrawRequest};
use crate::enrolment::{PolicyError, SignedPolicy, VerifiedPolicy, is_name};

/// Maximum length of a receipt or an error, in bytes.
const SHORT_ANSWER: u64 = 64 << 10;

/// Maximum length of a policy, in bytes: enough for the largest model.
const POLICY: u64 = 2 << 20;

/// Maximum length of questions, in bytes: enough for several with a hundred thousand ranges each.
const LONG_ANSWER: u64 = 8 << 20;

/// Maximum length of published data, in bytes.
const LONGEST_ANSWER: u64 = 256 << 20;

/// Maximum length of a collector's message, in characters.
const MAX_WORDS: usize = 200;

/// Maximum pause that a collector can impose before a retry.
const LONGEST_PAUSE: Duration = Duration::from_secs(30);

/// Options of a [`Client`].
#[derive(Clone, Debug)]
pub struct ClientOptions {
    /// The bearer token, if the collector requires one.
    pub token: Option<ClientToken>,
    /// PEM certificates of trusted authorities, instead of Mozilla's list.
    pub authorities: Option<Vec<u8>>,
    /// Whether to allow plain HTTP to other machines. Reports are randomised, but anyone on the way can read the token
    /// and see who reports.
    pub allow_plain: bool,
    /// Maximum duration of one attempt, from name resolution to the last byte. The wait of a long poll comes on top.
    pub timeout: Duration,
    /// Maximum attempts if the collector is unavailable; at least one.
    pub attempts: u32,
    /// Maximum pause after the first attempt. It doubles after each further one, up to 30 seconds.
    pub pause: Duration,
    /// Maximum idle connections.
    pub connections: usize,
}

impl Default for ClientOptions {
    fn default() -> Self {
        Self {
            token: None,
            authorities: None,
            allow_plain: false,
            timeout: Duration::from_secs(30),
            attempts: 6,
            pause: Duration::from_millis(250),
            connections: 1,
        }
    }
}

/// A bearer token. It never appears in errors or debug output.
#[derive(Clone)]
pub struct ClientToken(HeaderValue);

impl ClientToken {
    /// Creates a token from visible ASCII characters.
    ///
    /// # Errors
    /// [`ClientError::Token`].
    pub fn new(token: &str) -> Result<Self, ClientError> {
        if token.is_empty() || !token.bytes().all(|byte| byte.is_ascii_graphic()) {
            return Err(ClientError::Token);
        }
        let mut value = HeaderValue::try_from(format!("Bearer {token}")).map_err(|_| ClientError::Token)?;
        value.set_sensitive(true);
        Ok(Self(value))
    }

    /// The secret part.
    fn secret(&self) -> Option<&str> {
        self.0.to_str().ok()?.strip_prefix("Bearer ")
    }
}

impl fmt::Debug for ClientToken {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("ClientToken(..)")
    }
}

/// Errors of a [`Client`].
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[non_exhaustive]
#[allow(missing_docs)] // the messages name the fields
pub enum ClientError {
    /// An invalid or disallowed address.
    #[error("the collector's address: {0}")]
    Address(&'static str),
    /// An invalid token.
    #[error("a token has visible ASCII characters only, and at least one")]
    Token,
    /// An invalid operator's key.
    #[error("an operator's key is 64 hexadecimal digits of an Ed25519 public key")]
    OperatorKey,
    /// Invalid certificates.
    #[error("no certificate of an authority can be read: {0}")]
    Authorities(String),
    /// An invalid stream name.
    #[error("a stream has a name of 1 to 64 lower-case letters, digits, _ and -")]
    Stream,
    /// The operating system provides no randomness.
    #[error("the system gives no randomness")]
    Entropy,
    /// The collector refused. A retry would not help.
    #[error(
        "the collector refuses ({status}{}): {message}",
        code.as_ref().map(|code| format!(", {code}")).unwrap_or_default()
    )]
    Refused { status: u16, code: Option<String>, message: String },
    /// Every attempt failed, or was answered with a request to retry.
    #[error("{address} is not available, tried {attempts} times: {last}")]
    Unavailable { address: String, attempts: u32, last: String },
    /// An invalid response.
    #[error("the collector's answer is not understood: {0}")]
    Answer(String),
    /// A redirect, which is not followed.
    #[error("the collector sends elsewhere ({status}), which is not followed")]
    Redirect { status: u16 },
    /// A policy that cannot be verified.
    #[error(transparent)]
    Policy(#[from] PolicyError),
    /// A policy of another stream than the requested one.
    #[error("the collector has answered with the policy of another stream")]
    OtherStream,
}

/// Parses an operator's public key from hexadecimal digits.
///
/// # Errors
/// [`ClientError::OperatorKey`].
pub fn operator_key(digits: &str) -> Result<VerifyingKey, ClientError> {
    let key = crate::wire::bytes_of(digits).and_then(|bytes| <[u8; 32]>::try_from(bytes).ok());
    let key = VerifyingKey::from_bytes(&key.ok_or(ClientError::OperatorKey)?).map_err(|_| ClientError::OperatorKey)?;
    // Anyone can sign for a weak key.
    if key.is_weak() { Err(ClientError::OperatorKey) } else { Ok(key) }
}

/// A client of one collector. Threads can share it.
#[derive(Debug)]
pub struct Client {
    base: String,
    http: ureq::Agent,
    options: ClientOptions,
    /// For random pauses: devices rejected together must not return together.
    random: Mutex<SystemRandom>,
}

impl Client {
    /// Creates a client of the collector at an address, such as `https://collector.example`. Sends nothing.
    ///
    /// # Errors
    /// [`ClientError::Address`] for an invalid address, or for plain HTTP to another machine unless allowed;
    /// [`ClientError::Authorities`] for unreadable certificates; [`ClientError::Entropy`].
    pub fn new(address: &str, options: ClientOptions) -> Result<Self, ClientError> {
        let (base, is_plain) = checked(address, options.allow_plain)?;
        let roots = match &options.authorities {
            None => RootCerts::WebPki,
            Some(pem) => authorities(pem)?,
        };
        let mut config = ureq::Agent::config_builder()
            .http_status_as_error(false)
            .max_redirects(0)
            .max_redirects_will_error(false)
            .timeout_connect(Some(options.timeout))
            .max_idle_connections(options.connections)
            .max_idle_connections_per_host(options.connections)
            .user_agent(concat!("tidegate/", env!("CARGO_PKG_VERSION")))
            .tls_config(TlsConfig::builder().root_certs(roots).build());
        if is_plain {
            // A proxy from the environment would read the token; HTTPS stays encrypted through it.
            config = config.proxy(None);
        }
        let random = Mutex::new(SystemRandom::new().map_err(|_| ClientError::Entropy)?);
        Ok(Self { base, http: config.build().into(), options, random })
    }

    /// Fetches and verifies the policy of a stream.
    ///
    /// # Errors
    /// Includes a wrong signature, and a policy of another stream.
    pub fn policy(&self, stream: &str, operator: &VerifyingKey) -> Result<VerifiedPolicy, ClientError> {
        let path = path(stream, "policy")?;
        let signed: SignedPolicy = self.call(POLICY, || self.get(&path, Duration::ZERO))?;
        let policy = signed.verified(operator)?;
        if policy.stream == stream { Ok(policy) } else { Err(ClientError::OtherStream) }
    }

    /// Fetches the open questions. With `after`, waits for a later round, up to `wait` in whole seconds.
    ///
    /// # Errors
    /// See [`ClientError`].
    pub fn questions(&self, stream: &str, after: Option<u64>, wait: Duration) -> Result<OpenQuestions, ClientError> {
        let path = path(stream, "questions")?;
        let (path, wait) = match after {
            None => (path, Duration::ZERO),
            Some(round) => (format!("{path}?after={round}&wait={}", wait.as_secs()), wait),
        };
        self.call(LONG_ANSWER, || self.get(&path, wait))
    }

    /// Sends a batch of reports. Without a response, it sends the same bytes again; the collector counts them once.
    ///
    /// # Errors
    /// After [`ClientError::Unavailable`] or [`ClientError::Answer`], the reports may have been counted.
    pub fn send(&self, stream: &str, batch: &[u8]) -> Result<Receipt, ClientError> {
        let path = path(stream, "reports")?;
        self.call(SHORT_ANSWER, || self.post(&path).header(CONTENT_TYPE, BATCH).send(batch))
    }

    /// Draws tokens. Without a response, it sends the same request again; the collector answers it alike.
    ///
    /// # Errors
    /// See [`ClientError`]. A collector refuses a draw that differs from an earlier one for the same block.
    pub fn draw(&self, stream: &str, request: &DrawRequest) -> Result<DrawAnswer, ClientError> {
        let path = path(stream, "tokens")?;
        let body = serde_json::to_string(request).map_err(|error| ClientError::Answer(error.to_string()))?;
        self.call(SHORT_ANSWER, || self.post(&path).header(CONTENT_TYPE, "application/json").send(&body))
    }

    /// Reads a path of the collector's API, such as `/v1/streams`.
    ///
    /// # Errors
    /// See [`ClientError`].
    pub fn read<T: DeserializeOwned>(&self, path: &str) -> Result<T, ClientError> {
        self.call(LONGEST_ANSWER, || self.get(path, Duration::ZERO))
    }

    /// Posts JSON to a path, and retries without a response.
    ///
    /// # Errors
    /// See [`ClientError`].
    pub fn ask<T: DeserializeOwned>(&self, path: &str, body: &str) -> Result<T, ClientError> {
        self.call(LONGEST_ANSWER, || self.post(path).header(CONTENT_TYPE, "application/json").send(body))
    }

    fn post(&self, path: &str) -> ureq::RequestBuilder<ureq::typestate::WithBody> {
        let timeout = Some(self.options.timeout);
        let mut request = self.http.post(format!("{}{path}", self.base)).config().timeout_global(timeout).build();
        if let Some(ClientToken(token)) = &self.options.token {
            request = request.header(AUTHORIZATION, token);
        }
        request
    }

    fn get(&self, path: &str, wait: Duration) -> Result<Response<ureq::Body>, ureq::Error> {
        let timeout = Some(self.options.timeout.saturating_add(wait));
        let mut request = self.http.get(format!("{}{path}", self.base)).config().timeout_global(timeout).build();
        if let Some(ClientToken(token)) = &self.options.token {
            request = request.header(AUTHORIZATION, token);
        }
        request.call()
    }

    /// Retries until there is a response or the attempts are used up.
    fn call<T: DeserializeOwned>(
        &self,
        limit: u64,
        attempt: impl Fn() -> Result<Response<ureq::Body>, ureq::Error>,
    ) -> Result<T, ClientError> {
        let mut attempts = 0;
        loop {
            attempts += 1;
            let again = match attempt()
                .map_err(|error| failed(error, &self.base))
                .and_then(|response| self.answer(response, limit))
            {
                Ok(answer) => return Ok(answer),
                Err(Outcome::Final(error)) => return Err(error),
                Err(Outcome::Again(again)) => again,
            };
            if attempts >= self.options.attempts {
                let address = self.words(&self.base);
                return Err(ClientError::Unavailable { address, attempts, last: self.words(&again.why) });
            }
            thread::sleep(self.pause(attempts).max(again.not_before).min(LONGEST_PAUSE));
        }
    }

    /// Interprets a response.
    fn answer<T: DeserializeOwned>(&self, mut response: Response<ureq::Body>, limit: u64) -> Result<T, Outcome> {
        let status = response.status();
        if status.is_success() {
            let body = response
                .body_mut()
                .with_config()
                .limit(limit)
                .read_to_vec()
                .map_err(|error| failed(error, &self.base))?;
            return serde_json::from_slice(&body)
                .map_err(|error| Outcome::Final(ClientError::Answer(self.words(&error.to_string()))));
        }
        let number = status.as_u16();
        if status.is_redirection() {
            return Err(Outcome::Final(ClientError::Redirect { status: number }));
        }
        let not_before = retry_after(response.headers());
        let body = response.body_mut().with_config().limit(SHORT_ANSWER).read_to_vec().unwrap_or_default();
        let problem: Option<Problem> = serde_json::from_slice(&body).ok();
        let code = problem.as_ref().map(|problem| self.words(&problem.error));
        let message = match &problem {
            Some(problem) => self.words(&problem.message),
            None => status.canonical_reason().unwrap_or("it does not say why").to_owned(),
        };
        let for_now = [StatusCode::REQUEST_TIMEOUT, StatusCode::TOO_MANY_REQUESTS];
        if status.is_server_error() || for_now.contains(&status) {
            return Err(Outcome::Again(Again { why: format!("{number}: {message}"), not_before }));
        }
        Err(Outcome::Final(ClientError::Refused { status: number, code, message }))
    }

    /// Sanitises a collector's message: truncated, without control characters, and without the token.
    fn words(&self, text: &str) -> String {
        let token = self.options.token.as_ref().and_then(ClientToken::secret);
        let text = token.map_or_else(|| text.to_owned(), |token| text.replace(token, "(token)"));
        text.chars().filter(|next| !next.is_control()).take(MAX_WORDS).collect()
    }

    /// The pause after an attempt: random, between half and all of the exponential back-off.
    fn pause(&self, attempts: u32) -> Duration {
        let most = self.options.pause.saturating_mul(1 << (attempts - 1).min(16)).min(LONGEST_PAUSE);
        let word = self.random.lock().unwrap_or_else(PoisonError::into_inner).next_word();
        #[allow(clippy::cast_possible_truncation)] // the high half
        let part = (word >> 32) as u32;
        most.mul_f64(0.5 + 0.5 * f64::from(part) / f64::from(u32::MAX))
    }
}

/// The result of a failed attempt.
enum Outcome {
    Final(ClientError),
    Again(Again),
}

struct Again {
    why: String,
    not_before: Duration,
}

/// Checks an address; returns it without a trailing slash, and whether it is plain HTTP.
fn checked(address: &str, allow_plain: bool) -> Result<(String, bool), ClientError> {
    let uri: Uri = address.parse().map_err(|_| ClientError::Address("expected http://HOST:PORT or https://HOST"))?;
    let authority = uri.authority().ok_or(ClientError::Address("expected http://HOST:PORT or https://HOST"))?;
    if authority.as_str().contains('@') {
        return Err(ClientError::Address("no user and no password belong into it; use a token"));
    }
    if uri.query().is_some() || address.contains('#') {
        return Err(ClientError::Address("it has a question mark or a hash, which it must not"));
    }
    let is_plain = match uri.scheme_str() {
        Some("https") => false,
        Some("http") => true,
        _ => return Err(ClientError::Address("expected http:// or https://")),
    };
    let host = authority.host().trim_start_matches('[').trim_end_matches(']');
    let is_own = host == "localhost" || host.parse::<IpAddr>().is_ok_and(|address| address.is_loopback());
    if is_plain && !is_own && !allow_plain {
        return Err(ClientError::Address("plain http is for this machine only, unless it is allowed; use https"));
    }
    Ok((address.trim_end_matches('/').to_owned(), is_plain))
}

fn authorities(pem: &[u8]) -> Result<RootCerts, ClientError> {
    let mut certificates = Vec::new();
    for item in parse_pem(pem) {
        match item {
            Ok(PemItem::Certificate(certificate)) => certificates.push(certificate),
            Ok(_) => {}
            Err(error) => return Err(ClientError::Authorities(error.to_string())),
        }
    }
    if certificates.is_empty() {
        return Err(ClientError::Authorities("there is none in the file".to_owned()));
    }
    Ok(RootCerts::from(certificates))
}

fn path(stream: &str, what: &str) -> Result<String, ClientError> {
    // No character that could change the path.
    if is_name(stream) { Ok(format!("/v1/streams/{stream}/{what}")) } else { Err(ClientError::Stream) }
}

/// Classifies a transport error.
fn failed(error: ureq::Error, address: &str) -> Outcome {
    match error {
        ureq::Error::BodyExceedsLimit(limit) => {
            Outcome::Final(ClientError::Answer(format!("it is longer than {limit} bytes")))
        }
        // Retrying does not help with an untrusted certificate.
        ureq::Error::Rustls(error) => not_safe(&error, address),
        ureq::Error::Tls(error) => not_safe(&error, address),
        ureq::Error::Io(error) if error.kind() == io::ErrorKind::InvalidData => not_safe(&error, address),
        error => Outcome::Again(Again { why: error.to_string(), not_before: Duration::ZERO }),
    }
}

fn not_safe(error: &dyn fmt::Display, address: &str) -> Outcome {
    let (address, last) = (address.to_owned(), format!("no safe connection: {error}"));
    Outcome::Final(ClientError::Unavailable { address, attempts: 1, last })
}

fn retry_after(headers: &HeaderMap) -> Duration {
    let seconds = headers.get(RETRY_AFTER).and_then(|value| value.to_str().ok()?.parse().ok());
    Duration::from_secs(seconds.unwrap_or(0))
}
