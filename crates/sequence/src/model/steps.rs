//! Steps of a chain: distributions carried forward and back, and likely symbols.

use super::{Model, Pairs, Transitions};

impl Model {
    /// Adds the distribution after `present` by the transitions of order 1 to `next`.
    pub(crate) fn carry(&self, present: &[f64], next: &mut [f64]) {
        match &self.transitions {
            Transitions::Dense(matrix) => {
                for (weight, row) in present.iter().zip(matrix.chunks_exact(self.prior.len())) {
                    if *weight > 0.0 {
                        next.iter_mut().zip(row).for_each(|(next, probability)| *next += weight * probability);
                    }
                }
            }
            Transitions::Sparse { rows, background } => {
                let mut left = 0.0;
                for (row, weight) in present.iter().enumerate() {
                    if *weight > 0.0 {
                        left += weight * rows.left[row];
                        rows.entries(row)
                            .for_each(|(symbol, probability)| next[symbol as usize] += weight * probability);
                    }
                }
                if left > 0.0 {
                    next.iter_mut().zip(background).for_each(|(next, weight)| *next += left * weight);
                }
            }
        }
    }

    /// Pairs with a row of their own, numbered `before · d + present`, ascending; `None` at order 1.
    pub(crate) fn known_pairs(&self) -> Option<&[u64]> {
        self.pairs.as_ref().map(|second| second.pairs.as_slice())
    }

    /// Weights of the known pairs of present and next symbol, and of the next symbol, by the transitions of order 2;
    /// `None` at order 1. `known` are the weights of the known pairs of previous and present symbol, if any.
    ///
    /// All other pairs follow order 1, so that their weights need not be told apart.
    #[allow(clippy::cast_possible_truncation)] // symbols
    pub(crate) fn carry_pairs(&self, present: &[f64], known: Option<&[f64]>) -> Option<(Vec<f64>, Vec<f64>)> {
        let Pairs { pairs, rows } = self.pairs.as_ref()?;
        let domain = u64::from(self.domain());
        let mut weights = vec![0.0; pairs.len()];
        let mut next = vec![0.0; present.len()];
        let mut first_order = present.to_vec();
        for (row, (&pair, &weight)) in pairs.iter().zip(known.unwrap_or_default()).enumerate() {
            if weight <= 0.0 {
                continue;
            }
            let now = pair % domain;
            first_order[now as usize] -= weight * (1.0 - rows.left[row]);
            let first = pairs.partition_point(|pair| *pair < now * domain);
            let end = pairs.partition_point(|pair| *pair < (now + 1) * domain);
            for (symbol, share) in rows.entries(row) {
                next[symbol as usize] += weight * share;
                if let Ok(at) = pairs[first..end].binary_search(&(now * domain + u64::from(symbol))) {
                    weights[first + at] += weight * share;
                }
            }
        }
        // Rounding may leave a negative remainder.
        first_order.iter_mut().for_each(|weight| *weight = weight.max(0.0));
        self.carry(&first_order, &mut next);
        for (weight, &pair) in weights.iter_mut().zip(pairs) {
            let (present, symbol) = (pair / domain, pair % domain);
            let share = first_order[present as usize];
            if share > 0.0 {
                *weight += share * self.transition(None, present as u32, symbol as u32);
            }
        }
        Some((weights, next))
    }

    /// Mean of a function of the next symbol given the present one, for each symbol, by the transitions of order 1.
    pub(crate) fn carry_back(&self, of_next: &[f64]) -> Vec<f64> {
        let mean = |row: &[f64]| row.iter().zip(of_next).map(|(share, value)| share * value).sum();
        match &self.transitions {
            Transitions::Dense(matrix) => matrix.chunks_exact(self.prior.len()).map(mean).collect(),
            Transitions::Sparse { rows, background } => {
                let of_background: f64 = mean(background);
                let own = |row| rows.entries(row).map(|(symbol, share)| share * of_next[symbol as usize]).sum::<f64>();
                (0..self.prior.len()).map(|row| own(row) + rows.left[row] * of_background).collect()
            }
        }
    }

    /// The likeliest symbols that the rows of a context name, at most `most`, with their probability, likeliest first.
    /// Symbols that only the background makes possible are not among them.
    pub(crate) fn likely_next(&self, before: Option<u32>, present: u32, most: usize) -> Vec<(u32, f64)> {
        let mut next: Vec<(u32, f64)> = match &self.transitions {
            Transitions::Dense(matrix) => {
                let size = self.prior.len();
                (0..).zip(matrix[present as usize * size..(present as usize + 1) * size].iter().copied()).collect()
            }
            Transitions::Sparse { rows, background } => {
                let left = rows.left[present as usize];
                let whole = |(symbol, share): (u32, f64)| (symbol, share + left * background[symbol as usize]);
                rows.entries(present as usize).map(whole).collect()
            }
        };
        if let (Some(Pairs { pairs, rows }), Some(before)) = (&self.pairs, before)
            && let Ok(row) = pairs.binary_search(&(u64::from(before) * u64::from(self.domain()) + u64::from(present)))
        {
            let mut symbols: Vec<u32> = next.into_iter().map(|(symbol, _)| symbol).collect();
            symbols.extend(rows.entries(row).map(|(symbol, _)| symbol));
            symbols.sort_unstable();
            symbols.dedup();
            let of = |symbol| (symbol, self.transition(Some(before), present, symbol));
            next = symbols.into_iter().map(of).collect();
        }
        next.retain(|(_, probability)| *probability > 0.0);
        let likelier = |one: &(u32, f64), other: &(u32, f64)| other.1.total_cmp(&one.1).then(one.0.cmp(&other.0));
        if next.len() > most {
            next.select_nth_unstable_by(most, likelier);
            next.truncate(most);
        }
        next.sort_unstable_by(likelier);
        next
    }

    /// For each symbol, the likeliest one before it whose row of order 1 names it, under a distribution of that one.
    pub(crate) fn likely_before(&self, present: &[f64]) -> Vec<Option<u32>> {
        let mut best = vec![(0.0, None); self.prior.len()];
        let mut offer = |before: u32, next: u32, weight: f64| {
            let held = &mut best[next as usize];
            if weight > held.0 {
                *held = (weight, Some(before));
            }
        };
        for (before, weight) in (0_u32..).zip(present).filter(|(_, weight)| **weight > 0.0) {
            match &self.transitions {
                Transitions::Dense(_) => {
                    (0..self.domain())
                        .for_each(|next| offer(before, next, weight * self.transition(None, before, next)));
                }
                Transitions::Sparse { rows, .. } => {
                    rows.entries(before as usize).for_each(|(next, share)| offer(before, next, weight * share));
                }
            }
        }
        best.into_iter().map(|(_, before)| before).collect()
    }
}
