//! Expands flags with several values ([`Choices`]) into a grid of configurations, one per cell, fills in the defaults
//! that depend on the size of the model, and records the chosen cell.
//!
//! The report lists the score of each cell on the held-out part of train. The scores on dev do not choose the cell, so
//! they are not optimistic.

use std::fmt;

use bert_inference::{PrecisionChoice, Resolved};
use bert_model::Preset;
use bert_tasks::{Metric, Statistics};
use bert_training::{ChosenDefault, Error, ModelSize, check};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::config::FinetuneConfig;
use crate::config::flag_values::{AdapterKind, Choices};

/// Maximum number of cells.
const MAX_GRID_CELLS: usize = 1000;

/// One configuration of a grid.
#[derive(Clone, Debug)]
pub(crate) struct Cell {
    /// The configuration with a single value for every flag.
    pub(crate) config: FinetuneConfig,
    /// The configuration with defaults filled in.
    pub(crate) resolved: Resolved,
}

/// Returns the cells of a configuration after checking them: one cell, unless a flag has several values. Options that
/// no flag gives get the values of `defaults` for a training set with `items` items.
pub(crate) fn cells(
    config: &FinetuneConfig,
    defaults: &TuningDefaults,
    items: Option<usize>,
) -> Result<Vec<Cell>, Error> {
    fn each<T: Clone + PartialEq>(
        cells: Vec<FinetuneConfig>,
        flag: &'static str,
        choices: &Option<Choices<T>>,
        set: fn(&mut FinetuneConfig, Choices<T>),
    ) -> Result<Vec<FinetuneConfig>, Error> {
        let Some(choices) = choices else { return Ok(cells) };
        let values = choices.values();
        check(!values.is_empty(), flag, "must have a value")?;
        let twice = (1..values.len()).any(|at| values[..at].contains(&values[at]));
        check(!twice, flag, "the values must differ from each other")?;
        check(cells.len() * values.len() <= MAX_GRID_CELLS, flag, "the grid has more than 1000 cells")?;
        let with = |cell: &FinetuneConfig, value: &T| {
            let mut cell = cell.clone();
            set(&mut cell, Choices::Single(value.clone()));
            cell
        };
        Ok(cells.iter().flat_map(|cell| values.iter().map(move |value| with(cell, value))).collect())
    }
    let cells = vec![config.clone()];
    let cells = each(cells, "learning_rate", &config.learning_rate, |cell, x| cell.learning_rate = Some(x))?;
    let cells =
        each(cells, "train_batch_size", &config.train_batch_size, |cell, x| cell.train_batch_size = Some(x))?;
    let cells =
        each(cells, "num_train_epochs", &config.num_train_epochs, |cell, x| cell.num_train_epochs = Some(x))?;
    let checked = cells.into_iter().map(|cell| {
        // Every cell holds out the same share of the examples, even if the share is the default for a grid.
        let config = FinetuneConfig { holdout: config.held_out_share(), ..cell };
        Ok(Cell { resolved: config.resolve_with(defaults, items)?, config })
    });
    checked.collect()
}

/// The grid of a fine-tuning, for the report.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct GridReport {
    /// The metric whose mean over the seeds selects the cell.
    pub metric: Metric,
    /// Number of examples of train that are held out to measure the metric.
    pub held_out_examples: usize,
    /// Each configuration, in the order of the flags.
    pub cells: Vec<CellReport>,
}

/// A configuration of a grid and its score on the held-out part of train.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct CellReport {
    /// Peak learning rate.
    pub learning_rate: f64,
    /// Batch size.
    pub train_batch_size: usize,
    /// Number of epochs.
    pub num_train_epochs: f64,
    /// Statistics over the seeds, on the held-out examples.
    #[serde(flatten)]
    pub statistics: Statistics,
    /// Whether this cell was chosen: the first with the highest mean.
    pub chosen: bool,
}

impl CellReport {
    /// Returns the report of a cell that has not been chosen yet.
    pub(crate) fn new(cell: &Cell, scores: &[f64]) -> Self {
        Self {
            learning_rate: cell.resolved.learning_rate,
            train_batch_size: cell.resolved.train_batch_size,
            num_train_epochs: cell.resolved.num_train_epochs,
            statistics: Statistics::new(scores),
            chosen: false,
        }
    }
}

