//! Devices that come and go: no clock that lies gains more than is stated, and right clocks lose nothing.

use std::collections::BTreeMap;
use std::num::NonZeroU64;
use std::sync::LazyLock;

use ed25519_dalek::SigningKey;
use tidegate_device::absence::{
    AbsenceTerms, AbsenceTrust, FRESH, LEEWAY, ROUND_TRIP, SignedTime, TimeError, TimeRequest,
};
use tidegate_device::clock::{ClockReading, DRIFT, Steady, Ticks};
use tidegate_device::enrolment::{StreamPolicy, VerifiedPolicy};
use tidegate_device::staged::{Confirmed, Save, Saved, Staged, StagedAgent, Turn};
use tidegate_device::wire::ReportId;
use tidegate_device::{AgentError, AgentReply, Beginning, RefusalReason};
use tidegate_kernel::{Randomness, SeededRandom};

use crate::agent::{ALL, EPOCH, policy, question, verified};
use crate::staged::Store;

/// Seconds of a tick.
const TICK: u64 = 60;

const WINDOW: u64 = 3;

fn minutes() -> StreamPolicy {
    StreamPolicy { ticks: Ticks { epoch: EPOCH, seconds: NonZeroU64::new(TICK).unwrap() }, ..policy(WINDOW) }
}

static POLICY: LazyLock<VerifiedPolicy> = LazyLock::new(|| verified(minutes()));

static OPERATOR: LazyLock<SigningKey> = LazyLock::new(|| SigningKey::from_bytes(&[7; 32]));

fn signed_time() -> AbsenceTerms {
    AbsenceTerms { trusts: AbsenceTrust::SignedTime { key: OPERATOR.verifying_key().to_bytes() }, until: u64::MAX }
}

fn wall_clock() -> AbsenceTerms {
    AbsenceTerms { trusts: AbsenceTrust::WallClock, until: u64::MAX }
}

/// The true time, and clocks that may lie.
#[derive(Clone, Debug)]
struct Clocks {
    truly: u64,
    wall_ahead: i64,
    service_ahead: i64,
    /// The sum of all that the service has jumped ahead.
    service_jumped: u64,
    runs: u8,
}

impl Clocks {
    const fn new() -> Self {
        Self { truly: EPOCH + 1_000_000, wall_ahead: 0, service_ahead: 0, service_jumped: 0, runs: 0 }
    }

    const fn wall(&self) -> u64 {
        self.truly.saturating_add_signed(self.wall_ahead)
    }

    const fn timestamp(&self) -> u64 {
        (self.wall() - EPOCH) / TICK
    }

    fn sign(&self, request: &TimeRequest) -> SignedTime {
        SignedTime::sign(&request.nonce, self.truly.saturating_add_signed(self.service_ahead), &OPERATOR).unwrap()
    }
}

/// A page that is open: an agent, and the steady clock of this run.
struct Page {
    agent: Option<StagedAgent>,
    run: u8,
    began: u64,
    /// Seconds for which the steady clock stood still.
    stood: u64,
    /// Whether it has stood still since a signed time arrived.
    has_slept: bool,
}

impl Page {
    fn load(clocks: &mut Clocks) -> Self {
        clocks.runs = clocks.runs.wrapping_add(1);
        Self { agent: None, run: clocks.runs, began: clocks.truly, stood: 0, has_slept: false }
    }

    fn reading(&self, clocks: &Clocks) -> ClockReading {
        let steady = Steady { run: [self.run; 16], seconds: clocks.truly - self.began - self.stood };
        ClockReading { wall: clocks.wall(), steady }
    }

    fn open(&self, store: &Store, terms: Option<AbsenceTerms>, clocks: &Clocks, seed: u64) -> Opening {
        let (now, random) = (self.reading(clocks), &mut SeededRandom::with_stream(seed, 2));
        StagedAgent::open(store.found(), "position", POLICY.clone(), terms, b"", now, random)
    }

    /// Opens, where nothing fails.
    fn begin(&mut self, store: &mut Store, terms: Option<AbsenceTerms>, clocks: &Clocks) {
        let staged = self.open(store, terms, clocks, clocks.truly).unwrap();
        self.agent = Some(store.confirmed(staged).agent);
    }

