//! [`Issuing`]: tokens for the devices of a stream, one draw for each device and block of timestamps.

use std::collections::{BTreeMap, HashMap};
use std::sync::{Mutex, PoisonError};

use sha2::{Digest, Sha256};
use tidegate_device::credential::{BLOCK, DrawAnswer, DrawRequest, Issuer, TokenChecker};
use tidegate_device::wire::TokenProof;

use super::DrawError;
use super::admission::most_devices;
use crate::store::ReportBatch;
use crate::stream::Declaration;

/// First half of a hash: of a device's name, or of its draw.
type Half = [u8; 16];

/// The issuer of a stream, and who has drawn.
///
/// It remembers the draws of the present block and of the next, in memory only: 32 bytes for each device, and at most
/// as many devices as reports. A process that was restarted knows of none.
#[derive(Debug)]
pub(crate) struct Issuing {
    issuer: Issuer,
    most: usize,
    drawn: Mutex<BTreeMap<u64, HashMap<Half, Half>>>,
}

impl Issuing {
    /// The issuer of a stream with credentials; `None` for others.
    pub(crate) fn new(declaration: &Declaration, secret: &[u8; 32]) -> Option<Self> {
        let issuer = Issuer::new(secret, &declaration.name).filter(|_| declaration.credentials)?;
        let most = usize::try_from(most_devices(declaration, 1.0)?).unwrap_or(usize::MAX);
        Some(Self { issuer, most, drawn: Mutex::default() })
    }

    pub(crate) const fn issuer(&self) -> &Issuer {
        &self.issuer
    }

    /// Returns the blinded elements of a draw to answer. A draw that differs from an earlier one of this device for
    /// this block is refused.
    pub(crate) fn admit(&self, request: &DrawRequest, timestamp: u64) -> Result<Vec<[u8; 32]>, DrawError> {
        let elements = self.issuer.check(request)?;
        let (given, present) = (request.block, timestamp / BLOCK);
        if given != present && given.checked_sub(1) != Some(present) {
            return Err(DrawError::NotNow { given, present });
        }
        let (device, draw) = (half(request.device.as_bytes()), half(elements.as_flattened()));
        let mut drawn = self.drawn.lock().unwrap_or_else(PoisonError::into_inner);
        // What is over is forgotten before anything is added.
        *drawn = drawn.split_off(&present);
        let devices = drawn.entry(given).or_default();
        match devices.get(&device) {
            Some(before) if *before == draw => Ok(elements),
            Some(_) => Err(DrawError::Drawn),
            None if devices.len() >= self.most => Err(DrawError::Crowded),
            None => {
                devices.insert(device, draw);
                Ok(elements)
            }
        }
    }

    /// Evaluates a draw that was admitted. It takes some milliseconds.
    pub(crate) fn answer(&self, block: u64, elements: &[[u8; 32]]) -> Result<DrawAnswer, DrawError> {
        Ok(self.issuer.answer(block, elements)?)
    }
}

/// Returns the ascending indices of reports whose token is wrong, among some reports of a batch.
pub(crate) fn wrong_tokens(batch: &ReportBatch, checker: &TokenChecker, from: usize, count: usize) -> Vec<usize> {
    let reports = batch.iter().zip(batch.tokens()).enumerate().skip(from).take(count);
    let wrong = reports
        .filter(|(_, ((id, report, _), token))| !checker.accepts(batch.phase, *id, TokenProof::from(**token), report));
    wrong.map(|(index, _)| index).collect()
}

fn half(bytes: &[u8]) -> Half {
    let mut half = Half::default();
    half.copy_from_slice(&Sha256::digest(bytes)[..16]);
    half
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use tidegate::kernel::SeededRandom;
    use tidegate_device::credential::Draw;

    use super::*;

    fn issuing(population: u64) -> Issuing {
        let declaration = serde_json::json!({ "name": "visits", "tick": 1, "credentials": true, "spec": {
            "family": "local", "mechanism": "lpa", "epsilon": 1, "window": 2, "population": population, "domain": 4,
        } });
        Issuing::new(&serde_json::from_value(declaration).unwrap(), &[7; 32]).unwrap()
    }

    fn draw(issuing: &Issuing, device: &str, block: u64, seed: u64) -> DrawRequest {
        Draw::new(block, &mut SeededRandom::new(seed)).request(&issuing.issuer.credential(device).unwrap())
    }

    #[test]
    fn a_device_draws_once_for_each_block() {
        let issuing = issuing(10);
        let (first, other) = (draw(&issuing, "a", 5, 1), draw(&issuing, "a", 5, 2));
        let elements = issuing.admit(&first, 80).unwrap();
        assert_eq!(issuing.admit(&other, 80), Err(DrawError::Drawn));
        assert_eq!(issuing.admit(&first, 95), Ok(elements), "a retry");
        assert!(issuing.admit(&draw(&issuing, "b", 5, 2), 80).is_ok(), "another device");
        assert!(issuing.admit(&draw(&issuing, "a", 6, 3), 80).is_ok(), "the next block");
        for (given, now) in [(4, 80), (7, 80), (5, 96), (u64::MAX, 80), (0, u64::MAX)] {
            let refused = issuing.admit(&draw(&issuing, "a", given, 4), now);
            assert_eq!(refused, Err(DrawError::NotNow { given, present: now / BLOCK }));
        }
        assert!(matches!(issuing.admit(&DrawRequest { block: 6, ..first }, 80), Err(DrawError::Token(_))));
    }

    #[test]
    fn the_memory_of_draws_is_bounded() {
        let issuing = issuing(1);
        let refused = (0..1_100).filter(|device| {
            issuing.admit(&draw(&issuing, &format!("device-{device}"), 5, 1), 80) == Err(DrawError::Crowded)
        });
        assert_eq!(refused.count(), 1_100 - 1_004);
        // A device that has drawn may repeat it, and later blocks begin anew.
        assert!(issuing.admit(&draw(&issuing, "device-0", 5, 1), 80).is_ok());
        assert!(issuing.admit(&draw(&issuing, "device-1099", 6, 1), 80).is_ok());
        assert_eq!(issuing.drawn.lock().unwrap().len(), 2);
        assert!(issuing.admit(&draw(&issuing, "device-0", 7, 1), 16 * 7).is_ok());
        assert_eq!(issuing.drawn.lock().unwrap().len(), 1);
    }
}
