//! Variances as they are saved: JSON has no infinity, so an unstated variance is null there.

/// One variance.
pub(crate) mod one {
    use serde::{Deserialize, Deserializer, Serialize, Serializer};

    use crate::release::UNSTATED;

    #[allow(clippy::trivially_copy_pass_by_ref)] // the form that serde calls
    pub(crate) fn serialize<S: Serializer>(variance: &f64, serializer: S) -> Result<S::Ok, S::Error> {
        match serializer.is_human_readable() {
            true => variance.is_finite().then_some(variance).serialize(serializer),
            false => variance.serialize(serializer),
        }
    }

    pub(crate) fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<f64, D::Error> {
        match deserializer.is_human_readable() {
            true => Option::deserialize(deserializer).map(|variance| variance.unwrap_or(UNSTATED)),
            false => f64::deserialize(deserializer),
        }
    }
}

/// A variance for each value.
pub(crate) mod each {
    use serde::{Deserialize, Deserializer, Serialize, Serializer};

    use crate::release::UNSTATED;

    pub(crate) fn serialize<S: Serializer>(variances: &[f64], serializer: S) -> Result<S::Ok, S::Error> {
        match serializer.is_human_readable() {
            true => serializer.collect_seq(variances.iter().map(|variance| variance.is_finite().then_some(variance))),
            false => variances.serialize(serializer),
        }
    }

    pub(crate) fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<f64>, D::Error> {
        if !deserializer.is_human_readable() {
            return Vec::deserialize(deserializer);
        }
        let variances: Vec<Option<f64>> = Vec::deserialize(deserializer)?;
        Ok(variances.into_iter().map(|variance| variance.unwrap_or(UNSTATED)).collect())
    }
}
