//! [`Question`]: a stream to be released, with all that its spec says, and the mechanisms that can release it.

use std::num::NonZeroU64;

use serde::Deserialize;
use serde_json::{Map, Value, json};
use tidegate::mechanisms::{Family, Mechanism};
use tidegate::spec::{CentralMachine, ClassSpec, QuerySpec, SpecError, StreamSpec};
use tidegate_kernel::Epsilon;
use tidegate_kernel::primitives::Protects;

use super::candidate::SpecSubject;
use super::{AdviseError, Data, Request, Trust, Unpredicted, metrics_of};
use crate::metrics::Metric;
use crate::sequence::longest_part;

/// Keys by which a mechanism is tuned. Another mechanism has its own defaults.
const TUNING: [&str; 10] = [
    "grouping",
    "threshold",
    "publication",
    "smoother",
    "buckets",
    "truncation",
    "reuse",
    "estimator",
    "part",
    "support",
];

/// A class of users, and its size relative to the other classes.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(try_from = "String")]
pub struct ClassShare {
    /// Name, epsilon and window.
    pub class: ClassSpec,
    /// Relative size.
    pub share: NonZeroU64,
}

/// A stream to be released: a [`Request`], and all that its spec says besides.
#[derive(Clone, Debug, PartialEq)]
pub struct Question {
    request: Request,
    /// Keys of the spec, for all mechanisms.
    keys: Map<String, Value>,
    /// The spec that was given.
    own: Option<StreamSpec>,
    shares: Vec<NonZeroU64>,
    most_bytes: Option<f64>,
}

impl Question {
    /// Asks about a stream without a spec.
    pub fn new(request: Request) -> Self {
        let mut keys = Map::new();
        let mut put = |key: &str, value: Value| keys.insert(key.to_owned(), value);
        put("epsilon", json!(request.epsilon));
        match request.data {
            Data::Counts { domain, population } => {
                put("window", json!(request.window));
                put("domain", json!(domain));
                if request.trust == Trust::Local {
                    put("population", json!(population));
                }
            }
            Data::Numbers { grid, protects } => {
                let [low, high, step] = grid.decimals();
                put("domain", json!({ "low": low, "high": high, "resolution": step }));
                put("delay", json!(request.delay));
                put(
                    "protects",
                    match protects {
                        Protects::Reading => json!("reading"),
                        #[allow(clippy::cast_precision_loss)] // a whole number of steps
                        Protects::Contribution(steps) => json!({ "contributor": steps.get() as f64 * grid.step() }),
                    },
                );
            }
            Data::Symbols { domain } => {
                put("domain", json!(domain));
                match request.metric {
                    Metric::Mae => _ = put("distance", json!("absolute")),
                    Metric::Mse => _ = put("distance", json!("squared")),
                    _ => {}
                }
                if request.delay > 0 {
                    put("length", json!(request.delay.saturating_add(1)));
                }
            }
        }
        Self { request, keys, own: None, shares: Vec::new(), most_bytes: None }
    }

    /// Asks about the stream of a spec. `population` replaces the spec's, and is needed where the spec has none.
    ///
    /// # Errors
    /// An invalid spec, or one without a population.
    pub fn of_spec(spec: &StreamSpec, population: Option<NonZeroU64>) -> Result<Self, AdviseError> {
        let missing = || AdviseError::MissingPopulation;
        let (data, epsilon, window, delay) = match spec {
            StreamSpec::Scalar(stream) => {
                let settings = stream.settings()?;
                let data = Data::Numbers { grid: settings.grid, protects: settings.protects };
                (data, stream.epsilon, NonZeroU64::MIN, stream.delay.into())
            }
            StreamSpec::Local(stream) if stream.has_numbers() => return Err(AdviseError::Means),
            StreamSpec::Local(stream) => {
                let population = population.or(stream.population).ok_or_else(missing)?;
                let data = Data::Counts { domain: stream.values()?.count(), population };
                let (epsilon, window) = strictest(stream.epsilon, stream.window, stream.classes.as_deref())?;
                (data, epsilon, window, 0)
            }
            StreamSpec::Central(stream) => {
                let data =
                    Data::Counts { domain: stream.values()?.count(), population: population.ok_or_else(missing)? };
                let (epsilon, window) = strictest(stream.epsilon, stream.window, stream.classes.as_deref())?;
                (data, epsilon, window, 0)
            }
            StreamSpec::Sequence(stream) => {
                let delay = stream.length.unwrap_or(1).saturating_sub(1).into();
                (Data::Symbols { domain: stream.values()?.count() }, stream.epsilon, NonZeroU64::MIN, delay)
            }
            other => return Err(AdviseError::Family { family: other.family().name() }),
        };
        if population.is_some() && !matches!(data, Data::Counts { .. }) {
            return Err(AdviseError::NoUsers { kind: data.kind() });
        }
        let trust = match spec.family() {
            Family::Local | Family::Sequence => Trust::Local,
            Family::Central | Family::Scalar => Trust::Curator,
        };
        let request = Request { data, trust, epsilon, window, delay, metric: metric_of(spec) };
        let mut keys = of_spec(spec)?;
        if let (StreamSpec::Local(_), Some(population)) = (spec, population) {
            keys.insert("population".to_owned(), json!(population));
        }
        keys.remove("mechanism");
        keys.remove("family");
        Ok(Self { request, keys, own: Some(spec.clone()), shares: Vec::new(), most_bytes: None })
    }

