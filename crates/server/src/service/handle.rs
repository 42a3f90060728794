//! [`StreamHandle`]: shared view of a running stream, for requests and for the thread that drives it.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tidegate_device::wire::StreamTag;
use tokio::sync::watch;

use super::Change;
use super::digest::Digest;
use crate::driver::{DriveError, Driver, Tools, progress};
use crate::ingest::EventBuffer;
use crate::ingest::admission::{Admission, Admissions};
use crate::ingest::issuing::Issuing;
use crate::store::{Status, StoreError, StreamRecord};
use crate::stream::Declaration;

/// A running stream.
#[derive(Debug)]
pub(super) struct StreamHandle {
    pub(super) name: Arc<str>,
    pub(super) tag: StreamTag,
    pub(super) policy: Option<Arc<str>>,
    pub(super) buffer: Option<Arc<EventBuffer>>,
    /// Who gets tokens, in a stream with credentials.
    pub(super) issuing: Option<Arc<Issuing>>,
    pub(super) view: Mutex<View>,
    pub(super) change: watch::Sender<Change>,
    /// Never locked while `view` is, nor while the store is read.
    pub(super) digest: Mutex<Digest>,
    /// The turn to read alarms for the digest.
    pub(super) refreshing: Mutex<()>,
    /// Set when the declaration has changed, so the driver must be opened again.
    reopen: AtomicBool,
}

/// State of a stream, as requests see it.
#[derive(Debug)]
pub(super) struct View {
    pub(super) declaration: Arc<Declaration>,
    pub(super) status: Status,
    /// How often operators have set the status; a status that was read before the last of these is outdated.
    pub(super) status_changes: u64,
    pub(super) version: u64,
    pub(super) published: u64,
    pub(super) driven: bool,
    pub(super) questions: Admissions,
    pub(super) problem: Option<String>,
}

impl View {
    /// Returns a status read after `status_changes` changes, or the one that operators have set since.
    const fn newer(&self, read: Status, status_changes: u64) -> Status {
        if self.status_changes == status_changes { read } else { self.status }
    }

    /// Sets the figures; returns whether one changed.
    fn set(&mut self, version: u64, published: u64, status: Status, driven: bool) -> bool {
        let before = (self.version, self.published, self.status, self.driven);
        (self.version, self.published, self.status, self.driven) = (version, published, status, driven);
        self.problem = None;
        before != (version, published, status, driven)
    }
}

pub(super) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Reads the declaration of a stored stream.
pub(super) fn declaration_of(stream: &StreamRecord) -> Result<Declaration, DriveError> {
    serde_json::from_str(&stream.declaration)
        .map_err(|error| DriveError::State { stream: stream.name.clone(), problem: error.to_string() })
}

impl StreamHandle {
    pub(super) fn new(
        found: StreamRecord,
        declaration: Declaration,
        buffer: Option<Arc<EventBuffer>>,
        issuing: Option<Arc<Issuing>>,
    ) -> Self {
        Self {
            name: found.name.as_str().into(),
            tag: StreamTag::of(&found.name),
            policy: (!found.policy.is_empty()).then(|| found.policy.into()),
            buffer,
            issuing,
            change: watch::Sender::new(Change { round: found.version, published: found.published }),
            reopen: AtomicBool::new(false),
            digest: Mutex::default(),
            refreshing: Mutex::default(),
            view: Mutex::new(View {
                questions: Admission::all(&found.open, &Arc::default(), &declaration),
                declaration: Arc::new(declaration),
                status: found.status,
                status_changes: 0,
                version: found.version,
                published: found.published,
                driven: false,
                problem: None,
            }),
        }
    }

    /// Asks that the driver be opened again: the declaration has changed.
    pub(super) fn reopen(&self) {
        self.reopen.store(true, Ordering::Release);
    }

    /// Whether the driver must be opened again. Asks once for each [`reopen`](Self::reopen).
    pub(super) fn wants_reopening(&self) -> bool {
        self.reopen.swap(false, Ordering::AcqRel)
    }

    /// Returns the length of a tick, in milliseconds.
    pub(super) fn tick(&self) -> u64 {
        lock(&self.view).declaration.schedule().length()
    }

    /// Updates the view, and wakes requests that wait if `update` returns true.
    pub(super) fn update(&self, update: impl FnOnce(&mut View) -> bool) {
        let mut view = lock(&self.view);
        let changed = update(&mut view);
        let published = view.published;
        drop(view);
        if changed {
            self.change.send_modify(|change| {
                change.round += 1;
                change.published = published;
            });
        }
    }

    /// Shows the state of this process's driver, which was perhaps opened just now.
    pub(super) fn show_driver(&self, driver: &Driver, opened: bool, tools: &Tools) -> Result<(), StoreError> {
        let status_changes = lock(&self.view).status_changes;
        let status = tools.store.status(&self.name)?.0;
        let questions = driver.questions();
        self.update(|view| {
            if opened {
                view.declaration = Arc::new(driver.declaration().clone());
            }
            let status = view.newer(status, status_changes);
            let same_questions = view.questions.len() == questions.len()
                && view.questions.iter().zip(questions).all(|(old, new)| old.question == new.question);
            let changed = view.set(driver.version(), driver.published(), status, true);
            if !same_questions {
                view.questions = Admission::all(questions, &view.questions, &view.declaration);
            }
            changed || !same_questions
        });
        Ok(())
    }

    /// Shows an error of the driver.
    pub(super) fn show_problem(&self, problem: String) {
        self.update(|view| {
            let changed = view.problem.as_ref() != Some(&problem) || view.driven;
            (view.problem, view.driven) = (Some(problem), false);
            changed
        });
    }

    /// Shows the progress of another process that drives the stream, and raises the mark: this process may be next.
    pub(super) fn show_other(&self, tools: &Tools) -> Result<(), DriveError> {
        let (known, status_changes) = {
            let view = lock(&self.view);
            (view.version, view.status_changes)
        };
        let stream = tools.store.stream(&self.name)?;
        if stream.version != known && !tools.marks.is_shared() {
            tools.marks.raise(&self.name, progress(&stream)?).map_err(DriveError::Mark)?;
        }
        let declaration = declaration_of(&stream)?;
        self.show_read(&stream, declaration, status_changes);
        self.refresh(&*tools.store, false);
        Ok(())
    }

    /// Shows a stream as it is in the store, where another process drives it.
    pub(super) fn show_head(&self, stream: &StreamRecord, declaration: Declaration) {
        let status_changes = lock(&self.view).status_changes;
        self.show_read(stream, declaration, status_changes);
    }

    fn show_read(&self, stream: &StreamRecord, declaration: Declaration, status_changes: u64) {
        let is_outdated = stream.published != lock(&self.view).published;
        self.update(|view| {
            let status = view.newer(stream.status, status_changes);
            let changed = view.set(stream.version, stream.published, status, false) || *view.declaration != declaration;
            if changed {
                view.declaration = Arc::new(declaration);
                view.questions = Admission::all(&stream.open, &view.questions, &view.declaration);
            }
            changed
        });
        self.digest_of_other();
        if is_outdated {
            self.outdate();
        }
    }
}
