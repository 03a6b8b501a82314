//! Extracts the hidden states of every token, layer by layer, and writes them as JSON Lines in the format of the
//! reference's `extract_features.py`.
//!
//! As in the reference, one line is one text or pair, layer 0 is the first layer, -1 the last, and the embeddings do
//! not count as a layer.

use std::io::Write;
use std::path::Path;

use bert_model::BertModel;
use bert_tasks::{Example, InputText, TextSource, Truncation};
use serde::Serialize;

use crate::compute::host_tensors::read;
use crate::encoding::examples::Features;
use crate::encoding::model_tokenizer::{ModelTokenizer, check_segments};
use crate::error::{Error, results_not_written};
use crate::model_dir::description::{EncodingLength, ModelDescription, Pooling};
use crate::model_dir::json_file::write_line;
use crate::model_dir::loaded_model::{OpenedModel, line_of, load_encoder, no_layer};
use crate::model_dir::model_options::ModelOptions;

/// Number of lines in memory at a time; every token has a vector per layer.
const WINDOW: usize = 32;
const BATCH: usize = 8;
/// Default number of layers (the last four), as in the reference's example.
const DEFAULT_LAYERS: i32 = 4;
/// The reference's `max_seq_length`, for models whose length is unknown.
const DEFAULT_LENGTH: usize = 128;

/// The hidden states of one line.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct LineFeatures {
    /// Line number from 0, blank lines included: `linex_index`.
    pub line: u64,
    /// The text, or the first text of a pair.
    pub text: String,
    /// Word pieces, including `[CLS]` and `[SEP]`.
    pub tokens: Vec<String>,
    /// For each selected layer, the concatenated vectors of all tokens; with pooling, one vector.
    pub layers: Vec<Vec<f32>>,
}

/// A model that returns its hidden states.
pub struct Extractor {
    opened: OpenedModel<BertModel>,
    layers: Vec<i32>,
    pooling: Option<PooledVectors>,
}

/// The method that computes one vector for a text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct PooledVectors {
    /// The pooling method.
    pub pooling: Pooling,
    /// Whether the vector is divided by its Euclidean norm.
    pub normalize: bool,
}

impl Extractor {
    /// Returns the numbers of the extracted layers.
    pub fn layers(&self) -> &[i32] {
        &self.layers
    }

    /// Returns the method that computes one vector for a text, if pooling is enabled.
    pub fn pooling(&self) -> Option<PooledVectors> {
        self.pooling
    }

    /// Returns the maximum length of a text.
    pub fn length(&self) -> &EncodingLength {
        &self.opened.length
    }

    /// Returns the messages about the texts of an input that are cut or contain special tokens, with the counts of
    /// [`Self::each_line`].
    pub fn messages(&self, truncation: &Truncation) -> Vec<String> {
        let OpenedModel { text, length, .. } = &self.opened;
        truncation.messages("the input", length.tokens, text.settings.split_special_tokens)
    }

    /// Opens a model folder (see [`crate::model_dir::model_folder::resolve_model_folder`]) to extract its last layer.
    /// Texts are truncated to the length of [`ModelDescription::encoding_length`]; if the model's length is unknown, to
    /// the reference's 128.
    ///
    /// # Errors
    /// Fails when the folder cannot be read, when an encoder is given for a model that has one, or when the model has
    /// fewer positions than `options` asks for.
    pub fn open(folder: &Path, options: ModelOptions<'_>) -> Result<Self, Error> {
        let device = options.device.open()?;
        let loaded = load_encoder(folder, options, &device)?;
        let opened = OpenedModel::new(loaded, device, options.max_length, DEFAULT_LENGTH)?;
        Ok(Self { opened, layers: vec![-1], pooling: None })
    }

    /// Returns the extractor of these layers. Numbers count from 0; negative numbers count from the last layer. An
    /// empty list means the last four, or all layers of a smaller model.
    ///
    /// # Errors
    /// Fails when the model lacks a layer.
    pub fn with_layers(self, layers: &[i32]) -> Result<Self, Error> {
        let count = self.opened.config.num_hidden_layers as i32;
        let last: Vec<i32> = (1..=count.min(DEFAULT_LAYERS)).map(|layer| -layer).collect();
        let layers = if layers.is_empty() { last } else { layers.to_vec() };
        if let Some(layer) = layers.iter().find(|layer| !(-count..count).contains(*layer)) {
            return Err(no_layer(*layer, count));
        }
        Ok(Self { layers, ..self })
    }

