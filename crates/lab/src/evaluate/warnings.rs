//! Warnings of `tidegate evaluate`: options without effect, windows longer than the data, errors beyond a guess.

use tidegate_release::warnings::longer_than_the_data;
use tidegate_table::layout::figure;

use super::options::{Options, uses_key};
use crate::experiment::{Finding, Setting, Subject};
use crate::metrics::Metric;
use crate::{DataStream, subjects};

/// Says which options change nothing. They are no reason to stop: whoever tries one mechanism after the other with
/// the same options gets what they ask for, as soon as they know that some of it does not matter.
pub(super) fn of_options(options: &Options, chosen: &[&'static dyn Subject]) -> Vec<String> {
    let mut warnings = Vec::new();
    let names: Vec<&str> = chosen.iter().map(|subject| subject.name()).collect();
    let names = names.join(", ");
    for setting in Setting::ALL.into_iter().filter(|setting| options.is_given(*setting)) {
        let users = || chosen.iter().filter(|subject| subject.uses().contains(&setting));
        let option = format!("--{}", setting.name().replace('_', "-"));
        // The periods of queries are as long as the window at most.
        let by_queries = setting == Setting::Window && options.queries;
        if users().next().is_none() && !by_queries {
            warnings.push(format!("{option} changes nothing for {names}"));
        } else if setting == Setting::Window
            && !by_queries
            && options.is_given(Setting::Classes)
            && users().all(|subject| subject.uses().contains(&Setting::Classes))
        {
            warnings.push(format!("{option} changes nothing: --classes says what users require"));
        }
    }
    let unused = |key: &&str| !chosen.iter().any(|subject| uses_key(*subject, key));
    warnings
        .extend(options.parameters.given().filter(unused).map(|key| format!("--{key} changes nothing for {names}")));
    warnings
}

/// Everything to warn of about a finding.
pub(super) fn of_finding(finding: &Finding, stream: &DataStream) -> Vec<String> {
    of_window(finding, stream).into_iter().chain(of_error(finding, stream)).collect()
}

fn of_window(finding: &Finding, stream: &DataStream) -> Option<String> {
    let DataStream::Counts(counts) = stream else { return None };
    let subject = subjects::by_name_for(stream.kind(), finding.mechanism).ok()?;
    let has_window = subject.uses().contains(&Setting::Window) && finding.settings.classes.is_empty();
    longer_than_the_data(finding.settings.window.get(), counts.length() as u64).filter(|_| has_window)
}

/// The warning about the error of a finding, if a guess would do as well.
fn of_error(finding: &Finding, stream: &DataStream) -> Option<String> {
    let (_, mse) = finding.metrics.iter().find(|(metric, _)| *metric == Metric::Mse)?;
    #[allow(clippy::cast_precision_loss)] // a number of values
    let (guess, what) = match stream {
        DataStream::Counts(stream) if finding.settings.mean => {
            ((stream.domain() as f64 - 1.0) / 2.0, "half the range, the most that a guess in its middle is off by")
        }
        DataStream::Counts(stream) => (1.0 / stream.domain() as f64, "the average share of a value"),
        DataStream::Numbers(stream) => {
            let grid = stream.grid();
            ((grid.high() - grid.low()) / 2.0, "half the domain, the most that a guess in its middle is off by")
        }
        DataStream::Symbols(_) => return None,
    };
    let error = mse.mean.sqrt();
    (error > guess && finding.mechanism != "constant").then(|| {
        format!(
            "the error of {} at epsilon {} (±{}) is larger than {what} ({}): for a tenth of that, take an epsilon of \
             about {}, or another mechanism",
            finding.mechanism,
            finding.settings.epsilon,
            figure(error),
            figure(guess),
            figure(finding.settings.epsilon.as_f64() * 10.0 * error / guess)
        )
    })
}
