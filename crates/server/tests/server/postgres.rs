//! [`Postgres`]: a PostgreSQL server for one test, reached by a socket in its folder.

use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use crate::folder::TestFolder;

/// A server that runs until it is dropped.
#[derive(Debug)]
pub(crate) struct Postgres {
    folder: TestFolder,
    programs: PathBuf,
    server: Option<Child>,
    /// Port at which it takes encrypted connections only.
    port: Option<u16>,
}

/// Finds the folder of `initdb` and `postgres`.
pub(crate) fn programs() -> PathBuf {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let debian = std::fs::read_dir("/usr/lib/postgresql")
        .into_iter()
        .flatten()
        .flatten()
        .map(|version| version.path().join("bin"));
    let both = |folder: &PathBuf| ["initdb", "postgres"].iter().all(|program| folder.join(program).exists());
    std::env::split_paths(&path).chain(debian).find(both).expect(
        "PostgreSQL is needed for this test, but initdb and postgres are neither in PATH nor in \
         /usr/lib/postgresql/*/bin: .ci/build-tools installs it",
    )
}

fn output(program: &str, arguments: &[&str]) -> String {
    let output = Command::new(program).args(arguments).output().unwrap();
    String::from_utf8(output.stdout).unwrap().trim().to_owned()
}

/// Builds a command that ends with this process, as a user without rights: PostgreSQL refuses to run as root.
pub(crate) fn as_somebody(program: &Path) -> Command {
    let mut command = Command::new("setpriv");
    command.args(["--pdeathsig", "KILL"]);
    if output("id", &["-u"]) == "0" {
        let user = somebody();
        let group = output("id", &["-gn", user]);
        command.args(["--reuid", user, "--regid", &group, "--clear-groups"]);
    }
    command.arg("--").arg(program);
    command
}

pub(crate) fn somebody() -> &'static str {
    ["postgres", "nobody"].into_iter().find(|user| !output("id", &["-u", user]).is_empty()).expect("a user to run as")
}

impl Postgres {
    /// Starts an empty server.
    pub(crate) fn start() -> Self {
        let (folder, programs) = (TestFolder::new(), programs());
        if output("id", &["-u"]) == "0" {
            assert!(Command::new("chown").arg(somebody()).arg(folder.path()).status().unwrap().success());
        }
        let made = as_somebody(&programs.join("initdb"))
            .args(["--auth=trust", "--username=tidegate", "--no-sync", "--encoding=UTF8", "--locale=C", "--pgdata"])
            .arg(folder.file("data"))
            .current_dir(folder.path())
            .output()
            .unwrap();
        assert!(made.status.success(), "initdb: {}", String::from_utf8_lossy(&made.stderr));
        let mut server = Self { folder, programs, server: None, port: None };
        server.run();
        server
    }

    /// Starts one that also takes encrypted connections, with a certificate and its key.
    pub(crate) fn encrypt(&mut self, certificate: &Path, key: &Path) {
        self.stop("INT");
        let data = self.folder.file("data");
        for (from, name) in [(certificate, "server.crt"), (key, "server.key")] {
            let to = data.join(name);
            std::fs::copy(from, &to).unwrap();
            std::fs::set_permissions(&to, std::os::unix::fs::PermissionsExt::from_mode(0o600)).unwrap();
            if output("id", &["-u"]) == "0" {
                assert!(Command::new("chown").arg(somebody()).arg(&to).status().unwrap().success());
            }
        }
        std::fs::write(data.join("pg_hba.conf"), "local all all trust\nhostssl all all all trust\n").unwrap();
        // Nobody else gets the port that was free a moment ago.
        let free = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
        self.port = Some(free.port());
        self.run();
    }

    /// Returns the URL of the encrypted connections, with parameters.
    pub(crate) fn encrypted_url(&self, host: &str, parameters: &str) -> String {
        format!("postgres://tidegate@{host}:{}/postgres?{parameters}", self.port.unwrap())
    }

