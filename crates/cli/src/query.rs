//! `tidegate query`: what a service has published.

use std::num::NonZeroU64;
use std::thread;
use std::time::Duration;

use clap::{Args, ValueEnum};
use serde::Deserialize;
use serde_json::{Map, Value, json};
use tidegate::post_processing::{Refinement, Repair};
use tidegate::release::Release;
use tidegate::spec::StreamSpec;
use tidegate_device::client::Client;
use tidegate_device::enrolment::is_name;
use tidegate_release::gate::Reader;
use tidegate_table::Format;
use tidegate_table::releases::{ReleaseLayout, quoted, suspicion_words};
use tidegate_table::time::Clock;

use crate::arguments::{at_least_one, repair};
use crate::device::connection::{Server, explain};
use crate::failure::Failure;
use crate::output::Output;
use crate::table::{layout, short};

/// Read what a service has published: streams, releases, and answers with intervals.
///
/// Asked for a value, a range of values or the most frequent ones, it prints the answer about the
/// latest release, or about --at, with the interval that holds the truth with --confidence. Where users
/// have numbers it is asked for nothing of these, and prints the mean. Answers are worked out from what
/// was released, and cost nothing. Otherwise it lists streams, releases, or what queries and monitors
/// of the stream's own have said; with --follow, also what comes.
#[derive(Debug, Args)]
#[command(
    verbatim_doc_comment,
    after_help = "Example:\n  tidegate query --server https://tidegate.example --token-file analyst.token --stream \
                  visits --value shop\n  \
                  tidegate query --server http://127.0.0.1:8420 --stream visits --first work --last away --delta 24\n  \
                  tidegate query streams --server http://127.0.0.1:8420\n  \
                  tidegate query releases --server http://127.0.0.1:8420 --stream visits --follow --json\n  \
                  tidegate query releases --server http://127.0.0.1:8420 --stream visits --repair norm_sub"
)]
pub(crate) struct Query {
    /// What to read
    #[arg(value_enum, default_value = "answer", hide_default_value = true)]
    what: What,

    #[command(flatten)]
    server: Server,

    /// The stream's name
    #[arg(long, value_name = "NAME")]
    stream: Option<String>,

    /// A value of the domain
    #[arg(long, conflicts_with_all = ["first", "top"])]
    value: Option<String>,

    /// The first value of a range
    #[arg(long, requires = "last", conflicts_with = "top")]
    first: Option<String>,

    /// The last value of a range, which belongs to it
    #[arg(long, requires = "first")]
    last: Option<String>,

    /// How many of the most frequent values
    #[arg(long, value_name = "K", value_parser = at_least_one::<NonZeroU64>)]
    top: Option<NonZeroU64>,

    /// Over how many timestamps to sum
    #[arg(long, value_name = "N", value_parser = at_least_one::<NonZeroU64>, conflicts_with = "top")]
    delta: Option<NonZeroU64>,

    /// Counts of users instead of shares
    #[arg(long)]
    counts: bool,

    /// How sure it is that the interval holds the truth
    #[arg(long, value_name = "P")]
    confidence: Option<f64>,

    /// The timestamp that the answer is about; the latest unless given
    #[arg(long, value_name = "T")]
    at: Option<u64>,

    /// Releases or answers of this timestamp and later ones
    #[arg(long, value_name = "T")]
    from: Option<u64>,

    /// Releases or answers of this timestamp and earlier ones
    #[arg(long, value_name = "T")]
    to: Option<u64>,

    /// Repair releases before they are read: consistent, norm_sub or none. Not where the stream's spec repairs
    /// them already
    #[arg(long, value_parser = repair)]
    repair: Option<Repair>,

    /// Smooth releases by those before them, from --from on; with `query releases`
    #[arg(long)]
    smooth: bool,

    /// Go on with releases or answers as they are published
    #[arg(long, conflicts_with = "to")]
    follow: bool,

    /// Print CSV
    #[arg(long, conflicts_with = "json")]
    csv: bool,

    /// Print JSON: an object, or with releases and answers an object a line
    #[arg(long)]
    json: bool,
}

/// What can be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum What {
    /// The answer to a question
    Answer,
    /// All streams
    Streams,
    /// Releases of a stream
    Releases,
    /// What queries and monitors of a stream have said
    Answers,
}

/// How often to look for more.
const PACE: Duration = Duration::from_secs(1);

/// Records of a stream, as the service lists them.
#[derive(Debug, Deserialize)]
pub(crate) struct Listed {
    #[serde(alias = "releases", alias = "answers")]
    pub(crate) records: Vec<Record>,
}

