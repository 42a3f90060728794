//! `tidegate demo`: a city's traffic, published under privacy, in a minute.

use std::fs;
use std::num::{NonZeroU32, NonZeroU64, NonZeroUsize};
use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::thread;
use std::time::Instant;

use clap::Args;
use tidegate_kernel::Epsilon;
use tidegate_lab::city::{ALARM, Alarm, City, CityError, Shown};
use tidegate_lab::experiment::RunError;
use tidegate_lab::plot::{Axis, Chart, Panel, Point, Series};

use crate::chart::Canvas;
use crate::evaluate::{at_least_one, short};
use crate::failure::{Failure, complain};
use crate::output::Output;

/// Show the main job on simulated data: a city's traffic, from devices to an alarm.
///
/// Every user is a simulated device with a ledger of its own. The local mechanism with the
/// lowest error on such a stream asks them, hour by hour, and publishes how they are spread
/// over the districts; a monitor watches what is published for a rush at the stadium. The
/// chart has the truth, which nobody knows but the simulation, beside what was published,
/// and a picture of it is written as SVG.
#[derive(Debug, Args)]
#[command(
    verbatim_doc_comment,
    after_help = "Example:\n  tidegate demo --epsilon 0.5 --out pictures\n\n\
                  Colours are used on a terminal, unless NO_COLOR is set."
)]
pub(crate) struct Demo {
    /// The number of users
    #[arg(long, value_name = "N", default_value = "200000", value_parser = at_least_one::<NonZeroU32>)]
    users: NonZeroU32,

    /// How many days to show; a timestamp is an hour
    #[arg(long, value_name = "N", default_value = "7", value_parser = at_least_one::<NonZeroU32>)]
    days: NonZeroU32,

    /// The privacy budget of each user in any window
    #[arg(long, default_value = "2", value_parser = Epsilon::from_str)]
    epsilon: Epsilon,

    /// The window in hours
    #[arg(long, default_value = "24", value_parser = at_least_one::<NonZeroU64>)]
    window: NonZeroU64,

    /// Where all randomness comes from
    #[arg(long, default_value = "1")]
    seed: u64,

    /// The folder for the picture, which is made where there is none
    #[arg(long, value_name = "DIR", default_value = "demo")]
    out: PathBuf,

    /// Draw with ASCII characters only
    #[arg(long)]
    ascii: bool,
}

/// How many districts are drawn besides the one that is watched.
const DRAWN: usize = 2;
/// The height of a chart, in lines.
const ROWS: usize = 7;
const DAY: usize = 24;

impl Demo {
    pub(crate) fn run(&self) -> Result<(), Failure> {
        let seed = self.seed;
        complain(
            "warning",
            format_args!("this run is seeded with {seed}: its users are simulated, and it is for looking at only"),
        );
        // Before anything is run: a place that cannot be written to is found out at once.
        fs::create_dir_all(&self.out).map_err(|error| cannot_write(&self.out, &error))?;
        let threads = thread::available_parallelism().unwrap_or(NonZeroUsize::MIN);
        let city = City { users: self.users, days: self.days, epsilon: self.epsilon, window: self.window, seed };
        let start = Instant::now();
        let shown = city.run(threads).map_err(|error| match error {
            CityError::Run(RunError::Unsupported(_)) | CityError::Stream(_) => Failure::input(error),
            other => Failure::run(other),
        })?;
        let seconds = start.elapsed().as_secs_f64();
        let picture = self.picture(&shown)?;
        let mut output = Output::create("-")?;
        output.write(&self.text(&shown, &picture, seconds))?;
        output.finish()
    }

    /// Writes the picture, and says where.
    fn picture(&self, shown: &Shown) -> Result<PathBuf, Failure> {
        let path = self.out.join("city.svg");
        let name = path.to_str().ok_or_else(|| cannot_write(&path, "its name is not valid UTF-8"))?;
        let mut file = Output::create(name)?;
        file.write(&chart(shown).to_svg().map_err(Failure::run)?)?;
        file.finish()?;
        Ok(path)
    }

    fn text(&self, shown: &Shown, picture: &Path, seconds: f64) -> String {
        let canvas = Canvas::of_stdout(self.ascii);
        let labels = shown.stream.labels();
        let (users, days, window, epsilon) = (self.users, self.days, self.window, self.epsilon);
        let mut text = format!("Where {users} users of a city are, over {days} days      {}\n", canvas.legend());
        for district in drawn(shown) {
            let truth: Vec<f64> =
                (0..shown.stream.length()).map(|hour| shown.stream.frequencies(hour)[district]).collect();
            let released: Vec<f64> = shown.released.iter().map(|row| row[district]).collect();
            text += &format!("\n{}\n{}", labels[district], canvas.draw(&truth, &released, ROWS, DAY));
        }
        let chosen = shown.compared.first().map_or("lpu", |first| first.mechanism);
        let compared: Vec<_> =
            shown.compared.iter().map(|each| format!("{} {}", each.mechanism, short(each.error))).collect();
        let spent = shown.worst_window.map_or_else(|| "nothing".to_owned(), |spent| format!("epsilon {spent}"));
        let (error, off) = (short(shown.error), 100.0 * shown.error.sqrt());
        text += &format!(
            "\nguarantee  for each user, epsilon {epsilon} in any {window} hours, whatever the collector does\n\
             mechanism  {chosen}, by expected error: {}\n\
             error      mean square {error}: a share is off by {off:.2} percentage points\n\
             spend      the fullest window of any of {users} devices, by its own ledger: {spent} of {epsilon}\n\
             reports    {}, in {seconds:.1} seconds\n",
            compared.join(", "),
            shown.reports
        );
        for alarm in &shown.alarms {
            text += &format!("monitor    {}\n", said(alarm, &labels[shown.watched]));
        }
        if shown.alarms.is_empty() {
            text += "monitor    nothing rose that far, and no alarm was raised\n";
        }
        let paragraph = format!(
            "No one but each device ever saw where its user was: the collector got randomised reports, and every device's own \
             ledger kept them within its budget. What was published is noisy by a known amount, and good enough to follow the \
             city's days and to raise an alarm. Try --epsilon 0.5 or --users 20000 to see the noise grow; `tidegate advise \
             --kind counts --trust local --population {users} --domain {} --window {window} --epsilon {epsilon}` for what to expect of other \
             mechanisms; `tidegate evaluate` to measure them on your own data, and `tidegate release` to publish some.",
            labels.len()
        );
        text + &format!("picture    {}\n\n{}", picture.display(), canvas.paragraph(&paragraph))
    }
}

fn cannot_write(path: &Path, error: impl std::fmt::Display) -> Failure {
    Failure::run(format_args!("{} cannot be written: {error}", path.display()))
}

/// The district that is watched, and the largest of the others.
fn drawn(shown: &Shown) -> Vec<usize> {
    let total = |district: &usize| shown.stream.counts().iter().map(|row| row[*district]).sum::<u64>();
    let mut others: Vec<usize> = (0..shown.stream.domain()).filter(|district| *district != shown.watched).collect();
    others.sort_by_key(|district| std::cmp::Reverse(total(district)));
    others.truncate(DRAWN);
    others.push(shown.watched);
    others
}

fn said(alarm: &Alarm, district: &str) -> String {
    let at = |hour: u64| format!("day {}, {:02}:00", hour / 24 + 1, hour % 24);
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

/// All districts, with a band of two standard deviations around what was released.
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
