//! [`Truncation`]: counts the inputs that were cut to the maximum length, and what was lost.

use std::ops::AddAssign;

/// Counts over the inputs of a set.
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

    /// Returns a message about the texts of a set that contain special tokens, if there are any. `split` tells whether
    /// the tokenizer splits them as plain text.
    pub fn special_message(&self, set: &str, split: bool) -> Option<String> {
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
