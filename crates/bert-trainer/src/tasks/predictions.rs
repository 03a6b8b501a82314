//! Predictions -> files: GLUE's submission form, minBERT's, and the reference's table of probabilities.
//! Everything goes to a writer; where it lies on disk is the caller's business.

use std::io::{self, Write};

use super::examples::{Example, Label};
use super::spec::Kind;
use super::task::{Split, Task};

/// Writes predictions in the form of the task's own community: GLUE's submission form, or minBERT's for
/// SST-5 and CFIMDB.
///
/// # Errors
/// Those of the writer.
///
/// # Panics
/// Like [`write_glue_submission`].
pub fn write_predictions(
    out: &mut dyn Write,
    task: Task,
    examples: &[Example],
    predictions: &[Label],
) -> io::Result<()> {
    match task.spec().submission_file_name(Split::Test) {
        Some(_) => write_glue_submission(out, task, examples, predictions),
        None => write_minbert_predictions(out, task, examples, predictions),
    }
}

/// Writes `index<TAB>prediction` rows under that header, as GLUE's server wants them: the labels' words for
/// RTE, QNLI and MNLI, 0 or 1 for the other classifications, for STS-B the score within its range and
/// with 3 decimals. The file's name is [`super::TaskSpec::submission_file_name`].
///
/// # Errors
/// Those of the writer.
///
/// # Panics
/// When there is not one prediction of the task's kind for each example.
pub fn write_glue_submission(
    out: &mut dyn Write,
    task: Task,
    examples: &[Example],
    predictions: &[Label],
) -> io::Result<()> {
    assert_eq!(examples.len(), predictions.len(), "one prediction each");
    writeln!(out, "index\tprediction")?;
    for (example, prediction) in examples.iter().zip(predictions) {
        writeln!(out, "{}\t{}", example.index, in_file(task, *prediction))?;
    }
    out.flush()
}

/// Writes `PREDICTION ||| TEXT` rows: the form of minBERT's output, and of its input.
///
/// # Errors
/// Those of the writer.
///
/// # Panics
/// Like [`write_glue_submission`].
pub fn write_minbert_predictions(
    out: &mut dyn Write,
    task: Task,
    examples: &[Example],
    predictions: &[Label],
) -> io::Result<()> {
    assert_eq!(examples.len(), predictions.len(), "one prediction each");
    for (example, prediction) in examples.iter().zip(predictions) {
        let prediction = in_file(task, *prediction);
        writeln!(out, "{prediction} ||| {}", example.text_a.trim())?;
    }
    out.flush()
}

/// Writes the class probabilities of each example as a tab-separated row without a header: the form of the
/// reference's `test_results.tsv`. A regression has one column, the score.
///
/// # Errors
/// Those of the writer.
pub fn write_probabilities(out: &mut dyn Write, rows: &[Vec<f32>]) -> io::Result<()> {
    for row in rows {
        let row: Vec<String> = row.iter().map(f32::to_string).collect();
        writeln!(out, "{}", row.join("\t"))?;
    }
    out.flush()
}

/// A prediction as it stands in a file.
fn in_file(task: Task, prediction: Label) -> String {
    match (task.spec().kind, prediction) {
        (Kind::Classification { labels }, Label::Class(class)) => labels[class].to_string(),
        (Kind::Regression { min, max }, Label::Score(score)) => {
            format!("{:.3}", score.clamp(min, max))
        }
        _ => panic!("a prediction of the wrong kind for task {task}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn example(index: &str, text: &str) -> Example {
        Example { index: index.into(), text_a: text.into(), text_b: None, label: None }
    }

    fn written(task: Task, predictions: &[Label]) -> String {
        let examples = [example("7", "a  good film . "), example("9", "no")];
        let mut out = Vec::new();
        write_predictions(&mut out, task, &examples, predictions).unwrap();
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn words_or_numbers_by_task() {
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
            assert_eq!(written(task, &both), format!("{header}{expected}"));
        }
    }

    #[test]
    fn scores_are_clamped_and_have_three_decimals() {
        assert_eq!(
            written(Task::Stsb, &[Label::Score(5.2), Label::Score(-0.1)]),
            "index\tprediction\n7\t5.000\n9\t0.000\n"
        );
        assert_eq!(
            written(Task::Stsb, &[Label::Score(1.23456), Label::Score(2.0)]),
            "index\tprediction\n7\t1.235\n9\t2.000\n"
        );
    }

    #[test]
    fn minbert_form_reads_back() {
        let text = written(Task::Sst5, &[Label::Class(4), Label::Class(0)]);
        assert_eq!(text, "4 ||| a  good film .\n0 ||| no\n");
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), text).unwrap();
        let read = crate::tasks::read_file(Task::Sst5, file.path(), true).unwrap();
        assert_eq!(read[0].label, Some(Label::Class(4)));
    }

    #[test]
    fn probabilities_have_no_header() {
        let mut out = Vec::new();
        write_probabilities(&mut out, &[vec![0.25, 0.75], vec![1.0, 0.0]]).unwrap();
        assert_eq!(out, b"0.25\t0.75\n1\t0\n");
    }

    #[test]
    fn a_full_disk_is_reported() {
        let mut full: &mut [u8] = &mut [0; 20];
        let error = write_predictions(&mut full, Task::Rte, &[example("1", "a")], &[Label::Class(0)]);
        assert!(error.is_err());
    }
}
