//! `tidegate init`, `serve`, `token`, `doctor`, `backup`, `restore` and `query`.

use std::fs;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use serde_json::Value;

use crate::folder::TestFolder;
use crate::{assert_refused, command, run, stderr, stdout};

/// A service that was made by `tidegate init`.
pub(crate) struct Home {
    pub(crate) folder: TestFolder,
    pub(crate) operator_key: String,
    tokens: Value,
}

impl Home {
    pub(crate) fn new() -> Self {
        let folder = TestFolder::new();
        let made = command("init --json").arg(folder.file("home")).output().unwrap();
        assert!(made.status.success(), "{}", stderr(&made));
        let mut made: Value = serde_json::from_slice(&made.stdout).unwrap();
        let operator_key = made["operator_key"].as_str().unwrap().to_owned();
        let home = Self { folder, operator_key, tokens: made["tokens"].take() };
        // Any port that is free.
        home.configure("listen = \"127.0.0.1:0\"\n", "");
        home
    }

    pub(crate) fn config(&self) -> PathBuf {
        self.folder.file("home/service.toml")
    }

    pub(crate) fn store(&self) -> PathBuf {
        self.folder.file("home/state/tidegate.db")
    }

    pub(crate) fn token(&self, role: &str) -> &str {
        self.tokens[role].as_str().unwrap()
    }

    /// Writes lines before and after those of the configuration.
    pub(crate) fn configure(&self, before: &str, after: &str) {
        let text = fs::read_to_string(self.config()).unwrap();
        fs::write(self.config(), format!("{before}{text}{after}")).unwrap();
    }

    pub(crate) fn run(&self, arguments: &str) -> Output {
        let (subcommand, rest) = arguments.split_once(' ').unwrap_or((arguments, ""));
        command(subcommand).arg("--config").arg(self.config()).args(rest.split_whitespace()).output().unwrap()
    }

    /// Starts the service, and waits until it says where it listens.
    pub(crate) fn serve(&self) -> Serving {
        Serving::start(command("serve").arg("--config").arg(self.config()))
    }

    pub(crate) fn query(&self, serving: &Serving, arguments: &str) -> Output {
        let mut command = command(&format!("query {arguments} --server {}", serving.url));
        command.env("TIDEGATE_TOKEN", self.token("analyst")).output().unwrap()
    }
}

/// A service that runs; it is killed when it is dropped.
pub(crate) struct Serving {
    pub(crate) child: Child,
    pub(crate) url: String,
    /// What it says after that.
    said: Option<JoinHandle<String>>,
}

impl Serving {
    pub(crate) fn start(command: &mut Command) -> Self {
        Self::try_start(command).unwrap_or_else(|said| panic!("it does not start: {said}"))
    }

    /// What it said, where it does not start.
    pub(crate) fn try_start(command: &mut Command) -> Result<Self, String> {
        let mut child = command.stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
        let mut lines = BufReader::new(child.stderr.take().unwrap()).lines();
        let mut said = String::new();
        while let Some(line) = lines.next() {
            let line = line.unwrap();
            if let Some(url) = line.strip_prefix("listening: ") {
                let url = url.to_owned();
                // Somebody must listen, or it would have to wait.
                let said = thread::spawn(move || lines.map_while(Result::ok).collect::<Vec<_>>().join("\n"));
                return Ok(Self { child, url, said: Some(said) });
            }
            said += &(line + "\n");
        }
        child.wait().unwrap();
        Err(said)
    }

    /// Tells it to end, and waits until it has; what it said meanwhile.
    pub(crate) fn terminate(mut self) -> (Option<i32>, String) {
        let id = self.child.id().to_string();
        assert!(Command::new("kill").args(["-TERM", &id]).status().unwrap().success());
        let code = self.child.wait().unwrap().code();
        (code, self.said.take().unwrap().join().unwrap())
    }

    /// As a loss of power would.
    pub(crate) fn kill(mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }
}

