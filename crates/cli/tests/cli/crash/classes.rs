//! Curators with classes of users, killed while users send events and move.
//!
//! Each user has a value of their own, and budgets are so large that there is practically no noise: a release whose
//! classes are all published shows who was counted. A tick is released whole or not at all, so whoever counts and had
//! an event acknowledged is in it, once; and a change of class that was acknowledged is never lost.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, SystemTime};

use serde_json::{Value, json};
use tidegate_kernel::{Randomness as _, SeededRandom};

use super::Stopping;
use super::audit::audit;
use super::service::{Declared, Killed, Seen, Target, between};

/// Users 0 to 7 move; the others stay where they are, but for the last, who is never registered.
const USERS: usize = 16;
const MOVERS: u64 = 8;

/// Windows and epsilons of the two classes.
const CLASSES: [(u64, u64); 2] = [(3, 1_000), (2, 1_000)];

const STREAMS: [Declared; 3] = [
    Declared {
        name: "pbd",
        tick: 1,
        spec: "family = \"central\"\nmechanism = \"pbd\"\nestimator = \"stratified\"\ndomain = 16\n\
               [[classes]]\nname = \"0\"\nepsilon = 1000\nwindow = 3\n\
               [[classes]]\nname = \"1\"\nepsilon = 1000\nwindow = 2\n",
    },
    Declared {
        name: "pba",
        tick: 1,
        spec: "family = \"central\"\nmechanism = \"pba\"\nestimator = \"stratified\"\ndomain = 16\n\
               [[classes]]\nname = \"0\"\nepsilon = 1000\nwindow = 3\n\
               [[classes]]\nname = \"1\"\nepsilon = 1000\nwindow = 2\n",
    },
    Declared {
        name: "personal_track",
        tick: 1,
        spec: "family = \"central\"\nmechanism = \"personal_track\"\ndomain = 16\n\
               [[classes]]\nname = \"0\"\nepsilon = 1000\nwindow = 3\n\
               [[classes]]\nname = \"1\"\nepsilon = 1000\nwindow = 2\n",
    },
];

/// The tick that is open by the clock of this machine.
fn tick() -> u64 {
    SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap().as_secs()
}

/// The class of a user from a timestamp on: `None` where it is unknown, and `Some(None)` outside all classes.
type Known = (u64, Option<Option<u64>>);

/// Whether a release shows who was there at its timestamp.
///
/// `pbd` publishes all classes each time, since they differ each time. A class of `pba` may repeat an older histogram
/// beside a new one of another class, and `personal_track` estimates from all timestamps. Of these, windows, numbers
/// and changes of classes are compared.
fn is_exact(stream: &str, release: &Value) -> bool {
    stream == "pbd" && release["freshness"] == "fresh"
}

/// A client's record of what it has sent to a stream.
#[derive(Debug, Default)]
struct Knowledge {
    /// By user.
    classes: BTreeMap<u64, Vec<Known>>,
    /// Events by timestamp and user, and whether they were acknowledged.
    events: BTreeMap<(u64, u64), bool>,
}

impl Knowledge {
    fn class(&self, user: u64, timestamp: u64) -> Option<Option<u64>> {
        let known = self.classes.get(&user).map_or(&[][..], Vec::as_slice);
        known.iter().rev().find(|(from, _)| *from <= timestamp).map_or(Some(None), |(_, class)| *class)
    }

    /// Compares the exact releases of a stream. Returns how many users were counted whose events were acknowledged.
    fn compare(&self, stream: &str, releases: &BTreeMap<u64, Value>) -> u64 {
        let (mut total, mut counted_in) = (0, BTreeMap::<u64, Vec<(u64, u64)>>::new());
        for (timestamp, release) in releases.iter().filter(|(_, release)| is_exact(stream, release)) {
            let counts = release["statistic"]["counts"]["counts"].as_array().unwrap();
            for (user, count) in (0..).zip(counts.iter().map(|count| count.as_f64().unwrap())) {
                let event = self.events.get(&(*timestamp, user));
                let who = format!("user {user} of {stream} at {timestamp}, {count}");
                assert!(count < 1.5, "{who}: counted twice");
                let (class, is_counted) = (self.class(user, *timestamp), count > 0.5);
                if is_counted {
                    assert!(event.is_some(), "{who}: has sent nothing");
                    assert_ne!(class, Some(None), "{who}: is in no class");
                } else {
                    let is_lost = event == Some(&true) && matches!(class, Some(Some(_)));
                    assert!(!is_lost, "{who}: was acknowledged, and is not counted; {:?}", self.classes.get(&user));
                }
                total += u64::from(is_counted && event == Some(&true));
                let (true, Some(Some(class))) = (is_counted, class) else { continue };
                let counted = counted_in.entry(user).or_default();
                for (before, other) in counted.iter().filter(|(_, other)| *other != class) {
                    let window = |class: u64| CLASSES[usize::try_from(class).unwrap()].0;
                    assert!(timestamp - before >= window(class).max(window(*other)), "{who}: and at {before}");
                }
                counted.push((*timestamp, class));
            }
        }
        total
    }
}

