//! Finds the words in Chinese text, for whole-word masking. Needs the feature `chinese`.
//!
//! For each ideograph of a run without spaces, [`ChineseSegmenter`] finds whether the ideograph continues the word
//! before it. Words come from jieba (`jieba-rs`: a dictionary of 349,046 words, and a hidden Markov model for the
//! rest). Chinese-BERT-wwm does the same with words from LTP. Tokens are single ideographs, with and without a
//! segmenter. The word boundaries of a run depend on the run alone.

#[cfg(feature = "chinese")]
use std::sync::Arc;

#[cfg(feature = "chinese")]
use jieba_rs::Jieba;

/// A finder of words in Chinese text, which threads can share. Its `default` loads the dictionary, which takes a few
/// tenths of a second.
#[derive(Clone, Debug, Default)]
pub struct ChineseSegmenter(#[cfg(feature = "chinese")] Arc<Jieba>);

impl ChineseSegmenter {
    /// Fills `continues` with one flag for each character of `run`: whether it continues the word before it.
    pub fn segment(&self, run: &str, continues: &mut Vec<bool>) {
        continues.clear();
        #[cfg(feature = "chinese")]
        for token in self.0.cut(run, true) {
            continues.extend(token.word.chars().enumerate().map(|(at, _)| at > 0));
        }
        #[cfg(not(feature = "chinese"))]
        unreachable!("a configuration that asks for Chinese words is rejected: {run}");
    }
}
