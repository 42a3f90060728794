//! `tidegate stream`: the streams of a running service.

use std::num::NonZeroU64;
use std::path::PathBuf;

use clap::{Args, Subcommand};
use serde::Deserialize;
use serde_json::{Value, json};
use tidegate::spec::Every;
use tidegate_device::client::Client;
use tidegate_device::credential::Credential;
use tidegate_release::files::write_private;
use tidegate_server::retention::Retention;
use tidegate_server::stream::{Declaration, DeclarationError};
use tidegate_table::{Reading, TableError, TableReader};

use crate::arguments::at_least_one;
use crate::device::connection::{Server, explain};
use crate::failure::{Failure, complain};
use crate::input::Input;
use crate::output::Output;
use crate::query::stream_rows;
use crate::table::layout;

/// Manage the streams of a running service, and send events to them.
///
/// Creating, pausing, resuming, retiring and credentials need an operator's token, sending and
/// registering users an ingest token, and listing and showing an analyst's. The token is in
/// --token-file or in the variable TIDEGATE_TOKEN, and the address in --server or in the variable
/// TIDEGATE_SERVER.
#[derive(Debug, Args)]
#[command(
    verbatim_doc_comment,
    arg_required_else_help = true,
    after_help = "Example:\n  export TIDEGATE_SERVER=http://127.0.0.1:8420 TIDEGATE_TOKEN=tg_o_...\n  \
                  tidegate stream create offices --tick 3600 --spec central.toml\n  \
                  tidegate stream send offices --input events.csv\n  \
                  tidegate stream list\n  tidegate stream pause offices"
)]
pub(crate) struct Streams {
    #[command(subcommand)]
    action: Action,
}

#[derive(Debug, Subcommand)]
enum Action {
    /// Create a stream, or give one that exists other queries, monitors, webhooks and retention
    ///
    /// What a stream promises never changes: a spec with another guarantee is refused, and needs another
    /// name.
    #[command(
        verbatim_doc_comment,
        after_help = "Example:\n  tidegate stream create visits --tick 60 --spec local.toml --server \
                      http://127.0.0.1:8420 --token-file operator.token"
    )]
    Create(Create),
    /// List all streams
    #[command(after_help = "Example:\n  tidegate stream list --server http://127.0.0.1:8420 --json")]
    List(List),
    /// Show a stream: its declaration, status and version
    #[command(after_help = "Example:\n  tidegate stream show visits --server http://127.0.0.1:8420")]
    Show(One),
    /// Finish the open tick of a stream, and open no other
    #[command(after_help = "Example:\n  tidegate stream pause visits --server http://127.0.0.1:8420")]
    Pause(One),
    /// Go on with a stream that was paused
    #[command(after_help = "Example:\n  tidegate stream resume visits --server http://127.0.0.1:8420")]
    Resume(One),
    /// End a stream for ever
    #[command(after_help = "Example:\n  tidegate stream retire visits --server http://127.0.0.1:8420")]
    Retire(One),
    /// Send events to a stream whose curator is trusted: values of users, or a reading
    ///
    /// The input is a table with the fields user,value, as CSV or as lines of JSON; for a stream of
    /// numbers, --value is the reading. The events of a request count in the present tick; --timestamp
    /// names it, or an earlier one that is still open. A stream of numbers requires it. A user counts once
    /// in a tick: the first value counts.
    #[command(
        verbatim_doc_comment,
        after_help = "Example:\n  tidegate stream send offices --input events.csv --server http://127.0.0.1:8420\n  \
                      tidegate stream send offices --user anna --value work\n  \
                      tidegate stream send load --timestamp 471 --value 17.5\n  \
                      tidegate stream send offices --history years.csv"
    )]
    Send(Send),
    /// Register users in classes, move them to others, or let them leave
    ///
    /// For streams whose spec declares classes. The input is a table with the fields user,class, as CSV or
    /// as lines of JSON; an empty class lets the user leave. Changes apply from the next timestamp on. A
    /// user who moves to another class is not counted until the longer window of the two is over. --user
    /// alone shows a user's class.
    #[command(
        verbatim_doc_comment,
        after_help = "Example:\n  tidegate stream users offices --input classes.csv --server http://127.0.0.1:8420\n  \
                      tidegate stream users offices --user anna --class high\n  \
                      tidegate stream users offices --user anna --leave"
    )]
    Users(Users),
    /// Get the credential of a device, for a stream that was created with --credentials
    ///
    /// Needs an operator's token. Ask for the name of a device only after you have made sure which device
    /// it is: a name counts once for each timestamp, and whoever gets many names counts as often. The
    /// credential, a line of JSON, goes to the device, which keeps it secret: tidegate device run
    /// --credential-file. Nothing is stored: the same name always has the same credential.
    #[command(
        verbatim_doc_comment,
        after_help = "Example:\n  tidegate stream credential visits --device phone-17 --server http://127.0.0.1:8420 \
                      --token-file operator.token --output phone-17.credential"
    )]
    Credential(OneCredential),
}

