//! [`Device`]: answers questions within its own ledger.

use std::borrow::Cow;

use serde::{Deserialize, Serialize, Serializer};
use tidegate_kernel::oracle::{Oracle, OracleError, Report};
use tidegate_kernel::primitives::{PrimitiveError, SymbolBatch};
use tidegate_kernel::{Epsilon, Ledger, Question, QuestionError, Randomness, Refusal, View, Window};

use crate::refusal::RefusalReason;
use crate::sequence::{Planned, SequenceMemory, SequenceRule};

/// The privacy guarantee that a device was enrolled with.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct DevicePolicy {
    /// Budget of any window.
    pub epsilon: Epsilon,
    /// The window.
    pub window: Window,
    /// The number of values.
    pub domain: u32,
}

/// Why a device does not answer. No reason depends on which value of the domain it holds.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
#[allow(missing_docs)] // the messages name the fields
pub enum AnswerError {
    /// The device is not in the cohort.
    #[error("the device is not in the cohort that is asked")]
    NotAsked,
    /// The question is not about the present timestamp of the device's own clock.
    #[error("the question is about timestamp {asked}, but it is {now}")]
    NotNow { asked: u64, now: u64 },
    /// The question is about another domain than the policy's.
    #[error("the question is about {asked} values, but the policy is about {enrolled}")]
    OtherDomain { asked: u32, enrolled: u32 },
    /// A question of the same phase, or of a later one, was answered.
    #[error("phase {phase} of timestamp {timestamp}, or a later one, has been answered already")]
    Answered { timestamp: u64, phase: u16 },
    /// The question is of another form than the policy's: sequences are not answered by an oracle, nor are other
    /// streams by a channel, and the loss of a release is fixed.
    #[error("the question is of another form than the policy's")]
    OtherForm,
    /// No channel was found for what is believed of the symbol. It follows from earlier releases.
    #[error("no channel was found for the next release")]
    NoChannel,
    /// The question is invalid.
    #[error(transparent)]
    Malformed(#[from] QuestionError),
    /// The window has too little budget left.
    #[error(transparent)]
    Budget(#[from] Refusal),
    /// The value is outside the domain, or the operating system provides no randomness. Never tell the collector.
    #[error(transparent)]
    Value(#[from] OracleError),
}

impl AnswerError {
    /// The reason as a code for the collector.
    ///
    /// # Errors
    /// The problem with the value, which the collector must not learn.
    pub fn reason(self) -> Result<RefusalReason, OracleError> {
        Ok(match self {
            Self::NotAsked => RefusalReason::NotAsked,
            Self::NotNow { .. } => RefusalReason::NotNow,
            Self::OtherDomain { .. } => RefusalReason::OtherDomain,
            Self::Answered { .. } => RefusalReason::Answered,
            Self::OtherForm => RefusalReason::OtherOracle,
            Self::NoChannel => RefusalReason::NoChannel,
            Self::Malformed(_) => RefusalReason::Malformed,
            Self::Budget(_) => RefusalReason::Budget,
            Self::Value(error) => return Err(error),
        })
    }
}

/// A valid question with its oracle, prepared once for many devices.
#[derive(Clone, Debug)]
pub struct PreparedQuestion {
    question: Question,
    oracle: Oracle,
}

impl PreparedQuestion {
    /// Sets up the oracle of a question.
    ///
    /// # Errors
    /// If the question is invalid.
    pub fn new(question: Question) -> Result<Self, QuestionError> {
        let oracle = question.oracle()?;
        Ok(Self { question, oracle })
    }

    /// The question.
    pub const fn question(&self) -> &Question {
        &self.question
    }

    /// The oracle.
    pub const fn oracle(&self) -> &Oracle {
        &self.oracle
    }
}

/// A device that answers within its own ledger.
///
/// Save it with `serde` before a report leaves, and load only the latest state, once. The saved form has the last
/// answered question but not its report, so a loaded device refuses to repeat it.
#[derive(Debug, Deserialize)]
#[serde(try_from = "Saved")]
pub struct Device {
    policy: DevicePolicy,
    slot: u16,
    ledger: Ledger,
    /// Timestamp and phase of the last answer.
    answered: Option<(u64, u16)>,
    /// The last answer, unless it was given before loading.
    last: Option<Box<(Question, Report)>>,
}

const VERSION: u16 = 1;

/// The form in which a device is saved.
#[derive(Serialize)]
struct Saving<'a> {
    version: u16,
    policy: DevicePolicy,
    slot: u16,
    ledger: &'a Ledger,
    answered: Option<(u64, u16)>,
}

impl Serialize for Device {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let Self { policy, slot, ledger, answered, last: _ } = self;
        Saving { version: VERSION, policy: *policy, slot: *slot, ledger, answered: *answered }.serialize(serializer)
    }
}

/// A device as it is loaded, before its parts are checked against each other.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Saved {
    version: u16,
    policy: DevicePolicy,
    slot: u16,
    ledger: Ledger,
    // Required, though it may be null: a device that lost its answers must not load.
    #[serde(deserialize_with = "Option::deserialize")]
    answered: Option<(u64, u16)>,
}

