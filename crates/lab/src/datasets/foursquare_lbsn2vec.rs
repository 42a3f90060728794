//! `foursquare_lbsn2vec` (also `foursquare`): check-ins of Foursquare users in Kuala Lumpur, Jakarta, São Paulo and New
//! York from April 2012, as released with LBSN2Vec.
//!
//! The folder holds `checkins_4cities.csv.gz`: city, user, week, hour of the week (1 to 168, from Monday), venue and
//! category of 1,260,764 check-ins by 20,159 users.
//!
//! The stream has a timestamp a day, and 447 of them, as the papers' have. A user's value is the category of the last
//! check-in so far (1 to 521), or 0 before the first: so every user holds a value at every timestamp, as in LDP-IDS,
//! and the domain has 522 values, which is of the size of MTSP-LDP's 415 cities. LDP-IDS has 77 countries and 265,149
//! users, MTSP-LDP 266,909 users.
//!
//! What is wrong with the data: the source keeps only the hour of the week, so the week was counted afterwards from the
//! order of the lines. It is right to about two weeks, and days of different cities may be as far apart.

use std::path::Path;

use tidegate_table::{Format, TableReader};

use super::DatasetError;
use super::files::open_data;
use super::last_known::{NOT_SEEN, Sighting, counts};
use crate::stream::CountStream;

const CATEGORIES: u32 = 521;
const WEEKS: u32 = 1_000;
const DAYS: usize = 447;

pub(super) const STANDS_IN_FOR: &str = "the papers' Foursquare stream (world-wide, 77 countries or 415 cities, some \
                                        266,000 users): four cities, 522 categories of the last check-in, 20,159 \
                                        users; weeks are right to about two";

pub(super) fn load(folder: &Path) -> Result<CountStream, DatasetError> {
    let path = folder.join("checkins_4cities.csv.gz");
    let file = path.display().to_string();
    let mut table = TableReader::new(&file, open_data(&path)?, Format::Csv)?;
    table.expect_header(&["city", "user", "week", "hour_of_week", "venue", "category"])?;
    let mut sightings = Vec::new();
    while let Some(line) = table.next_line()? {
        let user = line.number(1, "the number of a user")?;
        let week = line.between(2, 0, WEEKS, "a week: 0 to 1000")?;
        let hour = line.between(3, 1, 168, "an hour of the week: 1 to 168")? - 1;
        let value = line.between(5, 1, CATEGORIES, "a category: 1 to 521")?;
        sightings.push(Sighting { slot: week * 7 + hour / 24, moment: hour, user, value });
    }
    let category = |number: u32| format!("category {number}");
    let labels: Vec<_> = std::iter::once(NOT_SEEN.to_owned()).chain((1..=CATEGORIES).map(category)).collect();
    let rows = counts(sightings, labels.len(), DAYS);
    let stream = CountStream::new("foursquare_lbsn2vec", labels, rows);
    Ok(stream.map_err(|source| DatasetError::Stream { file, source })?.standing_in_for(STANDS_IN_FOR))
}
