//! Group commit of the drivers that are due together.
//!
//! A disk takes milliseconds for a sync, however much it syncs. So drivers that are due together go through their steps
//! side by side. Each runs until it needs a durable change or a mark. Then all changes are committed by one
//! [`commit`](crate::store::Store::commit), all marks are raised by one [`raise_all`](super::HighWater::raise_all), and
//! each driver continues with its own outcome. The order within a stream stays: debit, mark, publish. There is one
//! thread, and no clock decides who is first, so a simulation sees the same steps.

use std::cell::{Cell, RefCell};
use std::future::poll_fn;
use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::rc::Rc;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

use tidegate::kernel::Randomness;

use super::{DriveError, Driver, Mark, Now, RunReport, Tools};
use crate::ingest::event_buffer::EventBuffer;
use crate::store::{Lease, StoreError, Write, Written};

/// A stream's place in a group.
#[derive(Debug)]
pub struct Turn {
    /// Name of the stream.
    pub stream: Arc<str>,
    /// Events of the stream, if it is curated.
    pub buffer: Option<Arc<EventBuffer>>,
    /// Driver of the stream; opened where there is none, dropped after an error.
    pub driver: Option<Driver>,
}

/// Does everything that is due for several streams, with common commits. Returns the outcome of each, in order.
///
/// Drivers that are missing are [opened](Driver::open). No two turns are about the same stream.
pub fn drive_together<'a>(
    tools: &Tools,
    turns: impl IntoIterator<Item = &'a mut Turn>,
    now: impl Fn() -> Now,
    random: &mut impl Randomness,
) -> Vec<Result<RunReport, DriveError>> {
    let random = RefCell::new(random);
    let mut turns: Vec<_> = turns.into_iter().collect();
    let tasks = turns.iter_mut().map(|turn| {
        let (now, random) = (&now, &random);
        move |port: Port| async move { run_turn(&port, turn, tools, now, random).await }
    });
    let outcomes = run(tools, tasks).into_iter().map(|outcome| outcome.unwrap_or(Err(DriveError::Panic)));
    let outcomes: Vec<_> = outcomes.collect();
    for (turn, _) in turns.iter_mut().zip(&outcomes).filter(|(_, outcome)| outcome.is_err()) {
        // Its memory may differ from the store, which the next driver reads back.
        turn.driver = None;
    }
    outcomes
}

async fn run_turn<R: Randomness>(
    port: &Port,
    turn: &mut Turn,
    tools: &Tools,
    now: &impl Fn() -> Now,
    random: &RefCell<&mut R>,
) -> Result<RunReport, DriveError> {
    let driver = match &mut turn.driver {
        Some(driver) => driver,
        None => {
            let opened = Driver::open_in(port, &turn.stream, now(), turn.buffer.clone(), tools.clone()).await?;
            turn.driver.insert(opened)
        }
    };
    driver.run_in(port, now, random).await
}

/// Runs the step of one driver.
pub(super) fn alone<T, F: Future<Output = Result<T, DriveError>>>(
    tools: &Tools,
    step: impl FnOnce(Port) -> F,
) -> Result<T, DriveError> {
    run(tools, [step]).pop().flatten().unwrap_or(Err(DriveError::Panic))
}

/// Request of a driver, and the reply of its group.
struct Slot<Q, A> {
    request: Cell<Option<Q>>,
    reply: Cell<Option<A>>,
}

impl<Q, A> Default for Slot<Q, A> {
    fn default() -> Self {
        Self { request: Cell::new(None), reply: Cell::new(None) }
    }
}

impl<Q, A> Slot<Q, A> {
    async fn ask(&self, request: Q) -> A {
        self.request.set(Some(request));
        poll_fn(|_| self.reply.take().map_or(Poll::Pending, Poll::Ready)).await
    }
}

#[derive(Default)]
struct Slots {
    writes: Slot<Write<'static>, Result<Written, StoreError>>,
    marks: Slot<(String, Mark), io::Result<()>>,
    refresh: Slot<(), io::Result<()>>,
}

