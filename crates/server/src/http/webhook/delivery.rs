//! [`Delivery`]: an attempt to send a message.

use std::sync::{Arc, PoisonError, RwLock};
use std::time::Duration;

use hmac::{Hmac, KeyInit as _, Mac as _};
use sha2::Sha256;
use ureq::config::Config;
use ureq::http::Uri;
use ureq::unversioned::resolver::{DefaultResolver, ResolvedSocketAddrs, Resolver};
use ureq::unversioned::transport::{DefaultConnector, NextTimeout};

use super::WebhookSettings;
use crate::http::auth::Secret;
use crate::http::network::{Network, is_public};

/// Header that proves the sender and the time of a message: `t=` seconds since 1970, `,v1=` and, in hexadecimal digits,
/// the HMAC-SHA-256 of these seconds, a dot and the body under the [secret](WebhookSettings::secret).
pub const SIGNATURE: &str = "tidegate-signature";

/// Outcome of an attempt.
#[derive(Debug)]
pub(super) enum Attempt {
    Delivered,
    /// Worth another attempt.
    Failed(String),
    /// Sent nothing: the address is not allowed.
    Refused(String),
}

/// A client that sends messages.
#[derive(Debug)]
pub(super) struct Delivery {
    http: ureq::Agent,
    secret: SharedSecret,
}

/// Key of all clients, which can be replaced while they send.
pub(super) type SharedSecret = Arc<RwLock<Option<Secret>>>;

/// Error for a host that has no allowed address.
#[derive(Debug, thiserror::Error)]
#[error("its address is not public: name its network in webhook_networks")]
struct NotPublic;

/// Resolves names to allowed addresses. The client connects to these and resolves nothing again.
#[derive(Debug)]
struct Allowed {
    resolver: DefaultResolver,
    networks: Vec<Network>,
}

impl Resolver for Allowed {
    fn resolve(&self, uri: &Uri, config: &Config, timeout: NextTimeout) -> Result<ResolvedSocketAddrs, ureq::Error> {
        let found = self.resolver.resolve(uri, config, timeout)?;
        let mut allowed = self.empty();
        for address in found.iter() {
            let ip = address.ip();
            if is_public(ip) || self.networks.iter().any(|network| network.contains(ip)) {
                allowed.push(*address);
            }
        }
        if allowed.is_empty() { Err(ureq::Error::Other(Box::new(NotPublic))) } else { Ok(allowed) }
    }
}

impl Delivery {
    /// Builds the client. It follows no redirects and uses no proxy: a message goes to its URL or nowhere.
    pub(super) fn new(settings: &WebhookSettings, secret: SharedSecret) -> Self {
        let config = Config::builder()
            .timeout_global(Some(settings.timeout))
            .max_redirects(0)
            .max_redirects_will_error(false)
            .max_idle_connections(0)
            .proxy(None)
            .user_agent(concat!("tidegate/", env!("CARGO_PKG_VERSION")))
            .build();
        let resolver = Allowed { resolver: DefaultResolver::default(), networks: settings.networks.clone() };
        let http = ureq::Agent::with_parts(config, DefaultConnector::default(), resolver);
        Self { http, secret }
    }

    pub(super) fn attempt(&self, url: &str, body: &str) -> Attempt {
        let mut request = self.http.post(url).header("content-type", "application/json");
        let seconds = Duration::from_millis(crate::service::now()).as_secs();
        let secret = self.secret.read().unwrap_or_else(PoisonError::into_inner).clone();
        if let Some(signature) = secret.and_then(|secret| signature(&secret, seconds, body)) {
            request = request.header(SIGNATURE, signature);
        }
        match request.send(body) {
            Ok(response) if response.status().is_success() => Attempt::Delivered,
            Ok(response) => Attempt::Failed(format!("it answers {}", response.status().as_u16())),
            Err(ureq::Error::Other(error)) if error.is::<NotPublic>() => Attempt::Refused(error.to_string()),
            Err(error) => Attempt::Failed(describe(&error)),
        }
    }
}

/// Describes an error without the address.
fn describe(error: &ureq::Error) -> String {
    match error {
        ureq::Error::StatusCode(status) => format!("it answers {status}"),
        ureq::Error::Timeout(_) => "it takes too long".to_owned(),
        ureq::Error::Io(error) => error.kind().to_string(),
        ureq::Error::HostNotFound => "there is no such host".to_owned(),
        _ => "it cannot be reached".to_owned(),
    }
}

fn signature(secret: &Secret, seconds: u64, body: &str) -> Option<String> {
    Some(format!("t={seconds},v1={}", hmac(secret, &format!("{seconds}.{body}"))?))
}

fn hmac(secret: &Secret, text: &str) -> Option<String> {
    let mut mac = Hmac::<Sha256>::new_from_slice(secret.reveal().as_bytes()).ok()?;
    mac.update(text.as_bytes());
    Some(hex::encode(mac.finalize().into_bytes()))
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    /// Test case 2 of RFC 4231.
    #[test]
    fn signs_the_time_and_the_body_with_hmac_sha_256() {
        let secret = Secret::new("Jefe".to_owned());
        let expected = "5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843";
        assert_eq!(hmac(&secret, "what do ya want for nothing?").unwrap(), expected);
        let signed = signature(&secret, 7, "what").unwrap();
        assert_eq!(signed, format!("t=7,v1={}", hmac(&secret, "7.what").unwrap()));
        assert_ne!(signed.split_once("v1="), signature(&secret, 8, "what").unwrap().split_once("v1="));
    }
}
