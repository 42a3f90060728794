//! `tidegate demo`: a city's traffic, published under privacy, in a minute.

use std::collections::BTreeMap;
use std::env;
use std::fs;
use std::num::{NonZeroU32, NonZeroU64, NonZeroUsize};
use std::path::{Path, PathBuf};
use std::process;
use std::str::FromStr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, channel};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use clap::Args;
use serde_json::{Value, json};
use tidegate::release::Release;
use tidegate_device::client::Client;
use tidegate_kernel::Epsilon;
use tidegate_lab::CountStream;
use tidegate_lab::city::{ALARM, Alarm, City, CityError, STADIUM, Shown};
use tidegate_lab::experiment::RunError;
use tidegate_lab::metrics::Truth;
use tidegate_lab::plot::{Axis, Chart, Panel, Point, Series};
use tidegate_release::gate::Reader;
use tidegate_server::http::auth::Role;
use tidegate_server::service::now;
use tidegate_server::stream::Declaration;

use crate::arguments::at_least_one;
use crate::canvas::Canvas;
use crate::device::connection::{Connection, Server, explain};
use crate::device::fleet::{Answered, Fleet};
use crate::failure::{Failure, complain};
use crate::output::Output;
use crate::query::Listed;
use crate::service::config::Config;
use crate::service::init;
use crate::service::serve::background::Background;
use crate::table::short;
use tidegate_release::files::write_private;

/// Show the main job on simulated data: a city's traffic, from devices to an alarm.
///
/// A service starts on this machine, with its store in a temporary folder, and a fleet of simulated
/// devices, each with a ledger of its own, answers it over HTTP. Hour by hour, of a second each, it
/// publishes how they are spread over the districts of a city, and a monitor watches what is published
/// for a rush at the stadium. What is released is shown as it comes, beside the truth, which nobody
/// knows but the simulation; a page in the browser shows it, too. At the end there is a chart, and a
/// picture of it as SVG.
///
/// With --offline nothing is started: the devices are asked within this process, for a week, by
/// the mechanism with the lowest error on such a stream.
#[derive(Debug, Args)]
#[command(
    verbatim_doc_comment,
    after_help = "Example:\n  tidegate demo --epsilon 0.5 --out pictures\n  tidegate demo --keep\n\n\
                  Colours are used on a terminal, unless NO_COLOR is set."
)]
pub(crate) struct Demo {
    /// The number of users
    #[arg(long, value_name = "N", default_value = "100000", value_parser = at_least_one::<NonZeroU32>)]
    users: NonZeroU32,

    /// How many days to show, of 24 timestamps each; 2 unless given, 7 with --offline
    #[arg(long, value_name = "N", value_parser = at_least_one::<NonZeroU32>)]
    days: Option<NonZeroU32>,

    /// Show so many hours only
    #[arg(long, value_name = "N", value_parser = at_least_one::<NonZeroUsize>, conflicts_with = "offline")]
    hours: Option<NonZeroUsize>,

    /// The privacy budget of each user in any window
    #[arg(long, default_value = "2", value_parser = Epsilon::from_str)]
    epsilon: Epsilon,

    /// The window in hours
    #[arg(long, default_value = "24", value_parser = at_least_one::<NonZeroU64>)]
    window: NonZeroU64,

    /// How long an hour lasts, in seconds
    #[arg(long, value_name = "SECONDS", default_value = "1", value_parser = at_least_one::<NonZeroU64>)]
    tick: NonZeroU64,

    /// Where the city and its devices come from
    #[arg(long, default_value = "1")]
    seed: u64,

    /// The folder for the picture, which is made where there is none
    #[arg(long, value_name = "DIR", default_value = "demo")]
    out: PathBuf,

    /// Draw with ASCII characters only
    #[arg(long)]
    ascii: bool,

    /// Let the service and its devices run on afterwards, until Ctrl-C
    #[arg(long, conflicts_with = "offline")]
    keep: bool,

    /// Ask the devices within this process, without a service
    #[arg(long)]
    offline: bool,
}

/// Number of districts drawn besides the monitored one.
const DRAWN: usize = 2;
/// Height of a chart, in lines.
const ROWS: usize = 7;
const DAY: usize = 24;
/// Name of the stream.
const STREAM: &str = "city";
/// Mechanism of the service: one question a timestamp, and a quick reaction.
const MECHANISM: &str = "local.track";
/// Seconds for the devices to enrol.
const READY: u64 = 3;
/// Longest wait for a release after its time.
const PATIENCE: Duration = Duration::from_secs(10);
/// Interval of polling.
const PACE: Duration = Duration::from_millis(100);

