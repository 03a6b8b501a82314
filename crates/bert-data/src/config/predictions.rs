//! Computes the number of masked tokens of an instance, and warns if a cap lowers it considerably.

/// Returns the number of tokens to mask: a fraction of *all* tokens of an instance, rounded half to even, at least one.
pub fn number_to_predict(tokens: usize, masked_lm_prob: f64, max_predictions_per_seq: usize) -> usize {
    let rounded = (tokens as f64 * masked_lm_prob).round_ties_even() as usize;
    rounded.max(1).min(max_predictions_per_seq)
}

/// Returns the smallest cap that never lowers the number of masked tokens: the fraction of a full-length instance,
/// rounded up.
pub fn default_max_predictions(max_seq_length: usize, masked_lm_prob: f64) -> usize {
    let share = max_seq_length as f64 * masked_lm_prob;
    // 100 x 0.07 is 7.000000000000001 in floating point, but should count as 7.
    let whole = share.round();
    if (share - whole).abs() < 1e-9 * share { whole as usize } else { share.ceil() as usize }
}

/// Returns a warning if a cap removes more than a tenth of the masked tokens of a full-length instance.
pub(crate) fn warn_of_cap(max_seq_length: usize, masked_lm_prob: f64, cap: usize) -> Option<String> {
    let max = max_seq_length - 1;
    let wanted = number_to_predict(max_seq_length, masked_lm_prob, max);
    if 10 * wanted.saturating_sub(cap) <= wanted {
        return None;
    }
    let percent = |tokens: usize| 100.0 * tokens as f64 / max_seq_length as f64;
    Some(format!(
        "At most {cap} tokens of an instance are masked (--max-predictions-per-seq): {:.1} % of one of {max_seq_length} \
         tokens, not {:.1} % as --masked-lm-prob {masked_lm_prob} asks for. --max-predictions-per-seq {} is enough.",
        percent(cap),
        percent(wanted),
        default_max_predictions(max_seq_length, masked_lm_prob).min(max),
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn predictions_are_rounded_half_to_even() {
        for (tokens, max, expected) in
            [(128, 20, 19), (10, 20, 2), (30, 20, 4), (2, 20, 1), (3, 20, 1), (512, 20, 20), (512, 80, 77)]
        {
            assert_eq!(number_to_predict(tokens, 0.15, max), expected, "{tokens} tokens, at most {max}");
        }
    }

    #[test]
    fn the_default_cap_never_binds() {
        for (length, share, expected) in
            [(128, 0.15, 20), (512, 0.15, 77), (100, 0.07, 7), (200, 0.15, 30), (32, 0.15, 5), (8, 1.0, 8)]
        {
            assert_eq!(default_max_predictions(length, share), expected, "{length} x {share}");
        }
        for length in 8..=1024 {
            for share in [0.01, 0.07, 0.15, 0.2, 0.3, 0.5] {
                let cap = default_max_predictions(length, share);
                let free = number_to_predict(length, share, usize::MAX);
                assert!((free..=free + 1).contains(&cap), "{length} x {share}: {cap} for {free}");
            }
        }
    }

    #[test]
    fn a_cap_that_takes_more_than_a_tenth_is_warned_about() {
        assert_eq!(warn_of_cap(512, 0.15, 70), None, "77 are wanted");
        let text = warn_of_cap(512, 0.15, 20).unwrap();
        assert!(text.contains("At most 20") && text.contains("3.9 %") && text.contains("15.0 %"), "{text}");
        assert!(text.contains("--max-predictions-per-seq 77 is enough"), "{text}");
        assert!(warn_of_cap(512, 0.15, 69).is_some());
        for length in [8, 32, 128, 512, 1024] {
            assert_eq!(warn_of_cap(length, 0.15, default_max_predictions(length, 0.15)), None, "{length}");
        }
        assert_eq!(warn_of_cap(128, 0.15, 18), None);
        assert!(warn_of_cap(128, 0.15, 17).is_some());
    }
}
