//! Everything that can be observed of the commands, compared between two runs whose data differ.
//!
//! Each test is named in `docs/threat-model.md` by the row that it supports. Only released values, which are noisy,
//! and times are left out of the comparison.

use std::collections::BTreeMap;
use std::fs;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::TcpStream;
use std::path::Path;
use std::process::{Output, Stdio};
use std::thread;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use crate::folder::TestFolder;
use crate::service::{Home, Serving};
use crate::{command, run_with_input, stderr, stdout};

/// A table without its released numbers: `value` of a stream of numbers, `count` of a histogram.
fn without_noise(text: &str) -> Vec<String> {
    let mut lines = text.lines();
    let names: Vec<&str> = lines.next().unwrap().split(',').collect();
    let noisy = if names.contains(&"count") { "count" } else { "value" };
    let kept = |line: &str| -> Vec<String> {
        let fields = names.iter().zip(line.split(','));
        fields.filter(|(name, _)| **name != noisy).map(|(name, field)| format!("{name}={field}")).collect()
    };
    lines.map(|line| kept(line).join(",")).collect()
}

/// Everything that the operator's shell and readers of the output see of a run.
fn seen(output: &Output) -> (Option<i32>, String, Vec<String>) {
    (output.status.code(), stderr(output).to_owned(), without_noise(stdout(output)))
}

fn spec(folder: &TestFolder, text: &str) -> String {
    let file = folder.file("stream.toml");
    fs::write(&file, text).unwrap();
    file.display().to_string()
}

const NUMBERS: &str = "family = \"scalar\"\nmechanism = \"laplace\"\nepsilon = 1.0\noutside = \"clamp\"\n\
                       domain = { low = 0, high = 1000000 }\nprotects = \"reading\"\n";
const COUNTS: &str = "family = \"central\"\nmechanism = \"uniform\"\nepsilon = 1.0\nwindow = 2\n\
                      domain = [\"in\", \"out\"]\n";

#[test]
fn release_of_numbers_shows_nothing_but_noise() {
    let folder = TestFolder::new();
    let release = format!("release --spec {}", spec(&folder, NUMBERS));
    let first = run_with_input(&release, b"t,value\n0,7\n1,7\n2,7\n");
    assert!(first.status.success(), "{}", stderr(&first));
    assert_eq!(without_noise(stdout(&first)).len(), 3);
    // Another reading at one timestamp: within the domain, at its ends, and outside.
    for reading in ["0", "999999", "1000000", "-3", "1e12"] {
        let other = run_with_input(&release, format!("t,value\n0,7\n1,{reading}\n2,7\n").as_bytes());
        assert_eq!(seen(&first), seen(&other), "{reading}");
    }
}

#[test]
fn release_of_counts_shows_nothing_but_noise() {
    let folder = TestFolder::new();
    let release = format!("release --spec {}", spec(&folder, COUNTS));
    let first = run_with_input(&release, b"t,user,value\n0,a,in\n0,b,in\n1,a,in\n1,b,in\n");
    assert!(first.status.success(), "{}", stderr(&first));
    assert_eq!(without_noise(stdout(&first)).len(), 4);
    for other in ["0,a,in\n0,b,out\n1,a,in\n1,b,in\n", "0,a,in\n1,a,in\n1,b,in\n", "0,b,in\n1,a,out\n1,b,out\n"] {
        let other = run_with_input(&release, format!("t,user,value\n{other}").as_bytes());
        assert_eq!(seen(&first), seen(&other));
    }
}

/// How many lines there are after each line of input, and at the end; without the header.
fn lines_by_step(release: &str, readings: &[u64]) -> Vec<usize> {
    let mut child = command(release).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    let (mut input, output) = (child.stdin.take().unwrap(), child.stdout.take().unwrap());
    let (sender, lines) = std::sync::mpsc::channel();
    let reader = thread::spawn(move || {
        let lines = BufReader::new(output).lines().map(Result::unwrap);
        lines.filter(|line| !line.starts_with("t,")).try_for_each(|line| sender.send(line))
    });
    let mut counts = Vec::new();
    input.write_all(b"t,value\n").unwrap();
    for (t, reading) in readings.iter().enumerate() {
        input.write_all(format!("{t},{reading}\n").as_bytes()).unwrap();
        // Every third reading completes a batch, and its lines come before another reading does.
        let expected = if t % 3 == 2 { 3 } else { 0 };
        let come = (0..expected).map_while(|_| lines.recv_timeout(Duration::from_secs(20)).ok()).count();
        counts.push(come + lines.try_iter().count());
    }
    drop(input);
    assert!(child.wait().unwrap().success());
    reader.join().unwrap().unwrap();
    counts.push(lines.try_iter().count());
    counts
}