/// Clients of all streams.
struct Clients<'a> {
    target: &'a Target,
    known: Mutex<BTreeMap<&'static str, Knowledge>>,
    stop: AtomicBool,
}

impl Clients<'_> {
    fn learn(&self, stream: &'static str, learn: impl FnOnce(&mut Knowledge)) {
        learn(self.known.lock().unwrap().entry(stream).or_default());
    }

    fn is_over(&self) -> bool {
        self.stop.load(Ordering::Relaxed)
    }

    /// Moves a user, by a request that is repeated until it is acknowledged.
    fn change(&self, stream: &'static str, user: u64, class: Option<u64>) {
        let path = format!("/v1/streams/{stream}/users/user-{user}");
        // Until the answer is there, nobody knows.
        self.learn(stream, |known| known.classes.entry(user).or_default().push((tick(), None)));
        let answer = loop {
            let answer = match class {
                Some(class) => self.target.request(
                    "ingest",
                    &format!("PUT {path}"),
                    &json!({ "class": class.to_string() }).to_string(),
                ),
                None => self.target.request("ingest", &format!("DELETE {path}"), ""),
            };
            match answer {
                Some((200, body)) => break serde_json::from_str::<Value>(&body).unwrap(),
                // One who has left is forgotten in the end.
                Some((404, _)) if class.is_none() => break Value::Null,
                Some((status, body)) if status < 500 => panic!("{path}: {status} {body}"),
                _ if self.is_over() => return,
                _ => thread::sleep(Duration::from_millis(20)),
            }
        };
        assert_eq!(answer["class"].as_str().map(|class| class.parse().unwrap()), class, "{answer}");
        // Ticks that have begun are not affected, the next one may just begin.
        let applies = tick() + 2;
        self.learn(stream, |known| {
            let known = known.classes.get_mut(&user).unwrap();
            known.push((applies, Some(None)));
            if let Some(from) = answer["from"].as_u64() {
                known.retain(|(begins, class)| *class != Some(None) || *begins < from);
                known.push((from, Some(class)));
            }
        });
    }

    /// Moves users between classes, out of them and back, one at a time.
    fn move_users(&self, seed: u64) {
        let random = &mut SeededRandom::new(seed);
        while !self.is_over() {
            let stream = STREAMS[usize::try_from(random.next_word() % 3).unwrap()].name;
            let class = random.next_word() % 5;
            self.change(stream, random.next_word() % MOVERS, (class > 0).then_some(class % 2));
            thread::sleep(between(random, 100, 500));
        }
    }

    /// Sends events of about half the users to the open tick, each perhaps twice.
    fn send_events(&self, seed: u64) {
        let random = &mut SeededRandom::new(seed);
        while !self.is_over() {
            let stream = STREAMS[usize::try_from(random.next_word() % 3).unwrap()].name;
            let chosen = random.next_word();
            let users: BTreeSet<u64> = (0..USERS as u64).filter(|user| chosen >> user & 1 == 1).collect();
            let body: Vec<Value> =
                users.iter().map(|user| json!({ "user": format!("user-{user}"), "value": user.to_string() })).collect();
            let timestamp = tick();
            self.learn(stream, |known| {
                for user in &users {
                    known.events.entry((timestamp, *user)).or_insert(false);
                }
            });
            let line = format!("POST /v1/streams/{stream}/events?timestamp={timestamp}");
            for _ in 0..1 + random.next_word() % 2 {
                if let Some((200, _)) = self.target.request("ingest", &line, &json!(body).to_string()) {
                    self.learn(stream, |known| {
                        known.events.extend(users.iter().map(|user| ((timestamp, *user), true)));
                    });
                }
            }
            thread::sleep(between(random, 10, 60));
        }
    }
}