/// A release, or something said about one.
#[derive(Debug, Deserialize)]
pub(crate) struct Record {
    pub(crate) number: u64,
    #[serde(alias = "release", alias = "answer")]
    pub(crate) body: Value,
}

impl Query {
    pub(crate) fn run(&self) -> Result<(), Failure> {
        let client = self.server.client(1)?;
        if self.what == What::Streams {
            return self.streams(&client);
        }
        let stream = self.stream.as_deref().ok_or_else(|| Failure::input("--stream: which stream?"))?;
        if !is_name(stream) {
            return Err(Failure::input("--stream: a stream has a name of 1 to 64 lower-case letters, digits, _ and -"));
        }
        let found: Value = client.read(&format!("/v1/streams/{stream}")).map_err(explain)?;
        let spec: StreamSpec = found.get("spec").cloned().map_or_else(
            || Err(Failure::run("the service tells no spec of the stream")),
            |spec| serde_json::from_value(spec).map_err(Failure::run),
        )?;
        match self.what {
            What::Releases => {
                let epoch = found.get("epoch").and_then(Value::as_u64).unwrap_or(0);
                self.releases(&client, stream, &spec, epoch)
            }
            What::Answers => self.records(&client, stream, "answers", |record| Ok(format!("{}\n", record.body))),
            _ => self.answer(&client, stream, &spec),
        }
    }

    fn streams(&self, client: &Client) -> Result<(), Failure> {
        let found: Value = client.read("/v1/streams").map_err(explain)?;
        let streams = found.get("streams").and_then(Value::as_array).cloned().unwrap_or_default();
        let mut output = Output::create("-")?;
        if self.json {
            output.write(&format!("{}\n", serde_json::to_string_pretty(&streams).map_err(Failure::run)?))?;
            return output.finish();
        }
        output.write(&self.table(&stream_rows(&streams)))?;
        output.finish()
    }

    /// A table, aligned or as CSV.
    fn table(&self, rows: &[Vec<String>]) -> String {
        if !self.csv {
            return layout(rows);
        }
        let line = |row: &Vec<String>| row.iter().map(|cell| quoted(cell)).collect::<Vec<_>>().join(",") + "\n";
        rows.iter().map(line).collect()
    }

    fn releases(&self, client: &Client, stream: &str, spec: &StreamSpec, epoch: u64) -> Result<(), Failure> {
        let times = spec.input().every.map_or_else(Clock::default, |every| Clock::of_ticks(every, epoch));
        let mut shape = ReleaseLayout::of_collector(spec).map_err(Failure::run)?.with_clock(times);
        let is_of_devices = matches!(spec, StreamSpec::Local(_) | StreamSpec::Sequence(_));
        if is_of_devices {
            shape = shape.with_suspicions();
        }
        let format = if self.json { Format::Ndjson } else { Format::Csv };
        let mut head = String::new();
        shape.begin(format, &mut head);
        let own = spec.refinement().map_err(Failure::run)?;
        let refinement = Refinement::of_query(&own, self.repair.unwrap_or(Repair::None), self.smooth);
        let mut refinement = refinement.map_err(|error| Failure::input(format_args!("--{error}")))?;
        self.records(client, stream, "releases", |record| {
            let release: Release = serde_json::from_value(record.body.clone()).map_err(Failure::run)?;
            let release = refinement.push(release);
            let mut text = std::mem::take(&mut head);
            let written = if is_of_devices {
                shape.write_suspected(&release, &suspicions(&record.body), format, &mut text)
            } else {
                shape.write(&release, None, format, &mut text)
            };
            written.map_err(Failure::run)?;
            Ok(text)
        })
    }

    /// Writes records as they come, until there are no more or nobody reads.
    fn records(
        &self,
        client: &Client,
        stream: &str,
        kind: &str,
        mut line: impl FnMut(&Record) -> Result<String, Failure>,
    ) -> Result<(), Failure> {
        let mut output = Output::create("-")?;
        let mut after = 0;
        loop {
            let mut path = format!("/v1/streams/{stream}/{kind}?after={after}");
            for (name, bound) in [("from", self.from), ("to", self.to)] {
                if let Some(bound) = bound {
                    path += &format!("&{name}={bound}");
                }
            }
            let Listed { records } = client.read(&path).map_err(explain)?;
            for record in &records {
                after = after.max(record.number);
                if output.write(&line(record)?)? == Reader::WentAway {
                    return Ok(());
                }
            }
            match (records.is_empty(), self.follow) {
                (false, _) => {}
                (true, true) => thread::sleep(PACE),
                (true, false) => return output.finish(),
            }
        }
    }

