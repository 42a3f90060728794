//! Warnings about runs that the command and the laboratory share.

use tidegate_table::layout::figure;

/// Warns of a window that is longer than the data.
pub fn longer_than_the_data(window: u64, timestamps: u64) -> Option<String> {
    #[allow(clippy::cast_precision_loss)] // a factor in a message
    let factor = window as f64 / timestamps.max(1) as f64;
    (window > timestamps).then(|| {
        format!(
            "the window is longer than the data ({window} timestamps against {timestamps}), so that budget is kept for \
             timestamps that never come: a window of {timestamps} protects all of these data, with up to {} times less \
             noise",
            figure(factor)
        )
    })
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::longer_than_the_data;

    #[test]
    fn a_window_as_long_as_the_data_is_no_reason_to_warn() {
        assert_eq!(longer_than_the_data(40, 40), None);
        let long = longer_than_the_data(100, 40).unwrap();
        assert!(long.contains("a window of 40 ") && long.contains("2.5 times"), "{long}");
    }
}