#[derive(Debug, Args)]
struct Create {
    /// The stream's name: lower-case letters, digits, _ and -
    name: String,

    /// The spec of the stream
    #[arg(long, value_name = "FILE|-")]
    spec: String,

    /// The duration of a timestamp, in seconds
    #[arg(long, value_name = "SECONDS", value_parser = at_least_one::<NonZeroU64>)]
    tick: NonZeroU64,

    /// The start of timestamp 0, in seconds since 1970
    #[arg(long, value_name = "SECONDS", default_value_t = 0)]
    epoch: u64,

    /// How many ticks longer a tick takes events of a trusted curator, 0 to 100
    #[arg(long, value_name = "TICKS", default_value_t = 0)]
    lateness: u64,

    /// Take the history of a trusted curator first; resume makes the stream live
    #[arg(long)]
    backfill: bool,

    /// Count only reports with tokens, which devices draw with credentials: each device once for each timestamp
    ///
    /// N services on one database: N tokens for each; a restart: one more for the blocks that were drawn
    #[arg(long)]
    credentials: bool,

    /// A URL that gets the messages of monitors; may be repeated
    #[arg(long, value_name = "URL")]
    webhook: Vec<String>,

    /// Keep the releases and answers of the last so many timestamps only
    #[arg(long, value_name = "N", value_parser = at_least_one::<NonZeroU64>)]
    keep_timestamps: Option<NonZeroU64>,

    /// Keep the releases and answers of the last so much time only, such as 90d
    #[arg(long, value_name = "TIME")]
    keep_age: Option<Every>,

    #[command(flatten)]
    server: Server,

    /// Print the stream as JSON
    #[arg(long)]
    json: bool,
}

#[derive(Debug, Args)]
struct List {
    #[command(flatten)]
    server: Server,

    /// Print the streams as JSON
    #[arg(long)]
    json: bool,
}

#[derive(Debug, Args)]
struct One {
    /// The stream's name
    name: String,

    #[command(flatten)]
    server: Server,

    /// Print the stream as JSON
    #[arg(long)]
    json: bool,
}

#[derive(Debug, Args)]
struct Send {
    /// The stream's name
    name: String,

    /// A table with the fields user,value
    #[arg(long, value_name = "FILE|-", required_unless_present_any = ["value", "history"], conflicts_with = "value")]
    input: Option<String>,

    /// The history of a stream that is not live yet: a table t,user,value or t,value, ordered by t
    #[arg(long, value_name = "FILE|-", conflicts_with_all = ["input", "value", "timestamp"])]
    history: Option<String>,

    /// Begin the history with this timestamp, and leave out earlier lines
    #[arg(long, value_name = "T", requires = "history", default_value_t = 0)]
    from: u64,

    /// Who holds the value
    #[arg(long, requires = "value")]
    user: Option<String>,

    /// The value of a user, or a reading
    #[arg(long, allow_hyphen_values = true)]
    value: Option<String>,

    /// The tick that the events belong to, which must be open
    #[arg(long, value_name = "T")]
    timestamp: Option<u64>,

    #[command(flatten)]
    server: Server,

    /// Print how many events were taken as JSON
    #[arg(long)]
    json: bool,
}

#[derive(Debug, Args)]
struct Users {
    /// The stream's name
    name: String,

    /// A table with the fields user,class
    #[arg(long, value_name = "FILE|-", required_unless_present = "user", conflicts_with = "user")]
    input: Option<String>,

    /// A user
    #[arg(long)]
    user: Option<String>,

    /// The class that the user wants
    #[arg(long, requires = "user")]
    class: Option<String>,

    /// Let the user leave
    #[arg(long, requires = "user", conflicts_with = "class")]
    leave: bool,

    #[command(flatten)]
    server: Server,

