//! `tidegate audit`: what mechanisms promise, against what can be found out.

use std::io::{self, IsTerminal};
use std::num::{NonZeroU64, NonZeroUsize};
use std::str::FromStr;

use clap::Args;
use indicatif::{ProgressBar, ProgressStyle};
use serde_json::{Value, json};
use tidegate::spec::{ClassSpec, SpecError, StreamSpec};
use tidegate_kernel::{Epsilon, Window};
use tidegate_lab::audit::empirical::{CONFIDENCE, Plan, steps};
use tidegate_lab::audit::ledger::{self, Limit, Statement, WindowSpend, in_epsilons};
use tidegate_lab::audit::{Options, Target, TargetFamily, as_json, as_markdown, as_text, broken, report};
use tidegate_lab::stop::Stop;

use crate::arguments::at_least_one;
use crate::failure::{Failure, complain};
use crate::input::Input;
use crate::output::Output;
use crate::release::TableFormat;
use tidegate_release::spec::Spec;

/// Try to break what mechanisms promise.
///
/// Each mechanism is run as a black box on pairs of neighbouring streams, with everything that it
/// publishes in view. An event that tells the two apart is learned from half of the runs, and how
/// often it happens in the other half bounds the privacy loss from below, with the confidence
/// given, for each promise by itself. Where what a mechanism can publish can be enumerated, the
/// exact loss stands beside it. A search for the worst transcripts gives the exact loss of the
/// worst one found. A promise is broken where one of them is above what is claimed; the command
/// then exits with 1. Losses below the claim prove nothing about what was not tried.
///
/// With --ledger, sums up a recorded run instead: what `tidegate release` has written, releases of
/// the service, or any table or lines of JSON with the fields t and spent. It exits with 1 if some
/// window has spent more than the spec allows, or more than --epsilon in --window timestamps.
#[derive(Debug, Args)]
#[command(
    verbatim_doc_comment,
    after_help = "Example:\n  tidegate audit lpa crr\n  tidegate audit --all --family scalar --html audit.html\n  \
                  tidegate audit --all --thorough --json > audit.json\n  \
                  tidegate audit --ledger released.csv --spec stream.toml\n  \
                  tidegate audit --ledger releases.csv --window 20 --epsilon 1"
)]
pub(crate) struct Audit {
    /// Mechanisms and frequency oracles by name; all promises of each
    #[arg(value_name = "MECHANISM", required_unless_present_any = ["all", "ledger"])]
    mechanisms: Vec<String>,

    /// All mechanisms, of all families or of one
    #[arg(long, conflicts_with = "mechanisms")]
    all: bool,

    /// Only this family: oracle, local, central, scalar or sequence
    #[arg(long, value_parser = TargetFamily::from_str)]
    family: Option<TargetFamily>,

    /// Sum up the windows of a recorded run; a file may be compressed with gzip
    #[arg(long, value_name = "FILE|-",
          conflicts_with_all = ["mechanisms", "all", "family", "thorough", "runs", "html", "domain"])]
    ledger: Option<String>,

    /// With --ledger: the spec of the stream, whose windows and budgets are to be kept
    #[arg(long, value_name = "FILE", requires = "ledger", conflicts_with_all = ["window", "epsilon"])]
    spec: Option<String>,

    /// Twenty times as many runs, and ten times as many transcripts
    #[arg(long, conflicts_with = "runs")]
    thorough: bool,

    /// What is claimed for a window (of sequences, for each symbol); 1 unless given
    #[arg(long, value_parser = Epsilon::from_str)]
    epsilon: Option<Epsilon>,

    /// The length of the window, and of batches; 3 unless given
    #[arg(long, value_parser = at_least_one::<NonZeroU64>)]
    window: Option<NonZeroU64>,

    /// The number of values, at most 8; 3 unless given
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(2..=8))]
    domain: Option<u32>,

    /// How often to run each mechanism on each of two streams; 20000 unless given
    #[arg(long, value_name = "N", value_parser = at_least_one::<NonZeroU64>)]
    runs: Option<NonZeroU64>,

    /// How sure each lower bound is to be
    #[arg(long, value_name = "P", default_value_t = CONFIDENCE, value_parser = probability)]
    confidence: f64,

    /// What all randomness comes from; the same seed and the same number of runs find the same
    #[arg(long, default_value_t = 1)]
    seed: u64,

    /// How many threads to use; all cores unless given
    #[arg(long, value_name = "N", value_parser = at_least_one::<NonZeroUsize>)]
    threads: Option<NonZeroUsize>,

    /// Print JSON instead of a table
    #[arg(long)]
    json: bool,

    /// Print a table in Markdown, without times and events
    #[arg(long, conflicts_with_all = ["json", "ledger"])]
    markdown: bool,

    /// Write a page with pictures, too
    #[arg(long, value_name = "FILE")]
    html: Option<String>,
}

