//! Route for a query of an analyst, answered from standing queries that are kept in memory.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use axum::Json;
use axum::extract::{Request, State};
use axum::http::StatusCode;
use serde_json::{Map, Value as JsonValue};
use tidegate::post_processing::{Refinement, Repair};
use tidegate::release::Release;
use tidegate::spec::{QuerySpec, StandingQueries, StreamSpec, Values};

use super::records::{MAX_RECORDS, NUMBER, domain_of, unreadable};
use crate::http::App;
use crate::http::auth::Role;
use crate::http::middleware::Identity;
use crate::http::problem::{Answer, Problem};
use crate::http::request::{Name, SMALL, Shared, expect_json};
use crate::http::route::{Route, object};
use crate::store::{Record, RecordFilter, RecordKind};
use crate::stream::Declaration;

pub(super) fn routes() -> Vec<Route> {
    vec![
        Route::post(
            "/v1/streams/{stream}/query",
            "query",
            "Answers a question about published releases, with an interval. It costs no budget",
            query,
        )
        .role(Role::Analyst)
        .body(object("Query"))
        .granted(200, object("Answer"))
        .refused(&[400, 404, 408, 409, 413, 415, 503]),
    ]
}

/// Most numbers that a query sums, about.
const MAX_NUMBERS: usize = 2_000_000;

async fn query(State(app): Shared, Name(name): Name, request: Request) -> Answer<Json<JsonValue>> {
    expect_json(request.headers())?;
    let identity = request.extensions().get::<Identity>().cloned();
    let mut declaration = app.overview(&name)?.declaration;
    let body = app.body(request, SMALL).await?;
    let wrong = |message: String| Problem::bad("query", message);
    let mut asked: Map<String, JsonValue> =
        serde_json::from_slice(body.as_ref()).map_err(|error| wrong(format!("expected an object: {error}")))?;
    let at = match asked.remove("at") {
        None | Some(JsonValue::Null) => None,
        Some(at) => Some(at.as_u64().ok_or_else(|| wrong("at: expected a timestamp".to_owned()))?),
    };
    let repair: Option<Repair> = asked
        .remove("repair")
        .map(serde_json::from_value)
        .transpose()
        .map_err(|_| wrong(format!("repair: expected one of {}", Repair::ALL.map(Repair::name).join(", "))))?;
    let own = declaration.spec.refinement().map_err(|error| wrong(error.to_string()))?;
    let refinement = Refinement::of_query(&own, repair.unwrap_or(Repair::None), false);
    let refinement = refinement.map_err(|error| wrong(error.to_string()))?;
    asked.entry("name").or_insert_with(|| "query".into());
    let asked: QuerySpec = serde_json::from_value(JsonValue::Object(asked))
        .map_err(|error| wrong(tidegate::spec::plain_words(&error.to_string())))?;
    let period = asked.delta.unwrap_or(1).max(1);
    let domain = domain_of(&declaration)?.max(1);
    let most = (MAX_NUMBERS / domain).clamp(1, MAX_RECORDS);
    let period = usize::try_from(period)
        .ok()
        .filter(|period| *period <= most)
        .ok_or_else(|| wrong(format!("delta: at most {most} timestamps of this stream are summed here")))?;
    let text = serde_json::to_string(&(&asked, refinement.repair())).map_err(unreadable)?;
    match &mut declaration.spec {
        StreamSpec::Local(spec) => (spec.queries, spec.monitors) = (vec![asked], Vec::new()),
        StreamSpec::Central(spec) => (spec.queries, spec.monitors) = (vec![asked], Vec::new()),
        StreamSpec::Sequence(_) => {
            let message = "released symbols are counted, which is no estimate: read the releases of this stream";
            return Err(Problem::conflict("no_estimate", message));
        }
        _ => return Err(Problem::conflict("no_values", "a stream of numbers has no values to ask about")),
    }
    let (key, period, numbers) = ((name, text), period as u64, period * domain);
    let question = Question { key, declaration, refinement, period, numbers };
    let memory = identity.map(|identity| app.memory(&identity, numbers * NUMBER)).transpose()?;
    let answer = app.blocking(move |app| {
        let answer = question.answer(app, at);
        drop(memory);
        answer
    });
    answer.await?.map(Json)
}

