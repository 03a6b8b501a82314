//! Estimates what a run costs, without creating its folder: [`dry_run`].

use std::fmt::{self, Display};
use std::time::{Duration, Instant};

use bert_data::{Layout, Manifest};
use bert_inference::StopFlag;
use bert_inference::memory::bytes_in_words;
use bert_model::BertForPreTraining;
use bert_storage::Disk;
use burn::module::Module;
use serde::Serialize;

use crate::error::Error;
use crate::evaluation::{EvaluationBatches, evaluate_in};
use crate::group::Group;
use crate::initialization::{FreshWeights, InitializationChoice};
use crate::pretrain::config::{PretrainConfig, RunLength};
use crate::pretrain::events::PretrainEvent;
use crate::pretrain::measurement::step_time::seconds_per_step;
use crate::pretrain::measurement::steps_for_budget::steps_within;
use crate::pretrain::run_settings::{RunSettings, check_output};
use crate::pretrain::setup::inputs::RunInputs;

/// Duration of the measurement of a step.
const MEASURED: Duration = Duration::from_secs(3);
/// Number of sequences in the first measured evaluation.
const FIRST_EVALUATED: u64 = 4;
/// Maximum number of batches of the second measured evaluation, and its approximate duration in seconds.
const EVALUATED_BATCHES: u64 = 8;
const EVALUATION_SECONDS: f64 = 1.0;
/// Number of bytes per parameter in a weights file.
const BYTES_PER_PARAMETER: u64 = 4;
/// Number of bytes per step in metrics.jsonl and timing.jsonl.
const BYTES_PER_STEP: u64 = 320;

/// The estimated cost of a pre-training run.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[non_exhaustive]
pub struct PretrainEstimate {
    /// Number of parameters of the model with both heads; the tied table counts once.
    pub parameters: usize,
    /// Number of optimizer steps.
    pub steps: u64,
    /// Number of sequences in a step.
    pub batch_size: usize,
    /// Floating-point operations of the matrix products of a step, if every sequence has the maximum length.
    pub flops_per_step: f64,
    /// Duration of a step of this group at the present load: measured, or extrapolated from parts of it if it is long.
    pub seconds_per_step: f64,
    /// Number of evaluations on held-out data.
    pub evaluations: u64,
    /// Duration of an evaluation; 0 without held-out data.
    pub seconds_per_evaluation: f64,
    /// Duration of all steps and evaluations. The initial weights and the writing of checkpoints are not included.
    pub seconds: f64,
    /// Estimated memory of a step in bytes, of the process or of the GPU.
    pub memory: u64,
    /// Size of a checkpoint in bytes: the weights and the optimizer's states.
    pub checkpoint_bytes: u64,
    /// Maximum size of the run's folder in bytes.
    pub disk: u64,
    /// Number of instances in the data folder; for stored documents, in one pass.
    pub instances: u64,
    /// Number of times that the run reads each instance.
    pub epochs: f64,
    /// Number of passes over the text: the epochs times the `dupe_factor` of the data.
    pub passes_over_text: f64,
}

/// Estimates a run of a group, on all its ranks. Opens the data and the model, and measures a few steps or parts of
/// them and a few batches of an evaluation with weights that are discarded. The output folder is checked as for a new
/// run, but not created.
///
/// # Errors
/// Fails as a new run does, or when a stop is requested.
pub fn dry_run(
    config: &PretrainConfig,
    group: &mut Group,
    stop: &StopFlag,
    on_event: &mut dyn FnMut(PretrainEvent),
) -> Result<PretrainEstimate, Error> {
    let is_first = group.is_first();
    let on_event = &mut |event| {
        if is_first {
            on_event(event);
        }
    };
    let mut config = config.clone();
    let found = check_output(&Disk, &config, group, false).and_then(|()| config.find_held_out(on_event));
    group.agree(found)?;
    let settings = RunSettings::open(&config, group, false)?;
    let config = &settings.config;
    let inputs = RunInputs::open(config, group, on_event);
    let mut inputs = group.agree(inputs)?;
    on_event(PretrainEvent::Measuring);
    // The time of a step does not depend on the weights. Therefore, the dry run does not compute the bigram counts for
    // the initial weights.
    let fresh = FreshWeights::uncounted(InitializationChoice::Reference)?;
    let model = inputs.model(None, Some(&fresh), stop, on_event);
    let model = group.agree(model)?;
    let (model, seconds_per_step) = seconds_per_step(&inputs, group, model, MEASURED, stop)?;
    let seconds_per_evaluation = seconds_per_evaluation(&mut inputs, group, &model, stop)?;
    let every = config.evaluation_interval();
    let steps = match config.length()? {
        RunLength::Steps(steps) => steps,
        RunLength::Budget(budget) => {
            let evaluation = seconds_per_evaluation / every as f64;
            steps_within(budget.0.as_secs_f64() - seconds_per_evaluation, seconds_per_step + evaluation)
        }
    };
    // The run evaluates before the first step, at every multiple of `every`, and at the end.
    let evaluations = if config.eval_data.is_some() { 1 + steps.div_ceil(every) } else { 0 };
    let parameters = inputs.model_config().pretraining_parameter_count();
    let state_bytes = config.optimizer().update_rule().bytes_per_element() as u64;
    let checkpoint_bytes = (BYTES_PER_PARAMETER + state_bytes) * parameters as u64;
    let manifest = inputs.manifest();
    let samples = steps as f64 * config.batch_size as f64 * config.data.shares()[0];
    let epochs = samples / manifest.instances as f64;
    Ok(PretrainEstimate {
        parameters,
        steps,
        batch_size: config.batch_size,
        flops_per_step: config.batch_size as f64 * inputs.work.flops_per_sequence,
        seconds_per_step,
        evaluations,
        seconds_per_evaluation,
        seconds: steps as f64 * seconds_per_step + evaluations as f64 * seconds_per_evaluation,
        memory: inputs.memory,
        checkpoint_bytes,
        disk: disk(config, steps, checkpoint_bytes),
        instances: manifest.instances,
        epochs,
        passes_over_text: epochs * passes_in_an_epoch(manifest) as f64,
    })
}

