//! [`NatsSettings`]: how to reach the brokers, and how a partition is kept.

use std::path::{Path, PathBuf};
use std::time::Duration;

use async_nats::ConnectOptions;

use crate::LogError;

/// Longest prefix of the names of streams.
const LONGEST_PREFIX: usize = 32;

/// Longest file with a secret, in bytes.
const LONGEST_SECRET: u64 = 1 << 16;

/// Time between two pings of a broker. A connection without two answers is given up, and another broker is tried.
const PING: Duration = Duration::from_secs(2);

/// Longest pause between two attempts to connect again.
const LONGEST_PAUSE: Duration = Duration::from_secs(1);

/// Proof of identity that the brokers ask for. Secrets are in files, never in settings.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum NatsCredentials {
    /// None.
    #[default]
    None,
    /// File of credentials, as `nsc` writes it: a signed token of the user and the user's key.
    Credentials(PathBuf),
    /// File that contains a token.
    Token(PathBuf),
    /// Name of a user, and a file that contains the password.
    Password {
        /// Name of the user.
        user: String,
        /// File that contains the password.
        file: PathBuf,
    },
}

/// Settings of a log on NATS JetStream.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NatsSettings {
    /// Brokers: `nats://HOST:PORT` or `tls://HOST:PORT`. One is enough to find the others, but not if it is down.
    pub urls: Vec<String>,
    /// Name of this log: letters, digits and `-`. Partition 3 is the stream `tidegate_PREFIX_3`.
    pub prefix: String,
    /// Replicas of each partition: 1, 3 or 5.
    pub replicas: usize,
    /// Greatest size of a partition, in bytes. A partition that is full refuses records until it is trimmed.
    pub max_bytes: Option<u64>,
    /// Longest wait for one answer of the brokers.
    pub timeout: Duration,
    /// File of certificates, in PEM, that sign those of the brokers; those of the system if there is none.
    pub certificates: Option<PathBuf>,
    /// Proof of identity.
    pub credentials: NatsCredentials,
    /// Monitoring addresses of all brokers, `http://HOST:8222`. Only there does a broker tell whether it syncs each
    /// write.
    pub monitoring: Vec<String>,
}

impl NatsSettings {
    /// Creates settings with three replicas, no limit of size, a timeout of 5 s, and neither TLS nor credentials.
    pub fn new(urls: impl IntoIterator<Item = impl Into<String>>, prefix: impl Into<String>) -> Self {
        Self {
            urls: urls.into_iter().map(Into::into).collect(),
            prefix: prefix.into(),
            replicas: 3,
            max_bytes: None,
            timeout: Duration::from_secs(5),
            certificates: None,
            credentials: NatsCredentials::None,
            monitoring: Vec::new(),
        }
    }

    /// Checks what needs no broker.
    pub(super) fn check(&self) -> Result<(), LogError> {
        let fail = |text: &str| Err(LogError::Failed(text.to_owned()));
        if self.urls.is_empty() {
            return fail("name one broker at least, as nats://HOST:4222");
        }
        if self.urls.iter().chain(&self.monitoring).any(|url| url.contains('@')) {
            return fail("the URL of a broker must not contain a user or a password; name the file that contains them");
        }
        let named = |letter: char| letter.is_ascii_alphanumeric() || letter == '-';
        if self.prefix.is_empty() || self.prefix.len() > LONGEST_PREFIX || !self.prefix.chars().all(named) {
            return fail("the prefix of a log has 1 to 32 letters, digits and -");
        }
        if ![1, 3, 5].contains(&self.replicas) {
            return fail("a partition has 1, 3 or 5 replicas");
        }
        if self.timeout.is_zero() {
            return fail("the timeout of a log must not be zero");
        }
        Ok(())
    }

    /// Builds the options of a connection.
    pub(super) fn options(&self) -> Result<ConnectOptions, LogError> {
        let mut options = ConnectOptions::new()
            .name("tidegate")
            .connection_timeout(self.timeout)
            .request_timeout(Some(self.timeout))
            .ping_interval(PING)
            .reconnect_delay_callback(|attempts| {
                let pause = Duration::from_millis(50).saturating_mul(u32::try_from(attempts).unwrap_or(u32::MAX));
                pause.min(LONGEST_PAUSE)
            });
        if let Some(file) = &self.certificates {
            read(file)?;
            options = options.add_root_certificates(file.clone()).require_tls(true);
        }
        match &self.credentials {
            NatsCredentials::None => Ok(options),
            NatsCredentials::Token(file) => Ok(options.token(read(file)?.trim().to_owned())),
            NatsCredentials::Password { user, file } => {
                Ok(options.user_and_password(user.clone(), read(file)?.trim_end_matches(['\r', '\n']).to_owned()))
            }
            NatsCredentials::Credentials(file) => options
                .credentials(&read(file)?)
                .map_err(|_| LogError::Failed(format!("{} is no file of NATS credentials", file.display()))),
        }
    }
}

fn read(file: &Path) -> Result<String, LogError> {
    let failed = |what: String| LogError::Failed(format!("{} cannot be read: {what}", file.display()));
    match std::fs::metadata(file) {
        Ok(found) if found.len() > LONGEST_SECRET => return Err(failed("it is too long".to_owned())),
        _ => {}
    }
    std::fs::read_to_string(file).map_err(|error| failed(error.kind().to_string()))
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn rejects_settings_that_cannot_work() {
        let good = NatsSettings::new(["nats://a:4222"], "main");
        assert_eq!(good.check(), Ok(()));
        let bad = [
            NatsSettings { urls: Vec::new(), ..good.clone() },
            NatsSettings { urls: vec!["nats://me:secret@a:4222".to_owned()], ..good.clone() },
            NatsSettings { monitoring: vec!["http://me:secret@a:8222".to_owned()], ..good.clone() },
            NatsSettings { prefix: "a.b".to_owned(), ..good.clone() },
            NatsSettings { prefix: String::new(), ..good.clone() },
            NatsSettings { replicas: 2, ..good.clone() },
            NatsSettings { timeout: Duration::ZERO, ..good },
        ];
        for settings in bad {
            let error = settings.check().unwrap_err();
            assert!(!error.to_string().contains("secret"), "{error}");
        }
    }

    #[test]
    fn errors_of_credentials_do_not_quote_them() {
        let file = std::env::temp_dir().join(format!("tidegate-credentials-{}", std::process::id()));
        std::fs::write(&file, "-----BEGIN NATS USER JWT-----\nsecret\n").unwrap();
        let mut settings = NatsSettings::new(["nats://a:4222"], "main");
        settings.credentials = NatsCredentials::Credentials(file.clone());
        let error = settings.options().unwrap_err().to_string();
        std::fs::remove_file(&file).unwrap();
        assert!(error.contains("is no file of NATS credentials"), "{error}");
        assert!(!error.contains("secret"), "{error}");
    }
}
