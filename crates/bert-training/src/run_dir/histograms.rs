//! Counts the values of a checkpoint's tensors, for the histograms of a log.

use std::path::Path;

use bert_inference::checkpoint::read_optimizer_tensors;
use bert_model::read_pretrained_tensors;

use crate::error::Error;

/// Number of intervals of a histogram.
const INTERVALS: usize = 40;

/// The distribution of the values of a tensor.
#[derive(Clone, Debug, PartialEq)]
pub struct Histogram {
    /// `weights/NAME`, or `mean_gradients/NAME` for the first moments of the optimizer.
    pub name: String,
    /// Smallest value.
    pub min: f64,
    /// Largest value.
    pub max: f64,
    /// Number of finite values.
    pub count: u64,
    /// Sum of the values.
    pub sum: f64,
    /// Sum of their squares.
    pub sum_of_squares: f64,
    /// Upper ends of intervals of equal width.
    pub limits: Vec<f64>,
    /// Number of values in each interval.
    pub counts: Vec<u64>,
}

impl Histogram {
    /// Counts the finite values of a tensor; returns `None` if there is none.
    fn new(name: String, values: &[f32]) -> Option<Self> {
        let finite = || values.iter().copied().filter(|x| x.is_finite()).map(f64::from);
        let (min, max) = finite().fold((f64::INFINITY, f64::NEG_INFINITY), |(a, b), x| (a.min(x), b.max(x)));
        if min > max {
            return None;
        }
        let width = ((max - min) / INTERVALS as f64).max(f64::MIN_POSITIVE);
        let mut counts = vec![0; INTERVALS];
        finite().for_each(|x| counts[(((x - min) / width) as usize).min(INTERVALS - 1)] += 1);
        Some(Self {
            name,
            min,
            max,
            count: finite().count() as u64,
            sum: finite().sum(),
            sum_of_squares: finite().map(|x| x * x).sum(),
            limits: (1..=INTERVALS).map(|at| min + width * at as f64).collect(),
            counts,
        })
    }
}

/// Returns the histograms of the weights of a checkpoint, and of the first moments of its optimizer, which are moving
/// averages of the gradients.
///
/// # Errors
/// Fails when the checkpoint cannot be read.
pub fn checkpoint_histograms(checkpoint: &Path) -> Result<Vec<Histogram>, Error> {
    let weights = read_pretrained_tensors(checkpoint)?;
    let weights =
        weights.iter().filter_map(|(name, (_, values))| Histogram::new(format!("weights/{name}"), values));
    let moments = read_optimizer_tensors(checkpoint)?;
    let moments = moments.iter().filter_map(|(name, values)| {
        Histogram::new(format!("mean_gradients/{}", name.strip_prefix("first.")?), values)
    });
    Ok(weights.chain(moments).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_counted_in_equal_intervals() {
        let values: Vec<f32> = (0..=40).map(|x| x as f32).chain([f32::NAN]).collect();
        let histogram = Histogram::new("a".into(), &values).unwrap();
        assert_eq!((histogram.min, histogram.max, histogram.count, histogram.sum), (0.0, 40.0, 41, 820.0));
        assert_eq!(histogram.counts.iter().sum::<u64>(), 41);
        assert_eq!((histogram.counts[0], histogram.counts[39]), (1, 2), "the largest value is in the last");
        assert_eq!(histogram.limits[39], 40.0);
        let equal = Histogram::new("b".into(), &[3.0; 5]).unwrap();
        assert_eq!((equal.count, equal.counts[0]), (5, 5));
        assert_eq!(Histogram::new("c".into(), &[f32::NAN]), None);
    }
}
