//! Names that users write, and help for those who mistype one.

/// A name that stands for nothing, with what could have been meant.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("there is no {kind} {given:?}{}; there are: {}", did_you_mean(.nearest), .valid.join(", "))]
pub struct UnknownName {
    /// What was looked for: "data set" or "mechanism".
    pub kind: &'static str,
    /// What was given, cut to 40 characters.
    pub given: String,
    /// The valid name that is most like it, if any is.
    pub nearest: Option<&'static str>,
    /// All valid names.
    pub valid: Vec<&'static str>,
}

fn did_you_mean(nearest: &Option<&str>) -> String {
    nearest.map_or_else(String::new, |name| format!(" (did you mean {name}?)"))
}

impl UnknownName {
    /// What was looked for, what was given, and all valid names.
    pub fn new(kind: &'static str, given: &str, valid: impl IntoIterator<Item = &'static str>) -> Self {
        let given: String = given.chars().take(40).collect();
        let valid: Vec<_> = valid.into_iter().collect();
        let nearest = nearest(&given.to_lowercase(), &valid);
        Self { kind, given, nearest, valid }
    }
}

/// The name that fewest slips of the keyboard turn into `given`; none where more than a third of it would have to
/// change, unless `given` begins or ends a name, or a name begins or ends it.
pub fn nearest<'a>(given: &str, valid: &[&'a str]) -> Option<&'a str> {
    let slips = |name: &str| strsim::damerau_levenshtein(given, name);
    let part = |name: &str| {
        let overlap = |long: &str, short: &str| short.len() >= 3 && (long.starts_with(short) || long.ends_with(short));
        overlap(name, given) || overlap(given, name)
    };
    let close = |name: &str| slips(name) <= name.len().max(given.len()).div_ceil(3) && slips(name) < name.len();
    let candidates = valid.iter().copied().filter(|name| close(name) || part(name));
    candidates.min_by_key(|name| slips(name))
}

#[cfg(test)]
mod tests {
    use super::*;

    const NAMES: [&str; 5] = ["lns", "sin", "log", "tdrive_counts", "nyc_taxi_ge"];

    #[test]
    fn the_nearest_name_is_the_one_with_fewest_slips() {
        let near = [("sni", "sin"), ("lsn", "lns"), ("tdrive", "tdrive_counts"), ("nyc_taxi", "nyc_taxi_ge")];
        for (given, meant) in near {
            assert_eq!(nearest(given, &NAMES), Some(meant), "{given}");
        }
        assert_eq!(nearest("zebra", &NAMES), None);
        assert_eq!(nearest("", &NAMES), None);
    }

    #[test]
    fn the_message_lists_what_there_is() {
        let error = UnknownName::new("data set", "LNSS", NAMES);
        let expected = "there is no data set \"LNSS\" (did you mean lns?); \
                        there are: lns, sin, log, tdrive_counts, nyc_taxi_ge";
        assert_eq!(error.to_string(), expected);
        assert!(
            UnknownName::new("data set", "zebra", NAMES).to_string().starts_with("there is no data set \"zebra\"; ")
        );
    }
}
