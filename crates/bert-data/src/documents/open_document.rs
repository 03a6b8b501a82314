//! The document that is being read, when documents are held out: its sentences wait until its hash is known.

use twox_hash::XxHash3_64;

use crate::config::BuildConfig;
use crate::config::hold_out::HoldOut;

/// Selects the documents of one data set: the training data, or the held-out data.
#[derive(Clone, Copy, Debug)]
pub(super) struct DocumentFilter {
    share: HoldOut,
    seed: u64,
    /// Whether the held-out documents are wanted.
    held_out: bool,
}

impl DocumentFilter {
    /// Returns the filter that the options select.
    pub(super) fn of(config: &BuildConfig) -> Option<Self> {
        config.hold_out.map(|share| Self { share, seed: config.random_seed, held_out: config.held_out })
    }
}

/// A sentence, or a piece of one that was cut.
#[derive(Clone, Copy, Debug)]
pub(super) struct Piece {
    /// Whether this is the first piece of a sentence that was cut.
    pub(super) is_cut: bool,
    /// Whether the sentence is as long as a paragraph.
    pub(super) is_long: bool,
}

/// The sentences of the open document.
#[derive(Debug, Default)]
pub(super) struct OpenDocument {
    pub(super) ids: Vec<u32>,
    /// Number of tokens of each sentence or piece of one.
    pub(super) sentences: Vec<(u32, Piece)>,
    hash: u64,
    /// The decision on the earlier part of a document that was cut for its length.
    earlier: Option<bool>,
}

/// Returns the hash of a sentence's text.
pub(super) fn text_hash(sentence: &str) -> u64 {
    XxHash3_64::oneshot(sentence.as_bytes())
}

impl OpenDocument {
    /// Appends a sentence, or a piece of one; `text` is the hash of its text, 0 for a further piece.
    pub(super) fn push(&mut self, ids: &[u32], piece: Piece, text: u64) {
        self.ids.extend_from_slice(ids);
        self.sentences.push((ids.len() as u32, piece));
        self.hash = XxHash3_64::oneshot_with_seed(self.hash, &text.to_le_bytes());
    }

    /// Removes the sentences, but not the decision on a document that continues.
    pub(super) fn clear(&mut self) {
        self.ids.clear();
        self.sentences.clear();
    }

    /// Returns whether the document belongs to the data set; `continues` is whether its next part is read too.
    pub(super) fn is_wanted(&mut self, filter: DocumentFilter, continues: bool) -> bool {
        let decided = self.earlier.take();
        let wanted =
            decided.unwrap_or_else(|| filter.share.selects(filter.seed, self.hash) == filter.held_out);
        self.earlier = continues.then_some(wanted);
        self.hash = 0;
        wanted
    }
}
