//! [`Ahead`]: when a device draws its next tokens.

use std::time::{Duration, Instant};

use tidegate_kernel::Randomness;

/// How late a moment may be noticed. A later draw would follow whatever has held the device up.
const LATE: Duration = Duration::from_secs(1);

/// The moment to draw tokens for the next block: a random one of the rest of the present block. A draw names the
/// device, and a report must not be joined to it by time, so no question decides the moment.
#[derive(Debug, Default)]
pub(super) struct Ahead {
    /// The present block, and the moment; none once the draw is done.
    chosen: Option<(u64, Option<Instant>)>,
}

impl Ahead {
    /// Returns how long it is until the draw, which is due at zero; `None` if it is done. `rest` is what is left of the
    /// block.
    pub(super) fn left(
        &mut self,
        block: u64,
        rest: Duration,
        now: Instant,
        random: &mut impl Randomness,
    ) -> Option<Duration> {
        match self.chosen {
            Some((of, None)) if of == block => None,
            Some((of, Some(at))) if of == block && now <= at + LATE => Some(at.saturating_duration_since(now)),
            _ => {
                let most = u64::try_from(rest.as_millis()).unwrap_or(u64::MAX).max(1);
                let left = Duration::from_millis(random.next_word() % most);
                self.chosen = Some((block, Some(now + left)));
                Some(left)
            }
        }
    }

    /// Notes that the draw is done, or has failed: then another moment is chosen.
    pub(super) fn tried(&mut self, block: u64, is_done: bool) {
        self.chosen = is_done.then_some((block, None));
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use tidegate_kernel::SeededRandom;

    use super::*;

    const REST: Duration = Duration::from_secs(16);

    #[test]
    fn draws_ahead_are_spread_over_the_rest_of_a_block() {
        let (now, mut tenths) = (Instant::now(), [0; 10]);
        for seed in 0..2_000 {
            let left = Ahead::default().left(7, REST, now, &mut SeededRandom::new(seed)).unwrap();
            tenths[usize::try_from(left.as_millis() / 1_600).unwrap()] += 1;
        }
        // Six standard deviations of a count of 200.
        assert!(tenths.iter().all(|count| (120..280).contains(count)), "{tenths:?}");
    }

    #[test]
    fn a_moment_is_kept_until_it_is_missed() {
        let (now, random) = (Instant::now(), &mut SeededRandom::new(1));
        let mut ahead = Ahead::default();
        let left = ahead.left(7, REST, now, random).unwrap();
        let later = |ahead: &mut Ahead, more, random: &mut SeededRandom| ahead.left(7, REST, now + left + more, random);
        assert_eq!(ahead.left(7, REST, now + left / 2, random), Some(left - left / 2));
        assert_eq!(later(&mut ahead, LATE, random), Some(Duration::ZERO));
        // A device that was held up, or whose draw has failed, does not draw at once.
        assert!(later(&mut ahead, LATE * 2, random).unwrap() > Duration::ZERO);
        ahead.tried(7, false);
        assert!(later(&mut ahead, Duration::ZERO, random).unwrap() > Duration::ZERO);
        ahead.tried(7, true);
        assert_eq!(later(&mut ahead, LATE * 9, random), None);
        assert!(ahead.left(8, REST, now, random).is_some(), "the next block");
    }
}
