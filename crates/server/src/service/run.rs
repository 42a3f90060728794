//! Thread that drives one stream.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use tidegate::kernel::SystemRandom;
use tidegate_device::clock::BootClock;

use super::handle::StreamHandle;
use super::{Observer, now};
use crate::driver::{DriveError, Driver, Now, Tools};

/// First and longest pause before a driver is opened again after an error.
const BACKOFF: (Duration, Duration) = (Duration::from_millis(50), Duration::from_secs(5));
/// Pause between two looks at a stream that another process drives.
const LOOK: Duration = Duration::from_millis(500);

/// Drives a stream until the service stops.
pub(super) fn drive(
    handle: &StreamHandle,
    tools: &Tools,
    clock: BootClock,
    observer: &dyn Observer,
    stopping: &AtomicBool,
) {
    let stream = &*handle.name;
    let mut backoff = BACKOFF.0;
    let mut random = None;
    let mut driver: Option<Driver> = None;
    while !stopping.load(Ordering::Acquire) {
        match run_once(handle, tools, &mut driver, &mut random, clock, observer) {
            Ok(wake) => {
                backoff = BACKOFF.0;
                let wait = wake.saturating_sub(now()).clamp(1, 60_000);
                handle.sleep(Duration::from_millis(wait));
            }
            Err(DriveError::Held(_)) => {
                driver = None;
                if let Some(buffer) = &handle.buffer {
                    buffer.close();
                }
                if let Err(error) = handle.show_other(tools) {
                    handle.show_problem(error.to_string());
                }
                handle.sleep(LOOK);
            }
            Err(error) => {
                // Its memory may differ from the store, which the next driver reads back.
                driver = None;
                observer.failed(stream, &error);
                handle.show_problem(error.to_string());
                handle.sleep(backoff);
                backoff = (backoff * 2).min(BACKOFF.1);
            }
        }
    }
    if let Some(driver) = driver
        && let Err(error) = driver.release_lease()
    {
        tracing::warn!(stream, %error, "the lease could not be released");
    }
}

/// Opens the driver if necessary, and does what is due. Returns when to come back.
fn run_once(
    handle: &StreamHandle,
    tools: &Tools,
    driver: &mut Option<Driver>,
    random: &mut Option<SystemRandom>,
    clock: BootClock,
    observer: &dyn Observer,
) -> Result<u64, DriveError> {
    let stream = &*handle.name;
    let random = match random {
        Some(random) => random,
        None => random.insert(SystemRandom::new()?),
    };
    let moment = || Now { wall: now(), steady: Some(clock.read().steady) };
    if handle.reopen.swap(false, Ordering::AcqRel) {
        *driver = None;
    }
    let driver = match driver {
        Some(driver) => driver,
        None => {
            let opened = Driver::open(stream, moment(), handle.buffer.clone(), tools.clone())?;
            handle.update(|view| {
                view.declaration = Arc::new(opened.declaration().clone());
                false
            });
            driver.insert(opened)
        }
    };
    let report = driver.run_due(moment(), random)?;
    report.events.iter().for_each(|event| observer.driver_event(stream, event));
    handle.show_driver(driver, tools)?;
    Ok(report.wake)
}