    /// Starts the server again after a [stop](Self::stop).
    pub(crate) fn run(&mut self) {
        let mut child = self.spawn();
        let until = Instant::now() + Duration::from_secs(60);
        while let Err(error) = postgres::Client::connect(&self.url(), postgres::NoTls) {
            let log = std::fs::read_to_string(self.folder.file("log")).unwrap_or_default();
            assert!(Instant::now() < until, "PostgreSQL does not start: {error}\n{log}");
            thread::sleep(Duration::from_millis(30));
            // It does not while processes of one that was killed are still about.
            if child.try_wait().unwrap().is_some() {
                child = self.spawn();
            }
        }
        self.server = Some(child);
    }

    fn spawn(&self) -> Child {
        let log = std::fs::OpenOptions::new().create(true).append(true).open(self.folder.file("log")).unwrap();
        as_somebody(&self.programs.join("postgres"))
            .arg("-D")
            .arg(self.folder.file("data"))
            .arg("-k")
            .arg(self.folder.path())
            .args(["-c", "max_connections=60"])
            .args(self.port.map_or_else(
                || vec!["-h".to_owned(), String::new()],
                |port| ["-h", "127.0.0.1", "-p", &port.to_string(), "-c", "ssl=on"].map(str::to_owned).into(),
            ))
            .current_dir(self.folder.path())
            .stdout(Stdio::null())
            .stderr(log)
            .spawn()
            .unwrap()
    }

    /// Stops the server by a signal: `INT` lets it finish, `KILL` does not.
    pub(crate) fn stop(&mut self, signal: &str) {
        if let Some(mut server) = self.server.take() {
            let stopped = Command::new("kill").args(["-s", signal, &server.id().to_string()]).status();
            assert!(stopped.unwrap().success());
            server.wait().unwrap();
        }
    }

    /// Stops all its processes where they are, until the guard is dropped.
    pub(crate) fn hang(&self) -> Hung {
        let server = self.server.as_ref().unwrap().id();
        // The parent of a process is the second field behind its name, which is in parentheses.
        let parent = |stat: String| stat.rsplit_once(')')?.1.split_whitespace().nth(1)?.parse::<u32>().ok();
        let processes = std::fs::read_dir("/proc").unwrap().flatten();
        let numbers = processes.filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok());
        let stat = |number: &u32| std::fs::read_to_string(format!("/proc/{number}/stat")).ok();
        let mut all: Vec<u32> = numbers.filter(|number| stat(number).and_then(parent) == Some(server)).collect();
        all.push(server);
        let hung = Hung(all.iter().map(u32::to_string).collect());
        hung.signal("STOP");
        hung
    }

    /// Returns its URL.
    pub(crate) fn url(&self) -> String {
        let port = self.port.unwrap_or(5_432);
        format!("host={} port={port} user=tidegate dbname=postgres", self.folder.path().display())
    }

    /// Runs a statement.
    pub(crate) fn execute(&self, sql: &str) {
        postgres::Client::connect(&self.url(), postgres::NoTls).unwrap().batch_execute(sql).unwrap();
    }

    /// Drops all tables of stores.
    pub(crate) fn clear(&self) {
        self.execute("SET client_min_messages = warning; DROP SCHEMA IF EXISTS tidegate CASCADE");
    }
}

/// Processes that hang until this is dropped.
#[derive(Debug)]
pub(crate) struct Hung(Vec<String>);

impl Hung {
    fn signal(&self, signal: &str) {
        assert!(Command::new("kill").args(["-s", signal]).args(&self.0).status().unwrap().success());
    }
}

impl Drop for Hung {
    fn drop(&mut self) {
        self.signal("CONT");
    }
}

impl Drop for Postgres {
    fn drop(&mut self) {
        if let Some(mut server) = self.server.take() {
            let _ = Command::new("kill").args(["-s", "INT", &server.id().to_string()]).status();
            let _ = server.wait();
        }
    }
}
