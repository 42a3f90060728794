//! Models of sequences, learned from a table of users' symbols.

use std::collections::BTreeMap;
use std::io::Read;
use std::num::NonZeroU64;

use serde::Deserialize;
use tidegate::kernel::{Epsilon, Randomness, SeededRandom, SystemRandom};
use tidegate::sequence::fit::{PrivateFit, fit};
use tidegate::sequence::model::{Background, Model, Order, Smoothing};
use tidegate::spec::{InputSpec, Values, ValuesSpec};
use tidegate_table::Reading;
use tidegate_table::long::{FieldRefusal, LongReader};

use crate::Error;
use crate::model_file::ModelFile;

/// How a model is learned, with the names of the command's options. Without epsilon, the model reveals the table.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Fit {
    /// The symbols.
    #[serde(default = "none")]
    pub domain: ValuesSpec,
    /// How many symbols of the past the next one depends on: 1 or 2.
    #[serde(default = "one")]
    pub order: u8,
    /// The privacy loss of any user.
    pub epsilon: Option<Epsilon>,
    /// How many transitions of a user count at most, with epsilon.
    pub contribution: Option<NonZeroU64>,
    /// Pseudo-observations of each row.
    #[serde(default = "one_each")]
    pub pseudo_count: f64,
    /// The seed, with epsilon; the model is not private then.
    pub seed: Option<u64>,
    /// How the table is read.
    #[serde(default)]
    pub input: InputSpec,
}

const fn none() -> ValuesSpec {
    ValuesSpec::Number(0)
}

const fn one() -> u8 {
    1
}

const fn one_each() -> f64 {
    1.0
}

impl Fit {
    /// How the table is read.
    ///
    /// # Errors
    /// [`Error::Spec`].
    pub fn reading(&self) -> Result<Reading, Error> {
        Reading::of(&self.input).map_err(|problem| Error::Spec(format!("--origin: {problem}")))
    }

    /// The symbols, of which there are at least two.
    ///
    /// # Errors
    /// [`Error::Spec`].
    pub fn values(&self) -> Result<Values, Error> {
        let values = self.domain.values().map_err(|error| Error::Spec(error.to_string()))?;
        if values.count() < 2 {
            return Err(Error::Spec("--domain: a model needs at least two symbols".to_owned()));
        }
        Ok(values)
    }

    /// Learns the model of a table.
    ///
    /// # Errors
    /// [`Error::Data`] for the table, [`Error::Spec`] for these options.
    pub fn learn<R: Read>(&self, table: LongReader<R>) -> Result<ModelFile, Error> {
        let order = match self.order {
            1 => Order::One,
            2 => Order::Two,
            other => return Err(Error::Spec(format!("--order: expected 1 or 2, but {other} was given"))),
        };
        let (values, pseudo_count) = (self.values()?, self.pseudo_count);
        let private = match (self.epsilon, self.contribution) {
            (Some(epsilon), Some(contribution)) => Some(PrivateFit { epsilon, contribution, order, pseudo_count }),
            (None, None) if self.seed.is_none() => None,
            (None, None) => return Err(Error::Spec("--seed goes with --epsilon".to_owned())),
            _ => return Err(Error::Spec("--epsilon and --contribution need each other".to_owned())),
        };
        let sequences = read(table, &values)?;
        let model = match (private, self.seed) {
            (Some(settings), Some(seed)) => privately(&values, &sequences, &settings, &mut SeededRandom::new(seed))?,
            (Some(settings), None) => {
                privately(&values, &sequences, &settings, &mut SystemRandom::new().map_err(Error::run)?)?
            }
            (None, _) => {
                let smoothing = Smoothing { pseudo_count, background: Background::Frequencies };
                let users = sequences.values().map(Vec::as_slice);
                Model::learn(values.count(), users, order, smoothing).map_err(|error| Error::Spec(error.to_string()))?
            }
        };
        Ok(ModelFile { model, seeded: self.seed.is_some() })
    }
}

/// Sequences by user.
fn read<R: Read>(mut table: LongReader<R>, values: &Values) -> Result<BTreeMap<String, Vec<u32>>, Error> {
    let mut sequences: BTreeMap<String, Vec<u32>> = BTreeMap::new();
    let mut next = || {
        table.next_checked(|row| {
            let expected = "a symbol of --domain";
            let refused = || FieldRefusal { field: "value", expected: expected.into() };
            let symbol = values.find(row.value).ok_or_else(refused)?;
            match sequences.get_mut(row.user) {
                Some(sequence) => sequence.push(symbol),
                None => drop(sequences.insert(row.user.to_owned(), vec![symbol])),
            }
            Ok(())
        })
    };
    while next()?.is_some() {}
    Ok(sequences)
}

fn privately(
    values: &Values,
    sequences: &BTreeMap<String, Vec<u32>>,
    settings: &PrivateFit,
    random: &mut impl Randomness,
) -> Result<Model, Error> {
    let fitted = fit(values.count(), sequences.values().map(Vec::as_slice), settings, random);
    fitted.map_err(|error| Error::Spec(error.to_string()))
}
