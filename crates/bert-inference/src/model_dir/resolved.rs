//! The settings of a fine-tuning with the defaults of its task filled in, as `report.json` records them.

use serde::{Deserialize, Serialize};

use crate::compute::precision::PrecisionChoice;

/// The settings of a fine-tuning with the task's defaults filled in.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Resolved {
    /// Number of epochs.
    pub num_train_epochs: f64,
    /// Batch size.
    pub train_batch_size: usize,
    /// Peak learning rate.
    pub learning_rate: f64,
    /// Maximum sequence length.
    pub max_seq_length: usize,
    /// Precision of matrix products.
    pub precision: PrecisionChoice,
    /// Hidden size divided by the bottleneck size of an adapter.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub adapter_reduction: Option<f64>,
    /// Rank of LoRA.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub lora_rank: Option<usize>,
    /// LoRA alpha: the update is scaled by alpha / rank.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub lora_alpha: Option<f64>,
}

impl Resolved {
    /// Returns the batch size for a set of `items` items: at most `items`, so that a step never repeats an item.
    pub fn batch_of(&self, items: usize) -> usize {
        self.train_batch_size.min(items)
    }

    /// Returns a warning if the batch is larger than the set.
    pub fn batch_warning(&self, items: usize) -> Option<String> {
        (self.train_batch_size > items).then(|| {
            format!(
                "`.train_batch_size {}` is larger than the training set: each step uses all {items} examples",
                self.train_batch_size
            )
        })
    }
}
