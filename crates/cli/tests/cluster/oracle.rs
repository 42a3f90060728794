//! Comparison of what was released with what was sent, by a count of its own.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;
use tidegate_kernel::oracle::Aggregate;
use tidegate_server::store::Missing;

use crate::audit::{Total, Totals};
use crate::fleet::{Answers, Question};
use crate::streams::Declared;
use crate::watch::Seen;

/// Comparisons of a run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Figures {
    /// Questions with acknowledged reports.
    pub(crate) questions: u64,
    /// Acknowledged reports, each of which was counted once.
    pub(crate) acknowledged: u64,
    /// Reports whose outcome the sender did not learn, and how many of them were counted.
    pub(crate) unknown: u64,
    pub(crate) unknown_counted: u64,
    /// Releases whose estimates were computed again.
    pub(crate) estimates: u64,
    pub(crate) releases: u64,
}

impl Figures {
    pub(crate) fn add(&mut self, other: &Self) {
        self.questions += other.questions;
        self.acknowledged += other.acknowledged;
        self.unknown += other.unknown;
        self.unknown_counted += other.unknown_counted;
        self.estimates += other.estimates;
        self.releases += other.releases;
    }
}

/// How often each cell must and may be counted, and how many reports there are.
#[derive(Debug)]
struct Bounds {
    least: Vec<u64>,
    most: Vec<u64>,
    reports: (u64, u64),
}

impl Bounds {
    /// Counts what was sent, report by report.
    fn of(answers: &Answers, cells: u32) -> Self {
        let empty = || vec![0; cells as usize];
        let mut bounds = Self { least: empty(), most: empty(), reports: (0, 0) };
        for sent in answers.sent.values() {
            for (place, report) in sent.cells.iter().enumerate() {
                let other = sent.others.as_ref().and_then(|others| others.get(place));
                let is_counted = sent.acknowledged || (sent.others_acknowledged && other.is_some());
                bounds.reports.0 += u64::from(is_counted);
                bounds.reports.1 += 1;
                for cell in report.iter().chain(other.into_iter().flatten()) {
                    bounds.most[*cell as usize] += 1;
                }
                // Of two reports under one identity, either is counted.
                let surely = report.iter().filter(|cell| other.is_none_or(|other| other.contains(cell)));
                if is_counted {
                    surely.for_each(|cell| bounds.least[*cell as usize] += 1);
                }
            }
        }
        bounds
    }
}

/// Compares the total of a question with what was sent.
fn compare(question: Question, answers: &Answers, total: &Total, figures: &mut Figures) -> Vec<String> {
    let cells = total.counts.as_ref().map_or(0, |counts| counts.oracle().domain());
    let mut wrong = Vec::new();
    if total.missing != Missing::NOTHING {
        wrong.push(format!("{question:?}: reports are missing: {:?}", total.missing));
    }
    let Some(counts) = &total.counts else {
        if answers.sent.values().any(|sent| sent.acknowledged || sent.others_acknowledged) {
            wrong.push(format!("{question:?}: reports were acknowledged, and nobody is counted"));
        }
        return wrong;
    };
    let (bounds, supports, reports) = (Bounds::of(answers, cells), counts.supports(), counts.reports());
    let (least, most) = bounds.reports;
    if !(least..=most).contains(&reports) {
        wrong.push(format!("{question:?}: {least} reports were acknowledged, {most} sent, and {reports} are counted"));
    }
    for (cell, count) in supports.iter().enumerate() {
        let (least, most) = (bounds.least[cell], bounds.most[cell]);
        if !(least..=most).contains(count) {
            wrong.push(format!("{question:?}, cell {cell}: {count} is not within {least} and {most}"));
        }
    }
    // Of two reports under one identity, exactly one is counted, where their cells show it.
    for sent in answers.sent.values() {
        let others = sent.others.as_ref().into_iter().flatten();
        for (one, other) in sent.cells.iter().zip(others) {
            let ([a], [b]) = (one.as_slice(), other.as_slice()) else { continue };
            let (a, b) = (*a as usize, *b as usize);
            if bounds.most[a] == 1 && bounds.most[b] == 1 {
                let counted = supports[a] + supports[b];
                if counted > 1 || (counted == 0 && (sent.acknowledged || sent.others_acknowledged)) {
                    wrong.push(format!("{question:?}: of two reports under one identity, {counted} are counted"));
                }
            }
        }
    }
    figures.questions += u64::from(least > 0);
    figures.acknowledged += least;
    figures.unknown += most - least;
    figures.unknown_counted += reports.saturating_sub(least);
    wrong
}