fn probability(text: &str) -> Result<f64, &'static str> {
    let inside = |number: &f64| *number > 0.0 && *number < 1.0;
    text.parse().ok().filter(inside).ok_or("expected a number between 0 and 1")
}

impl Audit {
    pub(crate) fn run(&self) -> Result<(), Failure> {
        match &self.ledger {
            Some(record) => self.sum_up(record),
            None => self.attack(),
        }
    }

    fn options(&self) -> Options {
        Options {
            mechanism: self.mechanisms.clone(),
            family: self.family,
            thorough: self.thorough,
            epsilon: self.epsilon,
            window: self.window,
            domain: self.domain,
            runs: self.runs,
            confidence: Some(self.confidence),
            seed: Some(self.seed),
            threads: self.threads,
        }
    }

    fn attack(&self) -> Result<(), Failure> {
        let options = self.options();
        let (settings, plan, chosen) = (options.settings()?, options.plan(), options.targets()?);
        // Opened before anything is run: a place that cannot be written to is found out at once.
        let page = self.html.as_deref().map(Output::create).transpose()?;
        let bar = progress_bar(&chosen, &plan);
        let mut findings = Vec::with_capacity(chosen.len());
        for (number, target) in (1..).zip(&chosen) {
            bar.set_prefix(format!("{number}/{} {}", chosen.len(), target.name()));
            let finding = options.audit(target.as_ref(), Stop::never(), &|| bar.inc(1));
            let finding = finding.inspect_err(|_| bar.finish_and_clear())?;
            if bar.is_hidden() {
                let name = format!("{number}/{}", chosen.len());
                complain(&name, format_args!("{}, {:.1} s", finding.mechanism, finding.seconds));
            }
            findings.push(finding);
        }
        bar.finish_and_clear();
        if let Some(mut page) = page {
            page.write(&report(&findings, &settings, &plan).to_html())?;
            page.finish()?;
        }
        print(&if self.json {
            as_json(&findings)
        } else if self.markdown {
            as_markdown(&findings)
        } else {
            as_text(&findings, &settings, &plan)
        })?;
        broken(&findings).map_or(Ok(()), |problem| Err(Failure::run(problem)))
    }

    fn sum_up(&self, record: &str) -> Result<(), Failure> {
        let limits = match (&self.spec, self.window, self.epsilon) {
            (Some(spec), ..) => Limits::of(&Input::spec(spec)?)?,
            (None, Some(window), Some(budget)) => Limits::Same(Limit { window: Some(window), budget }),
            _ => return Err(Failure::input("--ledger needs --window and --epsilon, or --spec")),
        };
        let Input { name, source } = TableFormat::of(record).open(record)?;
        let spends = ledger::read(&name, source).map_err(Failure::input)?;
        if let Some(spend) = spends.iter().find(|spend| limits.find(&spend.account).is_none()) {
            let account = if spend.account.is_empty() { "everyone" } else { &spend.account };
            return Err(Failure::input(format_args!(
                "{name}: {account} spent something, and the spec has no budget for it"
            )));
        }
        // Every account was found.
        let none = Limit { window: None, budget: Epsilon::MIN };
        let statement = ledger::statement_by(&spends, |account| limits.find(account).unwrap_or(none));
        print(&if self.json {
            statement_as_json(&statement, &limits)
        } else {
            statement_as_text(&statement, &limits)
        })?;
        match &statement.overspent {
            None => Ok(()),
            Some(overspent) => {
                Err(Failure::run(format_args!("{name}: {} of {}", in_words(overspent), overspent.budget)))
            }
        }
    }
}

/// Budgets and windows of accounts.
enum Limits {
    /// Each account the same.
    Same(Limit),
    /// Each class its own, in the order of the spec, with its name.
    Classes(Vec<(String, Limit)>),
}

