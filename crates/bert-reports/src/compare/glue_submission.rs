//! Writes the archive for GLUE's server: the predictions for every test set under its official name.

use std::io::Write;
use std::path::Path;

use bert_inference::{Answer, Classifier, DeviceName, ModelOptions};
use bert_storage::{exists, write_atomic};
use bert_task_files::{find_split, read_file};
use bert_tasks::{Error, Example, Label, Split, Task, write_predictions};
use serde::Serialize;
use zip::write::{SimpleFileOptions, ZipWriter};

/// The diagnostic set, predicted by the MNLI model: its name in the archive and the file names to search for.
const DIAGNOSTIC: (&str, [&str; 3]) =
    ("AX.tsv", ["AX/diagnostic.tsv", "diagnostic/diagnostic.tsv", "diagnostic.tsv"]);

/// The contents of an archive.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct Submission {
    /// Files in the archive.
    pub files: Vec<&'static str>,
    /// Files that the server expects but whose test sets were not found.
    pub missing: Vec<&'static str>,
}

/// Predicts the test sets in `data` with the models in `folder/TASK/model`, and writes `folder/submission.zip`.
///
/// # Errors
/// Fails when a test file is invalid, a model cannot be read, or the archive cannot be written.
pub fn write_submission(
    folder: &Path,
    data: &Path,
    tasks: &[Task],
    device: DeviceName,
) -> Result<Submission, Error> {
    let mut submission = Submission::default();
    let mut answered = Vec::new();
    for task in &crate::compare::glue_table::TASKS {
        let mut model = None;
        for (name, examples) in test_sets(task, data)? {
            let Some(examples) = examples.filter(|_| tasks.contains(task)) else {
                submission.missing.push(name);
                continue;
            };
            let classifier = match &model {
                Some(classifier) => classifier,
                None => {
                    let tuned = folder.join(task.spec().name).join("model");
                    &*model.insert(Classifier::open(&tuned, ModelOptions::default().with_device(device))?)
                }
            };
            let mut bytes = Vec::new();
            let labels = answered_labels(task, classifier.answer(&examples)?)?;
            write_predictions(&mut bytes, task, &examples, &labels)
                .map_err(Error::io("write", &folder.join(name)))?;
            submission.files.push(name);
            answered.push((name, bytes));
        }
    }
    write_atomic(&folder.join("submission.zip"), |out| {
        let mut zip = ZipWriter::new(std::io::Cursor::new(Vec::new()));
        for (name, bytes) in &answered {
            // Omit the date, so that equal predictions give equal bytes.
            let options = SimpleFileOptions::default().last_modified_time(zip::DateTime::default());
            zip.start_file(*name, options).map_err(std::io::Error::other)?;
            zip.write_all(bytes)?;
        }
        let archive = zip.finish().map_err(std::io::Error::other)?;
        out.write_all(archive.get_ref())
    })?;
    Ok(submission)
}

type TestSet = (&'static str, Option<Vec<Example>>);

/// Returns the test sets for a task's model, with their names in the archive; `None` if the file does not exist.
fn test_sets(task: &Task, data: &Path) -> Result<Vec<TestSet>, Error> {
    let read = |path: &Path| read_file(task, path, false);
    let mut sets = Vec::new();
    for split in [Split::Test, Split::TestMismatched] {
        let Some(name) = task.spec().submission_file_name(split) else { continue };
        let file = match find_split(task, data, split) {
            Ok(file) => Some(file),
            Err(error) if error.is_absent() => None,
            Err(error) => return Err(error),
        };
        let examples = file.map(|file| read(&file.path)).transpose()?;
        sets.push((name, examples));
    }
    if *task == Task::Mnli {
        let (name, places) = DIAGNOSTIC;
        let mut examples = None;
        for path in places.iter().map(|place| data.join(place)) {
            if exists(&path)? {
                examples = Some(read(&path)?);
                break;
            }
        }
        sets.push((name, examples));
    }
    Ok(sets)
}

/// Converts answers with output names into the task's labels.
///
/// # Errors
/// Fails when an answer is not a class of the task.
pub fn answered_labels(task: &Task, answers: Vec<Answer>) -> Result<Vec<Label>, Error> {
    let one = |answer| match answer {
        Answer::Score { score } => Ok(Label::Score(score)),
        Answer::Class { label, .. } => {
            let class = task.class_names().position(|name| name == label);
            class.map(Label::Class).ok_or_else(|| Error::model(format!("{task} has no class {label:?}")))
        }
    };
    answers.into_iter().map(one).collect()
}

#[cfg(all(test, unix))]
mod tests {
    use super::*;

    #[test]
    fn unreadable_test_set_is_not_missing() {
        let folder = tempfile::tempdir().unwrap();
        let sets = |task: &str| test_sets(&task.parse().unwrap(), folder.path());
        assert!(sets("mnli").unwrap().iter().all(|(_, examples)| examples.is_none()));
        for (task, name) in [("rte", "RTE/test.tsv"), ("mnli", "AX/diagnostic.tsv")] {
            let path = folder.path().join(name);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::os::unix::fs::symlink(&path, &path).unwrap();
            let error = sets(task).map(drop).unwrap_err();
            assert!(error.to_string().contains(name), "{error}");
            assert_eq!(error.exit_code(), 1);
        }
    }
}
