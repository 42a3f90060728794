//! [`Queues`]: messages that wait, a queue for each URL.

use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use super::delivery::Attempt;
use super::{Outcome, WebhookSettings};

/// Most messages of all queues.
const MOST: usize = 10_000;

/// A message to a URL.
#[derive(Clone, Debug)]
pub(super) struct Message {
    pub(super) stream: Arc<str>,
    pub(super) body: Arc<str>,
}

/// Messages of a URL, which are sent in order.
#[derive(Debug)]
struct Queue {
    messages: VecDeque<Message>,
    /// Attempts of the first message.
    attempts: u32,
    /// Failures in a row, of any messages.
    failures: u32,
    /// Time of the next attempt.
    due: Instant,
    is_sending: bool,
}

#[derive(Debug, Default)]
struct State {
    queues: HashMap<Arc<str>, Queue>,
    messages: usize,
    has_stopped: bool,
}

/// The queues of all URLs, for the threads that send.
#[derive(Debug)]
pub(super) struct Queues {
    state: Mutex<State>,
    changed: Condvar,
    most: usize,
    attempts: u32,
    pause: (Duration, Duration),
}

impl Queues {
    pub(super) fn new(settings: &WebhookSettings) -> Self {
        Self {
            state: Mutex::default(),
            changed: Condvar::new(),
            most: settings.queue.max(1),
            attempts: settings.attempts.max(1),
            pause: (settings.pause, settings.longest_pause),
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Queues a message; returns false where the queue is full.
    pub(super) fn add(&self, url: String, message: Message) -> bool {
        let mut state = self.state();
        let State { queues, messages, .. } = &mut *state;
        if *messages >= MOST {
            return false;
        }
        let queue = queues.entry(url.into()).or_insert_with(|| Queue {
            messages: VecDeque::new(),
            attempts: 0,
            failures: 0,
            due: Instant::now(),
            is_sending: false,
        });
        if queue.messages.len() >= self.most {
            return false;
        }
        queue.messages.push_back(message);
        *messages += 1;
        self.changed.notify_one();
        true
    }

    /// Waits for the next attempt that is due; `None` when the queues have stopped.
    pub(super) fn next(&self) -> Option<(Arc<str>, Message)> {
        let mut state = self.state();
        loop {
            if state.has_stopped {
                return None;
            }
            let now = Instant::now();
            // A URL without messages is kept until its pause is over.
            state.queues.retain(|_, queue| queue.is_sending || !queue.messages.is_empty() || queue.due > now);
            let ready = state.queues.iter_mut().filter(|(_, queue)| !queue.is_sending && !queue.messages.is_empty());
            let first = ready.min_by_key(|(_, queue)| queue.due);
            let wait = match first {
                Some((url, queue)) if queue.due <= now => {
                    queue.is_sending = true;
                    queue.attempts += 1;
                    return queue.messages.front().map(|message| (Arc::clone(url), message.clone()));
                }
                Some((_, queue)) => queue.due - now,
                None => Duration::MAX,
            };
            state = match wait {
                Duration::MAX => self.changed.wait(state).unwrap_or_else(PoisonError::into_inner),
                wait => self.changed.wait_timeout(state, wait).unwrap_or_else(PoisonError::into_inner).0,
            };
        }
    }

    /// Ends an attempt of the first message of a URL.
    pub(super) fn finish(&self, url: &str, attempt: &Attempt) -> Outcome {
        let mut state = self.state();
        let State { queues, messages, .. } = &mut *state;
        // A queue with an attempt is never removed.
        let Some(queue) = queues.get_mut(url) else { return Outcome::Dropped };
        queue.is_sending = false;
        let outcome = match attempt {
            Attempt::Delivered => Outcome::Delivered,
            Attempt::Refused(_) => Outcome::Refused,
            Attempt::Failed(_) if queue.attempts >= self.attempts => Outcome::Failed,
            Attempt::Failed(_) => Outcome::Retried,
        };
        queue.failures = if matches!(attempt, Attempt::Failed(_)) { queue.failures + 1 } else { 0 };
        let (pause, longest) = self.pause;
        let doubled = |failures: u32| pause.saturating_mul(1 << (failures - 1).min(20)).min(longest);
        queue.due = Instant::now() + queue.failures.checked_sub(1).map_or(Duration::ZERO, |_| doubled(queue.failures));
        if !matches!(outcome, Outcome::Retried) {
            queue.messages.pop_front();
            queue.attempts = 0;
            *messages -= 1;
        }
        self.changed.notify_one();
        outcome
    }

    pub(super) fn has_stopped(&self) -> bool {
        self.state().has_stopped
    }

    /// Drops all messages, and ends the threads.
    pub(super) fn stop(&self) {
        self.state().has_stopped = true;
        self.changed.notify_all();
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    fn message(body: &str) -> Message {
        Message { stream: "s".into(), body: body.into() }
    }

    fn failed() -> Attempt {
        Attempt::Failed(String::new())
    }

    #[test]
    fn bounds_and_orders_the_messages_of_each_url() {
        let queues = Queues::new(&WebhookSettings { queue: 2, ..WebhookSettings::default() });
        let add = |url: &str, body: &str| queues.add(url.to_owned(), message(body));
        assert!(add("a", "1") && add("a", "2") && !add("a", "3") && add("b", "4"));
        let (one, two) = (queues.next().unwrap(), queues.next().unwrap());
        assert_eq!([&*one.1.body, &*two.1.body], ["1", "4"], "one attempt of a URL at a time");
        queues.finish(&one.0, &Attempt::Delivered);
        assert_eq!(&*queues.next().unwrap().1.body, "2");
        queues.stop();
        assert!(queues.next().is_none());
    }

    #[test]
    fn pauses_a_failing_url_longer_and_longer() {
        let (pause, longest_pause) = (Duration::from_secs(10), Duration::from_secs(60));
        let settings = WebhookSettings { attempts: 2, pause, longest_pause, ..WebhookSettings::default() };
        let queues = Queues::new(&settings);
        (0..3).for_each(|_| assert!(queues.add("a".to_owned(), message("x"))));
        let pauses: Vec<u64> = (0..5)
            .map(|_| {
                queues.state().queues.get_mut("a").unwrap().due = Instant::now();
                queues.next().unwrap();
                queues.finish("a", &failed());
                (queues.state().queues["a"].due - Instant::now()).as_secs() + 1
            })
            .collect();
        assert_eq!(pauses, [10, 20, 40, 60, 60], "also over several messages");
        assert_eq!(queues.state().messages, 1, "two messages were given up");
        queues.state().queues.get_mut("a").unwrap().due = Instant::now();
        queues.next().unwrap();
        assert_eq!(queues.finish("a", &Attempt::Delivered).name(), "delivered");
        assert_eq!(queues.state().messages, 0);
    }
}