/// A query, as the only one of a declaration.
struct Question {
    /// Stream and query, which identify the question: the values and the window of a stream never change.
    key: (String, String),
    declaration: Declaration,
    /// Repair of the releases, one by one.
    refinement: Refinement,
    /// Timestamps that it sums.
    period: u64,
    /// Numbers that its history keeps.
    numbers: usize,
}

impl Question {
    /// Answers about the period that ends at a timestamp, or at the last release. Blocks.
    fn answer(&self, app: &App, at: Option<u64>) -> Answer<JsonValue> {
        let answer = match at {
            None => {
                let kept = self.kept_in(&app.queries)?;
                let mut kept = kept.lock().unwrap_or_else(PoisonError::into_inner);
                // After an error the next request starts anew.
                let progress = self.catch_up(app, kept.take())?;
                kept.insert(progress).answer.clone()
            }
            Some(at) => self.replay(app, at)?,
        };
        answer.ok_or_else(not_released)
    }

    /// Returns its progress in memory. An invalid question is refused before it takes a place there.
    fn kept_in(&self, cache: &QueryCache) -> Answer<SharedProgress> {
        if !cache.contains(&self.key) {
            self.start(0)?;
        }
        Ok(cache.entry(&self.key, self.numbers))
    }

    /// Starts after a release, of this number.
    fn start(&self, number: u64) -> Answer<Progress> {
        let queries = self.declaration.standing_queries();
        let queries = queries.map_err(|error| Problem::bad("query", error.to_string()))?.ok_or_else(not_released)?;
        Ok(Progress { queries, number, timestamp: None, answer: None })
    }

    /// Adds the releases that have come since the last time.
    fn catch_up(&self, app: &App, before: Option<Progress>) -> Answer<Progress> {
        let latest = app.latest(&self.key.0, RecordKind::Release, 0)?;
        let before = match before {
            Some(before) if before.number == latest => return Ok(before),
            before => before,
        };
        // Far behind, or ahead of a restored store: start with the last period.
        let first = app.latest(&self.key.0, RecordKind::Release, self.period)?;
        let mut progress = match before.filter(|before| (first..=latest).contains(&before.number)) {
            Some(progress) => progress,
            None => self.start(first)?,
        };
        if progress.number < latest {
            let filter = RecordFilter { after: progress.number, limit: MAX_RECORDS, ..RecordFilter::default() };
            self.push(&mut progress, &app.records(&self.key.0, RecordKind::Release, &filter)?)?;
        }
        Ok(progress)
    }

    /// Answers about an earlier period from its releases.
    fn replay(&self, app: &App, at: u64) -> Answer<Option<JsonValue>> {
        let mut progress = self.start(0)?;
        if at > i64::MAX.unsigned_abs() {
            return Ok(None);
        }
        let from = at.saturating_sub(self.period - 1);
        let filter = RecordFilter { from, to: at, limit: MAX_RECORDS, ..RecordFilter::default() };
        self.push(&mut progress, &app.records(&self.key.0, RecordKind::Release, &filter)?)?;
        Ok(progress.answer.filter(|_| progress.timestamp == Some(at)))
    }

    fn push(&self, progress: &mut Progress, records: &[Record]) -> Answer<()> {
        let (population, values): (_, Values) = match &self.declaration.spec {
            StreamSpec::Local(spec) => (spec.population(), spec.values().map_err(unreadable)?),
            StreamSpec::Central(spec) => (None, spec.values().map_err(unreadable)?),
            _ => return Ok(()),
        };
        let mut refinement = self.refinement.clone();
        for record in records {
            let release: Release = serde_json::from_str(&record.body).map_err(unreadable)?;
            let release = refinement.push(release);
            let replies = progress.queries.push(&release, population);
            let replies = replies.map_err(|error| Problem::bad("query", error.to_string()))?;
            let line = replies.first().map(|reply| serde_json::to_value(reply.line(release.timestamp, &values)));
            progress.answer = line.transpose().map_err(unreadable)?;
            (progress.number, progress.timestamp) = (record.number, Some(release.timestamp));
        }
        Ok(())
    }
}

fn not_released() -> Problem {
    Problem::new(StatusCode::NOT_FOUND, "not_released", "the period was not released, or not all of it")
}

