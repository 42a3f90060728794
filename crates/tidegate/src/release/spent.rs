//! [`Spent`]: who paid how much for a release.

use std::fmt;

use serde::{Deserialize, Deserializer, Serialize, Serializer};
use tidegate_kernel::Epsilon;

/// Who spent how much on a timestamp. It follows from what was published before, so it is public.
///
/// As text, and in tables: nothing at all, `0.05`, `1 of slots 0+3276` (so many slots from the first on, around the
/// end), or `0.025 of class 0; 0.1 of class 1`. In JSON: `null`, `"0.05"`, `{"first_slot": 0, "slots": 3276,
/// "epsilon": "1"}`, or `[{"class": 0, "epsilon": "0.025"}, {"class": 1, "epsilon": "0.1"}]`.
///
/// ```
/// use tidegate::release::{ClassSpend, Spent};
///
/// let spent = Spent::by_class([(1, "0.1".parse()?), (0, "0.02".parse()?), (0, "0.005".parse()?)]);
/// assert_eq!(spent.to_string(), "0.025 of class 0; 0.1 of class 1");
/// assert_eq!(spent.most(), Some("0.1".parse()?));
/// assert_eq!(serde_json::to_string(&Spent::Everyone("0.05".parse()?))?, "\"0.05\"");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Spent {
    /// Nobody spent anything.
    #[default]
    Nothing,
    /// Each user spent this much at most.
    Everyone(Epsilon),
    /// Each user of some slots of the population spent this much, and the others nothing.
    Slots {
        /// The first slot.
        first: u16,
        /// How many slots; after the last slot comes slot 0.
        count: u32,
        /// The amount.
        epsilon: Epsilon,
    },
    /// Each member of a class spent the amount of the class; a class that is not listed spent nothing. Classes ascend.
    Classes(Vec<ClassSpend>),
}

/// An amount that each member of a class spent.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ClassSpend {
    /// The number of the class, from zero, in the order in which classes were declared.
    pub class: u32,
    /// The amount.
    pub epsilon: Epsilon,
}

impl Spent {
    /// The same amount for everyone, or nothing.
    pub fn by_everyone(amount: Option<Epsilon>) -> Self {
        amount.map_or(Self::Nothing, Self::Everyone)
    }

    /// Amounts by class, in any order; those of one class add up, and stop at the largest epsilon.
    pub fn by_class(amounts: impl IntoIterator<Item = (u32, Epsilon)>) -> Self {
        let mut classes: Vec<ClassSpend> = Vec::new();
        for (class, epsilon) in amounts {
            match classes.binary_search_by_key(&class, |spend| spend.class) {
                Ok(place) => {
                    let sum = classes[place].epsilon.checked_add(epsilon);
                    classes[place].epsilon = sum.unwrap_or(Epsilon::MAX);
                }
                Err(place) => classes.insert(place, ClassSpend { class, epsilon }),
            }
        }
        if classes.is_empty() { Self::Nothing } else { Self::Classes(classes) }
    }

    /// The largest amount that any one user spent; `None` where nobody spent anything.
    pub fn most(&self) -> Option<Epsilon> {
        match self {
            Self::Nothing => None,
            Self::Everyone(epsilon) | Self::Slots { epsilon, .. } => Some(*epsilon),
            Self::Classes(classes) => classes.iter().map(|spend| spend.epsilon).max(),
        }
    }
}

impl fmt::Display for Spent {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Nothing => Ok(()),
            Self::Everyone(epsilon) => write!(formatter, "{epsilon}"),
            Self::Slots { first, count, epsilon } => write!(formatter, "{epsilon} of slots {first}+{count}"),
            Self::Classes(classes) => classes.iter().enumerate().try_for_each(|(place, spend)| {
                let separator = if place == 0 { "" } else { "; " };
                write!(formatter, "{separator}{} of class {}", spend.epsilon, spend.class)
            }),
        }
    }
}

