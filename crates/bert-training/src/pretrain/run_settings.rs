//! Fills in the options of a run that follow from model size, initialization and processor, and that no flag gives.
//!
//! A resumed run has the values of its `run.json`, so a later version of this program with different defaults continues
//! it unchanged.

use bert_inference::{PrecisionChoice, resolve_model_folder};
use bert_model::{BertConfig, Preset, read_pretrained_config};
use bert_storage::{FileSystem, StagedFolder, check_writable};
use serde::{Deserialize, Serialize};

use crate::error::Error;
use crate::group::Group;
use crate::initialization::{InitializationChoice, named_model};
use crate::optimizer::optimizer_args::OptimizerName;
use crate::optimizer::size_defaults::{ChosenDefault, ModelSize};
use crate::pretrain::config::PretrainConfig;
use crate::pretrain::held_out::run_of_checkpoint;
use crate::pretrain::run_folder::recorded_settings;
use crate::pretrain::shared_text::SharedText;
use crate::run_dir::training_run::check_free;
use crate::step::device_selection::{SelectedDevice, select_device};

/// Peak learning rate of a fresh model, by size.
const LEARNING_RATES: [(Preset, f64); 3] =
    [(Preset::Tiny, 1.5e-3), (Preset::Mini, 1e-3), (Preset::Base, PUBLISHED_LEARNING_RATE)];
/// `1 - beta2` of a fresh model, by size.
const SECOND_MOMENTS: [(Preset, f64); 3] =
    [(Preset::Tiny, 0.02), (Preset::Mini, 0.02), (Preset::Base, 1.0 - PUBLISHED_BETA2)];
/// Maximum number of warm-up steps, by size.
const WARMUP_STEPS: [(Preset, f64); 3] =
    [(Preset::Tiny, 1000.0), (Preset::Mini, 1000.0), (Preset::Base, 10_000.0)];
/// The learning rate of the paper (appendix A.2).
const PUBLISHED_LEARNING_RATE: f64 = 1e-4;
/// The decay rate of the second moment in the paper (appendix A.2).
const PUBLISHED_BETA2: f64 = 0.999;

/// The settings of a run: its configuration with all defaults by size filled in.
pub(crate) struct RunSettings {
    pub(crate) config: PretrainConfig,
    /// Whether the run continues from its newest valid checkpoint.
    pub(crate) resume: bool,
    /// The options that were filled in, with the reasons.
    pub(crate) defaults: Vec<ChosenDefault>,
    /// The text shared by data sets that should be disjoint.
    pub(crate) shared_text: Vec<SharedText>,
    size: ModelSize,
}

/// The values that rank 0 has filled in. Floats are sent as bits, because decimal digits may change the last
/// bit.
#[derive(Clone, Copy, Serialize, Deserialize)]
struct FilledValues {
    learning_rate: u64,
    adam_beta2: u64,
    precision: PrecisionChoice,
    warmup_steps: Option<u64>,
}

impl RunSettings {
    /// Checks the configuration; then fills in the initialization, learning rate, beta2 and precision of rank 0 on all
    /// ranks.
    ///
    /// # Errors
    /// Fails when an option is invalid, or when a rank is lost. Also fails as [`RunSettings::new`] does.
    pub(crate) fn open(config: &PretrainConfig, group: &mut Group, resume: bool) -> Result<Self, Error> {
        let checked = config.validate().and_then(|()| group.share_micro_batches(config.micro_batches()));
        let own = checked.and_then(|()| Self::new(config, resume));
        let mut settings = group.agree(own)?;
        let filled = &mut settings.config;
        let first_values = group.value_of_first(group.is_first().then(|| FilledValues {
            learning_rate: filled.peak_learning_rate().to_bits(),
            adam_beta2: filled.optimizer().beta2.to_bits(),
            precision: filled.precision(),
            warmup_steps: filled.warmup_steps,
        }))?;
        filled.learning_rate = config.learning_rate.or(Some(f64::from_bits(first_values.learning_rate)));
        filled.adam_beta2 = config.adam_beta2.or(Some(f64::from_bits(first_values.adam_beta2)));
        filled.warmup_steps = config.warmup_steps.or(first_values.warmup_steps);
        filled.compute.precision = config.compute.precision.or(Some(first_values.precision));
        Ok(settings)
    }

