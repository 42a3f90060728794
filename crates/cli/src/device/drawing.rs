//! [`Drawing`]: credentials and tokens of a simulated fleet.

use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};

use tidegate_device::client::Client;
use tidegate_device::credential::{BLOCK, Credential, Draw, ReportToken};
use tidegate_device::enrolment::StreamPolicy;
use tidegate_device::wire::StreamTag;
use tidegate_kernel::SeededRandom;

use super::connection::Server;
use super::population::{Member, noise_stream};
use crate::failure::{Failure, complain};
use crate::stream::{MOST_CREDENTIALS, credentials};

/// The credentials of a fleet's devices, by number, and the key of their tokens.
#[derive(Debug)]
pub(crate) struct Drawing {
    credentials: Vec<Credential>,
    issuer: [u8; 32],
    stream: StreamTag,
    seed: u64,
    /// Whether a failure was told.
    has_failed: AtomicBool,
}

impl Drawing {
    /// Gets the credentials with an operator's token; `None` for a stream without credentials.
    pub(crate) fn new(
        server: &Server,
        operator: Option<&Path>,
        policy: &StreamPolicy,
        devices: u32,
        seed: u64,
    ) -> Result<Option<Self>, Failure> {
        let Some(issuer) = policy.issuer else { return Ok(None) };
        let path = operator.ok_or_else(|| {
            Failure::input(
                "the stream counts reports with tokens only: --operator-token-file FILE has the operator's token, with \
                 which the fleet gets credentials",
            )
        })?;
        let token = std::fs::read_to_string(path)
            .map_err(|error| Failure::input(format_args!("{} cannot be read: {error}", path.display())))?;
        let client = server.client_with(Some(&token), 1)?;
        let names: Vec<String> = (0..devices).map(|number| format!("fleet-{seed}-{number}")).collect();
        let mut all = Vec::with_capacity(names.len());
        for names in names.chunks(MOST_CREDENTIALS) {
            all.extend(credentials(&client, &policy.stream, names)?);
        }
        let (stream, has_failed) = (StreamTag::of(&policy.stream), AtomicBool::new(false));
        Ok(Some(Self { credentials: all, issuer, stream, seed, has_failed }))
    }

    /// Returns a device's token of a timestamp, and draws its block first where that is not done. `None` after a
    /// failure.
    pub(crate) fn token(
        &self,
        client: &Client,
        policy: &StreamPolicy,
        member: &mut Member,
        timestamp: u64,
    ) -> Option<ReportToken> {
        let block = timestamp / BLOCK;
        if member.tokens.as_ref().is_none_or(|draw| draw.block() != block) {
            // From the seed: a fleet that is started again draws the same.
            let stream = noise_stream(block, u16::MAX, member.number);
            let mut draw = Draw::new(block, &mut SeededRandom::with_stream(self.seed, stream));
            let request = draw.request(self.credentials.get(member.number as usize)?);
            let drawn = client
                .draw(&policy.stream, &request)
                .map_err(|error| error.to_string())
                .and_then(|answer| draw.finish(self.stream, &self.issuer, &answer).map_err(|error| error.to_string()));
            if let Err(error) = drawn {
                if !self.has_failed.swap(true, Ordering::Relaxed) {
                    complain("collector", format_args!("a device gets no tokens: {error}"));
                }
                return None;
            }
            member.tokens = Some(Box::new(draw));
        }
        member.tokens.as_ref()?.token(self.stream, timestamp)
    }
}
