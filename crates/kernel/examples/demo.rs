//! A town of simulated users reports to a server that nobody has to trust, and the server's estimates are drawn beside
//! the truth.
//!
//! The users are divided into as many groups as the window has timestamps. At each timestamp one group reports, and each
//! of its members spends the whole budget, which the ledger on the member's own device then refuses to spend again until
//! the window has passed: w-event privacy, whatever the server does.

use std::error::Error;
use std::ffi::OsString;
use std::io::{self, ErrorKind, IsTerminal, Write};
use std::process::ExitCode;
use std::time::{Duration, Instant};

use tidegate_kernel::oracle::{Estimate, Oracle};
use tidegate_kernel::{Epsilon, Ledger, Randomness, SeededRandom, SystemRandom, Window};

const USERS: usize = 20_000;
const TIMESTAMPS: usize = 60;
const DOMAIN: u32 = 8;
const WINDOW: usize = 10;
const BUDGET: &str = "2";
/// The value whose frequency is drawn.
const DRAWN: usize = 2;
/// 95 % of a normal distribution lie within so many standard deviations.
const DEVIATIONS: f64 = 1.96;

const HELP: &str = "\
Simulates a population that reports under w-event local differential privacy, and draws estimates beside the truth.

Usage: demo [--seed N]

  --seed N   repeat a run: all randomness comes from the number N, so nothing that is printed is private
  --help     print this

Without --seed, reports are perturbed with randomness from the operating system.
Colours are used on a terminal, unless NO_COLOR is set.
";

enum Command {
    Help,
    Run { seed: Option<u64> },
}

fn parse(arguments: impl IntoIterator<Item = OsString>) -> Result<Command, String> {
    let mut seed = None;
    let mut arguments = arguments.into_iter().map(|argument| argument.to_string_lossy().into_owned());
    while let Some(argument) = arguments.next() {
        match argument.as_str() {
            "--help" | "-h" => return Ok(Command::Help),
            "--seed" => {
                let given = arguments.next().ok_or("--seed needs a number")?;
                let number =
                    given.parse().map_err(|_| format!("the seed {given:?} is not a whole number below 2^64"))?;
                seed = Some(number);
            }
            _ => return Err(format!("{argument:?} is not an argument of the demonstration; --help lists them")),
        }
    }
    Ok(Command::Run { seed })
}

fn main() -> ExitCode {
    let outcome = match parse(std::env::args_os().skip(1)) {
        Err(problem) => {
            eprintln!("error: {problem}");
            return ExitCode::from(2);
        }
        Ok(Command::Help) => io::stdout().write_all(HELP.as_bytes()).map_err(Into::into),
        Ok(Command::Run { seed: None }) => SystemRandom::new().map_err(Into::into).and_then(|random| run(random, 0)),
        Ok(Command::Run { seed: Some(seed) }) => {
            eprintln!("warning: a seeded run can be repeated by anyone, so its output is not private");
            run(SeededRandom::with_stream(seed, 1), seed)
        }
    };
    match outcome {
        Err(error) if error.downcast_ref::<io::Error>().is_none_or(|error| error.kind() != ErrorKind::BrokenPipe) => {
            eprintln!("error: {error}");
            ExitCode::FAILURE
        }
        // All is done, or whoever reads the output has seen enough.
        _ => ExitCode::SUCCESS,
    }
}

/// What a user carries: the budget is guarded here, not on the server.
struct Device {
    ledger: Ledger,
    /// Where the user stands among all, between 0 and 1: it decides which value the user holds as frequencies drift.
    place: f64,
}

impl Device {
    fn value(&self, borders: &[f64]) -> u32 {
        (0..DOMAIN).zip(borders).find(|(_, border)| self.place < **border).map_or(DOMAIN - 1, |(value, _)| value)
    }

    /// Writes a report on `value`, if the ledger allows. A real device uses `spend_and_save`: what was spent must have
    /// reached the disk before the report leaves.
    fn report(
        &mut self,
        timestamp: usize,
        oracle: &Oracle,
        value: u32,
        random: &mut impl Randomness,
        report: &mut [u8],
    ) -> Result<(), Box<dyn Error>> {
        let permit = self.ledger.spend(timestamp as u64, oracle.epsilon())?;
        oracle.perturb_into(permit, value, random, report)?;
        Ok(())
    }
}

