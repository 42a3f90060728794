//! A service in the hands of its operators: its folders, start, end, tokens and limits.
#![cfg(unix)]

use std::collections::BTreeMap;
use std::fs;
use std::io::{Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};
use std::os::unix::net::UnixDatagram;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::mpsc::{Receiver, channel};
use std::time::{Duration, Instant, SystemTime};

use flate2::read::GzDecoder;
use hmac::{Hmac, KeyInit as _, Mac as _};
use sha2::Sha256;

use crate::postgres::Postgres;
use crate::service::{Home, Serving, stream};
use crate::{assert_refused, command, stderr, stdout};

/// Asks a service, and returns the answer.
pub(crate) fn ask(url: &str, path: &str, token: &str) -> String {
    request(url, "GET", path, token)
}

/// Sends an order without a body to a service, and returns the answer.
pub(crate) fn post(url: &str, path: &str, token: &str) -> String {
    request(url, "POST", path, token)
}

fn request(url: &str, method: &str, path: &str, token: &str) -> String {
    let mut stream = TcpStream::connect(url.strip_prefix("http://").unwrap()).unwrap();
    stream.set_read_timeout(Some(Duration::from_secs(10))).unwrap();
    let request = format!(
        "{method} {path} HTTP/1.1\r\nhost: x\r\nauthorization: Bearer {token}\r\ncontent-length: 0\r\n\
         connection: close\r\n\r\n"
    );
    stream.write_all(request.as_bytes()).unwrap();
    let mut answer = String::new();
    let _ = stream.read_to_string(&mut answer);
    answer
}

/// Returns all files of a folder, with their identities, sizes and times.
fn files(folder: &Path, found: &mut BTreeMap<PathBuf, (u64, u64, i64, i64)>) {
    for entry in fs::read_dir(folder).unwrap() {
        let (entry, path) = (entry.as_ref().unwrap(), entry.as_ref().unwrap().path());
        let data = entry.metadata().unwrap();
        // A file that comes and goes changes the time of its folder.
        found.insert(path.clone(), (data.ino(), data.size(), data.mtime(), data.mtime_nsec()));
        if data.is_dir() {
            files(&path, found);
        }
    }
}

#[test]
fn the_doctor_writes_and_makes_nothing() {
    let home = Home::new();
    home.configure("", &stream("visits", 1, 3));
    let unchanged = |what: &str| {
        let all = || {
            let mut found = BTreeMap::new();
            files(home.folder.path(), &mut found);
            found
        };
        let before = all();
        let output = home.run("doctor");
        assert_eq!(all(), before, "{what}: {}", stdout(&output));
        stdout(&output).to_owned()
    };
    unchanged("as it was made");
    fs::remove_file(home.folder.file("home/state/lock")).unwrap();
    unchanged("without a lock");
    let (store, away) = (home.store(), home.folder.file("away.db"));
    fs::rename(&store, &away).unwrap();
    assert!(unchanged("without a store").contains("is not there, and is made at the next start"));
    fs::rename(&away, &store).unwrap();
    fs::remove_file(home.folder.file("home/state/marks")).unwrap();
    assert!(unchanged("without marks").contains("there are none yet"));
    fs::rename(home.folder.file("home/state"), home.folder.file("home/elsewhere")).unwrap();
    assert!(unchanged("without a state").contains("there is no folder"));
}

#[test]
fn the_doctor_makes_no_tables() {
    let (home, database) = (Home::new(), Postgres::start());
    let socket = database.url().split_whitespace().next().unwrap().replace("host=", "").replace('/', "%2F");
    home.configure(&format!("store = \"postgres://tidegate@{socket}/postgres\"\n"), "");
    let doctor = home.run("doctor");
    assert!(stdout(&doctor).contains("has no tables, and is made at the next start"), "{}", stdout(&doctor));
    let mut client = postgres::Client::connect(&database.url(), postgres::NoTls).unwrap();
    let made = client.query("SELECT 1 FROM pg_namespace WHERE nspname = 'tidegate'", &[]).unwrap();
    assert!(made.is_empty(), "it made a schema");
    home.serve().terminate();
    let doctor = home.run("doctor");
    assert!(stdout(&doctor).contains("is whole, with 0 streams"), "{}", stdout(&doctor));
}

