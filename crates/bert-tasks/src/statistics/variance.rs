//! Splits the variance of a mean score, or of the difference of two, into the parts of the seeds and of the examples.
//!
//! Seeds and examples are random samples, and every run answers all examples. In such a crossed design, the variance of
//! a score has three components: the run, the example, and their interaction (Searle, Casella and McCulloch, Variance
//! Components, chapter 4). The variance between the runs' scores and the variance between the examples both contain the
//! interaction, so it is subtracted once. Hillis et al. (Statistics in Medicine 27, 2008) use this sum for readers and
//! cases in radiology.
//!
//! A metric that is not a mean over examples, such as F1, is divided into pseudo-values of the jackknife.

use statrs::distribution::{ContinuousCDF, StudentsT};

use crate::score::metrics::WeightedMetric;

/// Confidence level.
pub(super) const LEVEL: f64 = 0.95;

/// Maximum number of groups of examples that the jackknife leaves out; with fewer examples, each is a group.
const MAX_GROUPS: usize = 1000;

/// The scores of some runs, and their deviations for every group of examples.
pub(super) struct RunScores {
    /// The score of each run.
    pub(super) values: Vec<f64>,
    /// The deviations of the pseudo-values from their mean, for each run and group. The mean of their squares over the
    /// groups is the variance of the run's score due to the choice of examples.
    deviations: Vec<Vec<f64>>,
}

/// Returns the deviations of a metric that is the mean of these values.
fn mean_deviations(mut values: Vec<f64>) -> Vec<f64> {
    let examples = values.len() as f64;
    let mean = values.iter().sum::<f64>() / examples;
    let scale = (examples - 1.0).max(1.0).sqrt();
    values.iter_mut().for_each(|value| *value = (*value - mean) / scale);
    values
}

/// Returns the deviations of any metric, by leaving out each group of examples; all `weights` are 1, before and after
/// the call.
fn jackknife(run: &WeightedMetric, weights: &mut [u32]) -> Vec<f64> {
    let examples = weights.len();
    let groups = examples.min(MAX_GROUPS);
    let whole = run.value(weights);
    let deviation = |group| {
        let members = group * examples / groups..(group + 1) * examples / groups;
        let parts = examples as f64 / members.len() as f64;
        weights[members.clone()].fill(0);
        // With one group, nothing is left to score.
        let rest = if groups > 1 { run.value(weights) } else { whole };
        weights[members].fill(1);
        (parts - 1.0).sqrt() * (whole - rest)
    };
    let mut deviations: Vec<f64> = (0..groups).map(deviation).collect();
    let mean = deviations.iter().sum::<f64>() / groups as f64;
    deviations.iter_mut().for_each(|deviation| *deviation -= mean);
    deviations
}

/// A part of a variance: an estimate and its degrees of freedom.
#[derive(Clone, Copy, Debug)]
struct Component {
    variance: f64,
    freedom: f64,
}

/// The estimated variance of a mean or of a difference.
#[derive(Debug)]
pub(super) struct Variance {
    /// The part of the seeds; unknown if every side has one run.
    seeds: Option<Component>,
    /// The part of the examples that all runs of a side share.
    examples: Component,
}

/// The variances of one run: of its score, and of the deviations that no other run shares.
#[derive(Clone, Copy, Default)]
struct Spread {
    between_runs: f64,
    residual: f64,
    freedom: f64,
}

impl RunScores {
    /// Scores runs on all examples, and without each group of examples.
    pub(super) fn new(runs: &[WeightedMetric], examples: usize) -> Self {
        let mut weights = vec![1; examples];
        let values = runs.iter().map(|run| run.value(&weights)).collect();
        let deviations = runs
            .iter()
            .map(|run| run.example_values().map_or_else(|| jackknife(run, &mut weights), mean_deviations));
        Self { values, deviations: deviations.collect() }
    }

    /// Returns the mean score.
    pub(super) fn mean(&self) -> f64 {
        self.values.iter().sum::<f64>() / self.runs()
    }

    fn runs(&self) -> f64 {
        self.values.len() as f64
    }

    fn groups(&self) -> usize {
        self.deviations[0].len()
    }

    /// Returns the mean deviation of the runs for a group.
    fn mean_deviation(&self, group: usize) -> f64 {
        self.deviations.iter().map(|run| run[group]).sum::<f64>() / self.runs()
    }