impl Drop for Serving {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// A stream of devices with ticks of so many seconds.
pub(crate) fn stream(name: &str, tick: u64, window: u64) -> String {
    format!(
        "\n[[streams]]\nname = \"{name}\"\ntick = {tick}\n[streams.spec]\nfamily = \"local\"\nmechanism = \"lbu\"\n\
         epsilon = 2.0\nwindow = {window}\ndomain = [\"home\", \"work\", \"away\"]\npopulation = 100000\n"
    )
}

fn wait_for(what: &str, mut is_done: impl FnMut() -> bool) {
    let start = Instant::now();
    while !is_done() {
        assert!(start.elapsed() < Duration::from_secs(20), "{what}");
        thread::sleep(Duration::from_millis(50));
    }
}

#[test]
fn a_service_is_made_served_queried_and_stopped() {
    let home = Home::new();
    home.configure("", &stream("visits", 1, 3));
    #[cfg(unix)]
    for file in ["state/operator.key", "state/vault.key", "state/tidegate.db", "service.toml"] {
        use std::os::unix::fs::PermissionsExt as _;
        let mode = fs::metadata(home.folder.file("home").join(file)).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600, "{file}");
    }
    let text = fs::read_to_string(home.config()).unwrap();
    assert!(["operator", "ingest", "analyst"].iter().all(|role| !text.contains(home.token(role))));
    let serving = home.serve();
    let streams = home.query(&serving, "streams");
    assert!(streams.status.success(), "{}", stderr(&streams));
    assert!(stdout(&streams).contains("visits") && stdout(&streams).contains("running"), "{}", stdout(&streams));
    // A fleet of everything that is needed for releases.
    let fleet = format!(
        "device fleet --server {} --stream visits --operator-key {} --devices 90 --dataset {} --ticks 2",
        serving.url,
        home.operator_key,
        counts(home.folder.path()).display()
    );
    let fleet = command(&fleet).env("TIDEGATE_TOKEN", home.token("ingest")).output().unwrap();
    assert!(fleet.status.success(), "{}", stderr(&fleet));
    let mut releases = String::new();
    wait_for("a release of all devices", || {
        releases = stdout(&home.query(&serving, "releases --stream visits")).to_owned();
        releases.lines().count() > 3
    });
    assert!(releases.starts_with("t,value,frequency,"), "{releases}");
    let answer = home.query(&serving, "--stream visits --value home");
    assert!(answer.status.success(), "{}", stderr(&answer));
    let lines: Vec<&str> = stdout(&answer).lines().collect();
    assert!(lines[0].split_whitespace().eq(["t", "of", "value", "low", "high", "deviation"]), "{lines:?}");
    assert_eq!(lines[1].split_whitespace().nth(1), Some("home"));
    let csv = home.query(&serving, "--stream visits --first home --last work --csv");
    assert!(stdout(&csv).contains(",home to work,"), "{}", stdout(&csv));
    let top: Value = serde_json::from_slice(&home.query(&serving, "--stream visits --top 2 --json").stdout).unwrap();
    assert_eq!(top["top"].as_array().unwrap().len(), 2);
    assert_refused(&home.query(&serving, "--stream visits"), "ask for --value");
    let unknown = home.query(&serving, "--stream visits --value nowhere");
    assert_eq!(unknown.status.code(), Some(2), "{}", stderr(&unknown));
    let mut stranger = command(&format!("query streams --server {}", serving.url));
    assert_eq!(stranger.env("TIDEGATE_TOKEN", "wrong").output().unwrap().status.code(), Some(1));
    // While it runs: the doctor finds nothing wrong, and nobody else gets its state.
    let doctor = home.run("doctor --json");
    let checks: Value = serde_json::from_slice(&doctor.stdout).unwrap();
    assert!(doctor.status.success(), "{checks}");
    let state = checks.as_array().unwrap().iter().find(|check| check["check"] == "state").unwrap();
    assert!(state["message"].as_str().unwrap().contains("a service runs with it"), "{state}");
    let second = home.run("serve");
    assert_eq!(second.status.code(), Some(1));
    assert!(stderr(&second).contains("another service runs with this state"), "{}", stderr(&second));
    assert!(stderr(&home.run("restore --begin-anew visits")).contains("stop it first"));
    let (code, said) = serving.terminate();
    assert_eq!(code, Some(0), "{said}");
    assert!(said.contains("stopping"), "{said}");
}

/// A data set for devices.
pub(crate) fn counts(folder: &Path) -> PathBuf {
    let path = folder.join("counts.csv");
    fs::write(&path, "t,home,work,away\n0,30,30,30\n").unwrap();
    path
}

