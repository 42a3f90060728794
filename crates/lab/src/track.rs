//! The mechanism `track`, which each family has its own of, under one name: what runs depends on the kind of stream.

use tidegate::local::LocalKind;

use crate::experiment::{OnCounts, OnNumbers, Setting, Subject};
use crate::local::LocalSubject;
use crate::scalar::TRACK as EVENT;

/// The mechanisms `track` of local and of event-level streams.
#[derive(Clone, Copy, Debug)]
pub struct TrackSubject;

/// The subject.
pub const SUBJECTS: &[&dyn Subject] = &[&TrackSubject];

impl Subject for TrackSubject {
    fn name(&self) -> &'static str {
        "track"
    }

    fn summary(&self) -> &'static str {
        "local, scalar: an estimate from all that was ever asked, of what seems to move how"
    }

    fn uses(&self) -> &'static [Setting] {
        &[Setting::Window, Setting::Delay, Setting::Oracle, Setting::Contribution]
    }

    fn on_counts(&self) -> Option<&dyn OnCounts> {
        Some(&LocalSubject(LocalKind::Track))
    }

    fn on_numbers(&self) -> Option<&dyn OnNumbers> {
        Some(&EVENT)
    }
}
