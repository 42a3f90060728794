//! From numbers to places: one type for all scales, with ticks at round numbers.

use std::ops;

use plotters::coord::ranged1d::{KeyPointHint, NoDefaultFormatting, Ranged, ValueFormatter};

use super::{Axis, PlotError, Scale};

/// An axis with its ends.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Range {
    low: f64,
    high: f64,
    scale: Scale,
}

impl Range {
    /// The axis of a panel, wide enough for these numbers; `from_zero` where lengths are compared, not places.
    pub(super) fn new(
        axis: &Axis,
        numbers: impl Iterator<Item = f64>,
        from_zero: bool,
        panel: &str,
    ) -> Result<Self, PlotError> {
        let (low, high) = match (&axis.scale, axis.limits) {
            (Scale::Names(names), _) => (-0.5, as_float(names.len()) - 0.5),
            (scale, Some((low, high))) => {
                let fits = low.is_finite() && high.is_finite() && low < high && (*scale != Scale::Log || low > 0.0);
                if !fits {
                    return Err(PlotError::Limits { panel: panel.to_owned(), limits: format!("{low}..{high}") });
                }
                (low, high)
            }
            (scale, None) => {
                let shown = numbers.filter(|number| has_place(scale, *number));
                let (low, high) = shown.fold((f64::INFINITY, f64::NEG_INFINITY), |(low, high), number| {
                    (low.min(number), high.max(number))
                });
                if low > high {
                    return Err(PlotError::NoPoints { panel: panel.to_owned() });
                }
                padded(scale, low, high, from_zero)
            }
        };
        Ok(Self { low, high, scale: axis.scale.clone() })
    }

    /// Whether a number has a place, be it beyond the limits.
    pub(super) fn has(&self, number: f64) -> bool {
        has_place(&self.scale, number)
    }

    /// The nearest number that lies between the ends.
    pub(super) fn within(&self, number: f64) -> f64 {
        if has_place(&self.scale, number) { number.clamp(self.low, self.high) } else { self.low }
    }

    /// Where bars begin.
    pub(super) fn floor(&self) -> f64 {
        self.within(0.0)
    }

    /// How far along the axis a number lies, from zero to one between the ends.
    fn position(&self, number: f64) -> f64 {
        match self.scale {
            Scale::Log => (number / self.low).ln() / (self.high / self.low).ln(),
            Scale::Linear | Scale::Names(_) | Scale::Times(_) => (number - self.low) / (self.high - self.low),
        }
    }

    /// At most about so many round numbers.
    pub(super) fn ticks(&self, most: usize) -> Vec<f64> {
        match &self.scale {
            Scale::Names(names) => (0..names.len()).map(as_float).collect(),
            Scale::Linear => linear_ticks(self.low, self.high, most),
            Scale::Times(times) => time_ticks(times, most),
            Scale::Log => log_ticks(self.low, self.high, most),
        }
    }

    pub(super) fn label(&self, number: f64) -> String {
        match &self.scale {
            Scale::Names(names) => {
                let name = names.iter().zip(0_u32..).find(|(_, place)| (f64::from(*place) - number).abs() < 0.25);
                name.map_or_else(String::new, |(name, _)| name.clone())
            }
            Scale::Times(times) => {
                let time = times.iter().find(|(place, _)| (timestamp(*place) - number).abs() < 0.25);
                time.map_or_else(String::new, |(_, time)| time.clone())
            }
            Scale::Linear | Scale::Log => tick_label(number),
        }
    }
}

#[allow(clippy::cast_precision_loss)] // a place on an axis
const fn timestamp(number: u64) -> f64 {
    number as f64
}

/// Timestamps with a text, evenly among all; a long text takes the place of several.
fn time_ticks(times: &[(u64, String)], most: usize) -> Vec<f64> {
    let longest = times.iter().map(|(_, text)| text.chars().count()).max().unwrap_or(0);
    let most = (most * 4 / longest.max(4)).max(2);
    let step = times.len().saturating_sub(1).div_ceil(most).max(1);
    times.iter().step_by(step).map(|(place, _)| timestamp(*place)).collect()
}

