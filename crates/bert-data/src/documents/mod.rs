//! Documents of token ids.
//!
//! A [`Document`] has its ids and the borders of its sentences. [`Documents`] holds many of them in memory, packed: two
//! bytes an id if the vocabulary allows it, as in the token store of a build (`builder::token_store`). A
//! [`DocumentsBuilder`] collects documents in memory or writes them to the store. The reference holds lists of lists of
//! strings.

pub(crate) mod bucket;
pub(crate) mod casing;
pub(crate) mod id_width;
pub(crate) mod long_sentence;
pub mod read;
pub(crate) mod sentences;
pub(crate) mod tally;

use std::ops::Range;

use crate::documents::id_width::Width;
use crate::documents::tally::{DocumentHash, Tally};
use crate::error::{InputError, Result};
use bert_random::Random;
use bert_storage::scratch::{ScratchDigest, ScratchFile};

/// Bytes of the border of a sentence, and of an entry of the index.
const SENTENCE: u64 = 4;
pub(crate) const INDEX: u64 = 16;

/// Documents in the order of the text, unless shuffled. No document and no sentence is empty.
#[derive(Debug)]
pub struct Documents {
    width: Width,
    /// One document after another: its ids, and behind them where each of its sentences begins in it.
    text: Vec<u8>,
    /// What stands before each document, and the whole.
    starts: Vec<Start>,
    /// The documents in another order.
    order: Option<Vec<u32>>,
    pub(crate) counts: Counts,
}

/// How many sentences and tokens stand before something.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Start {
    pub(crate) sentences: u64,
    pub(crate) tokens: u64,
}

impl Start {
    /// Where that is in the text.
    pub(crate) fn byte(self, width: Width) -> u64 {
        width.bytes() as u64 * self.tokens + SENTENCE * self.sentences
    }

    /// The entry of the index.
    fn bytes(self) -> [u8; INDEX as usize] {
        let mut bytes = [0; INDEX as usize];
        bytes[..8].copy_from_slice(&self.sentences.to_le_bytes());
        bytes[8..].copy_from_slice(&self.tokens.to_le_bytes());
        bytes
    }

    pub(crate) fn of_bytes(bytes: &[u8]) -> Self {
        let number = |at: usize| bytes[at..].first_chunk().map_or(0, |bytes| u64::from_le_bytes(*bytes));
        Self { sentences: number(0), tokens: number(8) }
    }
}

/// How much there is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Counts {
    pub(crate) documents: u64,
    pub(crate) sentences: u64,
    pub(crate) tokens: u64,
    /// All documents, for the law of conservation.
    pub(crate) seen: Tally,
}

impl Counts {
    /// Bytes of the text and of the index.
    pub(crate) fn bytes(&self, width: Width) -> [u64; 2] {
        let end = Start { sentences: self.sentences, tokens: self.tokens };
        [end.byte(width), INDEX * (self.documents + 1)]
    }

    pub(crate) fn add(&mut self, other: &Self) {
        self.documents = self.documents.saturating_add(other.documents);
        self.sentences = self.sentences.saturating_add(other.sentences);
        self.tokens = self.tokens.saturating_add(other.tokens);
        self.seen.add(other.seen);
    }
}

impl Documents {
    pub(crate) fn empty(width: Width) -> Self {
        Self {
            width,
            text: Vec::new(),
            starts: vec![Start::default()],
            order: None,
            counts: Counts::default(),
        }
    }

    /// Appends a document of so many sentences and tokens, whose bytes `read` fills in.
    pub(crate) fn append(
        &mut self,
        sentences: u64,
        tokens: u64,
        read: impl FnOnce(&mut [u8]) -> Result<()>,
    ) -> Result<()> {
        let before = self.starts[self.len()];
        let end = Start { sentences: before.sentences + sentences, tokens: before.tokens + tokens };
        let start = self.text.len();
        self.text.resize(end.byte(self.width) as usize, 0);
        read(&mut self.text[start..])?;
        self.starts.push(end);
        self.counts.add(&Counts { documents: 1, sentences, tokens, seen: Tally::default() });
        Ok(())
    }

