//! Two sentences: why the best mechanism wins, and what it would take for another to win.

use std::num::NonZeroUsize;

use super::solve::{Answer, Unknown, solve};
use super::{AdviseError, Data, Method, Prediction, Request, Simulation, formula};
use crate::experiment::Subject;
use crate::metrics::Metric;
use crate::stream::DataStream;

/// What a mechanism is good at: why it wins where it does, and when it would.
fn strength(mechanism: &str) -> (&'static str, &'static str) {
    match mechanism {
        "lbu" => (
            "at this epsilon a share of everyone's budget costs less than asking a share of the users",
            "the budget of a single timestamp were large, or users too few to be divided",
        ),
        "lpu" => (
            "one user in every window's length answers with the whole epsilon, which costs far less than dividing the \
             budget, and the stream is too restless to be skipped",
            "the stream changed at every timestamp",
        ),
        "lsp" | "sample" => (
            "it spends the whole epsilon once a window, and the stream moves less until the next time than the noise \
             of a divided budget would cost",
            "the stream moved less within a window",
        ),
        "lpa" => (
            "users who need not be asked while little changes are saved up and asked together when something does",
            "changes were rarer, with rest between them",
        ),
        "lpd" => (
            "a change is published at once with half of the users that are left, and changes are few",
            "changes came singly, a window apart",
        ),
        "lba" | "ba" => (
            "budget that is saved while little changes pays for an exact release when something does",
            "the stream stood still for most of a window and then moved",
        ),
        "lbd" | "bd" => (
            "a change is published at once with half of the budget that is left, and changes are few",
            "there were hardly a change in a window",
        ),
        "mtsp" | "mtsp_population" => (
            "values next to each other are alike, so that a tree is pruned where nothing is lost",
            "the domain were large and ordered, with most of it nearly empty",
        ),
        "uniform" => (
            "the stream changes too much for anything to be repeated, so each timestamp gets its share",
            "the stream changed at every timestamp and the window were short",
        ),
        "laplace" => (
            "noise on each number is small next to the domain, and nothing is lost by grouping",
            "epsilon were large, or releases had to be right on average",
        ),
        "clamped" => (
            "noise that leads out of the domain is cut off, and neighbouring numbers are not alike enough to be \
             averaged",
            "neighbouring numbers were less alike",
        ),
        "pegasus" | "pegasus_median" => {
            ("numbers like those before them are averaged, and nothing is held back", "the stream were calm for longer")
        }
        "pegasus_delay" | "pegasus_delay_median" => (
            "numbers like their neighbours are averaged with those before and after",
            "the stream were calm for longer, and the delay longer",
        ),
        "contin" => (
            "one noise serves a whole group of neighbouring numbers, so that it falls with the size of the group",
            "the stream were calmer and the delay longer",
        ),
        "discontin" => (
            "numbers that are alike share one noise wherever in the batch they stand",
            "the stream went back and forth between few levels, at a large epsilon",
        ),
        "bucorder" => (
            "at this epsilon no more than the part of the domain can be told, and shrinking that to the middle loses \
             least",
            "epsilon were smaller, or the numbers spread over the whole domain",
        ),
        "crr" => (
            "what the model foresees costs nothing, and the budget goes to what it does not",
            "the model foresaw more of the stream",
        ),
        "crr_robust" => (
            "what the model foresees costs nothing, and the guarantee holds whatever the model",
            "nobody vouched for the model",
        ),
        "batched" => (
            "symbols that depend on each other are answered together, so that the epsilon of all serves all",
            "a longer delay were allowed and symbols depended on each other",
        ),
        "rr" => ("there is nothing to foresee in the stream", "nothing could be foreseen of the stream"),
        name if name.ends_with("track") => (
            "every report is an observation of a level that is followed through the noise, so that none of them is \
             thrown away",
            "the stream moved smoothly",
        ),
        name if name.ends_with("_truncated") => (
            "the stream uses a small part of its domain, and noise for that part is enough",
            "the stream used a smaller part of its domain",
        ),
        _ => ("it makes the most of this budget on these streams", "the stream were of another kind"),
    }
}

