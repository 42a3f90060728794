//! Errors for unknown names, which suggest the nearest valid name.

/// An unknown name, with the nearest valid one.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{}", self.message())]
pub struct UnknownName {
    /// The kind of thing the name should stand for, such as "data set".
    pub kind: &'static str,
    /// The unknown name, cut to 40 characters.
    pub given: String,
    /// The valid name within the fewest typing errors of it, if any is close.
    pub nearest: Option<&'static str>,
    /// All valid names.
    pub valid: Vec<&'static str>,
    /// Whether each of them is meant by the name.
    pub is_ambiguous: bool,
}

impl UnknownName {
    /// Creates the error for `given`, where only `valid` names exist.
    pub fn new(kind: &'static str, given: &str, valid: impl IntoIterator<Item = &'static str>) -> Self {
        let given: String = given.chars().take(40).collect();
        let valid: Vec<_> = valid.into_iter().collect();
        let nearest = nearest(&given.to_lowercase(), &valid);
        Self { kind, given, nearest, valid, is_ambiguous: false }
    }

    /// Creates the error for a short name that several things have; `valid` are their full names.
    pub fn ambiguous(kind: &'static str, given: &str, valid: impl IntoIterator<Item = &'static str>) -> Self {
        Self { is_ambiguous: true, nearest: None, ..Self::new(kind, given, valid) }
    }

    fn message(&self) -> String {
        let Self { kind, given, nearest, valid, is_ambiguous } = self;
        let valid = valid.join(", ");
        if *is_ambiguous {
            return format!("{given:?} is the {kind} of several families; write one of: {valid}");
        }
        let meant = nearest.map_or_else(String::new, |name| format!(" (did you mean {name}?)"));
        format!("there is no {kind} {given:?}{meant}; there are: {valid}")
    }
}

/// Returns the valid name with the smallest Damerau-Levenshtein distance to `given`.
///
/// A name qualifies if at most a third of its characters differ, or if one of the two is a prefix or suffix of the
/// other, of at least three characters.
pub fn nearest<'a>(given: &str, valid: &[&'a str]) -> Option<&'a str> {
    let edits = |name: &str| strsim::damerau_levenshtein(given, name);
    let part = |name: &str| {
        let overlap = |long: &str, short: &str| short.len() >= 3 && (long.starts_with(short) || long.ends_with(short));
        overlap(name, given) || overlap(given, name)
    };
    let close = |name: &str| edits(name) <= name.len().max(given.len()).div_ceil(3) && edits(name) < name.len();
    let candidates = valid.iter().copied().filter(|name| close(name) || part(name));
    candidates.min_by_key(|name| edits(name))
}

#[cfg(test)]
mod tests {
    use super::*;

    const NAMES: [&str; 5] = ["lns", "sin", "log", "tdrive_counts", "nyc_taxi_ge"];

    #[test]
    fn the_nearest_name_needs_the_fewest_edits() {
        let near = [("sni", "sin"), ("lsn", "lns"), ("tdrive", "tdrive_counts"), ("nyc_taxi", "nyc_taxi_ge")];
        for (given, meant) in near {
            assert_eq!(nearest(given, &NAMES), Some(meant), "{given}");
        }
        assert_eq!(nearest("zebra", &NAMES), None);
        assert_eq!(nearest("", &NAMES), None);
    }

    #[test]
    fn the_message_lists_all_valid_names() {
        let error = UnknownName::new("data set", "LNSS", NAMES);
        let expected = "there is no data set \"LNSS\" (did you mean lns?); \
                        there are: lns, sin, log, tdrive_counts, nyc_taxi_ge";
        assert_eq!(error.to_string(), expected);
        assert!(
            UnknownName::new("data set", "zebra", NAMES).to_string().starts_with("there is no data set \"zebra\"; ")
        );
    }
}
