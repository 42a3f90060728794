//! [`Users`]: users by name, numbered in the order in which they came.

use std::collections::HashMap;
use std::sync::Arc;

/// A record for each user of a stream.
pub(super) struct Users<T> {
    numbers: HashMap<Arc<str>, usize>,
    all: Vec<(Arc<str>, T)>,
}

impl<T> Default for Users<T> {
    fn default() -> Self {
        Self { numbers: HashMap::new(), all: Vec::new() }
    }
}

impl<T> Users<T> {
    /// The users of a saved state.
    pub(super) fn of(saved: Vec<(String, T)>) -> Self {
        let mut users = Self::default();
        for (name, kept) in saved {
            users.add(name.into(), kept);
        }
        users
    }

    pub(super) fn find(&self, name: &str) -> Option<usize> {
        self.numbers.get(name).copied()
    }

    pub(super) fn add(&mut self, name: Arc<str>, kept: T) -> usize {
        let number = self.all.len();
        self.numbers.insert(Arc::clone(&name), number);
        self.all.push((name, kept));
        number
    }

    pub(super) fn get(&self, number: usize) -> &T {
        &self.all[number].1
    }

    pub(super) fn get_mut(&mut self, number: usize) -> &mut T {
        &mut self.all[number].1
    }

    pub(super) fn name(&self, number: usize) -> Arc<str> {
        Arc::clone(&self.all[number].0)
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = (&str, &T)> {
        self.all.iter().map(|(name, kept)| (name.as_ref(), kept))
    }

    /// The form that is saved.
    pub(super) fn saving(&self) -> Vec<(&str, &T)> {
        self.iter().collect()
    }
}
