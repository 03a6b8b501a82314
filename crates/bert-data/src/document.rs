//! Documents of token ids, in memory or on disk.
//!
//! In go sentences of ids in the order of the text; out come [`Documents`]: all ids one after another with the borders
//! of sentences and documents, each of the three in memory or read piece by piece from a file, and [`DocumentReader`],
//! which looks at one document after another without holding any as a whole. Not for reading text (`reading`), pairs or
//! masks. The reference holds lists of lists of strings.

use std::ops::Range;
use std::sync::{Mutex, PoisonError};

use crate::column::{Column, ColumnWriter, Cursor, ScratchFolder};
use crate::conservation::Tally;
use crate::document_lookup::{DocumentLookup, SingleDocument};
use crate::error::Result;
use crate::packed::Width;
use crate::rng::Random;

/// All documents of a corpus, in the order of the input unless shuffled. No document and no sentence is empty.
#[derive(Debug)]
pub struct Documents {
    pub(crate) width: Width,
    /// The ids of all documents.
    pub(crate) tokens: Column,
    /// Where each sentence begins among the ids, and where the last one ends; eight bytes each.
    pub(crate) sentences: Column,
    /// Which sentence each document begins with, and the number of sentences; eight bytes each.
    pub(crate) index: Column,
    pub(crate) counts: Counts,
    /// The documents in another order, if they were shuffled.
    pub(crate) order: Option<Vec<u32>>,
    /// The shards that single documents are read from when they are looked at; the columns are empty then.
    pub(crate) lookup: Option<Mutex<DocumentLookup>>,
    /// Where paged columns lie that belong to nobody else; removed with them.
    pub(crate) _scratch: Option<ScratchFolder>,
}

/// Which document, and where it lies in the corpus.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Span {
    /// Its number in the order of the text.
    pub(crate) number: u64,
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

