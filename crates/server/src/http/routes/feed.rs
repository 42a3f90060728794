//! Route for the feed: server-sent events of published records.
//!
//! The feed reads from the store at the client's pace, so a slow client takes no memory. Each event's id is a position.
//! A client that sends it as `Last-Event-ID` goes on from there and misses nothing.

use std::collections::VecDeque;
use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use axum::Extension;
use axum::extract::State;
use axum::http::HeaderMap;
use axum::response::sse::{Event, KeepAlive, Sse};
use axum::response::{IntoResponse, Response};
use futures_util::stream::unfold;
use serde::Deserialize;
use serde_json::json;
use tidegate_table::time::Clock;
use tokio::sync::watch;

use super::records::record_text;
use crate::http::App;
use crate::http::auth::{Role, Tokens};
use crate::http::middleware::Identity;
use crate::http::problem::{Answer, Problem};
use crate::http::request::{Name, Params, Shared};
use crate::http::route::{Route, parameter, text};
use crate::http::shares::Share;
use crate::http::webhook::is_of_monitor;
use crate::service::Change;
use crate::store::{Record, RecordFilter, RecordKind};

/// Records of one read.
const PAGE: usize = 16;

/// Longest silence.
const HEARTBEAT: Duration = Duration::from_secs(15);

pub(super) fn routes() -> Vec<Route> {
    let since = json!({ "enum": ["beginning", "now"], "default": "beginning" });
    let last_id = json!({
        "name": "Last-Event-ID", "in": "header", "required": false,
        "description": "The id of the last event that was seen: the feed goes on after it.",
        "schema": { "type": "string", "pattern": "^[0-9]{1,18}-[0-9]{1,18}$" },
    });
    let summary = "Server-sent events: `release`, `answer` and `monitor`, as they are published";
    vec![
        Route::get("/v1/streams/{stream}/feed", "feed", summary, feed)
            .role(Role::Analyst)
            .parameters([parameter("since", "Where to begin.", since), last_id])
            .granted(200, text("text/event-stream"))
            .refused(&[400, 404, 503]),
    ]
}

/// Position in a feed: numbers of the last release and the last answer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Position {
    release: u64,
    answer: u64,
}

impl Position {
    fn read(id: &str) -> Option<Self> {
        let number = |text: &str| text.parse().ok().filter(|number| *number <= i64::MAX.unsigned_abs());
        let (release, answer) = id.split_once('-')?;
        Some(Self { release: number(release)?, answer: number(answer)? })
    }

    fn id(self) -> String {
        format!("{}-{}", self.release, self.answer)
    }
}

/// Start of a feed without a position.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct Begin {
    since: Option<Since>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
enum Since {
    Beginning,
    Now,
}

async fn feed(
    State(app): Shared,
    Name(name): Name,
    Params(begin): Params<Begin>,
    Extension(identity): Extension<Identity>,
    headers: HeaderMap,
) -> Answer<Response> {
    let changes = app.service.changes(&name).ok_or_else(Problem::no_stream)?;
    let times = app.overview(&name)?.declaration.times();
    let wrong = || Problem::bad("last_event_id", "Last-Event-ID: expected the id of an event of this feed");
    let position = match headers.get("last-event-id") {
        Some(id) => Some(id.to_str().ok().and_then(Position::read).ok_or_else(wrong)?),
        None => None,
    };
    let share = app.place(&identity, true)?;
    let position = match position {
        Some(position) => position,
        None if begin.since == Some(Since::Now) => {
            let stream = name.clone();
            let latest = app.blocking(move |app| {
                let release = app.latest(&stream, RecordKind::Release, 0)?;
                Ok::<_, Problem>(Position { release, answer: app.latest(&stream, RecordKind::Answer, 0)? })
            });
            latest.await??
        }
        None => Position::default(),
    };
    let (stopping, tokens) = (app.stopping.clone(), app.tokens.subscribe());
    let reader = Reader {
        stopping,
        app,
        name,
        times,
        changes,
        position,
        ready: VecDeque::new(),
        identity,
        tokens,
        _share: share,
    };
    let events = unfold(reader, |mut reader| async move {
        let event = reader.next().await?;
        Some((Ok::<_, Infallible>(event), reader))
    });
    Ok(Sse::new(events).keep_alive(KeepAlive::new().interval(HEARTBEAT).text("still here")).into_response())
}

struct Reader {
    app: Arc<App>,
    name: String,
    times: Clock,
    changes: watch::Receiver<Change>,
    stopping: watch::Receiver<bool>,
    position: Position,
    ready: VecDeque<(RecordKind, Record)>,
    identity: Identity,
    tokens: watch::Receiver<Arc<Tokens>>,
    _share: Share,
}

impl Reader {
    /// Returns the next event; `None` when the service stops, its store fails, or the token was withdrawn.
    async fn next(&mut self) -> Option<Event> {
        loop {
            if let Some((records, record)) = self.ready.pop_front() {
                match records {
                    RecordKind::Release => self.position.release = record.number,
                    RecordKind::Answer => self.position.answer = record.number,
                }
                return Some(self.event(records, &record));
            }
            let tokens = self.tokens.borrow_and_update().clone();
            let is_known = self.identity.token.as_ref().is_some_and(|token| tokens.contains(token));
            if *self.stopping.borrow() || !is_known {
                return None;
            }
            self.changes.borrow_and_update();
            self.read().await?;
            if self.ready.is_empty() {
                tokio::select! {
                    changed = self.changes.changed() => changed.ok()?,
                    _ = self.stopping.changed() => {}
                    _ = self.tokens.changed() => {}
                }
            }
        }
    }

    fn event(&self, records: RecordKind, record: &Record) -> Event {
        let (kind, text) = match records {
            RecordKind::Release => ("release", record_text("release", record, &self.times)),
            RecordKind::Answer if is_of_monitor(record) => ("monitor", record_text("answer", record, &self.times)),
            RecordKind::Answer => ("answer", record_text("answer", record, &self.times)),
        };
        Event::default().event(kind).id(self.position.id()).data(text)
    }

    /// Reads the next records in the order of publication: of each version, releases first.
    async fn read(&mut self) -> Option<()> {
        let (name, position) = (self.name.clone(), self.position);
        let both = self.app.blocking(move |app| {
            let of = |records, after| {
                app.records(&name, records, &RecordFilter { after, limit: PAGE, ..RecordFilter::default() })
            };
            Ok::<_, Problem>((of(RecordKind::Release, position.release)?, of(RecordKind::Answer, position.answer)?))
        });
        let (releases, said) = both.await.ok()?.ok()?;
        // A version that was not read whole waits for the next read.
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
    fn reads_back_its_own_positions_only() {
        let position = Position { release: 12, answer: 0 };
        assert_eq!(Position::read(&position.id()), Some(position));
        for wrong in ["", "12", "12-", "-1-2", "a-b", "1-2-3", "18446744073709551615-0"] {
            assert_eq!(Position::read(wrong), None, "{wrong}");
        }
    }
}
