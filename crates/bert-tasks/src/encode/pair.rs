//! Builds the model's input from the token ids of one or two texts: `[CLS] a [SEP]` or `[CLS] a [SEP] b [SEP]` with
//! segment ids, without padding.
//!
//! Ports `convert_single_example` of the reference's `run_classifier.py`. Pairs are cut as `transformers` cuts them, so
//! that an exported model sees the same tokens there.
//!
//! [`Truncation`] counts the inputs that were cut to the maximum length, and the tokens that were lost.

use std::ops::AddAssign;

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
    /// 0 up to and including the first `[SEP]`, 1 after it.
    pub segment_ids: Vec<u32>,
}

impl EncodedPair {
    /// Returns whether the input has two texts.
    pub fn is_pair(&self) -> bool {
        self.segment_ids.last() == Some(&1)
    }

    /// Returns the number of tokens without the special tokens around the texts.
    pub fn text_tokens(&self) -> usize {
        self.input_ids.len() - 2 - usize::from(self.is_pair())
    }
}

/// Removes tokens from the end of the longer text until both texts together have at most `max_length` tokens, and
/// returns both. If both texts are longer than half of an odd `max_length`, the longer text keeps one token more than
/// the other; if both are equally long, `b` does. This is the rule `longest_first` of the library `tokenizers`. In the
/// reference's `_truncate_seq_pair`, `a` keeps this token.
pub(crate) fn truncate_seq_pair<'a>(a: &'a [u32], b: &'a [u32], max_length: usize) -> (&'a [u32], &'a [u32]) {
    if a.len() + b.len() <= max_length {
        return (a, b);
    }
    let half = max_length / 2;
    let len_a = if a.len() > b.len() { max_length - b.len().min(half) } else { a.len().min(half) };
    (&a[..len_a], &b[..max_length - len_a])
}

/// Builds an input of at most `max_seq_length` tokens. An empty second text is ignored, as in the reference.
///
/// # Panics
/// Panics if `max_seq_length` is below 3, which leaves no space for the special tokens.
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
    // The reference tests after truncation whether the second text is empty: an empty text gets no `[SEP]`.
    if !b.is_empty() {
        input_ids.extend(b);
        input_ids.push(special.sep);
        segment_ids.resize(input_ids.len(), 1);
    }
    EncodedPair { input_ids, segment_ids }
}

/// Counts of inputs and tokens in a set, before and after truncation.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Truncation {
    /// Number of inputs: texts, or pairs of texts.
    pub inputs: usize,
    /// Number of inputs that were cut.
    pub cut: usize,
    /// Number of tokens of all inputs before cutting, without the special tokens around them.
    pub tokens: usize,
    /// Number of tokens that were cut off.
    pub lost: usize,
    /// Number of examples whose text contains a special token such as `[SEP]`.
    pub with_special: usize,
}

impl Truncation {
    /// Counts an input of `tokens` tokens, of which `kept` remain.
    pub fn add(&mut self, tokens: usize, kept: usize) {
        self.inputs += 1;
        self.cut += usize::from(kept < tokens);
        self.tokens += tokens;
        self.lost += tokens - kept;
    }

    /// Returns a message about the cut inputs of a set, if there are any.
    pub fn message(&self, set: &str, max_length: usize) -> Option<String> {
        let percent = |part: usize, whole: usize| 100.0 * part as f64 / whole.max(1) as f64;
        let Self { inputs, cut, tokens, lost, .. } = *self;
        (cut > 0).then(|| {
            format!(
                "{cut} of {inputs} texts of {set} ({:.1} %) are cut to --max-seq-length {max_length}: {lost} of {tokens} \
                 tokens ({:.1} %) are not read",
                percent(cut, inputs),
                percent(lost, tokens)
            )
        })
    }

    /// Returns the messages about the texts of a set that are cut, and about those that contain special tokens. `split`
    /// is true if the tokenizer splits special tokens as plain text.
    pub fn messages(&self, set: &str, max_length: usize, split: bool) -> Vec<String> {
        self.message(set, max_length).into_iter().chain(self.special_message(set, split)).collect()
    }

    fn special_message(&self, set: &str, split: bool) -> Option<String> {
        let reading = if split {
            "split as plain text, as the tokenizer settings require (split_special_tokens)"
        } else {
            "read as special tokens, as in transformers"
        };
        let count = self.with_special;
        (count > 0).then(|| {
            format!(
                "{count} texts of {set} contain [SEP], [CLS], [MASK], [PAD] or [UNK]; these are {reading}"
            )
        })
    }
}

