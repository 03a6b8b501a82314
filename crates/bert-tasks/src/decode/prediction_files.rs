//! Writes predictions in the format of GLUE's submissions, of minBERT, or of the reference's table of probabilities.
//! The caller provides the writer.

use std::borrow::Cow;
use std::io::{self, Write};

use crate::task::Task;
use crate::task::example::{Example, Label};
use crate::task::spec::Kind;

/// Writes predictions in the task's usual format. For SST-5 and CFIMDB, writes rows `PREDICTION ||| TEXT`, as in
/// minBERT's output and input. For all other tasks, writes rows `index<TAB>prediction` below a header with these names,
/// as GLUE's server expects. A class is written as the label in the task's files: a name for RTE, QNLI and MNLI, and 0
/// or 1 for the other classifications of GLUE. A score is clipped to the range of the task; STS-B has 3 decimals, and
/// other tasks keep all digits. [`crate::TaskSpec::submission_file_name`] returns GLUE's file name.
///
/// # Errors
/// Fails when `out` cannot be written.
///
/// # Panics
/// Panics if there is not exactly one prediction of the task's kind for each example.
pub fn write_predictions(
    out: &mut dyn Write,
    task: &Task,
    examples: &[Example],
    predictions: &[Label],
) -> io::Result<()> {
    assert_eq!(examples.len(), predictions.len(), "one prediction each");
    let in_rows = task.spec().predicts_in_rows();
    if in_rows {
        writeln!(out, "index\tprediction")?;
    }
    for (example, prediction) in examples.iter().zip(predictions) {
        let prediction = written_label(task, *prediction);
        if in_rows {
            writeln!(out, "{}\t{prediction}", example.index)?
        } else {
            writeln!(out, "{prediction} ||| {}", example.text_a.trim())?
        }
    }
    out.flush()
}

/// Writes rows `index<TAB>label` below a header with these names: labels as in the task's files, scores with all
/// digits.
///
/// # Errors
/// Fails when `out` cannot be written.
///
/// # Panics
/// Panics if an example has no label of the task's kind.
pub fn write_labels(out: &mut dyn Write, task: &Task, examples: &[Example]) -> io::Result<()> {
    writeln!(out, "index\tlabel")?;
    for example in examples {
        match example.label.expect("a labelled example") {
            Label::Score(score) => writeln!(out, "{}\t{score}", example.index)?,
            class => writeln!(out, "{}\t{}", example.index, written_label(task, class))?,
        }
    }
    out.flush()
}

/// Writes the class probabilities of each example as a tab-separated row without a header, as in the reference's
/// `test_results.tsv`. A regression has one column, the score.
///
/// # Errors
/// Fails when `out` cannot be written.
pub fn write_probabilities(out: &mut dyn Write, rows: &[Vec<f32>]) -> io::Result<()> {
    for row in rows {
        let row: Vec<String> = row.iter().map(f32::to_string).collect();
        writeln!(out, "{}", row.join("\t"))?;
    }
    out.flush()
}

/// Writes the wrongly predicted examples, most confident first: index, label, prediction, the prediction's
/// probability, text or texts. For a regression, writes all examples, largest error first, with the error in place of
/// the probability.
///
/// # Errors
/// Fails when `out` cannot be written.
///
/// # Panics
/// Panics if there is not exactly one prediction of the task's kind and one row of outputs for each example, or an
/// example has no label.
pub fn write_errors(
    out: &mut dyn Write,
    task: &Task,
    examples: &[Example],
    predictions: &[Label],
    rows: &[Vec<f32>],
) -> io::Result<()> {
    assert!(examples.len() == predictions.len() && examples.len() == rows.len(), "one prediction each");
    struct Wrong<'a> {
        /// Probability of the predicted class, or the error of the score.
        measure: f32,
        example: &'a Example,
        prediction: Label,
    }
    let mut wrong = Vec::new();
    for ((example, &prediction), row) in examples.iter().zip(predictions).zip(rows) {
        let label = example.label.expect("a label to compare with");
        let measure = match (label, prediction) {
            (Label::Class(class), Label::Class(predicted)) if class == predicted => continue,
            (Label::Score(score), Label::Score(predicted)) => (predicted - score).abs(),
            (_, Label::Class(predicted)) => row[predicted],
            (_, Label::Score(_)) => panic!("a prediction of the wrong kind for task {task}"),
        };
        wrong.push(Wrong { measure, example, prediction });
    }
    wrong.sort_by(|a, b| b.measure.total_cmp(&a.measure));
    let measure = if matches!(task.spec().kind, Kind::Regression { .. }) { "error" } else { "probability" };
    let texts = if task.spec().pair { "text_a\ttext_b" } else { "text" };
    writeln!(out, "index\tlabel\tprediction\t{measure}\t{texts}")?;
    for Wrong { measure, example, prediction } in wrong {
        let label = match example.label.expect("checked above") {
            // Only predictions are clipped to the range of the task.
            Label::Score(score) => written_score(task, score),
            class => written_label(task, class),
        };
        let prediction = written_label(task, prediction);
        // The scores of a regression that is not in GLUE, such as a table's, may be very small, so write all digits
        // of the error.
        let measure = if task.spec().submissions.is_empty() && task.labels().next().is_none() {
            measure.to_string()
        } else {
            format!("{measure:.4}")
        };
        write!(
            out,
            "{}\t{label}\t{prediction}\t{measure}\t{}",
            example.index,
            without_tabs(&example.text_a)
        )?;
        if task.spec().pair {
            writeln!(out, "\t{}", without_tabs(example.text_b.as_deref().unwrap_or_default()))?
        } else {
            writeln!(out)?
        }
    }
    out.flush()
}