    /// The documents in another order: which of them is at each place.
    pub(crate) fn in_order(self, order: Vec<u32>) -> Self {
        Self { order: Some(order), ..self }
    }

    /// Puts the documents in random order; sentences stay in theirs.
    pub fn shuffle<R: Random>(&mut self, random: &mut R) {
        let mut order = self.order.take().unwrap_or_else(|| (0..self.len() as u32).collect());
        random.shuffle(&mut order);
        self.order = Some(order);
    }

    /// Number of documents.
    #[must_use]
    pub fn len(&self) -> usize {
        self.starts.len() - 1
    }

    /// Whether there is no document.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Number of tokens.
    #[must_use]
    pub fn tokens(&self) -> u64 {
        self.counts.tokens
    }

    /// Number of sentences.
    #[must_use]
    pub fn sentences(&self) -> u64 {
        self.counts.sentences
    }

    fn stored(&self, index: usize) -> usize {
        self.order.as_ref().map_or(index, |order| order[index] as usize)
    }

    /// How many tokens stand before a document, in the order of the text.
    pub(crate) fn tokens_before(&self, index: usize) -> u64 {
        self.starts[self.stored(index)].tokens
    }

    /// The document at a place.
    ///
    /// # Panics
    /// When there is no such place.
    #[must_use]
    pub fn document(&self, index: usize) -> Document<'_> {
        let index = self.stored(index);
        let (start, end) = (self.starts[index], self.starts[index + 1]);
        let record = &self.text[start.byte(self.width) as usize..end.byte(self.width) as usize];
        let (tokens, borders) = record.split_at((end.tokens - start.tokens) as usize * self.width.bytes());
        Document { width: self.width, tokens, borders: borders.as_chunks().0 }
    }

    /// All of them.
    pub fn iter(&self) -> impl Iterator<Item = Document<'_>> {
        (0..self.len()).map(|index| self.document(index))
    }
}

/// One document. Places in it are those of its tokens.
#[derive(Clone, Copy, Debug)]
pub struct Document<'a> {
    width: Width,
    tokens: &'a [u8],
    borders: &'a [[u8; SENTENCE as usize]],
}

impl Document<'_> {
    /// Number of tokens.
    #[must_use]
    pub fn tokens(&self) -> usize {
        self.tokens.len() / self.width.bytes()
    }

    /// Number of sentences.
    #[must_use]
    pub fn sentences(&self) -> usize {
        self.borders.len()
    }

    /// Where a sentence begins; of the number behind the last one, where that ends.
    ///
    /// # Panics
    /// When there is no such sentence.
    #[must_use]
    pub fn sentence_start(&self, sentence: usize) -> usize {
        match self.borders.get(sentence) {
            Some(&border) => u32::from_le_bytes(border) as usize,
            None if sentence == self.borders.len() => self.tokens(),
            None => panic!("sentence {sentence} of {}", self.borders.len()),
        }
    }

    /// The tokens of a sentence.
    ///
    /// # Panics
    /// When there is no such sentence.
    #[must_use]
    pub fn sentence(&self, sentence: usize) -> Range<usize> {
        self.sentence_start(sentence)..self.sentence_start(sentence + 1)
    }

    /// Appends the tokens at these places to `out`.
    ///
    /// # Panics
    /// When there are no such places.
    pub fn append_tokens(&self, range: Range<usize>, out: &mut Vec<u32>) {
        self.width.get(self.packed(range), out);
    }

    fn packed(&self, range: Range<usize>) -> &[u8] {
        let size = self.width.bytes();
        &self.tokens[size * range.start..size * range.end]
    }

    /// What it is known by.
    pub(crate) fn hash(&self) -> DocumentHash {
        let mut hash = DocumentHash::default();
        (0..self.sentences()).for_each(|sentence| hash.see_sentence(self.packed(self.sentence(sentence))));
        hash
    }
}