impl AddAssign for Truncation {
    fn add_assign(&mut self, other: Self) {
        self.inputs += other.inputs;
        self.cut += other.cut;
        self.tokens += other.tokens;
        self.lost += other.lost;
        self.with_special += other.with_special;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SPECIAL: SpecialIds = SpecialIds { cls: 101, sep: 102 };

    /// The lengths that `TruncationStrategy::LongestFirst` of the library `tokenizers` 0.23 leaves.
    fn library_lengths(a: usize, b: usize, max_length: usize) -> [usize; 2] {
        if a + b <= max_length {
            return [a, b];
        }
        let shorter = a.min(b);
        let mut kept =
            [shorter, if shorter > max_length { shorter } else { shorter.max(max_length - shorter) }];
        if kept[0] + kept[1] > max_length {
            kept = [max_length / 2, max_length / 2 + max_length % 2];
        }
        if a > b { [kept[1], kept[0]] } else { kept }
    }

    #[test]
    fn truncation_equals_the_library_tokenizers() {
        for len_a in 0..12 {
            for len_b in 0..12 {
                for max_length in 0..24 {
                    let a: Vec<u32> = (0..len_a).collect();
                    let b: Vec<u32> = (50..50 + len_b).collect();
                    let [kept_a, kept_b] = library_lengths(a.len(), b.len(), max_length);
                    let cut = truncate_seq_pair(&a, &b, max_length);
                    assert_eq!(cut, (&a[..kept_a], &b[..kept_b]), "{len_a} {len_b} {max_length}");
                }
            }
        }
    }

    #[test]
    fn ties_truncate_the_first_text() {
        assert_eq!(truncate_seq_pair(&[1, 2, 3], &[4, 5, 6], 5), (&[1, 2][..], &[4, 5, 6][..]));
        assert_eq!(truncate_seq_pair(&[1, 2, 3, 7], &[4, 5, 6], 5), (&[1, 2, 3][..], &[4, 5][..]));
    }

    #[test]
    fn one_text_is_encoded() {
        let encoded = encode_pair(&[7, 8, 9], None, SPECIAL, 128);
        assert_eq!(encoded.input_ids, [101, 7, 8, 9, 102]);
        assert_eq!(encoded.segment_ids, [0; 5]);
        let encoded = encode_pair(&[7, 8, 9], None, SPECIAL, 4);
        assert_eq!(encoded.input_ids, [101, 7, 8, 102]);
        assert_eq!(encode_pair(&[], None, SPECIAL, 3).input_ids, [101, 102]);
        assert_eq!(encode_pair(&[], None, SPECIAL, 3).text_tokens(), 0);
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
        let encoded = encode_pair(&[7, 8], Some(&[9]), SPECIAL, 4);
        assert_eq!(encoded.input_ids, [101, 7, 102]);
        assert_eq!(encoded.segment_ids, [0, 0, 0]);
        assert_eq!(encoded.text_tokens(), 1);
        assert_eq!(encode_pair(&[7, 8], Some(&[9]), SPECIAL, 8).text_tokens(), 3);
    }

    #[test]
    #[should_panic(expected = "max_seq_length below 3")]
    fn a_sequence_below_three_tokens_panics() {
        encode_pair(&[], None, SPECIAL, 2);
    }

    #[test]
    fn cut_texts_and_lost_tokens_are_counted() {
        let mut truncation = Truncation::default();
        truncation.add(10, 10);
        assert_eq!(truncation.message("train", 12), None);
        truncation.add(30, 10);
        let message = truncation.message("train", 12).unwrap();
        assert_eq!(
            message,
            "1 of 2 texts of train (50.0 %) are cut to --max-seq-length 12: 20 of 40 tokens (50.0 %) are not read"
        );
        let mut sum = truncation;
        sum += truncation;
        assert_eq!(sum, Truncation { inputs: 4, cut: 2, tokens: 80, lost: 40, with_special: 0 });
    }

    #[test]
    fn special_tokens_in_texts_are_named() {
        let truncation = Truncation { with_special: 2, ..Truncation::default() };
        let message = truncation.special_message("dev", false).unwrap();
        assert!(message.starts_with("2 texts of dev contain [SEP]") && message.contains("transformers"));
        assert!(truncation.special_message("dev", true).unwrap().contains("split as plain text"));
        assert_eq!(Truncation::default().special_message("dev", true), None);
    }
}
