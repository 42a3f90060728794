//! What is asked at the moment, as far as the collector tells.

use std::thread;
use std::time::{Duration, Instant};

use tidegate_device::api::OpenQuestions;
use tidegate_device::client::{Client, ClientError};

use super::connection::explain;
use crate::failure::{Failure, complain};

/// How long to wait for news at a time.
const WAIT: Duration = Duration::from_secs(20);
/// How long at least from one request to the next, whatever the collector answers.
const PACE: Duration = Duration::from_millis(100);
/// How long after an answer that was none.
const UNAVAILABLE: Duration = Duration::from_secs(2);

/// Asks a collector again and again, never in haste.
#[derive(Debug)]
pub(crate) struct Polling<'a> {
    client: &'a Client,
    stream: &'a str,
    latest: Option<OpenQuestions>,
}

impl<'a> Polling<'a> {
    /// Nothing is known yet.
    pub(crate) const fn new(client: &'a Client, stream: &'a str) -> Self {
        Self { client, stream, latest: None }
    }

    /// What is asked, once that is news or `patience` is over; `None` where the collector cannot be reached at the
    /// moment.
    pub(crate) fn next(&mut self, patience: Duration) -> Result<Option<&OpenQuestions>, Failure> {
        let start = Instant::now();
        let after = self.latest.as_ref().map(|asking| asking.round);
        match self.client.questions(self.stream, after, patience.min(WAIT)) {
            Ok(asking) => {
                thread::sleep(PACE.saturating_sub(start.elapsed()));
                Ok(Some(self.latest.insert(asking)))
            }
            Err(error @ (ClientError::Unavailable { .. } | ClientError::Answer(_))) => {
                complain("collector", error);
                thread::sleep(UNAVAILABLE.saturating_sub(start.elapsed()));
                Ok(None)
            }
            Err(error) => Err(explain(error)),
        }
    }
}