    /// Print the answer as JSON
    #[arg(long)]
    json: bool,
}

#[derive(Debug, Args)]
struct OneCredential {
    /// The stream's name
    name: String,

    /// The device's name: lower-case letters, digits, _ and -
    #[arg(long, value_name = "NAME", value_parser = name)]
    device: String,

    /// Write the credential to a new file that only you may read, instead of to standard output
    #[arg(long, value_name = "FILE")]
    output: Option<PathBuf>,

    #[command(flatten)]
    server: Server,
}

/// Most events of a request; the service takes 100,000 and 8 MiB.
const MOST_EVENTS: usize = 10_000;
/// Most bytes of a request, about.
const MOST_BYTES: usize = 4 << 20;

impl Streams {
    pub(crate) fn run(&self) -> Result<(), Failure> {
        match &self.action {
            Action::Create(create) => create.run(),
            Action::List(list) => list.run(),
            Action::Show(one) => {
                let stream = one.server.client(1)?.read(&path(&one.name, "")?).map_err(explain)?;
                show(&stream, one.json)
            }
            Action::Pause(one) => one.set("pause"),
            Action::Resume(one) => one.set("resume"),
            Action::Retire(one) => one.set("retire"),
            Action::Send(send) => send.run(),
            Action::Users(users) => users.run(),
            Action::Credential(one) => one.run(),
        }
    }
}

/// Parses the name of a device.
fn name(text: &str) -> Result<String, &'static str> {
    let is_name = tidegate_device::enrolment::is_name(text);
    is_name.then(|| text.to_owned()).ok_or("expected 1 to 64 lower-case letters, digits, _ and -")
}

/// The path of something about a stream.
fn path(stream: &str, of: &str) -> Result<String, Failure> {
    if tidegate_device::enrolment::is_name(stream) {
        return Ok(format!("/v1/streams/{stream}{of}"));
    }
    Err(Failure::input("a stream has a name of 1 to 64 lower-case letters, digits, _ and -"))
}

/// Prints a stream.
fn show(stream: &Value, json: bool) -> Result<(), Failure> {
    let mut output = Output::create("-")?;
    if json {
        output.write(&format!("{stream}\n"))?;
    } else {
        output.write(&layout(&stream_rows(std::slice::from_ref(stream))))?;
        if let Some(problem) = stream.get("problem").and_then(Value::as_str) {
            complain("problem", problem);
        }
    }
    output.finish()
}

impl Create {
    fn run(&self) -> Result<(), Failure> {
        let spec = Input::spec(&self.spec)?;
        let Self { tick, epoch, lateness, backfill, credentials, .. } = *self;
        let (name, webhooks) = (self.name.clone(), self.webhook.clone());
        let retention = Retention { timestamps: self.keep_timestamps, age: self.keep_age };
        let declared = spec.declared()?;
        let declaration =
            Declaration { name, tick, epoch, spec: declared, lateness, backfill, credentials, webhooks, retention };
        declaration.check().map_err(|error| match error {
            DeclarationError::Spec(error) => spec.refused(&error).into(),
            other => Failure::input(other),
        })?;
        let body = serde_json::to_string(&declaration).map_err(Failure::run)?;
        let stream = self.server.client(1)?.ask("/v1/streams", &body).map_err(explain)?;
        show(&stream, self.json)
    }
}

impl OneCredential {
    fn run(&self) -> Result<(), Failure> {
        let client = self.server.client(1)?;
        let credentials = credentials(&client, &self.name, std::slice::from_ref(&self.device))?;
        for credential in credentials {
            let line = format!("{}\n", serde_json::to_string(&credential).map_err(Failure::run)?);
            match &self.output {
                Some(path) => write_private(path, &line)?,
                None => {
                    let mut output = Output::create("-")?;
                    output.write(&line)?;
                    output.finish()?;
                }
            }
        }
        Ok(())
    }
}

/// Most credentials of a request.
pub(crate) const MOST_CREDENTIALS: usize = 1_000;

/// Gets the credentials of up to [`MOST_CREDENTIALS`] devices, in their order.
pub(crate) fn credentials(client: &Client, stream: &str, devices: &[String]) -> Result<Vec<Credential>, Failure> {
    #[derive(Deserialize)]
    struct Credentials {
        credentials: Vec<Credential>,
    }
    let body = json!({ "devices": devices }).to_string();
    let Credentials { credentials } = client.ask(&path(stream, "/credentials")?, &body).map_err(explain)?;
    if credentials.iter().map(Credential::device).eq(devices) {
        return Ok(credentials);
    }
    Err(Failure::run("the service has answered with credentials of other devices"))
}

