//! `tidegate release` for every family, in both formats of text, across runs.

mod formats;
mod refusals;
mod releases;
mod state;

use std::path::{Path, PathBuf};
use std::process::Output;

use crate::{run_with_input, stderr, stdout};
use serde_json::Value;

const LOCAL: &str = "family = \"local\"\nmechanism = \"lsp\"\nepsilon = 1\nwindow = 4\ndomain = [\"a\", \"b\", \
                     \"c\"]\npopulation = 9\n";

const CENTRAL: &str =
    "family = \"central\"\nmechanism = \"sample\"\nepsilon = 1\nwindow = 4\ndomain = [\"a\", \"b\", \"c\"]\n";

const PERSONAL: &str = "family = \"central\"\nmechanism = \"pba\"\ndomain = [\"a\", \"b\", \"c\"]\n\
     [[classes]]\nname = \"low\"\nepsilon = 1\nwindow = 2\n[[classes]]\nname = \"high\"\nepsilon = 0.5\nwindow = 4\n";

/// The spec of [`PERSONAL`] for devices.
fn plbu() -> String {
    PERSONAL.replace("central", "local").replace("pba", "plbu")
}

const SEQUENCE: &str = "family = \"sequence\"\nmechanism = \"crr\"\nepsilon = 1\nwindow = 4\nbudget = 1\ndomain = \
                        [\"a\", \"b\"]\nmodel = { prior = [0.5, 0.5], transitions = [[0.9, 0.1], [0.2, 0.8]] }\n";

const SCALAR: &str = "family = \"scalar\"\nmechanism = \"contin\"\nepsilon = 1\ndelay = 3\n\
                 domain = { low = 0, high = 612 }\nprotects = \"reading\"\n";

const USERS: &str = "user,class\nanna,low\nben,high\ncem,low\n";

/// An empty directory of the test's own.
fn directory(name: &str) -> PathBuf {
    let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join("families").join(name);
    let _ = std::fs::remove_dir_all(&path);
    std::fs::create_dir_all(&path).unwrap();
    path
}

/// A folder with a spec and a table of users.
struct Stream {
    folder: PathBuf,
    is_personal: bool,
}

impl Stream {
    fn new(name: &str, spec: &str) -> Self {
        let folder = directory(name);
        std::fs::write(folder.join("stream.toml"), spec).unwrap();
        // The classes of the example are called otherwise.
        let users = if spec.contains("careful") {
            USERS.replace("low", "relaxed").replace("high", "careful")
        } else {
            USERS.to_owned()
        };
        std::fs::write(folder.join("users.csv"), users).unwrap();
        Self { folder, is_personal: spec.lines().any(|line| line == "[[classes]]") }
    }

    fn path(&self, name: &str) -> String {
        self.folder.join(name).display().to_string()
    }

    fn arguments(&self, options: &str) -> String {
        let users = if self.is_personal { format!("--users {}", self.path("users.csv")) } else { String::new() };
        format!("release --spec {} {users} {options}", self.path("stream.toml"))
    }

    fn release(&self, input: impl AsRef<[u8]>, options: &str) -> Output {
        run_with_input(&self.arguments(options), input.as_ref())
    }

    /// With a state and, where readings are held back, a key.
    fn go_on(&self, input: impl AsRef<[u8]>, options: &str) -> Output {
        self.release(input, &format!("{} {options}", self.state()))
    }

    fn state(&self) -> String {
        let key = if self.folder.to_string_lossy().contains("scalar") {
            format!("--key {}", self.path("key"))
        } else {
            String::new()
        };
        // The first run begins it.
        let new = if self.folder.join("state").exists() { "" } else { "--new-state" };
        format!("--state {} {new} {key}", self.path("state"))
    }
}

fn rows(output: &Output) -> Vec<Vec<String>> {
    assert!(output.status.success(), "{}", stderr(output));
    stdout(output).lines().skip(1).map(|line| line.split(',').map(str::to_owned).collect()).collect()
}

/// The freshness of a row, before who paid for it and whether it was seeded.
fn freshness(row: &[String]) -> &str {
    &row[row.len() - 3]
}

fn objects(text: &str) -> Vec<Value> {
    text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

/// A table in long form: each user a value at each timestamp.
fn long(timestamps: std::ops::Range<u64>, values: &[&str]) -> String {
    let users = ["anna", "ben", "cem"];
    let line = |t: u64| {
        let held = move |user: usize| values[(usize::try_from(t).unwrap() + user) % values.len()];
        (0..users.len()).map(move |user| format!("{t},{},{}\n", users[user], held(user))).collect::<String>()
    };
    std::iter::once("t,user,value\n".to_owned()).chain(timestamps.map(line)).collect()
}

/// The same table as lines of JSON.
fn as_json(csv: &str) -> String {
    let mut lines = csv.lines();
    let fields: Vec<&str> = lines.next().unwrap().split(',').collect();
    let object = |line: &str| {
        let cell = |(field, text): (&&str, &str)| match text.parse::<u64>() {
            Ok(number) => format!("\"{field}\": {number}"),
            Err(_) => format!("\"{field}\": \"{text}\""),
        };
        format!("{{{}}}\n", fields.iter().zip(line.split(',')).map(cell).collect::<Vec<_>>().join(", "))
    };
    lines.map(object).collect()
}

fn example(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples").join(name)
}
