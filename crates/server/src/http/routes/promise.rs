//! Route for what a stream promises, and for its budget: what was published tells both.

use std::collections::VecDeque;

use axum::extract::State;
use axum::{Extension, Json};
use serde::{Deserialize, Serialize};
use serde_json::{Value as JsonValue, json};
use tidegate::kernel::primitives::Neighbours;
use tidegate::kernel::{Epsilon, SLOTS, Window};
use tidegate::mechanisms::Family;
use tidegate::release::Spent;
use tidegate::spec::{ProtectsSpec, StreamSpec, Trust};
use tidegate::stream::Budget;

use super::records::{MAX_NUMBERS, MAX_RECORDS, NUMBER, domain_of, unreadable};
use crate::http::App;
use crate::http::auth::Role;
use crate::http::middleware::Identity;
use crate::http::problem::{Answer, Problem};
use crate::http::request::{Name, Params, Shared};
use crate::http::route::{Route, object, parameter};
use crate::service::Overview;
use crate::store::{Record, RecordFilter, RecordKind};
use crate::stream::Declaration;

/// Most timestamps of a history, and as many as are returned unless told otherwise.
const LIMITS: (usize, usize) = (1_000, 100);

/// Most timestamps that are foretold.
const MOST_NEXT: u64 = 100;

