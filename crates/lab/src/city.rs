//! Simulation of a city: devices, a local mechanism and a monitor in one call.
//!
//! Each user is a [`Device`](tidegate_device::Device) with its own ledger. The local mechanism with the lowest error on
//! such a stream queries them. The monitor sees its releases and nothing else.

use std::f64::consts::TAU;
use std::num::{NonZeroU32, NonZeroU64, NonZeroUsize};

use tidegate::local::{Local, LocalKind};
use tidegate::query::{EventKind, Monitor, Query, Rule};
use tidegate_kernel::simulation::standard_normal;
use tidegate_kernel::{Epsilon, SeededRandom, Window};

use crate::advise::typical::scaled;
use crate::advise::{self, AdviseError, Data, Prediction, Request, Simulation, Trust};
use crate::experiment::{RunError, Subject};
use crate::local::{Individuals, LocalSubject, Users, local_settings, policy, run_timestamp};
use crate::metrics::{Metric, Truth};
use crate::stream::{CountStream, DataStream, DataStreamError, as_float};
use crate::subjects;

/// Parameters of the simulation.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct City {
    /// The number of users.
    pub users: NonZeroU32,
    /// Number of days; a timestamp is an hour.
    pub days: NonZeroU32,
    /// Budget of each user in any window.
    pub epsilon: Epsilon,
    /// The window, in hours.
    pub window: NonZeroU64,
    /// Seed of all randomness.
    pub seed: u64,
}

/// The districts.
const DISTRICTS: [&str; 6] = ["old town", "harbour", "station", "university", "stadium", "airport"];
/// Relative sizes of the districts.
const SIZES: [f64; 6] = [1.0, 0.8, 0.7, 0.6, 0.4, 0.3];
/// Number of the district with the event.
pub const STADIUM: u32 = 4;
/// Number of the district that grows.
const AIRPORT: usize = 5;
/// How far the logarithm of a district's share swings in a day, grows in a day, and is moved by chance in an hour.
const SWING: f64 = 0.6;
const GROWTH: f64 = 0.03;
const UNREST: f64 = 0.03;
/// Hours of a day.
const DAY: usize = 24;
/// Hour of the day at which the event starts.
const EVENING: usize = 19;
/// Rise of the log share at the event, and the part of it that is left an hour later.
const BURST: (f64, f64) = (1.6, 0.8);
/// Why it is called an event: the share of users at the stadium, and where it ends.
pub const ALARM: (f64, f64) = (0.3, 0.2);

/// Result of the simulation.
#[derive(Clone, Debug, PartialEq)]
pub struct Shown {
    /// The true counts.
    pub stream: CountStream,
    /// The compared mechanisms by ascending error; the first was used.
    pub compared: Vec<Prediction>,
    /// The released share of each district, by hour.
    pub released: Vec<Vec<f64>>,
    /// Its standard deviation, as the release states it.
    pub deviations: Vec<Vec<f64>>,
    /// The mean squared error of a share.
    pub error: f64,
    /// Greatest spend of any device in any window.
    pub worst_window: Option<Epsilon>,
    /// Number of reports sent.
    pub reports: u64,
    /// The monitored district.
    pub watched: usize,
    /// Each time when the share that was watched was really above the alarm, and when the monitor said so.
    pub alarms: Vec<Alarm>,
}

/// An event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Alarm {
    /// Hour of the start; `None` for a false alarm.
    pub began: Option<u64>,
    /// Hour of the alarm; `None` if the monitor missed it.
    pub found: Option<u64>,
}