impl TryFrom<Saved> for Device {
    type Error = String;

    fn try_from(saved: Saved) -> Result<Self, String> {
        let Saved { version, policy, slot, ledger, answered } = saved;
        if version != VERSION {
            return Err(format!("device version {version} is not known; this program reads version {VERSION}"));
        }
        let same_account = ledger.budget() == policy.epsilon && ledger.window() == policy.window;
        if !same_account || answered.map(|(timestamp, _)| timestamp) > ledger.clock() {
            return Err("the device's state does not fit its policy".to_owned());
        }
        Ok(Self { policy, slot, ledger, answered, last: None })
    }
}

impl Device {
    /// Creates a device that has never answered, in a slot of the population.
    pub fn new(policy: DevicePolicy, slot: u16) -> Self {
        Self { policy, slot, ledger: Ledger::new(policy.epsilon, policy.window), answered: None, last: None }
    }

    /// Creates a device whose answers up to `now` are unknown. It answers nothing until a whole window has passed.
    pub fn fully_spent(policy: DevicePolicy, slot: u16, now: u64) -> Self {
        let ledger = Ledger::fully_spent(policy.epsilon, policy.window, now);
        Self { policy, slot, ledger, answered: None, last: None }
    }

    /// The policy.
    pub const fn policy(&self) -> &DevicePolicy {
        &self.policy
    }

    /// The ledger.
    pub const fn ledger(&self) -> &Ledger {
        &self.ledger
    }

    /// The spends in the window that ends at a timestamp. `None` if there are none, or if the timestamp is before the
    /// ledger's clock.
    pub fn spent_in_window(&self, timestamp: u64) -> Option<Epsilon> {
        if self.ledger.clock().is_some_and(|clock| timestamp < clock) {
            return None;
        }
        match self.ledger.remaining(timestamp) {
            Some(remaining) => self.policy.epsilon.checked_sub(remaining),
            None => Some(self.policy.epsilon),
        }
    }

    /// The slot.
    pub const fn slot(&self) -> u16 {
        self.slot
    }

    /// Moves all spends to `now` after a clock jump. A jump back changes nothing; the device is silent until the clock
    /// has caught up.
    pub(crate) fn jump_to(&mut self, now: u64) {
        // The ledger refuses only if its clock is not behind, and then there is nothing to move.
        let _ = self.ledger.carry_to(now);
    }

    /// Moves all spends later, by timestamps in which no time is known to have passed.
    pub(crate) fn delay(&mut self, by: u64) {
        self.ledger.delay(by);
    }

