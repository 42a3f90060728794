//! `eye_irf_lookatpoint`: where six people look who follow a point on a screen, released with IRF (R. Zemblys).
//!
//! The folder holds `gaze.csv.gz`: subject, time in seconds, direction across and up in degrees, whether the sample is
//! valid, and the kind of movement, a thousand times a second for 81 seconds each.
//!
//! The stream has a sequence for each person. Samples that are not valid (3.4 %) are left out, the others moved into
//! the box -22.1..22.1°, -13.8..13.1°, which holds 99 % of either angle, and put into the cells of a grid of 100 x 100
//! over it, numbered by rows from the lower left; every 20th is used. So there are 50 a second, as in the
//! sequence-privacy paper, whose data (ten people, five hours each) are not public.

use std::path::Path;

use tidegate_table::{Format, TableReader};

use super::DatasetError;
use super::files::{later, open_data};
use crate::stream::{Space, SymbolStream};

const SIDE: u16 = 100;
const ACROSS: (f64, f64) = (-22.1, 22.1);
const UP: (f64, f64) = (-13.8, 13.1);
const EVERY: usize = 20;

pub(super) const STANDS_IN_FOR: &str =
    "the sequence-privacy paper's Mojo stream (ten people, five hours each): six people, 81 seconds each";

pub(super) fn load(folder: &Path) -> Result<SymbolStream, DatasetError> {
    let path = folder.join("gaze.csv.gz");
    let file = path.display().to_string();
    let mut table = TableReader::new(&file, open_data(&path)?, Format::Csv)?;
    table.expect_header(&["subject", "t", "x", "y", "status", "evt"])?;
    let mut sequences: Vec<Vec<u32>> = Vec::new();
    let (mut subject, mut last, mut valid) = (None, None, 0);
    while let Some(line) = table.next_line()? {
        let this: u32 = line.number(0, "the number of a person")?;
        if subject != Some(this) {
            if !later(&mut subject, this) {
                return Err(line.bad_field(0, "the people one after another, by number").into());
            }
            sequences.push(Vec::new());
            (last, valid) = (None, 0);
        }
        let time = line.finite(1, "a time in seconds")?;
        if !later(&mut last, time) {
            return Err(line.bad_field(1, "a time that is later than the last").into());
        }
        match line.text(4) {
            "False" => continue,
            "True" => {}
            _ => return Err(line.bad_field(4, "True or False").into()),
        }
        let column = cell(line.finite(2, "an angle in degrees")?, ACROSS);
        let row = cell(line.finite(3, "an angle in degrees")?, UP);
        if valid % EVERY == 0
            && let Some(sequence) = sequences.last_mut()
        {
            sequence.push(row * u32::from(SIDE) + column);
        }
        valid += 1;
    }
    let stream = SymbolStream::new("eye_irf_lookatpoint", Space::Grid { columns: SIDE, rows: SIDE }, sequences);
    Ok(stream.map_err(|source| DatasetError::Stream { file, source })?.standing_in_for(STANDS_IN_FOR))
}

/// Which of the cells between two borders an angle lies in; beyond them, the first or the last.
fn cell(angle: f64, (low, high): (f64, f64)) -> u32 {
    #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)] // between 0 and SIDE
    let cell = ((angle.clamp(low, high) - low) / (high - low) * f64::from(SIDE)) as u32;
    cell.min(u32::from(SIDE) - 1)
}
