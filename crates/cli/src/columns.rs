//! Options that say how a table is read, in place of the spec's keys.

use std::str::FromStr;

use clap::{Args, ValueEnum};
use tidegate::spec::{Duplicates, Empty, Every, InputSpec, Separator};

/// Options of every command that reads a table of one's own. They override the spec.
#[derive(Debug, Default, Args)]
#[command(next_help_heading = "Columns and times of the table")]
pub(crate) struct TableOptions {
    /// The column of times; t unless given
    #[arg(long, value_name = "COLUMN")]
    time: Option<String>,

    /// The column of values; value unless given
    #[arg(long, value_name = "COLUMN")]
    value: Option<String>,

    /// The column of users; user unless given
    #[arg(long, value_name = "COLUMN")]
    user: Option<String>,

    /// The column of series, where the spec declares several (series_names)
    #[arg(long, value_name = "COLUMN")]
    series: Option<String>,

    /// The table has no header: columns are named by number, from 1
    #[arg(long)]
    no_header: bool,

    /// What separates the columns: a comma, a semicolon, a bar or tab; as the first line tells unless given
    #[arg(long, value_name = ",|;|tab", value_parser = Separator::from_str)]
    separator: Option<Separator>,

    /// How long a timestamp is, such as 15m, 1h, 1d, 1w or 1mo: times are then dates, date-times, or seconds or
    /// milliseconds since 1970
    #[arg(long, value_name = "LENGTH", value_parser = Every::from_str)]
    every: Option<Every>,

    /// Where timestamp 0 begins, with --every; 1970-01-01 unless given
    #[arg(long, value_name = "TIME")]
    origin: Option<String>,

    /// Which line of a user, or which number, counts if a timestamp has several; they are refused unless given
    #[arg(long, value_enum, value_name = "WHICH")]
    duplicates: Option<WhichLine>,

    /// Leave lines of users without a value out; they are refused unless given
    #[arg(long)]
    skip_empty: bool,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum WhichLine {
    First,
    Last,
    Refuse,
}

impl TableOptions {
    /// The column of series.
    pub(crate) fn series(&self) -> Option<&str> {
        self.series.as_deref()
    }

    /// The column of users.
    pub(crate) fn user(&self) -> Option<&str> {
        self.user.as_deref()
    }

    /// The column of values.
    pub(crate) fn value(&self) -> Option<&str> {
        self.value.as_deref()
    }

    /// Replaces what the options say.
    pub(crate) fn apply(&self, input: &mut InputSpec) {
        let columns = &mut input.columns;
        for (given, place) in
            [(&self.time, &mut columns.time), (&self.value, &mut columns.value), (&self.user, &mut columns.user)]
        {
            if given.is_some() {
                place.clone_from(given);
            }
        }
        if self.series.is_some() {
            input.series.clone_from(&self.series);
        }
        columns.no_header |= self.no_header;
        columns.separator = self.separator.or(columns.separator);
        if self.every.is_some() {
            input.every = self.every;
        }
        if self.origin.is_some() {
            input.origin.clone_from(&self.origin);
        }
        match self.duplicates {
            Some(WhichLine::First) => input.duplicates = Duplicates::First,
            Some(WhichLine::Last) => input.duplicates = Duplicates::Last,
            Some(WhichLine::Refuse) => input.duplicates = Duplicates::Refuse,
            None => {}
        }
        if self.skip_empty {
            input.empty = Empty::Skip;
        }
    }
}
