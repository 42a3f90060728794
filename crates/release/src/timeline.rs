//! [`Timeline`]: timestamps released even if nobody is present.

use tidegate::series::Series;
use tidegate::spec::TimelineSpec;
use tidegate_table::releases::ReleaseLayout;
use tidegate_table::time::Clock;

use crate::Error;
use crate::gate::Rejected;

/// Most numbers released for consecutive empty timestamps, if no end is declared.
const MOST_IN_A_GAP: u64 = 1_000_000;

/// Most numbers that a run releases, if its end is declared.
const MOST_DECLARED: u64 = 100_000_000;

/// The timestamps of a run, in order.
///
/// With a declared end, the number of timestamps is known before the first line, and no gap is too long. Without one, a
/// gap may be too long; rejecting it reveals that nobody was present in between.
#[derive(Debug)]
pub struct Timeline {
    spec: TimelineSpec,
    /// The declared last timestamp.
    through: Option<u64>,
    /// The next timestamp that is neither closed nor open; `None` at the end.
    next: Option<u64>,
    /// How many numbers a timestamp releases.
    numbers: u64,
}

impl Timeline {
    /// Returns the timeline of a spec, if it has one, up to the time `through`, for releases of this layout.
    ///
    /// # Errors
    /// [`Error::Argument`] for an end where there is no timeline, or one that is no time of it.
    pub fn of(series: &Series, through: Option<&str>, layout: &ReleaseLayout) -> Result<Option<Self>, Error> {
        let spec = match (series.spec().timeline(), through) {
            (None, None) => return Ok(None),
            (None, Some(_)) => {
                return Err(Error::Argument("--through is for specs with a timeline, and this has none".to_owned()));
            }
            (Some(spec), _) => spec,
        };
        let end = |text: &str| {
            // A clock of its own: the form of the input's times is that of the input.
            let clock = Clock::new(series.spec().input());
            let end = clock.map_err(Into::into).and_then(|mut clock| {
                clock.keep_zone(layout.clock().zone());
                clock.timestamp(text)
            });
            end.map_err(|expected: std::borrow::Cow<'_, str>| {
                Error::Argument(format!("--through: expected {expected}"))
            })
        };
        Self::new(spec, through.map(end).transpose()?, series.last(), layout.numbers()).map(Some)
    }

    /// Returns a timeline that continues after `last`.
    fn new(spec: TimelineSpec, through: Option<u64>, last: Option<u64>, numbers: u64) -> Result<Self, Error> {
        let next = spec.after(last);
        if let Some(through) = through {
            if !spec.contains(through) {
                return Err(Error::Argument(format!("--through {through}: expected {}", in_words(&spec))));
            }
            let count = next.map_or(0, |next| spec.count(next, through).saturating_add(u64::from(next <= through)));
            if count.saturating_mul(numbers) > MOST_DECLARED {
                let most = MOST_DECLARED / numbers.max(1);
                return Err(Error::Argument(format!(
                    "--through {through}: {count} timestamps of {numbers} numbers each are too many for a run: \
                     at most {most}"
                )));
            }
        }
        Ok(Self { spec, through, next, numbers })
    }

    /// Checks the timestamp of a line.
    pub(crate) fn check(&self, timestamp: u64) -> Result<(), Rejected> {
        if !self.spec.contains(timestamp) {
            return Err(Rejected::time(in_words(&self.spec)));
        }
        if let Some(through) = self.through {
            if timestamp > through {
                return Err(Rejected::time(format!("a timestamp up to {through}, as --through says")));
            }
            return Ok(());
        }
        let most = MOST_IN_A_GAP / self.numbers.max(1);
        match self.next {
            Some(next) if self.spec.count(next, timestamp) > most => Err(Rejected::time(format!(
                "at most {most} timestamps without a line before it, each of which is released: the spec's timeline \
                 says where time starts and its step, and --through where it ends"
            ))),
            _ => Ok(()),
        }
    }

    /// Closes and returns the next empty timestamp before `timestamp`.
    pub(crate) fn missing_before(&mut self, timestamp: u64) -> Option<u64> {
        let missing = self.next.filter(|next| *next < timestamp)?;
        self.next = self.spec.after(Some(missing));
        Some(missing)
    }

    /// Closes and returns the next timestamp after the last line, up to the declared end.
    pub(crate) fn missing_at_the_end(&mut self) -> Option<u64> {
        let missing = self.next.filter(|next| Some(*next) <= self.through)?;
        self.next = self.spec.after(Some(missing));
        Some(missing)
    }

    /// Records the timestamp of a line.
    pub(crate) fn arrive(&mut self, timestamp: u64) {
        if self.next.is_some_and(|next| next <= timestamp) {
            self.next = self.spec.after(Some(timestamp));
        }
    }
}

fn in_words(spec: &TimelineSpec) -> String {
    let TimelineSpec { start, step } = spec;
    let next = start.saturating_add(step.get());
    format!("a timestamp of the timeline: {start}, {next}, {}, ..", next.saturating_add(step.get()))
}