impl CellReport {
    /// Returns a row of a table: the statistics of the metric and the settings.
    pub fn row(&self, metric: Metric) -> String {
        let Statistics { mean, sd, median, max, .. } = self.statistics;
        let [mean, sd, median, max] =
            [Some(mean), sd, Some(median), Some(max)].map(|value| metric.cell(value));
        let Self { learning_rate, train_batch_size, num_train_epochs, .. } = self;
        let chosen = if self.chosen { "  <- chosen" } else { "" };
        format!(
            "{mean:>6}  {sd:>6}  {median:>6}  {max:>6}  learning_rate {learning_rate:e}, train_batch_size \
             {train_batch_size}, num_train_epochs {num_train_epochs}{chosen}"
        )
    }
}

impl fmt::Display for GridReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let cells = self.cells.len();
        let metric = self.metric;
        let examples = self.held_out_examples;
        writeln!(f, "grid of {cells}: {} on {examples} examples held out of train", metric.heading())?;
        write!(f, "    mean      sd  median     max  settings")?;
        self.cells.iter().try_for_each(|cell| write!(f, "\n  {}", cell.row(metric)))
    }
}

/// Peak learning rates when the whole model is fine-tuned. For BERT-base, the task determines the rate.
const LEARNING_RATES: [(Preset, f64); 2] = [(Preset::Tiny, 5e-4), (Preset::Mini, 3e-4)];
/// Minimum number of epochs, as for the published small models. For BERT-base, the task determines the number.
const EPOCHS: [(Preset, f64); 2] = [(Preset::Tiny, 4.0), (Preset::Mini, 4.0)];
/// Minimum number of steps for BERT-mini and smaller models. A small training set is repeated until the run has this
/// number of steps, but for at most [`MAX_EPOCHS`] epochs.
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

    /// Returns the number of epochs for a training set with this number of items; `None` means a large training set.
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

    fn cells_of(flags: &[&str]) -> Result<Vec<Cell>, Error> {
        let config = config(flags);
        cells(&config, &TuningDefaults::published(&config), None)
    }

    #[test]
    fn one_value_or_several() {
        let choices = |text: &str| text.parse::<Choices<f64>>();
        assert_eq!(choices("1e-4").unwrap(), Choices::Single(1e-4));
        assert_eq!(choices("1e-4, 3e-4").unwrap(), Choices::Grid(vec![1e-4, 3e-4]));
        assert!(choices("1e-4,fast").unwrap_err().contains("\"fast\""));
        assert_eq!(serde_json::to_string(&choices("0.5").unwrap()).unwrap(), "0.5");
        assert_eq!(serde_json::to_string(&choices("1,2").unwrap()).unwrap(), "[1.0,2.0]");
        assert_eq!(serde_json::from_str::<Choices<usize>>("[16,32]").unwrap().values(), [16, 32]);
    }

    #[test]
    fn cells_are_all_combinations() {
        let grid = cells_of(&["--learning-rate", "1e-4,3e-4", "--train-batch-size", "16,32,64"]).unwrap();
        let settings: Vec<(f64, usize, f64)> = (grid.iter())
            .map(|cell| {
                (cell.resolved.learning_rate, cell.resolved.train_batch_size, cell.resolved.num_train_epochs)
            })
            .collect();
        let expected = [(1e-4, 16), (1e-4, 32), (1e-4, 64), (3e-4, 16), (3e-4, 32), (3e-4, 64)];
        assert_eq!(settings, expected.map(|(rate, size)| (rate, size, 3.0)));
        assert!(grid.iter().all(|cell| cell.config.held_out_share() == Some(0.1)));
        let one = cells_of(&["--learning-rate", "1e-4"]).unwrap();
        assert!(one.len() == 1 && one[0].config.held_out_share().is_none());
    }

    #[test]
    fn invalid_grids_are_rejected() {
        for (flags, message) in [
            (["--learning-rate", "1e-4,1e-4"], "`.learning_rate`: the values must differ from each other"),
            (["--train-batch-size", "16,0"], "`.train_batch_size` is 0, but must be at least 1"),
            (["--num-train-epochs", "2,-1"], "`.num_train_epochs` is -1, but must be positive"),
        ] {
            assert_eq!(cells_of(&flags).unwrap_err().to_string(), message);
        }
    }

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
        // The default of the task is ten epochs, however many examples there are.
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
