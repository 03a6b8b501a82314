//! Predicts the most probable words at each `[MASK]` of a text, with a checkpoint that has a masked-LM head.

use std::path::Path;

use bert_model::{BertForPreTraining, LoadPolicy, Mode, PretrainingInput};
use bert_tasks::{EncodedPair, InputText};
use burn::tensor::activation;
use serde::Serialize;

use crate::compute::host_tensors::{int_vector, read};
use crate::encoding::examples::PaddedBatch;
use crate::encoding::model_tokenizer::check_segments;
use crate::error::Error;
use crate::model_dir::description::EncodingLength;
use crate::model_dir::loaded_model::{LoadedModel, OpenedModel, check_encoder};
use crate::model_dir::model_folder::ModelFiles;
use crate::model_dir::model_options::ModelOptions;
use crate::pretrained_heads::{RequiredHeads, load_pretraining};

/// The predictions for one `[MASK]`.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[non_exhaustive]
pub struct FilledMask {
    /// The position of the `[MASK]` in the sequence, `[CLS]` being 0.
    pub position: usize,
    /// The words, the most probable first.
    pub words: Vec<FilledWord>,
}

/// A word at a `[MASK]`.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[non_exhaustive]
pub struct FilledWord {
    /// The word.
    pub word: String,
    /// Its probability.
    pub probability: f32,
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
    pub(crate) opened: OpenedModel<BertForPreTraining>,
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
        let mut files = ModelFiles::open(folder)?;
        files.config.compute = options.exact_compute()?;
        let hint = "give a pre-trained model, such as the one that this model was fine-tuned from; for a fine-tuned \
                    model use `bert predict`";
        let required = RequiredHeads { policy: LoadPolicy::MaskedLm, hint };
        let (model, _) = load_pretraining(&files.config, folder, required, 0, &device)?;
        let loaded = LoadedModel { model, files };
        Ok(Self { opened: OpenedModel::new(loaded, device, options.max_length, usize::MAX)? })
    }

    /// Returns the `top_k` most probable words at each `[MASK]` of a text or pair. The list is empty if the text has no
    /// mask within the maximum length.
    ///
    /// # Errors
    /// Fails when the text is a pair and the model has one segment, or when the device fails.
    pub fn fill<'a>(&self, text: impl Into<InputText<'a>>, top_k: usize) -> Result<Vec<FilledMask>, Error> {
        let OpenedModel { text: tokenizer, length, config, .. } = &self.opened;
        let encoded = tokenizer.encode(text, length.tokens);
        check_segments(config, encoded.is_pair())?;
        let masks = self.probabilities(&encoded)?.into_iter();
        let fill = |MaskProbabilities { position, probabilities }| FilledMask {
            position,
            words: self.top(&probabilities, top_k),
        };
        Ok(masks.map(fill).collect())
    }

    /// Returns the number of tokens of a text before it is cut, special tokens included.
    pub fn untruncated_length<'a>(&self, text: impl Into<InputText<'a>>) -> usize {
        self.opened.text.encode(text, usize::MAX).input_ids.len()
    }

    /// Returns the maximum length of a text.
    pub fn length(&self) -> &EncodingLength {
        &self.opened.length
    }

    /// Returns the probabilities of all word pieces at each `[MASK]`.
    pub(crate) fn probabilities(&self, encoded: &EncodedPair) -> Result<Vec<MaskProbabilities>, Error> {
        let OpenedModel { model, text, device, .. } = &self.opened;
        let mask = text.vocabulary.mask_id();
        let at_masks = (0..).zip(&encoded.input_ids).filter(|(_, id)| **id == mask);
        let positions: Vec<i32> = at_masks.map(|(position, _)| position).collect();
        if positions.is_empty() {
            return Ok(Vec::new());
        }
        let input = PretrainingInput {
            bert: PaddedBatch::single(encoded).input(device),
            masked_lm_positions: int_vector(&positions, device),
        };
        let logits = model.forward(input, Mode::Eval).prediction_logits;
        let [_, vocab] = logits.dims();
        let probabilities = read(activation::softmax(logits, 1))?;
        let rows = positions.iter().zip(probabilities.chunks(vocab));
        let mask = |(&position, row): (&i32, &[f32])| MaskProbabilities {
            position: position as usize,
            probabilities: row.to_vec(),
        };
        Ok(rows.map(mask).collect())
    }

    fn top(&self, row: &[f32], k: usize) -> Vec<FilledWord> {
        let words = &self.opened.text.vocabulary;
        let mut order: Vec<usize> = (0..row.len().min(words.len())).collect();
        order.sort_by(|&a, &b| row[b].total_cmp(&row[a]).then(a.cmp(&b)));
        let word = |id| FilledWord { word: words.token(id as u32).to_string(), probability: row[id] };
        order.into_iter().take(k).map(word).collect()
    }
}