/// Returns the number of passes over the text that the builder made for the instances of an epoch.
fn passes_in_an_epoch(manifest: &Manifest) -> usize {
    match manifest.config.layout {
        Layout::Documents => 1,
        Layout::Instances => manifest.config.dupe_factor,
    }
}

/// Returns the maximum size of the run's folder in bytes. A new checkpoint is written before an old one is
/// deleted.
fn disk(config: &PretrainConfig, steps: u64, checkpoint: u64) -> u64 {
    let written = steps.div_ceil(config.save_every);
    let kept = config.keep_checkpoints.max(config.average_last.unwrap_or(0)) as u64;
    let models = u64::from(config.keep_best) + u64::from(config.average_last.is_some());
    written.min(kept + 1) * checkpoint + models * checkpoint / 3 + steps * BYTES_PER_STEP
}

/// Returns the duration of an evaluation in seconds, estimated from a few of its sequences.
fn seconds_per_evaluation(
    inputs: &mut RunInputs<'_>,
    group: &mut Group,
    model: &BertForPreTraining,
    stop: &StopFlag,
) -> Result<f64, Error> {
    let config = inputs.config;
    let Some(first) = inputs.eval_sets.first_mut() else { return Ok(0.0) };
    let loader = &mut first.loader;
    let all = loader.rows().min(config.eval_instances.unwrap_or(u64::MAX));
    let largest = config.largest_micro_batch() as u64;
    let model = model.valid();
    let mut seconds_per_row = |group: &mut Group, rows: u64| {
        let started = Instant::now();
        let batches = EvaluationBatches { size: largest.min(rows) as usize, limit: Some(rows) };
        evaluate_in(group, &model, loader, batches, stop)?;
        Ok::<f64, Error>(started.elapsed().as_secs_f64() / rows as f64)
    };
    let few = all.min(FIRST_EVALUATED);
    let first = seconds_per_row(group, few)?;
    let rows = ((EVALUATION_SECONDS / first) as u64).min(EVALUATED_BATCHES * largest).clamp(few, all);
    let rows = group.value_of_first(Some(rows))?;
    let seconds = seconds_per_row(group, rows)?;
    let limit = config.eval_instances.unwrap_or(u64::MAX);
    let all: u64 = inputs.eval_sets.iter().map(|set| set.loader.rows().min(limit)).sum();
    Ok(seconds * all as f64)
}

impl Display for PretrainEstimate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let time = |seconds: f64| {
            let rounded = if seconds < 60.0 { (10.0 * seconds).round() / 10.0 } else { seconds.round() };
            humantime::format_duration(Duration::from_secs_f64(rounded)).to_string()
        };
        let mut line = |name: &str, value: &dyn Display| writeln!(f, "{name:<28}{value}");
        line("parameters", &format!("{:.2} M", self.parameters as f64 / 1e6))?;
        line("steps", &format!("{} of {} sequences", self.steps, self.batch_size))?;
        line("FLOPs per step, at most", &format!("{:.3e}", self.flops_per_step))?;
        line("time per step, about", &format!("{:.3} s", self.seconds_per_step))?;
        if self.evaluations > 0 {
            let each = time(self.seconds_per_evaluation);
            line("evaluations, about", &format!("{} of {each} each", self.evaluations))?;
        }
        line("time, about", &time(self.seconds))?;
        line("memory, about", &bytes_in_words(self.memory))?;
        line("checkpoint, about", &bytes_in_words(self.checkpoint_bytes))?;
        line("size on disk, at most", &bytes_in_words(self.disk))?;
        line("instances", &self.instances)?;
        line("epochs", &format!("{:.2}", self.epochs))?;
        line("passes over the text", &format!("{:.2}", self.passes_over_text))
    }
}
