//! Estimates the memory of a training step, and reads how much memory the process can get.
//!
//! The estimate is for the fused kernels; it is within a factor of [`ACCURACY`] of the measured peak. A step that
//! cannot fit is rejected before it starts, because the system would kill the process without a message, and a GPU
//! would fail in the middle of a step.

mod limits;

use bert_kernels::{Kernels, Precision, processor};
use bert_model::BertConfig;
use burn::tensor::Device;
pub use limits::{MemoryLimit, bytes_in_words};

/// Maximum factor between the estimate and the measured peak of a process, in either direction.
pub const ACCURACY: f64 = 1.3;

/// The sizes that determine a step's memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StepShape {
    /// Sequences in the largest micro-batch.
    pub sequences: usize,
    /// Tokens in a sequence, padding included.
    pub length: usize,
    /// Masked-LM targets in the micro-batch; 0 if no vocabulary logits are computed.
    pub targets: usize,
    /// Micro-batches in a step.
    pub micro_batches: usize,
    /// Bytes of the optimizer's states for each element of a parameter.
    pub optimizer_bytes: usize,
    /// Ranks that share the optimizer's states.
    pub ranks: usize,
    /// Whether layers are recomputed in the backward pass.
    pub recompute: bool,
    /// Whether the step runs on a GPU. The estimate is then for the memory of the GPU.
    pub on_gpu: bool,
}

/// The memory of a training step, in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StepMemory {
    /// The program, its threads, and the data in the data loader.
    pub(crate) program: u64,
    /// Weights, gradients and moments, and the snapshot of a checkpoint while it is written.
    pub model: u64,
    /// Layer outputs kept for the backward pass.
    pub layers: u64,
    /// Vocabulary logits in the masked-LM head.
    pub vocabulary: u64,
}

/// The result of comparing a step with the limits.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// The memory is sufficient.
    Fits,
    /// The memory may be insufficient: the estimate is close to this limit.
    Close(MemoryLimit),
    /// The memory is insufficient, even with the estimate's error.
    TooMuch(MemoryLimit),
}

/// Compares an estimate with the limits. Returns the lowest fixed limit that the step exceeds even if the estimate is
/// too high by the factor [`ACCURACY`], or else the lowest limit that it exceeds if the estimate is too low by this
/// factor.
pub fn judge(needed: &StepMemory, limits: &[MemoryLimit]) -> Verdict {
    let total = needed.total() as f64;
    let lowest = |reached: &dyn Fn(&MemoryLimit) -> bool| {
        limits.iter().filter(|limit| reached(limit)).min_by_key(|limit| limit.bytes).cloned()
    };
    let exceeded = lowest(&|limit| limit.is_firm() && total > limit.bytes as f64 * ACCURACY);
    let close = lowest(&|limit| total > limit.bytes as f64 / ACCURACY);
    match (exceeded, close) {
        (Some(limit), _) => Verdict::TooMuch(limit),
        (None, Some(limit)) => Verdict::Close(limit),
        (None, None) => Verdict::Fits,
    }
}

/// Returns a warning if a step of the largest batch may not fit. This function is for training runs that pad batches
/// only to their longest sequence: such a run does not know in advance whether any batch has a sequence of maximum
/// length.
pub fn warning(device: &Device, model: &BertConfig, shape: &StepShape) -> Option<String> {
    let needed = StepMemory::for_step(model, shape);
    match judge(&needed, &MemoryLimit::for_device(device, 1)) {
        Verdict::Fits => None,
        Verdict::Close(limit) | Verdict::TooMuch(limit) => Some(format!(
            "with {} sequences of {} tokens {}: use `.gradient_accumulation_steps` or a smaller batch",
            shape.sequences,
            shape.length,
            needed.describe(&limit)
        )),
    }
}

/// Bytes of an f32.
const F32: f64 = 4.0;
/// The program itself and small buffers.
const PROGRAM: f64 = 50e6;
/// Scratch memory of the kernels per thread.
const PER_THREAD: f64 = 4e6;
/// The driver's context on a GPU, compiled kernels and the workspace of products.
const CARD: f64 = 700e6;
/// Memory that the runtime of a GPU reserves for each byte of the layers, because its pools have pages of a few sizes.
/// On an NVIDIA H100 in bf16, BERT-tiny at batch 256, mini at batch 128, and base at batches 64 and 256 needed 2.8,
/// 3.0, 9.9 and 33 GiB; the estimates are 2.8, 3.0, 9.4 and 28 GiB.
const POOLS: f64 = 1.5;
/// Vocabulary columns that a thread processes at a time.
const COLUMNS: f64 = 384.0;

impl StepMemory {
    /// Returns the estimated memory of a step of pre-training, or of fine-tuning if the shape has no targets.
    pub fn for_step(model: &BertConfig, shape: &StepShape) -> Self {
        let threads = rayon::current_num_threads() as f64;
        let parameters = match shape.targets {
            0 => model.parameter_count(),
            _ => model.pretraining_parameter_count(),
        } as f64;
        // Weights, this rank's share of the optimizer's states, two sets of gradients, and, while a checkpoint is
        // written, a copy of the weights. With several micro-batches, several partial sums of gradients are in memory
        // at a time.
        let states = shape.optimizer_bytes as f64 / shape.ranks as f64;
        let sums = f64::from(shape.micro_batches.max(1).ilog2());
        let program = if shape.on_gpu { CARD } else { PROGRAM + threads * PER_THREAD };
        let tokens = (shape.sequences * shape.length) as f64;
        let (all_layers, layer_at_work) = Self::layer_bytes(model, shape);
        let mut vocabulary = Self::vocabulary_bytes(model, shape, threads);
        if shape.recompute {
            // The logits are freed before the first layer is recomputed.
            vocabulary = (vocabulary - F32 * tokens * layer_at_work).max(0.0);
        }
        Self {
            program: program as u64,
            model: (parameters * (F32 * (4.0 + sums) + states)) as u64,
            layers: (F32 * tokens * (all_layers + layer_at_work) * if shape.on_gpu { POOLS } else { 1.0 })
                as u64,
            vocabulary: vocabulary as u64,
        }
    }