/// The estimates that a release must state: of each of its timestamps.
fn estimates(stream: &Declared, counts: &Aggregate) -> Vec<Vec<f64>> {
    if stream.length == 1 {
        return vec![counts.estimate().unwrap().frequencies().to_vec()];
    }
    // A sequence's number is made of its symbols, the first one in the highest digit.
    let (supports, length) = (counts.supports(), u32::try_from(stream.length).unwrap());
    let symbols = (1..=supports.len()).find(|symbols| symbols.pow(length) == supports.len()).unwrap();
    let digit = |number: usize, place: u32| number / symbols.pow(length - 1 - place) % symbols;
    let of_place = |place: u32| {
        let mut sums = vec![0.0; symbols];
        supports.iter().enumerate().for_each(|(number, count)| sums[digit(number, place)] += *count as f64);
        sums
    };
    (0..length).map(of_place).collect()
}

fn numbers(release: &Value) -> Option<Vec<f64>> {
    let statistic = release["statistic"].as_object()?.values().next()?;
    let array =
        statistic.as_array().or_else(|| ["frequencies", "counts"].iter().find_map(|key| statistic[*key].as_array()))?;
    array.iter().map(Value::as_f64).collect()
}

/// Compares everything. Pushes what is wrong.
pub(crate) fn check(
    streams: &[Declared],
    memory: &BTreeMap<Question, Answers>,
    totals: &Totals,
    releases: &BTreeMap<(&'static str, u64), Seen>,
    wrong: &mut Vec<String>,
) -> Figures {
    let mut figures = Figures::default();
    for (question, answers) in memory {
        let (stream, timestamp, phase) = *question;
        match totals.get(&(stream.to_owned(), timestamp, phase)) {
            Some(total) => wrong.extend(compare(*question, answers, total, &mut figures)),
            None => wrong.push(format!("{question:?} was asked, and is not over")),
        }
    }
    for stream in streams {
        let own = || releases.iter().filter(|((name, _), _)| *name == stream.name).map(|(_, seen)| seen);
        let mut timestamps = BTreeSet::new();
        for seen in own() {
            figures.releases += 1;
            if !timestamps.insert(seen.timestamp) {
                wrong.push(format!("timestamp {} of {} is released twice", seen.timestamp, stream.name));
            }
        }
        for (_, timestamp, _) in memory.keys().filter(|(name, ..)| *name == stream.name) {
            if !timestamps.contains(timestamp) {
                wrong.push(format!("timestamp {timestamp} of {} was asked about, and is not released", stream.name));
            }
        }
        for seen in own().filter(|seen| seen.release["freshness"] == "fresh") {
            // The last question of the release's timestamps is the one that it publishes.
            let end = seen.timestamp - seen.timestamp % stream.length + stream.length - 1;
            let key = |phase| (stream.name.to_owned(), end, phase);
            let Some((_, total)) = totals.range(key(0)..=key(u16::MAX)).next_back() else { continue };
            let Some(counts) = &total.counts else { continue };
            let place = usize::try_from(seen.timestamp % stream.length).unwrap();
            let expected = &estimates(stream, counts)[place];
            // Releases state rounded numbers; a report more or less changes them by far more.
            let is_same = |stated: &[f64]| {
                let pairs = || stated.iter().zip(expected);
                stated.len() == expected.len()
                    && pairs().all(|(one, other)| (one - other).abs() < 1e-8 + 1e-6 * other.abs())
            };
            if !numbers(&seen.release).is_some_and(|stated| is_same(&stated)) {
                let stated = numbers(&seen.release).unwrap_or_default();
                let pair = stated.iter().zip(expected).find(|(one, other)| one != other);
                let (name, at) = (stream.name, seen.timestamp);
                wrong.push(format!("{name} at {at}: the release is not the estimate, at first {pair:?}"));
            }
            figures.estimates += 1;
        }
    }
    figures
}

/// The comparison itself: it finds every kind of mistake that a cluster can make.
mod tests {
    use serde_json::json;
    use tidegate_kernel::Epsilon;
    use tidegate_kernel::oracle::{Oracle, OracleKind};

    use super::*;
    use crate::fleet::Sent;

    const QUESTION: Question = ("uniform", 7, 0);

    fn sent(cells: &[u32], others: Option<u32>, acknowledged: bool) -> Sent {
        let each = |cell: &u32| vec![*cell];
        let others = others.map(|cell| vec![vec![cell]]);
        Sent { cells: cells.iter().map(each).collect(), others, acknowledged, others_acknowledged: false }
    }

    /// Counts these cells, and returns what is wrong, and how much was compared.
    fn problems(counted: &[u32], missing: Missing, change: impl FnOnce(&mut Value)) -> (Vec<String>, Figures) {
        // Two acknowledged reports, one without an answer, and two under one identity.
        let sent = [sent(&[0, 1], None, true), sent(&[2], None, false), sent(&[3], Some(4), true)];
        let mut answers = Answers::default();
        answers.sent = (0..).zip(sent).collect();
        let streams = Declared::all();
        let stream = streams.iter().find(|stream| stream.name == QUESTION.0).unwrap();
        let oracle = Oracle::new(OracleKind::Grr, stream.cells, "20".parse::<Epsilon>().unwrap()).unwrap();
        let mut counts = oracle.aggregate();
        counted.iter().for_each(|cell| counts.add(&cell.to_le_bytes()[..oracle.report_length()]).unwrap());
        let estimate = counts.estimate().unwrap().into_frequencies();
        let mut release = json!({ "freshness": "fresh", "statistic": { "frequencies": { "frequencies": estimate } } });
        change(&mut release);
        let releases = BTreeMap::from([((stream.name, 1), Seen::of(QUESTION.1, release))]);
        let totals = Totals::from([((stream.name.to_owned(), 7, 0), Total { counts: Some(counts), missing })]);
        let mut wrong = Vec::new();
        let figures = check(&streams, &BTreeMap::from([(QUESTION, answers)]), &totals, &releases, &mut wrong);
        (wrong, figures)
    }

    #[test]
    fn finds_reports_that_are_lost_doubled_or_invented() {
        let is_found = |counted: &[u32]| !problems(counted, Missing::NOTHING, |_| ()).0.is_empty();
        assert!(!is_found(&[0, 1, 3]) && !is_found(&[0, 1, 4]) && !is_found(&[4, 2, 1, 0]));
        assert!(is_found(&[0, 3]), "one is lost");
        assert!(is_found(&[0, 2, 3]), "one is lost, though the number is right");
        assert!(is_found(&[0, 1, 1, 3]), "one is doubled");
        assert!(is_found(&[0, 1, 3, 5]), "one is invented");
        assert!(is_found(&[0, 1, 2]) && is_found(&[0, 1, 3, 4]), "of two under one identity, none or both");
        let (wrong, figures) = problems(&[0, 1, 2, 3], Missing::NOTHING, |_| ());
        assert!(wrong.is_empty());
        assert_eq!((figures.acknowledged, figures.unknown, figures.unknown_counted, figures.estimates), (3, 1, 1, 1));
    }

    #[test]
    fn finds_wrong_estimates_and_missing_reports() {
        assert!(!problems(&[0, 1, 3], Missing::Reports(1), |_| ()).0.is_empty());
        let change = |release: &mut Value| release["statistic"]["frequencies"]["frequencies"][0] = json!(0.5);
        assert!(!problems(&[0, 1, 3], Missing::NOTHING, change).0.is_empty());
    }
}