impl Limits {
    /// The limits that a spec declares.
    fn of(spec: &Spec) -> Result<Self, Failure> {
        let refused = |error: SpecError| spec.refused(&error);
        if let Some(split) = spec.stream.input().split().map_err(refused)? {
            let most = split.most;
            return Err(Failure::input(format_args!(
                "the spec has several series, each with a ledger: keep the lines of one, and pass --window and, as \
                 --epsilon, that of the spec divided by {most}"
            )));
        }
        Ok(match &spec.stream {
            StreamSpec::Local(spec) => Self::declared(spec.classes.as_deref(), spec.window, spec.epsilon)?,
            StreamSpec::Scalar(spec) => Self::Same(Limit { window: Some(NonZeroU64::MIN), budget: spec.epsilon }),
            StreamSpec::Central(spec) => Self::declared(spec.classes.as_deref(), spec.window, spec.epsilon)?,
            StreamSpec::Sequence(spec) => {
                let machine = spec.mechanism(spec.model().map_err(refused)?.as_ref()).map_err(refused)?;
                // A batch is spent on at its first symbol.
                let (ledger, symbols) = (machine.ledger(), u64::from(spec.length.unwrap_or(1)));
                let window = match ledger.window() {
                    Window::Timestamps(length) => NonZeroU64::new(length.get().saturating_mul(symbols)),
                    Window::Unbounded => None,
                };
                Self::Same(Limit { window, budget: ledger.budget() })
            }
            other => return Err(Failure::input(format_args!("the family {} has no budget", other.family()))),
        })
    }

    /// The limits of classes, or of everyone.
    fn declared(
        classes: Option<&[ClassSpec]>,
        window: Option<NonZeroU64>,
        budget: Option<Epsilon>,
    ) -> Result<Self, Failure> {
        let limit = |class: &ClassSpec| Limit { window: Some(class.window), budget: class.epsilon };
        match (classes, window, budget) {
            (Some(classes), ..) => {
                Ok(Self::Classes(classes.iter().map(|class| (class.name.clone(), limit(class))).collect()))
            }
            (None, Some(window), Some(budget)) => Ok(Self::Same(Limit { window: Some(window), budget })),
            _ => Err(Failure::input("the spec has neither epsilon and window nor classes")),
        }
    }

    /// The limit of an account, which is called by the number of its class, as releases do, or by its name.
    fn find(&self, account: &str) -> Option<Limit> {
        match self {
            Self::Same(limit) => Some(*limit),
            Self::Classes(limits) => {
                let by_number = ledger::class_of(account).and_then(|class| limits.get(class as usize));
                by_number.or_else(|| limits.iter().find(|(name, _)| name == account)).map(|(_, limit)| *limit)
            }
        }
    }

    fn in_words(&self) -> String {
        match self {
            Self::Same(Limit { window: Some(window), budget }) => {
                format!("windows of {window} timestamps, budget {budget}")
            }
            Self::Same(Limit { window: None, budget }) => format!("windows without end, budget {budget}"),
            Self::Classes(limits) => format!("windows, budgets of {} classes", limits.len()),
        }
    }
}

fn print(text: &str) -> Result<(), Failure> {
    let mut output = Output::create("-")?;
    output.write(text)?;
    output.finish()
}

fn progress_bar(chosen: &[Box<dyn Target>], plan: &Plan) -> ProgressBar {
    if !io::stderr().is_terminal() {
        return ProgressBar::hidden();
    }
    let style = ProgressStyle::with_template("{prefix} {wide_bar} {percent}%, {eta} left");
    let length = chosen.iter().map(|target| steps(target.as_ref(), plan)).sum();
    ProgressBar::new(length).with_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()))
}

/// Which window it is, and what it has spent.
fn in_words(spent: &WindowSpend) -> String {
    let WindowSpend { first, last, account, slot, units, .. } = spent;
    let whose = if account.is_empty() { String::new() } else { format!(" of {account}") };
    let whose = slot.map_or(whose.clone(), |slot| format!("{whose}, slot {slot},"));
    format!("the window {first}..{last}{whose} has spent {}", in_epsilons(*units))
}

fn statement_as_text(statement: &Statement, limits: &Limits) -> String {
    let Statement { spends, windows, largest, overspent } = statement;
    let largest = largest.as_ref().map_or_else(|| "nothing was spent".to_owned(), in_words);
    let verdict = if overspent.is_some() { "OVERSPENT" } else { "within the budget" };
    format!("{spends} spends, {windows} {}: {verdict}\nat most: {largest}\n", limits.in_words())
}

fn statement_as_json(statement: &Statement, limits: &Limits) -> String {
    let spent = |spent: &WindowSpend| {
        json!({ "first": spent.first, "last": spent.last, "account": spent.account, "slot": spent.slot,
                "spent": in_epsilons(spent.units), "budget": spent.budget.to_string() })
    };
    let Statement { spends, windows, largest, overspent } = statement;
    let largest = largest.as_ref().map(spent);
    let overspent = overspent.as_ref().map(spent);
    // With classes, each has its own.
    let (window, budget) = match limits {
        Limits::Same(Limit { window, budget }) => (json!(window), json!(budget.to_string())),
        Limits::Classes(_) => (Value::Null, Value::Null),
    };
    let object = json!({ "window": window, "budget": budget, "spends": spends, "windows": windows,
                         "largest": largest, "overspent": overspent });
    format!("{object:#}\n")
}
