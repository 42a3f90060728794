//! The ledger audit: sums that are right, overspending that is found, and errors that name their place.

use std::num::NonZeroU64;

use proptest::prelude::*;
use tidegate::central::{Central, CentralKind, CentralSettings};
use tidegate::local::{Local, LocalKind, LocalSettings, Step};
use tidegate::release::{Freshness, Number, Release, Spent};
use tidegate_kernel::simulation::estimate_of;
use tidegate_kernel::{Epsilon, Sealed, SeededRandom};
use tidegate_lab::audit::ledger::{Limit, Spend, in_epsilons, read, statement, statement_by};

fn window(length: u64) -> NonZeroU64 {
    NonZeroU64::new(length).unwrap()
}

fn one() -> Epsilon {
    "1".parse().unwrap()
}

fn of(text: &str) -> Vec<Spend> {
    read("record", text.as_bytes()).unwrap()
}

fn refused(text: &str) -> String {
    read("record", text.as_bytes()).unwrap_err().to_string()
}

#[test]
fn the_first_window_that_overspends_is_told_with_its_exact_sum() {
    let record = "t,spent\n0,0.5\n1,\n2,0.500000001\n3,0.4\n9,1\n";
    let found = statement(&of(record), Some(window(2)), one());
    assert_eq!((found.spends, found.windows, found.overspent), (4, 4, None));
    assert_eq!(in_epsilons(found.largest.unwrap().units), "1");
    let found = statement(&of(record), Some(window(3)), one()).overspent.unwrap();
    assert_eq!((found.first, found.last, found.units), (0, 2, 1_000_000_001));
    let last = format!("t,spent\n{0},0.6\n{0},0.6\n", u64::MAX);
    assert_eq!(statement(&of(&last), Some(window(2)), one()).overspent.unwrap().first, u64::MAX - 1);
    let forever = statement(&of(record), None, one()).overspent.unwrap();
    assert_eq!((forever.first, forever.last, in_epsilons(forever.units).as_str()), (0, 2, "1.000000001"));
}

#[test]
fn amounts_are_read_exactly_whatever_they_look_like_and_rounded_up() {
    let amounts = ["1", "1.0", "0.1", "1e-9", "2.5E-1", "0.0000000001", "1000000"];
    let expected = [1_000_000_000, 1_000_000_000, 100_000_000, 1, 250_000_000, 1, 1_000_000_000_000_000];
    for (amount, expected) in amounts.iter().zip(expected) {
        assert_eq!(of(&format!("t,spent\n7,{amount}\n"))[0].units, expected, "{amount}");
        assert_eq!(of(&format!("{{\"t\": 7, \"spent\": {amount}}}\n"))[0].units, expected, "{amount}");
        assert_eq!(of(&format!("{{\"t\": 7, \"spent\": \"{amount}\"}}\n"))[0].units, expected, "{amount}");
    }
    assert!(of("t,spent\n7,0\n8,\n").is_empty());
    assert!(of("{\"timestamp\": 7, \"spent\": null}\n\n").is_empty());
}

#[test]
fn lines_of_one_release_count_once_and_must_agree() {
    let table = "t,value,frequency,spent\n0,a,0.1,0.6\n0,b,0.9,0.6\n1,a,0.2,0.3\n1,b,0.8,0.3\n";
    assert_eq!(of(table).len(), 2);
    let other = table.replace("1,b,0.8,0.3", "1,b,0.8,0.4");
    assert_eq!(refused(&other), "record, line 5, field \"spent\": expected what the other lines of this release say");
    let tree = "t,first,last,frequency,spent\n0,0,7,1,0.6\n0,0,3,0.4,0.6\n0,4,7,0.6,0.6\n";
    assert_eq!(of(tree).len(), 1);
    // A release begins anew where its first value comes again.
    let twice = table.replace("1,a,0.2", "0,a,0.2").replace("1,b,0.8", "0,b,0.8");
    assert_eq!(of(&twice).len(), 2);
    let object = |value: &str| format!("{{\"t\":0,\"value\":\"{value}\",\"count\":1,\"spent\":\"0.6\"}}\n");
    assert_eq!(of(&(object("a") + &object("b"))).len(), 1);
    // A number has one line, so that each is a spend of its own.
    assert_eq!(of("t,value,variance,spent\n0,1.5,2,0.6\n0,1.7,2,0.6\n").len(), 2);
    // Without values, each line is a spend of its own.
    assert!(statement(&of("t,spent\n0,0.6\n0,0.6\n"), Some(window(1)), one()).overspent.is_some());
}

