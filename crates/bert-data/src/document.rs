//! Documents of token ids, in memory.
//!
//! In go sentences of ids in the order of the text; out come [`Documents`]: all ids in one flat buffer with the
//! borders of sentences and documents, and [`Document`], a view of one. Not for reading text (`reading`), pairs or
//! masks. The reference holds lists of lists of strings.

use std::ops::Range;

use crate::rng::Random;

/// Token ids, two bytes each where the vocabulary allows it.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Ids {
    Narrow(Vec<u16>),
    Wide(Vec<u32>),
}

/// All documents of a corpus, in the order of the input unless shuffled. No document and no sentence is empty.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Documents {
    ids: Ids,
    /// Where each sentence begins in `ids`, and where the last one ends.
    sentence_starts: Vec<u64>,
    /// The sentences of each document.
    documents: Vec<Range<usize>>,
}

impl Documents {
    /// Number of documents.
    #[must_use]
    pub fn len(&self) -> usize {
        self.documents.len()
    }

    /// Whether there is no document.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.documents.is_empty()
    }

    /// Number of tokens.
    #[must_use]
    pub fn tokens(&self) -> u64 {
        self.sentence_starts.last().copied().unwrap_or(0)
    }

    /// Number of sentences.
    #[must_use]
    pub fn sentences(&self) -> usize {
        self.sentence_starts.len() - 1
    }

    /// A view of one document.
    ///
    /// # Panics
    /// When there is no such document.
    #[must_use]
    pub fn document(&self, index: usize) -> Document<'_> {
        let sentences = self.documents[index].clone();
        Document { all: self, starts: &self.sentence_starts[sentences.start..=sentences.end] }
    }

    /// Puts the documents in random order; sentences stay in theirs.
    pub fn shuffle<R: Random>(&mut self, random: &mut R) {
        random.shuffle(&mut self.documents);
    }
}

/// Collects documents: ids of sentences in the order of the text, and where sentences and documents end.
#[derive(Clone, Debug)]
pub struct DocumentsBuilder {
    documents: Documents,
}

impl DocumentsBuilder {
    /// Begins a corpus for ids below `vocabulary`, in memory.
    #[must_use]
    pub fn new(vocabulary: usize) -> Self {
        let narrow = vocabulary <= 1 << 16;
        let ids = if narrow { Ids::Narrow(Vec::new()) } else { Ids::Wide(Vec::new()) };
        Self { documents: Documents { ids, sentence_starts: vec![0], documents: Vec::new() } }
    }

    /// Appends ids of one or more sentences.
    pub fn push_ids(&mut self, new: &[u32]) {
        match &mut self.documents.ids {
            Ids::Narrow(ids) => ids.extend(new.iter().map(|&id| id as u16)),
            Ids::Wide(ids) => ids.extend_from_slice(new),
        }
    }

    /// Ends a sentence of so many tokens (at least 1), which begins where the one before it ended.
    pub fn push_sentence_end(&mut self, tokens: usize) {
        let start = self.documents.tokens();
        self.documents.sentence_starts.push(start + tokens as u64);
    }

    /// Makes a document of the sentences since the last one and returns how many they are; 0 makes none.
    pub fn close_document(&mut self) -> usize {
        let start = self.documents.documents.last().map_or(0, |last| last.end);
        let end = self.documents.sentences();
        if start < end {
            self.documents.documents.push(start..end);
        }
        end - start
    }

    /// Number of documents so far.
    #[must_use]
    pub fn len(&self) -> usize {
        self.documents.len()
    }

    /// Whether there is no document yet.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.documents.is_empty()
    }

    /// The corpus. Sentences after the last closed document are in none.
    #[must_use]
    pub fn finish(self) -> Documents {
        self.documents
    }
}

/// One document: sentences of token ids.
#[derive(Clone, Copy, Debug)]
pub struct Document<'a> {
    all: &'a Documents,
    /// Where each sentence begins, and where the last one ends.
    starts: &'a [u64],
}

impl Document<'_> {
    /// Number of sentences, at least 1.
    #[must_use]
    pub fn sentences(&self) -> usize {
        self.starts.len() - 1
    }

    /// Number of tokens.
    #[must_use]
    pub fn tokens(&self) -> usize {
        (self.starts[self.sentences()] - self.starts[0]) as usize
    }

    /// Number of tokens of one sentence.
    #[must_use]
    pub fn sentence_tokens(&self, sentence: usize) -> usize {
        (self.starts[sentence + 1] - self.starts[sentence]) as usize
    }

    /// Where in the corpus the tokens of these sentences lie.
    #[must_use]
    pub fn token_range(&self, sentences: Range<usize>) -> Range<usize> {
        self.starts[sentences.start] as usize..self.starts[sentences.end] as usize
    }

    /// Appends the tokens at a place in the corpus to `out`.
    pub fn append_tokens(&self, range: Range<usize>, out: &mut Vec<u32>) {
        match &self.all.ids {
            Ids::Narrow(ids) => out.extend(ids[range].iter().map(|&id| u32::from(id))),
            Ids::Wide(ids) => out.extend_from_slice(&ids[range]),
        }
    }
}