#[test]
fn what_a_stream_promises_never_changes() {
    let home = Home::new();
    home.configure("", &stream("visits", 60, 3));
    home.serve().terminate();
    let text = fs::read_to_string(home.config()).unwrap();
    fs::write(home.config(), text.replace("epsilon = 2.0", "epsilon = 3.0")).unwrap();
    let refused = home.run("serve");
    assert_refused(&refused, "spec: stream visits was created with another value");
    assert!(stderr(&refused).contains("declare a new stream"), "{}", stderr(&refused));
    // What is no promise may change.
    let monitor = "[[streams.spec.monitors]]\nname = \"m\"\nvalue = \"home\"\ndirection = \"above\"\nstart = 0.5\n";
    fs::write(home.config(), format!("{text}{monitor}")).unwrap();
    assert_eq!(home.serve().terminate().0, Some(0));
}

#[test]
fn a_refused_start_writes_and_releases_nothing() {
    let home = Home::new();
    let plain = fs::read_to_string(home.config()).unwrap();
    // Many streams that are due: while their declarations are looked at, a driver that ran would release.
    let declared: String = (0..20).map(|number| stream(&format!("s{number:02}"), 1, 2)).collect();
    fs::write(home.config(), format!("{plain}{declared}")).unwrap();
    let mut count = 0;
    let mut stored = || {
        count += 1;
        let output = home.run(&format!("backup --json --to {}/{count}.db", home.folder.path().display()));
        let listed: Value = serde_json::from_slice(&output.stdout).unwrap();
        listed["streams"].clone()
    };
    let serving = home.serve();
    wait_for("the streams run", || {
        stored().as_array().unwrap().iter().all(|stream| stream["version"].as_u64() > Some(0))
    });
    serving.terminate();
    let before = stored();
    // Past the tick that was open, so that every stream is due at once.
    thread::sleep(Duration::from_millis(2_100));
    let changed = declared.replacen("name = \"s19\"\ntick = 1", "name = \"s19\"\ntick = 2", 1);
    fs::write(home.config(), format!("{plain}{}{changed}", stream("another", 1, 2))).unwrap();
    assert_refused(&home.run("serve"), "tick: stream s19 was created with another value");
    assert_eq!(stored(), before, "a declaration was refused");
    // A certificate that is not there.
    let tls = "\n[tls]\ncertificate = \"cert.pem\"\nkey = \"state/vault.key\"\n";
    fs::write(home.config(), format!("{plain}{}{declared}{tls}", stream("another", 1, 2))).unwrap();
    let refused = home.run("serve");
    assert_refused(&refused, "cert.pem");
    assert!(!stderr(&refused).contains("listening"), "{}", stderr(&refused));
    assert_eq!(stored(), before, "a certificate was refused");
}

#[test]
fn errors_of_a_configuration_name_file_line_and_key() {
    let folder = TestFolder::new();
    let file = folder.file("service.toml");
    let refused = |text: &str, why: &str| {
        fs::write(&file, text).unwrap();
        let output = run(&format!("serve --config {}", file.display()));
        assert_refused(&output, why);
    };
    refused("listn = \"127.0.0.1:1\"\n", "service.toml, line 1: there is no key \"listn\" (did you mean listen?)");
    refused("\nlisten = \"localhost\"\n", "service.toml, line 2, key \"listen\": invalid socket address");
    refused("listen = \"0.0.0.0:8420\"\n", "line 1, key \"listen\": other machines would speak to it in plain text");
    refused("[limits]\nqueue = 0\n", "line 2, key \"queue\": ");
    refused("[limits]\nqueu = 1\n", "line 2: there is no key \"queu\" (did you mean queue?)");
    refused("[[tokens]]\nname = \"a\"\nrole = \"analist\"\nsha256 = \"\"\n", "line 3, key \"role\": ");
    refused(
        "\n[[tokens]]\nname = \"a\"\nrole = \"analyst\"\nsha256 = \"12\"\n",
        "line 2, key \"tokens\": token a: sha256 has 64",
    );
    refused("[[streams]]\nname = \"a\"\ntick = 1\n", "line 1: a stream has a key spec");
    refused("[[streams]]\nname = \"a\"\ntick = 1\nspec = \"none.toml\"\n", "none.toml cannot be opened");
    refused(&stream("A", 1, 3), "line 3: name: a stream's name has");
    refused(&stream("a", 0, 3), "line 4, key \"tick\": ");
    refused(&stream("a", 1, 0), "line 9, key \"window\": ");
    refused(
        &stream("a", 1, 3).replace("lbu", "lbuu"),
        "line 7, key \"mechanism\": there is no local mechanism \"lbuu\"",
    );
    refused(&stream("a", 1, 3).replace("epsilon = 2.0", "epsilon = 0.0"), "line 8, key \"epsilon\": ");
    refused(&(stream("a", 1, 3) + &stream("a", 1, 3)), "line 14, key \"name\": there is another stream \"a\"");
    let password = "store = \"postgres://user:hidden@localhost/x\"\n";
    fs::write(&file, password).unwrap();
    #[cfg(unix)]
    {
        let mode = |mode| std::os::unix::fs::PermissionsExt::from_mode(mode);
        fs::set_permissions(&file, mode(0o644)).unwrap();
        let output = run(&format!("serve --config {}", file.display()));
        assert_refused(&output, "line 1, key \"store\": ");
        assert!(stderr(&output).contains("chmod 600") && !stderr(&output).contains("hidden"), "{}", stderr(&output));
    }
}