#[test]
fn accounts_and_slots_are_kept_apart() {
    let users = "t,user,spent\n0,ann,0.7\n0,bob,0.7\n1,bob,0.4\n";
    let overspent = statement(&of(users), Some(window(2)), one()).overspent.unwrap();
    assert_eq!((overspent.account.as_str(), overspent.last), ("bob", 1));
    let slots = "t,first_slot,slots,spent\n0,0,60000,1\n1,60000,5536,1\n";
    assert_eq!(statement(&of(slots), Some(window(2)), one()).overspent, None);
    // Around the end: slot 0 is asked twice.
    let around = "t,first_slot,slots,spent\n0,0,60000,1\n1,60000,5537,1\n";
    let overspent = statement(&of(around), Some(window(2)), one()).overspent.unwrap();
    assert_eq!((overspent.slot, overspent.units), (Some(0), 2_000_000_000));
}

#[test]
fn the_payers_of_a_release_are_read_from_text_and_json() {
    let epsilon = |text: &str| text.parse::<Epsilon>().unwrap();
    for (spent, accounts) in [
        (Spent::Nothing, Vec::new()),
        (Spent::Everyone(epsilon("0.05")), vec![("", 50_000_000, None)]),
        (
            Spent::Slots { first: 60_000, count: 6_000, epsilon: one() },
            vec![("", 1_000_000_000, Some((60_000, 6_000)))],
        ),
        (
            Spent::by_class([(0, epsilon("0.025")), (12, epsilon("0.1"))]),
            vec![("class 0", 25_000_000, None), ("class 12", 100_000_000, None)],
        ),
    ] {
        let expected: Vec<Spend> = accounts
            .into_iter()
            .map(|(account, units, slots)| Spend { timestamp: 7, units, account: account.to_owned(), slots })
            .collect();
        let statistic = Number { value: 1.0, variance: 1.0 }.into();
        let (freshness, text) = (Freshness::Fresh, spent.to_string());
        let release = Release { timestamp: 7, statistic, freshness, spent, reports: 0, seeded: false, why: None };
        assert_eq!(Spend::of_release(&release), expected);
        assert_eq!(of(&format!("t,spent,seeded\n7,{text},false\n")), expected);
        assert_eq!(of(&format!("{{\"t\":7,\"spent\":\"{text}\",\"seeded\":false}}\n")), expected);
        let json = serde_json::to_string(&release).unwrap();
        assert_eq!(of(&format!("{json}\n")), expected);
        // As the service lists it, and as its feed has it.
        let record = format!("{{\"number\":1,\"version\":3,\"timestamp\":7,\"release\":{json}}}");
        assert_eq!(of(&format!("{record}\n")), expected);
        let page = format!("{{\"stream\":\"visitors\",\"releases\":[{record},{record}],\"next\":null}}");
        assert_eq!(of(&page).len(), 2 * expected.len());
    }
    for nonsense in ["1 of", "1 of class x", "1 of class", "1 of slots 0", "1 of slots 0+0", "1 of us", "1;", "1; x"] {
        assert!(refused(&format!("t,spent\n7,{nonsense}\n")).starts_with("record, line 2, field "), "{nonsense}");
    }
}

#[test]
fn each_account_has_the_limit_that_it_is_given() {
    let spends = of("t,spent\n0,0.5 of class 0; 1 of class 1\n1,0.5 of class 0; 1 of class 1\n");
    let limit = |account: &str| match account {
        "class 0" => Limit { window: Some(window(2)), budget: one() },
        _ => Limit { window: Some(window(1)), budget: one() },
    };
    assert_eq!(statement_by(&spends, limit).overspent, None);
    let overspent = statement_by(&spends, |_| limit("class 0")).overspent.unwrap();
    assert_eq!((overspent.account.as_str(), overspent.units, overspent.budget), ("class 1", 2_000_000_000, one()));
}

#[test]
fn what_is_malformed_is_told_with_its_line_and_field() {
    assert_eq!(refused("t,value\n0,1\n"), "record, line 1: a record of spends has at least the fields t and spent");
    let amount = "expected an amount: a decimal that is not negative, or nothing";
    assert_eq!(refused("t,spent\n0,1\n1,-0.5\n"), format!("record, line 3, field \"spent\": {amount}"));
    assert_eq!(refused("t,spent\n0,1e30\n"), format!("record, line 2, field \"spent\": {amount}"));
    assert_eq!(refused("t,spent\n0,nan\n"), format!("record, line 2, field \"spent\": {amount}"));
    let timestamp = "expected a timestamp: a whole number, zero or more";
    assert_eq!(refused("timestamp,spent\n-1,1\n"), format!("record, line 2, field \"timestamp\": {timestamp}"));
    assert_eq!(refused("{\"t\": 1.5, \"spent\": 1}"), format!("record, line 1, field \"t\": {timestamp}"));
    assert_eq!(refused("t,spent\n0,1\n1\n"), "record, line 3: it has 1 fields, but 2 are expected");
    assert_eq!(refused("{\"t\": 0, \"spent\": 1}\n{\"t\": 1,\n"), "record: line 2 is no JSON object");
    assert!(refused("{\"t\": 0}\n").starts_with("record, line 1, field \"spent\": expected an amount"));
    assert!(refused("{\"t\": 0, \"spent\": [1]}\n").starts_with("record, line 1, field \"spent\""));
    assert!(refused("t,first_slot,slots,spent\n0,1,,1\n").starts_with("record, line 2, field \"slots\""));
    assert!(refused("t,first_slot,slots,spent\n0,70000,1,1\n").starts_with("record, line 2, field \"first_slot\""));
}