    /// Returns the extractor of all layers, in their order.
    #[must_use]
    pub fn with_all_layers(self) -> Self {
        Self { layers: (0..self.opened.config.num_hidden_layers as i32).collect(), ..self }
    }

    /// Returns the extractor of one vector per text and layer instead of one per token: [`LineFeatures::layers`] then
    /// has vectors of [`Self::hidden_size`].
    #[must_use]
    pub fn with_pooling(self, pooling: Pooling) -> Self {
        Self { pooling: Some(PooledVectors { pooling, normalize: false }), ..self }
    }

    /// Returns the extractor of one vector per text and layer, as the folder of a sentence model requires.
    ///
    /// # Errors
    /// Fails when the folder names no pooling method, or has modules or a prompt that cannot be computed.
    pub fn with_own_pooling(self) -> Result<Self, Error> {
        let pooling = self.opened.description.pooling_of_texts()?;
        let normalize = self.opened.description.normalize;
        Ok(Self { pooling: Some(PooledVectors { pooling, normalize }), ..self })
    }

    /// Returns the extractor of one vector per text and layer: the vector is pooled as the folder of a sentence model
    /// requires, and for other models it is the mean over the tokens.
    ///
    /// # Errors
    /// Fails when the folder has modules or a prompt that cannot be computed.
    pub fn with_sentence_pooling(self) -> Result<Self, Error> {
        let ModelDescription { pooling, other_modules, .. } = &self.opened.description;
        let is_stated = pooling.is_some() || !other_modules.is_empty();
        if is_stated { self.with_own_pooling() } else { Ok(self.with_pooling(Pooling::Mean)) }
    }

    /// Returns the width of a hidden state.
    pub fn hidden_size(&self) -> usize {
        self.opened.config.hidden_size
    }

    /// Passes the features of every text of a source to `each`, in order and in windows. Returns the counts of the
    /// texts that were cut.
    ///
    /// # Errors
    /// Fails when the input is invalid; the error names the line. Also fails when a text is a pair and the model has
    /// one segment, when the device fails, or when `each` fails.
    pub fn each_line<E: From<Error>>(
        &self,
        lines: &dyn TextSource,
        mut each: impl FnMut(&[LineFeatures]) -> Result<(), E>,
    ) -> Result<Truncation, E> {
        let mut truncation = Truncation::default();
        for window in lines.windows(None, WINDOW)? {
            let window = window?;
            each(&self.hidden_states(&window.examples, &mut truncation)?)?;
        }
        Ok(truncation)
    }

    /// Returns the features of texts or pairs in memory, in their order. A call returns all vectors at once: pass a few
    /// hundred texts at a time.
    ///
    /// # Errors
    /// Fails when a text is a pair and the model has one segment, or when the device fails.
    pub fn encode<'a, T: Into<InputText<'a>> + Copy>(&self, texts: &[T]) -> Result<Vec<LineFeatures>, Error> {
        let example = |(index, &text): (usize, &T)| {
            let InputText { first, second } = text.into();
            let text_b = second.map(str::to_string);
            Example { index: (index + 1).to_string(), text_b, ..Example::from_text(first) }
        };
        let examples: Vec<Example> = texts.iter().enumerate().map(example).collect();
        self.hidden_states(&examples, &mut Truncation::default())
    }

