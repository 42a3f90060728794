//! [`Client`]: speaks to a collector over HTTP, and believes nothing that it says.
//!
//! No async runtime: each call returns when it is done, or after a time that is known beforehand. What is sent again is
//! sent byte for byte the same, so that a collector counts it once. Redirects are not followed: a token goes where it
//! was meant to go, or nowhere.
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
use crate::enrolment::{PolicyError, SignedPolicy, VerifiedPolicy, is_name};

/// How long an answer with a policy, a receipt or a refusal may be, in bytes.
const SHORT_ANSWER: u64 = 64 << 10;

/// How long an answer with questions may be, in bytes: enough for several that list a hundred thousand ranges each.
const LONG_ANSWER: u64 = 8 << 20;

/// How long an answer to whoever reads what was published may be, in bytes.
const LONGEST_ANSWER: u64 = 256 << 20;

/// How much of a collector's own words is kept, in characters.
const MAX_WORDS: usize = 200;

/// How long a collector may make a device wait before it tries again.
const LONGEST_PAUSE: Duration = Duration::from_secs(30);

/// How a client goes about it.
#[derive(Clone, Debug)]
pub struct ClientOptions {
    /// What tells the collector who sends, if it wants to know.
    pub token: Option<ClientToken>,
    /// Certificates of the authorities to trust instead of the web's (those in Mozilla's list), in PEM.
    pub authorities: Option<Vec<u8>>,
    /// Whether to speak plain HTTP to other machines, too. What is sent is randomised, but everybody on the way can
    /// read the token and see who reports.
    pub allow_plain: bool,
    /// How long one attempt may take, from the name of the host to the last byte of the answer; the time for which a
    /// question is held back comes on top.
    pub timeout: Duration,
    /// How often to try where the collector is not available, at least once.
    pub attempts: u32,
    /// How long to wait after the first attempt, at most; twice as long after each further one, up to half a minute.
    pub pause: Duration,
    /// How many connections are kept open.
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

/// A secret that tells a collector who sends. It is in no error and no debug output.
#[derive(Clone)]
pub struct ClientToken(HeaderValue);

impl ClientToken {
    /// A token, of visible ASCII characters.
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

    /// What must not be seen.
    fn secret(&self) -> Option<&str> {
        self.0.to_str().ok()?.strip_prefix("Bearer ")
    }
}

impl fmt::Debug for ClientToken {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("ClientToken(..)")
    }
}

/// Why a call came to nothing.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
#[allow(missing_docs)] // the messages name the fields
pub enum ClientError {
    /// An address that is none, or that should not be spoken to.
    #[error("the collector's address: {0}")]
    Address(&'static str),
    /// A token that cannot be sent.
    #[error("a token has visible ASCII characters only, and at least one")]
    Token,
    /// A key that is none.
    #[error("an operator's key is 64 hexadecimal digits of an Ed25519 public key")]
    OperatorKey,
    /// Certificates that are none.
    #[error("no certificate of an authority can be read: {0}")]
    Authorities(String),
    /// The name of a stream that is none.
    #[error("a stream has a name of 1 to 64 lower-case letters, digits, _ and -")]
    Stream,
    /// The system has no randomness to give.
    #[error("the system gives no randomness")]
    Entropy,
    /// The collector says no. Trying again would not help.
    #[error("the collector refuses ({status}{}): {message}", code.as_ref().map(|code| format!(", {code}")).unwrap_or_default())]
    Refused { status: u16, code: Option<String>, message: String },
    /// There was no answer, or one that says to try again, as often as it was tried.
    #[error("the collector is not available, tried {attempts} times: {last}")]
    Unavailable { attempts: u32, last: String },
    /// An answer that no collector gives.
    #[error("the collector's answer is not understood: {0}")]
    Answer(String),
    /// It sends the device elsewhere, where it does not go.
    #[error("the collector sends elsewhere ({status}), which is not followed")]
    Redirect { status: u16 },
    /// A policy that is not to be believed.
    #[error(transparent)]
    Policy(#[from] PolicyError),
    /// A policy of another stream than the one that was asked for.
    #[error("the collector has answered with the policy of another stream")]
    OtherStream,
}

/// An operator's public key, from its hexadecimal digits.
///
/// # Errors
/// [`ClientError::OperatorKey`].
pub fn operator_key(digits: &str) -> Result<VerifyingKey, ClientError> {
    let key = crate::wire::bytes_of(digits).and_then(|bytes| <[u8; 32]>::try_from(bytes).ok());
    let key = VerifyingKey::from_bytes(&key.ok_or(ClientError::OperatorKey)?).map_err(|_| ClientError::OperatorKey)?;
    // Anybody can sign for a weak one.
    if key.is_weak() { Err(ClientError::OperatorKey) } else { Ok(key) }
}

/// Speaks to one collector. Several threads can share it.
#[derive(Debug)]
pub struct Client {
    base: String,
    http: ureq::Agent,
    options: ClientOptions,
    /// For pauses of random length: devices that were turned away together must not come back together.
    random: Mutex<SystemRandom>,
}

impl Client {
    /// A client of the collector at an address, such as `https://collector.example`. Nothing is sent yet.
    ///
    /// # Errors
    /// If the address is none, or is that of another machine and plain HTTP, unless that is allowed; if certificates
    /// cannot be read.
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
            // A proxy of the surroundings would read the token; through it, HTTPS stays sealed.
            config = config.proxy(None);
        }
        let random = Mutex::new(SystemRandom::new().map_err(|_| ClientError::Entropy)?);
        Ok(Self { base, http: config.build().into(), options, random })
    }

