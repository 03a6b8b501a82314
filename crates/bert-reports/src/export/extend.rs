//! Adds the pieces of an [`ExtendedVocabulary`] to a model: rows of the word embeddings and output biases.

use std::path::Path;

use bert_data::{AddedPiece, ExtendedVocabulary};
use bert_inference::loaded_model::with_outputs;
use bert_inference::{DeviceName, ModelFiles};
use bert_model::{
    Architecture, BertConfig, BertModel, FolderContents, FolderTokenizer, NamedTensors, Snapshot, WEIGHTS,
    named_tensors_to_bytes, read_pretrained_tensors,
};
use bert_storage::Disk;
use bert_training::Error;

use crate::export::{begin, class, write_files};

/// The initial embedding of a new piece.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[cfg_attr(feature = "cli", derive(clap::ValueEnum))]
pub enum NewRows {
    /// Mean of the old pieces that spelled it; mean of all old pieces if the old vocabulary cannot spell it.
    #[default]
    MeanOfPieces,
    /// Mean of all old pieces (Hewitt 2021, "Initializing new word embeddings for pretrained language models").
    MeanOfAll,
    /// The distribution of BERT's initial weights, with an output bias of 0.
    Random,
}

const TABLE: &str = "embeddings.word_embeddings.weight";
const BIAS: &str = "cls.predictions.bias";

/// Writes the model in `folder` with the vocabulary `extended` into `target`, as a Hugging Face folder. Returns the
/// number of rows of the new word embeddings.
///
/// # Errors
/// Fails when the model cannot be read or does not match its configuration, or `target` is not empty.
pub fn extend_model(
    folder: &Path,
    target: &Path,
    extended: &ExtendedVocabulary,
    rows: NewRows,
    seed: u64,
) -> Result<usize, Error> {
    let ModelFiles { config, tokenizer, description } = ModelFiles::open(folder)?;
    let tensors = read_pretrained_tensors(folder)?;
    let mut config = with_outputs(folder, config, &tensors)?;
    let contents = FolderContents::usable(&config, tensors)?;
    let class = class(folder, &contents)?;
    let mut tensors = contents.tensors;
    let old_words = tokenizer.vocabulary.len();
    config.vocab_size = config.vocab_size.max(extended.tokens.len());
    for name in names_of_rows(&tensors) {
        let (shape, values) = tensors.get_mut(&name).expect("a name of this map");
        let width = shape[1..].iter().product();
        let random = match (rows, name.ends_with(TABLE)) {
            (NewRows::Random, true) => random_rows(&config, seed)?,
            _ => vec![0.0; config.vocab_size * width],
        };
        shape[0] = config.vocab_size;
        let table = Table { width, old_words, random };
        table.extend(values, &extended.added, rows);
    }
    let words =
        FolderTokenizer { words: &extended.tokens, ..description.tokenizer_files(&tokenizer, &config) };
    let mut files = words.files()?;
    files.push((WEIGHTS, named_tensors_to_bytes(&tensors)));
    files.push(("config.json", config.to_json_string(class).into_bytes()));
    write_files(begin(&Disk, target)?, files)?;
    Ok(config.vocab_size)
}

/// Returns the names of the tensors that have one row for each word.
fn names_of_rows(tensors: &NamedTensors) -> Vec<String> {
    tensors.keys().filter(|name| name.ends_with(TABLE) || *name == BIAS).cloned().collect()
}

/// Returns word embeddings with BERT's initial distribution.
fn random_rows(config: &BertConfig, seed: u64) -> Result<Vec<f32>, Error> {
    let model = BertModel::new(config, seed, &DeviceName::default().open()?);
    let mut tensors = Snapshot::new(&model).to_named_tensors();
    Ok(tensors.remove(TABLE).expect("every model has word embeddings").1)
}

/// A tensor with one row for each piece of the vocabulary.
struct Table {
    /// Number of values in a row.
    width: usize,
    /// Number of rows that belong to old pieces; further rows are padding.
    old_words: usize,
    /// Random values of all rows, or zeros.
    random: Vec<f32>,
}

impl Table {
    /// Sets the rows of new pieces. Every mean is computed from old rows.
    fn extend(&self, values: &mut Vec<f32>, added: &[AddedPiece], rows: NewRows) {
        let old = values.clone();
        values.resize(self.random.len().max(values.len()), 0.0);
        let everything: Vec<u32> = (0..self.old_words as u32).collect();
        for piece in added {
            let at = piece.id as usize * self.width;
            let row = match rows {
                NewRows::Random => self.random[at..at + self.width].to_vec(),
                NewRows::MeanOfPieces if !piece.old_pieces.is_empty() => self.mean(&old, &piece.old_pieces),
                NewRows::MeanOfPieces | NewRows::MeanOfAll => self.mean(&old, &everything),
            };
            values[at..at + self.width].copy_from_slice(&row);
        }
    }

    /// Returns the mean of some rows.
    fn mean(&self, values: &[f32], ids: &[u32]) -> Vec<f32> {
        let mut sum = vec![0f64; self.width];
        for id in ids {
            let row = &values[*id as usize * self.width..][..self.width];
            sum.iter_mut().zip(row).for_each(|(sum, value)| *sum += f64::from(*value));
        }
        sum.into_iter().map(|sum| (sum / ids.len() as f64) as f32).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn piece(id: u32, old_pieces: &[u32]) -> AddedPiece {
        AddedPiece { id, piece: "x".into(), old_pieces: old_pieces.to_vec() }
    }

    #[test]
    fn new_rows_are_means_of_old_rows() {
        let table = Table { width: 2, old_words: 3, random: vec![9.0; 10] };
        let old = vec![1.0, 2.0, 3.0, 4.0, 5.0, 9.0, 0.0, 0.0];
        let extended = |rows| {
            let mut values = old.clone();
            table.extend(&mut values, &[piece(1, &[0, 2]), piece(4, &[0, 1]), piece(3, &[])], rows);
            values
        };
        // Piece 4 replaces piece 1, whose row is replaced as well: the mean is computed from its old row.
        assert_eq!(extended(NewRows::MeanOfPieces), [1.0, 2.0, 3.0, 5.5, 5.0, 9.0, 3.0, 5.0, 2.0, 3.0]);
        assert_eq!(extended(NewRows::MeanOfAll)[2..4], [3.0, 5.0]);
        assert_eq!(extended(NewRows::Random)[6..], [9.0; 4]);
        assert_eq!(extended(NewRows::Random)[..2], [1.0, 2.0]);
    }
}