impl Documents {
    /// Documents in columns: tokens, sentences, index.
    pub(crate) fn in_memory(width: Width, columns: [Column; 3], counts: Counts) -> Self {
        let [tokens, sentences, index] = columns;
        Self { width, tokens, sentences, index, counts, order: None, lookup: None, _scratch: None }
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

    /// Whether they are read one by one.
    pub(crate) fn is_single(&self) -> bool {
        self.lookup.is_some()
    }

    /// Bytes of them that are held in memory.
    #[must_use]
    pub fn bytes_in_memory(&self) -> u64 {
        [&self.tokens, &self.sentences, &self.index].iter().map(|column| column.bytes_in_memory()).sum()
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
            single: None,
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
    /// The document that is looked at, where documents are read one by one.
    single: Option<SingleDocument>,
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

impl Place {
    fn read_single(&mut self, lookup: &Mutex<DocumentLookup>, index: u64) -> Result<Range<u64>> {
        if self.single.as_ref().is_none_or(|single| single.number() != index) {
            let read = lookup.lock().unwrap_or_else(PoisonError::into_inner).read(index)?;
            self.single = Some(read);
        }
        Ok(self.single().sentences())
    }

    /// The document that was looked at last.
    fn single(&self) -> &SingleDocument {
        self.single.as_ref().expect("a document is looked at before its sentences")
    }
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

    /// The number of a document in the order of the text, which is not its place once they were shuffled.
    pub(crate) fn number_of(&self, index: usize) -> u64 {
        self.documents.order.as_ref().map_or(index as u64, |order| u64::from(order[index]))
    }

    /// The sentences of a document, by their numbers in the corpus.
    ///
    /// # Errors
    /// Those of reading.
    ///
    /// # Panics
    /// When there is no such document.
    pub fn document(&mut self, look: Look, index: usize) -> Result<Range<u64>> {
        let documents = self.documents;
        let index = self.number_of(index);
        assert!(index < documents.counts.documents, "document {index} of {}", documents.counts.documents);
        if let Some(lookup) = &documents.lookup {
            return self.place(look).read_single(lookup, index);
        }
        let cursor = if look == Look::Here { &mut self.index } else { &mut self.far_index };
        let length = 8 * (documents.counts.documents + 1);
        let pair = cursor.get(&documents.index, 8 * index..8 * index + 16, length)?;
        Ok(number(pair)..number(&pair[8..]))
    }

    /// Number of tokens of a document.
    ///
    /// # Errors
    /// Those of reading.
    ///
    /// # Panics
    /// When there is no such document.
    pub fn tokens_of(&mut self, index: usize) -> Result<u64> {
        self.span(index).map(|span| span.tokens.end - span.tokens.start)
    }

    /// A document's place in the corpus.
    pub(crate) fn span(&mut self, index: usize) -> Result<Span> {
        let sentences = self.document(Look::Here, index)?;
        let tokens = self.token_range(Look::Here, sentences.clone())?;
        Ok(Span { number: self.number_of(index), sentences, tokens })
    }

    /// Where a sentence begins among the corpus's tokens; of the number behind the last one, where that ends.
    ///
    /// # Errors
    /// Those of reading.
    pub fn sentence_start(&mut self, look: Look, sentence: u64) -> Result<u64> {
        let documents = self.documents;
        if documents.lookup.is_some() {
            return Ok(self.place(look).single().sentence_start(sentence));
        }
        let length = 8 * (documents.counts.sentences + 1);
        let cursor = &mut self.place(look).sentences;
        cursor.get(&documents.sentences, 8 * sentence..8 * sentence + 8, length).map(number)
    }

    /// The tokens of these sentences, by their places in the corpus.
    ///
    /// # Errors
    /// Those of reading.
    pub fn token_range(&mut self, look: Look, sentences: Range<u64>) -> Result<Range<u64>> {
        Ok(self.sentence_start(look, sentences.start)?..self.sentence_start(look, sentences.end)?)
    }

    /// Appends the tokens at a place in the corpus to `out`.
    ///
    /// # Errors
    /// Those of reading.
    pub fn append_tokens(&mut self, look: Look, range: Range<u64>, out: &mut Vec<u32>) -> Result<()> {
        let documents = self.documents;
        if documents.lookup.is_some() {
            out.extend_from_slice(self.place(look).single().tokens(range));
            return Ok(());
        }
        documents.width.get_ids(self.packed_tokens(look, range)?, out);
        Ok(())
    }

    /// The tokens at a place in the corpus as they are stored; not where documents are read one by one.
    pub(crate) fn packed_tokens(&mut self, look: Look, range: Range<u64>) -> Result<&[u8]> {
        let documents = self.documents;
        let size = documents.width.bytes() as u64;
        let cursor = &mut self.place(look).tokens;
        cursor.get(&documents.tokens, size * range.start..size * range.end, size * documents.counts.tokens)
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
    pub(crate) tokens: ColumnWriter,
    pub(crate) sentences: ColumnWriter,
    pub(crate) index: ColumnWriter,
    pub(crate) counts: Counts,
    /// The sentences and the tokens up to the last closed document.
    closed: (u64, u64),
    packed: Vec<u8>,
}

impl DocumentsBuilder {
    /// Begins a corpus for ids below `vocabulary`, in memory.
    #[must_use]
    pub fn new(vocabulary: usize) -> Self {
        let memory = || ColumnWriter::Memory(Vec::new());
        Self::to_columns(vocabulary, [memory(), memory(), memory()])
    }

    /// Begins a corpus in columns of choice: tokens, sentences, index.
    pub(crate) fn to_columns(vocabulary: usize, columns: [ColumnWriter; 3]) -> Self {
        let [tokens, sentences, index] = columns;
        let (width, counts) = (Width::of(vocabulary), Counts::default());
        Self { width, tokens, sentences, index, counts, closed: (0, 0), packed: Vec::new() }
    }

    /// Appends ids of one or more sentences.
    ///
    /// # Errors
    /// Those of writing, where the corpus is on disk.
    pub fn push_ids(&mut self, new: &[u32]) -> Result<()> {
        self.packed.clear();
        self.width.put(new, &mut self.packed);
        self.tokens.push(&self.packed)
    }

    /// Ends a sentence of so many tokens (at least 1), which begins where the one before it ended.
    ///
    /// # Errors
    /// As [`DocumentsBuilder::push_ids`].
    pub fn push_sentence_end(&mut self, tokens: usize) -> Result<()> {
        let start = self.counts.tokens;
        self.counts.tokens += tokens as u64;
        self.counts.sentences += 1;
        self.sentences.push(&start.to_le_bytes())
    }

    /// Number of tokens since the last document was closed.
    pub(crate) fn open_tokens(&self) -> u64 {
        self.counts.tokens - self.closed.1
    }

    /// Makes a document of the sentences since the last one and returns how many they are; 0 makes none.
    ///
    /// # Errors
    /// As [`DocumentsBuilder::push_ids`].
    pub fn close_document(&mut self) -> Result<u64> {
        let span = Span {
            number: self.counts.documents,
            sentences: self.closed.0..self.counts.sentences,
            tokens: self.closed.1..self.counts.tokens,
        };
        if !span.sentences.is_empty() {
            self.index.push(&span.sentences.start.to_le_bytes())?;
            self.counts.seen.see_document(&span);
            self.counts.documents += 1;
            self.closed = (span.sentences.end, span.tokens.end);
        }
        Ok(span.sentences.end - span.sentences.start)
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

    /// Writes the last borders, after the last document was closed.
    pub(crate) fn end(&mut self) -> Result<()> {
        self.sentences.push(&self.counts.tokens.to_le_bytes())?;
        self.index.push(&self.counts.sentences.to_le_bytes())
    }

    /// The corpus, where it is in memory. Sentences after the last closed document make a last one.
    ///
    /// # Errors
    /// As [`DocumentsBuilder::push_ids`].
    ///
    /// # Panics
    /// When the corpus is on disk: it is opened from there.
    pub fn finish(mut self) -> Result<Documents> {
        self.close_document()?;
        self.end()?;
        Ok(self.ended())
    }

    /// The corpus in memory, after [`DocumentsBuilder::end`].
    pub(crate) fn ended(self) -> Documents {
        let resident = |column| match column {
            ColumnWriter::Memory(bytes) => Column::Resident(bytes),
            ColumnWriter::File(_) => panic!("a corpus on disk is opened from its files"),
        };
        let columns = [resident(self.tokens), resident(self.sentences), resident(self.index)];
        Documents::in_memory(self.width, columns, self.counts)
    }
}
