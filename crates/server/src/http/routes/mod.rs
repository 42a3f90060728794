//! The routes, by subject. Each file declares its routes and has their handlers.

mod advice;
mod alarms;
mod assets;
mod cluster;
mod credentials;
mod devices;
pub(super) mod events;
mod feed;
mod operations;
mod operators;
mod overview;
mod promise;
mod query;
mod records;
pub(super) mod status;
mod users;

pub(super) use credentials::MOST as MOST_CREDENTIALS;
pub(super) use query::QueryCache;
pub(super) use records::record_text;

use serde_json::Value;

use super::route::Route;

/// Returns the schemas that the files of routes declare themselves.
pub(super) fn schemas() -> Vec<Value> {
    vec![
        overview::schemas(),
        alarms::schemas(),
        promise::schemas(),
        operations::schemas(),
        cluster::schemas(),
        advice::schemas(),
    ]
}

/// Returns the declarations of all routes.
pub(super) fn all() -> Vec<Route> {
    [
        assets::routes(),
        status::routes(),
        overview::routes(),
        operators::routes(),
        devices::routes(),
        credentials::routes(),
        events::routes(),
        users::routes(),
        records::routes(),
        query::routes(),
        feed::routes(),
        alarms::routes(),
        promise::routes(),
        operations::routes(),
        cluster::routes(),
        advice::routes(),
    ]
    .into_iter()
    .flatten()
    .collect()
}
