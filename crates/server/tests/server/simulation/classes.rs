//! [`Wishes`]: what an outsider knows about the classes of a stream's users, and what that allows to be counted.
//!
//! Each user holds a value of its own, and budgets are so large that there is practically no noise. So a fresh release
//! shows who was counted.

use std::collections::BTreeMap;

use tidegate::release::{Freshness, Release};

/// Users of the stream with classes; user 3 always holds value 3.
pub(super) const USERS: u64 = 4;

/// Windows of its classes.
pub(super) const WINDOWS: [u64; 2] = [3, 2];

/// A curated stream with classes.
pub(super) const PBD: &str = r#"{ "family": "central", "mechanism": "pbd", "estimator": "stratified", "domain": 4,
    "classes": [{ "name": "0", "epsilon": 1000, "window": 3 }, { "name": "1", "epsilon": 1000, "window": 2 }] }"#;

/// A wish: its first timestamp, and what is known about the class.
#[derive(Debug)]
struct Wish {
    from: u64,
    /// Acknowledged class, or `None` where the outcome is unknown.
    class: Option<Option<u16>>,
}

#[derive(Debug, Default)]
struct User {
    wishes: Vec<Wish>,
    /// Timestamps at which the user was counted, and the class, where it is known.
    counted: BTreeMap<u64, Option<u16>>,
    /// Timestamps with an accepted event.
    events: Vec<u64>,
}

impl User {
    /// Returns what is known about the wish for a timestamp.
    fn wish(&self, timestamp: u64) -> Option<&Wish> {
        self.wishes.iter().rev().find(|wish| wish.from <= timestamp)
    }
}

/// Knowledge about all users of a stream.
#[derive(Debug, Default)]
pub(super) struct Wishes(BTreeMap<u64, User>);

impl Wishes {
    /// A wish was acknowledged for timestamps from one on, or its outcome is unknown.
    pub(super) fn wished(&mut self, user: u64, from: u64, class: Option<Option<u16>>) {
        self.0.entry(user).or_default().wishes.push(Wish { from, class });
    }

    /// An event of a user was accepted.
    pub(super) fn accepted(&mut self, user: u64, timestamp: u64) {
        self.0.entry(user).or_default().events.push(timestamp);
    }

    /// The store may have forgotten wishes.
    pub(super) fn restored(&mut self) {
        for user in self.0.values_mut() {
            user.wishes.push(Wish { from: 0, class: None });
        }
    }

    /// Checks who was counted in a release.
    pub(super) fn check(&mut self, release: &Release, body: &str) -> Result<(), String> {
        if release.freshness != Freshness::Fresh {
            return Ok(());
        }
        let body: serde_json::Value = serde_json::from_str(body).unwrap();
        let counts = body["statistic"]["counts"]["counts"].as_array().unwrap();
        let timestamp = release.timestamp;
        for (number, count) in (0..).zip(counts) {
            let user = self.0.entry(number).or_default();
            let is_counted = count.as_f64().unwrap() > 0.5;
            match (user.wish(timestamp), is_counted) {
                (None, true) => return Err(format!("user {number} counts at {timestamp}, and was never registered")),
                (Some(Wish { class: Some(None), .. }), true) => {
                    return Err(format!("user {number} counts at {timestamp} after leaving"));
                }
                (Some(Wish { class: Some(Some(class)), .. }), false) => {
                    // One who has never moved counts.
                    if user.wishes.len() == 1 && user.events.contains(&timestamp) {
                        return Err(format!("user {number} of class {class} does not count at {timestamp}"));
                    }
                }
                (Some(Wish { class: Some(Some(class)), .. }), true) => {
                    let window = |class: u16| WINDOWS[usize::from(class)];
                    let clashes = |(before, other): (&u64, &Option<u16>)| {
                        other.is_some_and(|other| {
                            other != *class && timestamp - before < window(other).max(window(*class))
                        })
                    };
                    if let Some((before, _)) = user.counted.range(..timestamp).find(|counted| clashes(*counted)) {
                        return Err(format!(
                            "user {number} counts in class {class} at {timestamp}, and in another at {before}"
                        ));
                    }
                    let class = Some(*class);
                    user.counted.insert(timestamp, class);
                }
                (Some(Wish { class: None, .. }), true) => {
                    user.counted.insert(timestamp, None);
                }
                (_, false) => {}
            }
        }
        Ok(())
    }
}