/// The frequencies drift like a tide that runs through the values once in 40 timestamps. Laid end to end between 0 and
/// 1, they end at these borders.
fn borders(timestamp: usize) -> Vec<f64> {
    let phase = |value: u32| timestamp as f64 / 40.0 - f64::from(value) / f64::from(DOMAIN);
    let weights: Vec<f64> = (0..DOMAIN).map(|v| (1.4 * (std::f64::consts::TAU * phase(v)).sin()).exp()).collect();
    let total: f64 = weights.iter().sum();
    (1..=weights.len()).map(|count| weights[..count].iter().sum::<f64>() / total).collect()
}

/// What is true at a timestamp, and what the server makes of the reports.
struct Moment {
    truth: Vec<f64>,
    estimate: Estimate,
}

impl Moment {
    /// The variance of an estimate if the true frequency is `frequency`: that of the oracle, and that of having asked
    /// some of the users, without replacement, instead of all.
    fn variance(&self, frequency: f64) -> f64 {
        let (asked, all) = (self.estimate.reports() as f64, USERS as f64);
        let sampling = frequency * (1.0 - frequency) / asked * (all - asked) / (all - 1.0);
        self.estimate.variance().at(frequency) + sampling
    }

    /// The estimate of a value's frequency, between the ends of its 95 % interval.
    fn interval(&self, value: usize) -> [f64; 3] {
        let estimate = self.estimate.frequencies()[value];
        let margin = DEVIATIONS * self.variance(estimate.clamp(0.0, 1.0)).sqrt();
        [estimate - margin, estimate, estimate + margin]
    }
}

fn run(mut random: impl Randomness, population_seed: u64) -> Result<(), Box<dyn Error>> {
    let budget: Epsilon = BUDGET.parse()?;
    let window = Window::of(WINDOW as u64).ok_or("a window has a length")?;
    let oracle = Oracle::auto(DOMAIN, budget)?;
    let mut population = SeededRandom::new(population_seed);
    let mut place = || (population.next_word() >> 11) as f64 / 2_f64.powi(53);
    let device = |_| Device { ledger: Ledger::new(budget, window), place: place() };
    let mut devices: Vec<Device> = (0..USERS).map(device).collect();

    let (mut on_devices, mut on_server) = (Duration::ZERO, Duration::ZERO);
    let mut moments = Vec::new();
    for timestamp in 0..TIMESTAMPS {
        let borders = borders(timestamp);
        let values: Vec<u32> = devices.iter().map(|device| device.value(&borders)).collect();
        let share = |value| values.iter().filter(|held| **held == value).count() as f64 / USERS as f64;

        let start = Instant::now();
        let mut batch = Vec::new();
        let mut report = vec![0; oracle.report_length()];
        for (device, value) in devices.iter_mut().zip(&values).skip(timestamp % WINDOW).step_by(WINDOW) {
            device.report(timestamp, &oracle, *value, &mut random, &mut report)?;
            batch.extend_from_slice(&report);
        }
        on_devices += start.elapsed();

        let start = Instant::now();
        let mut aggregate = oracle.aggregate();
        aggregate.add_batch(&batch)?;
        let estimate = aggregate.estimate()?;
        on_server += start.elapsed();
        moments.push(Moment { truth: (0..DOMAIN).map(share).collect(), estimate });
    }

    let out = &mut io::stdout().lock();
    let coloured = io::stdout().is_terminal() && std::env::var_os("NO_COLOR").is_none_or(|value| value.is_empty());
    chart(out, &moments, coloured)?;
    summary(out, &oracle, &moments, on_devices, on_server)?;
    greedy_server(out, &mut devices, &oracle)
}

