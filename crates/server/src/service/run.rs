//! Threads that drive the streams of a service.

use std::time::Duration;

use tidegate::kernel::SystemRandom;
use tidegate_device::clock::BootClock;

use super::agenda::{Agenda, GROUP, Seat};
use super::{Observer, now};
use crate::cluster::Fleet;
use crate::driver::{DriveError, Now, RunReport, Tools, drive_together};
use crate::store::{Lease, Write};

/// First and longest pause before a driver is opened again after an error.
pub(super) const BACKOFF: (Duration, Duration) = (Duration::from_millis(50), Duration::from_secs(5));
/// Shortest and longest pause between two looks at a stream that another process drives; in between, a tenth of a tick.
const LOOK: (u64, u64) = (500, 5_000);
/// Pause between two looks whether a stream belongs to another process still. A change of processes wakes it earlier.
const PARKED: Duration = Duration::from_secs(30);

/// Drives the streams that are due until the service stops.
pub(super) fn drive(
    agenda: &Agenda,
    tools: &Tools,
    fleet: Option<&Fleet>,
    clock: BootClock,
    random: &mut SystemRandom,
    observer: &dyn Observer,
) {
    let moment = || Now { wall: now(), steady: Some(clock.read().steady) };
    while let Some(seats) = agenda.take() {
        let is_mine = |seat: &Seat| fleet.is_none_or(|fleet| fleet.is_mine(&seat.handle.name));
        let (mut seats, others): (Vec<_>, Vec<_>) = seats.into_iter().partition(is_mine);
        if !others.is_empty() {
            park(others, agenda, tools);
        }
        let mut opened = Vec::with_capacity(seats.len());
        for seat in &mut seats {
            if seat.handle.wants_reopening() {
                seat.turn.driver = None;
            }
            opened.push(seat.turn.driver.is_none());
        }
        let outcomes = drive_together(tools, seats.iter_mut().map(|seat| &mut seat.turn), moment, random);
        for ((mut seat, outcome), opened) in seats.into_iter().zip(outcomes).zip(opened) {
            let pause = show(&mut seat, outcome, opened, tools, observer);
            agenda.give(seat, Duration::from_millis(pause));
        }
    }
}

/// Gives up streams that belong to other processes.
fn park(mut seats: Vec<Seat>, agenda: &Agenda, tools: &Tools) {
    let leases: Vec<_> = seats.iter_mut().filter_map(|seat| Some(seat.turn.driver.take()?.into_lease())).collect();
    release(&leases, tools);
    for seat in seats {
        seat.handle.update(|view| std::mem::replace(&mut view.driven, false));
        agenda.give(seat, PARKED);
    }
}

/// Shows the outcome of a turn. Returns the pause before the next one, in milliseconds.
fn show(
    seat: &mut Seat,
    outcome: Result<RunReport, DriveError>,
    opened: bool,
    tools: &Tools,
    observer: &dyn Observer,
) -> u64 {
    let Seat { handle, turn, backoff } = seat;
    let shown = outcome.and_then(|report| {
        report.events.iter().for_each(|event| observer.driver_event(&handle.name, event));
        if let Some(driver) = &turn.driver {
            handle.digest_events(&report.events, opened, driver);
            handle.show_driver(driver, opened, tools)?;
            handle.refresh(&*tools.store, false);
        }
        Ok(report.wake)
    });
    match shown {
        Ok(wake) => {
            *backoff = BACKOFF.0;
            wake.saturating_sub(now()).clamp(1, 60_000)
        }
        Err(DriveError::Held(_)) => {
            if let Some(buffer) = &handle.buffer {
                buffer.close();
            }
            if let Err(error) = handle.show_other(tools) {
                handle.show_problem(error.to_string());
            }
            (handle.tick() / 10).clamp(LOOK.0, LOOK.1)
        }
        Err(error) => {
            turn.driver = None;
            observer.failed(&handle.name, &error);
            handle.show_problem(error.to_string());
            let pause = *backoff;
            *backoff = (pause * 2).min(BACKOFF.1);
            u64::try_from(pause.as_millis()).unwrap_or(u64::MAX)
        }
    }
}

/// Releases the leases of all streams, so that other processes can take them at once.
pub(super) fn release_leases(seats: Vec<Seat>, tools: &Tools) {
    let leases: Vec<_> = seats.into_iter().filter_map(|seat| Some(seat.turn.driver?.into_lease())).collect();
    release(&leases, tools);
}

fn release(leases: &[Lease], tools: &Tools) {
    for group in leases.chunks(GROUP) {
        let writes: Vec<_> = group.iter().cloned().map(Write::ReleaseLease).collect();
        for (lease, outcome) in group.iter().zip(tools.store.commit(&writes)) {
            if let Err(error) = outcome {
                tracing::warn!(stream = lease.stream, %error, "the lease could not be released");
            }
        }
    }
}
