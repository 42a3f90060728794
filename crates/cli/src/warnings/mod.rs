//! Warnings about settings that make releases useless, each with what to change.
//!
//! They depend on the spec, on releases and on the number of timestamps only: never on raw data. Whoever sees a warning
//! learns nothing that the releases do not tell.

mod published;

use std::f64::consts::SQRT_2;

use tidegate::kernel::primitives::Protects;
use tidegate::kernel::{Epsilon, Window};
use tidegate::mechanisms::Family;
use tidegate::scalar::ScalarKind;
use tidegate::spec::{ScalarSpec, StreamSpec};
use tidegate_table::layout::figure;

pub(crate) use published::Published;

/// Advice aims at noise of this part of what is released.
const AIM: f64 = 0.125;

/// Warnings about a spec by itself. An invalid spec has none: it is rejected elsewhere.
pub(crate) fn of_spec(spec: &StreamSpec) -> Vec<String> {
    match spec {
        StreamSpec::Scalar(spec) => wider_than_the_domain(spec).into_iter().collect(),
        _ => Vec::new(),
    }
}

/// Noise that exceeds the error of a constant guess: half the domain at most.
///
/// Covers mechanisms whose least noise is known before the first reading. The releases of the others state theirs.
fn wider_than_the_domain(spec: &ScalarSpec) -> Option<String> {
    let settings = spec.settings().ok().filter(|settings| settings.truncation.is_none())?;
    let averaged = match spec.mechanism {
        ScalarKind::Laplace | ScalarKind::Clamped => 1.0,
        ScalarKind::PegasusDelay | ScalarKind::Contin | ScalarKind::Discontin => f64::from(settings.delay) + 1.0,
        _ => return None,
    };
    let (grid, epsilon) = (settings.grid, settings.epsilon.as_f64());
    let width = grid.high() - grid.low();
    #[allow(clippy::cast_precision_loss)] // a size in a message
    let changed = match settings.protects {
        Protects::Reading => width,
        Protects::Contribution(steps) => steps.get() as f64 * grid.step(),
    };
    let noise = SQRT_2 * changed / (epsilon * averaged);
    if noise < width / 2.0 {
        return None;
    }
    let (enough, guess) = (figure(epsilon * 10.0 * noise / width), figure(width / 2.0));
    let mut advice = format!(
        "use an epsilon of at least {enough} for noise of a tenth of the domain, or mechanism = \"track\", which \
         averages over time"
    );
    if settings.protects == Protects::Reading {
        advice.push_str(", or protects = { contributor = .. } if one person's part of the reading is the secret");
    }
    Some(format!(
        "epsilon {} gives releases noise of at least ±{} (a standard deviation), and a guess in the middle of the \
         domain is never off by more than {guess}: {advice}",
        settings.epsilon,
        figure(noise),
    ))
}

/// What stands for a cell that is no plain number. It is said of every stream of numbers: whether there is such a cell
/// is a secret.
pub(crate) fn stand_in(missing: impl std::fmt::Display) -> String {
    format!("a cell that is no plain number (46,842; n/a) counts as {missing}, the domain's missing")
}

/// The settings that the noise comes from, as the beginning of a sentence.
fn cause(spec: &StreamSpec) -> String {
    match (epsilon_of(spec), spec.window()) {
        (Some(epsilon), Window::Timestamps(window)) if spec.family() != Family::Scalar => {
            format!("epsilon {epsilon} over a window of {window} gives")
        }
        (Some(epsilon), _) => format!("epsilon {epsilon} gives"),
        (None, _) => "the epsilons and windows of the classes give".to_owned(),
    }
}

/// How to make the noise `factor` times smaller.
fn advice(spec: &StreamSpec, factor: f64) -> String {
    let times = figure(factor);
    let Some(epsilon) = epsilon_of(spec) else {
        return format!("for {times} times less, raise the epsilons or shorten the windows by as much");
    };
    let more = figure(epsilon * factor);
    // Reports of devices: noise falls with the root of their number.
    let (users, factor) = match spec.family() {
        Family::Local => (format!(", or {} times as many users", figure(factor * factor)), factor * factor),
        _ => (String::new(), factor),
    };
    let window = match spec.window() {
        #[allow(clippy::cast_precision_loss)] // a size in a message
        Window::Timestamps(window) if window.get() as f64 >= factor && spec.family() != Family::Scalar => {
            format!(", or a window of at most {:.0}", (window.get() as f64 / factor).floor())
        }
        _ => String::new(),
    };
    let rest = match spec.family() {
        Family::Scalar => "longer timestamps or a longer delay help too",
        _ => "longer timestamps or fewer values help too",
    };
    format!("for {times} times less, use an epsilon of about {more}{window}{users}; {rest}")
}

fn epsilon_of(spec: &StreamSpec) -> Option<f64> {
    let epsilon = match spec {
        StreamSpec::Local(spec) => spec.epsilon,
        StreamSpec::Central(spec) => spec.epsilon,
        StreamSpec::Scalar(spec) => Some(spec.epsilon),
        _ => None,
    };
    epsilon.map(Epsilon::as_f64)
}

/// A predicted error that exceeds the typical size of what is released.
pub(crate) fn of_prediction(spec: &StreamSpec, error: f64, level: f64, what: &str) -> Option<String> {
    (error > level).then(|| {
        let (error, level, advice) = (figure(error), figure(level), advice(spec, error / (AIM * level)));
        format!("{} errors of ±{error}, and {what} is {level}: {advice}", cause(spec))
    })
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::of_spec;

    #[test]
    fn noise_wider_than_the_domain_is_told_before_the_release() {
        let warnings = |mechanism: &str, epsilon: &str, rest: &str| {
            let spec = format!(
                "mechanism = \"scalar.{mechanism}\"\nepsilon = {epsilon}\ndomain = {{ low = 0, high = 612 }}\n{rest}"
            );
            of_spec(&toml::from_str(&spec).unwrap())
        };
        let reading = "protects = \"reading\"\n";
        let loud = warnings("laplace", "1", reading);
        assert!(loud[0].contains("±870") && loud[0].contains("more than 310"), "{loud:?}");
        assert!(loud[0].contains("an epsilon of at least 14 "), "{loud:?}");
        assert!(warnings("laplace", "2.82", reading).len() == 1 && warnings("laplace", "2.84", reading).is_empty());
        assert!(warnings("contin", "1", &format!("{reading}delay = 10\n")).is_empty());
        assert_eq!(warnings("contin", "0.1", &format!("{reading}delay = 10\n")).len(), 1);
        assert!(warnings("laplace", "1", "protects = { contributor = 1 }\n").is_empty());
        assert!(!warnings("laplace", "0.001", "protects = { contributor = 1 }\n")[0].contains("protects"));
    }
}