/// The two sentences.
pub(super) fn explain(
    request: &Request,
    subjects: &[&dyn Subject],
    ranking: &[Prediction],
    streams: &[DataStream],
) -> Result<(String, String), AdviseError> {
    let mut mechanisms = ranking.iter().filter(|prediction| prediction.mechanism != "constant");
    let constant = ranking.iter().find(|prediction| prediction.mechanism == "constant");
    let (Some(first), Some(constant)) = (mechanisms.next(), constant) else {
        return Ok(("There is no mechanism whose error can be predicted.".to_owned(), String::new()));
    };
    if constant.error <= first.error {
        return nothing_wins(request, subjects, (first, constant), streams);
    }
    let (reason, _) = strength(first.mechanism);
    let Some(second) = mechanisms.next() else {
        let why = format!("{} was the only one asked about: {reason}.", first.mechanism);
        let below = constant.error / first.error;
        return Ok((why, format!("Its error is {below:.3} times smaller than that of saying nothing.")));
    };
    let tied = second.error - first.error <= 2.0 * (first.standard_error + second.standard_error);
    let margin = if tied {
        format!("; its error is that of {} as far as a simulation tells", second.mechanism)
    } else {
        format!("; {}, the next, is off by {:.3} times as much", second.mechanism, second.error / first.error)
    };
    let why = format!("{} wins because {reason}{margin}.", first.mechanism);
    let otherwise = drift_that_decides(request, first, second, streams)
        .unwrap_or_else(|| format!("{} would win if {}.", second.mechanism, strength(second.mechanism).1));
    Ok((why, otherwise))
}

/// Where the constant is best: how much budget it would take.
fn nothing_wins(
    request: &Request,
    subjects: &[&dyn Subject],
    (first, constant): (&Prediction, &Prediction),
    streams: &[DataStream],
) -> Result<(String, String), AdviseError> {
    let name = first.mechanism;
    let why = format!(
        "No mechanism tells more than nothing here: the constant, which spends nothing, is off by {:.3e}, and the \
         best, {name}, by {:.3e}, most of it noise.",
        constant.error, first.error
    );
    let simulation = Simulation::new(1, NonZeroUsize::MIN);
    let subject = first.place.and_then(|place| subjects.get(place)).copied();
    // Simulations that go on for long are not for an explanation.
    let solved = match subject {
        Some(subject) if first.method == Method::Formula => {
            let needs = solve(request, &[subject], streams, &simulation, constant.error, Unknown::Epsilon)?;
            needs.into_iter().next()
        }
        _ => None,
    };
    let otherwise = match solved {
        Some(Ok(need)) => match need.answer {
            Answer::Enough { amount, .. } | Answer::Already { amount, .. } => {
                format!("{name} would win from an epsilon of about {amount:.3} on.")
            }
            Answer::Never { amount, .. } => {
                format!("{name} would not win at any epsilon up to {amount:.0}: its error is not only noise.")
            }
        },
        _ => format!("{name} would win at a larger epsilon, or if {}.", strength(name).1),
    };
    Ok((why, otherwise))
}

/// Where one of the two repeats a release for a window: how far the stream may move until the other wins.
fn drift_that_decides(
    request: &Request,
    first: &Prediction,
    second: &Prediction,
    streams: &[DataStream],
) -> Option<String> {
    let repeats = |prediction: &Prediction| matches!(prediction.mechanism, "lsp" | "sample");
    if request.metric != Metric::Mse
        || repeats(first) == repeats(second)
        || !matches!(request.data, Data::Counts { .. })
    {
        return None;
    }
    let (one, other) = if repeats(first) { (first, second) } else { (second, first) };
    // On a stream that stands still all of its error is noise.
    let still = streams.first()?.clone().shortened(1).ok()?;
    let noise = formula::error(one.mechanism, &still, &request.settings(), Metric::Mse)?;
    let (drift, bound) = (one.error - noise, other.error - noise);
    let (name, change) = if repeats(first) { (other.mechanism, "more") } else { (one.mechanism, "less") };
    (bound > 0.0 && drift > 0.0).then(|| {
        format!(
            "{name} would win if the stream moved {change} within a window: by a mean square of {bound:.3e} since the \
             last release, instead of {drift:.3e}."
        )
    })
}
