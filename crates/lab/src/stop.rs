//! [`Stop`]: a request to stop long work.

use std::sync::atomic::{AtomicBool, Ordering};

/// A request to stop long work, which another thread makes. Work looks at it before each run of a mechanism.
#[derive(Debug, Default)]
pub struct Stop(AtomicBool);

/// Never made.
static NEVER: Stop = Stop::new();

impl Stop {
    /// A request that is not made yet.
    pub const fn new() -> Self {
        Self(AtomicBool::new(false))
    }

    /// A request that nobody makes.
    pub fn never() -> &'static Self {
        &NEVER
    }

    /// Makes the request.
    pub fn set(&self) {
        self.0.store(true, Ordering::Relaxed);
    }

    /// Whether it was made.
    pub fn is_set(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }
}