    /// The policy of a stream, as its operator signed it.
    ///
    /// # Errors
    /// Also where it is signed by somebody else, or is another stream's.
    pub fn policy(&self, stream: &str, operator: &VerifyingKey) -> Result<VerifiedPolicy, ClientError> {
        let path = path(stream, "policy")?;
        let signed: SignedPolicy = self.call(SHORT_ANSWER, || self.get(&path, Duration::ZERO))?;
        let policy = signed.verified(operator)?;
        if policy.stream == stream { Ok(policy) } else { Err(ClientError::OtherStream) }
    }

    /// What is asked now; after a round that is known, what is asked once there is a later one, or after `wait` (in
    /// whole seconds).
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

    /// Sends a batch of reports. Where there is no answer, the same bytes are sent again: what the collector has
    /// counted already it does not count twice.
    ///
    /// # Errors
    /// Where it is [`ClientError::Unavailable`] or [`ClientError::Answer`], the reports may have been counted.
    pub fn send(&self, stream: &str, batch: &[u8]) -> Result<Receipt, ClientError> {
        let path = path(stream, "reports")?;
        self.call(SHORT_ANSWER, || self.post(&path).header(CONTENT_TYPE, BATCH).send(batch))
    }

    /// What the collector has at a path of its interface, such as `/v1/streams`, for those who may read it.
    ///
    /// # Errors
    /// See [`ClientError`].
    pub fn read<T: DeserializeOwned>(&self, path: &str) -> Result<T, ClientError> {
        self.call(LONGEST_ANSWER, || self.get(path, Duration::ZERO))
    }

    /// What the collector answers to JSON that is sent to a path. Where there is no answer, it is sent again.
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

    /// Tries until there is an answer, or too often.
    fn call<T: DeserializeOwned>(
        &self,
        limit: u64,
        attempt: impl Fn() -> Result<Response<ureq::Body>, ureq::Error>,
    ) -> Result<T, ClientError> {
        let mut attempts = 0;
        loop {
            attempts += 1;
            let again = match attempt().map_err(failed).and_then(|response| self.answer(response, limit)) {
                Ok(answer) => return Ok(answer),
                Err(Outcome::Final(error)) => return Err(error),
                Err(Outcome::Again(again)) => again,
            };
            if attempts >= self.options.attempts {
                return Err(ClientError::Unavailable { attempts, last: self.words(&again.why) });
            }
            thread::sleep(self.pause(attempts).max(again.not_before).min(LONGEST_PAUSE));
        }
    }

    /// What an answer means.
    fn answer<T: DeserializeOwned>(&self, mut response: Response<ureq::Body>, limit: u64) -> Result<T, Outcome> {
        let status = response.status();
        if status.is_success() {
            let body = response.body_mut().with_config().limit(limit).read_to_vec().map_err(failed)?;
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

    /// A collector's own words: cut short, without anything that a terminal would obey, and without the token, which it
    /// knows.
    fn words(&self, text: &str) -> String {
        let token = self.options.token.as_ref().and_then(ClientToken::secret);
        let text = token.map_or_else(|| text.to_owned(), |token| text.replace(token, "(token)"));
        text.chars().filter(|next| !next.is_control()).take(MAX_WORDS).collect()
    }

    /// How long to wait after so many attempts: between half of the time and all of it.
    fn pause(&self, attempts: u32) -> Duration {
        let most = self.options.pause.saturating_mul(1 << (attempts - 1).min(16)).min(LONGEST_PAUSE);
        let word = self.random.lock().unwrap_or_else(PoisonError::into_inner).next_word();
        #[allow(clippy::cast_possible_truncation)] // the high half
        let part = (word >> 32) as u32;
        most.mul_f64(0.5 + 0.5 * f64::from(part) / f64::from(u32::MAX))
    }
}

/// What an attempt that did not succeed means.
enum Outcome {
    Final(ClientError),
    Again(Again),
}

struct Again {
    why: String,
    not_before: Duration,
}

/// The address without a slash at its end, and whether it is plain HTTP.
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
    // Nothing that could lead to another path.
    if is_name(stream) { Ok(format!("/v1/streams/{stream}/{what}")) } else { Err(ClientError::Stream) }
}

/// What it means that there was no answer.
fn failed(error: ureq::Error) -> Outcome {
    match error {
        ureq::Error::BodyExceedsLimit(limit) => {
            Outcome::Final(ClientError::Answer(format!("it is longer than {limit} bytes")))
        }
        // A certificate that is not trusted now is not trusted in a second.
        ureq::Error::Rustls(error) => not_safe(&error),
        ureq::Error::Tls(error) => not_safe(&error),
        ureq::Error::Io(error) if error.kind() == io::ErrorKind::InvalidData => not_safe(&error),
        error => Outcome::Again(Again { why: error.to_string(), not_before: Duration::ZERO }),
    }
}

fn not_safe(error: &dyn fmt::Display) -> Outcome {
    Outcome::Final(ClientError::Unavailable { attempts: 1, last: format!("no safe connection: {error}") })
}

fn retry_after(headers: &HeaderMap) -> Duration {
    let seconds = headers.get(RETRY_AFTER).and_then(|value| value.to_str().ok()?.parse().ok());
    Duration::from_secs(seconds.unwrap_or(0))
}