    /// Asks for the time and takes it, so many seconds apart.
    fn attest(&mut self, clocks: &mut Clocks, to: u64, from: u64) -> Result<(), TimeError> {
        let now = self.reading(clocks);
        let agent = self.agent.as_mut().unwrap();
        let Some(request) = agent.ask_time(now, &mut SeededRandom::new(clocks.truly)) else { return Ok(()) };
        clocks.truly += to;
        let said = clocks.sign(&request);
        clocks.truly += from;
        let now = self.reading(clocks);
        self.agent.as_mut().unwrap().attest(now, &said)
    }

    fn ask(&mut self, clocks: &Clocks, units: u64) -> Turn<Result<AgentReply, AgentError>> {
        let (now, asked) = (self.reading(clocks), question(clocks.timestamp(), 0, units));
        self.agent.take().unwrap().answer(now, "visits", &asked, 2, &mut SeededRandom::new(clocks.truly))
    }

    /// Asks, where nothing fails.
    fn reply(&mut self, store: &mut Store, clocks: &Clocks, units: u64) -> AgentReply {
        let (agent, reply) = store.settled(self.ask(clocks, units));
        self.agent = Some(agent);
        reply.unwrap()
    }
}

type Opening = Result<Staged<Beginning>, AgentError>;

const fn is_report(reply: &AgentReply) -> bool {
    matches!(reply, AgentReply::Report(_))
}

/// Opens a page for an instant at each tick, and asks for so much. Returns the number of reports.
fn visits(terms: Option<&AbsenceTerms>, ticks: u64, units: u64, travel: u64) -> u64 {
    let (mut store, mut clocks, mut reports) = (Store::default(), Clocks::new(), 0);
    for tick in 0..ticks {
        let begun = clocks.truly;
        let mut page = Page::load(&mut clocks);
        page.begin(&mut store, terms.cloned(), &clocks);
        // Sometimes the answer is as slow as it may be, on either way.
        let (to, from) = if tick % 2 == 0 { (0, travel) } else { (travel, 0) };
        page.attest(&mut clocks, to, from).unwrap();
        reports += u64::from(is_report(&page.reply(&mut store, &clocks, units)));
        clocks.truly = begun + TICK;
    }
    reports
}

#[test]
fn a_device_that_comes_and_goes_answers_by_consent() {
    assert_eq!(visits(None, 12, ALL, 0), 0, "by the strict rule it is refused for ever");
    // A new device waits for a window, and then answers whatever fits into it, as one that is always on does.
    for terms in [signed_time(), wall_clock()] {
        for travel in [0, ROUND_TRIP] {
            assert_eq!(visits(Some(&terms), 303, ALL, travel), 100, "{terms:?}");
            assert_eq!(visits(Some(&terms), 303, ALL / WINDOW, travel), 300, "{terms:?}");
        }
    }
}

#[test]
fn a_clock_that_lies_alone_gains_nothing() {
    for (wall, service) in [(0, 1_000_000), (1_000_000, 0)] {
        let (mut store, mut clocks) = (Store::default(), Clocks::new());
        let mut reports = 0;
        for visit in 0..20 {
            clocks.truly += TICK;
            clocks.wall_ahead += wall;
            clocks.service_ahead += service;
            let mut page = Page::load(&mut clocks);
            page.begin(&mut store, Some(signed_time()), &clocks);
            page.attest(&mut clocks, 0, 0).unwrap();
            // The first delay is a tick longer than what is not known to have passed, at the most.
            if is_report(&page.reply(&mut store, &clocks, ALL)) {
                reports += 1;
            }
            assert!(reports <= visit / WINDOW, "wall {wall}, service {service}: visit {visit}");
        }
        assert!(reports > 0 || wall > 0, "the service's lies cost nothing");
    }
}

