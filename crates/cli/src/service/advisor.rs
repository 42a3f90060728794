//! [`advisor`]: lets the service compare mechanisms for a declaration, by the laboratory.
//!
//! Errors are computed by formula or simulated on typical streams, never on events of a stream of the service.

use std::num::{NonZeroU64, NonZeroUsize};
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::thread;
use std::time::Duration;

use serde::Deserialize;
use serde_json::{Value, json};
use tidegate::mechanisms::Family;
use tidegate::spec::StreamSpec;
use tidegate_lab::advise::{MetricName, Options, Prediction, Recommendation, Simulation, recommend};
use tidegate_lab::stop::Stop;
use tidegate_lab::stream::StreamKind;
use tidegate_server::http::Advisor;
use tidegate_server::stream::Declaration;

/// Longest time that advice takes.
const LIMIT: Duration = Duration::from_secs(20);

/// Largest domain that is simulated.
const MAX_DOMAIN: u32 = 1_024;

/// Longest window that is simulated.
const MAX_WINDOW: u64 = 10_000;

/// Stands for the mechanism that is recommended.
const RECOMMENDED: &str = "recommended";

/// A request for advice.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Asked {
    declaration: Value,
    population: Option<NonZeroU64>,
    metric: Option<MetricName>,
}

/// Returns the function that the service asks.
pub(crate) fn advisor() -> Advisor {
    Advisor::new(|asked| {
        let asked: Asked = serde_json::from_value(asked).map_err(|error| error.to_string())?;
        advise(asked)
    })
}

/// A mechanism of a family, to be replaced by the one that is recommended.
fn any_mechanism(spec: &Value) -> Result<&'static str, String> {
    let named = spec.get("family").and_then(Value::as_str).unwrap_or_default();
    let families = [Family::Local, Family::Central, Family::Scalar, Family::Sequence];
    let family = families.into_iter().find(|family| family.name() == named);
    let family = family.ok_or("spec.family: local, central, scalar or sequence, where no mechanism is named")?;
    let by_class = spec.get("classes").is_some();
    let mut fitting =
        family.mechanisms().filter(|listed| listed.by_class == by_class && listed.short_name != "constant");
    fitting.next().map(|listed| listed.short_name).ok_or_else(|| format!("spec.classes: not for the family {named}"))
}

fn advise(asked: Asked) -> Result<Value, String> {
    let Asked { mut declaration, population, metric } = asked;
    let spec = declaration.get_mut("spec").and_then(Value::as_object_mut).ok_or("declaration.spec: an object")?;
    let named = spec.get("mechanism").and_then(Value::as_str).is_some_and(|named| named != RECOMMENDED);
    if !named {
        let any = any_mechanism(&Value::Object(spec.clone()))?;
        spec.insert("mechanism".to_owned(), any.into());
    }
    let declaration: Declaration =
        serde_json::from_value(declaration).map_err(|error| tidegate::spec::plain_words(&error.to_string()))?;
    declaration.check().map_err(|error| error.to_string())?;
    let spec = &declaration.spec;
    let domain = spec.values().map_err(|error| error.to_string())?.map_or(0, |values| values.count());
    if domain > MAX_DOMAIN {
        return Err(format!("spec.domain: advice is for {MAX_DOMAIN} values at most; ask `tidegate advise`"));
    }
    if let tidegate::kernel::Window::Timestamps(window) = spec.window()
        && window.get() > MAX_WINDOW
    {
        return Err(format!("spec.window: advice is for {MAX_WINDOW} timestamps at most; ask `tidegate advise`"));
    }
    let options = Options { population, metric, ..Options::default() };
    let question = options.question_of(spec).map_err(|error| error.to_string())?;
    let stop = Stop::new();
    let mut simulation = Simulation { stop: &stop, ..Simulation::quick(1, NonZeroUsize::MIN) };
    if question.request().data.kind() == StreamKind::Numbers {
        // Short of runs, only mechanisms with a formula would be ranked.
        simulation.repeats = NonZeroU64::new(2);
    }
    let found = thread::scope(|scope| {
        let (done, outcome) = channel();
        let (question, simulation) = (&question, &simulation);
        // A receiver that has gone needs no answer.
        scope.spawn(move || drop(done.send(recommend(question, None, simulation))));
        let found = outcome.recv_timeout(LIMIT);
        stop.set();
        found
    });
    match found {
        Ok(found) => {
            let found = found.map_err(|error| error.to_string())?;
            Ok(answer(&declaration, named, question.request().metric.name(), &found))
        }
        Err(RecvTimeoutError::Timeout) => {
            let seconds = LIMIT.as_secs();
            Err(format!("advice took more than {seconds} seconds: ask about fewer values or a shorter window"))
        }
        Err(RecvTimeoutError::Disconnected) => Err("advice stopped short".to_owned()),
    }
}

fn answer(declaration: &Declaration, named: bool, metric: &str, found: &Recommendation) -> Value {
    let advice = &found.advice;
    let ranked = |prediction: &Prediction| {
        json!({
            "mechanism": prediction.mechanism, "method": prediction.method.name(), "error": prediction.error,
            "low": prediction.low, "high": prediction.high, "bytes_per_user": prediction.bytes,
        })
    };
    let with = |spec: &StreamSpec| Declaration { spec: spec.clone(), ..declaration.clone() };
    let best = || {
        let places = advice.ranking.iter().filter_map(|prediction| prediction.place);
        let candidates = places.filter_map(|place| found.candidates.get(place));
        let complete = candidates.filter(|candidate| candidate.is_complete());
        // Some run in `tidegate release` only.
        complete.map(|candidate| with(candidate.spec())).find(|declaration| declaration.check().is_ok())
    };
    let chosen = if named { Some(declaration.clone()) } else { best() };
    let toml = chosen.as_ref().and_then(|chosen| toml::to_string(&json!({ "streams": [chosen] })).ok());
    json!({
        "ranking": advice.ranking.iter().map(ranked).collect::<Vec<_>>(),
        "unpredicted": advice.unpredicted.iter()
            .map(|one| json!({ "mechanism": one.mechanism, "why": one.why })).collect::<Vec<_>>(),
        "metric": metric,
        "why": advice.why, "otherwise": advice.otherwise,
        "mechanism": chosen.as_ref().map(|chosen| chosen.spec.mechanism().name()),
        "declaration": chosen, "toml": toml,
    })
}
