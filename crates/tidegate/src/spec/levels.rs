//! Classes of a spec, given one by one or as levels.

use std::collections::BTreeMap;
use std::fmt;
use std::num::NonZeroU64;

use serde::de::value::{MapAccessDeserializer, SeqAccessDeserializer};
use serde::de::{MapAccess, SeqAccess, Visitor};
use serde::{Deserialize, Deserializer};
use tidegate_kernel::Epsilon;

use super::ClassSpec;

/// Levels that users choose from: one of privacy, and one of a window. Each pair is a class `privacy/window`.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Levels {
    /// Budgets by name.
    privacy: BTreeMap<String, Epsilon>,
    /// Windows by name.
    windows: BTreeMap<String, NonZeroU64>,
}

impl Levels {
    /// The class of each pair, in the order of names: all windows of the first level of privacy come first.
    fn classes(&self) -> Vec<ClassSpec> {
        let class = |(privacy, epsilon): (&String, &Epsilon), (name, window): (&String, &NonZeroU64)| ClassSpec {
            name: format!("{privacy}/{name}"),
            epsilon: *epsilon,
            window: *window,
        };
        self.privacy.iter().flat_map(|level| self.windows.iter().map(move |window| class(level, window))).collect()
    }
}

/// Reads a list of classes, or levels.
pub(super) fn classes<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Vec<ClassSpec>>, D::Error> {
    struct Either;

    impl<'de> Visitor<'de> for Either {
        type Value = Vec<ClassSpec>;

        fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
            formatter.write_str("a list of classes, or the levels privacy and windows")
        }

        fn visit_seq<A: SeqAccess<'de>>(self, list: A) -> Result<Self::Value, A::Error> {
            Vec::deserialize(SeqAccessDeserializer::new(list))
        }

        fn visit_map<A: MapAccess<'de>>(self, table: A) -> Result<Self::Value, A::Error> {
            Ok(Levels::deserialize(MapAccessDeserializer::new(table))?.classes())
        }
    }

    deserializer.deserialize_any(Either).map(Some)
}
