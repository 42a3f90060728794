//! `discontin`: groups of similar readings anywhere in a batch.
//!
//! Source: Li, Qin, Ren, Gong, Feng, Hong and Wang: Delay-allowed Differentially Private Data Stream Release, NDSS
//! 2025, program doi:10.5281/zenodo.13643225, Algorithm 2.

use tidegate_kernel::primitives::{DeviationTests, Side};
use tidegate_kernel::{Permit, Randomness, Sealed};

use super::ScalarError;

/// Groups of a batch.
#[derive(Debug)]
pub(super) struct Discontin {
    tests: DeviationTests,
    /// Members of each group; lists beyond `count` are empty, for reuse.
    groups: Vec<Vec<usize>>,
    count: usize,
}

impl Discontin {
    /// Algorithm 2 of Li et al. 2025, [in full above](self).
    pub(super) fn new(tests: DeviationTests) -> Self {
        Self { tests, groups: Vec::new(), count: 0 }
    }

    /// Group of the next reading: the first similar one, or a new one.
    #[allow(clippy::cast_possible_truncation)] // as many as a batch has readings at most, a u32 and one
    pub(super) fn place(
        &mut self,
        permit: Permit,
        reading: &Sealed<i64>,
        random: &mut impl Randomness,
    ) -> Result<u32, ScalarError> {
        let member = self.tests.admit(permit, reading)?;
        for (index, group) in self.groups[..self.count].iter_mut().enumerate() {
            group.push(member);
            if self.tests.ask(group, random)?.into_value() == Side::Below {
                return Ok(index as u32);
            }
            group.pop();
        }
        if self.groups.len() == self.count {
            self.groups.push(Vec::new());
        }
        self.groups[self.count].push(member);
        self.count += 1;
        Ok((self.count - 1) as u32)
    }

    pub(super) fn clear(&mut self) {
        self.tests.clear();
        self.groups.iter_mut().for_each(Vec::clear);
        self.count = 0;
    }

    #[cfg(test)]
    pub(super) fn tests(&self) -> &DeviationTests {
        &self.tests
    }
}
