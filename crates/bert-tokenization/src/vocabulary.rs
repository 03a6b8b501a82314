//! The WordPiece vocabulary, which maps tokens to ids and back.
//!
//! A [`Vocabulary`] is read from a file with one token per line; ids are line numbers from 0. The parser is a port of
//! `load_vocab` of the reference's `tokenization.py`. A blank line takes an id that no text uses (the published
//! Chinese vocabulary has one); several blank lines are accepted. The reference lets a later duplicate overwrite an
//! earlier token; here a duplicate is rejected.
//!
//! [`IdSpace`] marks the ids of tokens that continue a word, for `--segmenter chinese`.
//!
//! With a segmenter, a token can continue the word before it without being a `##` piece. Between reading and masking,
//! its id is marked: the vocabulary size is added to the plain id. So a marked id can be stored like any id, in two
//! bytes if twice the vocabulary size fits into two bytes. After masking and in files the ids are plain again. Files
//! with unmasked tokens store the marks in a separate column.

use std::path::Path;

use ahash::AHashMap;
use bert_storage::{Error, Result, read_limited};

use crate::basic::python_strip;

/// The id of a token: its line number in the vocabulary, counted from 0.
pub type TokenId = u32;

/// The padding token.
pub const PAD: &str = "[PAD]";
/// The token for a word that cannot be split into pieces.
pub const UNK: &str = "[UNK]";
/// The token before the first segment.
pub const CLS: &str = "[CLS]";
/// The token after each segment.
pub const SEP: &str = "[SEP]";
/// The token that replaces a masked token.
pub const MASK: &str = "[MASK]";
/// All five special tokens.
pub const SPECIAL: [&str; 5] = [PAD, UNK, CLS, SEP, MASK];

/// Maximum size of a vocabulary file; multilingual vocabularies have some megabytes.
pub(crate) const MAX_BYTES: u64 = 64 << 20;

/// The tokens and their ids.
#[derive(Clone, Debug)]
pub struct Vocabulary {
    tokens: Vec<String>,
    ids: AHashMap<String, TokenId>,
    special: [u32; 5],
    /// Ids of further special tokens, which the tokenizer files of the folder add.
    markers: Vec<u32>,
    bytes: Vec<u8>,
    /// Maximum number of characters of a word; longer words are one `[UNK]`.
    pub max_word: usize,
}

/// Maximum number of characters of a word, unless the files of a tokenizer state a different number.
pub(crate) const MAX_INPUT_CHARS_PER_WORD: usize = 200;

impl Vocabulary {
    /// Reads a vocabulary file.
    ///
    /// # Errors
    /// Fails when the file cannot be read, when it is empty or not UTF-8, or when a token occurs twice or a required
    /// one is missing; errors in a line name the line.
    pub fn read(path: &Path) -> Result<Self> {
        let bytes = read_limited(path, MAX_BYTES).map_err(Error::io("read vocabulary", path))?;
        Self::from_bytes(bytes, path)
    }

    /// Parses a vocabulary from the bytes of its file; `path` is named in errors.
    ///
    /// # Errors
    /// Fails as [`Vocabulary::read`] does, except that no file is read.
    pub fn from_bytes(bytes: Vec<u8>, path: &Path) -> Result<Self> {
        let text = match std::str::from_utf8(&bytes) {
            Ok(text) => text.strip_prefix('\u{feff}').unwrap_or(text),
            Err(error) => {
                let line = 1 + bytes[..error.valid_up_to()].iter().filter(|&&byte| byte == b'\n').count();
                return Err(Error::data("the vocabulary is not valid UTF-8").at_line(path, line as u64));
            }
        };
        let lines = 1 + bytes.iter().filter(|&&byte| byte == b'\n').count();
        let mut tokens: Vec<String> = Vec::with_capacity(lines);
        let mut ids = AHashMap::new();
        for (index, line) in text.split_terminator('\n').enumerate() {
            let token = python_strip(line);
            if token.is_empty() {
                tokens.push(String::new());
                continue;
            }
            if let Some(first) = ids.insert(token.to_owned(), index as TokenId) {
                let problem = Error::data(format!("token {token:?} is already on line {}", first + 1));
                return Err(problem.at_line(path, index as u64 + 1));
            }
            tokens.push(token.to_owned());
        }
        if tokens.iter().all(String::is_empty) {
            return Err(Error::data("the vocabulary is empty").at(path));
        }
        let mut special = [0; 5];
        for (special_id, token) in special.iter_mut().zip(SPECIAL) {
            match ids.get(token) {
                Some(&id) => *special_id = id,
                // The reference pads with 0, whichever token that is, so only the other tokens are required.
                None if token == PAD => *special_id = 0,
                None => return Err(lacks(token, &tokens).at(path)),
            }
        }
        Ok(Self { tokens, ids, special, markers: Vec::new(), bytes, max_word: MAX_INPUT_CHARS_PER_WORD })
    }

    /// Returns this vocabulary with further special tokens.
    pub(crate) fn with_markers(self, markers: Vec<u32>) -> Self {
        Self { markers, ..self }
    }

    /// Returns the ids of the special tokens other than the five of BERT.
    pub fn markers(&self) -> &[u32] {
        &self.markers
    }

    /// Returns the maximum number of characters of a word; longer words are one `[UNK]`.
    pub fn max_word(&self) -> usize {
        self.max_word
    }

    /// Returns the special tokens with their ids.
    pub fn special_tokens(&self) -> impl Iterator<Item = (String, u32)> {
        let five = SPECIAL.iter().filter_map(|token| self.id(token));
        five.chain(self.markers.iter().copied()).map(|id| (self.token(id).to_owned(), id))
    }

