//! Advice as text and as JSON.

use serde_json::{Value, json};
use tidegate::jumps::{JumpSight, JumpUnit};
use tidegate_kernel::Epsilon;
use tidegate_kernel::oracle::OracleKind;
use tidegate_kernel::primitives::Protects;
use tidegate_release::Error;
use tidegate_table::layout::{layout, short};

use super::solve::{Answer, Need, SIMULATION_TOLERANCE, TOLERANCE, Unknown};
use super::{Data, OracleAdvice, Prediction, Question, Recommendation, Request, Sample, SpecSubject, Unpredicted};
use crate::DataStream;
use crate::experiment::Subject as _;

/// The stream, its sample and its spec, for the heading.
pub(super) struct About<'a> {
    pub(super) question: &'a Question,
    pub(super) streams: &'a [DataStream],
    pub(super) sample: Option<&'a Sample>,
}

impl About<'_> {
    const fn request(&self) -> &Request {
        self.question.request()
    }

    /// The streams that errors were predicted on, in words.
    fn on(&self) -> String {
        match self.sample.filter(|sample| sample.movement().is_told()) {
            Some(sample) => {
                let length = sample.length();
                format!("{} streams that may have been behind the sample of {length} timestamps", self.streams.len())
            }
            None => {
                let names: Vec<_> = self.streams.iter().map(DataStream::name).collect();
                if names == ["model"] {
                    return "a stream drawn from the spec's model".to_owned();
                }
                format!("typical streams: {}", names.join(", "))
            }
        }
    }

    /// All that is given, without what is solved for.
    fn heading(&self, solved: Option<Unknown>) -> String {
        let Request { data, trust, epsilon, window, delay, metric } = self.request();
        let what = match data {
            Data::Counts { domain, population } => {
                let users = match solved {
                    Some(Unknown::Population) => String::new(),
                    _ => format!(" of {population} users"),
                };
                format!("counts{users} over {domain} values, window {window}, trust {}", trust.name())
            }
            Data::Numbers { grid, protects } => {
                let unit = match protects {
                    Protects::Reading => "the number is protected".to_owned(),
                    Protects::Contribution(steps) => format!("a contributor of {steps} steps is protected"),
                };
                let (low, high, step) = (grid.low(), grid.high(), grid.step());
                format!("a number within {low}..{high} in steps of {step}, delay {delay}; {unit}")
            }
            Data::Symbols { domain } => format!("one user's symbols, {domain} of them, delay {delay}"),
        };
        let budget = match solved {
            Some(Unknown::Epsilon) => String::new(),
            _ => format!(", epsilon {epsilon}"),
        };
        let classes = match self.question.classes() {
            0 => String::new(),
            number => format!(", the strictest of {number} classes"),
        };
        format!("{what}{budget}{classes}; {metric}\non {}\n", self.on())
    }

    /// What a sample tells, and what was taken off.
    fn movement(&self) -> Option<String> {
        let sample = self.sample?;
        if matches!(self.request().data, Data::Symbols { .. }) {
            let noise = "symbols state no variance, so nothing is taken off: released ones make a stream look more \
                         restless than it is";
            return Some(noise.to_owned());
        }
        let movement = sample.movement();
        let (observed, noise, left) = (short(movement.observed), short(movement.noise), short(movement.of_stream()));
        let told = if !movement.is_told() {
            "too little for the stream to be told from noise, so typical streams stand for it".to_owned()
        } else {
            format!("{left}, give or take {}, is left for the stream", short(movement.standard_error))
        };
        Some(format!(
            "the sample moves by a mean square of {observed} a timestamp, of which {noise} is the noise that it \
             states: {told}"
        ))
    }

    fn json(&self) -> serde_json::Map<String, Value> {
        let Request { data, trust, epsilon, window, delay, metric } = self.request();
        let mut map = serde_json::Map::new();
        let mut put = |key: &str, value: Value| map.insert(key.to_owned(), value);
        put("kind", json!(data.kind().name()));
        put("trust", json!(trust.name()));
        put("epsilon", json!(epsilon.as_f64()));
        put("delay", json!(delay));
        put("metric", json!(metric.name()));
        match data {
            Data::Counts { domain, population } => {
                put("population", json!(population));
                put("domain", json!(domain));
                put("window", json!(window));
            }
            Data::Numbers { grid, .. } => {
                put("domain", json!({ "low": grid.low(), "high": grid.high(), "resolution": grid.step() }));
            }
            Data::Symbols { domain } => {
                put("domain", json!(domain));
            }
        }
        put("streams", json!(self.streams.iter().map(DataStream::name).collect::<Vec<_>>()));
        put(
            "sample",
            self.sample.map_or(Value::Null, |sample| {
                let movement = sample.movement();
                json!({
                    "timestamps": sample.length(), "may_be_raw": sample.may_be_raw(),
                    "states_variance": sample.states_variance(), "observed_movement": movement.observed,
                    "noise": movement.noise, "movement": movement.of_stream(),
                    "movement_standard_error": movement.standard_error,
                })
            }),
        );
        map
    }
}

