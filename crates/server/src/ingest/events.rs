//! Parser of curator events: one JSON object, an array of them, or one object a line.
//!
//! Errors name the position and the field, and never repeat a value. None of them depends on a value.

use std::collections::HashMap;

use serde_json::value::RawValue;
use tidegate_table::json::{text_of_json, without_nan};

use super::CuratorEvent;

/// Most events in one request.
pub const MAX_EVENTS: usize = 100_000;

/// A malformed request.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct EventSyntaxError {
    /// Line or element, from zero; `None` where the error is about the whole request.
    pub position: Option<usize>,
    /// What was expected.
    pub message: String,
}

impl EventSyntaxError {
    fn at(position: usize, message: &str) -> Self {
        Self { position: Some(position), message: message.to_owned() }
    }
}

/// Parses events, from JSON or from newline-delimited JSON. `NaN` and infinities are accepted as missing values.
///
/// # Errors
/// The first malformed event.
pub fn parse_events(body: &[u8], is_lines: bool) -> Result<Vec<CuratorEvent>, EventSyntaxError> {
    parse_strict(body, is_lines).or_else(|error| match str::from_utf8(body).ok().and_then(without_nan) {
        Some(clean) => parse_strict(clean.as_bytes(), is_lines),
        None => Err(error),
    })
}

fn parse_strict(body: &[u8], is_lines: bool) -> Result<Vec<CuratorEvent>, EventSyntaxError> {
    each(body, is_lines, "events", |event| parse_event(event).map_err(str::to_owned))
}

/// Parses one JSON value, an array of them, or one a line.
pub(super) fn each<T>(
    body: &[u8],
    is_lines: bool,
    what: &str,
    parse: impl Fn(&RawValue) -> Result<T, String>,
) -> Result<Vec<T>, EventSyntaxError> {
    let no_json = |position: usize| EventSyntaxError::at(position, "this is no JSON");
    let values: Vec<&RawValue> = if is_lines {
        let lines = body.split(|byte| *byte == b'\n').enumerate();
        let lines = lines.filter(|(_, line)| !line.trim_ascii().is_empty()).take(MAX_EVENTS + 1);
        let read = lines.map(|(place, line)| serde_json::from_slice(line).map_err(|_| no_json(place)));
        read.collect::<Result<_, EventSyntaxError>>()?
    } else {
        let whole: &RawValue = serde_json::from_slice(body).map_err(|_| no_json(0))?;
        if whole.get().starts_with('[') {
            serde_json::from_str(whole.get()).map_err(|_| no_json(0))?
        } else {
            vec![whole]
        }
    };
    if values.is_empty() || values.len() > MAX_EVENTS {
        return Err(EventSyntaxError { position: None, message: format!("expected 1 to {MAX_EVENTS} {what}") });
    }
    let one = |(position, value)| parse(value).map_err(|message| EventSyntaxError::at(position, &message));
    values.into_iter().enumerate().map(one).collect()
}

fn parse_event(event: &RawValue) -> Result<CuratorEvent, &'static str> {
    let Ok(mut event) = serde_json::from_str::<HashMap<String, &RawValue>>(event.get()) else {
        return Err("expected an object with value, and user");
    };
    let user = match event.remove("user").map(RawValue::get) {
        None | Some("null") => None,
        Some(user) => Some(serde_json::from_str(user).map_err(|_| "user: expected a text")?),
    };
    // Some senders leave out null or zero.
    let value = event.remove("value").and_then(text_of_json).unwrap_or_default();
    if event.is_empty() { Ok(CuratorEvent { user, value }) } else { Err("expected value and user, and nothing else") }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    fn parse(body: &str, is_lines: bool) -> Result<Vec<CuratorEvent>, EventSyntaxError> {
        parse_events(body.as_bytes(), is_lines)
    }

    #[test]
    fn parses_objects_arrays_and_lines() {
        let event =
            |user: Option<&str>, value: &str| CuratorEvent { user: user.map(str::to_owned), value: value.to_owned() };
        let one = r#"{"user": "anna", "value": "home"}"#;
        let anna = event(Some("anna"), "home");
        assert_eq!(parse(one, false).unwrap(), std::slice::from_ref(&anna));
        let two = r#"[{"user": "anna", "value": "home"}, {"value": 7.5}]"#;
        let both = [anna, event(None, "7.5")];
        assert_eq!(parse(two, false).unwrap(), both);
        assert_eq!(parse(&format!("{one}\n\r\n  {{\"value\": 7.5}}\n"), true).unwrap(), both);
    }

    #[test]
    fn keeps_all_digits_and_accepts_any_value() {
        let value = |json: &str| parse(json, false).unwrap()[0].value.clone();
        for (json, text) in [
            ("1700000000000000129", "1700000000000000129"),
            ("1.50", "1.5"),
            ("-0", "0"),
            ("1e400", &format!("1{}", "0".repeat(400))),
            ("1e4000", "1e4000"),
            ("\"abc\"", "abc"),
            ("\"\\ud800\"", ""),
            ("null", ""),
            ("NaN", ""),
            ("-Infinity", ""),
            ("-nan", ""),
            ("inf", ""),
            ("true", "true"),
            ("[1]", ""),
            ("{\"is\": 1}", ""),
        ] {
            assert_eq!(value(&format!("{{\"value\": {json}}}")), text, "{json}");
        }
        assert_eq!(value("{}"), "");
    }

    #[test]
    fn errors_name_the_field_but_no_value() {
        let secret = "Mata Hari";
        for (body, is_lines, field, position) in [
            (format!(r#"[{{"value": 1}}, {{"value": 1, "user": ["{secret}"]}}]"#), false, "user: expected", Some(1)),
            (format!("{{\"value\": 1}}\n\n{{\"value\": 1, \"{secret}\": 1}}"), true, "nothing else", Some(1)),
            (format!("{{\"value\": 1}}\n\n{{\"value\": {secret}}}"), true, "no JSON", Some(2)),
            (format!(r#""{secret}""#), false, "expected an object", Some(0)),
            (secret.to_owned(), false, "no JSON", Some(0)),
            ("[]".to_owned(), false, "1 to 100000", None),
            ("\n\n".to_owned(), true, "1 to 100000", None),
        ] {
            let error = parse(&body, is_lines).unwrap_err();
            assert!(error.message.contains(field) && error.position == position, "{body}: {error:?}");
            assert!(!format!("{error:?}").contains(secret), "{error:?}");
        }
        assert!(parse("\u{feff}{\"value\": 1}", false).is_err());
        assert!(parse_events(b"{\"value\": \"\xff\"}", false).is_err());
    }
}