/// Returns a text as a field; texts in tables may contain tabs and line ends.
fn without_tabs(text: &str) -> Cow<'_, str> {
    if text.contains(['\t', '\n', '\r']) { text.replace(['\t', '\n', '\r'], " ").into() } else { text.into() }
}

/// Returns a prediction as written to a file.
fn written_label(task: &Task, prediction: Label) -> String {
    match (task.spec().kind, prediction) {
        (Kind::Classification, Label::Class(class)) => {
            without_tabs(task.labels().nth(class).expect("a class of the task")).into_owned()
        }
        (Kind::Regression { .. }, Label::Score(_)) => match task.as_written(prediction) {
            Label::Score(score) => written_score(task, score),
            Label::Class(_) => unreachable!("a score stays a score"),
        },
        _ => panic!("a prediction of the wrong kind for task {task}"),
    }
}

/// Returns a score with three decimals where GLUE's server reads it, else with all digits.
fn written_score(task: &Task, score: f32) -> String {
    if task.spec().submissions.is_empty() { score.to_string() } else { format!("{score:.3}") }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn example(index: &str, text: &str) -> Example {
        Example { index: index.into(), text_a: text.into(), text_b: None, choices: vec![], label: None }
    }

    fn written(task: &Task, predictions: &[Label]) -> String {
        let examples = [example("7", "a  good film . "), example("9", "no")];
        let mut out = Vec::new();
        write_predictions(&mut out, task, &examples, predictions).unwrap();
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn errors_are_sorted_by_confidence() {
        let labelled = |index: &str, label| Example { label: Some(label), ..example(index, "text") };
        let [a, b] = [0, 1].map(Label::Class);
        let examples = [labelled("1", a), labelled("2", a), labelled("3", b), labelled("4", b)];
        let rows = [vec![0.4, 0.6], vec![0.9, 0.1], vec![0.8, 0.2], vec![0.3, 0.7]];
        let mut out = Vec::new();
        write_errors(&mut out, &Task::Rte, &examples, &[b, a, a, b], &rows).unwrap();
        assert_eq!(
            String::from_utf8(out).unwrap(),
            "index\tlabel\tprediction\tprobability\ttext_a\ttext_b\n\
             3\tnot_entailment\tentailment\t0.8000\ttext\t\n\
             1\tentailment\tnot_entailment\t0.6000\ttext\t\n"
        );
        let scored = [labelled("1", Label::Score(1.0)), labelled("2", Label::Score(6.0))];
        let mut out = Vec::new();
        let predictions = [1.5, 2.0].map(Label::Score);
        write_errors(&mut out, &Task::Stsb, &scored, &predictions, &[vec![1.5], vec![2.0]]).unwrap();
        let text = String::from_utf8(out).unwrap();
        let second = text.lines().nth(1).unwrap();
        assert!(
            text.starts_with("index\tlabel\tprediction\terror\t")
                && second.starts_with("2\t6.000\t2.000\t4.0000")
        );
    }

    #[test]
    fn labels_are_written_as_in_each_task() {
        let both = [Label::Class(1), Label::Class(0)];
        let header = "index\tprediction\n";
        for (task, expected) in [
            (Task::Rte, "7\tnot_entailment\n9\tentailment\n"),
            (Task::Qnli, "7\tnot_entailment\n9\tentailment\n"),
            (Task::Mnli, "7\tentailment\n9\tcontradiction\n"),
            (Task::Mrpc, "7\t1\n9\t0\n"),
            (Task::Wnli, "7\t1\n9\t0\n"),
            (Task::Cola, "7\t1\n9\t0\n"),
        ] {
            assert_eq!(written(&task, &both), format!("{header}{expected}"));
        }
    }

    #[test]
    fn stsb_scores_are_clipped_to_three_decimals() {
        assert_eq!(
            written(&Task::Stsb, &[Label::Score(5.2), Label::Score(-0.1)]),
            "index\tprediction\n7\t5.000\n9\t0.000\n"
        );
        assert_eq!(
            written(&Task::Stsb, &[Label::Score(1.23456), Label::Score(2.0)]),
            "index\tprediction\n7\t1.235\n9\t2.000\n"
        );
    }

    #[test]
    fn other_scores_keep_all_digits() {
        assert_eq!(
            written(&Task::SickR, &[1.000_02, 7.5].map(Label::Score)),
            "index\tprediction\n7\t1.00002\n9\t5\n"
        );
    }

    #[test]
    fn minbert_predictions_have_labels_and_texts() {
        let text = written(&Task::Sst5, &[Label::Class(4), Label::Class(0)]);
        assert_eq!(text, "4 ||| a  good film .\n0 ||| no\n");
    }

    #[test]
    fn probabilities_have_no_header() {
        let mut out = Vec::new();
        write_probabilities(&mut out, &[vec![0.25, 0.75], vec![1.0, 0.0]]).unwrap();
        assert_eq!(out, b"0.25\t0.75\n1\t0\n");
    }

    #[test]
    fn write_errors_are_returned() {
        let mut full: &mut [u8] = &mut [0; 20];
        let error = write_predictions(&mut full, &Task::Rte, &[example("1", "a")], &[Label::Class(0)]);
        assert!(error.is_err());
    }
}
