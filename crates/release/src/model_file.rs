//! [`ModelFile`]: a Markov model in a file of its own.

use std::fs;

use serde_json::Value;
use tidegate::sequence::model::Model;

use crate::Error;

/// A model, as `tidegate model fit` writes it.
#[derive(Debug)]
pub struct ModelFile {
    /// The model.
    pub model: Model,
    /// Whether the noise of its fit came from a seed, so that it is not private.
    pub seeded: bool,
}

/// The key of a file that says that its model was learned with a seed. Other files do not have it.
const SEEDED: &str = "seeded";

impl ModelFile {
    /// The content of the file.
    ///
    /// # Errors
    /// None in practice: a model is made of numbers and names.
    pub fn to_json(&self) -> Result<String, Error> {
        let mut json = serde_json::to_value(&self.model).map_err(Error::run)?;
        if self.seeded {
            json[SEEDED] = true.into();
        }
        serde_json::to_string(&json).map_err(Error::run)
    }

    /// Reads a model from its file.
    ///
    /// # Errors
    /// A file that cannot be read or is no model.
    pub fn read(path: &str) -> Result<Self, Error> {
        let text = fs::read_to_string(path)
            .map_err(|error| Error::Spec(format!("the model {path} cannot be read: {error}")))?;
        Self::parse(path, &text)
    }

    /// Reads a model from the content of its file; `path` is the name in errors.
    ///
    /// # Errors
    /// A text that is no model.
    pub fn parse(path: &str, text: &str) -> Result<Self, Error> {
        let wrong = |error: &dyn std::fmt::Display| {
            Error::Spec(format!("{path} is not a model that `tidegate model fit` wrote: {error}"))
        };
        let mut json: Value = serde_json::from_str(text).map_err(|error| wrong(&error))?;
        let seeded = match json.as_object_mut().and_then(|keys| keys.remove(SEEDED)) {
            None => false,
            Some(Value::Bool(seeded)) => seeded,
            Some(_) => return Err(wrong(&"seeded is neither true nor false")),
        };
        let model = serde_json::from_value(json).map_err(|error| wrong(&error))?;
        Ok(Self { model, seeded })
    }

    /// Says that the model of a file is not private.
    pub fn seeded_note(path: &str) -> String {
        format!("the model {path} was learned with a seed, so it is not private: learn it without --seed")
    }
}
