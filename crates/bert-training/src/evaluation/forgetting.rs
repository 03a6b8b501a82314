//! Measures how much an encoder forgets of its pre-training during fine-tuning. The measure is the masked-LM loss on
//! held-out text, computed with the changed encoder and the pre-training heads of the original checkpoint.
//!
//! The projection onto the vocabulary is tied to the word embeddings, so it changes with the encoder.

use std::path::Path;

use bert_inference::{ModelFiles, RequiredHeads, load_pretraining};
use bert_model::{Architecture, BertConfig, BertForPreTraining, BertModel, LoadPolicy};
use burn::tensor::Device;
use serde::{Deserialize, Serialize};

use crate::data_loader::DataLoader;
use crate::error::Error;
use crate::evaluation::evaluate;

/// Number of instances in a batch; it affects the loss only by rounding.
const BATCH: usize = 32;

/// Scores of the masked LM on held-out text.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct MaskedLmScores {
    /// Mean negative log-likelihood of the masked tokens, in nats.
    pub loss: f64,
    /// Fraction of masked tokens that the model ranks first.
    pub accuracy: f64,
}

/// The pre-training heads of a checkpoint, and held-out text.
pub struct ForgettingTest {
    pretrained: BertForPreTraining,
    text: DataLoader,
}

impl ForgettingTest {
    /// Opens the heads of a model folder and a data folder of `make-pretrain-data`.
    ///
    /// # Errors
    /// Fails when the checkpoint has no masked-LM head, when the data does not fit the checkpoint, for example because
    /// it was made with a different vocabulary, or when a file cannot be read.
    pub fn open(checkpoint: &Path, config: &BertConfig, data: &Path, device: &Device) -> Result<Self, Error> {
        let text = DataLoader::open(data, 0)?;
        text.check_fits(config, ModelFiles::find(checkpoint)?.tokenizer.as_ref())?;
        let hint = "`.forgetting_data` needs a checkpoint with a masked-LM head";
        let required = RequiredHeads { policy: LoadPolicy::MaskedLm, hint };
        let (pretrained, _) = load_pretraining(config, checkpoint, required, 0, device)?;
        Ok(Self { pretrained, text })
    }

    /// Returns the scores of the checkpoint itself.
    ///
    /// # Errors
    /// Fails when a shard cannot be read.
    pub fn before(&mut self) -> Result<MaskedLmScores, Error> {
        self.measure(self.pretrained.bert.clone())
    }

    /// Returns the scores of an encoder (without autodiff) with the checkpoint's heads.
    ///
    /// # Errors
    /// Fails when a shard cannot be read.
    pub fn measure(&mut self, encoder: BertModel) -> Result<MaskedLmScores, Error> {
        let model = self.pretrained.clone().map_encoder(|_| encoder);
        let figures = evaluate(&model, &mut self.text, BATCH, None)?;
        Ok(MaskedLmScores { loss: figures.masked_lm_loss, accuracy: figures.masked_lm_accuracy })
    }
}

/// Returns the encoder of a model.
pub fn encoder_of<M: Architecture>(model: M) -> BertModel {
    let mut encoder = None;
    drop(model.map_encoder(|bert| {
        encoder = Some(bert.clone());
        bert
    }));
    encoder.expect("every model has an encoder")
}