    /// Answers a question if the policy allows it: with a new report, or with the identical report for the last
    /// question. `now` is from the device's own clock, never from the collector.
    ///
    /// The device spends the budget before it reads the value. So later answers and refusals never depend on values,
    /// inside the domain or not.
    ///
    /// # Errors
    /// The reason for a refusal.
    pub fn answer(
        &mut self,
        now: u64,
        question: &Question,
        value: u32,
        random: &mut impl Randomness,
    ) -> Result<Report, AnswerError> {
        let report = self.respond(now, question, || question.oracle().map(Cow::Owned), value, random)?;
        self.keep(question, &report);
        Ok(report)
    }

    /// Answers a question that was prepared for many devices.
    ///
    /// # Errors
    /// The reason for a refusal.
    pub fn answer_prepared(
        &mut self,
        now: u64,
        prepared: &PreparedQuestion,
        value: u32,
        random: &mut impl Randomness,
    ) -> Result<Report, AnswerError> {
        let report = self.answer_once(now, prepared, value, random)?;
        self.keep(&prepared.question, &report);
        Ok(report)
    }

    /// As [`Self::answer_prepared`], without a copy of the report: the device refuses to repeat the answer, as one that
    /// was loaded does. For devices in the collector's process, where no report is lost.
    ///
    /// # Errors
    /// The reason for a refusal.
    pub fn answer_once(
        &mut self,
        now: u64,
        prepared: &PreparedQuestion,
        value: u32,
        random: &mut impl Randomness,
    ) -> Result<Report, AnswerError> {
        self.respond(now, &prepared.question, || Ok(Cow::Borrowed(&prepared.oracle)), value, random)
    }

    /// Keeps an answer, for retries.
    fn keep(&mut self, question: &Question, report: &Report) {
        match self.last.as_deref_mut() {
            Some(last) if last.0 == *question => {}
            Some(last) => *last = (question.clone(), report.clone()),
            None => self.last = Some(Box::new((question.clone(), report.clone()))),
        }
    }

    /// Checks whether a question may be answered now. Returns the report of the last question if it is the same.
    fn admit(&self, now: u64, question: &Question) -> Result<Option<Report>, AnswerError> {
        if !question.cohort.contains(self.slot) {
            return Err(AnswerError::NotAsked);
        }
        if question.timestamp != now {
            return Err(AnswerError::NotNow { asked: question.timestamp, now });
        }
        if question.domain != self.policy.domain {
            return Err(AnswerError::OtherDomain { asked: question.domain, enrolled: self.policy.domain });
        }
        if let Some((last, report)) = self.last.as_deref()
            && last == question
        {
            return Ok(Some(report.clone()));
        }
        if self.answered >= Some((question.timestamp, question.phase)) {
            return Err(AnswerError::Answered { timestamp: question.timestamp, phase: question.phase });
        }
        Ok(None)
    }

    /// Releases the symbols that end at `now`, if the rule of the policy allows it: a new release, or the identical
    /// report for the last question. `now` is from the device's own clock. Save the memory with the device.
    ///
    /// The device decides and spends before it looks at the symbols. Without them it has spent the same, and is silent.
    /// A release that ignores the symbols costs nothing.
    ///
    /// # Errors
    /// The reason for a refusal.
    pub fn answer_sequence(
        &mut self,
        now: u64,
        question: &Question,
        rule: &SequenceRule,
        memory: &mut SequenceMemory,
        symbols: impl FnOnce() -> Option<SymbolBatch>,
        random: &mut impl Randomness,
    ) -> Result<Report, AnswerError> {
        if let Some(report) = self.admit(now, question)? {
            return Ok(report);
        }
        if !rule.allows(question) {
            return Err(AnswerError::OtherForm);
        }
        if !memory.is_before(rule.start(now)) {
            return Err(AnswerError::Answered { timestamp: now, phase: question.phase });
        }
        let report = match rule.plan(memory, now).ok_or(AnswerError::NoChannel)? {
            Planned::Constant(answer) => {
                self.ledger.open(now)?;
                self.answered = Some((question.timestamp, question.phase));
                memory.pass(rule, now).ok_or(AnswerError::NoChannel)?;
                Report::of_constant(answer, rule.sequences(), random)
            }
            Planned::Drawn(plan) => {
                let permit = self.ledger.spend(now, rule.loss())?;
                self.answered = Some((question.timestamp, question.phase));
                let missing = || AnswerError::from(OracleError::Value { domain: self.policy.domain });
                let sealed = symbols().and_then(|batch| batch.seal(self.ledger.account(), now).ok());
                let [symbols] = sealed.as_deref().unwrap_or_default() else { return Err(missing()) };
                let answer = plan.0.answer(permit, symbols, random).map_err(|error| match error {
                    PrimitiveError::Entropy(error) => AnswerError::from(OracleError::Entropy(error)),
                    _ => missing(),
                })?;
                memory.release(rule, now, *plan, *answer.value()).ok_or(AnswerError::NoChannel)?;
                Report::of_answer(answer, rule.sequences())
            }
        };
        let report = report.ok_or(AnswerError::NoChannel)?;
        self.keep(question, &report);
        Ok(report)
    }