/// Uncomments what shows a default: lines of keys and of tables, but not of text.
fn uncommented(text: &str) -> String {
    let is_key = |line: &str| {
        let key = line.split_once(" = ").map_or("", |(key, _)| key);
        line.starts_with('[') || (!key.is_empty() && key.bytes().all(|byte| byte.is_ascii_lowercase() || byte == b'_'))
    };
    let line = |line: &str| line.strip_prefix("# ").filter(|rest| is_key(rest)).unwrap_or(line).to_owned() + "\n";
    text.lines().map(line).collect()
}

#[test]
fn the_example_can_be_read_and_so_can_the_keys_that_are_commented_out() {
    let folder = TestFolder::new();
    let text = fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/src/service/service.toml")).unwrap();
    let all = uncommented(&text);
    assert!(all.matches('\n').count() == text.matches('\n').count() && all.contains("\ntoken_rate = "), "{all}");
    for text in [text, all] {
        let file = folder.file("service.toml");
        fs::write(&file, text).unwrap();
        let doctor = run(&format!("doctor --json --config {}", file.display()));
        let checks: Value = serde_json::from_slice(&doctor.stdout).unwrap();
        let first = &checks[0];
        assert_eq!((&first["check"], &first["result"]), (&"config".into(), &"ok".into()), "{first}");
        assert!(first["message"].as_str().unwrap().starts_with("2 streams"), "{first}");
    }
}

#[test]
fn the_doctor_says_what_is_wrong_and_what_to_do() {
    let home = Home::new();
    let healthy = home.run("doctor");
    assert!(healthy.status.success(), "{}", stdout(&healthy));
    assert!(stdout(&healthy).lines().all(|line| !line.starts_with("fail")), "{}", stdout(&healthy));
    let key = home.folder.file("home/state/vault.key");
    let failing = |why: &str| {
        let output = home.run("doctor");
        assert_eq!(output.status.code(), Some(1), "{}", stdout(&output));
        assert!(
            stdout(&output).lines().any(|line| line.starts_with("fail") && line.contains(why)),
            "{}",
            stdout(&output)
        );
    };
    #[cfg(unix)]
    {
        let mode = |mode| std::os::unix::fs::PermissionsExt::from_mode(mode);
        fs::set_permissions(&key, mode(0o644)).unwrap();
        failing("chmod 600");
        assert_refused(&home.run("serve"), "holds a secret");
        fs::set_permissions(&key, mode(0o600)).unwrap();
    }
    fs::rename(&key, key.with_extension("away")).unwrap();
    failing("vault.key");
    fs::rename(key.with_extension("away"), &key).unwrap();
    let text = fs::read_to_string(home.config()).unwrap();
    home.configure("", "\n[tls]\ncertificate = \"cert.pem\"\nkey = \"state/vault.key\"\n");
    failing("cert.pem");
    fs::write(home.config(), text).unwrap();
    fs::write(home.store(), "no store at all, but a text that is longer than a header").unwrap();
    failing("tidegate restore");
    assert_refused(&run("doctor"), "--config");
}

