//! Finds the words of a vocabulary, or the texts of a file, that are nearest to a query by cosine.

use std::path::Path;

use bert_tasks::TextSource;
use serde::Serialize;

use crate::encoding::model_tokenizer::ModelTokenizer;
use crate::error::Error;
use crate::features::embeddings::Embeddings;
use crate::features::hidden_states::Extractor;
use crate::model_dir::model_folder::ModelFiles;
use crate::model_dir::model_options::ModelOptions;

/// A word or text near a query.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[non_exhaustive]
pub struct Neighbour {
    /// The word, or the text as it was read.
    pub text: String,
    /// The cosine between the vectors of the neighbour and of the query.
    pub cosine: f32,
}

/// The neighbours of one query.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[non_exhaustive]
pub struct Neighbours {
    /// The query as it was given.
    pub query: String,
    /// The word pieces whose mean vector represents a query that is not one word of the vocabulary.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub pieces: Vec<String>,
    /// The neighbours, the nearest first.
    pub neighbours: Vec<Neighbour>,
}

/// A model with the vectors among which neighbours are searched.
pub struct NeighbourSearch {
    candidates: Embeddings,
    queries: Queries,
}

/// The method that computes the vector of a query.
#[expect(clippy::large_enum_variant, reason = "a search has one value")]
enum Queries {
    /// The mean of the word embeddings of the query's pieces.
    Words { tokenizer: ModelTokenizer, table: Embeddings },
    /// The vector of the text, computed as for the candidates.
    Texts(Extractor),
}

impl NeighbourSearch {
    /// Returns a search among the whole words of the vocabulary of a model folder, by their word embeddings.
    ///
    /// # Errors
    /// Fails when the folder cannot be read.
    pub fn among_words(folder: &Path) -> Result<Self, Error> {
        let tokenizer = ModelFiles::open(folder)?.tokenizer;
        let table = Embeddings::from_vocabulary(folder)?;
        let candidates = table.words(usize::MAX);
        Ok(Self { candidates, queries: Queries::Words { tokenizer, table } })
    }

    /// Returns a search among texts, by the pooled hidden states of the last layer. The pooling method is the method
    /// in the folder of a sentence model, or else the mean.
    ///
    /// # Errors
    /// Fails when the folder or the input cannot be read, or no line has a word.
    pub fn among_texts(
        folder: &Path,
        texts: &dyn TextSource,
        options: ModelOptions<'_>,
    ) -> Result<Self, Error> {
        let extractor = Extractor::open(folder, options)?.with_sentence_pooling()?;
        let candidates = Embeddings::from_texts(&extractor, texts)?;
        if candidates.labels.is_empty() {
            let reason = format!("{} has no line with a word", texts.name().display());
            return Err(Error::option("input", reason));
        }
        Ok(Self { candidates, queries: Queries::Texts(extractor) })
    }

    /// Returns the messages about the texts among which neighbours are searched, as [`Extractor::messages`] does.
    pub fn messages(&self) -> Vec<String> {
        match &self.queries {
            Queries::Words { .. } => Vec::new(),
            Queries::Texts(extractor) => extractor.messages(&self.candidates.truncation),
        }
    }

    /// Returns the `count` candidates nearest to a query. A word is not its own neighbour.
    ///
    /// # Errors
    /// Fails when the pieces of the vocabulary cannot spell the query, or when the device fails.
    pub fn nearest(&self, query: &str, count: usize) -> Result<Neighbours, Error> {
        let Query { vector, pieces, own } = self.encode(query)?;
        let label = |at: usize| &self.candidates.labels[at];
        let others = self.candidates.by_cosine(&vector).into_iter();
        let others = others.filter(|(at, _)| own.as_ref() != Some(label(*at)));
        let neighbour = |(at, cosine): (usize, f32)| Neighbour { text: label(at).clone(), cosine };
        Ok(Neighbours {
            query: query.to_string(),
            pieces,
            neighbours: others.take(count).map(neighbour).collect(),
        })
    }

    fn encode(&self, query: &str) -> Result<Query, Error> {
        match &self.queries {
            Queries::Words { tokenizer, table } => {
                let ids = tokenizer.ids(query);
                if ids.is_empty() || ids.contains(&tokenizer.vocabulary.unk_id()) {
                    let reason = format!("the pieces of the vocabulary cannot spell {query:?}");
                    return Err(Error::usage(reason));
                }
                let sum = |at: usize| ids.iter().map(|id| table.vector(*id as usize)[at]).sum::<f32>();
                let vector = (0..table.dimensions).map(|at| sum(at) / ids.len() as f32).collect();
                let mut pieces: Vec<String> =
                    ids.iter().map(|id| tokenizer.vocabulary.token(*id).to_string()).collect();
                let own = if pieces.len() == 1 { pieces.pop() } else { None };
                Ok(Query { vector, pieces, own })
            }
            Queries::Texts(extractor) => {
                let mut line = extractor.encode(&[query])?.remove(0);
                Ok(Query { vector: line.layers.remove(0), pieces: Vec::new(), own: None })
            }
        }
    }
}

/// A query as a vector.
struct Query {
    vector: Vec<f32>,
    /// The pieces of the query, if it is not one word.
    pieces: Vec<String>,
    /// The candidate that is the query itself.
    own: Option<String>,
}
