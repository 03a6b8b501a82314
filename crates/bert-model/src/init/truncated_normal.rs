//! The reference's initialization: truncated normal for tables and matrices, zeros for biases, 1 and 0 for LayerNorm.
//!
//! Ports `create_initializer` of the reference's `modeling.py` (`truncated_normal_initializer(0.02)`). Each parameter
//! is a pure function of the seed and its published name. `bert_random` draws the values, so they are not TensorFlow's.
//! Weights whose name begins with `head.` belong to feature heads, which the reference does not have, and are uniform
//! within `1 / sqrt(inputs)`.

use bert_random::{normal_within, uniform};

/// Returns the values of the parameter with this canonical name, in the published layout.
pub(super) fn values(name: &str, shape: &[usize], std: f64, seed: u64) -> Vec<f32> {
    let len = shape.iter().product();
    if shape.len() >= 2 && name.starts_with("head.") {
        uniform(name, len, 1.0 / (shape[1] as f64).sqrt(), seed)
    } else if shape.len() >= 2 {
        // `std` is the standard deviation before truncation at two standard deviations.
        normal_within(name, len, std, 2.0, seed)
    } else if name.ends_with("LayerNorm.weight") {
        vec![1.0; len]
    } else {
        vec![0.0; len]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Number of values per random stream.
    const CHUNK: usize = 1 << 16;

    #[test]
    fn truncated_normal_moments_are_within_five_sigma() {
        let n = 1_000_000;
        let values = values("a.weight", &[1000, 1000], 0.02, 3);
        assert!(values.iter().all(|v| v.abs() <= 0.04));
        let mean = values.iter().map(|v| f64::from(*v)).sum::<f64>() / n as f64;
        let variance = values.iter().map(|v| f64::from(*v).powi(2)).sum::<f64>() / n as f64;
        // Variance of a standard normal cut at +-2: 1 - 4 phi(2) / (2 Phi(2) - 1) = 0.7737413.
        let expected = 0.02 * 0.773_741_3_f64.sqrt();
        assert!(mean.abs() < 5.0 * expected / (n as f64).sqrt(), "{mean}");
        let relative = (variance.sqrt() / expected - 1.0).abs();
        assert!(relative < 5.0 / (2.0 * n as f64).sqrt(), "{}", variance.sqrt());
        assert!((expected - 0.0176).abs() < 1e-4);
    }

    #[test]
    fn values_depend_on_seed_and_name_only() {
        let draw = |name, seed| values(name, &[300, 300], 0.02, seed);
        let a = draw("bert.pooler.dense.weight", 1);
        assert_eq!(a, draw("bert.pooler.dense.weight", 1));
        assert_ne!(a, draw("bert.pooler.dense.weight", 2));
        assert_ne!(a, draw("bert.other.dense.weight", 1));
        // The second chunk does not repeat the first.
        assert_ne!(a[..100], a[CHUNK..CHUNK + 100]);
    }

    #[test]
    fn layer_norm_is_one_and_biases_zero() {
        let draw = |name| values(name, &[3], 0.02, 1);
        assert_eq!(draw("x.LayerNorm.weight"), [1.0; 3]);
        assert_eq!(draw("x.LayerNorm.bias"), [0.0; 3]);
        assert_eq!(draw("x.dense.bias"), [0.0; 3]);
    }
}