#[test]
fn folders_that_others_can_write_to_are_refused() {
    let home = Home::new();
    let (state, elsewhere) = (home.folder.file("home/state"), home.folder.file("elsewhere"));
    let mode = |path: &Path, mode| fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
    for wrong in [0o777, 0o770, 0o720, 0o702, 0o1777] {
        mode(&state, wrong);
        let refused = home.run("serve");
        assert_refused(&refused, "others may write to");
        assert!(stderr(&refused).contains("chmod 700"), "{}", stderr(&refused));
        assert!(stdout(&home.run("doctor")).contains("others may write to"));
        assert_refused(&home.run("restore --adopt-marks"), "others may write to");
    }
    mode(&state, 0o750);
    assert_eq!(home.serve().terminate().0, Some(0));
    fs::create_dir(&elsewhere).unwrap();
    mode(&elsewhere, 0o777);
    home.configure(&format!("store = \"{}/tidegate.db\"\n", elsewhere.display()), "");
    assert_refused(&home.run("serve"), "others may write to");
    assert!(fs::read_dir(&elsewhere).unwrap().next().is_none(), "it made a store there");
}

#[test]
fn passwords_never_become_file_names() {
    let home = Home::new();
    let folder = home.folder.file("home");
    let served =
        |store: &str| command("serve --config").arg(home.config()).env("TIDEGATE_STORE", store).output().unwrap();
    let mut before = BTreeMap::new();
    files(&folder, &mut before);
    for store in
        ["POSTGRES://me:hidden@localhost/db", "postgres:me:hidden@localhost/db", "host=localhost password=hidden"]
    {
        let refused = served(store);
        assert_refused(&refused, "TIDEGATE_STORE: this is neither a path nor an address");
        assert!(!stderr(&refused).contains("hidden"), "{}", stderr(&refused));
    }
    let mut after = BTreeMap::new();
    files(&folder, &mut after);
    assert_eq!(after, before);
    home.configure("store = \"mysql://me:hidden@localhost/db\"\n", "");
    let refused = home.run("serve");
    assert_refused(&refused, "line 1, key \"store\": this is neither");
    assert!(!stderr(&refused).contains("hidden"), "{}", stderr(&refused));
}

#[test]
fn tells_the_service_manager_that_it_is_ready_alive_and_stopping() {
    let home = Home::new();
    let path = home.folder.file("notify");
    let socket = UnixDatagram::bind(&path).unwrap();
    socket.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
    let hear = || {
        let mut text = [0; 64];
        let length = socket.recv(&mut text).unwrap();
        String::from_utf8_lossy(&text[..length]).into_owned()
    };
    let mut serve = command("serve --config");
    serve.arg(home.config()).env("NOTIFY_SOCKET", &path).env("WATCHDOG_USEC", "400000");
    let serving = Serving::start(&mut serve);
    assert_eq!([hear(), hear(), hear()], ["READY=1", "WATCHDOG=1", "WATCHDOG=1"]);
    assert_eq!(serving.terminate().0, Some(0));
    assert_eq!((0..).map(|_| hear()).find(|heard| heard != "WATCHDOG=1").unwrap(), "STOPPING=1");
    // A start that is refused says nothing, and ends with the code that the unit file does not try again.
    home.configure("listn = \"127.0.0.1:0\"\n", "");
    let refused = command("serve --config").arg(home.config()).env("NOTIFY_SOCKET", &path).output().unwrap();
    assert_refused(&refused, "listn");
    socket.set_nonblocking(true).unwrap();
    assert!(socket.recv(&mut [0; 64]).is_err());
}

#[test]
fn the_unit_file_and_the_image_fit_the_service() {
    let read = |name: &str| fs::read_to_string(format!("{}/../../deploy/{name}", env!("CARGO_MANIFEST_DIR"))).unwrap();
    let unit = read("tidegate.service");
    let value = |key: &str| unit.lines().find_map(|line| line.strip_prefix(key)?.strip_prefix('=')).unwrap_or_default();
    assert_eq!((value("Type"), value("NotifyAccess"), value("RestartPreventExitStatus")), ("notify", "main", "2"));
    let number = |key: &str| value(key).trim_end_matches('G').parse::<u64>().unwrap();
    assert!(number("WatchdogSec") >= 10 && number("TasksMax") >= 1_000 && number("MemoryMax") >= 1);
    assert!(number("RestartSec") >= 5 && number("RestartSteps") > 1 && number("RestartMaxDelaySec") >= 60);
    // Requests have ten seconds, and streams fifteen.
    let limits = tidegate_server::http::Limits::default();
    assert!(limits.grace + limits.stop + Duration::from_secs(3) < Duration::from_secs(number("TimeoutStopSec")));
    let image = read("Dockerfile");
    let bases: Vec<&str> = image.lines().filter(|line| line.starts_with("FROM ")).collect();
    let is_pinned = |base: &&str| base.split_once("@sha256:").is_some_and(|(_, digest)| digest.len() >= 64);
    assert!(bases.len() == 2 && bases.iter().all(is_pinned), "{bases:?}");
    assert!(image.contains("HEALTHCHECK") && image.contains("\"doctor\", \"--ready\""));
}

