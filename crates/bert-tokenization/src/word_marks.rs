//! Marks token ids that continue a word, for `--segmenter chinese`.
//!
//! With a segmenter, a token can continue the word before it without being a `##` piece. Between reading and masking,
//! its id is marked: the vocabulary size is added to the plain id. So a marked id can be stored like any id, in two
//! bytes if twice the vocabulary size fits into two bytes. After masking and in files the ids are plain again. Files
//! with unmasked tokens store the marks in a separate column.

use crate::vocabulary::TokenId;

/// The space of the ids of tokens, between reading and masking or in a file.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct IdSpace {
    /// The size of the vocabulary; plain ids are below it.
    pub vocabulary: usize,
    /// Whether ids may be marked; a marked token continues the word before it.
    pub word_marks: bool,
}

impl IdSpace {
    /// Returns the number of distinct ids.
    pub fn size(self) -> usize {
        if self.word_marks { 2 * self.vocabulary } else { self.vocabulary }
    }

    /// Returns the marked id of a token that continues the word before it.
    #[must_use]
    pub fn marked(self, id: TokenId) -> TokenId {
        id + self.vocabulary as TokenId
    }

    /// Returns the plain id, and whether it was marked.
    #[must_use]
    pub fn unmarked(self, id: TokenId) -> (TokenId, bool) {
        if (id as usize) < self.vocabulary { (id, false) } else { (id - self.vocabulary as TokenId, true) }
    }

    /// Marks the ids for which `continues_word` is true.
    pub fn mark(self, ids: &mut [TokenId], continues_word: &[bool]) {
        for (id, _) in ids.iter_mut().zip(continues_word).filter(|(_, continues)| **continues) {
            *id = self.marked(*id);
        }
    }

    /// Removes the marks from ids and appends them to `continues_word`; does nothing if ids have no marks.
    pub fn unmark(self, ids: &mut [TokenId], continues_word: &mut Vec<bool>) {
        for id in ids.iter_mut().filter(|_| self.word_marks) {
            let (plain, continues) = self.unmarked(*id);
            *id = plain;
            continues_word.push(continues);
        }
    }
}