#[test]
fn a_signed_time_counts_once_and_for_a_minute() {
    let (mut store, mut clocks) = (Store::default(), Clocks::new());
    let mut page = Page::load(&mut clocks);
    page.begin(&mut store, Some(signed_time()), &clocks);
    let no_time = AgentReply::Refused(RefusalReason::NoTime);
    assert_eq!(page.reply(&mut store, &clocks, 1), no_time);
    let late = page.attest(&mut clocks, 0, ROUND_TRIP + 1);
    assert_eq!(late, Err(TimeError::Late { seconds: ROUND_TRIP + 1 }));
    let say = |page: &mut Page, change: &dyn Fn(&mut SignedTime)| {
        let now = page.reading(&clocks);
        let agent = page.agent.as_mut().unwrap();
        let request = agent.ask_time(now, &mut SeededRandom::new(clocks.truly)).unwrap();
        let mut said = clocks.sign(&request);
        change(&mut said);
        let outcome = agent.attest(now, &said);
        assert_eq!(agent.attest(now, &said), Err(TimeError::NotAsked), "a second time");
        outcome
    };
    let forged = SigningKey::from_bytes(&[8; 32]);
    assert_eq!(say(&mut page, &|said| said.time += 1), Err(TimeError::Signature));
    assert_eq!(say(&mut page, &|said| said.signature.truncate(126)), Err(TimeError::Signature));
    let forge = |said: &mut SignedTime| *said = SignedTime::sign(&said.nonce, said.time, &forged).unwrap();
    assert_eq!(say(&mut page, &forge), Err(TimeError::Signature));
    assert_eq!(say(&mut page, &|said| said.nonce = "0".repeat(32)), Err(TimeError::NotAsked));
    assert_eq!(page.reply(&mut store, &clocks, 1), no_time, "none of these counts");
    let heard = page.attest(&mut clocks, 0, ROUND_TRIP);
    assert_eq!(heard, Ok(()));
    clocks.truly += FRESH;
    assert_eq!(page.reply(&mut store, &clocks, 1), AgentReply::Refused(RefusalReason::Budget));
    clocks.truly += 1;
    assert_eq!(page.reply(&mut store, &clocks, 1), no_time);
    // It holds for no other run.
    page.attest(&mut clocks, 0, 0).unwrap();
    clocks.truly += 5 * TICK;
    page.attest(&mut clocks, 0, 0).unwrap();
    assert!(is_report(&page.reply(&mut store, &clocks, 1)));
    let mut next = Page::load(&mut clocks);
    next.begin(&mut store, Some(signed_time()), &clocks);
    clocks.truly += 1;
    assert_eq!(next.reply(&mut store, &clocks, 2), no_time, "another run");
}

#[test]
fn a_service_that_goes_back_delays_once() {
    // The service is ahead for one visit, by so much. Which visits answer?
    let answered = |ahead: i64| -> Vec<u64> {
        let (mut store, mut clocks) = (Store::default(), Clocks::new());
        let visits = (0..16).filter(|visit| {
            clocks.service_ahead = if *visit == 3 { ahead } else { 0 };
            let mut page = Page::load(&mut clocks);
            page.begin(&mut store, Some(signed_time()), &clocks);
            page.attest(&mut clocks, 0, 0).unwrap();
            let reply = page.reply(&mut store, &clocks, ALL);
            clocks.truly += TICK;
            is_report(&reply)
        });
        visits.collect()
    };
    assert_eq!(answered(0), [3, 6, 9, 12, 15]);
    // From visit 3 to 4 no time is known to have passed.
    assert_eq!(answered(100_000), [3, 7, 10, 13]);
    // Up to the leeway is noise. What the reference knew too much is made up for within the leeway.
    assert_eq!(answered(8), [3, 6, 9, 12, 15]);
}

#[test]
fn the_leeway_is_exact_and_never_adds_up() {
    // The wall clock gains so much at each of three visits, after an answer that spends a window.
    let waits = |gains: u64| {
        let (mut store, mut clocks) = (Store::default(), Clocks::new());
        let mut answered = Vec::new();
        for visit in 0..3 * WINDOW {
            let mut page = Page::load(&mut clocks);
            page.begin(&mut store, Some(signed_time()), &clocks);
            page.attest(&mut clocks, 0, 0).unwrap();
            if is_report(&page.reply(&mut store, &clocks, ALL)) {
                answered.push(visit);
            }
            clocks.truly += TICK - gains;
            clocks.wall_ahead += i64::try_from(gains).unwrap();
        }
        answered
    };
    assert_eq!(waits(0), [3, 6]);
    // Three seconds a visit are within the leeway thrice. The fourth time all twelve are paid, by a tick.
    assert_eq!(waits(3), [3, 7]);
    assert_eq!(waits(LEEWAY), [5], "a tick is paid at every second visit");
}

