//! Cuts sentences that are longer than an instance into consecutive pieces.
//!
//! The reference keeps such a sentence whole and truncates every pair that contains it, at both ends and in every pass,
//! so the model never sees most of it. In keyed mode, each piece counts as a separate sentence. A piece has about a
//! quarter of an instance's tokens, so a pair ends at the end of a piece, as with sentences of ordinary length.

/// Number of pieces that fill an instance.
const PIECES: usize = 4;

/// Returns the number of tokens of each piece of a sentence, in order; one piece if the sentence has at most
/// `max_tokens` tokens.
///
/// The lengths of pieces differ by about a word: each piece ends before a token for which `begins_word` returns true,
/// if there is one.
pub(crate) fn piece_lengths(
    ids: &[u32],
    max_tokens: usize,
    begins_word: impl Fn(u32) -> bool,
) -> impl Iterator<Item = usize> {
    let pieces = if ids.len() > max_tokens { ids.len().div_ceil((max_tokens / PIECES).max(1)) } else { 1 };
    let mut start = 0;
    (1..=pieces).map(move |piece| {
        let even = ids.len() * piece / pieces;
        let end = (start + 1..=even).rev().find(|&end| ids.get(end).is_none_or(|&id| begins_word(id)));
        let end = end.unwrap_or(even);
        end - std::mem::replace(&mut start, end)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lengths(ids: &[u32], max_tokens: usize) -> Vec<usize> {
        // Odd ids continue the previous word.
        piece_lengths(ids, max_tokens, |id| id % 2 == 0).collect()
    }

    #[test]
    fn a_sentence_that_fits_stays_whole() {
        assert_eq!(lengths(&[2; 125], 125), [125]);
        assert_eq!(lengths(&[2], 125), [1]);
    }

    #[test]
    fn pieces_are_even_and_end_with_words() {
        assert_eq!(lengths(&[2; 126], 125), [25, 25, 25, 25, 26]);
        assert_eq!(lengths(&[2, 3].repeat(8), 12), [2, 2, 4, 2, 2, 4]);
        // Words longer than a piece are cut.
        assert_eq!(lengths(&[3; 13], 12), [2, 3, 2, 3, 3]);
    }

    #[test]
    fn nothing_is_lost_and_no_piece_is_empty() {
        let ids: Vec<u32> = (0..997).map(|n| n * n % 7).collect();
        for max_tokens in 1..300 {
            for tokens in [1, 2, 3, 50, 299, 300, 301, 997] {
                let lengths = lengths(&ids[..tokens], max_tokens);
                assert_eq!(lengths.iter().sum::<usize>(), tokens);
                assert!(
                    lengths.iter().all(|&length| (1..=max_tokens).contains(&length)),
                    "{max_tokens}: {lengths:?}"
                );
            }
        }
    }
}
