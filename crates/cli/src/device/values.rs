//! The source of a device's value: fixed, or read line by line.

use std::collections::BTreeMap;
use std::fs;
use std::io::{BufRead, BufReader, Read};
use std::process;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;

use serde::Deserialize;
use tidegate::spec::{DomainSpec, ValuesSpec};

use crate::failure::Failure;
use crate::input::Input;

/// Longest line, in bytes; a longer one is split.
const LONGEST_LINE: u64 = 1_024;

/// A line that is not a value. Its content is private, so it is not stored.
#[derive(Debug, PartialEq, Eq)]
struct Unreadable;

/// The names of a stream's values, as the collector tells them, or the range of its numbers; neither where values are
/// numbered.
#[derive(Debug, Default, Deserialize)]
pub(crate) struct Names {
    names: Option<Vec<String>>,
    #[serde(default)]
    numbers: Option<DomainSpec>,
}

impl Names {
    /// Returns the value of a name or of a number; of a range of numbers, the nearest point of its grid.
    pub(crate) fn find(&self, text: &str) -> Option<u32> {
        if let Some(numbers) = self.numbers {
            return ValuesSpec::Numbers(numbers).values_or_numbers().ok()?.find(text);
        }
        let named = self.names.as_deref().unwrap_or_default().iter().position(|name| name == text);
        named.and_then(|place| u32::try_from(place).ok()).or_else(|| text.parse().ok())
    }

    /// Describes the values of a domain of this size.
    pub(crate) fn describe(&self, domain: u32) -> String {
        if let Some(DomainSpec { low, high, .. }) = &self.numbers {
            return format!("the stream has numbers from {low} to {high}");
        }
        match &self.names {
            Some(names) => format!("the stream has the values {}", names.join(", ")),
            None => format!("the stream has the values 0 to {}", domain.saturating_sub(1)),
        }
    }
}

/// The source of a device's value.
#[derive(Debug)]
pub(crate) enum Values {
    Fixed(u32),
    /// Values read so far.
    Read(Arc<Mutex<Known>>),
}

/// Values that were read.
#[derive(Debug, Default)]
pub(crate) struct Known {
    /// Values by their first timestamp.
    stamped: BTreeMap<u64, u32>,
    /// The latest value without a timestamp.
    latest: Option<u32>,
    names: Names,
}

impl Known {
    /// Parses a line: `VALUE`, `T,VALUE` or a header.
    fn take(&mut self, line: &str) -> Result<(), Unreadable> {
        let line = line.trim();
        if line.is_empty() || ["value", "t,value"].contains(&line) {
            return Ok(());
        }
        match line.split_once(',') {
            None => self.latest = Some(self.names.find(line).ok_or(Unreadable)?),
            Some((timestamp, value)) => {
                let timestamp = timestamp.trim().parse().map_err(|_| Unreadable)?;
                self.stamped.insert(timestamp, self.names.find(value.trim()).ok_or(Unreadable)?);
            }
        }
        Ok(())
    }

    /// Returns the value at a timestamp, and forgets earlier ones.
    fn at(&mut self, timestamp: u64) -> Option<u32> {
        let from = self.stamped.range(..=timestamp).next_back().map(|(from, _)| *from);
        if let Some(from) = from {
            self.stamped = self.stamped.split_off(&from);
        }
        from.and_then(|from| self.stamped.get(&from).copied()).or(self.latest)
    }
}

impl Values {
    /// Reads a file at once; reads any other source, such as standard input, in the background.
    pub(crate) fn read(name: &str, names: Names) -> Result<Self, Failure> {
        let known = Arc::new(Mutex::new(Known { names, ..Known::default() }));
        let is_pipe = name == "-" || fs::metadata(name).is_ok_and(|found| !found.is_file() && !found.is_dir());
        if is_pipe {
            let (name, known) = (name.to_owned(), Arc::clone(&known));
            thread::spawn(move || {
                if let Err(failure) = read_all(&name, &known) {
                    // Continuing would report wrong values. The state on disk is always consistent.
                    process::exit(failure.complain().into());
                }
            });
        } else {
            read_all(name, &known)?;
        }
        Ok(Self::Read(known))
    }

    /// Returns the value at a timestamp; `None` if there is none yet.
    pub(crate) fn at(&self, timestamp: u64) -> Option<u32> {
        match self {
            Self::Fixed(value) => Some(*value),
            Self::Read(known) => lock(known).at(timestamp),
        }
    }
}

fn lock(known: &Mutex<Known>) -> MutexGuard<'_, Known> {
    known.lock().unwrap_or_else(PoisonError::into_inner)
}

fn read_all(name: &str, known: &Mutex<Known>) -> Result<(), Failure> {
    let Input { name, source } = Input::open(name)?;
    let mut source = BufReader::new(source);
    let mut line = String::new();
    for number in 1.. {
        line.clear();
        let read = source.by_ref().take(LONGEST_LINE).read_line(&mut line);
        let read = read.map_err(|error| Failure::input(format_args!("{name} cannot be read: {error}")))?;
        if read == 0 {
            break;
        }
        lock(known).take(&line).map_err(|Unreadable| {
            Failure::input(format_args!(
                "{name}, line {number}: expected VALUE, or T,VALUE: a value of the domain, by name or number, and a \
                 timestamp"
            ))
        })?;
    }
    Ok(())
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn a_value_counts_until_the_next_and_stamped_ones_from_their_time_on() {
        let mut known = Known::default();
        assert_eq!(known.at(5), None);
        for line in ["t,value\n", "10,1\n", "\n", " 20 , 2 \r\n", "7\n"] {
            assert_eq!(known.take(line), Ok(()), "{line:?}");
        }
        assert_eq!([9, 10, 19, 20, 99].map(|timestamp| known.at(timestamp)), [7, 1, 1, 2, 2].map(Some));
        assert_eq!(known.take("30,3"), Ok(()));
        assert_eq!([29, 30].map(|timestamp| known.at(timestamp)), [2, 3].map(Some));
        let names = Names { names: Some(vec!["home".to_owned(), "shop".to_owned()]), numbers: None };
        let mut named = Known { names, ..Known::default() };
        for line in ["shop\n", "20,home\n"] {
            assert_eq!(named.take(line), Ok(()), "{line:?}");
        }
        assert_eq!([9, 20].map(|timestamp| named.at(timestamp)), [1, 0].map(Some));
        assert_eq!(named.take("elsewhere"), Err(Unreadable));
        let numbers: Names = serde_json::from_str(r#"{"numbers":{"low":-1,"high":2,"resolution":0.5}}"#).unwrap();
        assert_eq!(["-1", "0.2", "0.3", "7"].map(|text| numbers.find(text)), [0, 2, 3, 6].map(Some));
        assert_eq!(numbers.find("warm"), None);
        assert_eq!(numbers.describe(7), "the stream has numbers from -1 to 2");
        for line in ["x", "1,", ",1", "1,2,3", "-1", "1.5", "99999999999", "t,value,x"] {
            assert_eq!(known.take(line), Err(Unreadable), "{line:?}");
        }
    }
}