#[test]
fn the_releases_of_central_mechanisms_and_the_questions_of_local_ones_keep_their_budget() {
    let (epsilon, length, domain) = (one(), window(4), 3);
    for kind in CentralKind::ALL {
        let mut mechanism = Central::new(kind, CentralSettings::new(epsilon, length, domain)).unwrap();
        let mut random = SeededRandom::new(1);
        let mut spends = Vec::new();
        for timestamp in 0..200 {
            let count = if timestamp % 7 < 3 { 500 } else { 0 };
            let counts = Sealed::at(mechanism.ledger().account(), timestamp, vec![count; 3]);
            spends.extend(mechanism.push(&counts, &mut random).unwrap().iter().flat_map(Spend::of_release));
        }
        let found = statement(&spends, Some(length), epsilon);
        assert_eq!(found.overspent, None, "{kind}");
        assert!(found.largest.unwrap().units > 700_000_000, "{kind}");
        // A window that is one too long has spent more than it may: the audit would see it.
        assert!(statement(&spends, Some(window(5)), epsilon).overspent.is_some(), "{kind}");
    }
    for kind in LocalKind::ALL {
        let settings = LocalSettings::new(epsilon, length, domain, window(10_000));
        let mut mechanism = Local::new(kind, settings).unwrap();
        let mut random = SeededRandom::new(2);
        let (mut spends, mut released) = (Vec::new(), Vec::new());
        for timestamp in 0..200 {
            let mut step = mechanism.open(timestamp).unwrap();
            while let Step::Ask(questions) = step {
                spends.extend(questions.iter().map(Spend::of_question));
                let answer = |question: &tidegate_kernel::Question| {
                    let users = (1e4 * question.cohort.share()) as u64;
                    let mut counts = vec![1; question.cells() as usize];
                    counts[question.cell_of(u32::from(timestamp % 7 < 3)) as usize] += users;
                    estimate_of(&question.oracle().unwrap(), &counts, &mut random).ok()
                };
                let answers: Vec<_> = questions.iter().map(answer).collect();
                step = mechanism.answer(&questions, &answers).unwrap();
            }
            let Step::Done(release) = step else { panic!("it is done") };
            released.extend(Spend::of_release(&release));
        }
        let found = statement(&spends, Some(length), epsilon);
        assert_eq!(found.overspent, None, "{kind}");
        assert!(found.largest.as_ref().unwrap().units > 700_000_000, "{kind}");
        // Releases say the same as the questions: what the fullest window has spent, of everyone or of some slot.
        let said = statement(&released, Some(length), epsilon);
        assert_eq!(said.overspent, None, "{kind}");
        assert_eq!(said.largest.map(|largest| largest.units), found.largest.map(|largest| largest.units), "{kind}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: 500,
        failure_persistence: None,
        rng_seed: proptest::test_runner::RngSeed::Fixed(4),
        ..ProptestConfig::default()
    })]

    /// By the definition: for each slot and each timestamp, the sum of all that was spent in the window that ends
    /// there.
    #[test]
    fn sums_are_those_of_the_definition(
        length in 1_u64..5,
        spends in prop::collection::vec((0_u64..12, 0_u64..9, 0_u16..6, 1_u32..7), 0..25),
    ) {
        let spends: Vec<Spend> = spends
            .into_iter()
            .map(|(timestamp, units, first, count)| {
                let slots = (count < 6).then_some((first.wrapping_mul(13_000), count * 10_000));
                Spend { timestamp, units, account: String::new(), slots }
            })
            .collect();
        let asked = |spend: &Spend, slot: u16| {
            spend.slots.is_none_or(|(first, count)| u32::from(slot.wrapping_sub(first)) < count)
        };
        let mut most = 0;
        for slot in (0..=u16::MAX).step_by(500) {
            for end in 0..12_u64 {
                let within = |spend: &&Spend| spend.timestamp <= end && spend.timestamp + length > end;
                let spent = spends.iter().filter(within).filter(|spend| asked(spend, slot));
                let sum: u128 = spent.map(|spend| u128::from(spend.units)).sum();
                most = most.max(sum);
            }
        }
        let found = statement(&spends, Some(window(length)), Epsilon::MIN);
        prop_assert_eq!(found.largest.map_or(0, |largest| largest.units), most);
        prop_assert_eq!(found.overspent.is_some(), most > 1);
    }
}
