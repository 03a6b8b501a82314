//! Takes the mean of the weights of a run's last checkpoints.
//!
//! The mean of weights from the end of a schedule lies in a flatter place than the last of them: stochastic weight
//! averaging (Izmailov et al., 2018, arXiv 1803.05407), over checkpoints as in LAWA (Kaddour, 2022, arXiv 2209.14981).

use bert_model::{NamedTensors, WEIGHTS, read_safetensors};

use crate::checkpoint::{CheckpointFolder, verify};
use crate::error::Error;

/// The mean of the last checkpoints at multiples of `every`, and at `end`; with their steps. Checkpoints that a signal
/// asked for do not count, so a run that was interrupted has the mean of one that was not.
pub(super) fn average_last(
    checkpoints: &CheckpointFolder<'_>,
    last: usize,
    every: u64,
    end: u64,
    warn: &mut dyn FnMut(String),
) -> Result<(Vec<u64>, NamedTensors), Error> {
    let regular = |step: &u64| step.is_multiple_of(every) || *step == end;
    let steps: Vec<u64> = checkpoints.steps().into_iter().filter(regular).collect();
    let mut steps = steps[steps.len().saturating_sub(last)..].to_vec();
    steps.retain(|&step| match verify(&checkpoints.path(step)) {
        Ok(_) => true,
        Err(error) => {
            warn(format!("{error}; the average is made without it"));
            false
        }
    });
    let mut sums = NamedTensors::default();
    for &step in &steps {
        for (name, (shape, values)) in read_safetensors(&checkpoints.path(step).join(WEIGHTS))? {
            let (_, sum) = sums.entry(name).or_insert_with(|| (shape, vec![0.0; values.len()]));
            sum.iter_mut().zip(values).for_each(|(sum, value)| *sum += value);
        }
    }
    let share = 1.0 / steps.len() as f32;
    sums.values_mut().for_each(|(_, sum)| sum.iter_mut().for_each(|value| *value *= share));
    Ok((steps, sums))
}
