//! The flags of adapters.

use std::path::PathBuf;

use bert_model::{AdapterConfig, BottleneckForm};
use serde::{Deserialize, Serialize};

use crate::error::{Error, check};
use crate::finetune::config::FinetuneConfig;
use crate::finetune::config::resolve::{NEEDS_LABELS, positive, reject_first};

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
#[setters(generate_delegates(ty = "crate::finetune::FinetuneConfig", field = "adapters"))]
#[serde(default)]
pub struct AdapterArgs {
    /// Train an adapter and the classifier only; the encoder stays frozen, but applies dropout.
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

impl FinetuneConfig {
    /// Returns the adapter with its defaults filled in, or `None` if the whole model or only the head is trained.
    ///
    /// # Errors
    /// [`Error::Configuration`] naming a flag that conflicts with the others.
    pub(crate) fn adapter_config(&self) -> Result<Option<AdapterConfig>, Error> {
        let adapters = &self.adapters;
        let lora = adapters.adapter == Some(AdapterKind::Lora);
        let lora_flags = [
            ("lora-rank", !lora && adapters.lora_rank.is_some()),
            ("lora-alpha", !lora && adapters.lora_alpha.is_some()),
            ("merge-lora", !lora && adapters.merge_lora),
        ];
        reject_first(&lora_flags, "works with --adapter lora only")?;
        check(
            adapters.adapter_reduction.is_none() || (adapters.adapter.is_some() && !lora),
            "adapter-reduction",
            "works with --adapter pfeiffer, houlsby or parallel only",
        )?;
        let Some(kind) = adapters.adapter else { return Ok(None) };
        check(
            !self.freeze_encoder,
            "freeze-encoder",
            "cannot be used with --adapter, which trains weights inside the encoder",
        )?;
        check(self.gives_labels(), "adapter", NEEDS_LABELS)?;
        check(
            !self.random_init,
            "random-init",
            "cannot be used with --adapter: the frozen encoder must be pre-trained",
        )?;
        let form = match kind {
            AdapterKind::Pfeiffer => BottleneckForm::Pfeiffer,
            AdapterKind::Houlsby => BottleneckForm::Houlsby,
            AdapterKind::Parallel => BottleneckForm::Parallel,
            AdapterKind::Lora => {
                let (rank, alpha) = (adapters.lora_rank.unwrap_or(8), adapters.lora_alpha.unwrap_or(8.0));
                check(rank > 0, "lora-rank", "must be at least 1")?;
                check(positive(alpha), "lora-alpha", "must be positive")?;
                return Ok(Some(AdapterConfig::Lora { rank, alpha }));
            }
        };
        let reduction_factor = adapters.adapter_reduction.unwrap_or(form.default_reduction_factor());
        let narrows = reduction_factor.is_finite() && reduction_factor >= 1.0;
        check(narrows, "adapter-reduction", "must be at least 1")?;
        Ok(Some(AdapterConfig::Bottleneck { form, reduction_factor }))
    }

    /// Checks `--fusion` against the other flags.
    pub(super) fn check_fusion(&self) -> Result<(), Error> {
        if self.adapters.fusion.is_empty() {
            return Ok(());
        }
        check(self.gives_labels(), "fusion", NEEDS_LABELS)?;
        check(self.adapters.fusion.len() > 1, "fusion", "needs two adapters or more")?;
        let foreign = "cannot be used with --random-init: its adapters belong to the checkpoint";
        check(!self.random_init, "fusion", foreign)
    }
}

#[cfg(test)]
mod tests {
    use clap::{Args, Command, FromArgMatches};

    use super::*;

    fn config(flags: &str) -> FinetuneConfig {
        let command = FinetuneConfig::augment_args(Command::new("finetune").no_binary_name(true));
        let line = format!("--task rte --data d --checkpoint c --output o {flags}");
        let matches = command.try_get_matches_from(line.split_whitespace()).unwrap();
        FinetuneConfig::from_arg_matches(&matches).unwrap()
    }

    #[test]
    fn adapter_defaults_match_the_adapters_library() {
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
    fn conflicting_flags_are_rejected_by_name() {
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