    fn respond<'a>(
        &mut self,
        now: u64,
        question: &Question,
        oracle: impl FnOnce() -> Result<Cow<'a, Oracle>, QuestionError>,
        value: u32,
        random: &mut impl Randomness,
    ) -> Result<Report, AnswerError> {
        if let Some(report) = self.admit(now, question)? {
            return Ok(report);
        }
        if matches!(question.view, View::Sequence { .. }) {
            return Err(AnswerError::OtherForm);
        }
        let oracle = oracle()?;
        let permit = self.ledger.spend(now, question.epsilon)?;
        self.answered = Some((question.timestamp, question.phase));
        if value >= self.policy.domain {
            return Err(OracleError::Value { domain: self.policy.domain }.into());
        }
        Ok(oracle.perturb(permit, question.cell_of(value), random)?)
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use proptest::prelude::*;
    use tidegate_kernel::oracle::OracleKind;
    use tidegate_kernel::{Cohort, SeededRandom, View};

    use super::*;

    fn policy(window: u64) -> DevicePolicy {
        DevicePolicy { epsilon: "1".parse().unwrap(), window: Window::of(window).unwrap(), domain: 6 }
    }

    fn question(timestamp: u64, phase: u16, units: u64) -> Question {
        let epsilon = Epsilon::from_units(units).unwrap();
        let (cohort, view) = (Cohort::Everyone, View::Values);
        Question { timestamp, phase, cohort, epsilon, oracle: OracleKind::Grr, domain: 6, view }
    }

    #[test]
    fn a_retry_gets_the_identical_report_and_costs_nothing() {
        let mut device = Device::new(policy(3), 7);
        let mut random = SeededRandom::new(1);
        let asked = question(5, 0, 1_000_000_000);
        let first = device.answer(5, &asked, 2, &mut random).unwrap();
        for _ in 0..20 {
            assert_eq!(device.answer(5, &asked, 2, &mut random).unwrap(), first);
        }
    }

    #[test]
    fn states_of_another_budget_or_window_are_not_loaded() {
        let device = Device::new(policy(3), 7);
        let load = |change: fn(&mut Saved)| {
            let Device { policy, slot, .. } = device;
            let ledger = Ledger::new(policy.epsilon, policy.window);
            let mut saved = Saved { version: VERSION, policy, slot, ledger, answered: None };
            change(&mut saved);
            Device::try_from(saved).map(drop)
        };
        assert_eq!(load(|_| ()), Ok(()));
        let changes: [fn(&mut Saved); 3] = [
            |saved| saved.policy.epsilon = "2".parse().unwrap(),
            |saved| saved.policy.window = Window::EVENT,
            |saved| saved.answered = Some((0, 0)),
        ];
        for change in changes {
            assert_eq!(load(change), Err("the device's state does not fit its policy".to_owned()));
        }
    }

    #[test]
    fn spends_of_a_window_match_the_ledger() {
        let mut device = Device::new(policy(3), 7);
        let mut random = SeededRandom::new(3);
        assert_eq!(device.spent_in_window(5), None);
        for (timestamp, units) in [(5, 400_000_000), (6, 600_000_000)] {
            device.answer(timestamp, &question(timestamp, 0, units), 2, &mut random).unwrap();
        }
        let spent = |timestamp| device.spent_in_window(timestamp).map(|amount| amount.to_string());
        let expected = [None, Some("1"), Some("1"), Some("0.6"), None];
        assert_eq!([5, 6, 7, 8, 9].map(spent), expected.map(|text| text.map(str::to_owned)));
    }

    #[test]
    fn the_first_value_beyond_the_domain_is_refused() {
        let mut random = SeededRandom::new(4);
        // Ranges alone would accept any number as part of the last range.
        let asked = Question { view: View::Ranges(vec![0, 3]), ..question(5, 0, 1_000_000) };
        let mut answer = |value| Device::new(policy(3), 7).answer(5, &asked, value, &mut random).map(drop);
        assert_eq!(answer(5), Ok(()));
        assert!(matches!(answer(6), Err(AnswerError::Value(_))));
    }

    #[test]
    fn each_refusal_has_its_reason() {
        let mut device = Device::new(policy(3), 7);
        let mut random = SeededRandom::new(2);
        let mut refused =
            |now, question: &Question, value| device.answer(now, question, value, &mut random).unwrap_err();
        let asked = question(5, 1, 600_000_000);
        let elsewhere = Question { cohort: Cohort::Slots { first: 8, count: 10 }, ..asked.clone() };
        assert_eq!(refused(5, &elsewhere, 2), AnswerError::NotAsked);
        assert_eq!(refused(6, &asked, 2), AnswerError::NotNow { asked: 5, now: 6 });
        let wider = Question { domain: 7, ..asked.clone() };
        assert_eq!(refused(5, &wider, 2), AnswerError::OtherDomain { asked: 7, enrolled: 6 });
        let senseless = Question { view: View::Ranges(vec![0, 3, 3]), ..asked.clone() };
        assert!(matches!(refused(5, &senseless, 2), AnswerError::Malformed(_)));
        assert!(device.answer(5, &asked, 2, &mut random).is_ok());
        let mut refused = |now, question: &Question| device.answer(now, question, 2, &mut random).unwrap_err();
        let other = Question { oracle: OracleKind::Oue, ..asked.clone() };
        assert_eq!(refused(5, &other), AnswerError::Answered { timestamp: 5, phase: 1 });
        assert_eq!(refused(5, &question(5, 0, 1)), AnswerError::Answered { timestamp: 5, phase: 0 });
        assert!(matches!(refused(5, &question(5, 2, 600_000_000)), AnswerError::Budget(Refusal::Overspend { .. })));
        assert!(matches!(refused(4, &question(4, 0, 1)), AnswerError::Answered { .. }));
    }

    #[test]
    fn later_answers_do_not_depend_on_invalid_values() {
        let outcomes = |value: u32| {
            let mut device = Device::new(policy(3), 7);
            let mut random = SeededRandom::new(2);
            let first = device.answer(5, &question(5, 0, 600_000_000), value, &mut random);
            assert_eq!(matches!(first, Err(AnswerError::Value(_))), value >= 6);
            assert_eq!(
                first.err().and_then(|refused| refused.reason().ok()),
                None,
                "the collector hears nothing of it"
            );
            let later = [question(5, 0, 1), question(6, 0, 600_000_000), question(7, 0, 400_000_000)];
            later.map(|asked| device.answer(asked.timestamp, &asked, 2, &mut random).map(drop))
        };
        assert_eq!(outcomes(2), outcomes(6));
        assert!(matches!(outcomes(6), [Err(AnswerError::Answered { .. }), Err(AnswerError::Budget(_)), Ok(())]));
        let mut spent = Device::fully_spent(policy(3), 7, 5);
        let refused = spent.answer(5, &question(5, 0, 1), 6, &mut SeededRandom::new(2));
        assert!(matches!(refused, Err(AnswerError::Budget(_))), "nor does a refusal for want of budget");
    }

    #[test]
    fn prepared_questions_get_the_same_answer() {
        let asked = question(5, 1, 600_000_000);
        let prepared = PreparedQuestion::new(asked.clone()).unwrap();
        let (mut one, mut other) = (Device::new(policy(3), 7), Device::new(policy(3), 7));
        let report = one.answer(5, &asked, 2, &mut SeededRandom::new(3));
        assert_eq!(other.answer_prepared(5, &prepared, 2, &mut SeededRandom::new(3)), report);
        assert_eq!(serde_json::to_string(&one).unwrap(), serde_json::to_string(&other).unwrap());
        let senseless = Question { view: View::Ranges(vec![0, 3, 3]), ..asked };
        assert!(PreparedQuestion::new(senseless).is_err());
    }

    #[test]
    fn a_loaded_device_keeps_its_budget_and_answers() {
        let mut device = Device::new(policy(3), 7);
        let mut random = SeededRandom::new(5);
        let asked = question(5, 1, 600_000_000);
        device.answer(5, &asked, 2, &mut random).unwrap();
        let json = serde_json::to_string(&device).unwrap();
        let bytes = postcard::to_allocvec(&device).unwrap();
        let loaded: [Device; 2] = [serde_json::from_str(&json).unwrap(), postcard::from_bytes(&bytes).unwrap()];
        for mut device in loaded {
            assert_eq!(serde_json::to_string(&device).unwrap(), json);
            let mut ask = |question: &Question| device.answer(question.timestamp, question, 2, &mut random);
            assert_eq!(ask(&asked).unwrap_err(), AnswerError::Answered { timestamp: 5, phase: 1 });
            assert!(matches!(ask(&question(6, 0, 600_000_000)), Err(AnswerError::Budget(Refusal::Overspend { .. }))));
            assert!(ask(&question(6, 0, 400_000_000)).is_ok());
        }
        for (from, to) in [("\"version\":1", "\"version\":2"), ("\"answered\":[5,1]", "\"answered\":[6,1]")] {
            assert!(json.contains(from) && serde_json::from_str::<Device>(&json.replace(from, to)).is_err(), "{json}");
        }
        let without = json.replace(",\"answered\":[5,1]", "");
        assert!(without != json && serde_json::from_str::<Device>(&without).is_err());
    }

    proptest! {
        #![proptest_config(ProptestConfig {
            cases: 2_000,
            failure_persistence: None,
            rng_seed: proptest::test_runner::RngSeed::Fixed(3),
            ..ProptestConfig::default()
        })]

        #[test]
        fn no_questions_exceed_the_window_budget(
            window in 1_u64..6,
            steps in prop::collection::vec((0_u64..3, 0_u64..3, 0_u16..3, 1_u64..1_200_000_000, any::<bool>()), 1..60),
        ) {
            let mut device = Device::new(policy(window), 7);
            let mut random = SeededRandom::new(4);
            let (mut now, mut spends) = (10_u64, Vec::<(u64, u64)>::new());
            for (later, earlier, phase, units, greedy) in steps {
                now += later;
                let asked = question(now - earlier, phase, if greedy { 1_000_000_000 } else { units });
                let was_last = device.last.as_ref().is_some_and(|last| last.0 == asked);
                if device.answer(now, &asked, 3, &mut random).is_ok() && !was_last {
                    spends.push((now, asked.epsilon.units()));
                }
                for (start, _) in &spends {
                    let sum: u64 = spends
                        .iter()
                        .filter(|(timestamp, _)| (*start..start + window).contains(timestamp))
                        .map(|(_, units)| units)
                        .sum();
                    prop_assert!(sum <= 1_000_000_000);
                }
            }
        }
    }
}