impl Demo {
    pub(crate) fn run(&self) -> Result<(), Failure> {
        let seed = self.seed;
        complain(
            "warning",
            format_args!("this run is seeded with {seed}: its users are simulated, and it is for looking at only"),
        );
        // Before anything is run: a place that cannot be written to is found out at once.
        fs::create_dir_all(&self.out).map_err(|error| cannot_write(&self.out, &error))?;
        if self.offline { self.simulate() } else { self.serve() }
    }

    fn city(&self) -> City {
        let days = if self.offline { NonZeroU32::MIN.saturating_add(6) } else { NonZeroU32::MIN.saturating_add(1) };
        let days = self.days.unwrap_or(days);
        City { users: self.users, days, epsilon: self.epsilon, window: self.window, seed: self.seed }
    }

    /// Runs the simulation in this process.
    fn simulate(&self) -> Result<(), Failure> {
        let threads = thread::available_parallelism().unwrap_or(NonZeroUsize::MIN);
        let start = Instant::now();
        let shown = self.city().run(threads).map_err(|error| match error {
            CityError::Run(RunError::Unsupported(_)) | CityError::Stream(_) => Failure::input(error),
            other => Failure::run(other),
        })?;
        let chosen = shown.compared.first().map_or("lpu", |first| first.mechanism);
        let compared: Vec<_> =
            shown.compared.iter().map(|each| format!("{} {}", each.mechanism, short(each.error))).collect();
        let mechanism = format!("{chosen}, by expected error: {}", compared.join(", "));
        self.show(&shown, &mechanism, start.elapsed())
    }

    /// Runs a service and a fleet of devices.
    fn serve(&self) -> Result<(), Failure> {
        let city = self.city();
        let mut stream = city.stream().map_err(Failure::input)?;
        if let Some(hours) = self.hours.filter(|hours| hours.get() < stream.length()) {
            stream = stream.shortened(hours.get()).map_err(Failure::input)?;
        }
        let interrupted = interrupted()?;
        let folder = Temporary::new()?;
        let made = init::make(&folder.0)?;
        let token = |role| {
            let found = made.tokens.iter().find(|(found, _)| *found == role);
            found.map(|(_, token)| token.clone()).ok_or_else(|| Failure::run("there is no token"))
        };
        let (analyst, ingest) = (token(Role::Analyst)?, folder.0.join("ingest.token"));
        write_private(&ingest, &token(Role::Ingest)?)?;
        let mut config = Config::read_file(&made.config.to_string_lossy())?;
        config.listen.set_port(0);
        let declaration = self.declaration(&stream)?;
        declaration.check().map_err(Failure::input)?;
        config.streams = vec![declaration.clone()];
        let service = Background::start(&config)?;
        let mut output = Output::create("-")?;
        output.write(&format!(
            "live       {}/#token={analyst}\n\nReleased shares, and the truth beside them:\n",
            service.url
        ))?;
        let reader = Server { server: Some(service.url.clone()), token_file: None, ca: None, allow_plain_http: false };
        let client = reader.client_with(Some(&analyst), 1)?;
        let fleet = Fleet {
            connection: Connection {
                server: Server { token_file: Some(ingest), ..reader },
                stream: STREAM.to_owned(),
                operator_key: made.operator,
            },
            devices: self.users,
            dataset: "city".to_owned(),
            data_dir: None,
            seed: self.seed,
            batch: NonZeroUsize::MIN.saturating_add(999),
            connections: NonZeroUsize::MIN.saturating_add(1),
            // For as long as anybody listens.
            ticks: None,
            poison: 0,
            operator_token_file: None,
            json: false,
            quiet: true,
            days: city.days,
        };
        let start = Instant::now();
        let fleet = Devices::start(fleet)?;
        let live = Live { declaration, stream, client, fleet, interrupted, last: None };
        let Some((shown, mut live)) = live.watch(&city, &mut output)? else { return service.stop() };
        self.show(&shown, MECHANISM, start.elapsed())?;
        if self.keep {
            complain("keeps", format_args!("running at {}; Ctrl-C ends it", service.url));
            while !live.interrupted.load(Ordering::Relaxed) {
                live.fleet.check()?;
                thread::sleep(PACE);
            }
        }
        drop(live);
        service.stop()
    }