/// Collects documents: sentences of ids in the order of the text, and where documents end.
pub struct DocumentsBuilder {
    documents: Documents,
    /// Where text and index go, if not to memory.
    files: Option<[ScratchFile; 2]>,
    /// What stands before the document that is open.
    closed: Start,
    /// Of the document that is open: its hash, and the borders of its sentences.
    hash: DocumentHash,
    borders: Vec<u8>,
    packed: Vec<u8>,
}

impl DocumentsBuilder {
    /// Begins a corpus for ids below `vocabulary`, in memory.
    #[must_use]
    pub fn new(vocabulary: usize) -> Self {
        Self {
            documents: Documents::empty(Width::of(vocabulary)),
            files: None,
            closed: Start::default(),
            hash: DocumentHash::default(),
            borders: Vec::new(),
            packed: Vec::new(),
        }
    }

    /// Begins a corpus in two files: the text and its index.
    pub(crate) fn to_files(vocabulary: usize, files: [ScratchFile; 2]) -> Self {
        Self { files: Some(files), ..Self::new(vocabulary) }
    }

    /// Appends a sentence of at least one token.
    ///
    /// # Errors
    /// Those of writing, where the corpus is on disk; [`InputError::DocumentTooLong`].
    pub fn push_sentence(&mut self, ids: &[u32]) -> Result<()> {
        self.packed.clear();
        self.documents.width.put(ids, &mut self.packed);
        self.hash.see_sentence(&self.packed);
        let start = u32::try_from(self.open_tokens()).map_err(|_| InputError::DocumentTooLong)?;
        self.borders.extend_from_slice(&start.to_le_bytes());
        self.documents.counts.tokens += ids.len() as u64;
        self.documents.counts.sentences += 1;
        push(&mut self.documents.text, self.files.as_mut(), &self.packed)
    }

    /// Number of tokens since the last document was closed.
    pub(crate) fn open_tokens(&self) -> u64 {
        self.documents.counts.tokens - self.closed.tokens
    }

    /// Makes a document of the sentences since the last one and returns how many they are; 0 makes none.
    ///
    /// # Errors
    /// As [`DocumentsBuilder::push_sentence`].
    pub fn close_document(&mut self) -> Result<u64> {
        let counts = &mut self.documents.counts;
        let sentences = counts.sentences - self.closed.sentences;
        if sentences > 0 {
            counts.seen.see_document(std::mem::take(&mut self.hash));
            counts.documents += 1;
            let end = Start { sentences: counts.sentences, tokens: counts.tokens };
            push(&mut self.documents.text, self.files.as_mut(), &self.borders)?;
            self.borders.clear();
            match &mut self.files {
                Some([_, index]) => index.push(&self.closed.bytes())?,
                None => self.documents.starts.push(end),
            }
            self.closed = end;
        }
        Ok(sentences)
    }

    /// Number of documents so far.
    #[must_use]
    pub fn len(&self) -> usize {
        self.documents.counts.documents as usize
    }

    /// Whether there is no document yet.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.documents.counts.documents == 0
    }

    /// The corpus, where it is in memory. Sentences after the last closed document make a last one.
    ///
    /// # Errors
    /// As [`DocumentsBuilder::push_sentence`].
    ///
    /// # Panics
    /// When the corpus is on disk.
    pub fn finish(mut self) -> Result<Documents> {
        assert!(self.files.is_none(), "a corpus on disk is read from its files");
        self.close_document()?;
        Ok(self.documents)
    }

    /// Ends the files of a corpus on disk, whose last document was closed.
    pub(crate) fn finish_files(self) -> Result<(Counts, [ScratchDigest; 2])> {
        let Some([text, mut index]) = self.files else { unreachable!("the corpus is on disk") };
        index.push(&self.closed.bytes())?;
        Ok((self.documents.counts, [text.finish()?, index.finish()?]))
    }
}

fn push(text: &mut Vec<u8>, files: Option<&mut [ScratchFile; 2]>, bytes: &[u8]) -> Result<()> {
    match files {
        Some([file, _]) => file.push(bytes)?,
        None => text.extend_from_slice(bytes),
    }
    Ok(())
}
