//! All reports of a frequency oracle.

use tidegate_kernel::oracle::{Oracle, OracleKind};

use crate::experiment::RunError;

/// How many hash functions are looked at. Given any, a report either tells two values apart or does not, and always as
/// well.
const HASHES: u64 = 64;

/// The longest report, without the hash function, that is enumerated.
const MOST_BYTES: usize = 2;

/// The laws of an oracle's report: for each value, the logarithm of the probability of each report. `None` where there
/// are too many reports. For local hashing, given one of a few hash functions.
pub fn laws(oracle: &Oracle) -> Result<Option<Vec<Vec<f64>>>, RunError> {
    let hashes: Vec<Vec<u8>> = match oracle.kind() {
        OracleKind::Blh | OracleKind::Olh => {
            (1..=HASHES).map(|seed| seed.wrapping_mul(0x9e37_79b9_7f4a_7c15).to_le_bytes().to_vec()).collect()
        }
        _ => vec![Vec::new()],
    };
    let tail = oracle.report_length() - hashes[0].len();
    if tail > MOST_BYTES {
        return Ok(None);
    }
    let mut laws = vec![Vec::new(); oracle.domain() as usize];
    for hash in &hashes {
        for number in 0..1_u32 << (8 * tail) {
            let report = [hash.as_slice(), &number.to_le_bytes()[..tail]].concat();
            if oracle.check(&report).is_err() {
                continue;
            }
            for (value, law) in (0..).zip(&mut laws) {
                law.push(oracle.log_likelihood(value, &report).map_err(RunError::failed)?);
            }
        }
    }
    Ok(Some(laws))
}

/// For each pair of values, one after the other, the most that a report can speak for the first and against the second.
pub fn losses(laws: &[Vec<f64>]) -> Vec<f64> {
    let most = |one: &Vec<f64>, other: &Vec<f64>| one.iter().zip(other).map(|(a, b)| a - b).fold(0.0, f64::max);
    laws.iter().flat_map(|one| laws.iter().map(move |other| most(one, other))).collect()
}
