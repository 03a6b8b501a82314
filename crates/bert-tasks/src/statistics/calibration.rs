//! Measures the calibration of a classifier: the reliability diagram and the expected calibration error of Guo et al.,
//! On Calibration of Modern Neural Networks (2017), section 2.

use serde::{Deserialize, Serialize};

use crate::Label;

/// Number of confidence bins of equal width, as in Guo et al.
const BINS: usize = 15;

/// A bin of examples with similar confidence.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Bin {
    /// Number of examples.
    pub examples: usize,
    /// Mean confidence: the probability of the predicted class.
    pub confidence: f64,
    /// Fraction of correct predictions.
    pub accuracy: f64,
}

/// The calibration of a classifier.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Calibration {
    /// Expected calibration error: the mean over the examples of the absolute difference between the accuracy and the
    /// confidence of their bin.
    pub expected_error: f64,
    /// The non-empty bins, lowest confidence first.
    pub bins: Vec<Bin>,
}

/// Returns the calibration of answers with these class probabilities; `None` for a regression.
///
/// # Panics
/// Panics if the numbers of answers, rows and labels differ.
pub fn calibration(labels: &[Label], answers: &[Label], rows: &[Vec<f32>]) -> Option<Calibration> {
    assert!(labels.len() == answers.len() && labels.len() == rows.len(), "one answer for each label");
    // Confidence and accuracy are sums until they are divided by the number of examples.
    let mut bins = vec![Bin { examples: 0, confidence: 0.0, accuracy: 0.0 }; BINS];
    for ((label, answer), row) in labels.iter().zip(answers).zip(rows) {
        let Label::Class(class) = *answer else { return None };
        let confidence = f64::from(row[class]);
        let bin = &mut bins[((confidence * BINS as f64).ceil() as usize).clamp(1, BINS) - 1];
        bin.examples += 1;
        bin.confidence += confidence;
        bin.accuracy += f64::from(answer == label);
    }
    bins.retain(|bin| bin.examples > 0);
    for bin in &mut bins {
        bin.confidence /= bin.examples as f64;
        bin.accuracy /= bin.examples as f64;
    }
    let error = |bin: &Bin| bin.examples as f64 * (bin.accuracy - bin.confidence).abs();
    let expected_error = bins.iter().map(error).sum::<f64>() / labels.len() as f64;
    Some(Calibration { expected_error, bins })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Computed by hand: confidences .55 and .65 are in the bins up to .6 and .667, .9 (twice) in the bin up to .933.
    #[test]
    fn expected_calibration_error_by_hand() {
        let class = |of: [usize; 4]| of.map(Label::Class).to_vec();
        let rows = [[0.45, 0.55], [0.35, 0.65], [0.9, 0.1], [0.9, 0.1]].map(|row: [f32; 2]| row.to_vec());
        let found = calibration(&class([1, 0, 0, 1]), &class([1, 1, 0, 0]), &rows).unwrap();
        let figures: Vec<(usize, f64)> = found.bins.iter().map(|bin| (bin.examples, bin.accuracy)).collect();
        assert_eq!(figures, [(1, 1.0), (1, 0.0), (2, 0.5)]);
        // (1 * .45 + 1 * .65 + 2 * .4) / 4
        assert!((found.expected_error - 0.475).abs() < 1e-6, "{found:?}");
        assert_eq!(calibration(&[Label::Score(1.0)], &[Label::Score(1.0)], &[vec![1.0]]), None);
    }

    #[test]
    fn confidences_0_and_1_have_bins() {
        let rows = [vec![1.0, 0.0], vec![0.0, 1.0]];
        let answers = [Label::Class(0), Label::Class(0)];
        let found = calibration(&[Label::Class(0), Label::Class(0)], &answers, &rows).unwrap();
        assert_eq!(found.bins.len(), 2);
        assert_eq!((found.bins[0].confidence, found.bins[1].confidence), (0.0, 1.0));
        assert_eq!(found.expected_error, 0.5);
    }
}
