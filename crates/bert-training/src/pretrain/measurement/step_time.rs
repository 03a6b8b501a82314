//! Measures the duration of a step within a given time, however large the step is.
//!
//! If a few whole steps take too long, steps of one and of two micro-batches with a few sequences are measured instead.
//! The difference between their durations is the time of a micro-batch, which is proportional to its number of
//! sequences; the rest is the time of an update.

use std::time::{Duration, Instant};

use bert_inference::StopFlag;
use bert_model::BertForPreTraining;
use serde::{Deserialize, Serialize};

use crate::error::{Error, check_stop};
use crate::group::Group;
use crate::optimizer::Optimizer;
use crate::pretrain::config::BatchShape;
use crate::pretrain::setup::inputs::RunInputs;
use crate::pretrain::step_runner::StepRunner;

/// Number of warm-up steps before whole steps are measured: the first ones allocate memory from the system.
const WARMUP_STEPS: u64 = 2;
/// Minimum number of whole steps that are measured.
const MIN_STEPS: u64 = 3;
/// Number of sequences in the first micro-batch.
const FIRST_ROWS: usize = 2;
/// Number of steps of one and of two micro-batches: one to warm up, then two.
const PART_STEPS: u64 = 3;

/// The measured part of a step.
#[derive(Clone, Copy, Serialize, Deserialize)]
struct Part {
    /// Number of micro-batches of each rank.
    micro_batches: usize,
    /// Number of sequences in a micro-batch.
    rows: usize,
}

/// The number and time of measured steps.
#[derive(Clone, Copy)]
struct Schedule {
    warmup: u64,
    least: u64,
    until: Instant,
}

/// A temporary model and its optimizer.
struct Trial<'a, 'b> {
    inputs: &'a RunInputs<'b>,
    group: &'a mut Group,
    stop: &'a StopFlag,
    optimizer: Optimizer,
}

/// Runs steps on a temporary model for about `limit`, on all ranks. Returns the model and the duration of a step of
/// rank 0 in seconds, measured or, if steps are long, extrapolated.
///
/// # Errors
/// Fails when a batch cannot be read or a rank is lost, or when a stop is requested.
pub(super) fn seconds_per_step(
    inputs: &RunInputs<'_>,
    group: &mut Group,
    model: BertForPreTraining,
    limit: Duration,
    stop: &StopFlag,
) -> Result<(BertForPreTraining, f64), Error> {
    let deadline = Instant::now() + limit;
    let optimizer = inputs.optimizer(&model).sharded(group.rank(), group.ranks());
    let whole = Part {
        micro_batches: inputs.config.micro_batches() / group.ranks(),
        rows: inputs.config.largest_micro_batch(),
    };
    let mut trial = Trial { inputs, group, stop, optimizer };
    let first = Part { micro_batches: 1, rows: whole.rows.min(FIRST_ROWS) };
    let once = Schedule { warmup: 1, least: 1, until: Instant::now() };
    let (model, seconds) = trial.seconds(model, first, once)?;
    let a_row = seconds / first.rows as f64;
    let left = deadline.saturating_duration_since(Instant::now()).as_secs_f64();
    let all = (WARMUP_STEPS + MIN_STEPS) as f64 * a_row * (whole.rows * whole.micro_batches) as f64;
    if trial.group.value_of_first(Some(all <= left))? {
        let schedule = Schedule { warmup: WARMUP_STEPS, least: MIN_STEPS, until: deadline };
        return trial.seconds(model, whole, schedule);
    }
    let rows = (left / (a_row * (PART_STEPS * 3) as f64)) as usize;
    let rows = trial.group.value_of_first(Some(rows.clamp(first.rows, whole.rows)))?;
    let few = Schedule { warmup: 1, least: PART_STEPS - 1, until: Instant::now() };
    let (model, one) = trial.seconds(model, Part { micro_batches: 1, rows }, few)?;
    let (model, two) = trial.seconds(model, Part { micro_batches: 2, rows }, few)?;
    Ok((model, whole_step(one, two, rows, whole)))
}

/// Returns the duration of a step, given the durations of one and two micro-batches of `rows` sequences.
fn whole_step(one: f64, two: f64, rows: usize, whole: Part) -> f64 {
    // The bounds keep the difference positive even if another program ran during the first measurement.
    let part = (two - one).clamp(0.1 * one, one);
    part * (whole.rows * whole.micro_batches) as f64 / rows as f64 + (one - part)
}

impl Trial<'_, '_> {
    /// Returns the model and the mean duration of a step of this part, in seconds.
    fn seconds(
        &mut self,
        mut model: BertForPreTraining,
        part: Part,
        schedule: Schedule,
    ) -> Result<(BertForPreTraining, f64), Error> {
        let micro_batches = part.micro_batches * self.group.ranks();
        let shape = BatchShape { sequences: micro_batches * part.rows, micro_batches };
        let steps = 0..u64::MAX / shape.sequences as u64;
        let runner = StepRunner::start(self.inputs, self.group, shape, steps, None);
        let mut runner = self.group.agree(runner)?;
        let mut started = Instant::now();
        for step in 0.. {
            if step == schedule.warmup {
                started = Instant::now();
            }
            let measured = u64::saturating_sub(step, schedule.warmup);
            self.group.agree(check_stop(self.stop))?;
            let is_enough = measured >= schedule.least && Instant::now() >= schedule.until;
            if self.group.value_of_first(Some(is_enough))? {
                let seconds = started.elapsed().as_secs_f64() / measured as f64;
                return Ok((model, self.group.value_of_first(Some(seconds))?));
            }
            // With a learning rate of zero the weights stay finite whatever the settings.
            model = runner.run(self.group, model, &mut self.optimizer, 0.0)?.0;
        }
        unreachable!("the steps end at the limit")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_steps_are_extrapolated_from_their_parts() {
        let whole = Part { micro_batches: 16, rows: 32 };
        // 0.5 s for 8 sequences and 0.25 s for an update.
        assert_eq!(whole_step(0.75, 1.25, 8, whole), 0.25 + 16.0 * 4.0 * 0.5);
        // Another program ran during one of the measurements.
        assert_eq!(whole_step(1.0, 0.9, 8, whole), 0.9 + 64.0 * 0.1);
        assert_eq!(whole_step(1.0, 5.0, 32, Part { micro_batches: 1, rows: 32 }), 1.0);
    }
}