/// Draws one value over time, from left to right.
fn chart(out: &mut impl Write, moments: &[Moment], coloured: bool) -> io::Result<()> {
    const ROWS: usize = 20;
    const PERCENT_PER_ROW: usize = 2;
    #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)] // between 0 and the number of rows
    let row_of = |share: f64| (share * 100.0 / PERCENT_PER_ROW as f64).clamp(0.0, ROWS as f64 - 1.0) as usize;
    let paint = |colour: &str, mark: &str| match coloured {
        true => format!("\x1b[{colour}m{mark}\x1b[0m"),
        false => mark.to_owned(),
    };
    let (truth, estimate, interval) = (paint("36", "━"), paint("33", "●"), paint("2", "│"));
    let mark = |row: usize, moment: &Moment| {
        let [low, middle, high] = moment.interval(DRAWN).map(row_of);
        match row {
            row if row == middle => estimate.as_str(),
            row if row == row_of(moment.truth[DRAWN]) => truth.as_str(),
            row if (low..=high).contains(&row) => interval.as_str(),
            _ => " ",
        }
    };
    writeln!(out, "How frequent value {DRAWN} of {DOMAIN} is among {USERS} users\n")?;
    for row in (0..ROWS).rev() {
        let percent = row * PERCENT_PER_ROW;
        let label = if percent.is_multiple_of(10) { format!("{percent} %") } else { String::new() };
        let line: String = moments.iter().map(|moment| mark(row, moment)).collect();
        writeln!(out, "{label:>5} ┤{line}")?;
    }
    writeln!(out, "      └{}", "┬─────────".repeat(moments.len() / 10))?;
    let times: String = (0..moments.len()).step_by(10).map(|timestamp| format!("{timestamp:<10}")).collect();
    writeln!(out, "       {times} timestamp")?;
    writeln!(out, "       {truth} truth   {estimate} estimate   {interval} 95 % interval\n")
}

fn summary(
    out: &mut impl Write,
    oracle: &Oracle,
    moments: &[Moment],
    on_devices: Duration,
    on_server: Duration,
) -> io::Result<()> {
    let count = moments.len() * DOMAIN as usize;
    let mean = |quantity: &dyn Fn(&Moment, usize) -> f64| {
        let of_moment = |moment| (0..DOMAIN as usize).map(|value| quantity(moment, value)).sum::<f64>();
        moments.iter().map(of_moment).sum::<f64>() / count as f64
    };
    let error = mean(&|moment, value| (moment.estimate.frequencies()[value] - moment.truth[value]).powi(2));
    let predicted = mean(&|moment, value| moment.variance(moment.truth[value]));
    let covered = mean(&|moment, value| {
        let [low, _, high] = moment.interval(value);
        f64::from((low..=high).contains(&moment.truth[value]))
    });
    let reports: u64 = moments.iter().map(|moment| moment.estimate.reports()).sum();
    let rate = |time: Duration| reports as f64 / time.as_secs_f64() / 1e6;
    let (kind, epsilon, bytes) = (oracle.kind(), oracle.epsilon(), oracle.report_length());
    writeln!(out, "guarantee   for each user, epsilon {epsilon} in any {WINDOW} consecutive timestamps")?;
    writeln!(out, "oracle      {kind}, chosen for {DOMAIN} values at epsilon {epsilon}; bytes per report: {bytes}")?;
    writeln!(out, "reports     {reports}: at each timestamp, one user in {WINDOW}")?;
    writeln!(
        out,
        "speed       {:.1} M reports/s on devices, {:.0} M/s on the server",
        rate(on_devices),
        rate(on_server)
    )?;
    writeln!(out, "error       mean square {error:.2e}, predicted {predicted:.2e}")?;
    writeln!(out, "intervals   {:.1} % of {count} hold the truth", covered * 100.0)
}

/// The last group has just reported. A greedy server asks one of its members again, and about the past.
fn greedy_server(out: &mut impl Write, devices: &mut [Device], oracle: &Oracle) -> Result<(), Box<dyn Error>> {
    let last = TIMESTAMPS - 1;
    let user = last % WINDOW;
    writeln!(
        out,
        "\nA greedy server asks user {user}, who reported at {last}, once more. The user's own ledger answers:"
    )?;
    for timestamp in [last, last + 1, last - 1, last + WINDOW] {
        match devices[user].ledger.spend(timestamp as u64, oracle.epsilon()) {
            Ok(permit) => writeln!(out, "  at {timestamp}, granted: {}, for the window has passed", permit.epsilon())?,
            Err(refusal) => writeln!(out, "  at {timestamp}, refused: {refusal}")?,
        }
    }
    Ok(())
}
