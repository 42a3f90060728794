//! Processor time of the current thread.

use std::time::Duration;

/// Returns the processor time of this thread so far; `None` where the system does not tell.
#[cfg(target_os = "linux")]
pub(super) fn of_thread() -> Option<Duration> {
    use rustix::time::{ClockId, clock_gettime};

    let time = clock_gettime(ClockId::ThreadCPUTime);
    Some(Duration::new(u64::try_from(time.tv_sec).ok()?, u32::try_from(time.tv_nsec).ok()?))
}

#[cfg(not(target_os = "linux"))]
pub(super) const fn of_thread() -> Option<Duration> {
    None
}

#[cfg(all(test, target_os = "linux"))]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn sleep_takes_no_processor_time_and_work_does() {
        let before = of_thread().unwrap();
        std::thread::sleep(Duration::from_millis(100));
        let slept = of_thread().unwrap();
        assert!(slept - before < Duration::from_millis(50), "{before:?} to {slept:?}");
        let mut sum = 0_u64;
        let mut work = of_thread().unwrap();
        while work - slept < Duration::from_millis(5) {
            sum = (0..100_000).fold(sum, |sum, number| std::hint::black_box(sum.wrapping_add(number)));
            work = of_thread().unwrap();
        }
        assert!(sum > 0);
    }
}
