//! [`Declaration`]: what an operator declares about a stream; [`Schedule`]: when what happens in a tick.

use std::num::NonZeroU64;

use serde::{Deserialize, Serialize};
use tidegate::kernel::Window;
use tidegate::local::LocalKind;
use tidegate::spec::{SpecError, StandingQueries, StreamSpec};
use tidegate_device::Policy;
use tidegate_device::clock::Ticks;
use tidegate_device::enrolment::{MAX_NAME, StreamPolicy, is_name};

use crate::driver::machine::Machine;

/// What an operator declares about a stream. What it promises never changes: another guarantee is another stream.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Declaration {
    /// Its name: lower-case letters, digits, `_` and `-`.
    pub name: String,
    /// How long a timestamp lasts, in seconds.
    pub tick: NonZeroU64,
    /// When timestamp 0 begins, in seconds since 1970.
    #[serde(default)]
    pub epoch: u64,
    /// What is released, and how private that is.
    pub spec: StreamSpec,
    /// Where what its monitors say is sent to: URLs.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub webhooks: Vec<String>,
}

/// Why a declaration is not accepted.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum DeclarationError {
    /// A name that is none.
    #[error("name: a stream's name has 1 to {MAX_NAME} lower-case letters, digits, _ and -")]
    Name,
    /// A spec that cannot be followed.
    #[error("spec{key}: {error}", key = .0.key().map(|key| format!(".{key}")).unwrap_or_default(), error = .0)]
    Spec(#[from] SpecError),
    /// A mechanism that this service does not run.
    #[error("spec.mechanism: {mechanism} is not one that the service runs: {why}")]
    NotServed {
        /// The mechanism.
        mechanism: String,
        /// What to do instead.
        why: &'static str,
    },
    /// A webhook that is no URL of the web.
    #[error("webhooks: {given:?} is no http or https URL")]
    Webhook {
        /// What was given.
        given: String,
    },
    /// A timeline, which only `tidegate release` follows.
    #[error("spec.timeline: the schedule of the service says which timestamps there are; delete this key")]
    Timeline,
    /// It promises something else than the stream of this name does.
    #[error(
        "{key}: stream {name} was created with another; what a stream promises never changes, so declare a new stream"
    )]
    Changed {
        /// The stream.
        name: String,
        /// What differs.
        key: &'static str,
    },
}

impl Declaration {
    /// That it can be followed.
    ///
    /// # Errors
    /// What cannot.
    pub fn check(&self) -> Result<(), DeclarationError> {
        if !is_name(&self.name) {
            return Err(DeclarationError::Name);
        }
        let is_url = |url: &String| {
            let rest = url.strip_prefix("http://").or_else(|| url.strip_prefix("https://"));
            rest.is_some_and(|rest| {
                !rest.is_empty() && !rest.starts_with('/') && rest.bytes().all(|byte| byte.is_ascii_graphic())
            })
        };
        if let Some(given) = self.webhooks.iter().find(|url| !is_url(url)) {
            return Err(DeclarationError::Webhook { given: given.chars().take(80).collect() });
        }
        let declares_timeline = match &self.spec {
            StreamSpec::Local(spec) => spec.timeline.is_some(),
            StreamSpec::Central(spec) => spec.timeline.is_some(),
            StreamSpec::Scalar(spec) => spec.timeline.is_some(),
            _ => false,
        };
        if declares_timeline {
            return Err(DeclarationError::Timeline);
        }
        Machine::new(self)?;
        self.standing_queries()?;
        Ok(())
    }

    /// What answers its queries and runs its monitors; `None` where there are none.
    pub(crate) fn standing_queries(&self) -> Result<Option<StandingQueries>, DeclarationError> {
        let queries = match &self.spec {
            StreamSpec::Local(spec) => spec.standing_queries()?,
            StreamSpec::Central(spec) => spec.standing_queries()?,
            _ => return Ok(None),
        };
        Ok((!queries.is_idle()).then_some(queries))
    }

    /// When its timestamps are.
    pub const fn ticks(&self) -> Ticks {
        Ticks { epoch: self.epoch, seconds: self.tick }
    }

    /// When what happens in its ticks.
    pub fn schedule(&self) -> Schedule {
        Schedule { ticks: self.ticks(), rounds: self.rounds() }
    }