    /// Sets classes of users, each with a guarantee of its own. A mechanism with one guarantee for all gives the
    /// strictest.
    #[must_use]
    pub fn with_classes(mut self, classes: Vec<ClassShare>) -> Self {
        self.shares = classes.iter().map(|class| class.share).collect();
        let classes: Vec<_> = classes.into_iter().map(|class| class.class).collect();
        if let Ok((epsilon, window)) = strictest(None, None, Some(&classes)) {
            (self.request.epsilon, self.request.window) = (epsilon, window);
        }
        self.keys.insert("classes".to_owned(), json!(classes));
        self
    }

    /// Sets the relative sizes of the classes of a spec; equal unless set.
    #[must_use]
    pub fn with_shares(mut self, shares: Vec<NonZeroU64>) -> Self {
        self.shares = shares;
        self
    }

    /// Sets further keys of the spec, for all mechanisms that use them.
    #[must_use]
    pub fn with_keys(mut self, keys: Map<String, Value>) -> Self {
        self.keys.extend(keys);
        self
    }

    /// Excludes mechanisms whose users send more bytes in a timestamp, on average.
    #[must_use]
    pub const fn with_most_bytes(mut self, bytes: f64) -> Self {
        self.most_bytes = Some(bytes);
        self
    }

    /// Sets the error to minimise.
    #[must_use]
    pub const fn with_metric(mut self, metric: Metric) -> Self {
        self.request.metric = metric;
        self
    }

    /// Returns the request.
    pub const fn request(&self) -> &Request {
        &self.request
    }

    /// Returns the most bytes of a user in a timestamp.
    pub const fn most_bytes(&self) -> Option<f64> {
        self.most_bytes
    }

    /// Returns the number of classes; none if all users have one guarantee.
    pub fn classes(&self) -> usize {
        self.keys.get("classes").and_then(Value::as_array).map_or(0, Vec::len)
    }

    /// Returns the probabilities of a model, if there is one: of the first symbol, and of each after another.
    pub(super) fn model(&self) -> Option<(Vec<f64>, Vec<Vec<f64>>)> {
        match &self.own {
            Some(StreamSpec::Sequence(spec)) => {
                spec.model.as_ref().map(|model| (model.prior.clone(), model.transitions.clone()))
            }
            _ => {
                let model = self.keys.get("model")?;
                let prior = serde_json::from_value(model.get("prior")?.clone()).ok()?;
                Some((prior, serde_json::from_value(model.get("transitions")?.clone()).ok()?))
            }
        }
    }

    fn family(&self) -> Family {
        match (self.request.data, self.request.trust) {
            (Data::Counts { .. }, Trust::Local) => Family::Local,
            (Data::Counts { .. }, Trust::Curator) => Family::Central,
            (Data::Numbers { .. }, _) => Family::Scalar,
            (Data::Symbols { .. }, _) => Family::Sequence,
        }
    }

    /// Returns the applicable mechanisms, the spec's own first, and those that do not apply, with the reason.
    ///
    /// The spec's own has all its keys. Others have those that describe the stream and its guarantee, and defaults for
    /// their own tuning. None has a weaker guarantee than the spec.
    ///
    /// # Errors
    /// A spec that no release accepts.
    pub fn candidates(&self) -> Result<(Vec<SpecSubject>, Vec<Unpredicted>), AdviseError> {
        let (mut found, mut refused) = (Vec::new(), Vec::new());
        if let Some(own) = &self.own {
            built(own)?;
            let keys = of_spec(own)?;
            let listed = named(own, &keys);
            found.push(SpecSubject { own: true, ..self.subject(listed, own.clone(), keys) });
        }
        for listed in self.family().mechanisms().filter(|listed| listed.short_name != "constant") {
            if listed.by_class && self.classes() == 0 {
                continue;
            }
            match self.candidate(listed) {
                Ok(Some(subject)) if !found.iter().any(|other: &SpecSubject| is_same(&other.spec, &subject.spec)) => {
                    found.push(subject);
                }
                Ok(_) => {}
                Err(why) => refused.push(Unpredicted { mechanism: listed.name(), why }),
            }
        }
        Ok((found, refused))
    }