#[test]
fn consent_ends() {
    for terms in [signed_time(), wall_clock()] {
        let (mut store, mut clocks) = (Store::default(), Clocks::new());
        let end = clocks.truly + 2 * WINDOW * TICK;
        let mut page = Page::load(&mut clocks);
        page.begin(&mut store, Some(AbsenceTerms { until: end, ..terms }), &clocks);
        for left in [2, 1, 0] {
            clocks.truly = end - left;
            page.attest(&mut clocks, 0, 0).unwrap();
            let reply = page.reply(&mut store, &clocks, 2 + left);
            let over = reply == AgentReply::Refused(RefusalReason::ConsentOver);
            assert_eq!(over, left == 0, "{left} s left: {reply:?}");
        }
    }
}

#[test]
fn a_lying_clock_shortens_no_earlier_policys_window() {
    let (mut store, mut clocks) = (Store::default(), Clocks::new());
    let mut page = Page::load(&mut clocks);
    page.begin(&mut store, Some(signed_time()), &clocks);
    clocks.truly += (WINDOW + 1) * TICK;
    page.attest(&mut clocks, 0, 0).unwrap();
    while !is_report(&page.reply(&mut store, &clocks, ALL)) {
        clocks.truly += TICK;
        page.attest(&mut clocks, 0, 0).unwrap();
    }
    let shorter = verified(StreamPolicy { protects: policy(1).protects, ..minutes() });
    let mut waited = 0;
    for visit in 0..100 {
        clocks.wall_ahead += 100_000;
        let page = &mut Page::load(&mut clocks);
        let (found, now, random) = (store.clone(), page.reading(&clocks), &mut SeededRandom::new(visit));
        let (terms, enrol) = (Some(signed_time()), StagedAgent::enrol_anew);
        let staged = enrol(found.found(), "position", shorter.clone(), terms, b"", now, random).unwrap();
        page.agent = Some(store.confirmed(staged).agent);
        page.attest(&mut clocks, 0, 0).unwrap();
        if is_report(&page.reply(&mut store, &clocks, ALL)) {
            break;
        }
        waited += 1;
        clocks.truly += 2 * TICK;
    }
    assert!((2..100).contains(&waited), "it waited for {waited} visits of two ticks each");
}

#[test]
fn bounds_are_those_of_the_proof() {
    let now = EPOCH + 100 * TICK;
    let until = EPOCH + 160 * TICK;
    let bounds = |terms: AbsenceTerms, window| {
        let policy = StreamPolicy { protects: policy(window).protects, ..minutes() };
        let bounds = AbsenceTerms { until, ..terms }.bounds(&policy, now);
        (bounds.stretch, bounds.windows)
    };
    assert_eq!(bounds(wall_clock(), 3), (120, 21), "61 timestamps");
    // A leeway of 10, at most one second of drift, and 9 of a round trip.
    assert_eq!(bounds(signed_time(), 3), (120 - 10 - 1 - 9, 21));
    assert_eq!(bounds(signed_time(), 1), (0, 61));
    let seconds = 10_000 * TICK - LEEWAY;
    assert_eq!(bounds(signed_time(), 10_001).0, seconds - seconds.div_ceil(DRIFT + 1) - 9);
    let said = AbsenceTerms { until, ..signed_time() }.statement(&minutes(), now);
    for part in ["epsilon 1,", "any 100 seconds", "at most 21 times", "If one of the two is right", "both run"] {
        assert!(said.contains(part), "{said}");
    }
    let said = wall_clock().statement(&minutes(), now);
    assert!(said.contains("its own clock alone") && said.contains("any 120 seconds"), "{said}");
}

/// Which clocks lie, in a simulated life.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Lies {
    Wall,
    Service,
    Both,
}

/// A defect of the platform, or a rule that is too weak.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Defect {
    Nothing,
    /// The wall clock counts alone, where it lies.
    TrustsTheWall,
    /// Whoever saves last replaces what is stored.
    NoSwap,
    /// Saves are confirmed and lost, and there is no mark.
    Forgets,
    /// Old copies come back, and there is no mark.
    NoMark,
}

#[derive(Debug, PartialEq, Eq)]
enum Violation {
    /// More than epsilon about the timestamps of one window.
    Window,
    /// More than epsilon in a stretch, or more than the lies explain.
    Time,
    /// Two reports of one identity.
    DrawnTwice,
}

/// A report: the true time, the wall clock, and how far the service had jumped ahead in all when it was drawn.
#[derive(Clone, Copy, Debug)]
struct Left {
    at: u64,
    wall: u64,
    jumped: u64,
    timestamp: u64,
    units: u64,
}

