//! Figure 8: how often a person is recognised by what is released.

use std::sync::Arc;

use tidegate::sequence::distance::Distance;
use tidegate::sequence::model::{Model, ModelError, Order};
use tidegate_lab::experiment::repeat_random;
use tidegate_lab::metrics::Summary;
use tidegate_lab::plot::Axis;
use tidegate_lab::sequence::SMOOTHING;
use tidegate_lab::sequence::identify::{Way, likeliest, watch};
use tidegate_lab::stream::{DataStream, Space, SymbolStream, as_float};

use super::gaze::GAZE;
use super::{RR_TWICE, TWICE};
use crate::compare::epsilon_of;
use crate::verdict::{Demand, Tally, all_below, short, smaller};
use crate::{ASKED_HERE, Claim, Cut, Experiment, ReproduceError, Results, Session, lines, named, repeats};

const EPSILONS: [f64; 3] = [0.2, 0.5, 1.0];
const ORDERS: [(&str, Order); 2] = [("order 1", Order::One), ("order 2", Order::Two)];

/// Symbols of one release: a second.
const SECOND: usize = 50;
/// Releases of each person.
const RELEASES: usize = 4;

const BY_ANSWERS: &str = "recognised_by_answers";
const BY_MECHANISM: &str = "recognised_by_mechanism";
const SERIES: [&str; 5] = ["rr", TWICE, "crr, by distance", "batched, 5", "batched, 10"];
const CHANCE: &str = "constant";

pub(super) const FIGURE_8: Experiment = Experiment {
    name: "sequence-privacy-fig8",
    place: "Figure 8",
    title: "recognition of people",
    caption: "Share of releases of one second whose person is named rightly, out of six, over ε for each position. The \
              attacker knows a Markov chain of each person, learned from the first half of the data, and names the \
              likeliest. By answers: the attacker takes answers for positions. By mechanism: the attacker computes \
              how likely each person is to release just this through the mechanism.",
    data: &[GAZE],
    repeats: repeats(3),
    seconds: 150,
    measure: figure_8,
    panels: |table| {
        let panel = |metric, what: &str| {
            let panels = lines(table, metric, &Axis::linear("ε"), &Axis::linear("share recognised"), |_| true);
            named(panels, |panel| format!("{panel}, {what}"))
        };
        let mut panels = panel(BY_ANSWERS, "by answers");
        panels.extend(panel(BY_MECHANISM, "by mechanism"));
        panels
    },
    published: &[],
    claims: &[
        Claim {
            text: "An attacker who looks at answers alone recognises fewest people under LDP (rr stands in for \
                   Temporal LDP)",
            place: "section VI-B",
            check: |table| {
                let ours = ["crr, by distance", "batched, 5", "batched, 10"];
                all_below(table, BY_ANSWERS, &["rr"], &ours).judge(Demand::Mostly)
            },
        },
        Claim {
            text: "An attacker who knows the patterns recognises more people, whatever the mechanism",
            place: "section VI-B",
            check: |table| {
                let mut tally = Tally::new();
                for panel in table.panels() {
                    for series in SERIES {
                        for (at, blind) in table.along(panel, series, BY_ANSWERS) {
                            if let Some(knowing) = table.get(panel, series, at.clone(), BY_MECHANISM) {
                                let what = format!("{panel}, {series} at {at}: {} to {}", short(blind), short(knowing));
                                tally.add(smaller(blind, knowing), what);
                            }
                        }
                    }
                }
                tally.judge(Demand::Mostly)
            },
        },
        Claim {
            text: "That attacker recognises fewer people under SIP than under LDP at the same ε",
            place: "section VI-B",
            check: |table| {
                let ours = ["crr, by distance", "batched, 5", "batched, 10"];
                all_below(table, BY_MECHANISM, &ours, &["rr"]).judge(Demand::Mostly)
            },
        },
        Claim {
            text: "Fewer than under LDP at 2ε, which SIP implies",
            place: ASKED_HERE,
            check: |table| {
                let ours = ["crr, by distance", "batched, 5", "batched, 10"];
                all_below(table, BY_MECHANISM, &ours, &[TWICE]).judge(Demand::Mostly)
            },
        },
    ],
    notes: &[
        "The paper's attacker is a neural network, which it does not describe. This one is no weaker, for people who \
         are Markov chains: among attackers with these chains, none is right more often than by the mechanism.",
        "Epsilon bounds what a release tells about positions. Two people whose gazes differ much can be told apart by \
         a second of them, at any epsilon that leaves the positions useful.",
    ],
};

