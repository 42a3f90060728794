//! [`Users`]: users by name, and where each was seen last.

use std::collections::HashMap;
use std::sync::Arc;

/// Users of the open timestamp, and of some before it. All lines of a user share one text.
#[derive(Default)]
pub(crate) struct Users {
    numbers: HashMap<Arc<str>, usize>,
    known: Vec<Known>,
    /// Number of timestamps begun.
    turn: u64,
    /// Number of users of the open timestamp.
    present: usize,
}

struct Known {
    name: Arc<str>,
    turn: u64,
    place: usize,
}

/// A user's line.
pub(crate) struct Met<'a> {
    pub(crate) name: &'a Arc<str>,
    /// The place that the user's first line at this timestamp was given.
    pub(crate) place: usize,
    pub(crate) is_first: bool,
}

impl Users {
    /// Begins a timestamp. Users who were absent from the last one are forgotten where they are many, so that memory
    /// does not grow with time.
    pub(crate) fn begin(&mut self) {
        if self.known.len() > 4 * self.present + 1_024 {
            self.known.retain(|known| known.turn == self.turn);
            self.numbers = self.known.iter().enumerate().map(|(number, known)| (known.name.clone(), number)).collect();
        }
        self.turn += 1;
        self.present = 0;
    }

    /// Finds a user or adds one. `place` is where the line goes if it is the user's first at the timestamp.
    pub(crate) fn meet(&mut self, text: &str, place: usize) -> Met<'_> {
        let number = match self.numbers.get(text) {
            Some(number) => *number,
            None => {
                let name: Arc<str> = text.into();
                self.numbers.insert(Arc::clone(&name), self.known.len());
                self.known.push(Known { name, turn: 0, place });
                self.known.len() - 1
            }
        };
        let known = &mut self.known[number];
        let is_first = known.turn != self.turn;
        if is_first {
            (known.turn, known.place) = (self.turn, place);
            self.present += 1;
        }
        Met { name: &known.name, place: known.place, is_first }
    }
}

#[cfg(test)]
mod tests {
    use super::Users;

    #[test]
    fn absent_users_are_forgotten_where_they_are_many() {
        let mut users = Users::default();
        for timestamp in 0..10 {
            users.begin();
            for user in 0..1_000 {
                assert!(users.meet(&format!("{timestamp}-{user}"), 0).is_first);
            }
        }
        assert!(users.known.len() <= 6_000 && users.known.len() == users.numbers.len());
        assert!(!users.meet("9-999", 0).is_first && users.meet("0-0", 0).is_first);
    }
}
