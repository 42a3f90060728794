//! What the literature publishes for sequences and must not be used: kept to show why.

/// The closed form of conditional randomised response as published: the symbol itself with probability `1 - (1 - b(x))/e^eps`,
/// any other `y` with probability `b(y)/e^eps`. **Not private**: it exceeds epsilon-SIP wherever a symbol's belief is
/// below `1/(e^eps + 1)`, without bound as the belief falls to zero, and reveals a symbol that is believed impossible.
///
/// A row for each symbol. The mechanism that keeps what it claims is [`tidegate::sequence::hamming`].
pub fn paper_crr_not_private(belief: &[f64], epsilon: f64) -> Vec<Vec<f64>> {
    let independent = (-epsilon).exp();
    let row = |symbol: usize| {
        let mut row: Vec<f64> = belief.iter().map(|weight| weight * independent).collect();
        row[symbol] = 1.0 - (1.0 - belief[symbol]) * independent;
        row
    };
    (0..belief.len()).map(row).collect()
}
