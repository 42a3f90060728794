//! Where and how two neighbouring streams differ: the worst cases that mechanisms over windows are tried on.

/// In which timestamps two streams differ, and how.
#[derive(Clone, Debug)]
pub(super) struct Pattern {
    /// What it is called.
    pub(super) name: String,
    /// For each timestamp, what one stream and the other hold: 0 or 1.
    pub(super) bits: Vec<(u32, u32)>,
}

/// Patterns over `length` timestamps of which at most `window` consecutive ones differ: a single timestamp, a step and
/// an alternation, at the beginning, across the border of the first two windows, and at the end; over a stream that
/// stands still and one that moves at each timestamp.
pub(super) fn patterns(length: usize, window: usize) -> Vec<Pattern> {
    let window = window.min(length);
    let mut starts = vec![0, window / 2, window, length - window];
    starts.retain(|start| start + window <= length);
    starts.sort_unstable();
    starts.dedup();
    patterns_at(starts, length, window)
}

/// The same patterns, beginning at every timestamp.
pub(super) fn patterns_everywhere(length: usize, window: usize) -> Vec<Pattern> {
    let window = window.min(length);
    patterns_at((0..=length - window).collect(), length, window)
}

fn patterns_at(starts: Vec<usize>, length: usize, window: usize) -> Vec<Pattern> {
    let mut all = Vec::new();
    for start in starts {
        let differs = |timestamp: usize| (start..start + window).contains(&timestamp);
        let at = |timestamp: usize| u32::from(timestamp % 2 == 1);
        let mut push = |kind: &str, of: &dyn Fn(usize) -> (u32, u32)| {
            all.push(Pattern { name: format!("{kind} at {start}"), bits: (0..length).map(of).collect() });
        };
        push("spike", &|timestamp| (0, u32::from(timestamp == start)));
        if window > 1 {
            push("step", &|timestamp| (0, u32::from(differs(timestamp))));
            push("alternating", &|timestamp| {
                (0, u32::from(differs(timestamp)) * at(timestamp - start.min(timestamp) + 1))
            });
            push("against the alternation", &|timestamp| {
                (at(timestamp), if differs(timestamp) { 1 - at(timestamp) } else { at(timestamp) })
            });
        }
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn streams_differ_within_one_window_and_nowhere_else() {
        for window in 1..5 {
            for length in window..3 * window + 2 {
                let all = patterns_everywhere(length, window);
                assert!(all.len() >= patterns(length, window).len() && !patterns(length, window).is_empty());
                for Pattern { name, bits } in all {
                    let differ: Vec<usize> =
                        bits.iter().enumerate().filter(|(_, (one, other))| one != other).map(|(at, _)| at).collect();
                    assert!(bits.len() == length && !differ.is_empty(), "{name}");
                    assert!(differ[differ.len() - 1] - differ[0] < window, "{name}: {differ:?}");
                }
            }
        }
    }
}
