//! Expands flags with several values ([`Choices`]) into a grid of configurations, one per cell, and records the chosen
//! cell.
//!
//! The report lists the score of each cell on the held-out part of train. Cells are not chosen by dev, so the scores on
//! dev are not optimistic.

use std::fmt;

use bert_inference::Resolved;
use bert_tasks::{Metric, Statistics};
use bert_training::{Error, check};
use serde::{Deserialize, Serialize};

use crate::config::FinetuneConfig;
use crate::config::flag_values::Choices;
use crate::config::size_defaults::TuningDefaults;

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

/// Returns the cells of a configuration, all checked: one, unless a flag has several values. Other options have these
/// defaults for a training set with this number of items.
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
        // Every cell holds out the same examples, the grid's default included.
        let config = FinetuneConfig { holdout: config.held_out_share(), ..cell };
        Ok(Cell { resolved: config.resolve_with(defaults, items)?, config })
    });
    checked.collect()
}

/// The grid of a fine-tuning, for the report.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct GridReport {
    /// The metric whose mean over the seeds decides.
    pub metric: Metric,
    /// Number of examples held out of train to measure it.
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
    /// Formats the row of a table: statistics of the metric and settings.
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

#[cfg(test)]
mod tests {
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
            (["--train-batch-size", "16,0"], "`.train_batch_size`: must be at least 1"),
            (["--num-train-epochs", "2,-1"], "`.num_train_epochs`: must be positive"),
        ] {
            assert_eq!(cells_of(&flags).unwrap_err().to_string(), message);
        }
    }
}
