//! Long polling for open questions.

use std::thread;
use std::time::{Duration, Instant};

use tidegate_device::api::OpenQuestions;
use tidegate_device::client::{Client, ClientError};

use super::connection::explain;
use crate::failure::{Failure, complain};

/// Longest wait for an answer.
const WAIT: Duration = Duration::from_secs(20);
/// Shortest time between two requests.
const PACE: Duration = Duration::from_millis(100);
/// Pause after a failed request.
const UNAVAILABLE: Duration = Duration::from_secs(2);

/// Polls a collector for open questions, at a limited rate.
#[derive(Debug)]
pub(crate) struct Polling<'a> {
    client: &'a Client,
    stream: &'a str,
    latest: Option<OpenQuestions>,
}

impl<'a> Polling<'a> {
    pub(crate) const fn new(client: &'a Client, stream: &'a str) -> Self {
        Self { client, stream, latest: None }
    }

    /// Returns the open questions once they change or `patience` is over; `None` if the collector is unreachable.
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