    fn hidden_states(
        &self,
        examples: &[Example],
        truncation: &mut Truncation,
    ) -> Result<Vec<LineFeatures>, Error> {
        let OpenedModel { model, config, text, length, device, .. } = &self.opened;
        check_segments(config, examples.iter().any(|example| example.text_b.is_some()))?;
        let ModelTokenizer { tokenizer, vocabulary, .. } = text;
        let features = Features::new(examples, tokenizer, vocabulary, length.tokens);
        *truncation += features.truncation();
        let token = |&id: &u32| vocabulary.token(id).to_string();
        let mut lines: Vec<LineFeatures> = (0..examples.len())
            .map(|at| LineFeatures {
                line: line_of(&examples[at]) - 1,
                text: examples[at].text_a.clone(),
                tokens: features.sequences(at)[0].input_ids.iter().map(token).collect(),
                layers: Vec::with_capacity(self.layers.len()),
            })
            .collect();
        for batch in features.by_length(BATCH) {
            let batch = features.batch(batch);
            let states = model.hidden_states(batch.input(device));
            for &layer in &self.layers {
                // State 0 is the output of the embeddings.
                let at = if layer < 0 { states.len() as i32 + layer } else { layer + 1 };
                let state = states[at as usize].clone();
                let [_, seq, width] = state.dims();
                for (&line, row) in batch.examples.iter().zip(read(state)?.chunks(seq * width)) {
                    let line = &mut lines[line];
                    let vectors = &row[..line.tokens.len() * width];
                    line.layers.push(match self.pooling {
                        Some(PooledVectors { pooling, normalize }) => {
                            pooling.pooled(vectors, width, normalize)
                        }
                        None => vectors.to_vec(),
                    });
                }
            }
        }
        Ok(lines)
    }
}

/// One line of the reference's output.
#[derive(Serialize)]
struct Line<'a> {
    linex_index: u64,
    features: Vec<Token<'a>>,
}

#[derive(Serialize)]
struct Token<'a> {
    token: &'a str,
    layers: Vec<Layer>,
}

#[derive(Serialize)]
struct Layer {
    index: i32,
    values: Vec<f64>,
}

/// One line of the output with pooling.
#[derive(Serialize)]
struct PooledLine {
    linex_index: u64,
    layers: Vec<Layer>,
}

/// Writes the features of texts as JSON Lines: `{"linex_index": 0, "features": [{"token": "[CLS]", "layers": [{"index":
/// -1, "values": [...]}, ...]}, ...]}`, the values rounded to six decimals as in the reference. With pooling a line is
/// `{"linex_index": 0, "layers": [{"index": -1, "values": [...]}, ...]}`. Returns the counts of the texts that were
/// cut.
///
/// # Errors
/// Fails as [`Extractor::each_line`] does, or when the results cannot be written.
pub fn write_json_lines(
    extractor: &Extractor,
    lines: &dyn TextSource,
    out: &mut dyn Write,
) -> Result<Truncation, Error> {
    extractor.each_line(lines, |lines| {
        for line in lines {
            match extractor.pooling {
                Some(_) => write_line(out, &pooled_json(extractor, line))?,
                None => write_line(out, &json(extractor, line))?,
            }
        }
        out.flush().map_err(results_not_written)
    })
}

fn json<'a>(extractor: &Extractor, line: &'a LineFeatures) -> Line<'a> {
    let token = |(at, token)| Token { token, layers: layers_at(extractor, line, at) };
    let features = line.tokens.iter().map(String::as_str).enumerate().map(token).collect();
    Line { linex_index: line.line, features }
}

fn pooled_json(extractor: &Extractor, line: &LineFeatures) -> PooledLine {
    PooledLine { linex_index: line.line, layers: layers_at(extractor, line, 0) }
}

/// Returns the vectors at a position of a line, one for each layer.
fn layers_at(extractor: &Extractor, line: &LineFeatures, at: usize) -> Vec<Layer> {
    let width = extractor.hidden_size();
    let layer = |(&index, vectors): (&i32, &Vec<f32>)| Layer {
        index,
        values: vectors[at * width..(at + 1) * width].iter().copied().map(rounded).collect(),
    };
    extractor.layers.iter().zip(&line.layers).map(layer).collect()
}

/// Returns the value of Python's `round(float(x), 6)`: the product of a float's 24 bits and the 14 bits of 5^6 is
/// exact.
fn rounded(x: f32) -> f64 {
    (f64::from(x) * 1e6).round_ties_even() / 1e6
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_rounded_as_in_python() {
        // [round(float(numpy.float32(x)), 6) for x in (0.1234565, -1.5, 1e-7, 2.0000005, 123.4567891)], Python 3.12
        let rounded = [0.1234565, -1.5, 1e-7, 2.0000005, 123.456_79].map(rounded);
        assert_eq!(rounded, [0.123457, -1.5, 0.0, 2.0, 123.456787]);
    }
}
