//! Frequency estimates and their variance.

use crate::oracle::Support;

/// The variance of an estimated frequency: `constant + slope · f` at the true frequency `f`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Variance {
    /// The part independent of the frequency.
    pub constant: f64,
    /// The coefficient of the frequency; negative for oracles that are more accurate for frequent values.
    pub slope: f64,
}

impl Variance {
    /// Creates it from the probabilities that a report supports the sender's value, and another value.
    #[allow(clippy::cast_precision_loss)]
    pub(crate) fn of(support: Support, reports: u64) -> Self {
        let Support { own, other } = support;
        let denominator = reports as f64 * (own - other) * (own - other);
        let constant = other * (1.0 - other) / denominator;
        Self { constant, slope: own * (1.0 - own) / denominator - constant }
    }

    /// The variance at a true frequency.
    pub fn at(self, frequency: f64) -> f64 {
        self.constant + self.slope * frequency
    }
}

/// Estimated frequencies of all values of a domain; or, from [`OracleKind::Piecewise`], one estimated mean as a share
/// of the range of the numbers.
///
/// Each is unbiased, so it may be below zero or above one, and frequencies need not sum to one.
///
/// [`OracleKind::Piecewise`]: crate::oracle::OracleKind::Piecewise
#[derive(Clone, Debug, PartialEq)]
pub struct Estimate {
    frequencies: Vec<f64>,
    reports: u64,
    variance: Variance,
    mean_error: Option<MeanError>,
}

/// The error of an estimated mean, in shares of the squared range. See the [proof](crate::proofs::piecewise).
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct MeanError {
    /// The unbiased estimate of the mean's variance where the numbers of the reporting users are independent draws: the
    /// sample variance of the reports, divided by their number. `None` from a single report.
    pub unbiased: Option<f64>,
    /// A consistent estimate of the numbers' variance, as far as reports reveal it: zero where there are two levels
    /// only, since the variance of a report then depends on the mean alone.
    pub scatter: f64,
}

impl Estimate {
    pub(crate) const fn new(frequencies: Vec<f64>, reports: u64, variance: Variance) -> Self {
        Self { frequencies, reports, variance, mean_error: None }
    }

    pub(crate) fn of_mean(mean: f64, reports: u64, variance: Variance, error: MeanError) -> Self {
        Self { frequencies: vec![mean], reports, variance, mean_error: Some(error) }
    }

    /// The error of an estimated mean; `None` for frequencies.
    pub const fn mean_error(&self) -> Option<&MeanError> {
        self.mean_error.as_ref()
    }

    /// The estimated share of reporting users who hold each value; or one mean, as a share of the range.
    pub fn frequencies(&self) -> &[f64] {
        &self.frequencies
    }

    /// The estimated share of reporting users who hold each value.
    pub fn into_frequencies(self) -> Vec<f64> {
        self.frequencies
    }

    /// The number of reports.
    pub const fn reports(&self) -> u64 {
        self.reports
    }

    /// The exact variance of each estimate around the frequency among the reporting users, as a function of that
    /// frequency. It excludes the sampling error of the reporting users.
    ///
    /// For a mean, an estimate that lies between those of the least and the most scattered numbers, whatever the
    /// reports are. It includes the sampling error of users who are few among all.
    pub const fn variance(&self) -> Variance {
        self.variance
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn frequencies_can_be_taken_out() {
        let variance = Variance { constant: 1.0, slope: 0.0 };
        let estimate = Estimate::new(vec![0.25, 0.75], 3, variance);
        assert_eq!(estimate.frequencies().to_vec(), estimate.clone().into_frequencies());
        assert_eq!((estimate.reports(), estimate.variance()), (3, variance));
    }
}
