//! [`Database`]: a PostgreSQL server, and a standby that has everything that was committed.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::folder::TestFolder;
use crate::network::{Machine, Network};
use crate::postgres::{as_somebody, programs, somebody};
use crate::program::{Program, wait_until};

/// A primary and its synchronous standby.
#[derive(Debug)]
pub(crate) struct Database {
    folder: TestFolder,
    primary: Program,
    standby: Option<Program>,
    addresses: Vec<Machine>,
}

/// Runs a program of PostgreSQL to its end, on a machine.
fn run(command: &Command, machine: &Machine, folder: &Path) {
    let output = machine.place(command).current_dir(folder).output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{:?}: {said}", command.get_program());
}

/// A server with its data in a folder.
fn server(name: &str, machine: &Machine, folder: &TestFolder) -> Program {
    let mut command = as_somebody(&programs().join("postgres"));
    command.arg("-D").arg(folder.file(name)).args(["-k", "", "-h", &machine.address.to_string()]);
    for setting in [
        "max_connections=120",
        // The standby must allow as many.
        "max_wal_senders=8",
        "shared_buffers=32MB",
        // Of a machine that is cut off, sessions and their locks end soon.
        "tcp_user_timeout=3000",
        "tcp_keepalives_idle=2",
        "tcp_keepalives_interval=1",
        "tcp_keepalives_count=3",
        "wal_sender_timeout=3000",
        "wal_receiver_timeout=3000",
    ] {
        command.args(["-c", setting]);
    }
    command.current_dir(folder.path());
    Program::new(name, machine, &command, folder.path())
}

fn try_connect(machine: &Machine) -> Result<postgres::Client, postgres::Error> {
    let url = format!("host={} user=tidegate dbname=postgres connect_timeout=2", machine.address);
    postgres::Client::connect(&url, postgres::NoTls)
}

fn start(server: &mut Program) {
    server.start();
    wait_until(&format!("{} starts", server.name), 60, || {
        if server.ended().is_some() {
            // It does not while processes of one that was killed are still about.
            server.start();
        }
        try_connect(&server.machine).is_ok()
    });
}

impl Database {
    /// Starts an empty database; with a standby, if one is wanted.
    pub(crate) fn start(network: &Network, with_standby: bool) -> Self {
        let folder = TestFolder::new();
        Command::new("chown").arg(somebody()).arg(folder.path()).status().unwrap();
        let machine = network.machine();
        let mut made = as_somebody(&programs().join("initdb"));
        made.args(["--auth=trust", "--username=tidegate", "--no-sync", "--encoding=UTF8", "--locale=C", "--pgdata"]);
        run(made.arg(folder.file("primary")), &machine, folder.path());
        let allowed = "host all all 0.0.0.0/0 trust\nhost replication all 0.0.0.0/0 trust\n";
        fs::write(folder.file("primary").join("pg_hba.conf"), allowed).unwrap();
        let primary = server("primary", &machine, &folder);
        let mut database = Self { folder, primary, standby: None, addresses: vec![machine] };
        start(&mut database.primary);
        if with_standby {
            let machine = network.machine();
            // `initdb` may be a link to the folder that has everything.
            let initdb = programs().join("initdb").canonicalize().unwrap();
            let mut copy = as_somebody(&initdb.with_file_name("pg_basebackup"));
            copy.args(["--host", &database.addresses[0].address.to_string(), "--username=tidegate"]);
            copy.args(["--no-sync", "--checkpoint=fast", "--write-recovery-conf", "--wal-method=stream", "--pgdata"]);
            run(copy.arg(database.data("standby")), &machine, database.folder.path());
            let mut standby = server("standby", &machine, &database.folder);
            start(&mut standby);
            database.addresses.push(machine);
            database.standby = Some(standby);
            database.execute("ALTER SYSTEM SET synchronous_standby_names = '*'");
            database.execute("SELECT pg_reload_conf()");
            wait_until("the standby follows", 30, || {
                let rows = database.client().query("SELECT FROM pg_stat_replication WHERE sync_state = 'sync'", &[]);
                rows.unwrap().len() == 1
            });
        }
        database
    }

    fn data(&self, name: &str) -> PathBuf {
        self.folder.file(name)
    }

    /// Machines of the primary and the standby, as they were at the start.
    pub(crate) fn machines(&self) -> Vec<&Machine> {
        self.addresses.iter().collect()
    }

    /// Whether there is a standby to fail over to.
    pub(crate) const fn has_standby(&self) -> bool {
        self.standby.is_some()
    }

    /// The address of both, for those who write.
    pub(crate) fn url(&self) -> String {
        let hosts: Vec<String> = self.addresses.iter().map(|machine| machine.address.to_string()).collect();
        let hosts = hosts.join(",");
        format!("postgres://tidegate@{hosts}/postgres?target_session_attrs=read-write&connect_timeout=2")
    }

    pub(crate) fn client(&self) -> postgres::Client {
        try_connect(&self.primary.machine).unwrap()
    }

    pub(crate) fn execute(&self, sql: &str) {
        self.client().batch_execute(sql).unwrap();
    }

    /// Kills the primary, and starts it again.
    pub(crate) fn restart(&mut self, pause: impl FnOnce()) {
        self.primary.kill();
        pause();
        start(&mut self.primary);
    }

    /// Kills the primary for good, and promotes the standby.
    pub(crate) fn fail_over(&mut self, pause: impl FnOnce()) {
        self.primary.kill();
        pause();
        self.primary = self.standby.take().unwrap();
        let done = self.client().query_one("SELECT pg_promote(true, 30)", &[]).unwrap();
        assert!(done.get::<_, bool>(0), "the standby is promoted");
    }

    /// The server that writes.
    pub(crate) fn primary(&self) -> &Program {
        &self.primary
    }
}
