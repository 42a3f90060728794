//! A naive model of the ledger, to compare the real one with.

use tidegate_kernel::{Epsilon, Ledger, Refusal, Window};

/// Remembers every grant, and sums in 128 bits.
struct Shadow {
    budget: Epsilon,
    window: Window,
    clock: Option<u64>,
    closed: bool,
    /// By effective timestamp, which is later than the true one for a carried grant.
    grants: Vec<(u64, Epsilon)>,
    /// By true timestamp.
    truly: Vec<(u64, Epsilon)>,
}

impl Shadow {
    /// Copies the visible state of a ledger.
    fn of(ledger: &Ledger) -> Self {
        let clock = ledger.clock();
        let closed = clock.is_some_and(|clock| {
            matches!(ledger.check(clock, Epsilon::MIN), Err(Refusal::Closed { timestamp }) if timestamp == clock)
        });
        let (budget, window) = (ledger.budget(), ledger.window());
        let grants: Vec<_> = ledger.spends().collect();
        Self { budget, window, clock, closed, truly: grants.clone(), grants }
    }

    /// The last timestamp of the window that begins at `first`.
    fn last_of_window(&self, first: u64) -> u128 {
        match self.window {
            Window::Timestamps(length) => u128::from(first) + u128::from(length.get()) - 1,
            Window::Unbounded => u128::MAX,
        }
    }

    fn time(&self, timestamp: u64) -> Result<(), Refusal> {
        match self.clock {
            Some(clock) if timestamp < clock => Err(Refusal::TimeWentBack { timestamp, clock }),
            Some(clock) if timestamp == clock && self.closed => Err(Refusal::Closed { timestamp }),
            _ => Ok(()),
        }
    }

    fn open(&mut self, timestamp: u64) -> Result<(), Refusal> {
        self.time(timestamp)?;
        self.clock = Some(timestamp);
        self.closed = false;
        Ok(())
    }

    fn carry_to(&mut self, timestamp: u64) -> Result<(), Refusal> {
        let before = self.clock;
        self.open(timestamp)?;
        let ends: Vec<u128> = self.grants.iter().map(|(first, _)| self.last_of_window(*first)).collect();
        for ((date, _), end) in self.grants.iter_mut().zip(ends) {
            if before.is_some_and(|before| u128::from(before) <= end) {
                *date = timestamp;
            }
        }
        Ok(())
    }

    fn delay(&mut self, by: u64) {
        let Some(clock) = self.clock else { return };
        let ends: Vec<u128> = self.grants.iter().map(|(first, _)| self.last_of_window(*first)).collect();
        for ((date, _), end) in self.grants.iter_mut().zip(ends) {
            if u128::from(clock) <= end {
                *date = if clock.checked_add(by).is_some() { *date + by } else { u64::MAX };
            }
        }
        self.clock = Some(clock.saturating_add(by));
    }

    fn remaining(&self, timestamp: u64) -> Option<Epsilon> {
        self.time(timestamp).ok()?;
        let in_window =
            self.grants.iter().filter(|(earlier, _)| u128::from(timestamp) <= self.last_of_window(*earlier));
        let spent: u128 = in_window.map(|(_, amount)| u128::from(amount.units())).sum();
        let left = u128::from(self.budget.units()) - spent;
        Epsilon::from_units(u64::try_from(left).unwrap()).ok()
    }

    fn check(&self, timestamp: u64, amount: Epsilon) -> Result<(), Refusal> {
        self.time(timestamp)?;
        match self.remaining(timestamp) {
            Some(remaining) if amount <= remaining => Ok(()),
            remaining => Err(Refusal::Overspend { timestamp, asked: amount, remaining }),
        }
    }

    fn spend(&mut self, timestamp: u64, amount: Epsilon) -> Result<(), Refusal> {
        self.open(timestamp)?;
        self.check(timestamp, amount)?;
        self.grants.push((timestamp, amount));
        self.truly.push((timestamp, amount));
        Ok(())
    }

    /// The fullest windows begin at a grant, so only those are summed.
    fn assert_no_window_exceeds_the_budget(&self) {
        for &(first, _) in &self.truly {
            let window = u128::from(first)..=self.last_of_window(first);
            let in_window = self.truly.iter().filter(|(timestamp, _)| window.contains(&u128::from(*timestamp)));
            let sum: u128 = in_window.map(|(_, amount)| u128::from(amount.units())).sum();
            assert!(sum <= u128::from(self.budget.units()), "{sum} units were granted in the window {window:?}");
        }
    }
}