/// What releases are recognised by.
struct People {
    public: Arc<Model>,
    models: Vec<Model>,
}

fn people(stream: &SymbolStream, order: Order) -> Result<People, ReproduceError> {
    let halves: Vec<&[u32]> = stream.sequences().iter().map(|sequence| &sequence[..sequence.len() / 2]).collect();
    let learn = |sequences: &[&[u32]]| Model::learn(stream.domain(), sequences.iter().copied(), order, SMOOTHING);
    let other = |error: ModelError| ReproduceError::Other(error.to_string());
    let models = halves.iter().map(|half| learn(&[*half])).collect::<Result<_, _>>().map_err(other)?;
    Ok(People { public: Arc::new(learn(&halves).map_err(other)?), models })
}

fn figure_8(session: &Session<'_>) -> Result<Results, ReproduceError> {
    let mut table = Results::new();
    let Some(prepared) = session.dataset(GAZE.set, Cut::default())? else { return Ok(table) };
    let DataStream::Symbols(stream) = prepared.stream() else { return Ok(table) };
    let distance = match stream.space() {
        Space::Grid { columns, .. } => Distance::Grid { columns: columns.into() },
        Space::Line { .. } => Distance::Absolute,
    };
    let (second, releases) = (session.size(SECOND, 10), session.size(RELEASES, 1));
    // Spread over the second half.
    let seconds: Vec<(usize, &[u32])> = stream
        .sequences()
        .iter()
        .enumerate()
        .flat_map(|(person, sequence)| {
            let later = &sequence[sequence.len() / 2..];
            let step = (later.len() / releases).max(1);
            later.chunks(step).take(releases).filter_map(move |part| Some((person, part.get(..second)?)))
        })
        .collect();
    let repeats = usize::try_from(session.repeats().get()).unwrap_or(usize::MAX);
    let seed = session.options().seed;
    for (panel, order) in session.size(&ORDERS[..], &ORDERS[..1]) {
        let people = people(stream, *order)?;
        for series in SERIES {
            let (way, times) = match series {
                TWICE => (Way::Rr, RR_TWICE.times),
                "rr" => (Way::Rr, 1.0),
                "batched, 5" => (Way::Batched(distance.clone(), 5), 1.0),
                "batched, 10" => (Way::Batched(distance.clone(), 10), 1.0),
                _ => (Way::Crr(distance.clone()), 1.0),
            };
            for epsilon in session.size(&EPSILONS[..], &EPSILONS[..1]) {
                let budget = epsilon_of(times * epsilon)?;
                let right = session.in_parallel(repeats.saturating_mul(seconds.len()), |job| {
                    let (person, symbols) = seconds[job % seconds.len()];
                    let random = &mut repeat_random(seed, job as u64);
                    let watched = watch(&way, &people.public, &people.models, (symbols, budget), random);
                    let watched = watched.map_err(|error| error.to_string())?;
                    let named = |evidence: &[f64]| likeliest(evidence) == person;
                    Ok((named(&watched.by_answers), named(&watched.by_mechanism)))
                });
                let right = right.map_err(ReproduceError::Other)?;
                let share = |of: fn(&(bool, bool)) -> bool| {
                    let rate = |run: &[(bool, bool)]| as_float(run.iter().filter(|one| of(one)).count() as u64);
                    let rates: Vec<f64> =
                        right.chunks(seconds.len()).map(|run| rate(run) / as_float(run.len() as u64)).collect();
                    Summary::of(&rates)
                };
                for (metric, found) in [(BY_ANSWERS, share(|one| one.0)), (BY_MECHANISM, share(|one| one.1))] {
                    if let Some(found) = found {
                        table.push(panel, series, *epsilon, metric, found);
                    }
                    if series == SERIES[0] {
                        table.push_exact(panel, CHANCE, *epsilon, metric, 1.0 / as_float(people.models.len() as u64));
                    }
                }
            }
        }
    }
    Ok(table)
}
