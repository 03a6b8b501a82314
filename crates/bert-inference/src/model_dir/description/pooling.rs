//! Computes one vector from the vectors of a text's tokens.

use serde::{Deserialize, Serialize};

/// The method that computes one vector from the vectors of a text's tokens.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "cli", derive(clap::ValueEnum))]
#[serde(rename_all = "snake_case")]
pub enum Pooling {
    /// The mean over all tokens, `[CLS]` and `[SEP]` included, as in sentence-transformers.
    Mean,
    /// The vector of `[CLS]`.
    Cls,
}

impl Pooling {
    /// Returns one vector for `vectors`, which have this width and are stored one after the other. Divides the result
    /// by its Euclidean norm if `normalize` is true.
    pub(crate) fn pooled(self, vectors: &[f32], width: usize, normalize: bool) -> Vec<f32> {
        let mut pooled = vectors[..width].to_vec();
        if self == Self::Mean {
            for row in vectors[width..].chunks_exact(width) {
                pooled.iter_mut().zip(row).for_each(|(sum, value)| *sum += value);
            }
            let count = (vectors.len() / width) as f32;
            pooled.iter_mut().for_each(|sum| *sum /= count);
        }
        if normalize {
            // PyTorch has the same smallest divisor.
            let norm = pooled.iter().map(|value| value * value).sum::<f32>().sqrt().max(1e-12);
            pooled.iter_mut().for_each(|value| *value /= norm);
        }
        pooled
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pooling_takes_the_mean_or_the_first() {
        let vectors = [1.0, 2.0, 3.0, 6.0, 5.0, 1.0];
        assert_eq!(Pooling::Mean.pooled(&vectors, 2, false), [3.0, 3.0]);
        assert_eq!(Pooling::Cls.pooled(&vectors, 2, false), [1.0, 2.0]);
        assert_eq!(Pooling::Cls.pooled(&[3.0, -4.0], 2, true), [0.6, -0.8]);
        assert_eq!(Pooling::Cls.pooled(&[0.0, 0.0], 2, true), [0.0, 0.0]);
    }
}
