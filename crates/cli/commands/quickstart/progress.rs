//! Shows the progress of a quickstart as one percentage and one estimate of the remaining time for all stages.

use bert_data::BuildProgress;
use bert_finetuning::FinetuneEvent;
use bert_training::{CountingEvent, PretrainEvent};

use crate::output::progress::{Progress, print_warning};

/// The stages, in order.
#[derive(Clone, Copy, Debug)]
pub(super) enum Stage {
    Vocabulary,
    Data,
    Pretraining,
    Finetuning,
    Pages,
}

/// The titles of the stages.
const TITLES: [&str; 5] = [
    "vocabulary",
    "pre-training data",
    "pre-training",
    "fine-tuning with and without the pre-training",
    "pages",
];

/// Typical milliseconds of the initial weights, of a pre-training step with its part of the evaluations, and of the
/// fine-tuning of a seed. Only their ratios matter.
const INITIAL_WEIGHTS: u64 = 5000;
const STEP: u64 = 30;
const SEED: u64 = 3000;

/// Progress display of all stages.
pub(super) struct StageProgress {
    progress: Progress,
    steps: u64,
    seeds: u64,
    stage: Stage,
    /// Number of seeds that are finished or in progress, of both fine-tunings together.
    tunings_begun: u64,
}

impl StageProgress {
    /// Creates the display for this number of pre-training steps and of seeds for each of the two fine-tunings.
    pub(super) fn new(steps: u64, seeds: u64, quiet: bool) -> Self {
        let stage = Stage::Vocabulary;
        let progress = Progress::percent("quickstart", 0, quiet);
        let mut new = Self { progress, steps, seeds, stage, tunings_begun: 0 };
        new.progress.set_total(new.costs().iter().sum());
        new
    }

    /// Returns the typical milliseconds of each stage.
    fn costs(&self) -> [u64; 5] {
        [500, 1500, INITIAL_WEIGHTS + self.steps * STEP, 2 * self.seeds * SEED, 1000]
    }

    /// Shows that a stage begins.
    pub(super) fn begin(&mut self, stage: Stage) {
        self.stage = stage;
        let number = stage as usize + 1;
        self.progress.line(&format!("{number}/{} {}", TITLES.len(), TITLES[stage as usize]));
        self.set(0, "");
    }

    /// Sets the progress within the current stage to `done` typical milliseconds.
    fn set(&mut self, done: u64, message: &str) {
        let costs = self.costs();
        let stage = self.stage as usize;
        self.progress.set(costs[..stage].iter().sum::<u64>() + done.min(costs[stage]), message);
    }

    /// Shows the progress of a build.
    pub(super) fn build(&mut self, at: BuildProgress) {
        self.set(self.costs()[Stage::Data as usize] * at.done / at.total.max(1), "");
    }

    /// Shows an event of the pre-training.
    pub(super) fn pretrain(&mut self, event: &PretrainEvent) {
        match event {
            PretrainEvent::Step { metrics, .. } => {
                let message = format!("step {} of {}, loss {:.3}", metrics.step, self.steps, metrics.loss);
                self.set(INITIAL_WEIGHTS + metrics.step * STEP, &message);
            }
            PretrainEvent::Evaluated { step, evaluation } => self.progress.line(&format!(
                "    step {step}: masked LM loss {:.3} on held-out text",
                evaluation.masked_lm_loss
            )),
            PretrainEvent::Counting(CountingEvent::Progress(share)) => {
                self.set((INITIAL_WEIGHTS as f64 * share) as u64, "initial weights");
            }
            PretrainEvent::Warning(text) | PretrainEvent::Counting(CountingEvent::Warning(text)) => {
                print_warning(text);
            }
            _ => {}
        }
    }

    /// Shows an event of a fine-tuning.
    pub(super) fn finetune(&mut self, event: &FinetuneEvent) {
        match event {
            FinetuneEvent::Step { seed, step, steps, loss, .. } => {
                self.tunings_begun += u64::from(*step == 1);
                let finished = self.tunings_begun.saturating_sub(1);
                let message = format!("seed {seed}, step {step} of {steps}, loss {loss:.3}");
                self.set(finished * SEED + SEED * step / steps, &message);
            }
            FinetuneEvent::Warning(text) => print_warning(text),
            _ => {}
        }
    }
}