#[test]
fn lines_of_release_come_at_public_moments() {
    let release = "release --mechanism contin --epsilon 1 --domain 0..1000000 --protects reading --delay 2";
    let first = lines_by_step(release, &[7, 7, 7, 7, 7, 7, 7]);
    assert_eq!(first, [0, 0, 3, 0, 0, 3, 0, 1]);
    assert_eq!(lines_by_step(release, &[0, 1_000_000, 3, 999_999, 0, 1_000_000, 0]), first);
}

/// Names and sizes of the files in a folder, and below it.
fn files(folder: &Path) -> BTreeMap<String, u64> {
    let mut found = BTreeMap::new();
    for entry in fs::read_dir(folder).unwrap().map(Result::unwrap) {
        let name = entry.file_name().to_string_lossy().into_owned();
        if entry.file_type().unwrap().is_dir() {
            found.extend(files(&entry.path()).into_iter().map(|(below, size)| (format!("{name}/{below}"), size)));
        } else {
            found.insert(name, entry.metadata().unwrap().len());
        }
    }
    found
}

#[test]
fn files_of_release_have_public_names_and_sizes() {
    let left = |readings: [&str; 3]| {
        let folder = TestFolder::new();
        let spec = spec(&folder, NUMBERS);
        let place = |name: &str| folder.file(name).display().to_string();
        let release = format!("release --spec {spec} --state {} --new-state --key {}", place("state"), place("key"));
        let table: String = readings.iter().enumerate().map(|(t, reading)| format!("{t},{reading}\n")).collect();
        let output = run_with_input(&release, format!("t,value\n{table}").as_bytes());
        assert!(output.status.success(), "{}", stderr(&output));
        files(folder.path())
    };
    let first = left(["7", "7", "7"]);
    assert!(first["state"] > 0 && first["key"] > 0, "{first:?}");
    assert_eq!(left(["0", "1000000", "1e12"]), first);
}

fn now() -> u64 {
    u64::try_from(SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_millis()).unwrap()
}

fn sleep_until(moment: u64) {
    thread::sleep(Duration::from_millis(moment.saturating_sub(now())));
}

/// A service with a curator's stream that logs everything, before its start. A tick has so many seconds.
fn curator(tick: u64) -> Home {
    let home = Home::new();
    let rooms = "[streams.spec]\nfamily = \"central\"\nmechanism = \"uniform\"\nepsilon = 20.0\nwindow = 2\n\
                 domain = [\"in\", \"out\"]\n";
    let log = "\n[log]\nfilter = \"trace\"\n\n[[streams]]\nname = \"rooms\"\n";
    home.configure("", &format!("{log}tick = {tick}\n{rooms}"));
    home
}

/// Sends a request on a connection of its own, and returns the answer.
fn ask(serving: &Serving, line: &str, token: &str, body: &str) -> String {
    let mut stream = TcpStream::connect(serving.url.strip_prefix("http://").unwrap()).unwrap();
    stream.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
    let head = format!("{line} HTTP/1.1\r\nhost: x\r\nconnection: close\r\nauthorization: Bearer {token}\r\n");
    let head = format!("{head}content-type: application/json\r\ncontent-length: {}\r\n\r\n", body.len());
    stream.write_all(format!("{head}{body}").as_bytes()).unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    answer
}

/// Sends a request on a connection of its own, and returns the status.
fn request(serving: &Serving, line: &str, token: &str, body: &str) -> u16 {
    let answer = ask(serving, line, token, body);
    answer.split(' ').nth(1).and_then(|status| status.parse().ok()).expect("every request is answered")
}

fn event(user: &str, value: &str) -> String {
    format!("{{\"user\": \"{user}\", \"value\": \"{value}\"}}")
}

/// A line of the log without its time and without how long a request took.
fn without_times(line: &str) -> String {
    let line = line.split_once(' ').map_or(line, |(_, rest)| rest);
    let is_time = |word: &&str| word.starts_with("milliseconds=") || word.starts_with("id=");
    line.split(' ').filter(|word| !is_time(word)).collect::<Vec<_>>().join(" ")
}