/// A world of one source of data: its store, two tabs, and clocks.
struct World {
    store: Store,
    tabs: [Option<(Page, u64)>; 2],
    clocks: Clocks,
    random: SeededRandom,
    /// When each report was drawn. It may leave in a later run only.
    spent: BTreeMap<ReportId, Left>,
    defect: Defect,
    seed: u64,
}

impl World {
    fn draw(&mut self, below: u64) -> u64 {
        self.random.next_word() % below
    }

    fn terms(&self) -> AbsenceTerms {
        if self.defect == Defect::TrustsTheWall { wall_clock() } else { signed_time() }
    }

    fn save(&mut self, save: &Save) -> bool {
        let is_forgotten = self.defect == Defect::Forgets && self.draw(3) == 0;
        if self.defect == Defect::NoSwap {
            self.store.contents = Some(save.contents.clone());
        }
        self.defect == Defect::NoSwap || is_forgotten || self.store.save(save)
    }

    /// Saves what is staged. `None` if the save fails, or its confirmation is lost.
    fn confirm<T>(&mut self, staged: Staged<T>) -> Option<Confirmed<T>> {
        let fate = self.draw(12);
        if fate == 0 {
            return None;
        }
        if fate == 1 {
            // Another tab is quicker.
            let other = Page::load(&mut self.clocks);
            let staged = other.open(&self.store, Some(self.terms()), &self.clocks, !self.seed ^ self.clocks.truly);
            self.save(staged.unwrap().save());
        }
        if !self.save(staged.save()) || fate == 2 {
            return None;
        }
        let (mark, contents) = (staged.save().mark, staged.save().contents.clone());
        // A store without the swap, or that forgets, confirms what it was given.
        let confirmed = staged.confirm(Saved::read_back(&contents)).unwrap();
        if !matches!(self.defect, Defect::Forgets | Defect::NoMark) {
            self.store.mark = Some(mark);
        }
        Some(confirmed)
    }

    fn load(&mut self) -> Option<(Page, u64)> {
        let mut page = Page::load(&mut self.clocks);
        let staged = page.open(&self.store, Some(self.terms()), &self.clocks, self.seed ^ self.clocks.truly);
        page.agent = Some(self.confirm(staged.unwrap())?.agent);
        Some((page, self.clocks.service_jumped))
    }

    /// A tab asks for the time, and answers a question: its report, if one leaves.
    fn turn(&mut self, page: &mut Page, jumped: &mut u64) -> Option<(ReportId, Vec<u8>)> {
        if self.draw(4) > 0 || page.has_slept {
            let (to, from) = (self.draw(4), self.draw(4));
            if page.attest(&mut self.clocks, to, from).is_ok() {
                (*jumped, page.has_slept) = (self.clocks.service_jumped, false);
            }
            // An answer now would be what the assumption about steady clocks excludes.
            if page.has_slept {
                return None;
            }
        }
        let units = ALL / (1 + self.draw(3));
        let (at, wall, timestamp) = (self.clocks.truly, self.clocks.wall(), self.clocks.timestamp());
        let id = page.agent.as_ref().unwrap().report_id(&question(timestamp, 0, units)).unwrap();
        let turn = page.ask(&self.clocks, units);
        let (agent, reply) = match turn {
            Turn::Done(agent, reply) => (agent, reply),
            Turn::Save(staged) => {
                self.spent.insert(id, Left { at, wall, jumped: *jumped, timestamp, units });
                let Confirmed { agent, reply } = self.confirm(staged)?;
                (agent, reply)
            }
        };
        page.agent = Some(agent);
        let AgentReply::Report(report) = reply.unwrap() else { return None };
        Some((id, report.into_bytes()))
    }
}

