//! The routes, by subject. Each file declares its routes and has their handlers.

mod credentials;
mod devices;
pub(super) mod events;
mod feed;
mod operators;
mod query;
mod records;
pub(super) mod status;
mod users;

pub(super) use credentials::MOST as MOST_CREDENTIALS;
pub(super) use query::QueryCache;

use super::route::Route;

/// Returns the declarations of all routes.
pub(super) fn all() -> Vec<Route> {
    [
        status::routes(),
        operators::routes(),
        devices::routes(),
        credentials::routes(),
        events::routes(),
        users::routes(),
        records::routes(),
        query::routes(),
        feed::routes(),
    ]
    .into_iter()
    .flatten()
    .collect()
}