    /// Returns the variances of one run, if there are several.
    fn spread(&self) -> Option<Spread> {
        let freedom = self.runs() - 1.0;
        if freedom < 1.0 {
            return None;
        }
        let mean = self.mean();
        let between_runs = self.values.iter().map(|value| (value - mean).powi(2)).sum::<f64>() / freedom;
        let residual = |group: usize| -> f64 {
            let mean = self.mean_deviation(group);
            self.deviations.iter().map(|run| (run[group] - mean).powi(2)).sum()
        };
        let residual = (0..self.groups()).map(residual).sum::<f64>() / self.groups() as f64 / freedom;
        Some(Spread { between_runs, residual, freedom })
    }
}

impl Variance {
    /// Estimates the variance of the mean score of some runs.
    pub(super) fn new(runs: &RunScores) -> Self {
        Self::sum(&[runs], |group| runs.mean_deviation(group))
    }

    /// Estimates the variance of the difference of two mean scores on the same examples. Runs with equal seeds are not
    /// treated as pairs: a few pairs do not show whether their scores are correlated, and a positive correlation only makes
    /// this estimate too large.
    pub(super) fn difference(first: &RunScores, second: &RunScores) -> Self {
        Self::sum(&[first, second], |group| first.mean_deviation(group) - second.mean_deviation(group))
    }

    /// Returns the variance between runs, summed over the sides, and the variance of `deviation` between the groups of
    /// examples, from which the residual variance is subtracted.
    fn sum(sides: &[&RunScores], deviation: impl Fn(usize) -> f64) -> Self {
        let groups = sides[0].groups();
        let between = (0..groups).map(|group| deviation(group).powi(2)).sum::<f64>() / groups as f64;
        let known: Vec<Spread> = sides.iter().filter_map(|side| side.spread()).collect();
        // A side with one run gets the variances of the other side.
        let spreads = sides.iter().filter_map(|side| side.spread().or(known.first().copied()));
        let parts: Vec<Component> = (spreads.clone().zip(sides))
            .map(|(Spread { between_runs, freedom, .. }, side)| Component {
                variance: between_runs / side.runs(),
                freedom,
            })
            .collect();
        let residual: f64 = spreads.zip(sides).map(|(spread, side)| spread.residual / side.runs()).sum();
        let examples =
            Component { variance: (between - residual).max(0.0), freedom: groups.max(2) as f64 - 1.0 };
        let freedoms = known.iter().map(|spread| spread.freedom);
        Self { seeds: (!known.is_empty()).then(|| seeds(&parts, freedoms.sum())), examples }
    }

    /// Returns whether the estimate includes the variance between seeds.
    pub(super) fn covers_seeds(&self) -> bool {
        self.seeds.is_some()
    }

    /// Returns the variance.
    pub(super) fn total(&self) -> f64 {
        self.seeds.map_or(0.0, |seeds| seeds.variance) + self.examples.variance
    }

    /// Returns Student's distribution for a value divided by its standard error. The degrees of freedom of the seeds
    /// are multiplied by the ratio of the whole variance to the variance between seeds. Satterthwaite's formula
    /// multiplies by the square of this ratio, which gives up to twice the nominal level with two or three runs.
    pub(super) fn distribution(&self) -> StudentsT {
        let freedom = match self.seeds {
            Some(Component { variance, freedom }) if variance > 0.0 => {
                (freedom * self.total() / variance).min(self.examples.freedom.max(freedom))
            }
            _ => self.examples.freedom,
        };
        StudentsT::new(0.0, 1.0, freedom).expect("a positive number of degrees of freedom")
    }

    /// Returns the distance of an interval's bounds from its centre, in standard errors: a quantile of the
    /// distribution.
    pub(super) fn quantile(&self) -> f64 {
        self.distribution().inverse_cdf(f64::midpoint(1.0, LEVEL))
    }
}

/// Adds the variances between runs of the sides; `most` is the sum of their degrees of freedom. The degrees of freedom
/// of the sum follow Satterthwaite's formula with unbiased estimates of the squared variances, because the plain
/// formula gives too few degrees of freedom for two or three runs.
fn seeds(parts: &[Component], most: f64) -> Component {
    let variance: f64 = parts.iter().map(|part| part.variance).sum();
    let squares: f64 = parts.iter().map(|part| part.variance.powi(2) / (part.freedom + 2.0)).sum();
    let least = parts.iter().map(|part| part.freedom).fold(most, f64::min);
    let freedom = if squares > 0.0 { variance.powi(2) / squares - 2.0 } else { least };
    Component { variance, freedom: freedom.clamp(least, most) }
}
