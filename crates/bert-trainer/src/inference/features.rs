//! Computes the hidden states of every token of a text, layer by layer. Ports the reference's
//! `extract_features.py`.
//!
//! As there, one line is one text, `A ||| B` is a pair, layer 0 is the first layer and -1 the last, and the
//! embeddings do not count as a layer.

use std::path::Path;

use bert_data::tokenization::python_str::python_strip;
use bert_model::BertModel;
use burn::tensor::Device;

use super::load_encoder;
use super::text_input::for_each_window;
use crate::device_name::DeviceName;
use crate::error::Error;
use crate::finetune::features::Features;
use crate::host::values;
use crate::tasks::Example;
use crate::text::{PAIR_SEPARATOR, Text};

/// Lines that are held at a time; every token of each has a vector for each layer.
const WINDOW: usize = 32;
const BATCH: usize = 8;
/// The reference's `max_seq_length`.
const DEFAULT_LENGTH: usize = 128;

/// The hidden states of one line.
#[derive(Clone, Debug, PartialEq)]
pub struct LineFeatures {
    /// Its number from 0, blank lines counted: `linex_index`.
    pub line: u64,
    /// Its word pieces, `[CLS]` and `[SEP]` among them.
    pub tokens: Vec<String>,
    /// For each chosen layer the vectors of all tokens, one behind the other.
    pub layers: Vec<Vec<f32>>,
}

/// A model that gives its hidden states.
pub struct Extractor {
    model: BertModel,
    text: Text,
    layers: Vec<i32>,
    hidden_size: usize,
    max_length: usize,
    device: Device,
}

impl Extractor {
    /// Opens a model folder (see [`crate::checkpoint::resolve_model_folder`]) for some of its layers, counted from 0
    /// or, below it, from the last. Texts are cut to `max_length` tokens; without it to the reference's 128, or to
    /// the model's positions where they are fewer.
    ///
    /// # Errors
    /// [`Error::Configuration`] when the model has no such layer, [`Error::Mismatch`] when it has not so many
    /// positions; when it cannot be read.
    pub fn open(
        folder: &Path,
        layers: &[i32],
        max_length: Option<usize>,
        device: DeviceName,
    ) -> Result<Self, Error> {
        let device = device.open()?;
        let (model, config) = load_encoder(folder, &device)?;
        let count = config.num_hidden_layers as i32;
        if let Some(layer) = layers.iter().find(|layer| !(-count..count).contains(*layer)) {
            let reason = format!("no layer {layer}; the model has 0 to {}, or -{count} to -1", count - 1);
            return Err(Error::Configuration { flag: "layers", reason });
        }
        let text = Text::open(folder)?;
        let max_length = max_length.unwrap_or(DEFAULT_LENGTH.min(config.max_position_embeddings));
        text.check_fits(&config, max_length)?;
        let hidden_size = config.hidden_size;
        Ok(Self { model, text, layers: layers.to_vec(), hidden_size, max_length, device })
    }

    /// The layers as they were chosen.
    pub fn layers(&self) -> &[i32] {
        &self.layers
    }

    /// Width of a hidden state.
    pub fn hidden_size(&self) -> usize {
        self.hidden_size
    }

    /// Hands on the features of every line of `input` (a file, or `-`), in order and some at a time.
    ///
    /// # Errors
    /// Bad input with its line; the errors of `each`.
    pub fn each_line(
        &self,
        input: &Path,
        each: &mut dyn FnMut(&[LineFeatures]) -> Result<(), Error>,
    ) -> Result<(), Error> {
        let parse = |line: u64, text: &str| Ok(example(line - 1, text));
        for_each_window(input, WINDOW, parse, &mut |window| each(&self.of(window)))
    }

    fn of(&self, examples: &[Example]) -> Vec<LineFeatures> {
        let Text { tokenizer, vocabulary, .. } = &self.text;
        let features = Features::new(examples, tokenizer, vocabulary, self.max_length);
        let token = |&id: &u32| vocabulary.token(id).to_string();
        let mut lines: Vec<LineFeatures> = (0..examples.len())
            .map(|at| LineFeatures {
                line: examples[at].index.parse().expect("a number of ours"),
                tokens: features.sequences(at)[0].input_ids.iter().map(token).collect(),
                layers: Vec::with_capacity(self.layers.len()),
            })
            .collect();
        for batch in features.by_length(BATCH) {
            let batch = features.batch(batch);
            let states = self.model.hidden_states(batch.input(&self.device));
            for &layer in &self.layers {
                // The first state is that of the embeddings.
                let at = if layer < 0 { states.len() as i32 + layer } else { layer + 1 };
                let state = states[at as usize].clone();
                let [_, seq, width] = state.dims();
                for (&line, row) in batch.examples.iter().zip(values(state).chunks(seq * width)) {
                    let line = &mut lines[line];
                    line.layers.push(row[..line.tokens.len() * width].to_vec());
                }
            }
        }
        lines
    }
}

/// A line as the reference reads it: of several separators the last one counts.
fn example(line: u64, text: &str) -> Example {
    let text = python_strip(text);
    let (a, b) = match text.rsplit_once(PAIR_SEPARATOR) {
        Some((a, b)) => (a, Some(b.to_string())),
        None => (text, None),
    };
    Example { index: line.to_string(), text_a: a.to_string(), text_b: b, choices: vec![], label: None }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_is_cut_like_the_reference_s() {
        // re.match(r"^(.*) \|\|\| (.*)$", line.strip())
        let cut = |text| {
            let example = example(0, text);
            (example.text_a, example.text_b)
        };
        assert_eq!(cut(" a b \r"), ("a b".into(), None));
        assert_eq!(cut("a ||| b"), ("a".into(), Some("b".into())));
        assert_eq!(cut("a ||| b ||| c"), ("a ||| b".into(), Some("c".into())));
        assert_eq!(cut("a|||b"), ("a|||b".into(), None));
        assert_eq!(cut("||| b"), ("||| b".into(), None));
        assert_eq!(cut(""), (String::new(), None));
    }
}
