//! The header of a table: the only line of it that `tidegate new` looks at.

use tidegate::spec::{InputSpec, ValuesSpec};
use tidegate_table::{Format, Reading};

use crate::failure::{Failure, complain};
use crate::input::Input;
use crate::release::TableFormat;

/// Parts of names by which columns are recognised.
const TIMES: [&str; 5] = ["time", "date", "day", "ts", "when"];
const USERS: [&str; 6] = ["user", "uid", "customer", "person", "member", "device"];

/// Names of a table's columns.
pub(super) struct Header {
    file: String,
    names: Vec<String>,
}

impl Header {
    /// Reads the first line of a table; a header is no data, and a line that looks like data is rejected unseen.
    pub(super) fn read(file: &str, input: &InputSpec) -> Result<Self, Failure> {
        let format = TableFormat::of(file);
        let Input { name, source } = format.open(file)?;
        let reading = Reading::of(input).map_err(Failure::input)?;
        let table = reading.open(&name, source, format.text()).map_err(Failure::input)?;
        let names: Vec<String> = table.header().map(str::to_owned).collect();
        let is_data = |name: &String| name.trim().is_empty() || name.starts_with(|first: char| first.is_ascii_digit());
        if format.text() == Format::Csv && names.iter().any(is_data) {
            let why = "it looks like data, not like names of columns: say --no-header, and name columns by number";
            return Err(Failure::input(format_args!("{name}, line 1: {why}")));
        }
        complain("note", format_args!("of {name}, only the names of its columns were read"));
        Ok(Self { file: name, names })
    }

    /// Names the columns that the options leave open, where the header leaves no doubt.
    pub(super) fn complete(&self, input: &mut InputSpec, has_user: bool, has_value: bool) -> Result<(), Failure> {
        let columns = &mut input.columns;
        for (given, option) in [(&columns.time, "--time"), (&columns.user, "--user"), (&columns.value, "--value")] {
            if let Some(given) = given
                && !self.names.contains(given)
            {
                return Err(self.problem(format_args!("it has no column {given:?}, which {option} names")));
            }
        }
        if columns.time.is_none() {
            columns.time = Some(self.find("t", &TIMES, &[], "the times: --time NAME")?);
        }
        let mut taken: Vec<String> = columns.time.iter().chain(&columns.value).cloned().collect();
        if has_user && columns.user.is_none() {
            columns.user = Some(self.find("user", &USERS, &taken, "the users: --user NAME")?);
        }
        taken.extend(columns.user.clone());
        if has_value && columns.value.is_none() {
            columns.value = Some(self.find("value", &[], &taken, "the values: --value NAME")?);
        }
        Ok(())
    }

    /// The values of a table of counts: the columns but that of the times, which must be those that were given.
    pub(super) fn values(&self, input: &InputSpec, given: Option<&ValuesSpec>) -> Result<ValuesSpec, Failure> {
        let names = || self.names.iter().filter(|name| Some(*name) != input.columns.time.as_ref());
        let spec = ValuesSpec::Names(names().map(|name| name.trim().to_owned()).collect());
        let values = spec.values().map_err(|error| self.problem(format_args!("as columns of counts: {error}")))?;
        let has = |name: &str| names().any(|column| column.trim() == name);
        if has("value") && (has("user") || values.count() == 1) {
            let row = if has("user") { "user" } else { "number" };
            return Err(
                self.problem(format_args!("counts have a column for each value; for this table say --row {row}"))
            );
        }
        let Some(given) = given else {
            let is_user = |name: &&String| USERS.iter().any(|part| name.to_lowercase().contains(part));
            return match names().find(is_user) {
                Some(name) => Err(self.problem(format_args!(
                    "{name:?} looks like a column of users: say --row user, or name the values with --domain NAME,.. \
                     if it is one"
                ))),
                None => Ok(spec),
            };
        };
        let domain = given.values().map_err(Failure::run)?;
        let lacks = (0..domain.count()).map(|value| domain.name(value)).find(|name| values.find(name).is_none());
        let extra = (0..values.count()).map(|value| values.name(value)).find(|name| domain.find(name).is_none());
        match (lacks, extra) {
            (None, None) => Ok(given.clone()),
            (Some(name), _) => Err(self.problem(format_args!("it has no column for the value {name:?} of --domain"))),
            (None, Some(name)) => Err(self.problem(format_args!(
                "--domain lacks the column {name:?}: counts have the time and a column for each value, and no others"
            ))),
        }
    }

    /// The column of this name, or else the only one that is free and has a telling name, or is the only one left.
    fn find(&self, usual: &str, parts: &[&str], taken: &[String], option: &str) -> Result<String, Failure> {
        let free: Vec<&String> = self.names.iter().filter(|name| !taken.contains(name)).collect();
        if let Some(name) = free.iter().find(|name| name.as_str() == usual) {
            return Ok((*name).clone());
        }
        let tells = |name: &&&String| parts.iter().any(|part| name.to_lowercase().contains(part));
        let telling: Vec<_> = free.iter().filter(tells).collect();
        match (&telling[..], &free[..]) {
            ([one], _) => Ok((**one).clone()),
            ([], [one]) => Ok((*one).clone()),
            _ => Err(self.problem(format_args!("say which column has {option}"))),
        }
    }

    fn problem(&self, problem: impl std::fmt::Display) -> Failure {
        let Self { file, names } = self;
        Failure::input(format_args!("{file}, line 1: {problem}; its columns: {}", names.join(", ")))
    }
}
