//! `lending_club` and `lending_club_2018`: loans that Lending Club gave out in the United States, by amount, monthly.
//!
//! `lending_club` is the download of accepted loans, `accepted_2007_to_2018Q4.csv` or `.csv.gz` (Kaggle,
//! `wordsforthewise/lending-club`), where the folder holds it; otherwise `accepted_2007_2018_sample.csv`, 3000 lines of
//! it drawn at random by others. Of its fields, `issue_d` (`Dec-2015`) and `loan_amnt` are used. Lines without either,
//! in which the download gives totals, are left out.
//!
//! `lending_club_2018` is `creditmodel_2018_31766.csv.gz`, after the R package creditmodel: 31,766 loans of the twelve
//! months of 2018, with `issue_d` (`2018-01-01`) and `funded_amnt_inv`.
//!
//! Each loan acts as a user of its month. The value is the amount in steps of $25, rounded down: 0 to 1600, for no loan
//! is above $40,000. Months without a loan are left out; the sample has 116. MTSP-LDP has 138 months, 61,992 users and
//! 1719 values, and does not say how they come about.

use std::collections::BTreeMap;
use std::path::Path;

use tidegate_table::{Format, TableError, TableLine, TableReader};

use super::DatasetError;
use super::files::{first_of, open_data};
use crate::stream::CountStream;

const STEP: f64 = 25.0;
const HIGHEST: f64 = 40_000.0;
const VALUES: usize = 1_601;

pub(super) const STANDS_IN_FOR: &str = "MTSP-LDP's loan stream (138 months, 61,992 users): 3000 loans drawn at \
                                        random, 116 months; the whole download is used where the folder holds it";
pub(super) const YEAR_STANDS_IN_FOR: &str =
    "MTSP-LDP's loan stream (138 months, 61,992 users): the twelve months of 2018";

pub(super) fn load(folder: &Path) -> Result<CountStream, DatasetError> {
    if let Some(whole) = first_of(folder, &["accepted_2007_to_2018Q4.csv", "accepted_2007_to_2018Q4.csv.gz"]) {
        return read("lending_club", &whole, "loan_amnt");
    }
    let sample = read("lending_club", &folder.join("accepted_2007_2018_sample.csv"), "loan_amnt")?;
    Ok(sample.standing_in_for(STANDS_IN_FOR))
}

pub(super) fn load_2018(folder: &Path) -> Result<CountStream, DatasetError> {
    let year = read("lending_club_2018", &folder.join("creditmodel_2018_31766.csv.gz"), "funded_amnt_inv")?;
    Ok(year.standing_in_for(YEAR_STANDS_IN_FOR))
}

fn read(name: &str, path: &Path, amount_field: &str) -> Result<CountStream, DatasetError> {
    let file = path.display().to_string();
    let mut table = TableReader::new(&file, open_data(path)?, Format::Csv)?;
    let (issued, amount) = (table.field(&["issue_d"])?, table.field(&[amount_field])?);
    let mut months: BTreeMap<(u32, u32), Vec<u64>> = BTreeMap::new();
    while let Some(line) = table.next_line()? {
        if line.text(issued).is_empty() && line.text(amount).is_empty() {
            continue;
        }
        let month = month(line.text(issued));
        let month = month.ok_or_else(|| line.bad_field(issued, "a month: Dec-2015 or 2015-12-01"))?;
        let value = value(&line, amount)?;
        months.entry(month).or_insert_with(|| vec![0; VALUES])[value] += 1;
    }
    let labels = (0..VALUES).map(|step| format!("${}", step * 25)).collect();
    let stream = CountStream::new(name, labels, months.into_values().collect());
    stream.map_err(|source| DatasetError::Stream { file, source })
}

fn value(line: &TableLine<'_>, amount: usize) -> Result<usize, TableError> {
    const EXPECTED: &str = "an amount of dollars, 0 to 40000";
    let dollars = line.finite(amount, EXPECTED)?;
    if !(0.0..=HIGHEST).contains(&dollars) {
        return Err(line.bad_field(amount, EXPECTED));
    }
    #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)] // 0 to 1600
    let step = (dollars / STEP) as usize;
    Ok(step)
}

/// Year and month of `Dec-2015` or `2015-12-01`.
fn month(text: &str) -> Option<(u32, u32)> {
    const NAMES: [&str; 12] = ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"];
    let (first, rest) = text.split_once('-')?;
    if let Some(month) = (1..).zip(NAMES).find_map(|(month, name)| (name == first).then_some(month)) {
        return Some((rest.parse().ok()?, month));
    }
    let month = rest.strip_suffix("-01")?.parse().ok().filter(|month| (1..=12).contains(month))?;
    Some((first.parse().ok()?, month))
}