#[test]
fn a_token_is_printed_once_and_its_hash_goes_into_the_configuration() {
    let token = run("token --role ingest --name gateway");
    assert!(token.status.success());
    let secret = stdout(&token).trim();
    assert!(secret.starts_with("tg_i_") && secret.len() == 48, "{secret}");
    assert!(stderr(&token).contains("name = \"gateway\"\nrole = \"ingest\"\nsha256 = \""), "{}", stderr(&token));
    assert!(!stderr(&token).contains(secret));
    assert_refused(&run("token --role admin --name x"), "expected one of: operator, ingest, analyst");
    assert_refused(&run("token --role ingest --name a/b"), "a token's name");
    let json: Value = serde_json::from_slice(&run("token --role analyst --name x --json").stdout).unwrap();
    assert!(json["token"].as_str().unwrap().starts_with("tg_a_") && json["sha256"].as_str().unwrap().len() == 64);
}

#[test]
fn a_folder_that_is_in_use_is_not_made_a_service() {
    let home = Home::new();
    let again = command("init").arg(home.folder.file("home")).output().unwrap();
    assert_refused(&again, "is not empty");
}

#[test]
fn an_old_backup_is_refused_and_its_stream_begins_anew_after_its_window() {
    let home = Home::new();
    home.configure("", &stream("visits", 1, 2));
    let versions = |file: &Path| -> u64 {
        let output = home.run(&format!("backup --json --to {}", file.display()));
        assert!(output.status.success(), "{}", stderr(&output));
        let found: Value = serde_json::from_slice(&output.stdout).unwrap();
        found["streams"][0]["version"].as_u64().unwrap()
    };
    let serving = home.serve();
    let (early, late) = (home.folder.file("early.db"), home.folder.file("late.db"));
    let mut count = 0;
    wait_for("the stream runs", || {
        count += 1;
        versions(&home.folder.file(&format!("probe{count}.db"))) > 0
    });
    let before = versions(&early);
    // While it runs, nothing is put in place.
    assert!(stderr(&home.run(&format!("restore --from {}", early.display()))).contains("stop it first"));
    wait_for("it goes on", || {
        count += 1;
        versions(&home.folder.file(&format!("probe{count}.db"))) > before + 3
    });
    serving.terminate();
    let after = versions(&late);
    assert!(after > before);
    // A newer store is not replaced.
    let restore = |file: &Path| home.run(&format!("restore --from {}", file.display()));
    let newer = restore(&early);
    assert_refused(&newer, "is newer than the backup");
    // One that is lost is, but the service does not start with it.
    for ending in ["", "-wal", "-shm"] {
        let _ = fs::remove_file(format!("{}{ending}", home.store().display()));
    }
    let restored = restore(&early);
    assert!(restored.status.success(), "{}", stderr(&restored));
    assert!(stderr(&restored).contains("older: stream visits is at version"), "{}", stderr(&restored));
    let refused = home.run("serve");
    assert_eq!(refused.status.code(), Some(1), "{}", stderr(&refused));
    let advice = format!("tidegate restore --config {} --begin-anew", home.config().display());
    assert!(stderr(&refused).contains(&advice), "{}", stderr(&refused));
    assert!(stdout(&home.run("doctor")).contains("fail marks"), "{}", stdout(&home.run("doctor")));
    // The later one is fine.
    let later = restore(&late);
    assert!(later.status.success() && !stderr(&later).contains("older:"), "{}", stderr(&later));
    home.serve().terminate();
    // The old one, begun anew, releases nothing of the window that may have been published.
    for ending in ["", "-wal", "-shm"] {
        let _ = fs::remove_file(format!("{}{ending}", home.store().display()));
    }
    assert!(restore(&early).status.success());
    assert_refused(&home.run("restore --begin-anew nobody"), "there is no stream nobody");
    let anew = home.run("restore --begin-anew visits");
    assert!(anew.status.success(), "{}", stderr(&anew));
    let begins: u64 = stderr(&anew).split("timestamp ").nth(1).unwrap().split(',').next().unwrap().parse().unwrap();
    assert_refused(&home.run("restore --begin-anew visits"), "is not older than what was published");
    let serving = home.serve();
    let mut releases = String::new();
    wait_for("it releases again", || {
        releases = stdout(&home.query(&serving, &format!("releases --stream visits --from {begins}"))).to_owned();
        releases.lines().count() > 1
    });
    let all = home.query(&serving, "releases --stream visits");
    let timestamps: Vec<u64> =
        stdout(&all).lines().skip(1).map(|line| line.split(',').next().unwrap().parse().unwrap()).collect();
    let known = timestamps.iter().filter(|timestamp| **timestamp < begins).max();
    assert!(known.is_none_or(|known| known + 2 <= begins), "{timestamps:?}");
    serving.terminate();
}

