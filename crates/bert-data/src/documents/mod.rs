//! Documents of token ids.
//!
//! A [`Document`] consists of its ids and the boundaries of its sentences. [`Documents`] holds many of them in memory,
//! packed: two bytes per id if the vocabulary is small enough, as in the token store of a build
//! (`builder::token_store`). A [`DocumentsBuilder`] collects documents in memory or writes them to the store. The
//! reference uses lists of lists of strings.
//!
//! A [`Bucket`] holds some documents of the text in memory, from which instances are generated.
//!
//! The documents of a bucket are in text order, with their numbers, regardless of where they were read from. A random
//! next sentence comes from the same bucket, and the number of a document selects its random stream. Buckets with the
//! same documents therefore yield the same instances.

mod abbreviations;
pub(crate) mod casing;
pub(crate) mod id_width;
pub(crate) mod marks;
pub(crate) mod read;
pub(crate) mod read_report;
pub(crate) mod selection;
pub(crate) mod sentences;
pub(crate) mod text_writer;

use std::ops::Range;

use bert_random::{Domain, Permutation, Random, Stream};
use bert_storage::scratch::{ScratchDigest, ScratchFile};

use crate::documents::id_width::{DocumentHash, Tally, Width};
use crate::error::{Error, Result};

/// Bytes of a sentence boundary.
const SENTENCE: u64 = 4;
/// Bytes of an index entry.
pub(crate) const INDEX: u64 = 16;

/// Documents in text order, unless shuffled. No document and no sentence is empty.
#[derive(Debug)]
pub struct Documents {
    width: Width,
    /// Concatenated documents: the ids of each, followed by the offsets of its sentences.
    text: Vec<u8>,
    /// The counts before each document, followed by the totals.
    starts: Vec<Start>,
    /// A permutation of the documents, if they are reordered.
    order: Option<Vec<u32>>,
    pub(crate) counts: Counts,
}

/// The number of sentences and tokens before a position.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Start {
    pub(crate) sentences: u64,
    pub(crate) tokens: u64,
}

impl Start {
    /// Returns the byte offset of this position in the text.
    pub(crate) fn byte(self, width: Width) -> u64 {
        width.bytes() as u64 * self.tokens + SENTENCE * self.sentences
    }

    /// Returns the index entry of this position.
    fn bytes(self) -> [u8; INDEX as usize] {
        let mut bytes = [0; INDEX as usize];
        bytes[..8].copy_from_slice(&self.sentences.to_le_bytes());
        bytes[8..].copy_from_slice(&self.tokens.to_le_bytes());
        bytes
    }

    pub(crate) fn from_bytes(bytes: &[u8]) -> Self {
        let number = |at: usize| bytes[at..].first_chunk().map_or(0, |bytes| u64::from_le_bytes(*bytes));
        Self { sentences: number(0), tokens: number(8) }
    }
}

/// Numbers of documents, sentences and tokens.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Counts {
    pub(crate) documents: u64,
    pub(crate) sentences: u64,
    pub(crate) tokens: u64,
    /// Tally of all documents, for the check that none is lost or duplicated.
    #[serde(rename = "seen")]
    pub(crate) tally: Tally,
}

impl Counts {
    /// Returns the bytes of the text and of the index.
    pub(crate) fn bytes(&self, width: Width) -> [u64; 2] {
        let end = Start { sentences: self.sentences, tokens: self.tokens };
        [end.byte(width), INDEX * (self.documents + 1)]
    }

    pub(crate) fn add(&mut self, other: &Self) {
        self.documents = self.documents.saturating_add(other.documents);
        self.sentences = self.sentences.saturating_add(other.sentences);
        self.tokens = self.tokens.saturating_add(other.tokens);
        self.tally.add(other.tally);
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

    /// Appends a document with this number of sentences and tokens; `read` fills in its bytes.
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
        self.counts.add(&Counts { documents: 1, sentences, tokens, tally: Tally::default() });
        Ok(())
    }

    /// Returns the documents in a different order: `order` lists the index of the document at each position.
    pub(crate) fn reordered(self, order: Vec<u32>) -> Self {
        Self { order: Some(order), ..self }
    }

    /// Shuffles the documents; the sentences of each document stay in order.
    pub fn shuffle<R: Random>(&mut self, random: &mut R) {
        let mut order = self.order.take().unwrap_or_else(|| (0..self.len() as u32).collect());
        random.shuffle(&mut order);
        self.order = Some(order);
    }

