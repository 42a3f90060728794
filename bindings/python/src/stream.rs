//! [`Stream`]: a running stream of any family, as a run of the command after the other.

use std::io;
use std::mem;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use pyo3::prelude::*;
use tidegate::kernel::{Randomness, SeededRandom, SystemRandom, VaultKey};
use tidegate::mechanisms::Family;
use tidegate::series::Series;
use tidegate::spec::{StreamSpec, plain_words};
use tidegate_release::entries::{Expected, Item};
use tidegate_release::files::place;
use tidegate_release::gate::Gate;
use tidegate_release::model_file::ModelFile;
use tidegate_release::spec::Spec;
use tidegate_release::state::{self, Keeper, Saved};
use tidegate_release::timeline::Timeline;
use tidegate_release::{Error, check_users, enrol, reading};
use tidegate_table::releases::ReleaseLayout;
use tidegate_table::time::Zone;
use tidegate_table::{Cells, Reading, Rows, TableReader};

use crate::arrow::ArrowRows;
use crate::budget::Budget;
use crate::columns::TimeKind;
use crate::error::Failure;
use crate::releases::{Gathered, Releases};
use crate::work::{self, Owner, Stop};

/// The name of a table in errors.
const TABLE: &str = "the table";

/// A running stream. Each release of a table is a run of `tidegate release` that goes on where the last one ended:
/// between two of them the stream holds what a state file does, and no raw value.
#[pyclass(frozen, module = "tidegate._tidegate")]
pub(crate) struct Stream {
    spec: StreamSpec,
    owner: Owner,
    running: Mutex<Running>,
}

struct Running {
    /// `None` once it is closed, or lost to a failure inside.
    series: Option<Series>,
    /// Whether anything was released.
    has_begun: bool,
    /// Whether a seeded run contributed to it.
    seeded: bool,
    random: Random,
    /// Where times are local, once there was one.
    zone: Option<Zone>,
    /// Encrypts readings in the copies that failed calls go back to.
    vault: VaultKey,
    kept: Option<Kept>,
}

enum Random {
    System,
    Seeded(Box<SeededRandom>),
}

/// Where the state is saved, before releases are returned.
struct Kept {
    keeper: Keeper,
    key: Option<VaultKey>,
    path: PathBuf,
}

impl Kept {
    fn save(&self, series: &Series, zone: Option<Zone>, seeded: bool) -> Result<(), Error> {
        self.keeper.save(series.save(self.key.as_ref())?, zone, seeded)
    }
}

/// How a stream begins.
struct Beginning<'a> {
    seed: Option<u64>,
    state: Option<&'a str>,
    new_state: bool,
    key: Option<&'a str>,
}

impl Stream {
    fn begin(
        spec: StreamSpec,
        beginning: &Beginning<'_>,
        seeded_model: bool,
        refused: impl Fn(&tidegate::spec::SpecError) -> Failure,
    ) -> Result<Self, Failure> {
        let Beginning { seed, state, new_state, key } = *beginning;
        if seed.is_some() && state.is_some() {
            let problem =
                "a state is for releases that are private, and with a seed they are not: leave one of them out";
            return Err(Error::Argument(problem.to_owned()).into());
        }
        if new_state && state.is_none() {
            return Err(Error::Argument("new_state goes with state, the path of the state".to_owned()).into());
        }
        state::check_key(&spec, state, key)?;
        let mut series = Series::new(spec.clone()).map_err(|error| refused(&error))?;
        reading(&spec).map_err(|error| refused(&error))?;
        let mut seeded = seed.is_some() || seeded_model;
        let (mut kept, mut has_begun, mut zone) = (None, false, None);
        if let Some(path) = state {
            let (keeper, saved) = Keeper::open(path, &spec, new_state)?;
            let key = key.map(|key| state::key(key, saved.is_none())).transpose()?;
            if let Some(saved) = saved {
                series = Series::load(spec.clone(), &saved.stream, key.as_ref()).map_err(state::misfit)?;
                (has_begun, zone) = (true, saved.zone);
            }
            seeded |= keeper.is_seeded();
            let opened = Kept { keeper, key, path: place(path) };
            // Begun before anything is released, so that the path is known to be writable.
            opened.save(&series, zone, seeded)?;
            kept = Some(opened);
        }
        let random = seed.map_or(Random::System, |seed| Random::Seeded(Box::new(SeededRandom::new(seed))));
        let vault = VaultKey::new().map_err(Error::run)?;
        let running = Running { series: Some(series), has_begun, seeded, random, zone, vault, kept };
        Ok(Self { spec, owner: Owner::new(), running: Mutex::new(running) })
    }

