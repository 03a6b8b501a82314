//! Default learning rate, number of epochs and precision of a fine-tuning, by the size of the model.

use bert_inference::PrecisionChoice;
use bert_model::Preset;
use bert_training::{ChosenDefault, ModelSize};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::config::FinetuneConfig;
use crate::config::adapter_args::AdapterKind;
use crate::config::flag_values::Choices;

/// Peak learning rates of a whole model that is fine-tuned; BERT-base has the rate of its task.
const LEARNING_RATES: [(Preset, f64); 2] = [(Preset::Tiny, 5e-4), (Preset::Mini, 3e-4)];
/// Minimum number of epochs, as for the published small models; BERT-base has the number of its task.
const EPOCHS: [(Preset, f64); 2] = [(Preset::Tiny, 4.0), (Preset::Mini, 4.0)];
/// Minimum number of steps of BERT-mini and smaller models. A small training set is repeated until it has them, but not
/// more often than [`MAX_EPOCHS`].
const MIN_STEPS: u64 = 1000;
/// Maximum number of epochs of a small training set, unless the task has more.
const MAX_EPOCHS: f64 = 10.0;

/// The values of options that no flag gives.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct TuningDefaults {
    pub(crate) learning_rate: f64,
    /// Minimum number of epochs.
    pub(crate) num_train_epochs: f64,
    /// Minimum number of steps.
    pub(crate) min_steps: u64,
    pub(crate) precision: PrecisionChoice,
}

impl TuningDefaults {
    /// Returns the values for BERT-base, which depend on the task or on the kind of adapter.
    pub(crate) fn published(config: &FinetuneConfig) -> Self {
        let task = config.task.spec().defaults;
        let learning_rate = match (config.adapters.adapter, config.freeze_encoder) {
            _ if !config.adapters.fusion.is_empty() => 5e-5,
            // The rate of LoRA's paper for RTE; the other rate is in the examples of the `adapters` library.
            (Some(AdapterKind::Lora), _) => 5e-4,
            (Some(_), _) => 1e-4,
            (None, true) => task.frozen_learning_rate,
            (None, false) => task.learning_rate,
        };
        let precision = config.compute.precision();
        Self { learning_rate, num_train_epochs: task.num_train_epochs, min_steps: 0, precision }
    }

    /// Returns the values for a model of this size. A frozen encoder and adapters keep the published rate and number of
    /// epochs.
    pub(crate) fn by_size(config: &FinetuneConfig, size: &ModelSize) -> Self {
        let published = Self::published(config);
        let between = |points: [(Preset, f64); 2], at_base: f64| {
            size.interpolate(&[points[0], points[1], (Preset::Base, at_base)])
        };
        let mut learning_rate = published.learning_rate;
        let mut epochs = published.num_train_epochs;
        if config.trains_whole_encoder() {
            learning_rate = between(LEARNING_RATES, learning_rate);
            epochs = between(EPOCHS.map(|(preset, least)| (preset, least.max(epochs))), epochs).round();
        }
        let min_steps =
            if config.trains_whole_encoder() && size.is_at_most(Preset::Mini) { MIN_STEPS } else { 0 };
        let precision = size.precision(&config.compute).0;
        Self { learning_rate, num_train_epochs: epochs, min_steps, precision }
    }

    /// Returns the number of epochs of a training set with this number of items; `None` is a large one.
    pub(crate) fn epochs(&self, items: Option<usize>, batch_size: usize) -> f64 {
        let Some(items) = items else { return self.num_train_epochs };
        let enough = (self.min_steps as f64 * batch_size as f64 / items.max(1) as f64).ceil();
        enough.clamp(self.num_train_epochs, self.num_train_epochs.max(MAX_EPOCHS))
    }

    /// Returns the values that a saved fine-tuning used; `None` if its record is damaged.
    pub(crate) fn recorded(identity: &Value) -> Option<Self> {
        serde_json::from_value(identity["defaults"].clone()).ok()
    }