    /// How often devices are asked at one timestamp, at most: to decide whether to publish, and to publish.
    const fn rounds(&self) -> u64 {
        match &self.spec {
            StreamSpec::Local(spec) => match spec.mechanism {
                LocalKind::Lbu | LocalKind::Lsp | LocalKind::Lpu | LocalKind::Track => 1,
                LocalKind::Lbd
                | LocalKind::Lba
                | LocalKind::Lpd
                | LocalKind::Lpa
                | LocalKind::Mtsp
                | LocalKind::MtspPopulation => 2,
            },
            _ => 1,
        }
    }

    /// What devices are promised, under a key that puts them into slots; `None` where no devices are asked.
    ///
    /// # Errors
    /// If the domain is none.
    pub fn policy(&self, slot_key: [u8; 16]) -> Result<Option<StreamPolicy>, DeclarationError> {
        let StreamSpec::Local(spec) = &self.spec else { return Ok(None) };
        let protects =
            Policy { epsilon: spec.epsilon, window: Window::Timestamps(spec.window), domain: spec.values()?.count() };
        let (stream, oracle, ticks) = (self.name.clone(), spec.oracle, self.ticks());
        Ok(Some(StreamPolicy { stream, protects, oracle, ticks, slot_key }))
    }

    /// That what this one promises is what an earlier one of the same name does. Queries, monitors and webhooks may
    /// differ.
    ///
    /// # Errors
    /// [`DeclarationError::Changed`].
    pub fn follows(&self, earlier: &Self) -> Result<(), DeclarationError> {
        let changed = |key| Err(DeclarationError::Changed { name: self.name.clone(), key });
        if self.ticks() != earlier.ticks() {
            return changed(if self.tick == earlier.tick { "epoch" } else { "tick" });
        }
        let bare = |declaration: &Self| {
            let mut spec = declaration.spec.clone();
            match &mut spec {
                StreamSpec::Local(spec) => {
                    spec.queries.clear();
                    spec.monitors.clear();
                }
                StreamSpec::Central(spec) => {
                    spec.queries.clear();
                    spec.monitors.clear();
                }
                _ => {}
            }
            spec
        };
        if bare(self) == bare(earlier) { Ok(()) } else { changed("spec") }
    }

    /// Whether somebody is trusted with raw values, which then come as events.
    pub const fn is_curated(&self) -> bool {
        matches!(self.spec, StreamSpec::Central(_) | StreamSpec::Scalar(_))
    }
}

/// When what happens in a stream's ticks, in milliseconds since 1970. All of it is fixed in advance, so that timing
/// tells nothing.
///
/// Devices are asked at the beginning of a tick. Their rounds are over after nine tenths of it, evenly divided; what is
/// released is published when the tick is over. A curator's events are taken for as long as the tick lasts; they are
/// released when it is over, and published after a fifth of the next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Schedule {
    ticks: Ticks,
    rounds: u64,
}

impl Schedule {
    /// The timestamp of a moment; `None` before the epoch.
    pub fn timestamp(&self, now: u64) -> Option<u64> {
        self.ticks.timestamp(now / 1_000)
    }

    /// When a timestamp begins.
    pub const fn begins(&self, timestamp: u64) -> u64 {
        let since = timestamp.saturating_mul(self.ticks.seconds.get());
        self.ticks.epoch.saturating_add(since).saturating_mul(1_000)
    }

    /// When it is over.
    pub const fn ends(&self, timestamp: u64) -> u64 {
        self.begins(timestamp.saturating_add(1))
    }

    /// How long a tick lasts.
    pub const fn length(&self) -> u64 {
        self.ticks.seconds.get().saturating_mul(1_000)
    }

    /// When a round of questions (from zero) closes.
    pub fn closes(&self, timestamp: u64, round: u64) -> u64 {
        let part = self.length() / 10 * 9 / self.rounds * (round + 1).min(self.rounds);
        self.begins(timestamp).saturating_add(part)
    }

    /// When what devices reported is published.
    pub const fn due(&self, timestamp: u64) -> u64 {
        self.ends(timestamp)
    }

    /// When what a curator was told is published.
    pub const fn due_curated(&self, timestamp: u64) -> u64 {
        self.ends(timestamp).saturating_add(self.length() / 5)
    }
}
