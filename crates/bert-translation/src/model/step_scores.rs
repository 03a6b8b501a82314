//! The log-probabilities of the next token, one decoding step after another, with a cache.

use bert_model::Mode;
use burn::tensor::{Int, Tensor, TensorData, activation::log_softmax};

use crate::layers::decoder::LayerCache;
use crate::layers::encoder::MaskedStates;
use crate::model::transformer::{EncodedSource, SourceBatch, TranslationModel};

/// The state of decoding a batch: the caches of all layers.
pub struct StepScores<'a> {
    model: &'a TranslationModel,
    caches: Vec<LayerCache>,
    position: usize,
}

impl<'a> StepScores<'a> {
    /// Encodes a batch of sentences, each of which takes `copies` consecutive rows.
    pub fn new(model: &'a TranslationModel, source: &SourceBatch, copies: usize) -> Self {
        let EncodedSource { encoder, bert } = model.encode(source, Mode::Eval);
        let repeat = |MaskedStates { states, bias }| {
            let [batch, ..] = Tensor::<3>::dims(&states);
            let rows: Vec<i32> = (0..batch * copies).map(|row| (row / copies) as i32).collect();
            let rows: Tensor<1, Int> = indices(&rows, &states.device());
            MaskedStates { states: states.select(0, rows.clone()), bias: Tensor::<4>::select(bias, 0, rows) }
        };
        let encoded = match copies {
            1 => EncodedSource { encoder, bert },
            _ => EncodedSource { encoder: repeat(encoder), bert: bert.map(repeat) },
        };
        Self { model, caches: model.transformer.caches(&encoded), position: 0 }
    }

    /// Returns the log-probabilities of the token that follows `ids`, one id for each row, `[rows, vocabulary]` row by
    /// row.
    pub fn next(&mut self, ids: &[u32]) -> Vec<f32> {
        let device = self.model.transformer.target_embeddings.weight.val().device();
        let ids: Vec<i32> = ids.iter().map(|&id| id as i32).collect();
        let rows = ids.len();
        let ids: Tensor<2, Int> = Tensor::from_data(TensorData::new(ids, [rows, 1]), &device);
        let transformer = &self.model.transformer;
        let hidden = transformer.decode(ids, self.position, &mut self.caches, Mode::Eval);
        self.position += 1;
        let width = hidden.dims()[2];
        let scores = log_softmax(transformer.logits(hidden.reshape([rows, width])), 1); // [rows, vocabulary]
        scores.into_data_as::<f32>().try_into_vec().expect("converted to f32")
    }

    /// Replaces every row by the row that it continues; both must belong to the same sentence.
    pub fn select(&mut self, rows: &[usize]) {
        let rows: Vec<i32> = rows.iter().map(|&row| row as i32).collect();
        let rows = indices(&rows, &self.model.transformer.target_embeddings.weight.val().device());
        self.caches.iter_mut().for_each(|cache| cache.select_targets(&rows));
    }
}

fn indices(values: &[i32], device: &burn::tensor::Device) -> Tensor<1, Int> {
    Tensor::from_data(TensorData::new(values.to_vec(), [values.len()]), device)
}