    /// Returns the options that these values fill in for a training set with this number of items, with the reasons.
    pub(crate) fn chosen(
        &self,
        config: &FinetuneConfig,
        size: &ModelSize,
        items: Option<usize>,
    ) -> Vec<ChosenDefault> {
        let whole = config.trains_whole_encoder();
        let reason = |by_task: &str| if whole { size.name.clone() } else { by_task.to_string() };
        let start = if config.random_init { ", random weights" } else { "" };
        let rate = ChosenDefault::new(
            "learning_rate",
            format_args!("{:e}", self.learning_rate),
            reason("frozen encoder") + start,
        );
        let sizes = config.train_batch_size.as_ref().map(Choices::values);
        let batch_size = sizes.map_or(config.task.spec().defaults.train_batch_size, |sizes| sizes[0]);
        let epochs = self.epochs(items, batch_size);
        let few = items.filter(|_| epochs > self.num_train_epochs).map(|items| format!(", {items} examples"));
        let why = reason("the task") + &few.unwrap_or_default();
        let epochs = ChosenDefault::new("num_train_epochs", epochs, why);
        let (_, why) = size.precision(&config.compute);
        let precision = ChosenDefault::new("precision", self.precision.name(), why);
        [
            (config.learning_rate.is_none(), rate),
            (config.num_train_epochs.is_none(), epochs),
            (config.compute.precision.is_none(), precision),
        ]
        .into_iter()
        .filter_map(|(is_chosen, default)| is_chosen.then_some(default))
        .collect()
    }
}

impl FinetuneConfig {
    fn trains_whole_encoder(&self) -> bool {
        self.adapters.adapter.is_none() && self.adapters.fusion.is_empty() && !self.freeze_encoder
    }
}

#[cfg(test)]
mod tests {
    use bert_model::BertConfig;

    use super::*;
    use crate::data::holdout::tests::config;

    fn defaults(preset: Preset, flags: &[&str]) -> TuningDefaults {
        TuningDefaults::by_size(&config(flags), &size(preset))
    }

    fn size(preset: Preset) -> ModelSize {
        ModelSize::new(&BertConfig::preset(preset, 1000))
    }

    #[test]
    fn base_has_the_values_of_the_task() {
        for preset in [Preset::Base, Preset::Large] {
            let found = defaults(preset, &[]);
            assert_eq!((found.learning_rate, found.num_train_epochs), (5e-5, 3.0));
        }
        assert_eq!(defaults(Preset::Base, &["--task", "sst-5"]).learning_rate, 1e-5);
    }

    #[test]
    fn smaller_models_have_higher_rates_and_more_epochs() {
        let found = Preset::ALL.map(|preset| defaults(preset, &[]));
        assert_eq!((found[0].learning_rate, found[0].num_train_epochs), (5e-4, 4.0));
        assert!(found.is_sorted_by(|a, b| a.learning_rate >= b.learning_rate));
        assert!(found.is_sorted_by(|a, b| a.num_train_epochs >= b.num_train_epochs));
        let chosen = found[0].chosen(&config(&[]), &size(Preset::Tiny), Some(4000));
        assert_eq!(chosen[0].to_string(), "learning rate 5e-4 (tiny)");
        assert_eq!(chosen[1].to_string(), "num train epochs 8 (tiny, 4000 examples)");
    }

    #[test]
    fn small_training_sets_have_more_epochs() {
        let epochs = |preset, items| defaults(preset, &[]).epochs(items, 32);
        let sizes = [None, Some(100_000), Some(8_000), Some(4_000), Some(100), Some(0)];
        assert_eq!(sizes.map(|items| epochs(Preset::Mini, items)), [4.0, 4.0, 4.0, 8.0, 10.0, 10.0]);
        assert_eq!(epochs(Preset::Small, Some(100)), 4.0);
        // The task has ten epochs.
        assert_eq!(defaults(Preset::Tiny, &["--task", "sst-5"]).epochs(Some(9_000_000), 64), 10.0);
        assert_eq!(defaults(Preset::Tiny, &["--freeze-encoder"]).epochs(Some(100), 32), 3.0);
    }

    #[test]
    fn adapters_and_frozen_encoders_keep_the_published_rate() {
        for (flags, rate) in [
            (&["--freeze-encoder"][..], 1e-3),
            (&["--adapter", "lora"], 5e-4),
            (&["--adapter", "pfeiffer"], 1e-4),
        ] {
            let found = defaults(Preset::Tiny, flags);
            assert_eq!((found.learning_rate, found.num_train_epochs), (rate, 3.0), "{flags:?}");
        }
    }

    #[test]
    fn given_options_are_not_reported() {
        let given = ["--learning-rate", "1e-4", "--num-train-epochs", "2", "--precision", "f32"];
        let found = defaults(Preset::Tiny, &given);
        assert!(found.chosen(&config(&given), &size(Preset::Tiny), Some(9)).is_empty());
    }
}