/// An operation on a ledger. A jump is relative to the latest timestamp and saturates.
#[derive(Clone, Copy, Debug)]
pub enum Step {
    Open { jump: i64 },
    Close { jump: i64 },
    CarryTo { jump: i64 },
    Delay { by: u64 },
    Spend { jump: i64, amount: Epsilon },
    SpendAllThatRemains { jump: i64 },
    SaveAndLoadAsJson,
    SaveAndLoadAsPostcard,
}

/// A ledger and its model, which run together.
pub struct Shadowed {
    ledger: Ledger,
    shadow: Shadow,
    start: u64,
}

impl Shadowed {
    /// Creates a model of a ledger. Without a clock, the first jump starts at `start`.
    pub fn new(ledger: Ledger, start: u64) -> Self {
        let shadow = Shadow::of(&ledger);
        Self { ledger, shadow, start }
    }

    /// Applies an operation to both and asserts equal results.
    pub fn take(&mut self, step: Step) {
        let timestamp = |jump| self.shadow.clock.unwrap_or(self.start).saturating_add_signed(jump);
        match step {
            Step::Open { jump } => {
                let timestamp = timestamp(jump);
                assert_eq!(self.ledger.open(timestamp), self.shadow.open(timestamp), "{step:?}");
            }
            Step::Close { jump } => {
                let timestamp = timestamp(jump);
                let expected = self.shadow.open(timestamp);
                self.shadow.closed |= expected.is_ok();
                assert_eq!(self.ledger.close(timestamp), expected, "{step:?}");
            }
            Step::CarryTo { jump } => {
                let timestamp = timestamp(jump);
                assert_eq!(self.ledger.carry_to(timestamp), self.shadow.carry_to(timestamp), "{step:?}");
            }
            Step::Delay { by } => {
                self.ledger.delay(by);
                self.shadow.delay(by);
            }
            Step::Spend { jump, amount } => self.spend(timestamp(jump), amount),
            Step::SpendAllThatRemains { jump } => {
                let timestamp = timestamp(jump);
                self.spend(timestamp, self.ledger.remaining(timestamp).unwrap_or(Epsilon::MIN));
            }
            Step::SaveAndLoadAsJson => {
                let saved = serde_json::to_string(&self.ledger).unwrap();
                self.replace_by(serde_json::from_str(&saved).unwrap());
            }
            Step::SaveAndLoadAsPostcard => {
                let saved = postcard::to_allocvec(&self.ledger).unwrap();
                self.replace_by(postcard::from_bytes(&saved).unwrap());
            }
        }
        self.assert_same_state();
    }

    fn spend(&mut self, timestamp: u64, amount: Epsilon) {
        let expected = self.shadow.check(timestamp, amount);
        assert_eq!(self.ledger.check(timestamp, amount), expected);
        assert_eq!(self.shadow.spend(timestamp, amount), expected);
        let permit = self.ledger.spend(timestamp, amount);
        assert_eq!(
            permit.as_ref().map(|permit| (permit.timestamp(), permit.epsilon())),
            expected.as_ref().map(|()| (timestamp, amount))
        );
    }

    fn replace_by(&mut self, loaded: Ledger) {
        assert_eq!(loaded, self.ledger, "saving and loading changed something");
        self.ledger = loaded;
    }

    fn assert_same_state(&self) {
        assert_eq!(self.ledger.clock(), self.shadow.clock);
        let now = self.shadow.clock.unwrap_or(self.start);
        let expiry = self
            .shadow
            .grants
            .first()
            .map_or(now, |(first, _)| u64::try_from(self.shadow.last_of_window(*first)).unwrap_or(u64::MAX));
        let moments = [now.saturating_sub(1), now, now.saturating_add(1), expiry, expiry.saturating_add(1), u64::MAX];
        for timestamp in moments {
            assert_eq!(self.ledger.remaining(timestamp), self.shadow.remaining(timestamp), "at {timestamp}");
        }
        match self.ledger.window() {
            Window::Timestamps(length) => assert!(self.ledger.spends().len() as u64 <= length.get()),
            Window::Unbounded => assert!(self.ledger.spends().len() <= 1),
        }
    }

    /// Sums every window by brute force.
    pub fn assert_no_window_exceeds_the_budget(&self) {
        self.shadow.assert_no_window_exceeds_the_budget();
    }
}
