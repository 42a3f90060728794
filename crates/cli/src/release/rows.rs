//! What is released at once.

use std::sync::Arc;

use tidegate::release::Release as Published;

/// What one line of input has released, and what else is said about that.
#[derive(Debug, Default)]
pub(super) struct Released {
    pub(super) releases: Vec<Published>,
    /// Whose they are, where each user has a stream.
    pub(super) user: Option<Arc<str>>,
    /// How many users there are, where that is public.
    pub(super) population: Option<u64>,
}