    /// Returns the number of documents.
    pub fn len(&self) -> usize {
        self.starts.len() - 1
    }

    /// Returns whether there are no documents.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Returns the number of tokens.
    pub fn tokens(&self) -> u64 {
        self.counts.tokens
    }

    /// Returns the number of sentences.
    pub fn sentences(&self) -> u64 {
        self.counts.sentences
    }

    fn stored(&self, index: usize) -> usize {
        self.order.as_ref().map_or(index, |order| order[index] as usize)
    }

    /// Returns the number of tokens before a document, in text order.
    pub(crate) fn tokens_before(&self, index: usize) -> u64 {
        self.starts[self.stored(index)].tokens
    }

    /// Returns the document at this index.
    ///
    /// # Panics
    /// Panics if `index` is out of range.
    pub fn document(&self, index: usize) -> Document<'_> {
        let index = self.stored(index);
        let start = self.starts[index];
        let end = self.starts[index + 1];
        let record = &self.text[start.byte(self.width) as usize..end.byte(self.width) as usize];
        let (tokens, borders) = record.split_at((end.tokens - start.tokens) as usize * self.width.bytes());
        Document { width: self.width, tokens, borders: borders.as_chunks().0 }
    }

    /// Returns an iterator over all documents.
    pub fn iter(&self) -> impl Iterator<Item = Document<'_>> {
        (0..self.len()).map(|index| self.document(index))
    }
}

/// One document. Positions in it count tokens.
#[derive(Clone, Copy, Debug)]
pub struct Document<'a> {
    width: Width,
    tokens: &'a [u8],
    borders: &'a [[u8; SENTENCE as usize]],
}

impl Document<'_> {
    /// Returns the number of tokens.
    pub fn tokens(&self) -> usize {
        self.tokens.len() / self.width.bytes()
    }

    /// Returns the number of sentences.
    pub fn sentences(&self) -> usize {
        self.borders.len()
    }

    /// Returns the start of a sentence, or the end of the document if `sentence` is the number of sentences.
    ///
    /// # Panics
    /// Panics if `sentence` is greater than the number of sentences.
    pub fn sentence_start(&self, sentence: usize) -> usize {
        match self.borders.get(sentence) {
            Some(&border) => u32::from_le_bytes(border) as usize,
            None if sentence == self.borders.len() => self.tokens(),
            None => panic!("sentence {sentence} of {}", self.borders.len()),
        }
    }

    /// Returns the token range of a sentence.
    ///
    /// # Panics
    /// Panics if the sentence does not exist.
    pub fn sentence(&self, sentence: usize) -> Range<usize> {
        self.sentence_start(sentence)..self.sentence_start(sentence + 1)
    }

    /// Appends the tokens in this range to `out`.
    ///
    /// # Panics
    /// Panics if the range is outside the document.
    pub fn append_tokens(&self, range: Range<usize>, out: &mut Vec<u32>) {
        self.width.get(self.packed(range), out);
    }

    fn packed(&self, range: Range<usize>) -> &[u8] {
        let size = self.width.bytes();
        &self.tokens[size * range.start..size * range.end]
    }

    /// Returns the content hash of the document.
    pub(crate) fn hash(&self) -> DocumentHash {
        let mut hash = DocumentHash::default();
        (0..self.sentences()).for_each(|sentence| hash.add_sentence(self.packed(self.sentence(sentence))));
        hash
    }
}

/// Builder that collects documents: token ids of sentences in text order, and the ends of documents.
pub(crate) struct DocumentsBuilder {
    documents: Documents,
    /// Files for the text and the index; `None` if the corpus is in memory.
    files: Option<[ScratchFile; 2]>,
    /// The counts before the open document.
    closed: Start,
    /// Hash of the open document.
    hash: DocumentHash,
    /// Boundaries of the sentences of the open document.
    borders: Vec<u8>,
    packed: Vec<u8>,
}

impl DocumentsBuilder {
    /// Creates a builder that collects documents in memory, for ids below `vocabulary`.
    pub(crate) fn new(vocabulary: usize) -> Self {
        Self {
            documents: Documents::empty(Width::for_vocabulary(vocabulary)),
            files: None,
            closed: Start::default(),
            hash: DocumentHash::default(),
            borders: Vec::new(),
            packed: Vec::new(),
        }
    }

    /// Creates a builder that writes documents to two files: the text and its index.
    pub(crate) fn to_files(vocabulary: usize, files: [ScratchFile; 2]) -> Self {
        Self { files: Some(files), ..Self::new(vocabulary) }
    }

