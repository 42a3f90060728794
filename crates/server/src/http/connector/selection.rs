//! [`Selection`]: which streams and kinds a connector sends, and under which subjects.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::store::RecordKind;

/// Kind of a record, as a connector sends it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum ConnectorKind {
    /// Releases of the mechanism.
    Releases,
    /// Answers of queries and monitors.
    Answers,
    /// Those answers in which a monitor reports the beginning or the end of an event.
    Alarms,
}

impl ConnectorKind {
    /// All kinds.
    pub const ALL: [Self; 3] = [Self::Releases, Self::Answers, Self::Alarms];

    /// Returns the name that users read.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Releases => "releases",
            Self::Answers => "answers",
            Self::Alarms => "alarms",
        }
    }

    /// Returns the kind of the records in the store.
    pub(super) const fn stored(self) -> RecordKind {
        match self {
            Self::Releases => RecordKind::Release,
            Self::Answers | Self::Alarms => RecordKind::Answer,
        }
    }

    /// Returns the name of the record in a message.
    pub(super) const fn field(self) -> &'static str {
        match self {
            Self::Releases => "release",
            Self::Answers | Self::Alarms => "answer",
        }
    }
}

/// Error of a pattern of subjects.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
#[allow(missing_docs)]
pub enum SubjectError {
    /// Numbers of two streams or kinds in one subject would be confused.
    #[error("it has {{stream}} and {{kind}} once each, as parts between dots: tidegate.published.{{stream}}.{{kind}}")]
    Places,
    #[error("between its dots are letters, digits, - and _ only, besides {{stream}} and {{kind}}")]
    Characters,
}

/// Pattern of the subjects of a connector, such as `tidegate.published.{stream}.{kind}`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SubjectPattern(String);

/// `tidegate.published.{stream}.{kind}`.
impl Default for SubjectPattern {
    fn default() -> Self {
        Self("tidegate.published.{stream}.{kind}".to_owned())
    }
}

impl SubjectPattern {
    /// Reads a pattern.
    ///
    /// # Errors
    /// [`SubjectError`].
    pub fn new(pattern: &str) -> Result<Self, SubjectError> {
        let parts: Vec<&str> = pattern.split('.').collect();
        let once = |wanted: &str| parts.iter().filter(|part| **part == wanted).count() == 1;
        if !once("{stream}") || !once("{kind}") {
            return Err(SubjectError::Places);
        }
        let is_plain = |part: &&str| {
            !part.is_empty() && part.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-' || byte == b'_')
        };
        if parts.iter().filter(|part| **part != "{stream}" && **part != "{kind}").all(is_plain) {
            Ok(Self(pattern.to_owned()))
        } else {
            Err(SubjectError::Characters)
        }
    }

    /// Returns a subject.
    pub fn of(&self, stream: &str, kind: &str) -> String {
        self.0.replace("{stream}", stream).replace("{kind}", kind)
    }

    /// Returns the NATS wildcard of all its subjects.
    pub fn wildcard(&self) -> String {
        self.of("*", "*")
    }
}

impl fmt::Display for SubjectPattern {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.0)
    }
}

/// What a connector sends.
#[derive(Clone, Debug)]
pub struct Selection {
    /// Subjects.
    pub subject: SubjectPattern,
    /// Names of streams, or beginnings of names with a `*` behind; all streams where there is none.
    pub streams: Vec<String>,
    /// Kinds.
    pub kinds: Vec<ConnectorKind>,
}

impl Default for Selection {
    fn default() -> Self {
        Self { subject: SubjectPattern::default(), streams: Vec::new(), kinds: ConnectorKind::ALL.to_vec() }
    }
}

impl Selection {
    /// Returns the kinds that are sent of a stream.
    pub(super) fn kinds_of(&self, stream: &str) -> impl Iterator<Item = ConnectorKind> {
        let is_named = |pattern: &String| match pattern.strip_suffix('*') {
            Some(beginning) => stream.starts_with(beginning),
            None => pattern == stream,
        };
        let wanted = self.streams.is_empty() || self.streams.iter().any(is_named);
        self.kinds.clone().into_iter().filter(move |_| wanted)
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn subjects_tell_streams_and_kinds_apart() {
        let pattern = SubjectPattern::new("eu.{kind}.of.{stream}").unwrap();
        assert_eq!(pattern.of("visits", "alarms"), "eu.alarms.of.visits");
        assert_eq!(pattern.wildcard(), "eu.*.of.*");
        for wrong in ["tidegate.{stream}", "x.{stream}.{stream}.{kind}", "x-{stream}.{kind}", "", "{kind}"] {
            assert_eq!(SubjectPattern::new(wrong), Err(SubjectError::Places), "{wrong}");
        }
        for wrong in ["a b.{stream}.{kind}", "*.{stream}.{kind}", "..{stream}.{kind}", "{stream}.{kind}.>"] {
            assert_eq!(SubjectPattern::new(wrong), Err(SubjectError::Characters), "{wrong}");
        }
    }

    #[test]
    fn streams_are_chosen_by_name_or_by_its_beginning() {
        let streams = vec!["visits".to_owned(), "web-*".to_owned()];
        let selection = Selection { streams, kinds: vec![ConnectorKind::Alarms], ..Selection::default() };
        let chosen = |stream: &str| selection.kinds_of(stream).count();
        assert_eq!((chosen("visits"), chosen("web-shop"), chosen("visits2"), chosen("shop-web-")), (1, 1, 0, 0));
        assert_eq!(Selection::default().kinds_of("any").count(), 3);
    }
}