#[allow(clippy::cast_precision_loss)] // numbers of names, and of ticks
const fn as_float(number: usize) -> f64 {
    number as f64
}

fn has_place(scale: &Scale, number: f64) -> bool {
    number.is_finite() && (*scale != Scale::Log || number > 0.0)
}

/// A little more than what is needed, so that nothing sticks to the frame.
fn padded(scale: &Scale, low: f64, high: f64, from_zero: bool) -> (f64, f64) {
    if *scale == Scale::Log {
        let margin = (high / low).powf(0.06).max(1.15);
        return (low / margin, high * margin);
    }
    // Where zero is near, it is shown: differences then look as large as they are.
    let near_zero = |edge: f64, far: f64| from_zero || edge.abs() < 0.5 * far.abs();
    let zero_below = low >= 0.0 && near_zero(low, high);
    let zero_above = high <= 0.0 && near_zero(high, low);
    let (low, high) = (if zero_below { 0.0 } else { low }, if zero_above { 0.0 } else { high });
    let width = if high > low { high - low } else { high.abs().max(1.0) };
    let margin = 0.05 * width;
    (if zero_below { 0.0 } else { low - margin }, if zero_above { 0.0 } else { high + margin })
}

/// Multiples of 1, 2 or 5 times a power of ten.
fn linear_ticks(low: f64, high: f64, most: usize) -> Vec<f64> {
    let rough = (high - low) / as_float(most.max(2));
    let power = 10_f64.powf(rough.log10().floor());
    let step = [1.0, 2.0, 5.0, 10.0].map(|factor| factor * power).into_iter().find(|step| *step >= rough);
    let step = step.unwrap_or(10.0 * power);
    let first = (low / step - 1e-9).ceil();
    let multiples = (0..=most.saturating_mul(2) + 2).map(|tick| first + as_float(tick));
    multiples.map(|multiple| multiple * step).take_while(|tick| *tick <= high + 1e-9 * step).collect()
}

/// Powers of ten, and between them 2 and 5 where they are few.
fn log_ticks(low: f64, high: f64, most: usize) -> Vec<f64> {
    let decades = high.log10() - low.log10();
    #[allow(clippy::cast_possible_truncation)] // between -308 and 308
    let (first, last) = (low.log10().floor() as i32, high.log10().ceil() as i32);
    let within = |tick: &f64| *tick >= low * (1.0 - 1e-9) && *tick <= high * (1.0 + 1e-9);
    let factors: &[f64] = if decades < 0.4 {
        // Hardly logarithmic any more.
        return linear_ticks(low, high, most);
    } else if decades < 2.2 {
        &[1.0, 2.0, 5.0]
    } else {
        &[1.0]
    };
    let stride = if factors.len() > 1 { 1 } else { stride(decades, most) };
    let powers = (first..=last).filter(|power| power.rem_euclid(stride) == 0);
    powers.flat_map(|power| factors.iter().map(move |factor| factor * 10_f64.powi(power))).filter(within).collect()
}

fn stride(decades: f64, most: usize) -> i32 {
    #[allow(clippy::cast_possible_truncation)] // at most some 600
    let stride = (decades / as_float(most.max(1))).ceil() as i32;
    stride.max(1)
}

/// Short, and exact for round numbers: 0.05, 20k, 3e-7.
pub(super) fn tick_label(number: f64) -> String {
    let size = number.abs();
    if size < 1e-12 {
        return "0".to_owned();
    }
    let trimmed = |text: String| {
        if text.contains('.') { text.trim_end_matches('0').trim_end_matches('.').to_owned() } else { text }
    };
    if size < 1e-3 {
        let text = format!("{number:.2e}");
        return match text.split_once('e') {
            Some((mantissa, exponent)) => format!("{}e{exponent}", trimmed(mantissa.to_owned())),
            None => text,
        };
    }
    match size {
        1e9.. => format!("{}G", trimmed(format!("{:.3}", number / 1e9))),
        1e6.. => format!("{}M", trimmed(format!("{:.3}", number / 1e6))),
        1e4.. => format!("{}k", trimmed(format!("{:.3}", number / 1e3))),
        _ => trimmed(format!("{number:.4}")),
    }
}