/// The form that people read.
#[derive(Serialize, Deserialize)]
#[serde(untagged)]
enum Readable {
    Nothing(()),
    Everyone(Epsilon),
    Slots(SlotSpend),
    Classes(Vec<ClassSpend>),
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct SlotSpend {
    first_slot: u16,
    slots: u32,
    epsilon: Epsilon,
}

/// The form of binary formats, which say no types.
#[derive(Serialize, Deserialize)]
enum Tagged {
    Nothing,
    Everyone(Epsilon),
    Slots(u16, u32, Epsilon),
    Classes(Vec<ClassSpend>),
}

impl Serialize for Spent {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        if serializer.is_human_readable() {
            let readable = match self.clone() {
                Self::Nothing => Readable::Nothing(()),
                Self::Everyone(epsilon) => Readable::Everyone(epsilon),
                Self::Slots { first, count, epsilon } => {
                    Readable::Slots(SlotSpend { first_slot: first, slots: count, epsilon })
                }
                Self::Classes(classes) => Readable::Classes(classes),
            };
            return readable.serialize(serializer);
        }
        let tagged = match self.clone() {
            Self::Nothing => Tagged::Nothing,
            Self::Everyone(epsilon) => Tagged::Everyone(epsilon),
            Self::Slots { first, count, epsilon } => Tagged::Slots(first, count, epsilon),
            Self::Classes(classes) => Tagged::Classes(classes),
        };
        tagged.serialize(serializer)
    }
}

impl<'de> Deserialize<'de> for Spent {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let by_class = |spends: Vec<ClassSpend>| {
            Self::by_class(spends.into_iter().map(|ClassSpend { class, epsilon }| (class, epsilon)))
        };
        if deserializer.is_human_readable() {
            return Ok(match Readable::deserialize(deserializer)? {
                Readable::Nothing(()) => Self::Nothing,
                Readable::Everyone(epsilon) => Self::Everyone(epsilon),
                Readable::Slots(SlotSpend { first_slot: first, slots: count, epsilon }) => {
                    Self::Slots { first, count, epsilon }
                }
                Readable::Classes(classes) => by_class(classes),
            });
        }
        Ok(match Tagged::deserialize(deserializer)? {
            Tagged::Nothing => Self::Nothing,
            Tagged::Everyone(epsilon) => Self::Everyone(epsilon),
            Tagged::Slots(first, count, epsilon) => Self::Slots { first, count, epsilon },
            Tagged::Classes(classes) => by_class(classes),
        })
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    fn epsilon(text: &str) -> Epsilon {
        text.parse().unwrap()
    }

    #[test]
    fn every_kind_survives_json_and_binary() {
        for (spent, json) in [
            (Spent::Nothing, "null"),
            (Spent::Everyone(epsilon("0.05")), r#""0.05""#),
            (
                Spent::Slots { first: 65_535, count: 3276, epsilon: epsilon("1") },
                r#"{"first_slot":65535,"slots":3276,"epsilon":"1"}"#,
            ),
            (
                Spent::by_class([(0, epsilon("0.025")), (2, epsilon("0.1"))]),
                r#"[{"class":0,"epsilon":"0.025"},{"class":2,"epsilon":"0.1"}]"#,
            ),
        ] {
            assert_eq!(serde_json::to_string(&spent).unwrap(), json);
            assert_eq!(serde_json::from_str::<Spent>(json).unwrap(), spent);
            let bytes = postcard::to_allocvec(&spent).unwrap();
            assert_eq!(postcard::from_bytes::<Spent>(&bytes).unwrap(), spent);
        }
        for nonsense in ["true", "{}", "-1", r#"[{"class":0}]"#, r#"{"first_slot":70000,"slots":1,"epsilon":"1"}"#] {
            assert!(serde_json::from_str::<Spent>(nonsense).is_err(), "{nonsense}");
        }
    }

    #[test]
    fn amounts_of_a_class_add_up_and_stop_at_the_largest() {
        assert_eq!(Spent::by_class([]), Spent::Nothing);
        let spent = Spent::by_class([(3, Epsilon::MAX), (1, epsilon("0.5")), (3, Epsilon::MIN)]);
        assert_eq!(spent.most(), Some(Epsilon::MAX));
        assert_eq!(spent.to_string(), format!("0.5 of class 1; {} of class 3", Epsilon::MAX));
    }
}
