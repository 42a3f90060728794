//! [`Declaration`] of a stream by its operator, and the [`Schedule`] of its ticks.

use std::num::NonZeroU64;

use serde::{Deserialize, Serialize};
use tidegate::central::classes::Classes;
use tidegate::kernel::oracle::OracleKind;
use tidegate::kernel::{VaultKey, Window};
use tidegate::mechanisms::Family;
use tidegate::release::why::Reason;
use tidegate::spec::{
    ColumnsSpec, Duplicates, Empty, Every, InputSpec, MonitorSpec, SpecError, StandingQueries, StreamSpec,
};
use tidegate::stream::Stream;
use tidegate_device::DevicePolicy;
use tidegate_device::clock::Ticks;
use tidegate_device::enrolment::{MAX_NAME, PolicyError, StreamPolicy, is_name};
use tidegate_device::wire::StreamTag;
use tidegate_table::time::Clock;

use crate::driver::DriveError;
use crate::retention::Retention;
use crate::sequence::{self, SequenceCounter};

/// Declaration of a stream. Its guarantee never changes: another guarantee needs another stream.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Declaration {
    /// Name: lower-case letters, digits, `_` and `-`.
    pub name: String,
    /// Length of a timestamp, in seconds.
    pub tick: NonZeroU64,
    /// Beginning of timestamp 0, in seconds since 1970.
    #[serde(default)]
    pub epoch: u64,
    /// Mechanism, privacy parameters, queries and monitors.
    pub spec: StreamSpec,
    /// How many ticks longer a tick takes events of a curated stream.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub lateness: u64,
    /// Whether a curated stream takes its history first. Resuming it makes it live, for ever.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub backfill: bool,
    /// Whether only reports with tokens count, which devices draw with credentials.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub credentials: bool,
    /// URLs that get the answers of its monitors.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub webhooks: Vec<String>,
    /// How long its releases and answers are kept.
    #[serde(default, skip_serializing_if = "Retention::is_unlimited")]
    pub retention: Retention,
}

/// Longest tick, in seconds: a leap year.
pub const MAX_TICK: u64 = 366 * 86_400;

/// Longest lateness, in ticks.
pub const MAX_LATENESS: u64 = 100;

#[allow(clippy::trivially_copy_pass_by_ref)] // serde wants a reference
const fn is_zero(number: &u64) -> bool {
    *number == 0
}