/// A simulation that failed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum CityError {
    /// The stream cannot be made.
    #[error(transparent)]
    Stream(#[from] DataStreamError),
    /// No mechanism could be chosen.
    #[error(transparent)]
    Advise(#[from] AdviseError),
    /// The mechanism does not work with this, or failed.
    #[error(transparent)]
    Run(#[from] RunError),
}

impl City {
    /// The true counts: the districts' days, and one evening at the stadium in the middle of them.
    pub fn stream(&self) -> Result<CountStream, DataStreamError> {
        let length = DAY * self.days.get() as usize;
        let random = &mut SeededRandom::with_stream(self.seed, 0);
        let evening = (self.days.get() as usize / 2) * DAY + EVENING;
        let row = |hour: usize| {
            let weight = |(place, size): (usize, f64)| {
                let days = as_float(hour as u64) / as_float(DAY as u64);
                let tide = SWING * (TAU * (days - as_float(place as u64) / as_float(DISTRICTS.len() as u64))).sin();
                let burst = match hour.checked_sub(evening) {
                    Some(since) if place == STADIUM as usize => BURST.0 * BURST.1.powf(as_float(since as u64)),
                    _ => 0.0,
                };
                let growth = if place == AIRPORT { GROWTH * days } else { 0.0 };
                size * (tide + burst + growth + UNREST * standard_normal(random)).exp()
            };
            scaled(&SIZES.into_iter().enumerate().map(weight).collect::<Vec<_>>())
        };
        let rows = (0..length).map(row).collect();
        let labels = DISTRICTS.map(str::to_owned).to_vec();
        CountStream::new("city", labels, rows)?.with_population(self.users.get().into())
    }

    /// Runs the simulation.
    pub fn run(&self, threads: NonZeroUsize) -> Result<Shown, CityError> {
        let stream = self.stream()?;
        let compared = self.compare(&stream, threads)?;
        let kind =
            |prediction: &Prediction| LocalKind::ALL.into_iter().find(|kind| kind.name() == prediction.mechanism);
        let kind = compared.iter().find_map(kind).unwrap_or(LocalKind::Lpu);
        let request = self.request();
        let settings = local_settings(&stream, &request.settings());
        let mut mechanism = Local::new(kind, settings).map_err(RunError::unsupported)?;
        let random = &mut SeededRandom::with_stream(self.seed, 1);
        let mut users = Individuals::new(self.users.get(), policy(&settings), random);
        let rule = Rule::above(Query::counting(STADIUM, 1), ALARM.0).until(ALARM.1);
        let mut monitor = Monitor::new(rule, Window::Timestamps(self.window)).map_err(RunError::failed)?;
        let mut shown = Shown {
            released: Vec::with_capacity(stream.length()),
            deviations: Vec::with_capacity(stream.length()),
            error: 0.0,
            worst_window: None,
            reports: 0,
            watched: STADIUM as usize,
            alarms: Vec::new(),
            stream,
            compared,
        };
        let mut raised = Vec::new();
        for (hour, counts) in (0_u64..).zip(shown.stream.counts().to_vec()) {
            users.arrive(hour, &counts, random)?;
            let release = run_timestamp(&mut mechanism, hour, &mut users, random)?;
            shown.worst_window = shown.worst_window.max(users.most_spent(hour));
            shown.reports += release.reports;
            let observed = monitor.push(&release, Some(self.users.get().into())).map_err(RunError::failed)?;
            if observed.event.is_some_and(|event| event.kind == EventKind::Started) {
                raised.push(hour);
            }
            let (shares, variances) = release.statistic.leaves();
            shown.released.push(shares.to_vec());
            shown.deviations.push(variances.iter().map(|variance| variance.sqrt()).collect());
        }
        shown.alarms = self.alarms(&shown.stream, &raised);
        shown.error = Truth::of(&shown.stream).compare(&shown.released).map_err(RunError::from)?.mse();
        Ok(shown)
    }

    /// Each time when the share that is watched was really above the alarm, and when a monitor said so that raised an
    /// alarm at these hours.
    pub fn alarms(&self, stream: &CountStream, raised: &[u64]) -> Vec<Alarm> {
        let mut alarms = events(stream);
        raised.iter().for_each(|hour| found(&mut alarms, *hour, self.window.get()));
        alarms
    }

    fn request(&self) -> Request {
        let domain = u32::try_from(DISTRICTS.len()).unwrap_or(u32::MAX);
        Request {
            data: Data::Counts { domain, population: NonZeroU64::from(self.users) },
            trust: Trust::Local,
            epsilon: self.epsilon,
            window: self.window,
            delay: 0,
            metric: Metric::Mse,
        }
    }

    /// The errors of mechanisms that react within a window, the lowest first.
    fn compare(&self, stream: &CountStream, threads: NonZeroUsize) -> Result<Vec<Prediction>, CityError> {
        let reacts = |subject: &&dyn Subject| {
            let name = subject.name();
            matches!(name, "lpu" | "lpd" | "lpa" | "local.track")
        };
        // Only those that ask devices can be driven by them.
        let local = |kind: &LocalKind| subjects::by_name(LocalSubject(*kind).name()).ok();
        let subjects: Vec<&'static dyn Subject> = LocalKind::ALL.iter().filter_map(local).filter(reacts).collect();
        let simulation = Simulation { repeats: NonZeroU64::new(3), ..Simulation::new(self.seed, threads) };
        let streams: [DataStream; 1] = [stream.clone().into()];
        let predictions = advise::predict(&self.request(), &subjects, &streams, &simulation)?;
        let mut predictions: Vec<_> = predictions.into_iter().flatten().collect();
        predictions.sort_by(|a, b| a.error.total_cmp(&b.error));
        Ok(predictions)
    }
}

/// When the share that is watched really rises above the alarm.
fn events(stream: &CountStream) -> Vec<Alarm> {
    let mut alarms = Vec::new();
    let mut active = false;
    for (hour, counts) in (0_u64..).zip(stream.counts()) {
        let share = as_float(counts[STADIUM as usize]) / as_float(counts.iter().sum());
        if !active && share > ALARM.0 {
            alarms.push(Alarm { began: Some(hour), found: None });
        }
        active = share > if active { ALARM.1 } else { ALARM.0 };
    }
    alarms
}

/// Notes that an alarm was raised: about the event that began last and was not found yet, or about nothing.
fn found(alarms: &mut Vec<Alarm>, hour: u64, window: u64) {
    let about = |alarm: &&mut Alarm| {
        alarm.found.is_none() && alarm.began.is_some_and(|began| began <= hour && hour - began < window)
    };
    match alarms.iter_mut().rev().find(about) {
        Some(alarm) => alarm.found = Some(hour),
        None => alarms.push(Alarm { began: None, found: Some(hour) }),
    }
}
