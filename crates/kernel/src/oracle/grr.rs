//! Generalised randomised response (Kairouz, Bonawitz and Ramage 2016).

use crate::epsilon::Epsilon;
use crate::oracle::Support;
use crate::oracle::index_codec::IndexCodec;
use crate::random::Randomness;
use crate::randomised_response::{RandomisedResponse, ResponseError};

#[derive(Clone, Copy, Debug)]
pub(crate) struct Grr {
    response: RandomisedResponse,
    codec: IndexCodec,
}

impl Grr {
    pub(crate) fn new(domain: u32, epsilon: Epsilon) -> Result<Self, ResponseError> {
        Ok(Self { response: RandomisedResponse::new(domain, epsilon)?, codec: IndexCodec::new(domain) })
    }

    pub(crate) fn support(&self) -> Support {
        Support { own: self.response.probability_of_truth(), other: self.response.probability_of_other() }
    }

    pub(crate) const fn codec(&self) -> &IndexCodec {
        &self.codec
    }

    /// The log-probability of a well-formed report.
    pub(crate) fn log_likelihood(&self, value: u32, report: &[u8]) -> f64 {
        let Support { own, other } = self.support();
        if self.codec.read(report) == Ok(value) { own.ln() } else { other.ln() }
    }

    #[inline]
    pub(crate) fn perturb(&self, value: u32, random: &mut impl Randomness, report: &mut [u8]) {
        self.codec.write(self.response.sample(value, random), report);
    }
}
