//! [`RateLimit`]: rate limits by token or address (generic cell rate algorithm).

use std::collections::HashMap;
use std::net::IpAddr;
use std::num::NonZeroU32;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use serde::{Deserialize, Serialize};

/// Rate limit: a sustained rate and a burst.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Rate {
    /// Sustained calls a second.
    pub per_second: NonZeroU32,
    /// Calls at once after a pause.
    pub burst: NonZeroU32,
}

/// A caller, for rate limits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Caller {
    /// Holders of a token, by its hash.
    Token(u128),
    /// Holders of a token in a network.
    TokenAt(u128, u128),
    /// IPv4 address, or /64 network of an IPv6 address: a household has all of it.
    Network(u128),
    /// All callers beyond the largest number.
    Others,
}

/// Returns the number of an address's network.
pub(super) fn network_of(address: IpAddr) -> u128 {
    match address.to_canonical() {
        IpAddr::V4(address) => u128::from(address.to_bits()),
        IpAddr::V6(address) => address.to_bits() >> 64 << 64,
    }
}

impl Caller {
    pub(super) fn of(address: IpAddr) -> Self {
        Self::Network(network_of(address))
    }
}

/// Most callers with a limit of their own.
const MAX_CALLERS: usize = 100_000;

/// Time between two searches for callers that can be dropped.
const BETWEEN_SEARCHES: Duration = Duration::from_secs(1);

/// Rate limits of all callers.
#[derive(Debug, Default)]
pub(super) struct RateLimit(Mutex<Callers>);

#[derive(Debug, Default)]
struct Callers {
    /// When each caller has its whole burst again.
    full_again: HashMap<Caller, Duration>,
    next_search: Duration,
}

impl RateLimit {
    /// Admits a call at a moment of a monotonic clock, or returns how long to wait.
    pub(super) fn check(&self, caller: Caller, rate: Rate, now: Duration) -> Result<(), Duration> {
        let mut callers = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let Callers { full_again, next_search } = &mut *callers;
        let mut caller = caller;
        if full_again.len() >= MAX_CALLERS && !full_again.contains_key(&caller) {
            if now >= *next_search {
                // A caller with its whole burst is like a new one.
                full_again.retain(|_, full| *full > now);
                *next_search = now + BETWEEN_SEARCHES;
            }
            if full_again.len() >= MAX_CALLERS {
                caller = Caller::Others;
            }
        }
        // At least the shortest time: without any, calls whose clocks were read in another order would be refused.
        let one = (Duration::from_secs(1) / rate.per_second.get()).max(Duration::from_nanos(1));
        let full = full_again.entry(caller).or_insert(now);
        let next = (*full).max(now) + one;
        let latest = now + one * rate.burst.get();
        if next > latest {
            return Err(next - latest);
        }
        *full = next;
        Ok(())
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    fn rate(per_second: u32, burst: u32) -> Rate {
        Rate { per_second: NonZeroU32::new(per_second).unwrap(), burst: NonZeroU32::new(burst).unwrap() }
    }

    #[test]
    fn admits_a_burst_and_then_the_rate() {
        let (limit, rate) = (RateLimit::default(), rate(10, 5));
        let caller = Caller::Token(0);
        let mut now = Duration::from_secs(7);
        for _ in 0..5 {
            limit.check(caller, rate, now).unwrap();
        }
        assert_eq!(limit.check(caller, rate, now), Err(Duration::from_millis(100)));
        limit.check(Caller::Token(1), rate, now).unwrap();
        // Refused calls cost nothing: in ten seconds a hundred pass, however many are tried.
        let mut passed = 0;
        for _ in 0..1_000 {
            now += Duration::from_millis(10);
            passed += usize::from(limit.check(caller, rate, now).is_ok());
        }
        assert_eq!(passed, 100);
        now += Duration::from_secs(3_600);
        assert_eq!((0..20).filter(|_| limit.check(caller, rate, now).is_ok()).count(), 5);
    }

    #[test]
    fn admits_calls_at_the_highest_rate_in_any_order() {
        let (limit, rate) = (RateLimit::default(), rate(u32::MAX, u32::MAX));
        limit.check(Caller::Token(0), rate, Duration::from_secs(1)).unwrap();
        // Its thread read the clock before the other's.
        limit.check(Caller::Token(0), rate, Duration::from_millis(999)).unwrap();
    }

    #[test]
    fn distinguishes_networks_but_not_their_addresses() {
        let of = |address: &str| Caller::of(address.parse().unwrap());
        assert_ne!(of("192.0.2.1"), of("192.0.2.2"));
        assert_eq!(of("192.0.2.1"), of("::ffff:192.0.2.1"));
        assert_eq!(of("2001:db8::1"), of("2001:db8::ffff:1"));
        assert_ne!(of("2001:db8::1"), of("2001:db8:0:1::1"));
    }

    #[test]
    fn bounds_memory_for_any_number_of_callers() {
        let (limit, rate) = (RateLimit::default(), rate(1, 1));
        for network in 0..250_000_u128 {
            let _ = limit.check(Caller::Network(network << 64), rate, Duration::ZERO);
        }
        assert!(limit.0.lock().unwrap().full_again.len() <= MAX_CALLERS + 1);
        assert!(limit.check(Caller::Network(1), rate, Duration::ZERO).is_err(), "the others share what is left");
        limit.check(Caller::Network(1), rate, Duration::from_secs(2)).unwrap();
        assert_eq!(limit.0.lock().unwrap().full_again.len(), 1);
    }
}