fn survives_kills(mut store: Killed, seed: u64) {
    let target = Target::new(&STREAMS, &store.line());
    let clients = Clients { target: &target, known: Mutex::default(), stop: AtomicBool::new(false) };
    let serving = target.home.serve();
    for stream in STREAMS {
        (0..USERS as u64 - 1).for_each(|user| clients.change(stream.name, user, Some(user % 2)));
    }
    serving.kill();
    let (random, mut read, mut kills) = (&mut SeededRandom::new(seed), Seen::default(), 0);
    thread::scope(|scope| {
        let stopping = Stopping(&clients.stop);
        for sender in 0..3 {
            let clients = &clients;
            scope.spawn(move || clients.send_events(100 * seed + sender));
        }
        scope.spawn(|| clients.move_users(100 * seed + 50));
        // A tick is released if a service lives all the while.
        let lives = |random: &mut SeededRandom| match random.next_word() % 3 {
            0 => between(random, 100, 900),
            _ => between(random, 2_500, 4_500),
        };
        let observe = || STREAMS.iter().for_each(|stream| read.on(&target, stream.name));
        kills = store.again_and_again(&target, random, lives, observe);
        drop(stopping);
    });
    let (serving, last) = (target.home.serve(), tick() + 1);
    let known = clients.known.lock().unwrap();
    for stream in STREAMS {
        let releases = read.all(&target, stream.name, last);
        let known = &known[stream.name];
        let total = known.compare(stream.name, &releases);
        audit(&target, stream.name, &releases, &CLASSES);
        // Acknowledged changes survive.
        for (user, classes) in &known.classes {
            let Some(class) = classes.last().unwrap().1 else { continue };
            let path = format!("GET /v1/streams/{}/users/user-{user}", stream.name);
            let (status, body) = target.request("ingest", &path, "").unwrap();
            let found: Value = serde_json::from_str(&body).unwrap();
            // Users who have left are forgotten in the end.
            let found = if status == 404 { None } else { found["class"].as_str().map(|class| class.parse().unwrap()) };
            assert_eq!(found, class, "{path}: {body}");
        }
        println!("{}: {kills} kills, {} releases, {total} users compared", stream.name, releases.len());
        assert!(releases.len() >= 3 && (total > 0 || stream.name != "pbd"), "{}: {total}", stream.name);
    }
    assert_eq!(serving.terminate().0, Some(0));
    assert!(kills >= 3, "{kills} kills");
}

#[test]
fn users_who_move_between_classes_of_services_that_are_killed_are_counted_once() {
    survives_kills(Killed::Sqlite, 21);
}

#[test]
fn users_who_move_between_classes_on_postgres_that_is_killed_are_counted_once() {
    survives_kills(Killed::postgres(), 22);
}

/// A release in which each of these users counts so often.
fn release(timestamp: u64, counts: &[(usize, f64)]) -> (u64, Value) {
    let mut all = [0.0; USERS];
    counts.iter().for_each(|(user, count)| all[*user] = *count);
    (timestamp, json!({ "freshness": "fresh", "statistic": { "counts": { "counts": all } } }))
}

#[test]
fn finds_users_who_are_lost_counted_twice_or_in_two_classes() {
    let known = || {
        let mut known = Knowledge::default();
        known.classes.insert(1, vec![(0, Some(Some(0))), (8, Some(Some(1)))]);
        known.classes.insert(2, vec![(0, Some(Some(1))), (6, Some(None))]);
        known.events.extend((0..20).flat_map(|timestamp| [((timestamp, 1), true), ((timestamp, 2), timestamp < 6)]));
        known
    };
    let finds = |releases: &[(u64, Value)]| {
        let releases = releases.iter().cloned().collect();
        std::panic::catch_unwind(|| known().compare("pbd", &releases)).is_err()
    };
    assert_eq!(known().compare("pbd", &[release(3, &[(1, 1.0), (2, 0.9)])].into()), 2);
    assert!(!finds(&[release(6, &[(1, 1.0)]), release(9, &[(1, 1.0)])]));
    assert!(finds(&[release(3, &[(1, 1.0)])]), "user 2 is lost");
    assert!(finds(&[release(3, &[(1, 2.0), (2, 1.0)])]), "user 1 is counted twice");
    assert!(finds(&[release(6, &[(1, 1.0), (2, 1.0)])]), "user 2 has left");
    assert!(finds(&[release(3, &[(1, 1.0), (2, 1.0), (5, 1.0)])]), "user 5 has sent nothing");
    assert!(finds(&[release(7, &[(1, 1.0)]), release(9, &[(1, 1.0)])]), "user 1 counts in two classes");
}