/// Standing queries after some releases.
#[derive(Debug)]
struct Progress {
    queries: StandingQueries,
    /// Number and timestamp of the last release.
    number: u64,
    timestamp: Option<u64>,
    /// Answer about the period that ends there; `None` where not all of it was released.
    answer: Option<JsonValue>,
}

/// Progress of a question that several requests share; `None` before the first.
type SharedProgress = Arc<Mutex<Option<Progress>>>;

/// Most questions in memory.
const MAX_QUESTIONS: usize = 256;

/// Most numbers in memory, of all questions together: some 32 bytes each.
const MAX_KEPT: usize = MAX_NUMBERS;

/// Progress of the questions that were asked most recently. The least recently used one is dropped first.
#[derive(Debug, Default)]
pub(in crate::http) struct QueryCache(Mutex<Entries>);

#[derive(Debug, Default)]
struct Entries {
    by_key: HashMap<(String, String), Entry>,
    numbers: usize,
    uses: u64,
}

#[derive(Debug)]
struct Entry {
    progress: SharedProgress,
    numbers: usize,
    used: u64,
}

impl QueryCache {
    fn contains(&self, key: &(String, String)) -> bool {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).by_key.contains_key(key)
    }

    /// Returns the progress of a question that keeps so many numbers.
    fn entry(&self, key: &(String, String), numbers: usize) -> SharedProgress {
        let mut entries = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        entries.uses += 1;
        let used = entries.uses;
        if let Some(entry) = entries.by_key.get_mut(key) {
            entry.used = used;
            return Arc::clone(&entry.progress);
        }
        while !entries.by_key.is_empty()
            && (entries.by_key.len() >= MAX_QUESTIONS || entries.numbers + numbers > MAX_KEPT)
        {
            let oldest = entries.by_key.iter().min_by_key(|(_, entry)| entry.used).map(|(key, _)| key.clone());
            let Some(dropped) = oldest.and_then(|oldest| entries.by_key.remove(&oldest)) else { break };
            entries.numbers -= dropped.numbers;
        }
        let progress = SharedProgress::default();
        entries.numbers += numbers;
        entries.by_key.insert(key.clone(), Entry { progress: Arc::clone(&progress), numbers, used });
        progress
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    fn key(number: usize) -> (String, String) {
        ("visits".to_owned(), number.to_string())
    }

    #[test]
    fn drops_the_least_recently_used_question() {
        let cache = QueryCache::default();
        let first = cache.entry(&key(0), 1);
        for number in 1..=MAX_QUESTIONS {
            cache.entry(&key(number), 1);
            assert!(Arc::ptr_eq(&cache.entry(&key(0), 1), &first), "it is used again and again");
        }
        let entries = cache.0.lock().unwrap();
        assert_eq!((entries.by_key.len(), entries.numbers), (MAX_QUESTIONS, MAX_QUESTIONS));
        assert!(!entries.by_key.contains_key(&key(1)));
    }

    /// Otherwise long names would fill the memory that the cache is to bound.
    #[test]
    fn an_invalid_question_takes_no_place() {
        let question = |name: &str| {
            let declaration = serde_json::json!({ "name": "rooms", "tick": 1, "spec": {
                "mechanism": "uniform", "epsilon": 1, "window": 2, "domain": ["in", "out"],
                "queries": [{ "name": name, "value": "in" }],
            } });
            let declaration: Declaration = serde_json::from_value(declaration).unwrap();
            let (key, refinement) = (("rooms".to_owned(), name.to_owned()), Refinement::new(Repair::None, false));
            Question { key, declaration, refinement, period: 1, numbers: 2 }
        };
        let cache = QueryCache::default();
        assert!(question(&"x".repeat(201)).kept_in(&cache).is_err());
        assert_eq!(cache.0.lock().unwrap().by_key.len(), 0);
        assert!(question(&"x".repeat(200)).kept_in(&cache).is_ok());
        assert_eq!(cache.0.lock().unwrap().by_key.len(), 1);
    }

    #[test]
    fn bounds_the_numbers_in_memory() {
        let cache = QueryCache::default();
        for number in 0..10 {
            cache.entry(&key(number), MAX_KEPT / 3);
        }
        let entries = cache.0.lock().unwrap();
        assert_eq!((entries.by_key.len(), entries.numbers), (3, MAX_KEPT / 3 * 3));
    }
}