impl Ranged for Range {
    type FormatOption = NoDefaultFormatting;
    type ValueType = f64;

    fn map(&self, value: &f64, (first, last): (i32, i32)) -> i32 {
        #[allow(clippy::cast_possible_truncation)] // pixels; what is far outside stays far outside
        let pixels = (self.position(*value).clamp(-10.0, 10.0) * f64::from(last - first)).round() as i32;
        first + pixels
    }

    fn key_points<Hint: KeyPointHint>(&self, hint: Hint) -> Vec<f64> {
        self.ticks(hint.bold_points())
    }

    fn range(&self) -> ops::Range<f64> {
        self.low..self.high
    }
}

impl ValueFormatter<f64> for Range {
    fn format_ext(&self, value: &f64) -> String {
        self.label(*value)
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    fn ticks(axis: &Axis, low: f64, high: f64) -> Vec<String> {
        let range = Range::new(axis, [low, high].into_iter(), false, "").unwrap();
        range.ticks(6).into_iter().map(|tick| range.label(tick)).collect()
    }

    #[test]
    fn ticks_are_round_numbers() {
        assert_eq!(ticks(&Axis::linear(""), 0.5, 2.5), ["0", "0.5", "1", "1.5", "2", "2.5"]);
        assert_eq!(ticks(&Axis::linear(""), -3.0, 4.0), ["-2", "0", "2", "4"]);
        assert_eq!(ticks(&Axis::log(""), 1e-6, 1.0), ["1e-6", "1e-4", "0.01", "1"]);
        assert_eq!(ticks(&Axis::log(""), 1e-12, 1.0), ["1e-12", "1e-9", "1e-6", "0.001", "1"]);
        assert_eq!(ticks(&Axis::log(""), 30_000.0, 700_000.0), ["50k", "100k", "200k", "500k"]);
        // Hardly a logarithmic axis any more: ticks are as on a linear one.
        assert_eq!(ticks(&Axis::log(""), 1.0, 1.5), ["1", "1.2", "1.4", "1.6"]);
    }

    #[test]
    fn numbers_are_written_short() {
        let labels = [0.0, 0.05, 1234.0, 20_000.0, 2_500_000.0, 3e-7, -0.125].map(tick_label);
        assert_eq!(labels, ["0", "0.05", "1234", "20k", "2.5M", "3e-7", "-0.125"]);
    }

    #[test]
    fn places_grow_with_ratios_on_a_logarithmic_axis() {
        let axis = Axis { limits: Some((0.01, 100.0)), ..Axis::log("") };
        let range = Range::new(&axis, [].into_iter(), false, "").unwrap();
        let places = [0.01, 0.1, 1.0, 10.0, 100.0].map(|number| range.map(&number, (0, 400)));
        assert_eq!(places, [0, 100, 200, 300, 400]);
        assert!(!range.has(0.0) && !range.has(f64::NAN) && range.has(1e-9));
    }

    #[test]
    fn an_axis_needs_a_number_or_sensible_limits() {
        let nothing = Range::new(&Axis::log(""), [0.0, -1.0, f64::NAN].into_iter(), false, "p");
        assert_eq!(nothing, Err(PlotError::NoPoints { panel: "p".to_owned() }));
        for limits in [(1.0, 1.0), (0.0, 1.0), (1.0, f64::INFINITY)] {
            let axis = Axis { limits: Some(limits), ..Axis::log("") };
            assert!(Range::new(&axis, [1.0].into_iter(), false, "").is_err(), "{limits:?}");
        }
        // A single number has a place in the middle.
        let single = Range::new(&Axis::linear(""), [-7.0].into_iter(), false, "").unwrap();
        assert!(single.range().contains(&-7.0));
    }
}
