//! A service as one process of a cluster: what it starts, and how it learns what other processes have changed.

use std::collections::HashSet;
use std::fmt::Display;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, PoisonError, Weak};
use std::thread;
use std::time::{Duration, Instant};

use serde_json::json;
use tidegate_log::Log;

use super::handle::{declaration_of, lock};
use super::{Service, ServiceError};
use crate::cluster::{Fleet, Role, Worker};
use crate::driver::DriveError;
use crate::store::clustered::ReaderFigures;
use crate::store::{Store, StoreError, StreamRecord};

/// Longest wait for changes.
const WAIT: Duration = Duration::from_millis(500);
/// Pause before the database is asked again after an error.
const PAUSE: Duration = Duration::from_secs(1);
/// Streams that are read together.
const GROUP: usize = 512;
/// Time after which all streams are looked at, whatever the database tells.
const ROUND: Duration = Duration::from_secs(60);
/// Threads of a gateway that append reports: while one waits for the log, others divide batches.
pub(super) const WRITERS: usize = 4;

/// Part of a service in a cluster.
#[derive(Clone, Debug)]
pub struct Membership {
    /// Living processes, and this one's role.
    pub fleet: Arc<Fleet>,
    /// Log of reports.
    pub log: Arc<dyn Log>,
}

/// What the threads of a member share.
pub(super) struct Member {
    pub(super) membership: Membership,
    pub(super) figures: Arc<ReaderFigures>,
    pub(super) stopping: Arc<AtomicBool>,
}

impl Membership {
    /// Whether this process drives streams.
    pub(super) fn drives(&self) -> bool {
        self.fleet.role() == Role::Driver
    }

    /// Whether this process knows streams.
    pub(super) fn knows_streams(&self) -> bool {
        self.fleet.role() != Role::Worker
    }
}

impl Member {
    fn is_stopping(&self) -> bool {
        self.stopping.load(Ordering::Acquire)
    }

    /// Sleeps, but not beyond the end of the service.
    fn sleep(&self, pause: Duration) {
        let until = Instant::now() + pause;
        while Instant::now() < until && !self.is_stopping() {
            thread::sleep(Duration::from_millis(20));
        }
    }

    /// Counts reports until the service stops.
    pub(super) fn count(&self) {
        let Membership { fleet, log } = &self.membership;
        let mut worker = Worker::new(Arc::clone(fleet), Arc::clone(log), Arc::clone(&self.figures));
        worker.run(&self.stopping);
    }

    /// Gives signs of life until the service stops.
    pub(super) fn announce(&self, service: &Weak<Service>) {
        let fleet = &self.membership.fleet;
        let pause = Duration::from_millis((fleet.lease() / 4).clamp(50, 2_000));
        while !self.is_stopping() {
            let Some(service) = service.upgrade() else { return };
            let streams = service.states();
            let driven = streams.iter().filter(|stream| stream.is_driven).count();
            let figures = json!({ "streams": driven, "queued": service.queued() });
            match fleet.announce(&figures.to_string()) {
                // Streams move between drivers.
                Ok(true) => service.agenda.wake_all(),
                Ok(false) => {}
                Err(error) => tracing::warn!(%error, "the cluster could not be told that this process lives"),
            }
            drop(service);
            self.sleep(pause);
        }
        if let Err(error) = fleet.leave() {
            tracing::warn!(%error, "the cluster could not be told that this process ends");
        }
    }

    /// Follows the changes of streams until the service stops.
    pub(super) fn watch(&self, service: &Weak<Service>) {
        while !self.is_stopping() {
            if let Err(error) = self.watch_once(service) {
                tracing::warn!(%error, "changes of streams are looked for again");
                self.sleep(PAUSE);
            }
        }
    }

    fn watch_once(&self, service: &Weak<Service>) -> Result<(), StoreError> {
        let store = self.membership.fleet.store();
        let is_driver = self.membership.drives();
        let mut listener = store.listen(is_driver)?;
        let mut round = None::<Instant>;
        while !self.is_stopping() {
            let Some(service) = service.upgrade() else { return Ok(()) };
            let names = if round.is_none_or(|round| round.elapsed() > ROUND) {
                // Changes before the connection, and those of a database that was replaced.
                round = Some(Instant::now());
                store.names()?.into_iter().collect()
            } else {
                listener.wait(WAIT)?
            };
            service.follow(&names, is_driver)?;
        }
        Ok(())
    }
}

impl Service {
    /// Starts the threads of a member of a cluster.
    pub(super) fn take_part(self: &Arc<Self>, membership: &Membership) -> Result<(), ServiceError> {
        let member = Arc::new(Member {
            membership: membership.clone(),
            figures: Arc::clone(&self.counted),
            stopping: Arc::clone(&self.stopping),
        });
        if membership.fleet.role() == Role::Worker {
            return self.spawn("worker", move || member.count());
        }
        // Before any stream is driven, it is known which of them belong to this process.
        membership.fleet.announce("{}")?;
        let (service, announcing) = (Arc::downgrade(self), Arc::clone(&member));
        self.spawn("announcements", move || announcing.announce(&service))?;
        let service = Arc::downgrade(self);
        self.spawn("changes", move || member.watch(&service))
    }

    /// Takes in what other processes have changed of streams.
    fn follow(&self, names: &HashSet<String>, is_driver: bool) -> Result<(), StoreError> {
        // A stream that cannot be read must not hide what the others do.
        let skip =
            |name: &str, error: &dyn Display| tracing::error!(stream = name, %error, "the stream is not followed");
        for name in names {
            if self.handle(name).is_none()
                && let Err(error) = self.start_stream(name)
            {
                skip(name, &error);
            }
        }
        let names: Vec<&str> = names.iter().map(String::as_str).collect();
        let Some(fleet) = &self.membership else { return Ok(()) };
        for names in names.chunks(GROUP) {
            for head in fleet.fleet.store().heads(names)? {
                let shown = if is_driver { self.reopen_if_declared_anew(&head) } else { self.show_head(&head) };
                if let Err(error) = shown {
                    skip(&head.name, &error);
                }
            }
        }
        self.refresh_digests();
        Ok(())
    }

    fn reopen_if_declared_anew(&self, head: &StreamRecord) -> Result<(), DriveError> {
        let Some(handle) = self.handle(&head.name) else { return Ok(()) };
        let declaration = declaration_of(head)?;
        let is_same = {
            let view = lock(&handle.view);
            *view.declaration == declaration && view.status == head.status
        };
        if !is_same {
            handle.reopen();
            self.agenda.wake(&head.name);
        }
        Ok(())
    }

    fn show_head(&self, head: &StreamRecord) -> Result<(), DriveError> {
        let Some(handle) = self.handle(&head.name) else { return Ok(()) };
        handle.show_head(head, declaration_of(head)?);
        Ok(())
    }

    /// Reads the last releases of streams for the list, some at a time.
    fn refresh_digests(&self) {
        let outdated: Vec<_> = {
            let streams = self.streams.read().unwrap_or_else(PoisonError::into_inner);
            streams.values().filter(|handle| handle.is_outdated()).take(GROUP / 8).cloned().collect()
        };
        outdated.iter().for_each(|handle| handle.refresh(&*self.tools.store, false));
    }
}