/// Exit code, log and files of a service.
type Left = (Option<i32>, Vec<String>, BTreeMap<String, u64>);

/// Tells two services different events in one tick, stops them after its release, and returns what each leaves; `None`
/// where the machine was too slow for ticks of so many seconds.
fn serve_neighbours(seconds: u64) -> Option<[Left; 2]> {
    let tick = seconds * 1_000;
    let [quiet, busy] = [curator(seconds), curator(seconds)];
    // Both begin within one tick, so that the first one that they see whole is the same. The ticks of a stream begin up
    // to a twentieth of a tick late.
    let begins = |number: u64| number * tick + tick / 10;
    let open = now() / tick + 2;
    sleep_until(begins(open - 1));
    let [quiet_serving, busy_serving] = [quiet.serve(), busy.serve()];
    for serving in [&quiet_serving, &busy_serving] {
        while request(serving, "GET /readyz", "", "") != 200 {
            if now() >= open * tick {
                return None;
            }
            thread::sleep(Duration::from_millis(20));
        }
    }
    if now() >= open * tick {
        return None;
    }
    sleep_until(begins(open));
    let events = "POST /v1/streams/rooms/events";
    let tell = |(home, serving): (&Home, &Serving), user| {
        (request(serving, events, home.token("ingest"), &event(user, "in")) == 200).then_some(())
    };
    for user in ["anna", "bert"] {
        tell((&quiet, &quiet_serving), user)?;
        tell((&busy, &busy_serving), user)?;
    }
    for user in ["cleo", "dora", "cleo", "emil"] {
        tell((&busy, &busy_serving), user)?;
        assert_eq!(request(&busy_serving, events, "tg_i_wrong", &event(user, "in")), 401);
        assert_eq!(request(&busy_serving, events, busy.token("analyst"), &event(user, "in")), 403);
        assert_eq!(request(&busy_serving, events, busy.token("ingest"), "{"), 400);
    }
    // A connection that is open, one that ends within a request, and one that says what is no request.
    let connect = || TcpStream::connect(busy_serving.url.strip_prefix("http://").unwrap()).unwrap();
    let (_open, mut cut) = (connect(), connect());
    cut.write_all(format!("{events} HTTP/1.1\r\ncontent-length: 10\r\n\r\n{{").as_bytes()).unwrap();
    drop(cut);
    connect().write_all(b"{}\r\n\r\n").unwrap();
    for (home, serving) in [(&quiet, &quiet_serving), (&busy, &busy_serving)] {
        let paused = request(serving, "POST /v1/streams/rooms/pause", home.token("operator"), "");
        assert_eq!(paused, 200);
    }
    // A stream that is paused later opens another tick.
    if now() >= (open + 1) * tick {
        return None;
    }
    for (home, serving) in [(&quiet, &quiet_serving), (&busy, &busy_serving)] {
        let until = Instant::now() + Duration::from_secs(120);
        while !ask(serving, RELEASES, home.token("analyst"), "").contains("\"releases\":[{") {
            assert!(Instant::now() < until, "nothing is released");
            thread::sleep(Duration::from_millis(50));
        }
    }
    Some([(quiet, quiet_serving), (busy, busy_serving)].map(|(home, serving)| {
        let (code, said) = serving.terminate();
        // How often a service is asked whether it has begun, and released, depends on the machine.
        let is_probe = |line: &&str| ["/readyz", "not ready", "/releases"].iter().any(|probe| line.contains(probe));
        let mut lines: Vec<_> = said.lines().filter(|line| !is_probe(line)).map(without_times).collect();
        lines.sort();
        (code, lines, files(&home.folder.file("home/state")))
    }))
}

const RELEASES: &str = "GET /v1/streams/rooms/releases";

/// A slow machine gets longer ticks.
#[test]
fn logs_and_files_of_serve_do_not_depend_on_event_requests() {
    let [(code, lines, files), busy] =
        [2, 2, 4, 8, 16, 32].into_iter().find_map(serve_neighbours).expect("the machine is too slow for any tick");
    assert_eq!(lines, busy.1);
    assert_eq!((code, &files), (busy.0, &busy.2));
    assert_eq!(code, Some(0));
    // At the level trace there are lines of other requests, and of the release.
    assert!(lines.iter().any(|line| line.contains("/pause")), "{lines:?}");
    assert!(lines.iter().any(|line| line.contains("released")), "{lines:?}");
    assert!(lines.iter().all(|line| !line.contains("events")), "{lines:?}");
}