    /// Returns the settings with device, initialization, learning rate, beta2 and precision filled in.
    ///
    /// # Errors
    /// Fails when the model or `--init-checkpoint` cannot be read, or when the resumed run is damaged.
    pub(crate) fn new(config: &PretrainConfig, resume: bool) -> Result<Self, Error> {
        let mut config = config.clone();
        let recorded = if resume { recorded_settings(&config.output)? } else { None };
        if let Some(recorded) = recorded {
            config.learning_rate.get_or_insert(recorded.learning_rate);
            config.adam_beta2.get_or_insert(recorded.optimizer.beta2);
            if config.warmup_ratio.is_none() {
                config.warmup_steps.get_or_insert(recorded.warmup_steps);
            }
            config.compute.precision.get_or_insert(recorded.precision);
        }
        let size = ModelSize::new(&model(&config)?);
        let mut settings = Self { config, resume, defaults: Vec::new(), shared_text: Vec::new(), size };
        settings.select_device()?;
        settings.fill_initialization();
        settings.fill_optimizer();
        let compute = &mut settings.config.compute;
        if compute.precision.is_none() {
            let (precision, reason) = settings.size.precision(compute);
            settings.defaults.push(ChosenDefault::new("precision", precision.name(), reason));
            compute.precision = Some(precision);
        }
        Ok(settings)
    }

    /// Replaces `--device auto` by the fastest device.
    fn select_device(&mut self) -> Result<(), Error> {
        let device = &mut self.config.compute.device;
        if let Some(SelectedDevice { device: selected, reason }) = select_device(*device)? {
            self.defaults.push(ChosenDefault::new("device", selected, reason));
            *device = selected;
        }
        Ok(())
    }

    /// Selects the initial weights. The gain from bigram counts was measured for tiny and mini only. For base, counting
    /// takes minutes, and the gain is unknown.
    fn fill_initialization(&mut self) {
        let Self { config, defaults, size, .. } = self;
        if config.init_checkpoint.is_none() && config.initialization.is_none() {
            let choice = if size.is_at_most(Preset::Medium) {
                InitializationChoice::Bigram
            } else {
                InitializationChoice::Reference
            };
            if choice != InitializationChoice::default() {
                defaults.push(ChosenDefault::new(
                    "initialization",
                    choice.name(),
                    format!("{}, as published", size.name),
                ));
            }
            config.initialization = Some(choice);
        }
    }

    fn fill_optimizer(&mut self) {
        let Self { config, defaults, size, .. } = self;
        // With LAMB, the published rate is used, because no rate was measured for small batches.
        let published = config.init_checkpoint.is_some() || config.optimizer.optimizer == OptimizerName::Lamb;
        let kept =
            config.init_checkpoint.as_deref().filter(|_| config.keep_moments).and_then(run_of_checkpoint);
        let reason = match config.initialization() {
            Some(initialization) => format!("{}, {} initialization", size.name, initialization.name()),
            None => "continued from a checkpoint".to_string(),
        };
        let reason =
            if config.optimizer.optimizer == OptimizerName::Lamb { "LAMB".to_string() } else { reason };
        if config.learning_rate.is_none() {
            let rate = if published { PUBLISHED_LEARNING_RATE } else { size.interpolate(&LEARNING_RATES) };
            defaults.push(ChosenDefault::new("learning_rate", format_args!("{rate:e}"), reason.as_str()));
            config.learning_rate = Some(rate);
        }
        if let (None, Some(kept)) = (config.adam_beta2, kept) {
            let beta2 = kept.identity.optimizer.beta2;
            defaults.push(ChosenDefault::new("adam_beta2", beta2, "the run whose moments are kept"));
            config.adam_beta2 = Some(beta2);
        }
        if config.adam_beta2.is_none() {
            let beta2 = if published {
                PUBLISHED_BETA2
            } else {
                // Rounding removes the error of the subtraction.
                ((1.0 - size.interpolate(&SECOND_MOMENTS)) * 1e6).round() / 1e6
            };
            defaults.push(ChosenDefault::new("adam_beta2", beta2, reason));
            config.adam_beta2 = Some(beta2);
        }
    }

