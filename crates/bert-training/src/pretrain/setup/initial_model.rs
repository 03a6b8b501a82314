//! The model that a pre-training run starts with.

use std::path::Path;

use bert_data::Nsp;
use bert_inference::{Heads, Pretrained, RequiredHeads, StopFlag, load_pretraining};
use bert_model::{Architecture, BertForPreTraining};

use crate::error::Error;
use crate::initialization::FreshWeights;
use crate::pretrain::events::PretrainEvent;
use crate::pretrain::setup::inputs::RunInputs;

impl RunInputs<'_> {
    /// Returns the weights of a checkpoint of the run, or else the initial weights, which come from
    /// `--init-checkpoint`, `fresh` or [`Self::fresh_weights`].
    ///
    /// # Errors
    /// Fails when the weights cannot be read or do not match the configuration; otherwise as [`Self::fresh_weights`].
    pub(crate) fn model(
        &self,
        checkpoint: Option<&Path>,
        fresh: Option<&FreshWeights>,
        stop: &StopFlag,
        on_event: &mut dyn FnMut(PretrainEvent),
    ) -> Result<BertForPreTraining, Error> {
        if let Some(path) = checkpoint.or(self.start.folder.as_deref()) {
            return self.load_model(path, on_event);
        }
        let counted;
        let fresh = match fresh {
            Some(fresh) => fresh,
            None => {
                counted = self.fresh_weights(stop, on_event)?;
                &counted
            }
        };
        let model = self.model_config();
        let seed = self.config.seed;
        BertForPreTraining::initialized(model, fresh.initialization(), seed, &self.device)
    }

    fn load_model(
        &self,
        path: &Path,
        on_event: &mut dyn FnMut(PretrainEvent),
    ) -> Result<BertForPreTraining, Error> {
        let heads = match (self.config.fresh_heads, self.manifest().config.nsp) {
            (true, _) => Heads::None,
            (false, Nsp::Off) => Heads::MaskedLm,
            (false, _) => Heads::Both,
        };
        let hint = "`.fresh_heads` initializes missing heads at random; data made with `.nsp off` needs no pooler and \
                    no next-sentence head";
        let model = self.model_config();
        let seed = self.config.seed;
        let required = RequiredHeads { heads, hint };
        let Pretrained { model, fresh } = load_pretraining(model, path, required, seed, &self.device)?;
        if !fresh.is_empty() {
            on_event(PretrainEvent::Warning(format!(
                "not in the checkpoint, so initialized at random: {fresh:?}"
            )));
        }
        Ok(model)
    }

    /// Selects the initial weights of a run without a checkpoint, and counts the text if they require it.
    ///
    /// # Errors
    /// Fails when a stop is requested, or when a shard cannot be read or does not match the manifest.
    pub(crate) fn fresh_weights(
        &self,
        stop: &StopFlag,
        on_event: &mut dyn FnMut(PretrainEvent),
    ) -> Result<FreshWeights, Error> {
        let choice = self.config.initialization().unwrap_or_default();
        choice.weights(&self.sets, self.model_config(), self.config.seed, stop, &mut |event| {
            on_event(PretrainEvent::Counting(event));
        })
    }
}