impl List {
    fn run(&self) -> Result<(), Failure> {
        let found: Value = self.server.client(1)?.read("/v1/streams").map_err(explain)?;
        let streams = found.get("streams").and_then(Value::as_array).cloned().unwrap_or_default();
        let mut output = Output::create("-")?;
        if self.json {
            output.write(&format!("{}\n", Value::Array(streams)))?;
        } else {
            output.write(&layout(&stream_rows(&streams)))?;
        }
        output.finish()
    }
}

impl One {
    fn set(&self, action: &str) -> Result<(), Failure> {
        let path = path(&self.name, &format!("/{action}"))?;
        let stream = self.server.client(1)?.ask(&path, "").map_err(explain)?;
        show(&stream, self.json)
    }
}

impl Send {
    fn run(&self) -> Result<(), Failure> {
        if let Some(history) = &self.history {
            return self.send_history(history);
        }
        let timestamp = self.timestamp.map(|t| format!("?timestamp={t}")).unwrap_or_default();
        let path = path(&self.name, &format!("/events{timestamp}"))?;
        let client = self.server.client(1)?;
        let mut sender = Sender::new(&client, path);
        match (&self.input, &self.value) {
            (_, Some(value)) => {
                let mut event = json!({ "value": value });
                if let Some(user) = &self.user {
                    event["user"] = json!(user);
                }
                sender.push(event)?;
            }
            (Some(input), None) => {
                let Input { name, source } = Input::open(input)?;
                let mut table = Reading::default().detect(&name, source).map_err(Failure::input)?;
                let (user, value) = fields(&table, "value").map_err(Failure::input)?;
                while let Some(line) = table.next_line().map_err(Failure::input)? {
                    let user = line.named(user, "a user").map_err(Failure::input)?;
                    sender.push(json!({ "user": user, "value": line.text(value) }))?;
                }
            }
            // Unreachable: clap requires one of them.
            (None, None) => return Err(Failure::input("--input or --value must be given")),
        }
        let taken = sender.finish()?;
        let mut output = Output::create("-")?;
        let text = if self.json { json!({ "taken": taken }).to_string() } else { format!("{taken} events were taken") };
        output.write(&format!("{text}\n"))?;
        output.finish()
    }
}

impl Send {
    /// Sends a whole tick in each request. Where users may be absent, ticks without lines are sent too: nobody must see
    /// which ones these are.
    fn send_history(&self, history: &str) -> Result<(), Failure> {
        let client = self.server.client(1)?;
        let path = path(&self.name, "/history")?;
        let Input { name, source } = Input::open(history)?;
        let mut table = Reading::default().detect(&name, source).map_err(Failure::input)?;
        let user = table.field(&["user"]).ok();
        let (t, value) = (table.field(&["t"]), table.field(&["value"]));
        let (t, value) = (t.map_err(Failure::input)?, value.map_err(Failure::input)?);
        let send = |timestamp: u64, events: &mut Vec<Value>| -> Result<(), Failure> {
            let body = Value::Array(std::mem::take(events)).to_string();
            let answer: Result<Value, _> = client.ask(&format!("{path}?timestamp={timestamp}"), &body);
            answer.map(drop).map_err(|error| {
                complain("note", format_args!("timestamp {timestamp} and later ones were not released"));
                explain(error)
            })
        };
        let (mut open, mut events, mut ticks) = (None, Vec::new(), 0_u64);
        while let Some(line) = table.next_line().map_err(Failure::input)? {
            let expected = "a timestamp, a whole number that is not below the one before";
            let timestamp: u64 =
                line.text(t).trim().parse().map_err(|_| Failure::input(line.bad_field(t, expected)))?;
            if timestamp < self.from {
                continue;
            }
            match open {
                Some(before) if timestamp < before => return Err(Failure::input(line.bad_field(t, expected))),
                Some(before) if timestamp > before => {
                    send(before, &mut events)?;
                    ticks += 1;
                    if user.is_some() {
                        for empty in before + 1..timestamp {
                            send(empty, &mut events)?;
                            ticks += 1;
                        }
                    }
                }
                _ => {}
            }
            open = Some(timestamp);
            let mut event = json!({ "value": line.text(value) });
            if let Some(user) = user {
                event["user"] = json!(line.named(user, "a user").map_err(Failure::input)?);
            }
            events.push(event);
        }
        if let Some(last) = open {
            send(last, &mut events)?;
            ticks += 1;
        }
        let mut output = Output::create("-")?;
        let text = match self.json {
            true => json!({ "released": ticks }).to_string(),
            false => format!("{ticks} timestamps were released"),
        };
        output.write(&format!("{text}\n"))?;
        output.finish()
    }
}

