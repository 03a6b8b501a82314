//! The flags of adapters.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

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
