//! Detects a diverged training run: its loss rose far above its earlier minimum.
//!
//! The mean loss of the last `WINDOW` steps is compared with the lowest such mean. A rise counts if it exceeds the
//! noise expected from the number of targets in the steps.

use std::collections::VecDeque;

/// Number of steps over which the loss is averaged.
const WINDOW: usize = 20;
/// A rise in nats that is large for any batch size.
const RISE: f64 = 1.0;
/// Five standard deviations of the loss of one target, in nats. The standard deviation for a masked token is about 2.5.
const NOISE_OF_TARGET: f64 = 5.0 * 2.5;

/// A rise of the training loss.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Rise {
    /// The step at which it was detected.
    pub step: u64,
    /// The lowest mean loss before it.
    pub lowest: f64,
    /// The mean loss at that step.
    pub now: f64,
}

/// The mean loss of a window of steps, and its statistical uncertainty.
#[derive(Clone, Copy, Debug)]
struct Level {
    mean: f64,
    noise: f64,
}

/// A detector of divergence, fed with the loss of every step.
#[derive(Clone, Debug, Default)]
pub struct Divergence {
    /// Loss and number of targets of the last steps.
    recent: VecDeque<(f64, u64)>,
    lowest: Option<Level>,
    rise: Option<Rise>,
}

impl Divergence {
    /// Adds the loss of a step over `targets` targets; returns the rise if this step is the first to show it. Steps
    /// without a finite loss are ignored.
    pub fn add(&mut self, step: u64, loss: f64, targets: u64) -> Option<Rise> {
        if !loss.is_finite() || targets == 0 {
            return None;
        }
        if self.recent.len() == WINDOW {
            self.recent.pop_front();
        }
        self.recent.push_back((loss, targets));
        let now = self.level();
        let lowest = *self.lowest.get_or_insert(now);
        if now.mean + now.noise < lowest.mean + lowest.noise {
            self.lowest = Some(now);
        }
        let above = now.mean - lowest.mean - now.noise - lowest.noise;
        if self.rise.is_some() {
            // The loss has fallen again, at least half of the way.
            self.rise = self.rise.filter(|rise| now.mean > (rise.lowest + rise.now) / 2.0);
            return None;
        }
        self.rise = (above > RISE).then_some(Rise { step, lowest: lowest.mean, now: now.mean });
        self.rise
    }

    /// Returns the rise, unless the loss has recovered since.
    pub fn rise(&self) -> Option<Rise> {
        self.rise
    }

    fn level(&self) -> Level {
        let targets = self.recent.iter().map(|(_, targets)| *targets as f64).sum::<f64>();
        let sum = self.recent.iter().map(|(loss, targets)| loss * *targets as f64).sum::<f64>();
        Level { mean: sum / targets, noise: NOISE_OF_TARGET / targets.sqrt() }
    }
}

impl Rise {
    /// Describes the rise and suggests a remedy for a run with this learning rate and number of warm-up steps.
    pub fn text(&self, learning_rate: f64, warmup_steps: u64) -> String {
        let Self { step, lowest, now } = self;
        format!(
            "the run has diverged: at step {step} the mean training loss is {now:.2}, after a minimum of {lowest:.2}. \
             Use a lower `.learning_rate` (now {learning_rate}) or more `.warmup_steps` (now {warmup_steps})"
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn watch(losses: impl Iterator<Item = f64>, targets: u64) -> (Vec<u64>, Option<Rise>) {
        let mut divergence = Divergence::default();
        let found = (1..).zip(losses).filter_map(|(step, loss)| divergence.add(step, loss, targets));
        let found = found.map(|rise| rise.step).collect();
        (found, divergence.rise())
    }

    #[test]
    fn exploding_loss_is_detected_at_once() {
        let exploding = (0..60).map(|step| 9.7 * 2f64.powi(step));
        let (found, rise) = watch(exploding, 640);
        assert_eq!(found, [2]);
        assert!((rise.unwrap().lowest - 9.7).abs() < 1e-9);
    }

    #[test]
    fn noise_is_not_a_rise() {
        let noisy = |step: u64| 9.0 - step as f64 / 500.0 + if step.is_multiple_of(3) { 1.5 } else { -0.7 };
        assert_eq!(watch((0..2000).map(noisy), 20), (vec![], None));
    }

    #[test]
    fn recovered_loss_is_not_a_rise() {
        let spike = |step: u64| if (300..400).contains(&step) { 8.0 } else { 4.0 };
        let (found, rise) = watch((0..600).map(spike), 640);
        assert!(found.len() == 1 && (305..320).contains(&found[0]), "{found:?}");
        assert_eq!(rise, None);
        let stays = |step: u64| if step >= 300 { 8.0 } else { 4.0 };
        assert!(watch((0..600).map(stays), 640).1.is_some());
    }
}