impl Users {
    fn run(&self) -> Result<(), Failure> {
        let client = self.server.client(1)?;
        let mut sender = Sender::new(&client, path(&self.name, "/users")?);
        match (&self.input, &self.user) {
            (Some(input), _) => {
                let Input { name, source } = Input::open(input)?;
                let mut table = Reading::default().detect(&name, source).map_err(Failure::input)?;
                let (user, class) = fields(&table, "class").map_err(Failure::input)?;
                while let Some(line) = table.next_line().map_err(Failure::input)? {
                    let user = line.named(user, "a user").map_err(Failure::input)?;
                    let class = Some(line.text(class).trim()).filter(|class| !class.is_empty());
                    sender.push(json!({ "user": user, "class": class }))?;
                }
            }
            (None, Some(user)) if self.class.is_some() || self.leave => {
                sender.push(json!({ "user": user, "class": self.class }))?;
            }
            (None, Some(user)) => return self.show(&client, user),
            // Unreachable: clap requires one of them.
            (None, None) => return Err(Failure::input("--input or --user must be given")),
        }
        let taken = sender.finish()?;
        let text = match self.json {
            true => json!({ "taken": taken }).to_string(),
            false => format!("{taken} users were taken"),
        };
        let mut output = Output::create("-")?;
        output.write(&format!("{text}\n"))?;
        output.finish()
    }

    fn show(&self, client: &Client, user: &str) -> Result<(), Failure> {
        let path = path(&self.name, &format!("/users/{}", in_path(user)))?;
        let found: Value = client.read(&path).map_err(explain)?;
        let text = match (self.json, found["class"].as_str(), found["from"].as_u64()) {
            (true, ..) => found.to_string(),
            (_, Some(class), Some(from)) => format!("{user} is in class {class}, and counts from timestamp {from} on"),
            _ => format!("{user} has left"),
        };
        let mut output = Output::create("-")?;
        output.write(&format!("{text}\n"))?;
        output.finish()
    }
}

/// Encodes a name as a segment of a path.
fn in_path(name: &str) -> String {
    let encode = |byte: u8| match byte {
        b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'_' | b'~' => char::from(byte).to_string(),
        _ => format!("%{byte:02X}"),
    };
    name.bytes().map(encode).collect()
}

/// Positions of the user and of another field.
fn fields<R: std::io::Read>(table: &TableReader<R>, other: &str) -> Result<(usize, usize), TableError> {
    Ok((table.field(&["user"])?, table.field(&[other])?))
}

/// Sends events, or users with their classes, in requests of bounded size.
struct Sender<'a> {
    client: &'a Client,
    path: String,
    waiting: Vec<Value>,
    bytes: usize,
    taken: u64,
}

impl<'a> Sender<'a> {
    const fn new(client: &'a Client, path: String) -> Self {
        Self { client, path, waiting: Vec::new(), bytes: 0, taken: 0 }
    }

    fn push(&mut self, event: Value) -> Result<(), Failure> {
        self.bytes += event.to_string().len();
        self.waiting.push(event);
        if self.waiting.len() >= MOST_EVENTS || self.bytes >= MOST_BYTES { self.send() } else { Ok(()) }
    }

    fn send(&mut self) -> Result<(), Failure> {
        if self.waiting.is_empty() {
            return Ok(());
        }
        let body = Value::Array(std::mem::take(&mut self.waiting)).to_string();
        self.bytes = 0;
        let answer: Value = self.client.ask(&self.path, &body).map_err(|error| {
            if self.taken > 0 {
                complain("note", format_args!("{} were taken before", self.taken));
            }
            explain(error)
        })?;
        self.taken += answer.get("taken").and_then(Value::as_u64).unwrap_or(0);
        Ok(())
    }

    fn finish(mut self) -> Result<u64, Failure> {
        self.send()?;
        Ok(self.taken)
    }
}
