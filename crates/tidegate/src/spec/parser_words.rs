//! Messages of the parsers behind specs, in the words of this project.

use super::ProtectsSpec;
use crate::names::nearest;

/// Rewrites a message of serde, `toml` or `serde_json` about a spec or a configuration: unknown keys and names come
/// with the nearest known one, and types have plain names. Other messages stay as they are.
///
/// ```
/// use tidegate::spec::plain_words;
///
/// assert_eq!(plain_words("missing field `epsilon`"), "the key epsilon is missing");
/// assert_eq!(plain_words("invalid type: string \"x\", expected u32"), "expected a whole number, 0 or more, not text");
/// ```
pub fn plain_words(message: &str) -> String {
    let quoted: Vec<&str> = message.split('`').skip(1).step_by(2).collect();
    match (quoted.split_first(), message.split_once(": ")) {
        (Some((given, valid)), _) if message.starts_with("unknown field") => unknown("key ", given, valid),
        (Some((given, valid)), _) if message.starts_with("unknown variant") => unknown("", given, valid),
        (Some((&"protects", [])), _) if message.starts_with("missing field") => {
            format!("the key protects is missing: {}", ProtectsSpec::CHOICE)
        }
        (Some((key, [])), _) if message.starts_with("missing field") => format!("the key {key} is missing"),
        (Some((key, _)), _) if message.starts_with("duplicate field") => format!("the key {key} is given twice"),
        (_, Some(("invalid type", rest))) => mismatch(rest, |given| format!("not {}", kind(given))),
        (_, Some(("invalid value", rest))) => mismatch(rest, |given| format!("but {} was given", value(given))),
        _ if message.starts_with("string values must be quoted") => "text must stand in quotes".to_owned(),
        _ if message.starts_with("duplicate key") => "this key is given twice".to_owned(),
        _ => message.to_owned(),
    }
}

fn unknown(what: &str, given: &str, valid: &[&str]) -> String {
    let meant = nearest(&given.to_lowercase(), valid).map(|meant| format!(" (did you mean {meant}?)"));
    format!("there is no {what}{given:?}{}; there are: {}", meant.unwrap_or_default(), valid.join(", "))
}

/// `rest` is what was given, and what was expected.
fn mismatch(rest: &str, but: impl Fn(&str) -> String) -> String {
    match rest.rsplit_once(", expected ") {
        Some((given, wanted)) => format!("expected {}, {}", expected(wanted), but(given)),
        None => rest.to_owned(),
    }
}

/// Expectation of a parser, with the place where it stopped, if it names one.
fn expected(wanted: &str) -> String {
    let (wanted, place) = match wanted.split_once(" at line ") {
        Some((wanted, place)) => (wanted, format!(" at line {place}")),
        None => (wanted, String::new()),
    };
    let words = match wanted {
        "u8" | "u16" | "u32" | "u64" | "u128" | "usize" => "a whole number, 0 or more",
        "i8" | "i16" | "i32" | "i64" | "i128" | "isize" => "a whole number",
        "f32" | "f64" => "a number",
        "a string" | "a borrowed string" | "path string" | "a character" | "string or map" => "text in quotes",
        "a boolean" => "true or false",
        "a sequence" => "a list in brackets",
        "a map" => "a table",
        wanted if wanted.starts_with("a nonzero ") => "a whole number, 1 or more",
        wanted if wanted.starts_with("struct ") => "a table",
        wanted if wanted.starts_with("internally tagged enum ") || wanted.starts_with("enum ") => "a table, or a name",
        wanted => wanted,
    };
    format!("{words}{place}")
}

/// The kind of what was given, without its value.
fn kind(given: &str) -> &str {
    let is = |kind: &str| given.starts_with(kind);
    if is("string") {
        "text"
    } else if is("integer") {
        "a whole number"
    } else if is("floating point") {
        "a number with a fraction"
    } else if is("boolean") {
        "true or false"
    } else if is("sequence") {
        "a list"
    } else if is("map") {
        "a table"
    } else if is("null") || is("unit") {
        "nothing"
    } else {
        given
    }
}

/// The value that was given, without its kind.
fn value(given: &str) -> &str {
    given.split(['`', '"']).nth(1).unwrap_or(given)
}

#[cfg(test)]
mod tests {
    use super::plain_words;

    #[test]
    fn parsers_speak_plainly() {
        for (message, words) in [
            (
                "unknown field `epsilo`, expected one of `epsilon`, `window`",
                "there is no key \"epsilo\" (did you mean epsilon?); there are: epsilon, window",
            ),
            (
                "unknown variant `Above`, expected `above` or `below`",
                "there is no \"Above\" (did you mean above?); there are: above, below",
            ),
            ("missing field `window`", "the key window is missing"),
            ("duplicate field `window`", "the key window is given twice"),
            ("invalid type: string \"5\", expected u32", "expected a whole number, 0 or more, not text"),
            ("invalid type: integer `5`, expected a string", "expected text in quotes, not a whole number"),
            (
                "invalid type: floating point `1.5`, expected a nonzero u64",
                "expected a whole number, 1 or more, not a number with a fraction",
            ),
            ("invalid value: integer `-1`, expected u32", "expected a whole number, 0 or more, but -1 was given"),
            (
                "invalid value: integer `0`, expected a nonzero u64",
                "expected a whole number, 1 or more, but 0 was given",
            ),
            ("invalid type: map, expected a sequence", "expected a list in brackets, not a table"),
            ("invalid type: boolean `true`, expected struct DomainSpec", "expected a table, not true or false"),
            (
                "invalid type: null, expected u64 at line 1 column 9",
                "expected a whole number, 0 or more at line 1 column 9, not nothing",
            ),
            ("string values must be quoted, expected literal string", "text must stand in quotes"),
            ("an epsilon must be above 0", "an epsilon must be above 0"),
        ] {
            assert_eq!(plain_words(message), words);
        }
    }
}
