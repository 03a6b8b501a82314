//! Tests of the metrics.

use super::*;
use crate::TableDescription;

fn class(of: &[usize]) -> Vec<Label> {
    of.iter().map(|&class| Label::Class(class)).collect()
}

fn scores(of: &[f64]) -> Vec<Label> {
    of.iter().map(|&score| Label::Score(score as f32)).collect()
}

fn value(metric: Metric, p: Vec<Label>, l: Vec<Label>) -> f64 {
    WeightedMetric::new(metric, &p, &l).unwrap().value(&vec![1; l.len()])
}

fn accuracy(p: &[usize], l: &[usize]) -> f64 {
    value(Metric::Accuracy, class(p), class(l))
}

fn f1(p: &[usize], l: &[usize]) -> f64 {
    value(Metric::F1, class(p), class(l))
}

fn macro_f1(p: &[usize], l: &[usize]) -> f64 {
    super::macro_f1(&class(p), &class(l))
}

fn matthews(p: &[usize], l: &[usize]) -> f64 {
    value(Metric::Matthews, class(p), class(l))
}

fn pearson(p: &[f64], l: &[f64]) -> f64 {
    value(Metric::Pearson, scores(p), scores(l))
}

fn spearman(p: &[f64], l: &[f64]) -> f64 {
    value(Metric::Spearman, scores(p), scores(l))
}

fn close(value: f64, expected: f64) {
    assert!((value - expected).abs() < 1e-12, "{value} != {expected}");
}

#[test]
fn confusion_has_labels_in_rows() {
    let [a, b] = [0, 1].map(Label::Class);
    assert_eq!(confusion(&Task::Rte, &[b, b, a, b], &[a, b, a, a]), Some(vec![vec![1, 2], vec![0, 1]]));
    assert_eq!(confusion(&Task::Stsb, &[Label::Score(1.0)], &[Label::Score(2.0)]), None);
}

#[test]
fn class_metrics_by_hand() {
    // 2 true positives, 1 false positive, 1 false negative, 1 true negative.
    let p = [1, 1, 0, 0, 1];
    let l = [1, 1, 1, 0, 0];
    close(accuracy(&p, &l), 3.0 / 5.0);
    close(f1(&p, &l), 4.0 / 6.0);
    close(matthews(&p, &l), (2.0 - 1.0) / 36f64.sqrt());
    close(matthews(&l, &l), 1.0);
    close(matthews(&[0, 1], &[1, 0]), -1.0);
    // Class 0: 1 right, 1 wrong, 1 missed; class 4 does not occur and is ignored.
    close(macro_f1(&p, &l), (4.0 / 6.0 + 2.0 / 4.0) / 2.0);
    close(macro_f1(&[0, 2, 2], &[0, 2, 3]), (1.0 + 2.0 / 3.0 + 0.0) / 3.0);
}

#[test]
fn majority_scores_of_mrpc_dev() {
    // 279 of 408 are paraphrases: accuracy .684, F1 2*279/(279+408) = .812.
    let labels: Vec<usize> = (0..408).map(|i| usize::from(i < 279)).collect();
    let ones = [1; 408];
    close(accuracy(&ones, &labels), 279.0 / 408.0);
    close(f1(&ones, &labels), 558.0 / 687.0);
    close(matthews(&ones, &labels), 0.0);
}

#[test]
fn undefined_metrics_are_zero() {
    close(f1(&[0, 0], &[0, 0]), 0.0);
    close(f1(&[0, 0], &[1, 1]), 0.0);
    close(matthews(&[1, 1], &[1, 1]), 0.0);
    close(pearson(&[0.1, 0.1, 0.1], &[1.0, 2.0, 3.0]), 0.0);
    close(spearman(&[1.0, 2.0, 3.0], &[4.2, 4.2, 4.2]), 0.0);
    close(pearson(&[f64::NAN, 1.0], &[1.0, 2.0]), 0.0);
    close(spearman(&[f64::INFINITY, 1.0], &[1.0, 2.0]), 0.0);
}

