//! Numbers: a reading a line.

use std::io::Read;

use serde::{Deserialize, Serialize};
use tidegate::kernel::{Account, Ledger, Randomness, Sealed, VaultKey};
use tidegate::scalar::{SavedScalar, Scalar};
use tidegate::spec::{Intake, ScalarSpec, SpecError};
use tidegate_table::releases::ReleaseLayout as Shape;
use tidegate_table::scalar::ScalarReader as Readings;
use tidegate_table::{Format, TableError as DataError};

use super::gate::{Family, Next, Rejected};
use super::rows::Released;
use super::state::{decoded, encoded, misfit};
use crate::failure::Failure;

pub(super) struct Numbers {
    event: Scalar,
    intake: Intake,
    last: Option<u64>,
    /// What readings that are held back are locked with.
    key: Option<VaultKey>,
}

#[derive(Serialize, Deserialize)]
struct State<L> {
    last: Option<u64>,
    event: SavedScalar<L>,
}

impl Numbers {
    pub(super) fn new(spec: &ScalarSpec) -> Result<Self, SpecError> {
        let (event, intake) = (spec.mechanism()?, spec.intake()?);
        Ok(Self { event, intake, last: None, key: None })
    }

    /// Goes on with a saved run, or saves this one, under a key.
    pub(super) fn restore(mut self, saved: Option<&[u8]>, key: VaultKey) -> Result<Self, Failure> {
        if let Some(saved) = saved {
            let State { last, event } = decoded::<State<Ledger>>(saved)?;
            let event = Scalar::load(event, &key).map_err(misfit)?;
            if event.settings() != self.event.settings() || event.kind() != self.event.kind() {
                return Err(misfit("it is of other settings"));
            }
            (self.event, self.last) = (event, last);
        }
        self.key = Some(key);
        Ok(self)
    }
}

impl Family for Numbers {
    type Item = Sealed<i64>;
    type Intake = (Intake, Account, Option<u64>);

    fn shape(&self) -> Shape {
        Shape::Number
    }

    fn intake(&self) -> Self::Intake {
        (self.intake, self.event.ledger().account(), self.last)
    }

    fn read<S: Read>(
        (intake, account, last): Self::Intake,
        name: &str,
        source: S,
        format: Format,
    ) -> Result<impl FnMut() -> Next<Self::Item>, DataError> {
        let mut readings = Readings::in_format(name, source, format)?.after(last);
        let seal = move |timestamp, text: &str| intake.seal(account, timestamp, text);
        Ok(move || Ok(readings.next_text(seal)?.map(|reading| (readings.line(), reading))))
    }

    fn push(&mut self, reading: Self::Item, random: &mut impl Randomness, out: &mut Released) -> Result<(), Rejected> {
        self.last = Some(reading.timestamp());
        Ok(self.event.push_into(reading, random, &mut out.releases).map_err(Failure::run)?)
    }

    fn time_of(reading: &Self::Item) -> u64 {
        reading.timestamp()
    }

    fn last(&self) -> Option<u64> {
        self.last
    }

    fn pass_empty(&mut self, timestamp: u64, random: &mut impl Randomness, out: &mut Released) -> Result<(), Failure> {
        let account = self.event.ledger().account();
        let missing = self.intake.seal_missing(account, timestamp);
        self.last = Some(timestamp);
        self.event.push_into(missing, random, &mut out.releases).map_err(Failure::run)
    }

    fn finish(&mut self, random: &mut impl Randomness, out: &mut Released) -> Result<(), Failure> {
        out.releases.extend(self.event.finish(random).map_err(Failure::run)?);
        Ok(())
    }

    fn save(&self) -> Result<Vec<u8>, Failure> {
        let key = self.key.as_ref().ok_or_else(|| Failure::run("there is no key to save under"))?;
        encoded(&State { last: self.last, event: self.event.save(key).map_err(Failure::run)? })
    }
}
