//! [`Program`]: a process on a machine, which is killed, paused and started again.

use std::fs::{File, OpenOptions};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};
use std::{fs, thread};

use crate::network::Machine;

/// A process on a machine. It is killed when this is dropped, or with the test.
#[derive(Debug)]
pub(crate) struct Program {
    pub(crate) name: String,
    pub(crate) machine: Machine,
    command: Command,
    /// Takes what it says.
    log: PathBuf,
    child: Option<Child>,
    /// How often it was started.
    starts: usize,
}

/// Waits until something holds.
#[track_caller]
pub(crate) fn wait_until(what: &str, seconds: u64, mut holds: impl FnMut() -> bool) {
    let start = Instant::now();
    while !holds() {
        assert!(start.elapsed() < Duration::from_secs(seconds), "{what}: not within {seconds} seconds");
        thread::sleep(Duration::from_millis(20));
    }
}

/// Returns the command as one that ends with the thread that starts it.
pub(crate) fn mortal(command: &Command) -> Command {
    let mut mortal = Command::new("setpriv");
    mortal.args(["--pdeathsig", "KILL", "--"]).arg(command.get_program()).args(command.get_args());
    mortal
}

impl Program {
    /// Prepares a command on a machine.
    pub(crate) fn new(name: &str, machine: &Machine, command: &Command, folder: &Path) -> Self {
        let log = folder.join(format!("{name}.log"));
        Self {
            name: name.to_owned(),
            machine: machine.clone(),
            command: machine.place(command),
            log,
            child: None,
            starts: 0,
        }
    }

    /// Starts it.
    pub(crate) fn start(&mut self) {
        assert!(self.child.is_none(), "{} runs", self.name);
        let log: File = OpenOptions::new().create(true).append(true).open(&self.log).unwrap();
        let command = self.command.stdin(Stdio::null()).stdout(log.try_clone().unwrap()).stderr(log);
        self.child = Some(command.spawn().unwrap());
        self.starts += 1;
    }

    /// Whether it has said a line that begins like this since each start.
    pub(crate) fn has_said(&self, beginning: &str) -> bool {
        self.said().lines().filter(|line| line.starts_with(beginning)).count() >= self.starts
    }

    /// What it has said since the first start.
    pub(crate) fn said(&self) -> String {
        fs::read_to_string(&self.log).unwrap_or_default()
    }

    /// The number of the process.
    pub(crate) fn id(&self) -> u32 {
        self.child.as_ref().unwrap().id()
    }

    pub(crate) fn signal(&self, signal: &str) {
        let id = self.id().to_string();
        assert!(Command::new("kill").args(["-s", signal, &id]).status().unwrap().success(), "{}: {signal}", self.name);
    }

    /// As a loss of power would.
    pub(crate) fn kill(&mut self) {
        let mut child = self.child.take().unwrap();
        child.kill().unwrap();
        child.wait().unwrap();
    }

    /// Tells it to end, and waits until it has.
    pub(crate) fn terminate(&mut self) -> ExitStatus {
        self.signal("TERM");
        self.child.take().unwrap().wait().unwrap()
    }

    /// How it has ended by itself.
    pub(crate) fn ended(&mut self) -> Option<ExitStatus> {
        let status = self.child.as_mut()?.try_wait().unwrap()?;
        self.child = None;
        Some(status)
    }
}

impl Drop for Program {
    fn drop(&mut self) {
        if let Some(mut child) = self.child.take() {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}
