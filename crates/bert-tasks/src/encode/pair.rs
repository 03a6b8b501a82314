//! Builds the model's input from the token ids of one or two texts: `[CLS] a [SEP]` or `[CLS] a [SEP] b [SEP]` with
//! segment ids, without padding.
//!
//! Ports `convert_single_example` and `_truncate_seq_pair` of the reference's `run_classifier.py`.

/// Ids of the special tokens in the vocabulary.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SpecialIds {
    /// `[CLS]`.
    pub cls: u32,
    /// `[SEP]`.
    pub sep: u32,
}

/// The model's input for one example; both vectors have the same length.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EncodedPair {
    /// Token ids.
    pub input_ids: Vec<u32>,
    /// 0 up to the first `[SEP]`, 1 from there on.
    pub segment_ids: Vec<u32>,
}

/// Truncates two texts until both together have at most `max_length` tokens, one token at a time from the end of the
/// longer one; ties go to `b`.
pub(crate) fn truncate_seq_pair<'a>(a: &'a [u32], b: &'a [u32], max_length: usize) -> (&'a [u32], &'a [u32]) {
    let mut len_a = a.len();
    let mut len_b = b.len();
    while len_a + len_b > max_length {
        if len_a > len_b {
            len_a -= 1;
        } else {
            len_b -= 1;
        }
    }
    (&a[..len_a], &b[..len_b])
}

/// Builds an input of at most `max_seq_length` tokens. An empty second text is ignored, as in the reference.
///
/// # Panics
/// When `max_seq_length` is below 3, which leaves no space for the special tokens.
pub fn encode_pair(a: &[u32], b: Option<&[u32]>, special: SpecialIds, max_seq_length: usize) -> EncodedPair {
    assert!(max_seq_length >= 3, "max_seq_length below 3");
    let (a, b) = match b.unwrap_or_default() {
        none @ [] => (&a[..a.len().min(max_seq_length - 2)], none),
        b => truncate_seq_pair(a, b, max_seq_length - 3),
    };
    let mut input_ids = vec![special.cls];
    input_ids.extend(a);
    input_ids.push(special.sep);
    let mut segment_ids = vec![0; input_ids.len()];
    // The reference tests its list again after truncation: an empty text gets no `[SEP]`.
    if !b.is_empty() {
        input_ids.extend(b);
        input_ids.push(special.sep);
        segment_ids.resize(input_ids.len(), 1);
    }
    EncodedPair { input_ids, segment_ids }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SPECIAL: SpecialIds = SpecialIds { cls: 101, sep: 102 };

    /// The reference's loop, unchanged.
    fn reference_truncate(a: &mut Vec<u32>, b: &mut Vec<u32>, max_length: usize) {
        loop {
            if a.len() + b.len() <= max_length {
                break;
            }
            if a.len() > b.len() {
                a.pop();
            } else {
                b.pop();
            }
        }
    }

    #[test]
    fn truncation_equals_the_reference() {
        for len_a in 0..12 {
            for len_b in 0..12 {
                for max_length in 0..24 {
                    let before_a: Vec<u32> = (0..len_a).collect();
                    let before_b: Vec<u32> = (50..50 + len_b).collect();
                    let mut a = before_a.clone();
                    let mut b = before_b.clone();
                    reference_truncate(&mut a, &mut b, max_length);
                    let cut = truncate_seq_pair(&before_a, &before_b, max_length);
                    assert_eq!(cut, (&a[..], &b[..]));
                }
            }
        }
    }

    #[test]
    fn ties_truncate_the_second_text() {
        assert_eq!(truncate_seq_pair(&[1, 2, 3], &[4, 5, 6], 5), (&[1, 2, 3][..], &[4, 5][..]));
    }

    #[test]
    fn one_text_is_encoded() {
        let encoded = encode_pair(&[7, 8, 9], None, SPECIAL, 128);
        assert_eq!(encoded.input_ids, [101, 7, 8, 9, 102]);
        assert_eq!(encoded.segment_ids, [0; 5]);
        let encoded = encode_pair(&[7, 8, 9], None, SPECIAL, 4);
        assert_eq!(encoded.input_ids, [101, 7, 8, 102]);
        assert_eq!(encode_pair(&[], None, SPECIAL, 3).input_ids, [101, 102]);
    }

    #[test]
    fn two_texts_are_encoded() {
        let encoded = encode_pair(&[7, 8], Some(&[9]), SPECIAL, 128);
        assert_eq!(encoded.input_ids, [101, 7, 8, 102, 9, 102]);
        assert_eq!(encoded.segment_ids, [0, 0, 0, 0, 1, 1]);
        let encoded = encode_pair(&[7, 8, 9], Some(&[4, 5, 6]), SPECIAL, 7);
        assert_eq!(encoded.input_ids, [101, 7, 8, 102, 4, 5, 102]);
        let empty = encode_pair(&[7], Some(&[]), SPECIAL, 8);
        assert_eq!(empty, encode_pair(&[7], None, SPECIAL, 8));
        // No space for the second text: the reference leaves `[CLS] a [SEP]`.
        let encoded = encode_pair(&[7], Some(&[9]), SPECIAL, 4);
        assert_eq!(encoded.input_ids, [101, 7, 102]);
        assert_eq!(encoded.segment_ids, [0, 0, 0]);
    }

    #[test]
    #[should_panic(expected = "max_seq_length below 3")]
    fn a_sequence_below_three_tokens_panics() {
        encode_pair(&[], None, SPECIAL, 2);
    }
}