pub(super) fn routes() -> Vec<Route> {
    let last = json!({ "type": "integer", "minimum": 1, "maximum": LIMITS.0, "default": LIMITS.1 });
    vec![
        Route::get("/v1/streams/{stream}/promise", "promise", "What a stream promises, and its budget", promise)
            .role(Role::Analyst)
            .parameters([parameter("last", "How many timestamps of the budget's history.", last)])
            .granted(200, object("Promise"))
            .refused(&[400, 404, 503]),
    ]
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Page {
    last: Option<usize>,
}

/// Guarantee of a class, or of all users.
#[derive(Debug, Serialize)]
struct Guarantee {
    class: Option<String>,
    epsilon: Epsilon,
    /// In timestamps; null for all of time.
    window: Option<u64>,
    seconds: Option<u64>,
}

/// Budget of a class, or of all users: shares of the window's.
#[derive(Debug, PartialEq, Serialize)]
struct Account {
    class: Option<String>,
    history: Vec<Entry>,
    next: Vec<Left>,
    /// Whether the whole window before the first entry was read.
    complete: bool,
}

#[derive(Debug, PartialEq, Serialize)]
struct Entry {
    timestamp: u64,
    spent: f64,
    left: f64,
}

#[derive(Debug, PartialEq, Serialize)]
struct Left {
    timestamp: u64,
    left: f64,
}

/// How the budget is shared among timestamps.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
enum Division {
    /// Timestamps of a window share each user's budget.
    Budget,
    /// Timestamps of a window share the users, who spend all of it when they are asked.
    Population,
    /// Each timestamp has its own.
    Timestamp,
    /// Each device has its own.
    Device,
}

impl Division {
    fn of(spec: &StreamSpec, budgets: &[Budget]) -> Self {
        match spec.family() {
            Family::Scalar => Self::Timestamp,
            Family::Sequence => Self::Device,
            _ if budgets.iter().any(|budget| budget.slots_left.is_some()) => Self::Population,
            _ => Self::Budget,
        }
    }
}

/// Who is protected from what, in words for programs.
fn relation(spec: &StreamSpec) -> (&'static str, &'static str, Option<f64>) {
    match spec {
        StreamSpec::Central(spec) => match spec.neighbours.unwrap_or(Neighbours::AddRemove) {
            Neighbours::AddRemove => ("user", "add_or_remove_one_user", None),
            Neighbours::Replace => ("user", "replace_one_users_value", None),
        },
        StreamSpec::Scalar(spec) => match spec.protects {
            ProtectsSpec::Reading => ("reading", "one_reading", None),
            ProtectsSpec::Contributor(most) => ("contribution", "one_contribution", Some(most.to_f64())),
        },
        StreamSpec::Sequence(_) => ("symbol", "one_symbol", None),
        _ => ("user", "window_of_one_user", None),
    }
}

const fn length(window: Window) -> Option<u64> {
    match window {
        Window::Timestamps(window) => Some(window.get()),
        Window::Unbounded => None,
    }
}

/// Spends of a release, of everyone or of a class, as a share of the window's budget.
fn share(spent: &Spent, class: Option<u32>, division: Division, epsilon: Epsilon) -> f64 {
    let of_epsilon = |amount: Epsilon| amount.as_f64() / epsilon.as_f64();
    match (spent, class) {
        (Spent::Nothing, _) => 0.0,
        (Spent::Slots { count, .. }, _) => f64::from(*count) / f64::from(SLOTS),
        (Spent::Everyone(_), _) if division == Division::Population => 1.0,
        (Spent::Everyone(amount), _) => of_epsilon(*amount),
        (Spent::Classes(spends), class) => {
            let own = spends.iter().find(|spend| Some(spend.class) == class);
            own.map_or(0.0, |spend| of_epsilon(spend.epsilon))
        }
    }
}

/// Returns the timestamp from which on the releases of all timestamps are among these records: zero where there is
/// none before them. The retention deletes the oldest ones, and a restored backup leaves out numbers.
fn known_since(records: &[Record]) -> Option<u64> {
    let follows = |pair: &[Record]| pair[1].number == pair[0].number + 1;
    let begins = records.windows(2).rposition(|pair| !follows(pair)).map_or(0, |place| place + 1);
    let first = records.get(begins)?;
    Some(if first.number == 1 { 0 } else { first.timestamp })
}

/// Whether all releases of the window that ends with a timestamp are known.
fn is_complete(known_since: u64, timestamp: u64, window: Option<u64>) -> bool {
    known_since == 0 || window.is_some_and(|window| timestamp.saturating_sub(known_since) >= window - 1)
}

/// Adds up the spends of windows, of which there is one entry for each release in the order of time. `last` is how many
/// of the latest are returned.
fn account(spends: &[(u64, f64)], window: Option<u64>, last: usize, complete: bool) -> Account {
    let is_over = |at: u64, timestamp: u64| window.is_some_and(|window| timestamp.saturating_sub(at) >= window);
    let mut within: VecDeque<(u64, f64)> = VecDeque::new();
    let left =
        |within: &VecDeque<(u64, f64)>| (1.0 - within.iter().map(|(_, spent)| spent).sum::<f64>()).clamp(0.0, 1.0);
    let mut history = Vec::with_capacity(spends.len());
    for &(timestamp, spent) in spends {
        within.push_back((timestamp, spent));
        while within.front().is_some_and(|(at, _)| is_over(*at, timestamp)) {
            within.pop_front();
        }
        history.push(Entry { timestamp, spent, left: left(&within) });
    }
    let first = spends.last().map_or(0, |(timestamp, _)| timestamp.saturating_add(1));
    let ahead = window.unwrap_or(1).min(MOST_NEXT);
    let next = (first..first.saturating_add(ahead)).map(|timestamp| {
        while within.front().is_some_and(|(at, _)| is_over(*at, timestamp)) {
            within.pop_front();
        }
        Left { timestamp, left: left(&within) }
    });
    let next = next.collect();
    history.drain(..history.len().saturating_sub(last));
    Account { class: None, history, next, complete }
}

async fn promise(
    State(app): Shared,
    Extension(identity): Extension<Identity>,
    Name(name): Name,
    Params(page): Params<Page>,
) -> Answer<Json<JsonValue>> {
    let (most, usual) = LIMITS;
    let last = page.last.unwrap_or(usual);
    if !(1..=most).contains(&last) {
        return Err(Problem::bad("parameter", format!("last: 1 to {most}")));
    }
    let Overview { declaration, published, .. } = app.overview(&name)?;
    let domain = domain_of(&declaration)?.max(1);
    // The whole window before the first entry, as far as an answer may read.
    let window = length(declaration.spec.window()).unwrap_or(u64::MAX);
    let wanted = usize::try_from(window).unwrap_or(usize::MAX).saturating_add(last);
    let limit = wanted.min(MAX_RECORDS).min((MAX_NUMBERS / domain).max(1));
    let memory = app.memory(&identity, limit * domain * NUMBER)?;
    let made = app.blocking(move |app| {
        let made = promised(app, &declaration, limit, last, published == 0);
        drop(memory);
        made
    });
    Ok(Json(made.await??))
}

/// The payers of a release as it is stored.
#[derive(Deserialize)]
struct Stored {
    spent: Spent,
}

fn promised(app: &App, declaration: &Declaration, limit: usize, last: usize, is_new: bool) -> Answer<JsonValue> {
    let (name, spec) = (&declaration.name, &declaration.spec);
    let budgets = declaration.new_stream().map_err(unreadable)?.budgets(0);
    let division = Division::of(spec, &budgets);
    let seconds = |window: Window| length(window).map(|window| window.saturating_mul(declaration.tick.get()));
    let guarantee = |budget: &Budget| Guarantee {
        class: budget.class.clone(),
        epsilon: budget.epsilon,
        window: length(budget.window),
        seconds: seconds(budget.window),
    };
    let mut guarantees: Vec<Guarantee> = budgets.iter().map(guarantee).collect();
    if let (true, StreamSpec::Sequence(spec)) = (guarantees.is_empty(), spec) {
        let (epsilon, window) = (spec.epsilon, Window::EVENT);
        guarantees.push(Guarantee { class: None, epsilon, window: length(window), seconds: seconds(window) });
    }
    let mut accounts = Vec::new();
    if matches!(division, Division::Budget | Division::Population) {
        let after = app.latest(name, RecordKind::Release, limit as u64)?;
        let filter = RecordFilter { after, limit, ..RecordFilter::default() };
        let records = app.records(name, RecordKind::Release, &filter)?;
        let read = |record: &Record| {
            serde_json::from_str::<Stored>(&record.body).map(|stored| (record.timestamp, stored.spent))
        };
        let spends: Vec<(u64, Spent)> = records.iter().map(read).collect::<Result<_, _>>().map_err(unreadable)?;
        let shown = spends.get(spends.len().saturating_sub(last)).map(|(timestamp, _)| *timestamp);
        let since = known_since(&records);
        for (class, budget) in (0..).zip(&budgets) {
            let class = budget.class.as_ref().map(|_| class);
            let spent = spends.iter().map(|(at, spent)| (*at, share(spent, class, division, budget.epsilon)));
            let window = length(budget.window);
            let complete = match since.zip(shown) {
                Some((since, shown)) => is_complete(since, shown, window),
                None => is_new,
            };
            let account = account(&spent.collect::<Vec<_>>(), window, last, complete);
            accounts.push(Account { class: budget.class.clone(), ..account });
        }
    }
    let (unit, relation, contribution) = relation(spec);
    let mut promise = json!({
        "stream": name, "family": spec.family().name(), "mechanism": spec.mechanism().short_name,
        "trust": trust(spec), "unit": unit, "relation": relation, "division": division,
        "guarantees": guarantees, "budget": accounts,
    });
    if let Some(contribution) = contribution {
        promise["contribution"] = contribution.into();
    }
    Ok(promise)
}

fn trust(spec: &StreamSpec) -> Trust {
    match spec.family() {
        Family::Local | Family::Sequence => Trust::Device,
        Family::Central | Family::Scalar => Trust::Curator,
    }
}

/// Schema of this route.
pub(in crate::http) fn schemas() -> JsonValue {
    let whole = json!({ "type": ["integer", "null"] });
    json!({
        "Promise": {
            "type": "object",
            "required": [
                "stream", "family", "mechanism", "trust", "unit", "relation", "division", "guarantees", "budget",
            ],
            "properties": {
                "stream": { "type": "string" },
                "family": { "type": "string" },
                "mechanism": { "type": "string" },
                "trust": { "enum": ["device", "curator"] },
                "unit": { "enum": ["user", "reading", "contribution", "symbol"] },
                "relation": { "enum": [
                    "window_of_one_user", "add_or_remove_one_user", "replace_one_users_value", "one_reading",
                    "one_contribution", "one_symbol",
                ] },
                "contribution": { "description": "Most by which one changes a reading.", "type": "number" },
                "division": { "enum": ["budget", "population", "timestamp", "device"] },
                "guarantees": { "type": "array", "items": {
                    "type": "object", "required": ["class", "epsilon", "window", "seconds"],
                    "properties": {
                        "class": { "type": ["string", "null"] }, "epsilon": { "type": "string" },
                        "window": whole, "seconds": whole,
                    },
                } },
                "budget": {
                    "description": "Shares of a window's budget, by what was published; empty where nothing is shared.",
                    "type": "array", "items": {
                        "type": "object", "required": ["class", "history", "next", "complete"],
                        "properties": {
                            "class": { "type": ["string", "null"] }, "history": { "type": "array" },
                            "next": { "type": "array" }, "complete": { "type": "boolean" },
                        },
                    },
                },
            },
        },
    })
}

#[cfg(test)]
mod tests {
    #![allow(clippy::float_cmp)]

    use super::*;

    fn lefts(account: &Account) -> (Vec<f64>, Vec<f64>) {
        (account.history.iter().map(|entry| entry.left).collect(), account.next.iter().map(|left| left.left).collect())
    }

    #[test]
    fn spends_leave_the_window_after_its_length() {
        let spends = [(4, 0.5), (5, 0.25), (6, 0.0), (7, 0.5)];
        let window_of_3 = account(&spends, Some(3), 4, true);
        assert_eq!(lefts(&window_of_3), (vec![0.5, 0.25, 0.25, 0.25], vec![0.5, 0.5, 1.0]));
        assert_eq!(window_of_3.next[0].timestamp, 8);
        // Nothing comes back without a window.
        assert_eq!(lefts(&account(&spends, None, 2, true)), (vec![0.25, 0.0], vec![0.0]));
        assert_eq!(account(&[], Some(2), 3, true).next[0], Left { timestamp: 0, left: 1.0 });
    }

    #[test]
    fn deleted_releases_leave_a_window_incomplete() {
        let record = |number, timestamp| Record { number, version: 1, timestamp, body: String::new() };
        let records = |first: u64| (first..first + 10).map(|number| record(number, number + 4)).collect::<Vec<_>>();
        let since = |records: &[Record]| known_since(records).unwrap_or(u64::MAX);
        // Nothing was deleted, whatever the first timestamp.
        assert_eq!(since(&records(1)), 0);
        assert!(is_complete(0, 6, Some(100)) && is_complete(0, 6, None));
        // The releases of timestamps up to 94 were.
        assert_eq!(since(&records(91)), 95);
        let complete = |timestamp, window| is_complete(95, timestamp, window);
        assert!(!complete(104, Some(100)) && !complete(104, None) && !complete(103, Some(10)));
        assert!(complete(104, Some(10)) && complete(95, Some(1)));
        // A restored backup lacks those that were published after it.
        let restored = [records(1), records(1 << 20)].concat();
        assert_eq!(since(&restored), (1 << 20) + 4);
        assert_eq!(known_since(&[]), None);
    }

    #[test]
    fn shares_are_of_the_epsilon_or_of_the_population() {
        let epsilon = |text: &str| text.parse::<Epsilon>().unwrap_or(Epsilon::MIN);
        let one = epsilon("1");
        let slots = Spent::Slots { first: 0, count: SLOTS / 4, epsilon: one };
        assert_eq!(share(&slots, None, Division::Population, one), 0.25);
        assert_eq!(share(&Spent::Everyone(epsilon("0.5")), None, Division::Budget, one), 0.5);
        let classes = Spent::by_class([(1, epsilon("0.5"))]);
        let of = |class| share(&classes, Some(class), Division::Budget, epsilon("2"));
        assert_eq!((of(0), of(1), share(&Spent::Nothing, None, Division::Budget, one)), (0.0, 0.25, 0.0));
    }
}