    /// Returns the stream's declaration.
    fn declaration(&self, stream: &CountStream) -> Result<Declaration, Failure> {
        let labels = stream.labels();
        let watched = &labels[STADIUM as usize];
        let declaration = json!({
            "name": STREAM,
            "tick": self.tick,
            "epoch": now() / 1_000 + READY,
            "spec": {
                "family": "local", "mechanism": MECHANISM, "epsilon": self.epsilon, "window": self.window,
                "domain": labels, "population": self.users,
                "monitors": [{
                    "name": format!("a rush at the {watched}"), "value": watched, "direction": "above",
                    "start": ALARM.0, "end": ALARM.1,
                }],
            },
        });
        serde_json::from_value(declaration).map_err(Failure::run)
    }

    /// Prints the charts and the result, and writes the picture.
    fn show(&self, shown: &Shown, mechanism: &str, took: Duration) -> Result<(), Failure> {
        let picture = self.picture(shown)?;
        let mut output = Output::create("-")?;
        output.write(&self.text(shown, mechanism, &picture, took.as_secs_f64()))?;
        output.finish()
    }

    /// Writes the picture and prints its path.
    fn picture(&self, shown: &Shown) -> Result<PathBuf, Failure> {
        let path = self.out.join("city.svg");
        let name = path.to_str().ok_or_else(|| cannot_write(&path, "its name is not valid UTF-8"))?;
        let mut file = Output::create(name)?;
        file.write(&chart(shown).to_svg().map_err(Failure::run)?)?;
        file.finish()?;
        Ok(path)
    }

    fn text(&self, shown: &Shown, mechanism: &str, picture: &Path, seconds: f64) -> String {
        let canvas = Canvas::of_stdout(self.ascii);
        let labels = shown.stream.labels();
        let (users, window, epsilon) = (self.users, self.window, self.epsilon);
        let days = match shown.stream.length().div_ceil(DAY) {
            1 => "a day".to_owned(),
            days => format!("{days} days"),
        };
        let mut text = format!("\nWhere {users} users of a city are, over {days}      {}\n", canvas.legend());
        for district in drawn(shown) {
            let truth: Vec<f64> =
                (0..shown.stream.length()).map(|hour| shown.stream.frequencies(hour)[district]).collect();
            let released: Vec<f64> = shown.released.iter().map(|row| row[district]).collect();
            text += &format!("\n{}\n{}", labels[district], canvas.draw(&truth, &released, ROWS, DAY));
        }
        let spent = shown.worst_window.map_or_else(|| "nothing".to_owned(), |spent| format!("epsilon {spent}"));
        let (error, off) = (short(shown.error), 100.0 * shown.error.sqrt());
        text += &format!(
            "\nguarantee  for each user, epsilon {epsilon} in any {window} hours, whatever the collector does\n\
             mechanism  {mechanism}\n\
             error      mean square {error}: a share is off by {off:.2} percentage points\n\
             spend      the fullest window of any of {users} devices, by its own ledger: {spent} of {epsilon}\n\
             reports    {}, in {seconds:.1} seconds\n",
            shown.reports
        );
        for alarm in &shown.alarms {
            text += &format!("monitor    {}\n", said(alarm, &labels[shown.watched]));
        }
        if shown.alarms.is_empty() {
            text += "monitor    nothing rose that far, and no alarm was raised\n";
        }
        let paragraph = format!(
            "No one but each device ever saw where its user was: the collector got randomised reports, and every \
             device's own ledger kept them within its budget. What was published is noisy by a known amount, and good \
             enough to follow the city's days and to raise an alarm. Try --epsilon 0.5 or --users 20000 to see the \
             noise grow; `tidegate advise --kind counts --trust local --population {users} --domain {} --window \
             {window} --epsilon {epsilon}` for what to expect of other mechanisms; `tidegate init` and `tidegate \
             serve` for a service of your own, and `tidegate release` to publish a file.",
            labels.len()
        );
        text + &format!("picture    {}\n\n{}", picture.display(), canvas.paragraph(&paragraph))
    }
}

/// A temporary folder, removed on drop.
#[derive(Debug)]
struct Temporary(PathBuf);

impl Temporary {
    fn new() -> Result<Self, Failure> {
        let mut name = [0; 8];
        getrandom::fill(&mut name).map_err(Failure::run)?;
        let name = format!("tidegate-demo-{}-{}", process::id(), tidegate_release::files::hexadecimal(&name));
        Ok(Self(env::temp_dir().join(name)))
    }
}

