//! Implements `finetune --adapter`: checks the flags, adds the adapter to the model, counts the trained parameters
//! and writes the adapter's folder.
//!
//! The encoder is frozen but for the adapter in it. It stays in training mode all the same, so dropout applies as
//! in a full fine-tuning; the `adapters` library does the same.

use std::fmt;

use bert_model::{
    AdapterConfig, AdapterOrigin, Architecture, BertConfig, BertForSequenceClassification,
    is_adapter_parameter, is_fusion_parameter, named_parameters, save_adapter,
};
use serde::Serialize;

use super::config::FinetuneConfig;
use super::fusion;
use super::output::Output;
use crate::error::Error;
use crate::finetune::adapter_options::AdapterKind;
use crate::finetune::adapter_options::LORA;
use crate::finetune::setup::Setup;
use crate::tasks::Kind;

impl FinetuneConfig {
    /// The adapter with its defaults filled in, or `None` when the whole model or only the head learns.
    ///
    /// # Errors
    /// [`Error::Configuration`] naming a flag that does not go with the others.
    pub fn adapter_config(&self) -> Result<Option<AdapterConfig>, Error> {
        let refuse = |flag: &'static str, reason: &str| {
            let reason = reason.to_string();
            Err(Error::Configuration { flag, reason })
        };
        let form = self.adapter.and_then(AdapterKind::form);
        let lora = self.adapter == Some(AdapterKind::Lora);
        let of_lora = [
            ("lora-rank", self.lora_rank.is_some()),
            ("lora-alpha", self.lora_alpha.is_some()),
            ("merge-lora", self.merge_lora),
        ];
        if let Some((flag, _)) = of_lora.into_iter().find(|(_, given)| *given && !lora) {
            return refuse(flag, "goes with --adapter lora only");
        }
        if self.adapter_reduction.is_some() && form.is_none() {
            return refuse("adapter-reduction", "goes with --adapter pfeiffer, houlsby or parallel only");
        }
        if self.adapter.is_some() && self.freeze_encoder {
            return refuse(
                "freeze-encoder",
                "does not go with --adapter, which trains weights inside the encoder",
            );
        }
        let spec = self.task.spec();
        let labels = matches!(spec.kind, Kind::Classification { .. } | Kind::Regression { .. });
        if self.adapter.is_some() && !(labels && spec.choices == 0) {
            return refuse("adapter", "is for tasks that give a text or a pair a class or a score");
        }
        if self.adapter.is_some() && self.random_init {
            return refuse(
                "random-init",
                "does not go with --adapter: an encoder that learns nothing must know something",
            );
        }
        let adapter = match (lora, form) {
            (true, _) => {
                let (rank, alpha) = (self.lora_rank.unwrap_or(LORA.0), self.lora_alpha.unwrap_or(LORA.1));
                if rank == 0 {
                    return refuse("lora-rank", "must be at least 1");
                }
                if !(alpha.is_finite() && alpha > 0.0) {
                    return refuse("lora-alpha", "must be positive");
                }
                AdapterConfig::Lora { rank, alpha }
            }
            (false, Some(form)) => {
                let reduction_factor = self.adapter_reduction.unwrap_or(form.default_reduction_factor());
                if !(reduction_factor.is_finite() && reduction_factor >= 1.0) {
                    return refuse("adapter-reduction", "must be at least 1");
                }
                AdapterConfig::Bottleneck { form, reduction_factor }
            }
            (false, None) => return Ok(None),
        };
        Ok(Some(adapter))
    }
}

/// How many parameters learn.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct TrainedParameters {
    /// Those that learn.
    pub trained: usize,
    /// All of the model, adapter and head included.
    pub all: usize,
    /// `trained / all`
    pub share: f64,
}

impl TrainedParameters {
    pub(super) fn new<M: Architecture>(config: &FinetuneConfig, model: &M, layers: usize) -> Self {
        let learns = |name: &str| match (config.freeze_encoder, config.adapter) {
            (false, None) if !config.fusion.is_empty() => {
                !name.starts_with("bert.") || is_fusion_parameter(name)
            }
            (false, None) => config.layer_learns(name, layers),
            (true, _) => !name.starts_with("bert."),
            (false, Some(_)) => !name.starts_with("bert.") || is_adapter_parameter(name),
        };
        let (mut trained, mut all) = (0, 0);
        for (name, _, shape) in named_parameters(model) {
            let size = shape.iter().product::<usize>();
            all += size;
            trained += if learns(&name) { size } else { 0 };
        }
        Self { trained, all, share: trained as f64 / all as f64 }
    }
}

impl fmt::Display for TrainedParameters {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { trained, all, share } = self;
        write!(f, "{trained} of {all} ({:.2} %)", 100.0 * share)
    }
}