    /// Appends a sentence with at least one token.
    ///
    /// # Errors
    /// Fails when the corpus is on disk and cannot be written, or when a document has more tokens than 32 bits can
    /// count and cannot be split because of reference mode.
    pub(crate) fn push_sentence(&mut self, ids: &[u32]) -> Result<()> {
        self.packed.clear();
        self.documents.width.put(ids, &mut self.packed);
        self.hash.add_sentence(&self.packed);
        let start = u32::try_from(self.open_tokens()).map_err(|_| {
            Error::data(format!(
                "a document has more than {} tokens; are the empty lines between documents missing?",
                u32::MAX
            ))
        })?;
        self.borders.extend_from_slice(&start.to_le_bytes());
        self.documents.counts.tokens += ids.len() as u64;
        self.documents.counts.sentences += 1;
        push(&mut self.documents.text, self.files.as_mut(), &self.packed)
    }

    /// Returns the number of tokens since the last document was closed.
    pub(crate) fn open_tokens(&self) -> u64 {
        self.documents.counts.tokens - self.closed.tokens
    }

    /// Ends the open document and returns its number of sentences; with 0, no document is added.
    ///
    /// # Errors
    /// Fails as [`DocumentsBuilder::push_sentence`] does.
    pub(crate) fn close_document(&mut self) -> Result<u64> {
        let counts = &mut self.documents.counts;
        let sentences = counts.sentences - self.closed.sentences;
        if sentences > 0 {
            counts.tally.add_document(std::mem::take(&mut self.hash));
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

    /// Returns whether there are no documents yet.
    pub(crate) fn is_empty(&self) -> bool {
        self.documents.counts.documents == 0
    }

    /// Returns a corpus in memory. Sentences after the last closed document form a final document.
    ///
    /// # Errors
    /// Fails as [`DocumentsBuilder::push_sentence`] does.
    ///
    /// # Panics
    /// Panics if the corpus is on disk.
    pub(crate) fn finish(mut self) -> Result<Documents> {
        assert!(self.files.is_none(), "a corpus on disk is read from its files");
        self.close_document()?;
        Ok(self.documents)
    }

    /// Finishes the files of a corpus on disk; the last document must be closed.
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

/// Documents in text order, with their numbers.
#[derive(Debug)]
pub struct Bucket {
    documents: Documents,
    numbers: Vec<u64>,
}

/// Returns the order of the documents of a corpus in one pass of the builder.
pub(crate) fn order_of_pass(seed: u64, pass: u64, documents: u64) -> Permutation {
    Permutation::new(documents, &mut Stream::new(seed, Domain::Buckets, &[pass]))
}

impl Bucket {
    /// Creates a bucket from documents with ascending numbers.
    pub(crate) fn ascending(documents: Documents, numbers: Vec<u64>) -> Self {
        debug_assert!(
            numbers.is_sorted() && numbers.len() == documents.len(),
            "one ascending number per document"
        );
        Self { documents, numbers }
    }

    /// Creates a bucket from documents in any order.
    pub(crate) fn sorted(documents: DocumentsBuilder, mut numbers: Vec<u64>) -> Result<Self> {
        let documents = documents.finish()?;
        let mut order: Vec<u32> = (0..numbers.len() as u32).collect();
        order.sort_unstable_by_key(|&index| numbers[index as usize]);
        numbers.sort_unstable();
        Ok(Self::ascending(documents.reordered(order), numbers))
    }

    /// Returns the documents.
    pub fn documents(&self) -> &Documents {
        &self.documents
    }

    /// Returns the number of documents.
    pub fn len(&self) -> usize {
        self.numbers.len()
    }

    /// Returns whether the bucket is empty.
    pub fn is_empty(&self) -> bool {
        self.numbers.is_empty()
    }

    /// Returns the number, in text order, of the document at an index of the bucket.
    ///
    /// # Panics
    /// Panics if `index` is outside the bucket.
    pub fn number(&self, index: usize) -> u64 {
        self.numbers[index]
    }

    /// Returns the index of the document with this number in the bucket; `None` if the bucket does not contain it.
    pub(crate) fn index_of(&self, number: u64) -> Option<usize> {
        self.numbers.binary_search(&number).ok()
    }
}

/// Approximate number of tokens per bucket: 8 MB at two bytes per token.
pub(crate) const BUCKET_TOKENS: u64 = 1 << 22;