impl Drop for Temporary {
    fn drop(&mut self) {
        // What is left of it is nothing that anybody needs.
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// Returns a flag that Ctrl-C sets.
fn interrupted() -> Result<Arc<AtomicBool>, Failure> {
    let flag = Arc::new(AtomicBool::new(false));
    #[cfg(unix)]
    for signal in [signal_hook::consts::SIGINT, signal_hook::consts::SIGTERM] {
        signal_hook::flag::register(signal, Arc::clone(&flag)).map_err(Failure::run)?;
    }
    Ok(flag)
}

/// A fleet on a thread of its own, stopped on drop.
#[derive(Debug)]
struct Devices {
    thread: Option<JoinHandle<Result<Option<u64>, Failure>>>,
    fullest: Receiver<Option<Epsilon>>,
}

impl Devices {
    fn start(fleet: Fleet) -> Result<Self, Failure> {
        let (sender, fullest) = channel();
        let work = move || {
            fleet.simulate(|answered: &Answered<'_>| {
                let is_heard = sender.send(answered.tally.fullest).is_ok();
                Ok(if is_heard { Reader::Listens } else { Reader::WentAway })
            })
        };
        let thread = thread::Builder::new().name("tidegate fleet".to_owned()).spawn(work).map_err(Failure::run)?;
        Ok(Self { thread: Some(thread), fullest })
    }

    /// Returns an error if the fleet has failed.
    fn check(&mut self) -> Result<(), Failure> {
        if !self.thread.as_ref().is_some_and(JoinHandle::is_finished) {
            return Ok(());
        }
        let ended = self.thread.take().map(JoinHandle::join);
        match ended {
            Some(Ok(Err(failure))) => Err(failure),
            _ => Err(Failure::run("the fleet stopped short")),
        }
    }
}

/// A view of a running service and its fleet, with the rights of an analyst.
#[derive(Debug)]
struct Live {
    declaration: Declaration,
    stream: CountStream,
    client: Client,
    fleet: Devices,
    interrupted: Arc<AtomicBool>,
    /// The last published timestamp.
    last: Option<u64>,
}

impl Live {
    /// Prints releases until the last hour; `None` after Ctrl-C or a closed pipe.
    fn watch(mut self, city: &City, output: &mut Output) -> Result<Option<(Shown, Self)>, Failure> {
        let hours = self.stream.length() as u64;
        let deadline = Duration::from_millis(self.declaration.schedule().due(hours - 1)) + PATIENCE;
        let (mut released, mut raised) = (BTreeMap::new(), Vec::new());
        let (mut releases, mut answers, mut worst_window) = (0, 0, None);
        while self.last.is_none_or(|last| last + 1 < hours) && Duration::from_millis(now()) < deadline {
            if self.interrupted.load(Ordering::Relaxed) {
                return Ok(None);
            }
            self.fleet.check()?;
            worst_window = self.fleet.fullest.try_iter().fold(worst_window, Option::max);
            for body in self.news("releases", &mut releases)? {
                let release: Release = serde_json::from_value(body).map_err(Failure::run)?;
                if output.write(&self.line(&release))? == Reader::WentAway {
                    return Ok(None);
                }
                self.last = Some(release.timestamp);
                released.insert(release.timestamp, release);
            }
            for body in self.news("answers", &mut answers)? {
                let text = |key: &str| body.get(key).and_then(Value::as_str).unwrap_or_default().to_owned();
                let hour = body.get("t").and_then(Value::as_u64).unwrap_or_default();
                let (monitor, event) = (text("monitor"), text("event"));
                output.write(&format!("{:<14}*** {monitor}: {event} ***\n", at(hour)))?;
                if event == STARTED {
                    raised.push(hour);
                }
            }
            thread::sleep(PACE);
        }
        if released.is_empty() {
            return Err(Failure::run("nothing was released in time"));
        }
        if let Some(missing) = hours.checked_sub(released.len() as u64).filter(|missing| *missing > 0) {
            complain(
                "missing",
                format_args!("{missing} hours were not released in time: this machine is slow, or busy; try --tick 2"),
            );
        }
        let shown = self.shown(city, &released, &raised, worst_window)?;
        Ok(Some((shown, self)))
    }

    /// Returns the new releases.
    fn news(&self, kind: &str, after: &mut u64) -> Result<Vec<Value>, Failure> {
        let path = format!("/v1/streams/{STREAM}/{kind}?after={after}");
        let Listed { records } = self.client.read(&path).map_err(explain)?;
        *after = records.last().map_or(*after, |record| record.number);
        Ok(records.into_iter().map(|record| record.body).collect())
    }

