//! Parser of users' classes: one JSON object, an array of them, or one object a line.

use serde::Deserialize;

use super::event_buffer::MAX_USER;
use super::events::{EventSyntaxError, each};

/// Wish of a user.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ClassRequest {
    /// Name of the user.
    pub user: String,
    /// Class that the user wants; `None` to leave.
    #[serde(deserialize_with = "Option::deserialize")] // not to be left out
    pub class: Option<String>,
}

/// Parses users and their classes, from JSON or from newline-delimited JSON.
///
/// # Errors
/// The first malformed line or element.
pub fn parse_class_requests(body: &[u8], is_lines: bool) -> Result<Vec<ClassRequest>, EventSyntaxError> {
    each(body, is_lines, "users", |value| {
        let request: ClassRequest = serde_json::from_str(value.get())
            .map_err(|_| "expected an object with user, a text, and class, a text or null")?;
        if is_user(&request.user) { Ok(request) } else { Err(format!("user: expected {USER}")) }
    })
}

/// What a name of a user must be.
pub(crate) const USER: &str = "a name of 1 to 256 bytes without the byte 0";

/// Whether a text can be the name of a user in a registry.
pub(crate) fn is_user(name: &str) -> bool {
    (1..=MAX_USER).contains(&name.len()) && !name.contains('\0')
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn parses_objects_arrays_and_lines() {
        let request =
            |user: &str, class: Option<&str>| ClassRequest { user: user.to_owned(), class: class.map(str::to_owned) };
        let (anna, bert) = (request("anna", Some("high")), request("bert", None));
        let text = r#"[{"user": "anna", "class": "high"}, {"user": "bert", "class": null}]"#;
        assert_eq!(parse_class_requests(text.as_bytes(), false).unwrap(), [anna.clone(), bert]);
        let line = br#"{"user": "anna", "class": "high"}"#;
        assert_eq!(parse_class_requests(line, false).unwrap(), std::slice::from_ref(&anna));
        assert_eq!(parse_class_requests(line, true).unwrap(), [anna]);
    }

    #[test]
    fn errors_name_the_line_and_the_field() {
        for (body, position, message) in [
            ("{\"user\": \"a\"}", 0, "class"),
            ("{\"user\": \"a\", \"class\": 1}", 0, "class"),
            ("{\"user\": \"a\", \"class\": null}\n{\"user\": \"\", \"class\": null}", 1, "user: expected"),
            ("{\"user\": \"a\\u0000\", \"class\": null}", 0, "user: expected"),
            ("{\"user\": \"a\", \"class\": null, \"x\": 1}", 0, "expected an object"),
        ] {
            let error = parse_class_requests(body.as_bytes(), true).unwrap_err();
            assert_eq!(error.position, Some(position), "{body}");
            assert!(error.message.contains(message), "{body}: {}", error.message);
        }
    }
}
