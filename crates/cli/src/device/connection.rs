//! The connection to a collector, and the operator's key.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use clap::Args;
use tidegate_device::client::{Client, ClientError, ClientOptions, ClientToken, operator_key};
use tidegate_device::enrolment::VerifiedPolicy;

use crate::failure::{Failure, complain};

/// How long a single attempt may take.
const ONCE: Duration = Duration::from_secs(5);

/// What everybody needs to know who speaks to a collector.
#[derive(Debug, Args)]
pub(crate) struct Server {
    /// The collector's address; TIDEGATE_SERVER otherwise, where it is set. Plain http for this machine only
    #[arg(long, value_name = "URL")]
    pub(crate) server: Option<String>,

    /// A file with the token that the collector wants; TIDEGATE_TOKEN otherwise, where it is set
    #[arg(long, value_name = "FILE")]
    pub(crate) token_file: Option<PathBuf>,

    /// A file with certificates of the authorities to trust, in PEM; the web's unless given
    #[arg(long, value_name = "FILE")]
    pub(crate) ca: Option<PathBuf>,

    /// Speak plain http to other machines, too: everybody on the way sees who speaks, and the token
    #[arg(long)]
    pub(crate) allow_plain_http: bool,
}

impl Server {
    /// Returns a client with this many connections.
    pub(crate) fn client(&self, connections: usize) -> Result<Client, Failure> {
        self.client_with(self.token()?.as_deref(), connections)
    }

    /// Returns a client that tries once, for a short time, on a connection of its own.
    pub(crate) fn client_once(&self) -> Result<Client, Failure> {
        let options = self.options(self.token()?.as_deref(), 1)?;
        Client::new(&self.address()?, ClientOptions { attempts: 1, timeout: ONCE, ..options }).map_err(explain)
    }

    fn token(&self) -> Result<Option<String>, Failure> {
        Ok(match &self.token_file {
            Some(path) => Some(String::from_utf8(read(path)?).map_err(|_| Failure::input(ClientError::Token))?),
            None => std::env::var("TIDEGATE_TOKEN").ok().filter(|token| !token.is_empty()),
        })
    }

    fn address(&self) -> Result<String, Failure> {
        let given = self.server.clone().or_else(|| std::env::var("TIDEGATE_SERVER").ok().filter(|url| !url.is_empty()));
        given.ok_or_else(|| {
            Failure::input(
                "which service? --server URL names it, or the variable TIDEGATE_SERVER: http://127.0.0.1:8420",
            )
        })
    }

    /// Returns a client that uses the given token.
    pub(crate) fn client_with(&self, token: Option<&str>, connections: usize) -> Result<Client, Failure> {
        Client::new(&self.address()?, self.options(token, connections)?).map_err(explain)
    }

    fn options(&self, token: Option<&str>, connections: usize) -> Result<ClientOptions, Failure> {
        Ok(ClientOptions {
            token: token.map(|token| ClientToken::new(token.trim())).transpose().map_err(explain)?,
            authorities: self.ca.as_deref().map(read).transpose()?,
            allow_plain: self.allow_plain_http,
            connections,
            ..ClientOptions::default()
        })
    }
}

fn read(path: &Path) -> Result<Vec<u8>, Failure> {
    fs::read(path).map_err(|error| cannot_read(&path.display(), &error))
}

/// What all devices need to know.
#[derive(Debug, Args)]
pub(crate) struct Connection {
    #[command(flatten)]
    pub(crate) server: Server,

    /// The stream's name
    #[arg(long, value_name = "NAME")]
    pub(crate) stream: String,

    /// The operator's public key, which signs policies: 64 hexadecimal digits, or a file with them
    #[arg(long, value_name = "HEX|FILE")]
    pub(crate) operator_key: String,
}

impl Connection {
    pub(crate) fn client(&self, connections: usize) -> Result<Client, Failure> {
        self.server.client(connections)
    }

    /// Fetches the stream's policy, and prints what it promises.
    pub(crate) fn policy(&self, client: &Client) -> Result<VerifiedPolicy, Failure> {
        let key = match operator_key(&self.operator_key) {
            Ok(key) => key,
            Err(error) if !self.operator_key.bytes().all(|byte| byte.is_ascii_hexdigit()) => {
                let digits = fs::read_to_string(&self.operator_key)
                    .map_err(|cause| Failure::input(format_args!("--operator-key: {error}, or a file: {cause}")))?;
                operator_key(digits.trim())
                    .map_err(|error| Failure::input(format_args!("--operator-key {}: {error}", self.operator_key)))?
            }
            Err(error) => return Err(Failure::input(format_args!("--operator-key: {error}"))),
        };
        let policy = client.policy(&self.stream, &key).map_err(explain)?;
        let (protects, seconds) = (&policy.protects, policy.ticks.seconds);
        let window = match protects.window {
            tidegate_kernel::Window::Timestamps(window) => format!("in any {window} timestamps"),
            tidegate_kernel::Window::Unbounded => "for all time".to_owned(),
        };
        complain(
            "policy",
            format_args!(
                "stream {}: epsilon {} {window} of {seconds} s each, one of {} values; signed by the operator",
                policy.stream, protects.epsilon, protects.domain
            ),
        );
        if let Some(sequence) = &policy.sequence {
            let loss = sequence.loss().map_err(Failure::run)?;
            complain(
                "policy",
                format_args!(
                    "sequences, by {}: each release loses {loss} whatever the model, and {} to who knows the model and \
                     nothing else, if it is right",
                    sequence.mechanism, sequence.epsilon
                ),
            );
        }
        Ok(policy)
    }
}

fn cannot_read(name: &dyn std::fmt::Display, error: &io::Error) -> Failure {
    Failure::input(format_args!("{name} cannot be read: {error}"))
}

/// Tells invalid input from failures.
pub(crate) fn explain(error: ClientError) -> Failure {
    match error {
        ClientError::Address(_)
        | ClientError::Token
        | ClientError::OperatorKey
        | ClientError::Authorities(_)
        | ClientError::Stream
        | ClientError::Refused { status: 400, .. } => Failure::input(error),
        ClientError::Refused { status: 401, .. } => {
            Failure::run(format_args!("{error}: --token-file FILE, or the variable TIDEGATE_TOKEN, tells the token"))
        }
        error => Failure::run(error),
    }
}
