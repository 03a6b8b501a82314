//! Scores of random predictions against scikit-learn, scipy, seqeval, conlleval and the official scripts of SQuAD:
//! `tests/golden/make_metric_goldens.py`.

use std::path::{Path, PathBuf};
use std::process::Command;

use bert_tasks::entities::score_entities;
use bert_tasks::squad_metrics::{AnswerRules, question_scores};
use bert_tasks::{Answer, Label, Metric, Question, Scores, TableDescription, Task, score};
use serde::Deserialize;

#[derive(Deserialize)]
struct Goldens {
    classes: Vec<ClassCase>,
    scores: Vec<ScoreCase>,
    tags: Vec<TagCase>,
    answers: Vec<AnswerCase>,
}

#[derive(Deserialize)]
struct ClassCase {
    classes: usize,
    labels: Vec<usize>,
    predictions: Vec<usize>,
    accuracy: f64,
    macro_f1: f64,
    /// Of two classes.
    f1: Option<f64>,
    matthews: Option<f64>,
}

#[derive(Deserialize)]
struct ScoreCase {
    labels: Vec<f32>,
    predictions: Vec<f32>,
    pearson: f64,
    spearman: f64,
    rmse: f64,
    mae: f64,
}

#[derive(Deserialize)]
struct TagCase {
    labels: Vec<Vec<String>>,
    predictions: Vec<Vec<String>>,
    actual: usize,
    predicted: usize,
    correct: usize,
    precision: f64,
    recall: f64,
    f1: f64,
}

#[derive(Deserialize)]
struct AnswerCase {
    gold: Vec<String>,
    given: String,
    /// Exact match and F1 of version 1.1.
    first: [f64; 2],
    /// Exact match and F1 of version 2.0.
    second: [f64; 2],
}

fn close(found: f64, expected: f64, case: &str) {
    assert!((found - expected).abs() <= 1e-9, "{case}: {found} is not {expected}");
}

fn check_metrics(found: &Scores, expected: &[(Metric, f64)], case: &str) {
    for (metric, value) in expected {
        close(found.get(*metric).expect("a metric of the task"), *value, &format!("{metric} of {case}"));
    }
}

/// Returns the task of a table.
fn table(classes: usize) -> Task {
    let columns = ["text", "label"].map(String::from).to_vec();
    let range = (classes == 0).then_some((0.0, 5.0));
    let labels = (0..classes).map(|class| class.to_string()).collect();
    Task::table(TableDescription { columns, labels, range, ..TableDescription::default() }).unwrap()
}

fn check_classes(case: &ClassCase) {
    let labels: Vec<Label> = case.labels.iter().copied().map(Label::Class).collect();
    let predictions: Vec<Label> = case.predictions.iter().copied().map(Label::Class).collect();
    let name = format!("{:?} against {:?}", case.predictions, case.labels);
    let found = score(&table(case.classes), &predictions, &labels);
    check_metrics(&found, &[(Metric::Accuracy, case.accuracy), (Metric::MacroF1, case.macro_f1)], &name);
    if let (Some(f1), Some(matthews)) = (case.f1, case.matthews) {
        check_metrics(&score(&Task::Mrpc, &predictions, &labels), &[(Metric::F1, f1)], &name);
        check_metrics(&score(&Task::Cola, &predictions, &labels), &[(Metric::Matthews, matthews)], &name);
    }
}

fn check_scores(case: &ScoreCase) {
    let labels: Vec<Label> = case.labels.iter().copied().map(Label::Score).collect();
    let predictions: Vec<Label> = case.predictions.iter().copied().map(Label::Score).collect();
    let found = score(&table(0), &predictions, &labels);
    let expected = [
        (Metric::Pearson, case.pearson),
        (Metric::Spearman, case.spearman),
        (Metric::Rmse, case.rmse),
        (Metric::Mae, case.mae),
    ];
    check_metrics(&found, &expected, &format!("{:?} against {:?}", case.predictions, case.labels));
}

fn check_tags(case: &TagCase) {
    let found = score_entities(&case.labels, &case.predictions);
    let name = format!("{:?} against {:?}", case.predictions, case.labels);
    assert_eq!(
        (found.actual, found.predicted, found.correct),
        (case.actual, case.predicted, case.correct),
        "{name}"
    );
    close(found.precision(), case.precision, &name);
    close(found.recall(), case.recall, &name);
    close(found.f1(), case.f1, &name);
}

fn check_answers(case: &AnswerCase) {
    let question = Question {
        id: String::new(),
        question: String::new(),
        context: "".into(),
        answers: case.gold.iter().map(|text| Answer { text: text.clone(), start: 0 }).collect(),
        is_impossible: false,
    };
    for (version_2, [exact_match, f1]) in [(false, case.first), (true, case.second)] {
        let found = question_scores(AnswerRules { version_2, by_character: false }, &question, &case.given);
        let name = format!("{:?} against {:?}", case.given, case.gold);
        close(found.exact_match, exact_match, &name);
        close(found.f1, f1, &name);
    }
}

/// Checks at least this number of cases of each kind.
fn check(json: &[u8], cases: usize) {
    let goldens: Goldens = serde_json::from_slice(json).unwrap();
    let counts = [goldens.classes.len(), goldens.scores.len(), goldens.tags.len(), goldens.answers.len()];
    assert!(counts.iter().all(|&count| count >= cases), "{counts:?}");
    goldens.classes.iter().for_each(check_classes);
    goldens.scores.iter().for_each(check_scores);
    goldens.tags.iter().for_each(check_tags);
    goldens.answers.iter().for_each(check_answers);
}

fn golden_path(file: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden").join(file)
}

#[test]
fn random_predictions_have_the_published_scores() {
    check(&std::fs::read(golden_path("metrics.json")).unwrap(), 25);
}

#[test]
#[ignore = "needs BERT_PYTHON with scikit-learn, scipy and seqeval, and BERT_SCRIPTS with the official scripts"]
fn a_thousand_predictions_have_the_published_scores() {
    let python = std::env::var_os("BERT_PYTHON").expect("this test needs BERT_PYTHON, an interpreter");
    let scripts = std::env::var_os("BERT_SCRIPTS").expect("this test needs BERT_SCRIPTS, a folder");
    let run =
        Command::new(python).arg(golden_path("make_metric_goldens.py")).arg(scripts).arg("1000").output();
    let run = run.unwrap();
    assert!(run.status.success(), "{}", String::from_utf8_lossy(&run.stderr));
    check(&run.stdout, 1000);
}
