//! Builds the table of a grid for the page of a fine-tuning.

use serde_json::Value;

use super::table;
use crate::finetune::grid::GridReport;

/// A row per configuration with what it came to on the held-out part of train; nothing for a fine-tuning without a
/// grid.
pub(super) fn grid_table(report: &Value) -> String {
    let Ok(grid) = serde_json::from_value::<GridReport>(report["grid"].clone()) else { return String::new() };
    let row = |cell: &crate::finetune::grid::CellReport| {
        let s = cell.statistics;
        let name = if cell.chosen { "chosen" } else { "" };
        let sd = s.sd.map_or("-".to_string(), |sd| format!("{sd:.4}"));
        let settings = [
            format!("{:e}", cell.learning_rate),
            cell.train_batch_size.to_string(),
            cell.num_train_epochs.to_string(),
        ];
        let figures = [format!("{:.4}", s.mean), sd, format!("{:.4}", s.median), format!("{:.4}", s.max)];
        [vec![name.to_string()], settings.to_vec(), figures.to_vec()].concat()
    };
    let header = ["", "learning rate", "batch", "epochs", "mean", "sd", "median", "max"];
    format!(
        "<h2>The grid: {} on {} examples held out of train</h2>\n{}",
        grid.metric,
        grid.held_out_examples,
        table(&header, &grid.cells.iter().map(row).collect::<Vec<_>>())
    )
}