#[test]
fn a_health_check_asks_the_running_service() {
    let home = Home::new();
    let free = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    home.configure(&format!("monitoring = \"{free}\"\n"), "");
    let serving = home.serve();
    let ready = home.run("doctor --ready");
    assert!(ready.status.success() && stdout(&ready).is_empty(), "{}", stderr(&ready));
    assert!(ask(&format!("http://{free}"), "/v1/streams", home.token("analyst")).starts_with("HTTP/1.1 404"));
    serving.terminate();
    let gone = home.run("doctor --ready");
    assert_eq!(gone.status.code(), Some(1));
    assert!(stderr(&gone).contains("does not answer"), "{}", stderr(&gone));
}

#[test]
fn tokens_are_rotated_without_a_restart() {
    let home = Home::new();
    home.configure("", &stream("visits", 60, 3));
    let serving = home.serve();
    let old = home.token("analyst").to_owned();
    assert!(ask(&serving.url, "/v1/streams", &old).starts_with("HTTP/1.1 200"));
    let mut feed = TcpStream::connect(serving.url.strip_prefix("http://").unwrap()).unwrap();
    let request = format!("GET /v1/streams/visits/feed HTTP/1.1\r\nhost: x\r\nauthorization: Bearer {old}\r\n\r\n");
    feed.write_all(request.as_bytes()).unwrap();
    feed.set_read_timeout(Some(Duration::from_secs(10))).unwrap();
    assert!(feed.read(&mut [0; 512]).unwrap() > 0);
    let made = command("token --role analyst --name second --json").output().unwrap();
    let made: serde_json::Value = serde_json::from_slice(&made.stdout).unwrap();
    let new = made["token"].as_str().unwrap();
    let text = fs::read_to_string(home.config()).unwrap();
    let hang_up = || {
        let id = serving.child.id().to_string();
        assert!(Command::new("kill").args(["-HUP", &id]).status().unwrap().success());
    };
    // A configuration that is wrong changes nothing.
    fs::write(home.config(), "listn = 1\n").unwrap();
    hang_up();
    std::thread::sleep(Duration::from_millis(300));
    assert!(ask(&serving.url, "/v1/streams", &old).starts_with("HTTP/1.1 200"));
    let begin = text.find("name = \"analyst\"").unwrap();
    let hash = text[begin..].split('"').nth(5).unwrap();
    // A secret that cannot be read keeps no withdrawn token alive.
    let changed = text.replace("name = \"analyst\"", "name = \"second\"");
    let changed = format!("webhook_secret = \"state/missing.key\"\n{changed}");
    fs::write(home.config(), changed.replace(hash, made["sha256"].as_str().unwrap())).unwrap();
    hang_up();
    let began = Instant::now();
    while !ask(&serving.url, "/v1/streams", new).starts_with("HTTP/1.1 200") {
        assert!(began.elapsed() < Duration::from_secs(10), "the new token is unknown");
        std::thread::sleep(Duration::from_millis(50));
    }
    assert!(ask(&serving.url, "/v1/streams", &old).starts_with("HTTP/1.1 401"), "the old token still works");
    // The last chunk, which is empty, ends the answer.
    let mut rest = [0; 512];
    let length = feed.read(&mut rest).unwrap();
    assert!(rest[..length].ends_with(b"0\r\n\r\n"), "the feed of the old token goes on");
    assert_eq!(serving.terminate().0, Some(0));
}

/// Receives messages, and hands their signatures and bodies on.
fn receive(listener: TcpListener) -> Receiver<(String, String)> {
    let (sender, receiver) = channel();
    std::thread::spawn(move || {
        for connection in listener.incoming() {
            let mut connection = connection.unwrap();
            let mut text = String::new();
            while !text.ends_with('}') {
                let mut bytes = [0; 4_096];
                let length = connection.read(&mut bytes).unwrap();
                text.push_str(str::from_utf8(&bytes[..length]).unwrap());
            }
            connection.write_all(b"HTTP/1.1 204 Yes\r\ncontent-length: 0\r\nconnection: close\r\n\r\n").unwrap();
            let (head, body) = text.split_once("\r\n\r\n").unwrap();
            let signature = head.lines().find_map(|line| line.strip_prefix("tidegate-signature: ")).unwrap_or_default();
            if sender.send((signature.to_owned(), body.to_owned())).is_err() {
                return;
            }
        }
    });
    receiver
}

