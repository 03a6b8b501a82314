//! The flags of a custom table.

use serde::{Deserialize, Serialize};

/// Flags of `--task table`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, derive_setters::Setters)]
#[cfg_attr(feature = "cli", derive(clap::Args), command(next_help_heading = "Custom table (--task table)"))]
#[setters(prefix = "with_", strip_option)]
#[serde(default)]
pub struct TableArgs {
    /// Columns of the text, the second text of a pair, and the label or score [default: text, text_b if there is one, label].
    #[cfg_attr(
        feature = "cli",
        arg(long, hide_short_help = true, value_name = "TEXT[,TEXT_B],LABEL", value_delimiter = ',')
    )]
    #[setters(into)]
    pub columns: Vec<String>,

    /// The classes in the order of their numbers [default: the labels of the training file, sorted].
    #[cfg_attr(
        feature = "cli",
        arg(
            long,
            hide_short_help = true,
            value_name = "A,B,...",
            value_delimiter = ',',
            conflicts_with = "regression"
        )
    )]
    pub labels: Vec<String>,

    /// Predict a number; predictions are clipped to the range of the training set.
    #[cfg_attr(feature = "cli", arg(long, hide_short_help = true))]
    pub regression: bool,
}
