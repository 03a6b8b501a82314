//! Marks token ids that continue a word, for `--segmenter chinese`.
//!
//! With a segmenter, a token can continue the word before it without being a `##` piece. Between reading and masking,
//! its id is marked: it is the plain id plus the size of the vocabulary. So a marked id fits wherever an id does, in
//! two bytes as long as twice the vocabulary fits into them. Masking and files have the plain ids again. Files with
//! unmasked tokens store the marks in a column of their own.

use crate::tokenization::vocabulary::TokenId;

/// The ids that tokens have between reading and masking, or in a file.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct IdSpace {
    /// The size of the vocabulary; plain ids are below it.
    pub vocabulary: usize,
    /// Whether ids may be marked: a token then goes on with the word before it.
    pub word_marks: bool,
}

impl IdSpace {
    /// How many different ids there are.
    pub(crate) fn size(self) -> usize {
        if self.word_marks { 2 * self.vocabulary } else { self.vocabulary }
    }

    /// The id of a token that goes on with the word before it.
    #[must_use]
    pub fn marked(self, id: TokenId) -> TokenId {
        id + self.vocabulary as TokenId
    }

    /// The plain id, and whether it was marked.
    #[must_use]
    pub fn unmarked(self, id: TokenId) -> (TokenId, bool) {
        match (id as usize) < self.vocabulary {
            true => (id, false),
            false => (id - self.vocabulary as TokenId, true),
        }
    }

    /// Marks the ids of which the other list says that they go on with a word.
    pub(crate) fn mark(self, ids: &mut [TokenId], continues_word: &[bool]) {
        for (id, _) in ids.iter_mut().zip(continues_word).filter(|(_, continues)| **continues) {
            *id = self.marked(*id);
        }
    }

    /// Takes the marks from ids to the end of a list of them; without marks it leaves both as they are.
    pub(crate) fn unmark(self, ids: &mut [TokenId], continues_word: &mut Vec<bool>) {
        for id in ids.iter_mut().filter(|_| self.word_marks) {
            let (plain, continues) = self.unmarked(*id);
            *id = plain;
            continues_word.push(continues);
        }
    }
}