    /// Returns the number of tokens.
    pub fn len(&self) -> usize {
        self.tokens.len()
    }

    /// Returns false: an empty vocabulary is rejected.
    pub fn is_empty(&self) -> bool {
        self.tokens.is_empty()
    }

    /// Returns whether more than one in twenty of the words has upper-case letters, as in vocabularies of cased text.
    pub fn is_cased(&self) -> bool {
        cased_words(self).share() > MAX_CASED_FRACTION
    }

    /// Returns the id of a token; blank lines have none.
    pub fn id(&self, token: &str) -> Option<u32> {
        self.ids.get(token).copied()
    }

    /// Returns the token of an id; `[UNK]` for an id outside the vocabulary.
    pub fn token(&self, id: u32) -> &str {
        self.tokens.get(id as usize).map_or(UNK, String::as_str)
    }

    /// Returns the number of characters of text that a token represents: the Unicode scalar values of its spelling,
    /// without the `##` of a continuation. A special token counts as one, because the text behind `[UNK]` is unknown.
    pub fn characters(&self, id: u32) -> usize {
        let token = self.token(id);
        if SPECIAL.contains(&token) {
            return 1;
        }
        let piece = token.strip_prefix("##").filter(|rest| !rest.is_empty()).unwrap_or(token);
        piece.chars().count().max(1)
    }

    /// Returns all tokens in the order of their ids.
    pub fn tokens(&self) -> &[String] {
        &self.tokens
    }

    /// Returns the id of `[PAD]`, or 0 if the vocabulary lacks it.
    pub fn pad_id(&self) -> u32 {
        self.special[0]
    }

    /// Returns the id of `[UNK]`.
    pub fn unk_id(&self) -> u32 {
        self.special[1]
    }

    /// Returns the id of `[CLS]`.
    pub fn cls_id(&self) -> u32 {
        self.special[2]
    }

    /// Returns the id of `[SEP]`.
    pub fn sep_id(&self) -> u32 {
        self.special[3]
    }

    /// Returns the id of `[MASK]`.
    pub fn mask_id(&self) -> u32 {
        self.special[4]
    }

    /// Returns the bytes of a `vocab.txt` with these tokens: the bytes as read, if the vocabulary was read from such a
    /// file.
    pub fn bytes(&self) -> &[u8] {
        &self.bytes
    }
}

/// Returns the error for a vocabulary that lacks a required token.
fn lacks(token: &'static str, tokens: &[String]) -> Error {
    let with_tab = tokens.iter().filter(|line| line.contains('\t')).count();
    if 2 * with_tab > tokens.len() {
        return Error::data(format!(
            "no {token}, and most lines have a tab and a score: this is a SentencePiece vocabulary. BERT needs a \
             WordPiece vocabulary with one token per line; train one with `bert make-vocab`"
        ));
    }
    Error::data(format!("the vocabulary ({} tokens) has no {token}", tokens.len()))
}

/// Fraction of upper-case words up to which a vocabulary counts as uncased.
const MAX_CASED_FRACTION: f64 = 0.05;

/// Number of words of a vocabulary with a property of spelling such as upper case, and number of words that could have
/// it.
#[derive(Clone, Copy, Debug)]
pub struct WordShare {
    /// Number of words with the property.
    pub found: usize,
    /// Number of words that could have it.
    pub words: usize,
}

impl WordShare {
    /// Returns the fraction of the words with the property.
    pub fn share(self) -> f64 {
        self.found as f64 / f64::max(self.words as f64, 1.0)
    }
}

/// Counts the words with upper-case letters, among the words with letters that have two cases.
pub fn cased_words(vocabulary: &Vocabulary) -> WordShare {
    let mut found = 0;
    let mut words = 0;
    for token in vocabulary.tokens().iter().filter(|token| !is_special_token(token)) {
        let has_capital = token.chars().any(|c| !c.to_lowercase().eq([c]));
        found += usize::from(has_capital);
        words += usize::from(has_capital || token.chars().any(|c| !c.to_uppercase().eq([c])));
    }
    WordShare { found, words }
}

/// Returns whether a token is reserved: one of the five special tokens or an `[unused...]` token.
pub fn is_special_token(token: &str) -> bool {
    SPECIAL.contains(&token) || (token.starts_with("[unused") && token.ends_with(']'))
}

/// The range of token ids, between reading and masking or in a file.
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blank_lines_keep_the_ids_of_other_lines() {
        let file = "[PAD]\n[UNK]\n\n[CLS]\n \u{3000}\n[SEP]\n[MASK]\n\nquay\n";
        let vocabulary = Vocabulary::from_bytes(file.into(), Path::new("v.txt")).unwrap();
        assert_eq!((vocabulary.len(), vocabulary.id("quay"), vocabulary.id("")), (9, Some(8), None));
        let twice = file.replace("quay", "quay\n\nquay");
        let error = Vocabulary::from_bytes(twice.into(), Path::new("v.txt")).unwrap_err();
        assert!(error.to_string().contains("already on line 9"), "{error}");
    }

    #[test]
    fn special_tokens_and_no_others() {
        for token in ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "[unused0]", "[unused993]"] {
            assert!(is_special_token(token), "{token}");
        }
        for token in ["the", "[", "]", "[]", "[cls]", "PAD", "unused0]", "[unused0", "##[PAD]"] {
            assert!(!is_special_token(token), "{token}");
        }
    }
}