/// Simulates a device with faults of its store, two tabs and clocks that lie.
fn live(seed: u64, lies: Lies, defect: Defect) -> Result<usize, Violation> {
    let random = SeededRandom::new(seed);
    let mut world = World {
        store: Store::default(),
        tabs: [None, None],
        clocks: Clocks::new(),
        random,
        spent: BTreeMap::new(),
        defect,
        seed,
    };
    // Timestamps are answered again after a deletion if the wall clock was set back: that is documented.
    let is_wiped = lies == Lies::Service || seed.is_multiple_of(2);
    let (mut copies, mut left) = (vec![Store::default()], Vec::<Left>::new());
    let mut reports = BTreeMap::new();
    for _ in 0..60 {
        let passed = if world.draw(2) == 0 { world.draw(TICK / 2) } else { world.draw(2 * TICK) };
        world.clocks.truly += passed;
        let sleeps = world.draw(4) == 0;
        for (page, _) in world.tabs.iter_mut().flatten().filter(|_| sleeps) {
            (page.stood, page.has_slept) = (page.stood + passed, true);
        }
        let far = 8 * WINDOW * TICK;
        let jump = i64::try_from(world.draw(2 * far)).unwrap() - i64::try_from(far / 2).unwrap();
        if lies != Lies::Service && world.draw(4) == 0 {
            world.clocks.wall_ahead = if world.draw(4) == 0 { 0 } else { world.clocks.wall_ahead + jump };
        }
        if lies != Lies::Wall && world.draw(4) == 0 {
            let jump = if world.draw(4) == 0 { -jump } else { jump.abs() };
            world.clocks.service_ahead += jump;
            world.clocks.service_jumped += u64::try_from(jump).unwrap_or(0);
        }
        match world.draw(30) {
            0 if is_wiped => world.store.contents = None,
            1 if is_wiped || defect == Defect::NoMark => {
                let copy = usize::try_from(world.draw(copies.len() as u64)).unwrap();
                world.store.contents.clone_from(&copies[copy].contents);
            }
            2 => copies.push(world.store.clone()),
            _ => {}
        }
        let tab = usize::from(world.draw(3) == 0);
        let taken = world.tabs[tab].take();
        let opened = if taken.is_none() || world.draw(3) == 0 { world.load() } else { taken };
        let Some((mut page, mut jumped)) = opened else { continue };
        if let Some((id, report)) = world.turn(&mut page, &mut jumped) {
            match reports.insert(id, report.clone()) {
                None => left.push(world.spent[&id]),
                Some(before) if before != report => return Err(Violation::DrawnTwice),
                Some(_) => {}
            }
        }
        world.tabs[tab] = page.agent.is_some().then_some((page, jumped));
    }
    let sum = |belongs: &dyn Fn(&Left) -> bool| -> u64 {
        left.iter().filter(|report| belongs(report)).map(|report| report.units).sum()
    };
    let stretch = signed_time().bounds(&minutes(), 0).stretch;
    for first in &left {
        let window = first.timestamp..first.timestamp + WINDOW;
        if (lies == Lies::Service || !is_wiped) && sum(&|other| window.contains(&other.timestamp)) > ALL {
            return Err(Violation::Window);
        }
        if lies != Lies::Both {
            if sum(&|other| (first.at..=first.at + stretch).contains(&other.at)) > ALL {
                return Err(Violation::Time);
            }
            continue;
        }
        for last in left.iter().filter(|last| last.at >= first.at && !is_wiped) {
            // What the lesser of both clocks says.
            let passed = last.at - first.at;
            let by_the_wall = last.wall.saturating_sub(first.wall);
            let by_the_service = passed + FRESH + 20 + (last.jumped - first.jumped);
            let own = by_the_wall.min(by_the_service + by_the_service / DRIFT);
            let windows = (own.div_ceil(TICK) + 1).div_ceil(WINDOW);
            if sum(&|other| (first.at..=last.at).contains(&other.at)) > ALL * windows {
                return Err(Violation::Time);
            }
        }
    }
    Ok(left.len())
}

#[test]
fn no_simulated_life_gains_more_than_is_stated() {
    for lies in [Lies::Wall, Lies::Service, Lies::Both] {
        let mut reports = 0;
        for seed in 0..700 {
            let left = live(seed, lies, Defect::Nothing);
            reports += left.unwrap_or_else(|violation| panic!("{lies:?}, seed {seed}: {violation:?}"));
        }
        assert!(reports > 2_000, "{lies:?}: only {reports} reports left: the lives are too dull to tell anything");
    }
}

#[test]
fn weaker_rules_and_stores_are_caught() {
    let cases = [
        (Lies::Wall, Defect::TrustsTheWall),
        (Lies::Service, Defect::NoSwap),
        (Lies::Service, Defect::Forgets),
        (Lies::Service, Defect::NoMark),
    ];
    for (lies, defect) in cases {
        let caught = (0..700).find_map(|seed| live(seed, lies, defect).err());
        assert!(caught.is_some(), "{defect:?} went unnoticed");
    }
}