    /// Returns the estimate with the rows that the data loader keeps in memory; `tokens` is their number of tokens,
    /// padding included.
    #[must_use]
    pub fn with_tokens_of_data(self, tokens: u64) -> Self {
        Self { program: self.program + 6 * tokens, ..self }
    }

    /// Returns the number of f32 values per token that all layers keep, and the number that only the current layer
    /// needs. After its attention, the last layer computes only the masked tokens and the first token of each
    /// sequence.
    fn layer_bytes(model: &BertConfig, shape: &StepShape) -> (f64, f64) {
        let [layers, hidden, intermediate, heads] =
            [model.num_hidden_layers, model.hidden_size, model.intermediate_size, model.num_attention_heads]
                .map(|size| size as f64);
        let fused = model.compute.kernels != Kernels::Plain;
        // The values until the end of the attention, and after it. The attention probabilities are kept before and
        // after dropout.
        let probabilities = 2.0 * heads * shape.length as f64;
        let [attention, rest] = match (fused, model.compute.precision) {
            // x, queries, keys, values and context take half of an f32 each (bf16); x and h are kept in f32.
            (true, Precision::Bf16) if shape.on_gpu => {
                [4.5 * hidden + probabilities / 2.0, 2.5 * hidden + intermediate]
            }
            (true, Precision::F32) if shape.on_gpu => {
                [6.0 * hidden + probabilities, 2.0 * hidden + 2.0 * intermediate]
            }
            (true, Precision::Bf16) => [1.5 * hidden, 1.5 * hidden],
            (true, Precision::F32) => [5.0 * hidden, 2.0 * hidden + 2.0 * intermediate],
            (false, _) => {
                [5.0 * hidden + 3.0 * heads * shape.length as f64, 3.0 * hidden + 3.5 * intermediate]
            }
        };
        let selected = match shape.targets {
            0 => 1.0,
            targets => (targets + shape.sequences) as f64 / (shape.sequences * shape.length) as f64,
        };
        let embeddings = 3.0 * hidden;
        let at_work = 4.0 * hidden + 2.0 * intermediate;
        if shape.recompute {
            (layers * hidden + embeddings, attention + rest + at_work)
        } else {
            (layers * attention + (layers - 1.0 + selected) * rest + embeddings, at_work)
        }
    }

    fn vocabulary_bytes(model: &BertConfig, shape: &StepShape, threads: f64) -> f64 {
        let targets = shape.targets as f64;
        let hidden = model.hidden_size as f64;
        let vocabulary = model.vocab_size as f64;
        if shape.targets == 0 {
            return 0.0;
        }
        let logits = match model.compute.kernels {
            Kernels::Plain => 3.0,
            // The logits and their gradient.
            _ if shape.on_gpu => 2.0,
            _ if processor::recomputes_logits(model.compute.precision) => 0.0,
            _ => 1.0,
        };
        let scratch = if shape.on_gpu { 0.0 } else { threads * targets * COLUMNS };
        F32 * (logits * targets * vocabulary + scratch + 12.0 * targets * hidden + vocabulary * hidden)
    }

    /// Returns the total.
    pub fn total(&self) -> u64 {
        self.program + self.model + self.layers + self.vocabulary
    }

    /// Returns whether a step fits below a limit even if the estimate is too low by the factor [`ACCURACY`].
    pub fn fits(&self, limit: &MemoryLimit) -> bool {
        self.total() as f64 * ACCURACY <= limit.bytes as f64
    }

    /// Returns a sentence with the memory that each part needs, and the limit.
    pub fn describe(&self, limit: &MemoryLimit) -> String {
        format!(
            "a step needs about {} of memory ({} for weights, gradients and moments, {} for the layers, {} for logits \
             of the vocabulary, {} for program and data), but {limit}",
            bytes_in_words(self.total()),
            bytes_in_words(self.model),
            bytes_in_words(self.layers),
            bytes_in_words(self.vocabulary),
            bytes_in_words(self.program),
        )
    }
}

#[cfg(test)]
mod tests {
    use super::limits::LimitKind;
    use super::*;

    #[test]
    fn firm_limits_reject_and_free_memory_warns() {
        let needed = StepMemory { program: 0, model: 1000, layers: 0, vocabulary: 0 };
        let limit = MemoryLimit::new;
        let [machine, available, group] = [
            limit(LimitKind::Machine, 700),
            limit(LimitKind::Available, 100),
            limit(LimitKind::ControlGroup, 1200),
        ];
        let all = [machine.clone(), available.clone(), group.clone()];
        assert_eq!(judge(&needed, &all), Verdict::TooMuch(machine));
        assert_eq!(judge(&needed, &[available.clone(), group.clone()]), Verdict::Close(available));
        assert_eq!(judge(&needed, std::slice::from_ref(&group)), Verdict::Close(group));
        assert_eq!(judge(&needed, &[limit(LimitKind::Machine, 2000)]), Verdict::Fits);
    }
}
