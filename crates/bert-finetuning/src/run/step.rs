//! Takes one training step of a fine-tuning: divides a batch into micro-batches, sums their gradients and updates the
//! model.

use bert_inference::Resolved;
use bert_model::Mode;
use bert_training::{
    Error, MicroBatchLoss, NotFinite, Optimizer, Schedule, StepReport, StepSettings, not_finite, train_step,
};
use burn::module::Module;

use crate::config::FinetuneConfig;
use crate::kinds::{FinetuneTask, MicroBatch};
use crate::setup::BaseCheckpoint;

/// A model in training and its optimizer.
pub(crate) struct TrainState<M> {
    pub(crate) model: M,
    pub(crate) optimizer: Optimizer,
}

/// The micro-batches of a step.
pub(crate) struct StepBatches<B> {
    /// Each micro-batch with the number of its first sequence in the step.
    pub(crate) batches: Vec<(B, u64)>,
    /// Number of targets in all micro-batches.
    pub(crate) targets: usize,
}

/// The settings for training a model from a seed, shared by all tasks.
pub(crate) struct TrainSettings<'a> {
    pub(crate) config: &'a FinetuneConfig,
    /// Number of the configuration in a grid, from 1; `None` without a grid.
    pub(crate) cell: Option<usize>,
    pub(crate) seed: u64,
    /// Number of steps and learning rates.
    pub(crate) schedule: Schedule,
}

impl<'a> TrainSettings<'a> {
    /// Returns the settings for `steps` steps.
    pub(crate) fn new(config: &'a FinetuneConfig, resolved: &Resolved, seed: u64, steps: u64) -> Self {
        let schedule = Schedule {
            kind: config.optimizer.schedule,
            peak: resolved.learning_rate,
            total_steps: steps,
            warmup_steps: (steps as f64 * config.warmup_proportion).floor(),
        };
        Self { config, cell: None, seed, schedule }
    }

    /// Returns a model with a new optimizer.
    pub(crate) fn state<M: Module>(&self, model: M, checkpoint: &BaseCheckpoint) -> TrainState<M> {
        let optimizer = Optimizer::new(self.config.optimizer(), &model).with_compute(checkpoint.compute);
        let layers = checkpoint.model_config.num_hidden_layers;
        TrainState { optimizer: self.config.with_layer_rates(optimizer, layers), model }
    }

    /// Returns the micro-batches of a step on these items of a task.
    pub(crate) fn batches<T: FinetuneTask>(&self, task: &T, items: &[usize]) -> StepBatches<T::Batch> {
        let mut step = StepBatches { batches: Vec::new(), targets: 0 };
        let mut first_item = 0;
        for part in micro_batches(items, self.config.gradient_accumulation_steps as usize) {
            let MicroBatch { batch, targets } = task.micro_batch(part, items);
            step.targets += targets;
            step.batches.push((batch, (first_item * task.sequences_per_item()) as u64));
            first_item += part.len();
        }
        step
    }

    /// Takes one training step after `done` finished steps, and returns the new state and the loss.
    pub(crate) fn step<M: Module, B>(
        &self,
        TrainState { model, mut optimizer }: TrainState<M>,
        done: u64,
        batches: &[B],
        loss: impl Fn(&M, &B, Mode) -> MicroBatchLoss,
    ) -> Result<(TrainState<M>, f64), Error> {
        let learning_rate = self.schedule.learning_rate(done);
        let settings = StepSettings { seed: self.seed, step: done, learning_rate };
        let (model, report) = train_step(model, &mut optimizer, batches, loss, settings);
        let step = done + 1;
        let StepReport { loss, .. } =
            report.map_err(|NotFinite { report }| not_finite(step, report.loss, report.gradient_norm))?;
        Ok((TrainState { model, optimizer }, loss))
    }
}

/// Returns the items of a batch, split into parts of nearly equal size.
fn micro_batches(items: &[usize], parts: usize) -> Vec<&[usize]> {
    let bounds: Vec<usize> = (0..=parts).map(|part| part * items.len() / parts).collect();
    bounds.windows(2).filter(|w| w[0] < w[1]).map(|w| &items[w[0]..w[1]]).collect()
}

/// Returns the number of updates: epochs times examples divided by the batch size, rounded down as in the reference, at
/// least one. The batch is at most as large as the set.
pub(crate) fn num_train_steps(examples: usize, resolved: &Resolved) -> u64 {
    let steps = examples as f64 / resolved.batch_of(examples) as f64 * resolved.num_train_epochs;
    (steps as u64).max(1)
}

#[cfg(test)]
mod tests {
    use super::*;
    use bert_inference::PrecisionChoice;

    #[test]
    fn step_counts_equal_the_reference() {
        // int(n / batch * epochs), as in the table of the fine-tuning recipe.
        let steps = |n, train_batch_size, num_train_epochs| {
            let resolved = Resolved {
                num_train_epochs,
                train_batch_size,
                learning_rate: 1.0,
                max_seq_length: 128,
                precision: PrecisionChoice::F32,
                adapter_reduction: None,
                lora_rank: None,
                lora_alpha: None,
            };
            num_train_steps(n, &resolved)
        };
        assert_eq!(steps(2490, 32, 3.0), 233);
        assert_eq!(steps(3668, 32, 3.0), 343);
        assert_eq!(steps(67_349, 32, 3.0), 6313);
        assert_eq!(steps(5749, 16, 20.0), 7186);
        assert_eq!(steps(40, 32, 0.1), 1);
        // The reference repeats a set that is smaller than a batch; here a step uses it once.
        assert_eq!((steps(3, 32, 1.0), steps(10, 32, 3.0)), (1, 3));
    }
}
