//! Translates sentences with a trained model.

use std::path::Path;

use bert_inference::DeviceName;
use bert_storage::Error;
use burn::tensor::Device;

use crate::model::beam_search::{SearchConfig, translate};
use crate::text::batches::EncodedSources;
use crate::training::saved_model::SavedModel;

/// A trained model that translates.
pub struct Translator {
    model: SavedModel,
    device: Device,
    search: SearchConfig,
}

/// A translated sentence.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct TranslatedSentence {
    /// The translation.
    pub text: String,
    /// Log-probability in nats, divided by the length penalty.
    pub score: f64,
}

impl Translator {
    /// Opens the model of a checkpoint's folder. `search.max_length` is reduced to the model's maximum.
    ///
    /// # Errors
    /// Fails when the folder cannot be read or is damaged.
    pub fn open(folder: &Path, search: SearchConfig, device: DeviceName) -> Result<Self, Error> {
        let device = device.open()?;
        let model = SavedModel::open(folder, &device)?;
        let max_length = search.max_length.min(model.model.config().max_length);
        Ok(Self { model, device, search: SearchConfig { max_length, ..search } })
    }

    /// Translates sentences, `batch_size` of similar length at a time, and calls `progress` with the number of finished
    /// ones. The results are in the order of the sentences. An empty sentence has an empty translation.
    pub fn translate(
        &self,
        sentences: &[&str],
        batch_size: usize,
        progress: &mut dyn FnMut(usize),
    ) -> Vec<TranslatedSentence> {
        let SavedModel { model, tokenizers } = &self.model;
        let encoded = EncodedSources::new(sentences, tokenizers, model.config().max_length);
        let lengths = encoded.lengths();
        let mut order: Vec<usize> =
            (0..sentences.len()).filter(|&at| !sentences[at].trim().is_empty()).collect();
        order.sort_by_key(|&at| lengths[at]);
        let empty = TranslatedSentence { text: String::new(), score: 0.0 };
        let mut translated = vec![empty; sentences.len()];
        let mut done = sentences.len() - order.len();
        for batch in order.chunks(batch_size) {
            let source = encoded.batch(batch, &self.device);
            let found = translate(model, &source, tokenizers.special(), self.search);
            for (&at, found) in batch.iter().zip(found) {
                translated[at] =
                    TranslatedSentence { text: tokenizers.decode(&found.ids), score: found.score };
            }
            done += batch.len();
            progress(done);
        }
        translated
    }
}
