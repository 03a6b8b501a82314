//! Documents of token ids, in memory or on disk.
//!
//! In go sentences of ids in the order of the text; out come [`Documents`]: segments of a corpus, each with all ids one
//! after another and the borders of sentences and documents, which are in memory or read piece by piece from files, and
//! [`DocumentReader`], which looks at one document after another without holding any as a whole. Not for reading text
//! (`reading`), pairs or masks. The reference holds lists of lists of strings.

use std::ops::Range;

use crate::column::{Column, ColumnWriter, Cursor};
use crate::conservation::{DocumentHash, Tally};
use crate::error::{InputError, Result};
use crate::packed::Width;
use crate::rng::Random;

/// All documents of a corpus, in the order of the input unless shuffled. No document and no sentence is empty.
#[derive(Debug)]
pub struct Documents {
    pub(crate) width: Width,
    segments: Vec<Segment>,
    pub(crate) counts: Counts,
    /// The documents in another order, if they were shuffled.
    order: Option<Vec<u32>>,
}

/// Consecutive documents. In the columns all places count from the beginning of the segment.
#[derive(Debug)]
struct Segment {
    columns: DocumentColumns,
    counts: Counts,
    /// What the segments before it have.
    before: Counts,
}

/// The columns of some documents.
#[derive(Debug)]
pub(crate) struct DocumentColumns {
    /// One document after another: its ids, and behind them where each of its sentences begins in it, four bytes each. So one
    /// read gets a document.
    pub(crate) text: Column,
    /// Which sentence and which token each document begins with, and how many there are of both; sixteen bytes each.
    pub(crate) index: Column,
}

/// Bytes of the border of a sentence, and of an entry of the index.
const SENTENCE: u64 = 4;
const INDEX: u64 = 16;

/// Which document, and where it lies in the corpus.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Span {
    pub(crate) sentences: Range<u64>,
    pub(crate) tokens: Range<u64>,
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
        [record_bytes(width, self.sentences, self.tokens), INDEX * (self.documents + 1)]
    }

    pub(crate) fn add(&mut self, other: &Self) {
        self.documents = self.documents.saturating_add(other.documents);
        self.sentences = self.sentences.saturating_add(other.sentences);
        self.tokens = self.tokens.saturating_add(other.tokens);
        self.seen.add(other.seen);
    }
}

impl Documents {
    /// The documents of segments that follow each other.
    pub(crate) fn new(width: Width, segments: impl IntoIterator<Item = (DocumentColumns, Counts)>) -> Self {
        let mut all = Self { width, segments: Vec::new(), counts: Counts::default(), order: None };
        for (columns, counts) in segments {
            all.segments.push(Segment { columns, counts, before: all.counts });
            all.counts.add(&counts);
        }
        all
    }

    /// The documents in another order: which of them is at each place.
    pub(crate) fn in_order(self, order: Vec<u32>) -> Self {
        Self { order: Some(order), ..self }
    }

    /// Number of documents.
    #[must_use]
    pub fn len(&self) -> usize {
        self.counts.documents as usize
    }

    /// Whether there is no document.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.counts.documents == 0
    }

    /// Number of tokens.
    #[must_use]
    pub fn tokens(&self) -> u64 {
        self.counts.tokens
    }

    /// Number of sentences.
    #[must_use]
    pub fn sentences(&self) -> usize {
        self.counts.sentences as usize
    }

    /// Puts the documents in random order; sentences stay in theirs.
    pub fn shuffle<R: Random>(&mut self, random: &mut R) {
        let mut order = self.order.take().unwrap_or_else(|| (0..self.counts.documents as u32).collect());
        random.shuffle(&mut order);
        self.order = Some(order);
    }

    /// A reader with buffers of its own.
    #[must_use]
    pub fn reader(&self) -> DocumentReader<'_> {
        // What is read ahead: of a document itself much, because it is read on; of one that is drawn at random a few
        // sentences.
        let place = |sentences, tokens| Place {
            sentences: Cursor::new(sentences),
            tokens: Cursor::new(tokens),
            document: Span::default(),
            segment: 0,
            bytes: 0..0,
        };
        let (here, there) = (place(1 << 12, 1 << 15), place(1 << 8, 0));
        DocumentReader {
            documents: self,
            index: Cursor::new(1 << 10),
            far_index: Cursor::new(0),
            here,
            there,
        }
    }

    /// The segment in which something lies, by what the segments before it have.
    fn segment(&self, at: u64, before: impl Fn(&Counts) -> u64) -> (usize, &Segment) {
        let number = self.segments.partition_point(|segment| before(&segment.before) <= at).saturating_sub(1);
        (number, &self.segments[number])
    }
}

/// Where a reader looks: at the document that is being read, or at one that was drawn at random. Each has buffers of
/// its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Look {
    /// At the document that is read.
    Here,
    /// At another one.
    There,
}

#[derive(Clone, Debug)]
struct Place {
    sentences: Cursor,
    tokens: Cursor,
    /// The document that was looked at last, the number of its segment, and its bytes there.
    document: Span,
    segment: usize,
    bytes: Range<u64>,
}

