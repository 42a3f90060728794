//! What is published, as it is published: server-sent events.
//!
//! The feed is read from the store, at the pace of whoever reads it, so that a slow reader takes no memory. Where it
//! has come to is in each event's id; who sends that as `Last-Event-ID` goes on from there, and misses nothing.

use std::collections::VecDeque;
use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use axum::extract::State;
use axum::http::HeaderMap;
use axum::response::sse::{Event, KeepAlive, Sse};
use axum::response::{IntoResponse, Response};
use futures_util::stream::unfold;
use serde::Deserialize;
use tokio::sync::{OwnedSemaphorePermit, watch};

use super::App;
use super::api::{Analyst, May, Name, Params, Shared, record_text};
use super::problem::Problem;
use super::webhook::is_of_monitor;
use crate::service::Change;
use crate::store::{Record, RecordFilter, RecordKind};

/// How many records are read at once.
const PAGE: usize = 16;

/// How long nothing may be sent.
const HEARTBEAT: Duration = Duration::from_secs(15);

/// Where a reader is: after which release, and after which answer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Place {
    release: u64,
    answer: u64,
}

impl Place {
    fn read(id: &str) -> Option<Self> {
        let number = |text: &str| text.parse().ok().filter(|number| *number <= i64::MAX.unsigned_abs());
        let (release, answer) = id.split_once('-')?;
        Some(Self { release: number(release)?, answer: number(answer)? })
    }

    fn id(self) -> String {
        format!("{}-{}", self.release, self.answer)
    }
}

/// Where a feed begins, without a place to go on from.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Begin {
    /// With all that was published, unless it is `now`.
    since: Option<Since>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
enum Since {
    Beginning,
    Now,
}

pub(super) async fn feed(
    _: May<Analyst>,
    State(app): Shared,
    Name(name): Name,
    Params(begin): Params<Begin>,
    headers: HeaderMap,
) -> Result<Response, Problem> {
    let changes = app.service.changes(&name).ok_or_else(Problem::no_stream)?;
    let wrong = || Problem::bad("last_event_id", "Last-Event-ID: expected the id of an event of this feed");
    let place = match headers.get("last-event-id") {
        Some(id) => Some(id.to_str().ok().and_then(Place::read).ok_or_else(wrong)?),
        None => None,
    };
    let permit = app.place(true)?;
    let place = match place {
        Some(place) => place,
        None if begin.since == Some(Since::Now) => {
            let stream = name.clone();
            let latest = app.blocking(move |app| {
                let release = app.latest(&stream, RecordKind::Release)?;
                Ok::<_, Problem>(Place { release, answer: app.latest(&stream, RecordKind::Answer)? })
            });
            latest.await??
        }
        None => Place::default(),
    };
    let reader =
        Reader { stopping: app.stopping.clone(), app, name, changes, place, ready: VecDeque::new(), _permit: permit };
    let events = unfold(reader, |mut reader| async move {
        let event = reader.next().await?;
        Some((Ok::<_, Infallible>(event), reader))
    });
    Ok(Sse::new(events).keep_alive(KeepAlive::new().interval(HEARTBEAT).text("still here")).into_response())
}

struct Reader {
    app: Arc<App>,
    name: String,
    changes: watch::Receiver<Change>,
    stopping: watch::Receiver<bool>,
    place: Place,
    ready: VecDeque<(RecordKind, Record)>,
    _permit: OwnedSemaphorePermit,
}

impl Reader {
    /// The next event; `None` at the end, which comes when the service stops or its store fails.
    async fn next(&mut self) -> Option<Event> {
        loop {
            if let Some((records, record)) = self.ready.pop_front() {
                match records {
                    RecordKind::Release => self.place.release = record.number,
                    RecordKind::Answer => self.place.answer = record.number,
                }
                return Some(self.event(records, &record));
            }
            if *self.stopping.borrow() {
                return None;
            }
            self.changes.borrow_and_update();
            self.read().await?;
            if self.ready.is_empty() {
                tokio::select! {
                    changed = self.changes.changed() => changed.ok()?,
                    _ = self.stopping.changed() => {}
                }
            }
        }
    }

    fn event(&self, records: RecordKind, record: &Record) -> Event {
        let (kind, text) = match records {
            RecordKind::Release => ("release", record_text("release", record)),
            RecordKind::Answer if is_of_monitor(record) => ("monitor", record_text("answer", record)),
            RecordKind::Answer => ("answer", record_text("answer", record)),
        };
        Event::default().event(kind).id(self.place.id()).data(text)
    }

    /// Reads what comes next, in the order in which it was published: of each version, releases first.
    async fn read(&mut self) -> Option<()> {
        let (name, place) = (self.name.clone(), self.place);
        let both = self.app.blocking(move |app| {
            let of = |records, after| {
                app.records(&name, records, &RecordFilter { after, limit: PAGE, ..RecordFilter::default() })
            };
            Ok::<_, Problem>((of(RecordKind::Release, place.release)?, of(RecordKind::Answer, place.answer)?))
        });
        let (releases, said) = both.await.ok()?.ok()?;
        // Of a version of which not all was read, the rest comes next time.
        let whole = |records: &[Record]| match records.last() {
            Some(last) if records.len() == PAGE => last.version,
            _ => u64::MAX,
        };
        let until = whole(&releases).min(whole(&said));
        let mut both: Vec<_> = releases.into_iter().map(|record| (RecordKind::Release, record)).collect();
        both.extend(said.into_iter().map(|record| (RecordKind::Answer, record)));
        both.retain(|(_, record)| record.version <= until);
        both.sort_by_key(|(records, record)| (record.version, *records == RecordKind::Answer, record.number));
        self.ready = both.into();
        Some(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_place_is_read_back_and_nothing_else_is() {
        let place = Place { release: 12, answer: 0 };
        assert_eq!(Place::read(&place.id()), Some(place));
        for wrong in ["", "12", "12-", "-1-2", "a-b", "1-2-3", "18446744073709551615-0"] {
            assert_eq!(Place::read(wrong), None, "{wrong}");
        }
    }
}
