//! JSON values as the text of a table's field.

use serde_json::value::RawValue;
use tidegate::kernel::Decimal;

/// Returns the text of a JSON string, Boolean or number; `None` for any other value.
///
/// A number keeps all its digits and is written without an exponent.
///
/// ```
/// let text = |json| tidegate_table::json::text_of_json(serde_json::from_str(json).ok()?);
/// assert_eq!(text("1700000000000000129").as_deref(), Some("1700000000000000129"));
/// assert_eq!(text("-1.50e1").as_deref(), Some("-15"));
/// assert_eq!(text("\"home\"").as_deref(), Some("home"));
/// assert_eq!(text("null"), None);
/// ```
pub fn text_of_json(value: &RawValue) -> Option<String> {
    let json = value.get();
    match json.as_bytes() {
        [b'"', ..] => serde_json::from_str(json).ok(),
        [b'1'..=b'9', rest @ ..] if rest.iter().all(u8::is_ascii_digit) => Some(json.to_owned()),
        [b'-' | b'0'..=b'9', ..] => {
            // Too long for a decimal: keep its form.
            Some(json.parse::<Decimal>().map_or_else(|_| json.to_owned(), |number| number.to_string()))
        }
        b"true" | b"false" => Some(json.to_owned()),
        _ => None,
    }
}

/// Replaces `NaN`, `Infinity` and their other spellings by `null`; returns `None` if there are none.
///
/// Some writers emit them in place of numbers, and one of them must not make a whole text unreadable.
///
/// ```
/// use tidegate_table::json::without_nan;
///
/// assert_eq!(without_nan(r#"{"NaN": -Infinity}"#).as_deref(), Some(r#"{"NaN": null}"#));
/// assert_eq!(without_nan(r#"{"value": "a \"NaN\""}"#), None);
/// ```
pub fn without_nan(json: &str) -> Option<String> {
    let (mut clean, mut rest, mut in_text, mut changed) = (String::with_capacity(json.len()), json, false, false);
    while let Some(next) = rest.chars().next() {
        let begins = |word: &str| rest.get(..word.len()).is_some_and(|start| start.eq_ignore_ascii_case(word));
        let words = ["-infinity", "infinity", "-inf", "inf", "-nan", "nan"];
        let word = words.into_iter().find(|word| !in_text && begins(word));
        if let Some(word) = word {
            clean.push_str("null");
            rest = &rest[word.len()..];
            changed = true;
            continue;
        }
        let escaped = in_text && next == '\\';
        let length = if escaped { rest.chars().take(2).map(char::len_utf8).sum() } else { next.len_utf8() };
        in_text ^= next == '"';
        clean.push_str(&rest[..length]);
        rest = &rest[length..];
    }
    changed.then_some(clean)
}
