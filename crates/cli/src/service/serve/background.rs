//! [`Background`]: a service on a thread of this process, for `tidegate demo`.

use std::thread;

use tokio::sync::oneshot;

use super::{Part, Prepared};
use crate::failure::Failure;
use crate::service::config::Config;

/// A service on a thread of its own; it stops when this is dropped.
#[derive(Debug)]
pub(crate) struct Background {
    pub(crate) url: String,
    stop: Option<oneshot::Sender<()>>,
    thread: Option<thread::JoinHandle<Result<(), Failure>>>,
}

impl Background {
    /// Starts the service.
    pub(crate) fn start(config: &Config) -> Result<Self, Failure> {
        let prepared = Prepared::new(config, Part::Everything)?;
        let url = prepared.url().unwrap_or_default();
        let (stop, stopped) = oneshot::channel();
        let thread = thread::Builder::new().name("tidegate http".to_owned()).spawn(move || {
            // A dropped sender stops the service, too.
            prepared.serve(async move { stopped.await.unwrap_or_default() })
        });
        Ok(Self { url, stop: Some(stop), thread: Some(thread.map_err(Failure::run)?) })
    }

    /// Stops the service after the requests in progress.
    pub(crate) fn stop(mut self) -> Result<(), Failure> {
        self.end()
    }

    fn end(&mut self) -> Result<(), Failure> {
        if let Some(stop) = self.stop.take() {
            // A service that has ended by itself has no receiver.
            let _ = stop.send(());
        }
        let Some(thread) = self.thread.take() else { return Ok(()) };
        thread.join().unwrap_or_else(|_| Err(Failure::run("the service stopped short")))
    }
}

impl Drop for Background {
    fn drop(&mut self) {
        // The caller is reporting another failure already.
        let _ = self.end();
    }
}