    /// Returns the candidates with these names, or all if there are no names.
    ///
    /// # Errors
    /// As for [`Self::candidates`], and a name that does not apply.
    pub fn candidates_named(&self, names: &[String]) -> Result<(Vec<SpecSubject>, Vec<Unpredicted>), AdviseError> {
        let (mut found, mut refused) = self.candidates()?;
        if names.is_empty() {
            return Ok((found, refused));
        }
        let is_named = |listed: &Mechanism, name: &String| listed.full_name == name || listed.short_name == name;
        for name in names {
            let applies = found.iter().any(|subject| is_named(subject.listed, name));
            if !applies && refused.iter().all(|refused| refused.mechanism != name) {
                return Err(AdviseError::Mechanism {
                    mechanism: name.clone(),
                    kind: self.request.data.kind(),
                    trust: self.request.trust.name(),
                    fitting: found.iter().map(|subject| subject.listed.name()).collect(),
                });
            }
        }
        found.retain(|subject| names.iter().any(|name| is_named(subject.listed, name)));
        refused.retain(|refused| names.iter().any(|name| refused.mechanism == name));
        Ok((found, refused))
    }

    fn subject(&self, listed: &'static Mechanism, spec: StreamSpec, keys: Map<String, Value>) -> SpecSubject {
        let (asked, shares) = (self.request.epsilon, self.shares.clone());
        SpecSubject { listed, spec, keys, asked, shares, own: false }
    }

    /// Returns a mechanism for this stream; `None` for a variant of what the spec says already.
    fn candidate(&self, listed: &'static Mechanism) -> Result<Option<SpecSubject>, String> {
        let mut keys = self.keys.clone();
        TUNING.iter().for_each(|key| _ = keys.remove(*key));
        if listed.presets.iter().any(|(key, _)| keys.contains_key(*key)) {
            return Ok(None);
        }
        self.same_guarantee(listed, &mut keys)?;
        let optional: Vec<&str> = listed.family.mechanisms().flat_map(|other| other.keys).copied().collect();
        keys.retain(|key, _| listed.keys.contains(&key.as_str()) || !optional.contains(&key.as_str()));
        keys.insert("mechanism".to_owned(), json!(listed.name()));
        let spec: StreamSpec =
            serde_json::from_value(Value::Object(keys.clone())).map_err(|error| error.to_string())?;
        let model_of_stream = matches!(&spec, StreamSpec::Sequence(spec) if spec.model.is_none());
        if !model_of_stream {
            built(&spec).map_err(|error| error.to_string())?;
        }
        Ok(Some(self.subject(listed, spec, keys)))
    }

    /// Gives a mechanism that knows no classes, batches or shared budgets a guarantee that is as strict.
    fn same_guarantee(&self, listed: &Mechanism, keys: &mut Map<String, Value>) -> Result<(), String> {
        let uses = |key: &str| listed.keys.contains(&key);
        if self.classes() > 0 && !listed.by_class {
            keys.insert("epsilon".to_owned(), json!(self.request.epsilon));
            keys.insert("window".to_owned(), json!(self.request.window));
            if let (Family::Local, Data::Counts { population, .. }) = (listed.family, self.request.data) {
                keys.insert("population".to_owned(), json!(population));
            }
        }
        if listed.family != Family::Sequence {
            return Ok(());
        }
        let whole = |key: &str| keys.get(key).and_then(Value::as_u64);
        let (length, window) = (whole("length").unwrap_or(1).max(1), whole("window"));
        let own_batches = matches!(&self.own, Some(StreamSpec::Sequence(spec)) if spec.length.is_some());
        let mut epsilon = self.request.epsilon;
        match (uses("length"), own_batches) {
            // Epsilon is that of a symbol: a batch spends it for each.
            (true, false) if length > 1 => {
                epsilon = epsilon.checked_mul(length).ok_or("epsilon is too large for a batch")?;
                if let (Some(part), Data::Symbols { domain }) = (self.longest_part(), self.request.data)
                    && u64::from(part) < length
                    && domain > 1
                {
                    keys.insert("part".to_owned(), json!(part));
                }
            }
            (true, false) => return Err("without a delay there are no batches".to_owned()),
            (true, true) => {}
            // Epsilon is that of a batch, and a window one of batches.
            (false, true) => {
                epsilon = epsilon.divided_by(length).ok_or("epsilon is too small to be divided among a batch")?;
                if let Some(window) = window {
                    keys.insert("window".to_owned(), json!(window.saturating_mul(length)));
                }
            }
            (false, false) => {}
        }
        // Without a shared budget, each symbol has its part of it.
        if let (false, Some(window), Some(budget)) = (uses("window"), window, keys.get("budget")) {
            let budget: Epsilon = serde_json::from_value(budget.clone()).map_err(|error| error.to_string())?;
            let steps = if own_batches { window.saturating_mul(length) } else { window };
            epsilon = epsilon.min(budget.divided_by(steps).ok_or("the budget is too small to be divided")?);
        }
        keys.insert("epsilon".to_owned(), json!(epsilon));
        Ok(())
    }