    /// Sets the number of steps, and fills in the warm-up.
    pub(crate) fn with_steps(mut self, steps: u64) -> Self {
        (self.config.steps, self.config.budget) = (Some(steps), None);
        if self.config.warmup_steps.is_none() && self.config.warmup_ratio.is_none() {
            let most = self.size.interpolate(&WARMUP_STEPS) as u64;
            let warmup = (steps / 10).min(most);
            let reason = if warmup < most {
                "a tenth of the steps".to_string()
            } else {
                format!("{}, the maximum", self.size.name)
            };
            self.defaults.push(ChosenDefault::new("warmup_steps", warmup, reason));
            self.config.warmup_steps = Some(warmup);
        }
        self
    }
}

/// Checks on rank 0 that the run can write its folder.
///
/// # Errors
/// Fails when the folder is occupied or cannot be written.
pub(crate) fn check_output(
    files: &dyn FileSystem,
    config: &PretrainConfig,
    group: &Group,
    resume: bool,
) -> Result<(), Error> {
    if group.is_first() {
        check_free(&StagedFolder::new(files, &config.output), resume)?;
        check_writable(files, &config.output)?;
    }
    Ok(())
}

/// Returns the configuration of the model of a run; its vocabulary size may differ.
fn model(config: &PretrainConfig) -> Result<BertConfig, Error> {
    match &config.init_checkpoint {
        Some(path) => {
            let folder = resolve_model_folder(path, &mut |_| {})?;
            Ok(read_pretrained_config(&folder)?)
        }
        // The size of the vocabulary does not matter here, and it is unknown until the data is open.
        None => named_model(config.model.as_deref().unwrap_or_default(), 30_522, &mut |_| {}),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn filled(config: PretrainConfig) -> RunSettings {
        RunSettings::new(&config, false).unwrap().with_steps(20_000)
    }

    fn config(model: &str) -> PretrainConfig {
        PretrainConfig::new("data", "no such run", 1).with_model(model)
    }

    #[test]
    fn base_and_large_have_the_published_values() {
        for model in ["base", "large"] {
            let run = filled(config(model)).config;
            assert_eq!(run.initialization(), Some(InitializationChoice::Reference), "{model}");
            let values = (run.learning_rate, run.adam_beta2, run.warmup_steps);
            assert_eq!(values, (Some(1e-4), Some(0.999), Some(2000)), "{model}");
        }
        assert_eq!(
            RunSettings::new(&config("base"), false).unwrap().with_steps(1_000_000).config.warmup(),
            10_000
        );
    }

    #[test]
    fn smaller_models_have_higher_rates_with_the_reason() {
        let run = filled(config("tiny"));
        let values = (run.config.learning_rate, run.config.adam_beta2, run.config.warmup_steps);
        assert_eq!(values, (Some(1.5e-3), Some(0.98), Some(1000)));
        let lines: Vec<String> = run.defaults.iter().map(ToString::to_string).collect();
        assert_eq!(lines[0], "learning rate 1.5e-3 (tiny, bigram initialization)");
        assert_eq!(lines[1], "adam beta2 0.98 (tiny, bigram initialization)");
        assert_eq!(lines[3], "warmup steps 1000 (tiny, the maximum)");
        let rates = ["tiny", "mini", "small", "medium", "base"]
            .map(|model| filled(config(model)).config.learning_rate);
        assert!(rates.is_sorted_by(|a, b| a > b), "{rates:?}");
    }

    #[test]
    fn given_options_are_kept_and_not_reported() {
        let mut given = config("tiny").with_learning_rate(1e-5).with_adam_beta2(0.9).with_warmup_steps(7);
        given.compute.precision = Some(PrecisionChoice::F32);
        let run = filled(given.clone());
        let initialization = Some(InitializationChoice::Bigram);
        assert_eq!(run.config, PretrainConfig { steps: Some(20_000), initialization, ..given });
        assert!(run.defaults.is_empty());
    }
}
