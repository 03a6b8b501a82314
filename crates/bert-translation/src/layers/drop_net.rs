//! Drop-net (Zhu et al., 2020, equation 8): in training, a layer sometimes uses one of its two attentions alone.

use bert_model::Mode;
use bert_random::{Domain, Random, Stream};

/// The attentions that a fused layer uses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Branches {
    /// The mean of both.
    Both,
    /// Attention to the Transformer's own states alone.
    Ordinary,
    /// Attention to BERT alone.
    Bert,
}

impl Branches {
    /// Draws the attentions of a layer: each one alone with probability `drop_net_prob / 2`, otherwise both. In
    /// evaluation mode, a layer always uses both.
    ///
    /// The draw depends on the seed of the step and on `layer`, so it is the same for all micro-batches of a step.
    /// Encoder and decoder number their layers together.
    pub fn draw(drop_net_prob: f64, mode: Mode, layer: usize) -> Self {
        let Mode::Train { seed, .. } = mode else { return Self::Both };
        let draw = Stream::new(seed, Domain::DropNet, &[layer as u64]).unit();
        match draw {
            draw if draw < drop_net_prob / 2.0 => Self::Ordinary,
            draw if draw >= 1.0 - drop_net_prob / 2.0 => Self::Bert,
            _ => Self::Both,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn counts(drop_net_prob: f64, mode: impl Fn(u64) -> Mode) -> [f64; 3] {
        let mut counts = [0.0; 3];
        for draw in 0..40_000u64 {
            let at = match Branches::draw(drop_net_prob, mode(draw / 4), (draw % 4) as usize) {
                Branches::Both => 0,
                Branches::Ordinary => 1,
                Branches::Bert => 2,
            };
            counts[at] += 1.0;
        }
        counts
    }

    #[test]
    fn three_cases_have_their_probabilities() {
        for p in [0.0, 0.3, 1.0] {
            let counts = counts(p, Mode::train);
            for (count, expected) in counts.into_iter().zip([1.0 - p, p / 2.0, p / 2.0]) {
                let sigma = (40_000.0 * expected * (1.0 - expected)).sqrt();
                assert!((count - 40_000.0 * expected).abs() <= 5.0 * sigma, "{p}: {counts:?}");
            }
        }
    }

    #[test]
    fn evaluation_always_uses_both() {
        assert_eq!(counts(1.0, |_| Mode::Eval), [40_000.0, 0.0, 0.0]);
    }

    #[test]
    fn micro_batches_share_their_draws() {
        let draws = |mode: Mode| (0..64).map(|layer| Branches::draw(1.0, mode, layer)).collect::<Vec<_>>();
        assert_eq!(draws(Mode::train(3)), draws(Mode::train(3).from_sequence(1 << 32)));
        assert_ne!(draws(Mode::train(3)), draws(Mode::train(4)));
    }
}
