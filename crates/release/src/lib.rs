//! A run: a table passes through the streams of a spec, and their state is kept.
//!
//! The command and the Python package share this crate, so that both release the same for the same seed.
//!
//! | module | content |
//! | --- | --- |
//! | [`spec`], [`toml_file`] | spec files; errors name the line and the key |
//! | [`entries`] | rows of a table as entries of a stream |
//! | [`gate`] | passes entries to the streams, and their releases to a sink |
//! | [`timeline`] | timestamps that are released even if nobody is present |
//! | [`state`] | state files, which keep shared budgets across runs |
//! | [`model_file`] | models of sequences in files of their own |
//! | [`channel`] | the channel of a prior or of a model, as a matrix |
//! | [`fit`] | models of sequences, learned from a table |
//! | [`truth`] | the true numbers behind releases, for charts |
//! | [`warnings`] | warnings that the command and the laboratory share |
//! | [`files`] | paths, and files that only their owner may read |

pub mod channel;
pub mod entries;
mod error;
pub mod files;
pub mod fit;
pub mod gate;
pub mod model_file;
pub mod spec;
pub mod state;
pub mod timeline;
pub mod toml_file;
pub mod truth;
pub mod warnings;

pub use error::Error;

use std::io::Read;

use tidegate::series::Series;
use tidegate::spec::{SpecError, StreamSpec};
use tidegate::stream::StreamError;
use tidegate_table::{Reading, TableReader, long};

/// Returns how the table of a spec is read.
///
/// # Errors
/// [`SpecError::Input`].
pub fn reading(spec: &StreamSpec) -> Result<Reading, SpecError> {
    let input = spec.input();
    let refused = |problem| SpecError::Input { key: "origin", problem };
    let mut reading = Reading::of(input).map_err(refused)?;
    let has_timeline = spec.timeline().is_some();
    if input.every.is_some() && input.origin.is_none() && has_timeline && !spec.declares_timeline() {
        let from_now = "every timestamp from 0 on is released, because presence is protected: say where timestamp 0 \
                        begins, as in origin = \"2026-01-01\" in the spec or --origin 2026-01-01";
        return Err(refused(from_now.to_owned()));
    }
    // A timeline bounds the gaps, and its step says how far timestamps are apart.
    if spec.shares_timestamps() && !has_timeline {
        reading.clock.refuse_seconds();
    }
    Ok(reading)
}

/// Checks that there is a table of users where each class has a guarantee of its own, and none elsewhere.
///
/// # Errors
/// [`Error::Argument`].
pub fn check_users(series: &Series, given: bool) -> Result<(), Error> {
    let has_classes = series.streams().first().is_some_and(|stream| stream.classes().is_some());
    let problem = match (has_classes, given) {
        (false, true) => "--users is for mechanisms in which each class has a guarantee of its own",
        (true, false) => "each class has a guarantee of its own: --users must name a table with the fields user,class",
        _ => return Ok(()),
    };
    Err(Error::Argument(problem.to_owned()))
}

/// Enrols the users of a table with the fields user and class; all others have left.
///
/// # Errors
/// [`Error::Data`] for a user that cannot be enrolled.
pub fn enrol<R: Read>(series: &mut Series, users: TableReader<R>) -> Result<(), Error> {
    let mut there = Vec::new();
    long::read_users(users, "class", |user, class| {
        there.push(user.to_owned());
        series.enrol(user, class).map_err(|error| match error {
            StreamError::Entry { expected, .. } => expected.into(),
            other => other.to_string().into(),
        })
    })?;
    series.keep_only(&there.iter().map(String::as_str).collect()).map_err(state::misfit)
}