    fn answer(&self, client: &Client, stream: &str, spec: &StreamSpec) -> Result<(), Failure> {
        let has_numbers = matches!(spec, StreamSpec::Local(spec) if spec.has_numbers());
        if !has_numbers && self.value.is_none() && self.first.is_none() && self.top.is_none() {
            return Err(Failure::input(
                "ask for --value, for --first and --last, or for --top; or read streams, releases or answers",
            ));
        }
        if self.smooth {
            return Err(Failure::input(
                "--smooth is for `query releases`; for answers, set smooth in the stream's spec",
            ));
        }
        let is_numbered = match spec {
            StreamSpec::Local(spec) => matches!(spec.domain, tidegate::spec::ValuesSpec::Number(_)),
            StreamSpec::Central(spec) => matches!(spec.domain, tidegate::spec::ValuesSpec::Number(_)),
            _ => false,
        };
        let value = |text: &String| match text.parse::<u64>() {
            Ok(number) if is_numbered => json!(number),
            _ => json!(text),
        };
        let mut asked = Map::new();
        let given = [
            ("value", self.value.as_ref().map(value)),
            ("first", self.first.as_ref().map(value)),
            ("last", self.last.as_ref().map(value)),
            ("top", self.top.map(|top| json!(top))),
            ("delta", self.delta.map(|delta| json!(delta))),
            ("unit", self.counts.then(|| json!("counts"))),
            ("confidence", self.confidence.map(|confidence| json!(confidence))),
            ("at", self.at.map(|at| json!(at))),
            ("repair", self.repair.map(|repair| json!(repair))),
        ];
        asked.extend(given.into_iter().filter_map(|(name, value)| Some((name.to_owned(), value?))));
        let path = format!("/v1/streams/{stream}/query");
        let answer: Value = client.ask(&path, &Value::Object(asked).to_string()).map_err(explain)?;
        let mut output = Output::create("-")?;
        if self.json {
            output.write(&format!("{answer}\n"))?;
            return output.finish();
        }
        let what = match (&self.value, &self.first, &self.last) {
            (Some(value), _, _) => value.clone(),
            (_, Some(first), Some(last)) => format!("{first} to {last}"),
            _ if has_numbers => "mean".to_owned(),
            _ => String::new(),
        };
        let number =
            |answer: &Value, key: &str| answer.get(key).and_then(Value::as_f64).map_or_else(String::new, short);
        let timestamp = answer.get("t").map_or_else(String::new, Value::to_string);
        let row = |of: &str, answer: &Value| {
            let deviation = answer
                .get("variance")
                .and_then(Value::as_f64)
                .map_or_else(String::new, |variance| short(variance.sqrt()));
            vec![
                timestamp.clone(),
                of.to_owned(),
                number(answer, "value"),
                number(answer, "low"),
                number(answer, "high"),
                deviation,
            ]
        };
        let mut rows = vec![["t", "of", "value", "low", "high", "deviation"].map(str::to_owned).to_vec()];
        match answer.get("top").and_then(Value::as_array) {
            Some(top) => rows
                .extend(top.iter().map(|each| row(each.get("of").and_then(Value::as_str).unwrap_or_default(), each))),
            None => rows.push(row(&what, &answer)),
        }
        output.write(&self.table(&rows))?;
        output.finish()
    }
}

/// Returns what is suspicious about a release, as words.
fn suspicions(release: &Value) -> String {
    let words = release.get("suspicious").and_then(Value::as_array).into_iter().flatten().filter_map(Value::as_str);
    suspicion_words(words)
}

/// The rows of a table of streams.
pub(crate) fn stream_rows(streams: &[Value]) -> Vec<Vec<String>> {
    let text = |stream: &Value, key: &str| match stream.pointer(key) {
        Some(Value::String(text)) => text.clone(),
        None | Some(Value::Null) => String::new(),
        Some(other) => other.to_string(),
    };
    let mut rows = vec![HEADERS.iter().map(|(name, _)| (*name).to_owned()).collect::<Vec<_>>()];
    rows.extend(streams.iter().map(|stream| HEADERS.iter().map(|(_, key)| text(stream, key)).collect()));
    rows
}

/// What a list of streams tells, and where it stands in a stream.
const HEADERS: [(&str, &str); 8] = [
    ("stream", "/name"),
    ("family", "/spec/family"),
    ("mechanism", "/spec/mechanism"),
    ("epsilon", "/spec/epsilon"),
    ("window", "/spec/window"),
    ("tick", "/tick"),
    ("status", "/status"),
    ("timestamp", "/timestamp"),
];