/// Connection of a driver to its group.
#[derive(Clone, Default)]
pub(super) struct Port(Rc<Slots>);

impl Port {
    /// Makes a change durable.
    pub(super) async fn write(&self, write: Write<'static>) -> Result<Written, StoreError> {
        self.0.writes.ask(write).await
    }

    pub(super) async fn lease(
        &self,
        stream: &str,
        holder: &str,
        now: u64,
        until: u64,
    ) -> Result<Option<Lease>, StoreError> {
        let (stream, holder) = (stream.to_owned(), holder.to_owned());
        self.write(Write::Lease { stream, holder, now, until }).await?.lease()
    }

    /// Learns the marks that other processes have raised until now.
    pub(super) async fn refresh_marks(&self) -> io::Result<()> {
        self.0.refresh.ask(()).await
    }

    /// Raises the mark of a stream.
    pub(super) async fn raise(&self, stream: &str, mark: Mark) -> io::Result<()> {
        self.0.marks.ask((stream.to_owned(), mark)).await
    }
}

/// A task of a group.
struct Member<F: Future> {
    /// Dropped when it has ended or panicked.
    task: Option<Pin<Box<F>>>,
    port: Port,
    outcome: Option<F::Output>,
}

impl<F: Future> Member<F> {
    fn new(task: impl FnOnce(Port) -> F) -> Self {
        let port = Port::default();
        Self { task: Some(Box::pin(task(port.clone()))), port, outcome: None }
    }

    /// Continues the task until it needs its group.
    fn poll(&mut self) {
        let Some(task) = &mut self.task else { return };
        // A fault of one stream must not stop the others.
        match catch_unwind(AssertUnwindSafe(|| task.as_mut().poll(&mut Context::from_waker(Waker::noop())))) {
            Ok(Poll::Pending) => return,
            Ok(Poll::Ready(outcome)) => self.outcome = Some(outcome),
            Err(_) => {}
        }
        self.task = None;
    }
}

/// Runs tasks side by side, with common commits. Returns their outcomes; `None` for one that panicked.
fn run<F: Future>(tools: &Tools, tasks: impl IntoIterator<Item = impl FnOnce(Port) -> F>) -> Vec<Option<F::Output>> {
    let mut members: Vec<_> = tasks.into_iter().map(Member::new).collect();
    loop {
        members.iter_mut().for_each(Member::poll);
        let slots = || members.iter().map(|member| &*member.port.0);
        let asked = slots().filter_map(|slots| slots.writes.request.take().map(|write| (&slots.writes.reply, write)));
        let (writers, writes): (Vec<_>, Vec<_>) = asked.unzip();
        let asked = slots().filter_map(|slots| slots.marks.request.take().map(|mark| (&slots.marks.reply, mark)));
        let (raisers, marks): (Vec<_>, Vec<_>) = asked.unzip();
        let refreshers: Vec<_> =
            slots().filter_map(|slots| slots.refresh.request.take().map(|()| &slots.refresh.reply)).collect();
        if writers.is_empty() && raisers.is_empty() && refreshers.is_empty() {
            return members.into_iter().map(|member| member.outcome).collect();
        }
        let copy = |error: &io::Error| io::Error::new(error.kind(), error.to_string());
        if !refreshers.is_empty() {
            let refreshed = tools.marks.refresh();
            refreshers.iter().for_each(|reply| reply.set(Some(refreshed.as_ref().copied().map_err(copy))));
        }
        if !raisers.is_empty() {
            let raised = tools.marks.raise_all(&marks);
            raisers.iter().for_each(|reply| reply.set(Some(raised.as_ref().copied().map_err(copy))));
        }
        if !writers.is_empty() {
            for (reply, outcome) in writers.into_iter().zip(tools.store.commit(&writes)) {
                reply.set(Some(outcome));
            }
        }
    }
}