/// The model with a fresh adapter, when one is asked for. `fresh` names what the checkpoint did not have.
pub(super) fn attached(
    setup: Setup<'_>,
    model: BertForSequenceClassification,
    fresh: &[&String],
    seed: u64,
) -> Result<BertForSequenceClassification, Error> {
    let config = setup.config;
    let flag = if config.fusion.is_empty() { "adapter" } else { "fusion" };
    let adapter = config.adapter_config()?;
    if adapter.is_none() && config.fusion.is_empty() {
        return Ok(model);
    }
    if !fresh.is_empty() {
        let reason = format!("the checkpoint lacks {fresh:?}, and an adapter's folder has no place for them");
        return Err(Error::Configuration { flag, reason });
    }
    match adapter {
        Some(adapter) => Ok(model.with_adapter(adapter, seed)?),
        None => fusion::fused(setup, model, seed),
    }
}

/// Writes the tuned model: a whole one into `model/`, an adapter into `model/`, or into `adapter/` when it is merged.
pub(super) fn save(
    output: &Output<'_>,
    setup: Setup<'_>,
    model: &BertForSequenceClassification,
    model_config: &BertConfig,
) -> Result<(), Error> {
    let Setup { config, text, start, .. } = setup;
    if !config.fusion.is_empty() {
        return fusion::save(output, setup, model, model_config);
    }
    let whole = "model";
    let Some(adapter) = config.adapter_config()? else {
        return output.save_model(whole, model, model_config, text);
    };
    let folder = if config.merge_lora { "adapter" } else { whole };
    let base = start.display().to_string();
    let origin = AdapterOrigin { name: config.task.spec().name, base: &base };
    let vocabulary = text.files(model_config.max_position_embeddings);
    save_adapter(&mut output.sink(folder), model, model_config, adapter, origin, vocabulary)?;
    match config.merge_lora {
        true => output.save_model(whole, &model.clone().with_lora_merged(), model_config, text),
        false => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use clap::{Args, Command, FromArgMatches};

    use bert_model::BottleneckForm;

    use super::*;

    fn config(flags: &str) -> FinetuneConfig {
        let command = FinetuneConfig::augment_args(Command::new("finetune").no_binary_name(true));
        let line = format!("--task rte --data d --checkpoint c --output o {flags}");
        let matches = command.try_get_matches_from(line.split_whitespace()).unwrap();
        FinetuneConfig::from_arg_matches(&matches).unwrap()
    }

    #[test]
    fn defaults_are_the_libraries() {
        let adapter = |flags| config(flags).adapter_config().unwrap();
        let bottleneck = |form, reduction_factor| Some(AdapterConfig::Bottleneck { form, reduction_factor });
        assert_eq!(adapter(""), None);
        assert_eq!(adapter("--adapter pfeiffer"), bottleneck(BottleneckForm::Pfeiffer, 16.0));
        assert_eq!(adapter("--adapter houlsby"), bottleneck(BottleneckForm::Houlsby, 16.0));
        assert_eq!(adapter("--adapter parallel"), bottleneck(BottleneckForm::Parallel, 2.0));
        assert_eq!(adapter("--adapter lora"), Some(AdapterConfig::Lora { rank: 8, alpha: 8.0 }));
        assert_eq!(
            adapter("--adapter pfeiffer --adapter-reduction 4"),
            bottleneck(BottleneckForm::Pfeiffer, 4.0)
        );
        assert_eq!(
            adapter("--adapter lora --lora-rank 4 --lora-alpha 16"),
            Some(AdapterConfig::Lora { rank: 4, alpha: 16.0 })
        );
        let rate = |flags| config(flags).resolve().unwrap().learning_rate;
        assert_eq!(rate("--adapter houlsby"), 1e-4);
        assert_eq!(rate("--adapter lora"), 5e-4);
        assert_eq!(rate("--adapter lora --learning-rate 1e-3"), 1e-3);
    }

    #[test]
    fn flags_that_do_not_go_together_are_refused_by_name() {
        let cases = [
            ("--adapter pfeiffer --freeze-encoder", "freeze-encoder"),
            ("--adapter lora --random-init", "random-init"),
            ("--adapter lora --adapter-reduction 4", "adapter-reduction"),
            ("--adapter-reduction 4", "adapter-reduction"),
            ("--adapter houlsby --lora-rank 4", "lora-rank"),
            ("--lora-alpha 4", "lora-alpha"),
            ("--adapter parallel --merge-lora", "merge-lora"),
            ("--adapter lora --lora-rank 0", "lora-rank"),
            ("--adapter lora --lora-alpha 0", "lora-alpha"),
            ("--adapter pfeiffer --adapter-reduction 0.5", "adapter-reduction"),
            ("--adapter pfeiffer --adapter-reduction nan", "adapter-reduction"),
        ];
        for (flags, expected) in cases {
            match config(flags).resolve() {
                Err(Error::Configuration { flag, .. }) => assert_eq!(flag, expected, "{flags}"),
                other => panic!("{flags}: {other:?}"),
            }
        }
    }
}
