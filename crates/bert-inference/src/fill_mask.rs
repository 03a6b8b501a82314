//! Predicts the most probable words at each `[MASK]` of a text, with a checkpoint that has a masked-LM head.

use std::path::Path;

use bert_model::{BertConfig, BertForPreTraining, Mode, PretrainingInput};
use bert_tasks::{EncodedPair, InputText};
use burn::tensor::{Device, activation};
use serde::Serialize;

use crate::compute::host_tensors::{int_vector, read};
use crate::encoding::examples::PaddedBatch;
use crate::encoding::model_tokenizer::{ModelTokenizer, check_segments};
use crate::error::Error;
use crate::model_dir::description::{DefaultLength, EncodingLength};
use crate::model_dir::loaded_model::check_encoder;
use crate::model_dir::model_folder::ModelFiles;
use crate::model_dir::model_options::ModelOptions;
use crate::pretrained_heads::{Heads, Pretrained, RequiredHeads, load_pretraining};

/// The predictions for one `[MASK]`.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[non_exhaustive]
pub struct FilledMask {
    /// The position of the `[MASK]` in the sequence, `[CLS]` being 0.
    pub position: usize,
    /// Words with their probabilities, the most probable first.
    pub words: Vec<(String, f32)>,
}

/// The probabilities of all words at one `[MASK]`.
pub(crate) struct MaskProbabilities {
    /// The position of the `[MASK]` in the sequence.
    pub(crate) position: usize,
    /// One probability for each id of the vocabulary.
    pub(crate) probabilities: Vec<f32>,
}

/// A model that fills masks.
pub struct MaskFiller {
    model: BertForPreTraining,
    text: ModelTokenizer,
    length: EncodingLength,
    config: BertConfig,
    device: Device,
}

impl MaskFiller {
    /// Opens a model folder (see [`crate::model_dir::model_folder::resolve_model_folder`]). Texts are truncated to the
    /// length of [`ModelDescription::encoding_length`](crate::ModelDescription::encoding_length).
    ///
    /// # Errors
    /// Fails when the folder cannot be read or has no masked-LM head, when an encoder is given, or when the model has
    /// fewer positions than `options` asks for.
    pub fn open(folder: &Path, options: ModelOptions<'_>) -> Result<Self, Error> {
        check_encoder(folder, options.encoder)?;
        let device = options.device.open()?;
        let ModelFiles { config, tokenizer: text, description } = ModelFiles::open(folder)?;
        let config = BertConfig { compute: options.exact_compute()?, ..config };
        let hint = "give a pre-trained model, such as the one that this model was fine-tuned from; for a fine-tuned \
                    model use `bert predict`";
        let required = RequiredHeads { heads: Heads::MaskedLm, hint };
        let Pretrained { model, .. } = load_pretraining(&config, folder, required, 0, &device)?;
        let default = DefaultLength::Trained(usize::MAX);
        let length = description.encoding_length(options.max_length, default, &config)?;
        Ok(Self { model, text, length, config, device })
    }

    /// Returns the `top_k` most probable words at each `[MASK]` of a text or pair. The list is empty if the text has no
    /// mask within the maximum length.
    ///
    /// # Errors
    /// Fails when the text is a pair and the model has one segment, or when the device fails.
    pub fn fill<'a>(&self, text: impl Into<InputText<'a>>, top_k: usize) -> Result<Vec<FilledMask>, Error> {
        let encoded = self.text.encode(text, self.length.tokens);
        check_segments(&self.config, encoded.is_pair())?;
        let masks = self.probabilities(&encoded)?.into_iter();
        let fill = |MaskProbabilities { position, probabilities }| FilledMask {
            position,
            words: self.top(&probabilities, top_k),
        };
        Ok(masks.map(fill).collect())
    }

    /// Returns the number of tokens of a text before it is cut, special tokens included.
    pub fn untruncated_length<'a>(&self, text: impl Into<InputText<'a>>) -> usize {
        self.text.encode(text, usize::MAX).input_ids.len()
    }

    /// Returns the maximum length of a text.
    pub fn length(&self) -> &EncodingLength {
        &self.length
    }

    /// Returns the probabilities at each `[MASK]`.
    pub(crate) fn probabilities(&self, encoded: &EncodedPair) -> Result<Vec<MaskProbabilities>, Error> {
        let mask = self.text.vocabulary.mask_id();
        let at_masks = (0..).zip(&encoded.input_ids).filter(|(_, id)| **id == mask);
        let positions: Vec<i32> = at_masks.map(|(position, _)| position).collect();
        if positions.is_empty() {
            return Ok(Vec::new());
        }
        let input = PretrainingInput {
            bert: PaddedBatch::single(encoded).input(&self.device),
            masked_lm_positions: int_vector(&positions, &self.device),
        };
        let logits = self.model.forward(input, Mode::Eval).prediction_logits;
        let [_, vocab] = logits.dims();
        let probabilities = read(activation::softmax(logits, 1))?;
        let rows = positions.iter().zip(probabilities.chunks(vocab));
        let mask = |(&position, row): (&i32, &[f32])| MaskProbabilities {
            position: position as usize,
            probabilities: row.to_vec(),
        };
        Ok(rows.map(mask).collect())
    }

    /// Returns the model.
    pub(crate) fn model(&self) -> &BertForPreTraining {
        &self.model
    }

    /// Returns the device.
    pub(crate) fn device(&self) -> &Device {
        &self.device
    }

    /// Returns the tokenizer.
    pub(crate) fn text(&self) -> &ModelTokenizer {
        &self.text
    }

    pub(crate) fn max_length(&self) -> usize {
        self.length.tokens
    }

    fn top(&self, row: &[f32], k: usize) -> Vec<(String, f32)> {
        let words = &self.text.vocabulary;
        let mut order: Vec<usize> = (0..row.len().min(words.len())).collect();
        order.sort_by(|&a, &b| row[b].total_cmp(&row[a]).then(a.cmp(&b)));
        order.into_iter().take(k).map(|id| (words.token(id as u32).to_string(), row[id])).collect()
    }
}