pub(super) fn advice_json(about: &About<'_>, found: &Recommendation) -> Result<String, Error> {
    let advice = &found.advice;
    let mut map = about.json();
    let entry = |prediction: &Prediction| {
        let on = prediction.on.iter().map(|(stream, summary)| {
            json!({ "stream": stream, "mean": summary.mean, "standard_error": summary.standard_error })
        });
        let candidate = candidate_of(found, prediction);
        json!({
            "mechanism": prediction.mechanism, "method": prediction.method.name(), "error": prediction.error,
            "low": prediction.low, "high": prediction.high, "on": on.collect::<Vec<_>>(),
            "bytes_per_user": prediction.bytes, "is_spec": candidate.is_some_and(SpecSubject::is_own),
            "needs_model": candidate.is_some_and(|candidate| !candidate.is_complete()),
            "jumps": candidate.and_then(|candidate| JumpSight::of(candidate.spec())).map(jumps_json),
        })
    };
    let oracles = advice.oracles.as_ref().map(|(epsilon, oracles)| {
        let list = oracles
            .iter()
            .map(|oracle| json!({ "oracle": oracle.kind.name(), "variance": oracle.variance, "bytes": oracle.bytes }));
        let best = best_oracle(about, *epsilon);
        json!({ "epsilon": epsilon.as_f64(), "best": best, "oracles": list.collect::<Vec<_>>() })
    });
    let own = found.candidates.iter().find(|candidate| candidate.is_own());
    map.insert("best".to_owned(), json!(advice.ranking.first().map(|first| first.mechanism)));
    map.insert("recommended".to_owned(), json!(found.chosen.as_ref().map(|chosen| chosen.mechanism.name())));
    map.insert("spec_mechanism".to_owned(), json!(own.map(|own| own.name())));
    map.insert("ranking".to_owned(), advice.ranking.iter().map(entry).collect());
    map.insert("unpredicted".to_owned(), unpredicted_json(advice.unpredicted.iter()));
    map.insert("why".to_owned(), json!(advice.why));
    map.insert("otherwise".to_owned(), json!(advice.otherwise));
    map.insert("oracles".to_owned(), oracles.unwrap_or(Value::Null));
    Ok(serde_json::to_string_pretty(&map).map_err(Error::run)? + "\n")
}

fn candidate_of<'a>(found: &'a Recommendation, prediction: &Prediction) -> Option<&'a SpecSubject> {
    found.candidates.get(prediction.place?)
}

fn jumps_json(sight: JumpSight) -> Value {
    match sight {
        JumpSight::BySize { at_once, unit } => {
            let unit = match unit {
                JumpUnit::Users => "users",
                JumpUnit::Share => "share",
                JumpUnit::Reading => "reading",
            };
            json!({ "seen_at_once": at_once, "unit": unit, "timestamps": null })
        }
        JumpSight::OfAnySize { timestamps } => json!({ "seen_at_once": null, "unit": null, "timestamps": timestamps }),
    }
}