    /// Does something with the running stream; other threads wait.
    fn with<T>(&self, action: impl FnOnce(&mut Running) -> Result<T, Failure>) -> Result<T, Failure> {
        self.owner.check()?;
        // A panic is reported by the thread that had it, and leaves no series behind.
        action(&mut self.running.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// The spec.
    pub(crate) const fn stream_spec(&self) -> &StreamSpec {
        &self.spec
    }

    /// Looks at the series.
    pub(crate) fn look<T>(&self, look: impl FnOnce(&Series) -> T) -> Result<T, Failure> {
        self.with(|running| Ok(look(running.series()?)))
    }

    /// Does a step without randomness, and saves the state. A step that takes in what was seeded says so. After a
    /// failure the stream is as before.
    pub(crate) fn step<T>(
        &self,
        step: impl FnOnce(&StreamSpec, &mut Series, &mut bool) -> Result<T, Failure>,
    ) -> Result<T, Failure> {
        self.with(|running| running.step(&self.spec, |series, seeded| step(&self.spec, series, seeded)))
    }
}

impl Running {
    fn series(&self) -> Result<&Series, Failure> {
        self.series.as_ref().ok_or_else(|| closed().into())
    }

    /// Passes a table through the stream, and saves the state. After a failure the stream is as before.
    fn release(&mut self, spec: &StreamSpec, input: Input, stop: &Stop) -> Result<Releases, Failure> {
        let fresh = SystemRandom::new().map_err(Error::run)?;
        let before = match self.has_begun {
            true => Some(self.series()?.save(Some(&self.vault))?),
            false => None,
        };
        let series = self.series.take().ok_or_else(closed)?;
        let passed = match mem::replace(&mut self.random, Random::System) {
            Random::System => input.pass(series, fresh, self.zone, self.seeded, stop).1,
            Random::Seeded(random) => {
                let (random, passed) = input.pass(series, *random, self.zone, self.seeded, stop);
                self.random = Random::Seeded(Box::new(random));
                passed
            }
        };
        let saved = passed.and_then(|(series, releases, zone)| {
            if let Some(kept) = &self.kept {
                kept.save(&series, zone, self.seeded)?;
            }
            Ok((series, releases, zone))
        });
        let load = |saved: &[u8]| Series::load(spec.clone(), saved, Some(&self.vault));
        match saved {
            Ok((series, releases, zone)) => {
                // Symbols of batches that are not complete are forgotten, as at the end of any run.
                let series = if series.waiting() > 0 { load(&series.save(Some(&self.vault))?)? } else { series };
                (self.series, self.has_begun, self.zone) = (Some(series), true, zone);
                Ok(releases)
            }
            Err(failure) => {
                self.series = Some(match before {
                    Some(before) => load(&before)?,
                    None => Series::new(spec.clone())?,
                });
                Err(failure)
            }
        }
    }

    fn step<T>(
        &mut self,
        spec: &StreamSpec,
        step: impl FnOnce(&mut Series, &mut bool) -> Result<T, Failure>,
    ) -> Result<T, Failure> {
        let before = self.series()?.save(Some(&self.vault))?;
        let mut series = self.series.take().ok_or_else(closed)?;
        let mut seeded = self.seeded;
        let done = step(&mut series, &mut seeded).and_then(|done| {
            if let Some(kept) = &self.kept {
                kept.save(&series, self.zone, seeded)?;
            }
            Ok(done)
        });
        match done {
            Ok(_) => (self.series, self.seeded, self.has_begun) = (Some(series), seeded, true),
            Err(_) => self.series = Some(Series::load(spec.clone(), &before, Some(&self.vault))?),
        }
        done
    }

    /// Saves the state to a path, and has every later release saved there.
    fn save(&mut self, spec: &StreamSpec, path: &str, key: Option<&str>) -> Result<(), Failure> {
        let series = self.series()?;
        if let Some(kept) = &self.kept {
            if kept.path == place(path) {
                return Ok(kept.save(series, self.zone, self.seeded)?);
            }
            let problem = format!("the stream is saved in {} already, and a budget has one state", kept.path.display());
            return Err(Error::State(problem).into());
        }
        state::check_key(spec, Some(path), key)?;
        if Path::new(path).symlink_metadata().is_ok() {
            let problem = format!("{path} exists: Stream.load goes on with its budget, or name another file");
            return Err(Error::State(problem).into());
        }
        let (keeper, _) = Keeper::open(path, spec, true)?;
        let key = key.map(|key| state::key(key, true)).transpose()?;
        let kept = Kept { keeper, key, path: place(path) };
        let saved = kept.save(series, self.zone, self.seeded);
        // A failure may come after the file has its name. Then this stream keeps it, or both would spend the budget.
        if saved.is_ok() || kept.path.symlink_metadata().is_ok() {
            self.kept = Some(kept);
        }
        Ok(saved?)
    }
}

fn closed() -> Error {
    Error::State("the stream is closed: Stream.load goes on with a saved one".to_owned())
}

/// A table, and how it is read.
struct Input {
    spec: StreamSpec,
    rows: ArrowRows,
    users: Option<Box<dyn Rows + Send>>,
    through: Option<String>,
}

/// The streams after a run, its releases, and where times are local.
type Passed = (Series, Releases, Option<Zone>);

/// A run that is about to begin.
struct Prepared {
    layout: ReleaseLayout,
    reading: Reading,
    timeline: Option<Timeline>,
    times: TimeKind,
    rows: ArrowRows,
}

impl Input {
    /// Passes the whole table through the streams. The generator comes back also after a failure.
    fn pass<R: Randomness>(
        self,
        mut series: Series,
        random: R,
        zone: Option<Zone>,
        seeded: bool,
        stop: &Stop,
    ) -> (R, Result<Passed, Failure>) {
        let Prepared { layout, reading, timeline, times, rows } = match self.prepare(&mut series, zone) {
            Ok(prepared) => prepared,
            Err(failure) => return (random, Err(failure)),
        };
        let gathered = Gathered::new(&series, stop);
        let mut gate = Gate::new(series, random, timeline, seeded, gathered);
        let passed = pass_rows(rows, &reading, &mut gate, stop);
        let notes = gate.notes();
        let (series, random, gathered) = gate.into_parts();
        let zone = layout.clock().zone();
        let releases = passed.map(|()| gathered.into_releases(layout, reading.clock, times, notes));
        (random, releases.map(|releases| (series, releases, zone)))
    }

    fn prepare(self, series: &mut Series, zone: Option<Zone>) -> Result<Prepared, Failure> {
        let Self { spec, rows, users, through } = self;
        check_users(series, users.is_some())?;
        if let Some(users) = users {
            enrol(series, TableReader::<io::Empty>::of_rows("the table of users", users))?;
        }
        let mut reading = reading(&spec)?.after(series.last());
        reading.clock.keep_zone(zone);
        rows.check_names(&reading.column_of("user"))?;
        let times = rows.time_kind(&reading.column_of("t"));
        let layout = ReleaseLayout::of(&spec)?.with_clock(reading.clock.clone()).with_series(series.names());
        let timeline = Timeline::of(series, through.as_deref(), &layout)?;
        Ok(Prepared { layout, reading, timeline, times, rows })
    }
}

/// Passes all rows through the gate, and releases what is held back.
fn pass_rows<R: Randomness>(
    rows: ArrowRows,
    reading: &Reading,
    gate: &mut Gate<R, Gathered<'_>>,
    stop: &Stop,
) -> Result<(), Failure> {
    let expected = Expected::of(gate.sink().1).ok_or_else(|| Error::run("the stream takes no table"))?;
    let table = TableReader::<io::Empty>::of_rows(TABLE, Box::new(rows));
    let mut next = expected.read(TABLE, table, reading.clone())?;
    let mut is_more = true;
    while is_more {
        let mut taken = Ok(());
        is_more = next(&mut |Item { line, series, content }| {
            let pushed = gate.push(series, content).map(|_| ());
            taken = pushed.map_err(|rejected| rejected.of_line(TABLE, line, reading));
        })?;
        taken?;
        stop.check()?;
    }
    gate.end()?;
    stop.check()?;
    Ok(gate.finish()?)
}

/// The users and their classes, as pairs or as a table.
fn users_of(users: &Bound<'_, PyAny>) -> Result<Box<dyn Rows + Send>, Failure> {
    match users.extract::<Vec<(String, String)>>() {
        Ok(pairs) => Ok(Box::new(Pairs(pairs.into_iter()))),
        Err(_) => Ok(Box::new(ArrowRows::open(users)?)),
    }
}

/// Users and their classes.
struct Pairs(std::vec::IntoIter<(String, String)>);

impl Rows for Pairs {
    fn columns(&self) -> Vec<String> {
        ["user", "class"].map(str::to_owned).into()
    }

    fn read_only(&mut self, _: &[usize]) {}

    fn next_row(&mut self, cells: &mut Cells<'_>) -> io::Result<bool> {
        let Some((user, class)) = self.0.next() else { return Ok(false) };
        cells.push(&user);
        cells.push(&class);
        Ok(true)
    }
}

#[pymethods]
impl Stream {
    /// A stream of the spec in a TOML file.
    #[staticmethod]
    #[pyo3(signature = (path, *, seed=None, state=None, new_state=false, key=None))]
    fn from_toml(
        path: &str,
        seed: Option<u64>,
        state: Option<&str>,
        new_state: bool,
        key: Option<&str>,
    ) -> Result<Self, Failure> {
        let spec = Spec::open(path)?;
        let beginning = Beginning { seed, state, new_state, key };
        Self::begin(spec.stream.clone(), &beginning, spec.seeded_model.is_some(), |error| spec.refused(error).into())
    }

    /// A stream of a spec in JSON.
    #[staticmethod]
    #[pyo3(signature = (text, *, seed=None, state=None, new_state=false, key=None))]
    fn from_json(
        text: &str,
        seed: Option<u64>,
        state: Option<&str>,
        new_state: bool,
        key: Option<&str>,
    ) -> Result<Self, Failure> {
        let refused = |error: serde_json::Error| Error::Spec(plain_words(&error.to_string()));
        let mut json: serde_json::Value = serde_json::from_str(text).map_err(refused)?;
        // A model by the path of its file, or as the content of one.
        let of_model = |model: &serde_json::Value| {
            let text = |content: &serde_json::Value| content.as_str().map(str::to_owned);
            text(model).map(Ok).or_else(|| model.get("learned").and_then(text).map(Err))
        };
        let learned = json.get("model").and_then(of_model);
        if let (Some(_), Some(keys)) = (&learned, json.as_object_mut()) {
            keys.remove("model");
        }
        let mut spec: StreamSpec = serde_json::from_value(json).map_err(refused)?;
        let mut seeded_model = false;
        if let (Some(learned), StreamSpec::Sequence(spec)) = (learned, &mut spec) {
            let file = match learned {
                Ok(path) => ModelFile::read(&path)?,
                Err(content) => ModelFile::parse("the model", &content)?,
            };
            (spec.learned, seeded_model) = (Some(file.model), file.seeded);
        }
        Self::begin(spec, &Beginning { seed, state, new_state, key }, seeded_model, |error| {
            Failure::from(error.clone())
        })
    }

    /// Goes on with a saved state, which holds its spec.
    #[staticmethod]
    #[pyo3(signature = (state, *, key=None))]
    fn load(state: &str, key: Option<&str>) -> Result<Self, Failure> {
        let (saved, _) = Saved::read(state)?;
        let spec: StreamSpec = serde_json::from_str(&saved.spec).map_err(state::misfit)?;
        let beginning = Beginning { seed: None, state: Some(state), new_state: false, key };
        Self::begin(spec, &beginning, false, |error| state::misfit(error).into())
    }

    /// Passes a table through the stream, and returns what may be published.
    #[pyo3(signature = (table, *, time=None, user=None, value=None, series=None, users=None, through=None))]
    #[allow(clippy::too_many_arguments)] // keywords
    fn release(
        &self,
        py: Python<'_>,
        table: &Bound<'_, PyAny>,
        time: Option<String>,
        user: Option<String>,
        value: Option<String>,
        series: Option<String>,
        users: Option<&Bound<'_, PyAny>>,
        through: Option<String>,
    ) -> Result<Releases, Failure> {
        let mut spec = self.spec.clone();
        let input = spec.input_mut();
        // A table in memory has names.
        input.columns.no_header = false;
        let columns = &mut input.columns;
        let places = [&mut columns.time, &mut columns.user, &mut columns.value, &mut input.series];
        for (place, given) in places.into_iter().zip([time, user, value, series]) {
            if given.is_some() {
                *place = given;
            }
        }
        let users = users.map(users_of).transpose()?;
        let input = Input { spec, rows: ArrowRows::open(table)?, users, through };
        work::run(py, |stop| self.with(|running| running.release(&self.spec, input, stop)))
    }

    /// The budgets before a timestamp: the one after the last, unless given.
    #[pyo3(signature = (at=None))]
    fn budget(&self, py: Python<'_>, at: Option<u64>) -> Result<Vec<Budget>, Failure> {
        py.detach(|| {
            self.with(|running| {
                let saved = running.series()?.save(Some(&running.vault))?;
                let balances = Series::balance(self.spec.clone(), &saved, at)?;
                Ok(balances.iter().flat_map(|(name, balance)| Budget::of(name.as_ref(), balance)).collect())
            })
        })
    }

    /// Saves the state to a new file, and has every later release saved there before it is returned.
    #[pyo3(signature = (path, *, key=None))]
    fn save(&self, py: Python<'_>, path: &str, key: Option<&str>) -> Result<(), Failure> {
        py.detach(|| self.with(|running| running.save(&self.spec, path, key)))
    }

    /// Gives the state file free for others. Nothing can be released any more.
    fn close(&self, py: Python<'_>) -> Result<(), Failure> {
        py.detach(|| {
            self.with(|running| {
                (running.series, running.kept) = (None, None);
                Ok(())
            })
        })
    }

    /// The full name of the mechanism.
    #[getter]
    fn mechanism(&self) -> &'static str {
        self.spec.mechanism().full_name
    }

    /// The spec in JSON, with the keys that the names of variants stand for.
    #[getter]
    fn spec(&self) -> Result<String, Failure> {
        Ok(serde_json::to_string(&self.spec).map_err(Error::run)?)
    }

    /// Whether a seeded run contributed to the stream, so that its releases are not private.
    #[getter]
    fn seeded(&self, py: Python<'_>) -> Result<bool, Failure> {
        py.detach(|| self.with(|running| Ok(running.seeded)))
    }
}

/// The family, the short and the full name of each mechanism, and a line about it.
#[pyfunction]
pub(crate) fn mechanisms() -> Vec<(&'static str, &'static str, &'static str, &'static str)> {
    let of_family = |family: Family| {
        family.mechanisms().map(move |listed| (family.name(), listed.short_name, listed.full_name, listed.summary))
    };
    Family::ALL.into_iter().flat_map(of_family).collect()
}
