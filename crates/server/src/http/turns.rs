//! [`Turns`]: how many costly requests of each caller run at once.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError, Weak};

use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use super::rate::Caller;

/// Turns of callers. Requests of one caller wait for each other, and not for those of another.
#[derive(Debug)]
pub(super) struct Turns {
    each: usize,
    callers: Mutex<HashMap<Caller, Weak<Semaphore>>>,
}

impl Turns {
    /// Gives each caller so many turns at once.
    pub(super) fn new(each: usize) -> Self {
        Self { each: each.max(1), callers: Mutex::default() }
    }

    /// Waits for a turn of a caller, which lasts until it is dropped.
    pub(super) async fn wait(&self, caller: Caller) -> Option<OwnedSemaphorePermit> {
        let turns = {
            let mut callers = self.callers.lock().unwrap_or_else(PoisonError::into_inner);
            match callers.get(&caller).and_then(Weak::upgrade) {
                Some(turns) => turns,
                None => {
                    // There are at most as many callers as connections.
                    callers.retain(|_, turns| turns.strong_count() > 0);
                    let turns = Arc::new(Semaphore::new(self.each));
                    callers.insert(caller, Arc::downgrade(&turns));
                    turns
                }
            }
        };
        // The semaphore is never closed.
        turns.acquire_owned().await.ok()
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use std::time::Duration;

    use tokio::time::timeout;

    use super::*;

    #[tokio::test]
    async fn callers_wait_for_themselves_only() {
        let turns = Turns::new(2);
        let soon = |caller| timeout(Duration::from_millis(50), turns.wait(Caller::Network(caller)));
        let (first, second) = (soon(1).await.unwrap(), soon(1).await.unwrap());
        assert!(soon(1).await.is_err(), "a third turn");
        let other = soon(2).await.unwrap();
        drop(first);
        assert!(soon(1).await.is_ok());
        drop((second, other));
        soon(3).await.unwrap();
        assert_eq!(turns.callers.lock().unwrap().len(), 1, "callers that are gone take no room");
    }
}