#[test]
fn marks_that_are_a_copy_are_refused_until_their_operator_knows_better() {
    let home = Home::new();
    home.configure("", &stream("visits", 1, 2));
    let serving = home.serve();
    let mut count = 0;
    wait_for("the stream runs", || {
        count += 1;
        let output = home.run(&format!("backup --json --to {}/{count}.db", home.folder.path().display()));
        serde_json::from_slice::<Value>(&output.stdout).unwrap()["streams"][0]["version"].as_u64() > Some(0)
    });
    serving.terminate();
    let marks = home.folder.file("home/state/marks");
    let copy = marks.with_extension("copy");
    fs::copy(&marks, &copy).unwrap();
    fs::remove_file(&marks).unwrap();
    fs::rename(&copy, &marks).unwrap();
    let refused = home.run("serve");
    assert_eq!(refused.status.code(), Some(1));
    let advice = format!("`tidegate restore --config {} --adopt-marks`", home.config().display());
    assert!(stderr(&refused).contains(&advice), "{}", stderr(&refused));
    let examined = home.run("doctor");
    assert!(stdout(&examined).contains(&advice), "{}", stdout(&examined));
    fs::remove_file(&marks).unwrap();
    assert!(stderr(&home.run("serve")).contains("there are no high-water marks"));
    let holder = || fs::read_to_string(home.folder.file("home/state/holder")).unwrap();
    let before = holder();
    assert!(home.run("restore --adopt-marks").status.success());
    assert_eq!(home.serve().terminate().0, Some(0));
    // The original, if it still runs, holds leases under another name: no fencing token is shared.
    assert_ne!(holder(), before);
}

/// The command under a `/proc` that shows processes only, as `ProcSubset=pid` makes it; `None` where this machine
/// allows no mounts, not even in a namespace of users.
fn under_pids_only(arguments: &[&std::ffi::OsStr]) -> Option<Output> {
    const HIDE: &str = "mount -t proc -o subset=pid proc /proc && ! test -e /proc/sys/kernel/random/boot_id || exit 99
                        exec \"$@\"";
    let as_root: &[&str] = &["--mount", "--propagation", "private"];
    let as_user: &[&str] = &["--user", "--map-root-user", "--mount", "--pid", "--fork"];
    [as_root, as_user].into_iter().find_map(|namespaces| {
        let mut hidden = Command::new("unshare");
        hidden.args(namespaces).args(["sh", "-c", HIDE, "sh", env!("CARGO_BIN_EXE_tidegate")]).args(arguments);
        let output = hidden.output().ok()?;
        let is_hidden = output.status.code() != Some(99) && !stderr(&output).starts_with("unshare: ");
        is_hidden.then_some(output)
    })
}

#[test]
fn refuses_to_start_where_the_boot_is_hidden() {
    let home = Home::new();
    let config = home.config();
    let arguments = |subcommand: &'static str| [subcommand.as_ref(), "--config".as_ref(), config.as_os_str()];
    let Some(served) = under_pids_only(&arguments("serve")) else {
        // Unit tests of the clock and of `doctor` hide the same file without a mount.
        eprintln!("SKIPPED: this machine allows no mount of a restricted /proc");
        return;
    };
    assert_eq!(served.status.code(), Some(1), "{}", stderr(&served));
    let said = stderr(&served);
    assert!(said.contains("the steady clock is unknown") && said.contains("ProcSubset=pid"), "{said}");
    assert!(!said.contains("listening"), "{said}");

    let examined = under_pids_only(&arguments("doctor")).unwrap();
    assert_eq!(examined.status.code(), Some(1), "{}", stderr(&examined));
    let steady: Vec<_> = stdout(&examined).lines().filter(|line| line.starts_with("fail")).map(str::to_owned).collect();
    assert!(matches!(&steady[..], [line] if line.contains("the steady clock is unknown")), "{steady:?}");
}

#[test]
fn the_unit_file_shows_the_boot() {
    let unit = fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/../../deploy/tidegate.service")).unwrap();
    let hides = |line: &&str| line.starts_with("ProcSubset=") || line.starts_with("InaccessiblePaths=/proc");
    assert_eq!(unit.lines().find(hides), None, "the service would not start");
}
