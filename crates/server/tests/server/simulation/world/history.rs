//! A client that sends the history of a stream, tick by tick, until it hears how each ended.

use std::sync::mpsc::{Receiver, TryRecvError};

use tidegate_server::ingest::{CuratorEvent, EventRejection};
use tidegate_server::stream::Declaration;

use super::{Base, World};

#[derive(Debug, Default)]
pub(super) struct History {
    next: u64,
    sent: Option<Receiver<Result<(), EventRejection>>>,
}

impl<B: Base> World<B> {
    /// Sends the next tick, or hears how the last one ended.
    pub(super) fn send_history(&mut self) {
        if !self.declarations.iter().any(|one| one.name == "past") || self.calm {
            return;
        }
        if let Some(sent) = self.history.sent.take() {
            match sent.try_recv() {
                Ok(Ok(())) => {
                    self.happens("a tick of the history is released");
                    self.history.next += 1;
                }
                Ok(Err(EventRejection::Past { first })) => self.history.next = self.history.next.max(first),
                Ok(Err(_)) | Err(TryRecvError::Disconnected) => {}
                // Now and then it gives up, though the process may still release the tick.
                Err(TryRecvError::Empty) if self.dice.chance(1, 8) => self.happens("a client gives up"),
                Err(TryRecvError::Empty) => self.history.sent = Some(sent),
            }
            return;
        }
        let process = self.dice.index(self.processes.len());
        let user = |_| {
            let value = ["a", "b", "c"][self.dice.index(3)].to_owned();
            CuratorEvent { user: Some(format!("user {}", self.dice.below(30))), value }
        };
        let events = (0..3).map(user).collect();
        if let Ok(process) = &self.processes[process]
            && let Some(buffer) = &process.streams["past"].turn.buffer
        {
            self.history.sent = buffer.offer_past(self.history.next, events).ok();
        }
    }

    /// Ends the history.
    pub(super) fn go_live(&mut self) {
        for declaration in self.declarations.iter().filter(|one| one.backfill) {
            let live = Declaration { backfill: false, ..declaration.clone() };
            let text = serde_json::to_string(&live).unwrap();
            let store = self.shared.store();
            let earlier = store.stream(&live.name).unwrap().declaration;
            store.redeclare(&live.name, &earlier, &text).unwrap();
        }
    }
}