#[test]
fn correlations_by_hand() {
    close(pearson(&[1.0, 2.0, 3.0], &[2.0, 4.0, 6.0]), 1.0);
    close(spearman(&[1.0, 2.0, 3.0], &[9.0, 4.0, 1.0]), -1.0);
    assert_eq!(TiedRanks::new(&[5.0, 1.0, 5.0, 0.0]).ranks(&[1; 4]), [3.5, 2.0, 3.5, 1.0]);
    // scipy.stats 1.17.1: pearsonr and spearmanr of the same lists.
    let x = [1.0, 2.0, 2.0, 4.0, 5.0];
    let y = [2.0, 1.0, 3.0, 3.0, 5.0];
    close(pearson(&x, &y), 0.8000946913656627);
    close(spearman(&x, &y), 0.7631578947368421);
}

#[test]
fn regression_errors_by_hand() {
    let p = [1.0, 2.0, 4.0];
    let l = [1.0, 4.0, 3.0];
    close(value(Metric::Rmse, scores(&p), scores(&l)), (5.0f64 / 3.0).sqrt());
    close(value(Metric::Mae, scores(&p), scores(&l)), 1.0);
    let errors = WeightedMetric::new(Metric::Mae, &scores(&p), &scores(&l)).unwrap();
    close(errors.value(&[0, 3, 1]), 7.0 / 4.0);
}

/// Generates numbers with glibc's old linear congruential generator, upper 15 bits.
fn numbers() -> Vec<u64> {
    let mut x: u64 = 1;
    let mut next = || {
        x = (x * 1_103_515_245 + 12_345) % (1 << 31);
        x >> 16
    };
    (0..600).map(|_| next()).collect()
}

/// Computed with scikit-learn 1.9.1 (`accuracy_score`, `f1_score`, `matthews_corrcoef`) and scipy 1.17.1
/// (`pearsonr`, `spearmanr`) on the same lists: `r = numbers()`; `y = [v%3!=0 for v in r[:200]]`;
/// `p = [(v%4!=0)==t for v,t in zip(r[200:400], y)]`; `a = float32([(v%26)/5 for v in r[400:500]])`;
/// `b = float32([(v%11)/2 + x/2 for v,x in zip(r[500:], a)])`, converted to float64 before `pearsonr`.
#[test]
fn metrics_equal_scikit_learn_and_scipy() {
    let r = numbers();
    let y: Vec<usize> = r[..200].iter().map(|v| usize::from(v % 3 != 0)).collect();
    let p: Vec<usize> =
        (r[200..400].iter().zip(&y)).map(|(v, t)| usize::from((v % 4 != 0) == (*t == 1))).collect();
    close(accuracy(&p, &y), 0.765);
    close(f1(&p, &y), 0.8112449799196787);
    close(matthews(&p, &y), 0.5223584642707826);

    let a: Vec<f64> = r[400..500].iter().map(|v| (v % 26) as f64 / 5.0).collect();
    let b = r[500..].iter().zip(&a).map(|(v, x)| (v % 11) as f64 / 2.0 + x / 2.0);
    let label = |v: f64| Label::Score(v as f32);
    let b: Vec<Label> = b.map(label).collect();
    let a: Vec<Label> = a.into_iter().map(label).collect();
    let scores = score(&Task::Stsb, &a, &b);
    close(scores.get(Metric::Pearson).unwrap(), 0.5047334346860706);
    close(scores.get(Metric::Spearman).unwrap(), 0.48809408122503223);
}

#[test]
fn each_task_reports_its_metrics_in_order() {
    let p = [Label::Class(1), Label::Class(0)];
    let l = [Label::Class(1); 2];
    let names = |task| score(task, &p, &l).iter().map(|(m, _)| m).collect::<Vec<_>>();
    assert_eq!(names(&Task::Rte), [Metric::Accuracy]);
    assert_eq!(names(&Task::Mrpc), [Metric::F1, Metric::Accuracy]);
    assert_eq!(names(&Task::Cola), [Metric::Matthews, Metric::Accuracy]);
}

#[test]
#[should_panic(expected = "one prediction for each label")]
fn unequal_lengths_panic() {
    accuracy(&[1], &[1, 0]);
}

/// Compares a resample scored by its weights with the same resample written out.
fn compare(task: Task, answers: &[Label], labels: &[Label], weights: &[u32]) {
    let repeat = |of: &[Label]| -> Vec<Label> {
        of.iter().zip(weights).flat_map(|(x, &times)| vec![*x; times as usize]).collect()
    };
    for (metric, expected) in score(&task, &repeat(answers), &repeat(labels)).iter() {
        let value = WeightedMetric::new(metric, answers, labels).unwrap().value(weights);
        assert!((value - expected).abs() < 1e-12, "{metric} {weights:?}: {value} and {expected}");
    }
}