    fn longest_part(&self) -> Option<u32> {
        self.request.data.domain().and_then(longest_part)
    }
}

/// Returns the keys of a spec.
fn of_spec(spec: &StreamSpec) -> Result<Map<String, Value>, AdviseError> {
    match serde_json::to_value(spec) {
        Ok(Value::Object(keys)) => Ok(keys),
        _ => Err(AdviseError::Family { family: spec.family().name() }),
    }
}

/// Returns the variant whose fixed keys a spec has, or its mechanism.
fn named(spec: &StreamSpec, keys: &Map<String, Value>) -> &'static Mechanism {
    let plain = spec.mechanism();
    let is_variant = |listed: &&'static Mechanism| {
        listed.variant_of == Some(plain.short_name)
            && listed.presets.iter().all(|(key, value)| keys.get(*key) == Some(&value.to_json()))
    };
    // The one that fixes most keys.
    spec.family().mechanisms().filter(is_variant).max_by_key(|listed| listed.presets.len()).unwrap_or(plain)
}

/// Whether two specs are of the same mechanism with the same settings.
fn is_same(one: &StreamSpec, other: &StreamSpec) -> bool {
    if let (StreamSpec::Central(one), StreamSpec::Central(other)) = (one, other)
        && let (Ok(CentralMachine::Personal(one)), Ok(CentralMachine::Personal(other))) =
            (one.mechanism(), other.mechanism())
    {
        return one.is_like(&other);
    }
    one == other
}

/// Checks that a spec can be released by.
fn built(spec: &StreamSpec) -> Result<(), SpecError> {
    match spec {
        StreamSpec::Local(spec) => spec.mechanism().map(drop),
        StreamSpec::Central(spec) => spec.mechanism().map(drop),
        StreamSpec::Scalar(spec) => spec.mechanism().map(drop),
        StreamSpec::Sequence(spec) => spec.mechanism(spec.model()?.as_ref()).map(drop),
        _ => Ok(()),
    }
}

/// Returns the smallest budget and the longest window of all users.
fn strictest(
    epsilon: Option<Epsilon>,
    window: Option<NonZeroU64>,
    classes: Option<&[ClassSpec]>,
) -> Result<(Epsilon, NonZeroU64), AdviseError> {
    let classes = classes.unwrap_or_default();
    let epsilon = epsilon.or_else(|| classes.iter().map(|class| class.epsilon).min());
    let window = window.or_else(|| classes.iter().map(|class| class.window).max());
    epsilon.zip(window).ok_or(AdviseError::NoGuarantee)
}

/// Returns the error that a spec asks to be small: of ranges if all its queries are of ranges, of the distance of
/// symbols, or else the first of the family.
fn metric_of(spec: &StreamSpec) -> Metric {
    let of_ranges = |queries: &[QuerySpec]| !queries.is_empty() && queries.iter().all(|query| query.first.is_some());
    let ranges = match spec {
        StreamSpec::Local(spec) => of_ranges(&spec.queries),
        StreamSpec::Central(spec) => of_ranges(&spec.queries),
        _ => false,
    };
    let kind = match spec.family() {
        Family::Local | Family::Central => crate::stream::StreamKind::Counts,
        Family::Scalar => crate::stream::StreamKind::Numbers,
        Family::Sequence => crate::stream::StreamKind::Symbols,
    };
    match spec {
        _ if ranges => Metric::RangeMse,
        StreamSpec::Sequence(spec) => match &spec.distance {
            Some(tidegate::sequence::distance::Distance::Absolute) => Metric::Mae,
            Some(tidegate::sequence::distance::Distance::Squared) => Metric::Mse,
            _ => Metric::ErrorRate,
        },
        _ => metrics_of(kind)[0],
    }
}
