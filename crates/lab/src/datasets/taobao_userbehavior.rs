//! `taobao_userbehavior` and `taobao_userbehavior_minutes`: what users of the shop Taobao looked at, put into the cart,
//! liked or bought, by category (Tianchi, data set 649, UserBehavior).
//!
//! `taobao_userbehavior` is the download, `UserBehavior.csv` or `.csv.gz`, where the folder holds it; otherwise
//! `taobao_9days_815users.csv.gz`, all that 815 of its users did. `taobao_userbehavior_minutes` is
//! `taobao_130min_66454users.csv.gz`, what 66,454 users did within 131 minutes. Fields are user, item, category,
//! behaviour (`pv`, `cart`, `fav` or `buy`) and the time in seconds since 1970; the download has no header, the
//! excerpts have one. Lines may come in any order.
//!
//! A user's value is the category of what they did last so far, or 0 before the first. Categories are put into 117
//! groups, as many as LDP-IDS has, which does not say which: here, by the remainder of the category's number (groups
//! 1 to 117), for a choice of the most frequent ones would be taken from the data. The stream has 432 timestamps of
//! ten minutes in the three days from 2017-11-25 (China time), as the paper's has, or 131 of one minute on 2017-11-26
//! from 9:00. Its users are those who did anything in that time. The paper has clicks on advertisements (Tianchi,
//! data set 56) by 1,023,154 users.

use std::path::Path;

use tidegate_table::TableReader;

use super::DatasetError;
use super::files::{first_of, open_data};
use super::last_known::{NOT_SEEN, Sighting, counts};
use crate::stream::CountStream;

const FIELDS: [&str; 5] = ["user", "item", "category", "behavior", "ts"];
const GROUPS: u32 = 117;

/// A span of time, divided into slots.
struct Span {
    /// In seconds since 1970.
    from: u64,
    slot_seconds: u64,
    slots: u64,
}

/// Three days from 2017-11-25 00:00 in China.
const DAYS: Span = Span { from: 1_511_539_200, slot_seconds: 600, slots: 432 };
/// From 2017-11-26 09:00 in China.
const MINUTES: Span = Span { from: 1_511_658_000, slot_seconds: 60, slots: 131 };

pub(super) const STANDS_IN_FOR: &str = "LDP-IDS's Taobao stream (clicks on advertisements, 1,023,154 users): all that \
                                        766 users did in another shop log of the site; the whole download is used \
                                        where the folder holds it";
pub(super) const MINUTES_STAND_IN_FOR: &str = "LDP-IDS's Taobao stream (clicks on advertisements, 1,023,154 users, \
                                               three days): what 66,454 users did in 131 minutes";
const WHOLE_STANDS_IN_FOR: &str =
    "LDP-IDS's Taobao stream (clicks on advertisements, 1,023,154 users): what users did in another log of the site";

pub(super) fn load(folder: &Path) -> Result<CountStream, DatasetError> {
    if let Some(whole) = first_of(folder, &["UserBehavior.csv", "UserBehavior.csv.gz"]) {
        return Ok(read("taobao_userbehavior", &whole, &DAYS)?.standing_in_for(WHOLE_STANDS_IN_FOR));
    }
    let excerpt = folder.join("taobao_9days_815users.csv.gz");
    Ok(read("taobao_userbehavior", &excerpt, &DAYS)?.standing_in_for(STANDS_IN_FOR))
}

pub(super) fn load_minutes(folder: &Path) -> Result<CountStream, DatasetError> {
    let excerpt = folder.join("taobao_130min_66454users.csv.gz");
    Ok(read("taobao_userbehavior_minutes", &excerpt, &MINUTES)?.standing_in_for(MINUTES_STAND_IN_FOR))
}

fn read(name: &str, path: &Path, span: &Span) -> Result<CountStream, DatasetError> {
    let file = path.display().to_string();
    let mut table = TableReader::without_header(&file, open_data(path)?, &FIELDS);
    let mut sightings = Vec::new();
    let mut is_first = true;
    while let Some(line) = table.next_line()? {
        if std::mem::take(&mut is_first) && line.text(0) == FIELDS[0] {
            continue;
        }
        let user = line.number(0, "the number of a user")?;
        let category: u32 = line.number(2, "the number of a category")?;
        if !["pv", "cart", "fav", "buy"].contains(&line.text(3)) {
            return Err(line.bad_field(3, "pv, cart, fav or buy").into());
        }
        // Some clocks were wrong, even before 1970; whatever is not of these days is left out.
        let seconds: i64 = line.number(4, "a time in seconds since 1970")?;
        let Some(since) = u64::try_from(seconds).ok().and_then(|seconds| seconds.checked_sub(span.from)) else {
            continue;
        };
        let slot = since / span.slot_seconds;
        if slot < span.slots {
            let (slot, moment) = (u32::try_from(slot).unwrap_or(u32::MAX), u32::try_from(since).unwrap_or(u32::MAX));
            sightings.push(Sighting { slot, moment, user, value: 1 + category % GROUPS });
        }
    }
    let group = |number: u32| format!("group {number}");
    let labels: Vec<_> = std::iter::once(NOT_SEEN.to_owned()).chain((1..=GROUPS).map(group)).collect();
    let rows = counts(sightings, labels.len(), usize::MAX);
    CountStream::new(name, labels, rows).map_err(|source| DatasetError::Stream { file, source })
}
