//! The flags of adapters and of custom tables, and flags that take several values: seeds as numbers and ranges
//! (`1-3,17`), and the values of a grid.

use std::fmt;
use std::ops::{Deref, RangeInclusive};
use std::path::PathBuf;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

/// One or more values of a flag, separated by commas. In JSON, they are a single value or a list.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum Choices<T> {
    /// One value.
    Single(T),
    /// Several values, which make a grid.
    Grid(Vec<T>),
}

impl<T> Choices<T> {
    /// Returns all values.
    pub fn values(&self) -> &[T] {
        match self {
            Self::Single(value) => std::slice::from_ref(value),
            Self::Grid(values) => values,
        }
    }
}

impl<T: FromStr<Err: fmt::Display>> FromStr for Choices<T> {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let value = |part: &str| part.trim().parse().map_err(|error: T::Err| format!("{part:?}: {error}"));
        let mut values = text.split(',').map(value).collect::<Result<Vec<T>, String>>()?;
        Ok(match values.len() {
            1 => Self::Single(values.remove(0)),
            _ => Self::Grid(values),
        })
    }
}

/// Maximum number of seeds.
const MAX_SEEDS: usize = 10_000;

/// Seeds, one run each. In JSON, they are a list of numbers.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Seeds(pub Vec<u64>);

impl Deref for Seeds {
    type Target = [u64];

    fn deref(&self) -> &[u64] {
        &self.0
    }
}

impl fmt::Display for Seeds {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let numbers: Vec<String> = self.iter().map(u64::to_string).collect();
        f.write_str(&numbers.join(","))
    }
}

impl FromStr for Seeds {
    type Err = String;

    /// Parses numbers and inclusive ranges, separated by commas.
    fn from_str(text: &str) -> Result<Self, String> {
        let mut seeds = Vec::new();
        for part in text.split(',') {
            let range = range(part.trim())
                .ok_or_else(|| format!("{part:?} is neither a number nor a range such as 1-5"))?;
            // Subtract instead of counting: a range may have 2^64 numbers, and the result of `count` would overflow.
            if range.end() - range.start() >= (MAX_SEEDS - seeds.len().min(MAX_SEEDS)) as u64 {
                return Err(format!("more than {MAX_SEEDS} seeds"));
            }
            seeds.extend(range);
        }
        Ok(Self(seeds))
    }
}

fn range(part: &str) -> Option<RangeInclusive<u64>> {
    let (first, last) = part.split_once('-').unwrap_or((part, part));
    let first = first.parse().ok()?;
    let last = last.parse().ok()?;
    (first <= last).then_some(first..=last)
}

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

/// The kinds of adapter.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "cli", derive(clap::ValueEnum))]
#[serde(rename_all = "kebab-case")]
pub enum AdapterKind {
    /// A bottleneck after the feed-forward network, on its normalized output (`seq_bn`).
    Pfeiffer,
    /// Bottlenecks after attention and after the feed-forward network (`double_seq_bn`).
    Houlsby,
    /// A bottleneck parallel to the feed-forward network (`par_bn`).
    Parallel,
    /// Low-rank matrices added to the query and value projections.
    Lora,
}

/// Flags for adapters, LoRA and AdapterFusion.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, derive_setters::Setters)]
#[cfg_attr(feature = "cli", derive(clap::Args), command(next_help_heading = "Adapters"))]
#[setters(prefix = "with_", strip_option)]
#[serde(default)]
pub struct AdapterArgs {
    /// Train an adapter and the classifier only. The encoder stays frozen, but applies dropout.
    #[cfg_attr(feature = "cli", arg(long, value_enum))]
    pub adapter: Option<AdapterKind>,

    /// Fuse trained adapters (AdapterFusion, pfeiffer only): train an attention over them and the classifier, with
    /// encoder and adapters frozen. Takes output folders of finetune --adapter or folders of the adapters library.
    #[cfg_attr(
        feature = "cli",
        arg(
            long, hide_short_help = true, value_name = "DIR,DIR,...", value_delimiter = ',',
            conflicts_with_all = ["adapter", "freeze_encoder", "trainable_layers", "layer_decay"]
        )
    )]
    #[serde(default)]
    pub fusion: Vec<PathBuf>,

    /// Reduction factor of the adapter: hidden size divided by bottleneck size, at least 1 [default: 16; parallel: 2].
    #[cfg_attr(feature = "cli", arg(long, hide_short_help = true, value_name = "X"))]
    pub adapter_reduction: Option<f64>,

    /// Rank of the matrices of --adapter lora [default: 8].
    #[cfg_attr(feature = "cli", arg(long, hide_short_help = true, value_name = "N"))]
    pub lora_rank: Option<usize>,

    /// LoRA alpha: the update is scaled by alpha / rank [default: 8].
    #[cfg_attr(feature = "cli", arg(long, hide_short_help = true, value_name = "X"))]
    pub lora_alpha: Option<f64>,

    /// Save a full model with LoRA merged into its weights, and the LoRA matrices in adapter/.
    #[cfg_attr(feature = "cli", arg(long, hide_short_help = true))]
    pub merge_lora: bool,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_and_ranges() {
        let seeds = |text: &str| text.parse::<Seeds>().map(|seeds| seeds.0);
        assert_eq!(seeds("1-5").unwrap(), [1, 2, 3, 4, 5]);
        assert_eq!(seeds("9, 1-3,7-7").unwrap(), [9, 1, 2, 3, 7]);
        assert_eq!(seeds("18446744073709551615").unwrap(), [u64::MAX]);
        for wrong in ["", "one", "5-1", "1-", "-1", "1,,2", "1-2-3"] {
            let error = seeds(wrong).unwrap_err();
            assert!(error.contains("neither a number nor a range"), "{wrong}: {error}");
        }
        for many in ["0-18446744073709551615", "1-10001", "1-10000,7"] {
            assert_eq!(seeds(many).unwrap_err(), "more than 10000 seeds");
        }
        assert_eq!(seeds("1-10000").unwrap().len(), 10_000);
        let some: Seeds = "2-3,11".parse().unwrap();
        assert_eq!(some.to_string().parse::<Seeds>().unwrap(), some);
        assert_eq!(serde_json::to_string(&some).unwrap(), "[2,3,11]");
    }
}