/// Whether a message is signed with a secret, by a computation of its own.
fn is_signed(signature: &str, body: &str, secret: &str) -> bool {
    let Some((time, digits)) = signature.strip_prefix("t=").and_then(|signature| signature.split_once(",v1=")) else {
        return false;
    };
    let mut mac = Hmac::<Sha256>::new_from_slice(secret.as_bytes()).unwrap();
    mac.update(format!("{time}.{body}").as_bytes());
    mac.finalize().into_bytes().iter().map(|byte| format!("{byte:02x}")).collect::<String>() == digits
}

#[test]
fn the_webhook_secret_is_rotated_without_a_restart() {
    let (home, listener) = (Home::new(), TcpListener::bind("127.0.0.1:0").unwrap());
    let secret = home.folder.file("home/state/webhook.key");
    let write = |text: &str| {
        fs::write(&secret, text).unwrap();
        fs::set_permissions(&secret, fs::Permissions::from_mode(0o600)).unwrap();
    };
    // Noise around zero starts and ends an event again and again.
    let rooms = format!(
        "\n[[streams]]\nname = \"rooms\"\ntick = 1\nwebhooks = [\"http://{}/\"]\n[streams.spec]\n\
         family = \"central\"\nmechanism = \"uniform\"\nepsilon = 0.1\nwindow = 2\ndomain = [\"in\", \"out\"]\n\
         [[streams.spec.monitors]]\nname = \"noise\"\nvalue = \"in\"\nunit = \"counts\"\ndirection = \"above\"\n\
         start = 0.0\n",
        listener.local_addr().unwrap()
    );
    home.configure("webhook_secret = \"state/webhook.key\"\nwebhook_networks = [\"127.0.0.1/32\"]\n", &rooms);
    write(" \n");
    assert_refused(&home.run("serve"), "webhook.key is empty");
    write("first\n");
    let messages = receive(listener);
    let serving = home.serve();
    let hang_up = || {
        let id = serving.child.id().to_string();
        assert!(Command::new("kill").args(["-HUP", &id]).status().unwrap().success());
    };
    let next = || messages.recv_timeout(Duration::from_secs(60)).unwrap();
    let (signature, body) = next();
    assert!(is_signed(&signature, &body, "first") && !is_signed(&signature, &body, "second"), "{signature}");
    // An invalid secret changes nothing, nor does one that others can read.
    write("");
    hang_up();
    std::thread::sleep(Duration::from_millis(300));
    let (signature, body) = next();
    assert!(is_signed(&signature, &body, "first"), "{signature}");
    write("second");
    fs::set_permissions(&secret, fs::Permissions::from_mode(0o644)).unwrap();
    hang_up();
    std::thread::sleep(Duration::from_millis(300));
    let (signature, body) = next();
    assert!(is_signed(&signature, &body, "first"), "{signature}");
    write("second");
    hang_up();
    let began = Instant::now();
    loop {
        let (signature, body) = next();
        if is_signed(&signature, &body, "second") {
            break;
        }
        assert!(began.elapsed() < Duration::from_secs(20), "messages are still signed with the old secret");
    }
    let (code, said) = serving.terminate();
    assert_eq!(code, Some(0));
    assert!(said.contains("webhook.key is empty") && !said.contains("second"), "{said}");
}

#[test]
fn few_files_leave_room_for_streams() {
    let home = Home::new();
    home.configure("", &stream("visits", 1, 3));
    let limited = |most: u32| {
        let mut shell = Command::new("sh");
        shell.args(["-c", &format!("ulimit -n {most} && exec \"$@\""), "sh", env!("CARGO_BIN_EXE_tidegate"), "serve"]);
        shell.arg("--config").arg(home.config());
        shell
    };
    let refused = limited(100).output().unwrap();
    assert_eq!(refused.status.code(), Some(1));
    assert!(stderr(&refused).contains("100 files may be open"), "{}", stderr(&refused));
    let serving = Serving::start(&mut limited(560));
    let address = serving.url.strip_prefix("http://").unwrap().to_owned();
    await_ready(&serving);
    let idle: Vec<_> = (0..600).map(|_| TcpStream::connect(&address).unwrap()).collect();
    assert!(ask(&serving.url, "/readyz", "").starts_with("HTTP/1.1 200"));
    drop(idle);
    assert_eq!(serving.terminate().0, Some(0));
}