/// Bytes of so many sentences with so many tokens.
fn record_bytes(width: Width, sentences: u64, tokens: u64) -> u64 {
    width.bytes() as u64 * tokens + SENTENCE * sentences
}

/// Looks at documents; keeps its buffers from one to the next.
#[derive(Clone, Debug)]
pub struct DocumentReader<'a> {
    documents: &'a Documents,
    index: Cursor,
    far_index: Cursor,
    here: Place,
    there: Place,
}

/// The first eight bytes as a number.
pub(crate) fn number(bytes: &[u8]) -> u64 {
    bytes.first_chunk().map_or(0, |bytes| u64::from_le_bytes(*bytes))
}

impl<'a> DocumentReader<'a> {
    /// What is read.
    #[must_use]
    pub fn documents(&self) -> &'a Documents {
        self.documents
    }

    /// Looks at a document: its sentences, by their numbers in the corpus.
    ///
    /// # Errors
    /// Those of reading.
    ///
    /// # Panics
    /// When there is no such document.
    pub fn document(&mut self, look: Look, index: usize) -> Result<Range<u64>> {
        let documents = self.documents;
        assert!(index < documents.len(), "document {index} of {}", documents.len());
        let stored = documents.order.as_ref().map_or(index as u64, |order| u64::from(order[index]));
        let (number, segment) = documents.segment(stored, |before| before.documents);
        let at = INDEX * (stored - segment.before.documents);
        let cursor = if look == Look::Here { &mut self.index } else { &mut self.far_index };
        let length = INDEX * (segment.counts.documents + 1);
        let pair = cursor.get((number, &segment.columns.index), at..at + 2 * INDEX, length)?;
        let [sentence, token, sentence_end, token_end] = [0, 8, 16, 24].map(|at| self::number(&pair[at..]));
        let (sentences, tokens) = (segment.before.sentences, segment.before.tokens);
        let document = Span {
            sentences: sentences + sentence..sentences + sentence_end,
            tokens: tokens + token..tokens + token_end,
        };
        let width = documents.width;
        let place = self.place(look);
        place.bytes = record_bytes(width, sentence, token)..record_bytes(width, sentence_end, token_end);
        place.segment = number;
        place.document = document;
        Ok(place.document.sentences.clone())
    }

    /// A document's place in the corpus.
    pub(crate) fn span(&mut self, index: usize) -> Result<Span> {
        self.document(Look::Here, index)?;
        Ok(self.here.document.clone())
    }

    /// The hash of the document that is looked at.
    pub(crate) fn hash(&mut self) -> Result<DocumentHash> {
        let Span { sentences, tokens } = self.here.document.clone();
        let (mut hash, mut start) = (DocumentHash::default(), tokens.start);
        for sentence in sentences {
            let end = self.sentence_start(Look::Here, sentence + 1)?;
            hash.see_sentence(self.packed_tokens(Look::Here, start..end)?);
            start = end;
        }
        Ok(hash)
    }

    /// Where a sentence of the document that is looked at begins among the corpus's tokens; of the number behind the last
    /// one, where that ends.
    ///
    /// # Errors
    /// Those of reading.
    pub fn sentence_start(&mut self, look: Look, sentence: u64) -> Result<u64> {
        let Span { sentences, tokens } = &self.place(look).document;
        let (start, end) = (tokens.start, tokens.end);
        debug_assert!(
            sentences.start <= sentence && sentence <= sentences.end,
            "a sentence of another document"
        );
        if sentence == sentences.end {
            return Ok(end);
        }
        let documents = self.documents;
        let place = self.place(look);
        let at = place.bytes.end - SENTENCE * (place.document.sentences.end - sentence);
        let segment = &documents.segments[place.segment];
        let [length, _] = segment.counts.bytes(documents.width);
        let column = (place.segment, &segment.columns.text);
        let border = place.sentences.get(column, at..at + SENTENCE, length)?;
        Ok(start + border.first_chunk().map_or(0, |border| u64::from(u32::from_le_bytes(*border))))
    }

    /// The document that is looked at, as it is stored.
    pub(crate) fn packed(&mut self) -> Result<&[u8]> {
        let documents = self.documents;
        let segment = &documents.segments[self.here.segment];
        let [length, _] = segment.counts.bytes(documents.width);
        let column = (self.here.segment, &segment.columns.text);
        // With the cursor that reads no more than it is asked for.
        self.there.tokens.get(column, self.here.bytes.clone(), length)
    }

    /// The tokens of these sentences of the document that is looked at, by their places in the corpus.
    ///
    /// # Errors
    /// Those of reading.
    pub fn token_range(&mut self, look: Look, sentences: Range<u64>) -> Result<Range<u64>> {
        Ok(self.sentence_start(look, sentences.start)?..self.sentence_start(look, sentences.end)?)
    }

    /// Appends tokens of the document that is looked at, by their places in the corpus, to `out`.
    ///
    /// # Errors
    /// Those of reading.
    pub fn append_tokens(&mut self, look: Look, range: Range<u64>, out: &mut Vec<u32>) -> Result<()> {
        let width = self.documents.width;
        width.get_ids(self.packed_tokens(look, range)?, out);
        Ok(())
    }

    /// Tokens of the document that is looked at, by their places in the corpus, as they are stored.
    fn packed_tokens(&mut self, look: Look, range: Range<u64>) -> Result<&[u8]> {
        let documents = self.documents;
        let place = self.place(look);
        let (first, size) = (place.document.tokens.start, documents.width.bytes() as u64);
        debug_assert!(
            first <= range.start && range.end <= place.document.tokens.end,
            "tokens of another document"
        );
        let [start, end] = [range.start, range.end].map(|at| place.bytes.start + size * (at - first));
        let segment = &documents.segments[place.segment];
        let [length, _] = segment.counts.bytes(documents.width);
        place.tokens.get((place.segment, &segment.columns.text), start..end, length)
    }

    fn place(&mut self, look: Look) -> &mut Place {
        match look {
            Look::Here => &mut self.here,
            Look::There => &mut self.there,
        }
    }
}