/// Error of a declaration.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[non_exhaustive]
#[allow(missing_docs)]
pub enum DeclarationError {
    #[error("name: a stream's name has 1 to {MAX_NAME} lower-case letters, digits, _ and -")]
    Name,
    #[error("spec{key}: {error}", key = .0.key().map(|key| format!(".{key}")).unwrap_or_default(), error = .0)]
    Spec(#[from] SpecError),
    #[error("spec.mechanism: the service does not run {mechanism}: {why}")]
    NotServed { mechanism: String, why: &'static str },
    #[error("spec.{key}: {problem}")]
    Devices { key: &'static str, problem: String },
    #[error(transparent)]
    Policy(#[from] PolicyError),
    #[error("tick: {given} seconds are more than {MAX_TICK}, a year, the most")]
    Tick { given: u64 },
    #[error("webhooks: {given:?} is no http or https URL")]
    Webhook { given: String },
    #[error("retention.{0}")]
    Retention(&'static str),
    #[error("lateness: {given} ticks are more than {MAX_LATENESS}, the most")]
    Lateness { given: u64 },
    #[error("backfill: devices answer no questions about the past; delete this key")]
    BackfillOfDevices,
    #[error("credentials: a trusted curator has no devices that report; delete this key")]
    CredentialsOfCurator,
    #[error("lateness: devices answer while a question is open; delete this key")]
    LatenessOfDevices,
    #[error("spec.timeline: the service has a schedule of its own; delete this key")]
    Timeline,
    #[error("spec.{key}: the service takes events, not tables; delete this key")]
    Table { key: &'static str },
    #[error("spec.every: a timestamp is as long as a tick: give {tick}, or delete this key")]
    Every { tick: Every },
    #[error(
        "spec.family: a cluster counts reports of devices; run this stream by tidegate serve, on a store of its own"
    )]
    CuratorOfCluster,
    #[error("credentials: gateways do not share who has drawn tokens; delete this key, or run it by tidegate serve")]
    CredentialsOfCluster,
    #[error("{key}: stream {name} was created with another value, which never changes; declare a new stream")]
    Changed { name: String, key: &'static str },
}

impl Declaration {
    /// Checks the declaration.
    ///
    /// # Errors
    /// The first error found.
    pub fn check(&self) -> Result<(), DeclarationError> {
        if !is_name(&self.name) {
            return Err(DeclarationError::Name);
        }
        if self.tick.get() > MAX_TICK {
            return Err(DeclarationError::Tick { given: self.tick.get() });
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
        self.retention.kept(self.tick).map_err(DeclarationError::Retention)?;
        if self.backfill && !self.is_curated() {
            return Err(DeclarationError::BackfillOfDevices);
        }
        if self.credentials && self.is_curated() {
            return Err(DeclarationError::CredentialsOfCurator);
        }
        match self.lateness {
            0 => {}
            _ if !self.is_curated() => return Err(DeclarationError::LatenessOfDevices),
            given if given > MAX_LATENESS => return Err(DeclarationError::Lateness { given }),
            _ => {}
        }
        if self.spec.declares_timeline() {
            return Err(DeclarationError::Timeline);
        }
        let InputSpec { columns, every, origin, duplicates, empty, series, series_names, across_series } =
            self.spec.input();
        let of_tables = [
            ("columns", *columns != ColumnsSpec::default()),
            ("origin", origin.is_some()),
            ("duplicates", *duplicates != Duplicates::default()),
            ("empty", *empty != Empty::default()),
            ("series", series.is_some()),
            ("series_names", series_names.is_some()),
            ("across_series", across_series.is_some()),
        ];
        if let Some((key, _)) = of_tables.into_iter().find(|(_, given)| *given) {
            return Err(DeclarationError::Table { key });
        }
        let tick = Every::of_seconds(self.tick);
        if every.is_some_and(|every| every != tick) {
            return Err(DeclarationError::Every { tick });
        }
        self.new_stream()?;
        // Devices are stricter than a mechanism.
        if let Some(policy) = self.policy([0; 16])? {
            policy.check()?;
        }
        SequenceCounter::of(self)?;
        Ok(())
    }

    /// Makes the stream, at its beginning.
    ///
    /// # Errors
    /// An invalid spec, or a mechanism that the service does not run.
    pub(crate) fn new_stream(&self) -> Result<Stream, DeclarationError> {
        let mechanism = self.spec.mechanism();
        if mechanism.family == Family::Local && mechanism.by_class {
            let why = "devices with classes are for `tidegate release`";
            return Err(DeclarationError::NotServed { mechanism: mechanism.name().to_owned(), why });
        }
        Ok(Stream::new(self.spec.clone())?)
    }

    /// Loads the stream. State of other queries and monitors is dropped, which costs nothing.
    pub(crate) fn load_stream(&self, saved: &[u8], key: Option<&VaultKey>) -> Result<Stream, DriveError> {
        self.new_stream()?;
        Stream::load(self.spec.clone(), saved, key).map_err(|error| DriveError::of_state(error, &self.name))
    }

    /// Creates its standing queries; `None` where it has neither queries nor monitors.
    pub(crate) fn standing_queries(&self) -> Result<Option<StandingQueries>, DeclarationError> {
        Ok(self.spec.standing_queries()?)
    }

    /// Returns the clock that gives timestamps their times, where the spec says `every`.
    pub(crate) fn times(&self) -> Clock {
        self.spec.input().every.map_or_else(Clock::default, |every| Clock::of_ticks(every, self.epoch))
    }

    /// Returns the classes that its users choose from; `None` where all have the same guarantee.
    ///
    /// # Errors
    /// Invalid classes.
    pub fn classes(&self) -> Result<Option<Classes>, DeclarationError> {
        match &self.spec {
            StreamSpec::Central(spec) if self.spec.mechanism().by_class => Ok(Some(spec.classes()?)),
            _ => Ok(None),
        }
    }

    /// Returns the clock of its timestamps.
    pub const fn ticks(&self) -> Ticks {
        Ticks { epoch: self.epoch, seconds: self.tick }
    }

    /// Returns the schedule of its ticks.
    pub fn schedule(&self) -> Schedule {
        let schedule = Schedule { ticks: self.ticks(), rounds: self.rounds(), offset: 0 };
        let places = STAGGER.min(schedule.length() / 20) + 1;
        let place =
            StreamTag::of(&self.name).as_bytes().iter().fold(0, |sum, byte| (sum << 8 | u64::from(*byte)) % places);
        Schedule { offset: place, ..schedule }
    }

    /// How often devices are asked at one timestamp, at most: to decide whether to publish, and to publish.
    fn rounds(&self) -> u64 {
        u64::from(self.spec.mechanism().rounds).max(1)
    }

    /// Returns the policy for devices, with the key that assigns their slots; `None` for a curated stream. The key of
    /// tokens belongs to the service, and is missing.
    ///
    /// # Errors
    /// A spec that devices cannot follow.
    pub fn policy(&self, slot_key: [u8; 16]) -> Result<Option<StreamPolicy>, DeclarationError> {
        let (protects, oracle, sequence) = match &self.spec {
            StreamSpec::Local(spec) => {
                let settings = spec.settings()?;
                let window = Window::Timestamps(settings.window);
                let protects = DevicePolicy { epsilon: settings.epsilon, window, domain: settings.domain };
                // Devices with numbers answer nothing but their mean.
                let oracle = if spec.has_numbers() { Some(OracleKind::Piecewise) } else { spec.oracle };
                (protects, oracle, None)
            }
            StreamSpec::Sequence(spec) => {
                let (protects, sequence) = sequence::policy(spec)?;
                (protects, None, Some(sequence))
            }
            _ => return Ok(None),
        };
        let (stream, ticks) = (self.name.clone(), self.ticks());
        Ok(Some(StreamPolicy { stream, protects, oracle, ticks, slot_key, sequence, issuer: None }))
    }

    /// Checks that it keeps the guarantee of an earlier declaration. Queries, monitors, webhooks, retention and whether
    /// releases have times may differ.
    ///
    /// # Errors
    /// [`DeclarationError::Changed`].
    pub fn follows(&self, earlier: &Self) -> Result<(), DeclarationError> {
        let changed = |key| Err(DeclarationError::Changed { name: self.name.clone(), key });
        if self.ticks() != earlier.ticks() {
            return changed(if self.tick == earlier.tick { "epoch" } else { "tick" });
        }
        if self.lateness != earlier.lateness {
            return changed("lateness");
        }
        if self.credentials != earlier.credentials {
            return changed("credentials");
        }
        let bare = |declaration: &Self| {
            let mut spec = declaration.spec.clone();
            *spec.input_mut() = InputSpec::default();
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

    /// Names of its monitors.
    pub(crate) fn monitors(&self) -> Vec<String> {
        self.monitor_specs().iter().map(|monitor| monitor.name.clone()).collect()
    }

    /// Whether it has monitors.
    pub(crate) const fn has_monitors(&self) -> bool {
        !self.monitor_specs().is_empty()
    }

    const fn monitor_specs(&self) -> &[MonitorSpec] {
        match &self.spec {
            StreamSpec::Local(spec) => spec.monitors.as_slice(),
            StreamSpec::Central(spec) => spec.monitors.as_slice(),
            _ => &[],
        }
    }

    /// The reason of its releases, where their cost does not tell it.
    pub(crate) fn usual_reason(&self) -> Option<Reason> {
        let mechanism = self.spec.mechanism();
        match (mechanism.family, mechanism.short_name) {
            (Family::Scalar, "constant") => None,
            (Family::Scalar, "laplace" | "clamped" | "track") => Some(Reason::Reading),
            (Family::Scalar, _) => Some(Reason::Held),
            _ => None,
        }
    }

    /// Whether a trusted curator sees raw values, which come as events.
    pub const fn is_curated(&self) -> bool {
        matches!(self.spec, StreamSpec::Central(_) | StreamSpec::Scalar(_))
    }
}

/// Schedule of a stream's ticks, in milliseconds since 1970. It is fixed in advance, so timing tells nothing.
///
/// Rounds of questions divide the first nine tenths of a tick evenly, and the release is published when the tick is
/// over. A curated stream collects events for the whole tick, releases them when it is over, and publishes after a
/// fifth of the next one. With a lateness, it releases and publishes as many ticks later.
///
/// Rounds close and releases are published later by an offset, so that many streams do not need the disk at once. It is
/// up to a second and a twentieth of a tick, and follows from the stream's name alone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Schedule {
    ticks: Ticks,
    rounds: u64,
    /// In milliseconds.
    offset: u64,
}

/// Largest offset of a schedule, in milliseconds.
const STAGGER: u64 = 1_000;

impl Schedule {
    /// Returns the timestamp of a moment; `None` before the epoch.
    pub fn timestamp(&self, now: u64) -> Option<u64> {
        self.ticks.timestamp(now / 1_000)
    }

    /// Returns the beginning of a timestamp.
    pub const fn begins(&self, timestamp: u64) -> u64 {
        let since = timestamp.saturating_mul(self.ticks.seconds.get());
        self.ticks.epoch.saturating_add(since).saturating_mul(1_000)
    }

    /// Returns the end of a timestamp.
    pub const fn ends(&self, timestamp: u64) -> u64 {
        self.begins(timestamp.saturating_add(1))
    }

    /// Returns the length of a tick.
    pub const fn length(&self) -> u64 {
        self.ticks.seconds.get().saturating_mul(1_000)
    }

    /// Returns the deadline of a round of questions, from zero.
    pub fn closes(&self, timestamp: u64, round: u64) -> u64 {
        let part = self.length() / 10 * 9 / self.rounds * (round + 1).min(self.rounds);
        self.begins(timestamp).saturating_add(part).saturating_add(self.offset)
    }

    /// Returns the time of publication for a stream of devices.
    pub const fn due(&self, timestamp: u64) -> u64 {
        self.ends(timestamp).saturating_add(self.offset)
    }

    /// Returns the time of publication for a curated stream.
    pub const fn due_curated(&self, timestamp: u64) -> u64 {
        self.due(timestamp).saturating_add(self.length() / 5)
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    fn schedule(name: &str, tick: u64) -> Schedule {
        let declaration = serde_json::json!({ "name": name, "tick": tick, "spec": {
            "family": "local", "mechanism": "lpa", "epsilon": 1, "window": 2, "population": 10, "domain": 4,
        } });
        serde_json::from_value::<Declaration>(declaration).unwrap().schedule()
    }

    #[test]
    fn streams_are_spread_over_a_twentieth_of_a_tick() {
        for (tick, largest) in [(1, 50), (10, 500), (20, 1_000), (3_600, 1_000)] {
            let mut in_quarters = [0; 4];
            for number in 0..1_000 {
                let schedule = schedule(&format!("stream-{number}"), tick);
                let offset = schedule.due(7) - schedule.ends(7);
                assert!(offset <= largest, "{offset} of {largest}");
                in_quarters[usize::try_from(4 * offset / (largest + 1)).unwrap()] += 1;
                // The last round closes while devices still believe in the tick.
                assert!(schedule.closes(7, 1) < schedule.ends(7) - schedule.length() / 25);
                assert_eq!(schedule.due_curated(7), schedule.due(7) + tick * 200);
            }
            assert!(in_quarters.iter().all(|count| *count > 180), "{in_quarters:?}");
        }
        assert_eq!(schedule("rooms", 60), schedule("rooms", 60));
    }
}
