//! Files of the real data sets, and fields that several of them share.

use std::io::Read;
use std::path::{Path, PathBuf};

use tidegate_kernel::Grid;
use tidegate_table::{TableError, TableLine, open};

/// Opens a file of a data set. If it does not exist, opens the one with `.gz` added or removed.
pub(super) fn open_data(path: &Path) -> Result<Box<dyn Read>, TableError> {
    let name = path.as_os_str().to_string_lossy();
    let other = PathBuf::from(name.strip_suffix(".gz").map_or_else(|| format!("{name}.gz"), str::to_owned));
    if !path.is_file() && other.is_file() { open(&other) } else { open(path) }
}

/// Returns the first file that exists.
pub(super) fn first_of(folder: &Path, files: &[&str]) -> Option<PathBuf> {
    files.iter().map(|file| folder.join(file)).find(|path| path.is_file())
}

/// Whether `now` is after the last one, which it replaces. Nothing is after NaN.
pub(super) fn later<T: PartialOrd + Copy>(last: &mut Option<T>, now: T) -> bool {
    let later = last.is_none_or(|last| now > last);
    *last = Some(now);
    later
}

/// Reads the fields of a year and its week.
pub(super) fn week(line: &TableLine<'_>, year: usize, week: usize) -> Result<(u32, u32), TableError> {
    Ok((
        line.between(year, 1900, 2999, "a year: 1900 to 2999")?,
        line.between(week, 1, 53, "a week of the year: 1 to 53")?,
    ))
}

/// Reads a field within the domain of a grid.
pub(super) fn reading(line: &TableLine<'_>, field: usize, grid: &Grid) -> Result<f64, TableError> {
    let number = line.text(field).trim().parse().ok().filter(|number| grid.steps(*number).is_ok());
    let expected = || format!("a number within the domain, {}..{}", grid.low(), grid.high());
    number.ok_or_else(|| line.bad_field(field, expected()))
}
