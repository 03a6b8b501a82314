//! Draws the task of each step.

use bert_random::{Domain, Random, Stream};
use serde::{Deserialize, Serialize};

/// The probability of drawing each task.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "cli", derive(clap::ValueEnum))]
#[serde(rename_all = "kebab-case")]
pub enum Sampling {
    /// Proportional to the number of examples.
    Proportional,
    /// Proportional to a power of the number of examples that falls from 1 to 0.2 over the epochs (Stickland and
    /// Murray 2019).
    Annealed,
    /// Proportional to the number of examples to the power of 1 / temperature (--temperature).
    Temperature,
}

impl Sampling {
    /// Returns the exponent of the task sizes in an epoch, counted from 0.
    fn power(self, temperature: f64, epoch: u64, epochs: u64) -> f64 {
        match self {
            Self::Proportional => 1.0,
            Self::Annealed if epochs > 1 => 1.0 - 0.8 * epoch as f64 / (epochs - 1) as f64,
            Self::Annealed => 1.0,
            Self::Temperature => 1.0 / temperature,
        }
    }
}

/// The draw of the task of each step.
#[derive(Clone, Copy, Debug)]
pub(crate) struct TaskDraw {
    pub(crate) sampling: Sampling,
    /// The temperature of [`Sampling::Temperature`].
    pub(crate) temperature: f64,
    /// Number of epochs.
    pub(crate) epochs: u64,
}

impl TaskDraw {
    /// Returns the number of the task of a step in an epoch, both counted from 0.
    pub(crate) fn task(self, sizes: &[usize], epoch: u64, seed: u64, step: u64) -> usize {
        drawn_task(sizes, self.sampling.power(self.temperature, epoch, self.epochs), seed, step)
    }
}

/// Returns the task of a step: the first whose cumulative probability exceeds the draw.
fn drawn_task(sizes: &[usize], power: f64, seed: u64, step: u64) -> usize {
    let weights: Vec<f64> = sizes.iter().map(|&size| (size as f64).powf(power)).collect();
    let mut left = Stream::new(seed, Domain::TaskOfStep, &[step]).unit() * weights.iter().sum::<f64>();
    for (task, weight) in weights.iter().enumerate() {
        left -= weight;
        if left < 0.0 {
            return task;
        }
    }
    sizes.len() - 1
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tasks_are_drawn_by_a_power_of_their_size() {
        let sizes = [9000, 1000];
        let share = |power: f64| {
            let first = (0..4000).filter(|&step| drawn_task(&sizes, power, 7, step) == 0).count();
            first as f64 / 4000.0
        };
        // Four standard errors are .02 and .032.
        assert!((share(1.0) - 0.9).abs() < 0.02, "{}", share(1.0));
        assert!((share(0.5) - 0.75).abs() < 0.03, "{}", share(0.5));
        assert!((share(0.0) - 0.5).abs() < 0.032, "{}", share(0.0));
        assert_eq!(drawn_task(&sizes, 1.0, 7, 3), drawn_task(&sizes, 1.0, 7, 3));
        let powers: Vec<f64> = (0..3).map(|epoch| Sampling::Annealed.power(2.0, epoch, 3)).collect();
        assert!(powers.iter().zip([1.0, 0.6, 0.2]).all(|(a, b)| (a - b).abs() < 1e-12), "{powers:?}");
        assert_eq!(Sampling::Temperature.power(4.0, 1, 3), 0.25);
        assert_eq!(Sampling::Annealed.power(2.0, 0, 1), 1.0);
    }
}