    /// Prints a release beside the truth.
    fn line(&self, release: &Release) -> String {
        let (shares, _) = release.statistic.leaves();
        let truth = self.stream.frequencies(self.row(release.timestamp));
        let district = |(place, label): (usize, &String)| {
            format!("{label} {:>4.1} % ({:.1})", 100.0 * shares[place], 100.0 * truth[place])
        };
        let labels = self.stream.labels();
        let districts: Vec<_> = DISTRICTS_SHOWN.iter().map(|place| district((*place, &labels[*place]))).collect();
        format!("{:<14}{}   {} reports\n", at(release.timestamp), districts.join("   "), release.reports)
    }

    /// Returns the hour of the simulation for a timestamp.
    fn row(&self, timestamp: u64) -> usize {
        usize::try_from(timestamp).unwrap_or(usize::MAX) % self.stream.length()
    }

    /// Returns the whole result. An hour without a release repeats the one before.
    fn shown(
        &self,
        city: &City,
        released: &BTreeMap<u64, Release>,
        raised: &[u64],
        worst_window: Option<Epsilon>,
    ) -> Result<Shown, Failure> {
        let (mut shares, mut deviations) = (Vec::new(), Vec::new());
        let mut latest = released.first_key_value().map(|(_, release)| release);
        for hour in (0_u64..).take(self.stream.length()) {
            latest = released.get(&hour).or(latest);
            let Some(release) = latest else { continue };
            let (frequencies, variances) = release.statistic.leaves();
            shares.push(frequencies.to_vec());
            deviations.push(variances.iter().map(|variance| variance.sqrt()).collect());
        }
        let error = Truth::of(&self.stream).compare(&shares).map_err(Failure::run)?.mse();
        Ok(Shown {
            stream: self.stream.clone(),
            compared: Vec::new(),
            released: shares,
            deviations,
            error,
            worst_window,
            reports: released.values().map(|release| release.reports).sum(),
            watched: STADIUM as usize,
            alarms: city.alarms(&self.stream, raised),
        })
    }
}

/// Name of the start of an event in the API.
const STARTED: &str = "started";
/// Returns the districts printed hour by hour: the largest and the monitored one.
const DISTRICTS_SHOWN: [usize; 3] = [0, 1, STADIUM as usize];

fn cannot_write(path: &Path, error: impl std::fmt::Display) -> Failure {
    Failure::run(format_args!("{} cannot be written: {error}", path.display()))
}

/// Returns the monitored district and the largest of the others.
fn drawn(shown: &Shown) -> Vec<usize> {
    let total = |district: &usize| shown.stream.counts().iter().map(|row| row[*district]).sum::<u64>();
    let mut others: Vec<usize> = (0..shown.stream.domain()).filter(|district| *district != shown.watched).collect();
    others.sort_by_key(|district| std::cmp::Reverse(total(district)));
    others.truncate(DRAWN);
    others.push(shown.watched);
    others
}

fn at(hour: u64) -> String {
    format!("day {}, {:02}:00", hour / 24 + 1, hour % 24)
}

fn said(alarm: &Alarm, district: &str) -> String {
    let percent = 100.0 * ALARM.0;
    match (alarm.began, alarm.found) {
        (Some(began), Some(found)) if began == found => {
            format!("a rush at the {district}, above {percent:.0} %: {}, found the same hour", at(began))
        }
        (Some(began), Some(found)) => {
            format!(
                "a rush at the {district}, above {percent:.0} %: {}, found {} hours later",
                at(began),
                found - began
            )
        }
        (Some(began), None) => format!("a rush at the {district}, above {percent:.0} %: {}, not found", at(began)),
        (None, Some(found)) => format!("a false alarm about the {district}: {}", at(found)),
        (None, None) => "nothing".to_owned(),
    }
}

/// Draws all districts, with a band of two standard deviations around each release.
fn chart(shown: &Shown) -> Chart {
    let hours = || (0_u32..).map(f64::from).map(|hour| hour / 24.0);
    let panel = |(district, label): (usize, &String)| {
        let truth = (0..shown.stream.length()).map(|hour| shown.stream.frequencies(hour)[district]);
        let truth = hours().zip(truth).map(|(day, share)| Point::new(day, share)).collect();
        let released = hours()
            .zip(&shown.released)
            .zip(&shown.deviations)
            .map(|((day, shares), deviations)| Point::with_error(day, shares[district], 2.0 * deviations[district]));
        let series = vec![Series::new("released", released.collect()), Series::new("truth", truth)];
        Panel::curves(label.clone(), Axis::linear("day"), Axis::linear("share of users"), series)
    };
    let panels = shown.stream.labels().iter().enumerate().map(panel).collect();
    Chart::new("A city under local privacy: truth and what was released", panels)
}