/// Which jumps a mechanism may miss, and for how long.
fn jumps_text(name: &str, sight: JumpSight) -> String {
    let sees = match sight {
        JumpSight::BySize { at_once, unit } => {
            let unit = match unit {
                JumpUnit::Users => " users",
                JumpUnit::Share => " of the users",
                JumpUnit::Reading => "",
            };
            let impossible = matches!(sight, JumpSight::BySize { unit: JumpUnit::Share, at_once } if at_once > 1.0);
            let first = if impossible { "none".to_owned() } else { format!("one of {}{unit}", short(at_once)) };
            let (third, tenth) = (at_once / 3.0, at_once / 10.0);
            format!(
                "{first} at once, one of {}{unit} within about {:.0} timestamps and one of {} within about {:.0}",
                short(third),
                sight.timestamps(third),
                short(tenth),
                sight.timestamps(tenth)
            )
        }
        JumpSight::OfAnySize { timestamps } => format!("one of any size within about {timestamps:.0} timestamps"),
    };
    format!("Jumps: {name} sees {sees}; one that is over sooner may be missed.\n")
}

fn unpredicted_json<'a>(unpredicted: impl Iterator<Item = &'a Unpredicted>) -> Value {
    unpredicted.map(|one| json!({ "mechanism": one.mechanism, "why": one.why })).collect()
}

fn best_oracle(about: &About<'_>, epsilon: Epsilon) -> Option<&'static str> {
    match about.request().data {
        Data::Counts { domain, .. } => Some(OracleKind::best(domain, epsilon).name()),
        Data::Numbers { .. } | Data::Symbols { .. } => None,
    }
}

pub(super) fn advice_text(about: &About<'_>, found: &Recommendation) -> String {
    let advice = &found.advice;
    let sends = advice.ranking.iter().any(|prediction| prediction.bytes.is_some());
    let headings = ["", "mechanism", "error", "range", "by"].into_iter().chain(sends.then_some("bytes/user"));
    let mut rows = vec![headings.map(str::to_owned).collect::<Vec<_>>()];
    for (place, prediction) in (1..).zip(&advice.ranking) {
        let range = format!("{} to {}", short(prediction.low), short(prediction.high));
        let note = match candidate_of(found, prediction) {
            Some(candidate) if candidate.is_own() => " (the spec's)",
            Some(candidate) if !candidate.is_complete() => " (given a model)",
            _ => "",
        };
        let mut row = vec![
            place.to_string(),
            format!("{}{note}", prediction.mechanism),
            short(prediction.error),
            range,
            prediction.method.name().to_owned(),
        ];
        row.extend(sends.then(|| prediction.bytes.map(short).unwrap_or_default()));
        rows.push(row);
    }
    let mut text = about.heading(None);
    if let Some(movement) = about.movement() {
        text += &format!("{movement}\n");
    }
    text += &format!("\n{}\n{} {}\n", layout(&rows), advice.why, advice.otherwise);
    if let Some((epsilon, oracles)) = &advice.oracles {
        let best = best_oracle(about, *epsilon).unwrap_or_default();
        let oracle = |oracle: &OracleAdvice| {
            let lowest = oracles.first().map_or(oracle.variance, |first| first.variance);
            let relative = 100.0 * (oracle.variance / lowest - 1.0);
            format!("{} (+{relative:.0} %, {} bytes)", oracle.kind.name(), oracle.bytes)
        };
        let list: Vec<_> = oracles.iter().map(oracle).collect();
        text += &format!("Oracle for reports at epsilon {epsilon}: {best}; by variance: {}\n", list.join(", "));
    }
    for prediction in &advice.ranking {
        let sight = candidate_of(found, prediction).and_then(|candidate| JumpSight::of(candidate.spec()));
        text += &sight.map(|sight| jumps_text(prediction.mechanism, sight)).unwrap_or_default();
    }
    let best = advice.ranking.first().map(|first| first.mechanism);
    if let Some(chosen) = found.chosen.as_ref().filter(|chosen| Some(chosen.mechanism.name()) != best) {
        let error = short(chosen.error);
        text += &format!("Recommended without more knowledge: {}, with an error of {error}.\n", chosen.mechanism);
    }
    text + &unpredicted_text(advice.unpredicted.iter())
}

fn unpredicted_text<'a>(unpredicted: impl Iterator<Item = &'a Unpredicted>) -> String {
    unpredicted.map(|one| format!("Not predicted: {}: {}\n", one.mechanism, one.why)).collect()
}