/// Collects documents: ids of sentences in the order of the text, and where sentences and documents end.
pub struct DocumentsBuilder {
    width: Width,
    pub(crate) text: ColumnWriter,
    pub(crate) index: ColumnWriter,
    pub(crate) counts: Counts,
    /// The sentences and the tokens up to the last closed document.
    closed: (u64, u64),
    /// Of the document that is open: its hash, and the borders of its sentences.
    hash: DocumentHash,
    borders: Vec<u8>,
    packed: Vec<u8>,
}

impl DocumentsBuilder {
    /// Begins a corpus for ids below `vocabulary`, in memory.
    #[must_use]
    pub fn new(vocabulary: usize) -> Self {
        let memory = || ColumnWriter::Memory(Vec::new());
        Self::to_columns(vocabulary, [memory(), memory()])
    }

    /// Begins a corpus in columns of choice: text, index.
    pub(crate) fn to_columns(vocabulary: usize, columns: [ColumnWriter; 2]) -> Self {
        let [text, index] = columns;
        Self {
            width: Width::of(vocabulary),
            text,
            index,
            counts: Counts::default(),
            closed: (0, 0),
            hash: DocumentHash::default(),
            borders: Vec::new(),
            packed: Vec::new(),
        }
    }

    /// Appends a sentence of at least one token.
    ///
    /// # Errors
    /// Those of writing, where the corpus is on disk; [`InputError::DocumentTooLong`].
    pub fn push_sentence(&mut self, ids: &[u32]) -> Result<()> {
        self.packed.clear();
        self.width.put(ids, &mut self.packed);
        self.hash.see_sentence(&self.packed);
        let start = u32::try_from(self.open_tokens()).map_err(|_| InputError::DocumentTooLong)?;
        self.borders.extend_from_slice(&start.to_le_bytes());
        self.counts.tokens += ids.len() as u64;
        self.counts.sentences += 1;
        self.text.push(&self.packed)
    }

    /// Number of tokens since the last document was closed.
    pub(crate) fn open_tokens(&self) -> u64 {
        self.counts.tokens - self.closed.1
    }

    /// Makes a document of the sentences since the last one and returns how many they are; 0 makes none.
    ///
    /// # Errors
    /// As [`DocumentsBuilder::push_sentence`].
    pub fn close_document(&mut self) -> Result<u64> {
        let sentences = self.counts.sentences - self.closed.0;
        if sentences > 0 {
            self.text.push(&self.borders)?;
            self.borders.clear();
            self.push_index(self.closed)?;
            self.counts.seen.see_document(std::mem::take(&mut self.hash));
            self.counts.documents += 1;
            self.closed = (self.counts.sentences, self.counts.tokens);
        }
        Ok(sentences)
    }

    /// Number of documents so far.
    #[must_use]
    pub fn len(&self) -> usize {
        self.counts.documents as usize
    }

    /// Whether there is no document yet.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.counts.documents == 0
    }

    /// Writes the last border, after the last document was closed.
    pub(crate) fn end(&mut self) -> Result<()> {
        self.push_index((self.counts.sentences, self.counts.tokens))
    }

    fn push_index(&mut self, (sentence, token): (u64, u64)) -> Result<()> {
        self.index.push(&sentence.to_le_bytes())?;
        self.index.push(&token.to_le_bytes())
    }

    /// The corpus, where it is in memory. Sentences after the last closed document make a last one.
    ///
    /// # Errors
    /// As [`DocumentsBuilder::push_sentence`].
    ///
    /// # Panics
    /// When the corpus is on disk: it is opened from there.
    pub fn finish(mut self) -> Result<Documents> {
        self.close_document()?;
        self.end()?;
        let resident = |column| match column {
            ColumnWriter::Memory(bytes) => Column::Resident(bytes),
            ColumnWriter::File(_) => panic!("a corpus on disk is opened from its files"),
        };
        let columns = DocumentColumns { text: resident(self.text), index: resident(self.index) };
        Ok(Documents::new(self.width, [(columns, self.counts)]))
    }
}