/// Waits until all streams are open: a service answers before that.
pub(crate) fn await_ready(serving: &Serving) {
    let until = Instant::now() + Duration::from_secs(10);
    while !ask(&serving.url, "/readyz", "").starts_with("HTTP/1.1 200") {
        assert!(Instant::now() < until, "not ready within ten seconds");
        std::thread::sleep(Duration::from_millis(20));
    }
}

#[test]
fn sigterm_is_obeyed_while_the_database_hangs() {
    let (home, database) = (Home::new(), Postgres::start());
    let socket = database.url().split_whitespace().next().unwrap().replace("host=", "").replace('/', "%2F");
    home.configure(&format!("store = \"postgres://tidegate@{socket}/postgres\"\n"), &stream("visits", 1, 3));
    let serving = home.serve();
    await_ready(&serving);
    let hung = database.hang();
    std::thread::sleep(Duration::from_millis(1_100));
    let began = Instant::now();
    assert!(ask(&serving.url, "/readyz", "").starts_with("HTTP/1.1 503"));
    assert!(began.elapsed() < Duration::from_secs(2), "{:?}", began.elapsed());
    let began = Instant::now();
    let (code, said) = serving.terminate();
    assert!(began.elapsed() < Duration::from_secs(30), "{:?}", began.elapsed());
    // By itself: 0 where the driver gave the database up in time, and 1 where it was left behind.
    assert!(code == Some(0) || said.contains("the streams did not stop in time"), "{code:?}: {said}");
    drop(hung);
}

/// A store of the released version 0.1.0, with a stream of each mechanism.
const RELEASED_0_1_0: &[u8] = include_bytes!("../../../server/tests/server/store/version-0.1.0.db.gz");

#[test]
fn streams_of_the_released_version_go_on_or_begin_anew() {
    let home = Home::new();
    let mut store = Vec::new();
    GzDecoder::new(RELEASED_0_1_0).read_to_end(&mut store).unwrap();
    fs::write(home.store(), store).unwrap();
    fs::write(home.folder.file("home/state/vault.key"), "09".repeat(32) + "\n").unwrap();
    assert!(home.run("restore --adopt-marks").status.success());
    // Those whose state cannot be read say so, and the others run.
    let problems = |serving: &Serving| {
        await_ready(serving);
        let listed = command(&format!("stream list --json --server {}", serving.url))
            .env("TIDEGATE_TOKEN", home.token("operator"))
            .output()
            .unwrap();
        let listed: serde_json::Value = serde_json::from_slice(&listed.stdout).unwrap();
        let streams = listed["streams"].as_array().or(listed.as_array()).unwrap().clone();
        assert_eq!(streams.len(), 24);
        let mut found = BTreeMap::new();
        for stream in streams.iter().filter(|stream| !stream["problem"].is_null()) {
            let text = |key: &str| stream[key].as_str().unwrap().to_owned();
            found.insert(text("name"), text("problem"));
        }
        found
    };
    let serving = home.serve();
    let found = problems(&serving);
    let names: Vec<&str> = found.keys().map(String::as_str).collect();
    assert_eq!(names, ["central_track", "local_track", "scalar_track"], "{found:?}");
    assert!(found.values().all(|problem| problem.contains("see \"Upgrading\" in docs/operations.md")), "{found:?}");
    assert_eq!(serving.terminate().0, Some(0));
    // What can be read goes on as it is.
    assert_refused(&home.run("restore --begin-anew central_ba"), "its state can be read: it goes on as it is");
    let now = || SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap().as_secs() / 10;
    for name in ["central_track", "local_track", "scalar_track"] {
        let before = now();
        let anew = home.run(&format!("restore --begin-anew {name}"));
        assert!(anew.status.success(), "{name}: {}", stderr(&anew));
        let kept = stderr(&anew).split("is in ").nth(1).unwrap().lines().next().unwrap().to_owned();
        assert!(fs::metadata(&kept).unwrap().len() > 100, "{kept}");
        let begins =
            stderr(&anew).split("timestamp ").nth(1).unwrap().split(',').next().unwrap().parse::<u64>().unwrap();
        // A whole window after the present tick.
        let window = if name == "scalar_track" { 1 } else { 3 };
        assert!((before + window..=now() + window).contains(&begins), "{name}: {begins}");
    }
    let serving = home.serve();
    assert_eq!(problems(&serving), BTreeMap::new());
    assert_eq!(serving.terminate().0, Some(0));
}