/// Those that can be met come first, the least first.
fn by_need(need: &Need) -> (u8, f64) {
    match need.answer {
        Answer::Already { error, .. } => (0, error),
        Answer::Enough { amount, .. } => (1, amount),
        Answer::Never { error, .. } => (2, error),
    }
}

fn sorted(needs: &[Result<Need, Unpredicted>]) -> Vec<&Need> {
    let mut solved: Vec<&Need> = needs.iter().flatten().collect();
    solved.sort_by(|a, b| {
        let ((a_rank, a_amount), (b_rank, b_amount)) = (by_need(a), by_need(b));
        a_rank.cmp(&b_rank).then(a_amount.total_cmp(&b_amount))
    });
    solved
}

pub(super) fn needs_json(
    about: &About<'_>,
    target: f64,
    unknown: Unknown,
    needs: &[Result<Need, Unpredicted>],
) -> Result<String, Error> {
    let mut map = about.json();
    map.remove(unknown.name());
    let entry = |need: &&Need| {
        let (outcome, amount, error, tolerance) = match need.answer {
            Answer::Enough { amount, error, tolerance } => ("enough", amount, error, Some(tolerance)),
            Answer::Already { amount, error } => ("already", amount, error, None),
            Answer::Never { amount, error } => ("never", amount, error, None),
        };
        json!({
            "mechanism": need.mechanism, "method": need.method.name(), "outcome": outcome, unknown.name(): amount,
            "error": error, "tolerance": tolerance,
        })
    };
    map.insert("target_error".to_owned(), json!(target));
    map.insert("solve".to_owned(), json!(unknown.name()));
    map.insert("needs".to_owned(), sorted(needs).iter().map(entry).collect());
    map.insert("unpredicted".to_owned(), unpredicted_json(needs.iter().filter_map(|need| need.as_ref().err())));
    Ok(serde_json::to_string_pretty(&map).map_err(Error::run)? + "\n")
}

pub(super) fn needs_text(
    about: &About<'_>,
    target: f64,
    unknown: Unknown,
    needs: &[Result<Need, Unpredicted>],
) -> String {
    let name = unknown.name();
    let mut rows = vec![["mechanism", name, "error there", "by"].map(str::to_owned).to_vec()];
    let figure = |amount: f64| match unknown {
        Unknown::Epsilon => short(amount),
        Unknown::Population => format!("{amount:.0}"),
    };
    for need in sorted(needs) {
        let (amount, error) = match need.answer {
            Answer::Enough { amount, error, .. } => (figure(amount), error),
            Answer::Already { amount, error } => (format!("{} or less", figure(amount)), error),
            Answer::Never { amount, error } => (format!("not even {}", figure(amount)), error),
        };
        rows.push(vec![need.mechanism.to_owned(), amount, short(error), need.method.name().to_owned()]);
    }
    let tolerances = format!(
        "The least {name} that is enough, found to {} % by formula and to {} % by simulation.\n",
        100.0 * TOLERANCE,
        100.0 * SIMULATION_TOLERANCE
    );
    let movement = about.movement().map(|movement| format!("{movement}\n")).unwrap_or_default();
    let unpredicted = unpredicted_text(needs.iter().filter_map(|need| need.as_ref().err()));
    let metric = about.request().metric;
    let (table, heading) = (layout(&rows), about.heading(Some(unknown)));
    format!(
        "Which {name} an error ({metric}) of {} needs\n{heading}{movement}\n{table}\n{tolerances}{unpredicted}",
        short(target)
    )
}
