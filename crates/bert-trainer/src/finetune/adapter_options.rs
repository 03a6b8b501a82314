//! Defines the options of `--adapter`: the forms, their sizes and their default learning rates.

use bert_model::{AdapterConfig, BottleneckForm};
use serde::{Deserialize, Serialize};

/// Rank of LoRA's matrices, and its alpha.
pub(super) const LORA: (usize, f64) = (8, 8.0);

/// The forms of `--adapter`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "cli", derive(clap::ValueEnum))]
#[serde(rename_all = "kebab-case")]
pub enum AdapterKind {
    /// After the feed-forward network, on its normalized output (`seq_bn`).
    Pfeiffer,
    /// After attention and after the feed-forward network (`double_seq_bn`).
    Houlsby,
    /// Beside the feed-forward network (`par_bn`).
    Parallel,
    /// Two narrow matrices beside the query and value projections.
    Lora,
}

impl AdapterKind {
    /// The highest learning rate, by default: that of the `adapters` library's examples, and for LoRA that of its
    /// paper on RTE.
    pub fn learning_rate(self) -> f64 {
        match self {
            Self::Pfeiffer | Self::Houlsby | Self::Parallel => 1e-4,
            Self::Lora => 5e-4,
        }
    }

    pub(super) fn form(self) -> Option<BottleneckForm> {
        match self {
            Self::Pfeiffer => Some(BottleneckForm::Pfeiffer),
            Self::Houlsby => Some(BottleneckForm::Houlsby),
            Self::Parallel => Some(BottleneckForm::Parallel),
            Self::Lora => None,
        }
    }
}

/// The sizes of an adapter under the names of their flags.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct AdapterSizes {
    /// Hidden size over the width of a bottleneck.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub adapter_reduction: Option<f64>,
    /// Rank of a LoRA.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub lora_rank: Option<usize>,
    /// Its product is multiplied by alpha / rank.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub lora_alpha: Option<f64>,
}

impl AdapterSizes {
    pub(super) fn of(adapter: Option<AdapterConfig>) -> Self {
        match adapter {
            None => Self::default(),
            Some(AdapterConfig::Bottleneck { reduction_factor, .. }) => {
                Self { adapter_reduction: Some(reduction_factor), ..Self::default() }
            }
            Some(AdapterConfig::Lora { rank, alpha }) => {
                Self { lora_rank: Some(rank), lora_alpha: Some(alpha), ..Self::default() }
            }
        }
    }
}

/// The highest learning rate of `--fusion`, by default: that of the library's examples.
pub(super) const FUSION_LEARNING_RATE: f64 = 5e-5;