#[test]
fn weights_equal_repeated_examples() {
    let answers = class(&[1, 1, 0, 0, 1, 0]);
    let labels = class(&[1, 0, 0, 1, 1, 0]);
    let truth = scores(&[2.0, 1.0, 3.0, 3.0, 5.0, 0.3]);
    let scores = scores(&[1.0, 2.0, 2.0, 4.0, 5.0, 0.1]);
    for weights in [[1; 6], [2, 0, 0, 3, 1, 0], [0, 0, 6, 0, 0, 0], [1, 1, 0, 2, 0, 2], [0, 3, 3, 0, 0, 0]] {
        compare(Task::Mrpc, &answers, &labels, &weights);
        compare(Task::Cola, &answers, &labels, &weights);
        compare(Task::Stsb, &scores, &truth, &weights);
    }
    compare(Task::Sst5, &class(&[4, 2, 3, 0, 1, 1]), &class(&[4, 2, 2, 0, 0, 1]), &[2, 1, 1, 0, 2, 0]);
    assert!(WeightedMetric::new(Metric::Pearson, &answers, &labels).is_none());
    assert!(WeightedMetric::new(Metric::Accuracy, &scores, &truth).is_none());
}

#[test]
fn majority_class_of_the_scored_set() {
    let [a, b, c] = [0, 1, 2].map(Label::Class);
    let majority = |task, labels: &[Label]| constant_baseline(task, &[c], labels);
    let scores = majority(&Task::Mnli, &[a, a, b, c]);
    assert_eq!(scores.get(Metric::Accuracy), Some(0.5));
    // Ties go to the lower number, so F1 of class 1 is 0.
    let scores = majority(&Task::Mrpc, &[b, a, a, b]);
    assert_eq!((scores.get(Metric::Accuracy), scores.get(Metric::F1)), (Some(0.5), Some(0.0)));
    let scores = majority(&Task::Mrpc, &[b, b, a, b]);
    assert_eq!(scores.get(Metric::Accuracy), Some(0.75));
    assert_eq!(scores.get(Metric::F1), Some(6.0 / 7.0));
}

#[test]
fn a_constant_score_has_correlation_zero() {
    let labels = [1.0, 2.5, 4.3].map(Label::Score);
    let scores = constant_baseline(&Task::Stsb, &labels, &labels);
    assert_eq!(scores.get(Metric::Pearson), Some(0.0));
    assert_eq!(scores.get(Metric::Spearman), Some(0.0));
}

/// sklearn 1.9: `DummyRegressor().fit(X, [1, 2, 6]).predict(Y)` is 3; `root_mean_squared_error([10, 14], [3, 3])` is
/// 9.219544 and `mean_absolute_error` 9.
#[test]
fn mean_of_training_scores_is_the_baseline() {
    let columns = ["text", "label"].map(String::from).to_vec();
    let range = Some((1.0, 6.0));
    let task = Task::table(TableDescription { columns, range, ..TableDescription::default() }).unwrap();
    let [train, dev] = [&[1.0, 2.0, 6.0][..], &[10.0, 14.0]]
        .map(|scores| scores.iter().copied().map(Label::Score).collect::<Vec<_>>());
    let scores = constant_baseline(&task, &train, &dev);
    assert!((scores.get(Metric::Rmse).unwrap() - 9.219544).abs() < 1e-5);
    assert_eq!((scores.get(Metric::Mae), scores.get(Metric::Pearson)), (Some(9.0), Some(0.0)));
}

#[test]
fn standard_errors_of_known_sets() {
    // RTE dev at 66.4 %: 2.84 points; SST-2 dev at 92.5 %: 0.89.
    assert!((binomial_standard_error(0.664, 277) - 0.0284).abs() < 5e-5);
    assert!((binomial_standard_error(0.925, 872) - 0.0089).abs() < 5e-5);
    assert_eq!(binomial_standard_error(1.0, 10), 0.0);
}

#[test]
fn constant_predictions_are_degenerate() {
    let [a, b] = [0, 1].map(Label::Class);
    assert!(is_degenerate(&[a, a, a]));
    assert!(!is_degenerate(&[a, a, b]));
    assert!(is_degenerate(&[0.5, 0.5].map(Label::Score)));
    assert!(!is_degenerate(&[0.5, 0.25].map(Label::Score)));
}
