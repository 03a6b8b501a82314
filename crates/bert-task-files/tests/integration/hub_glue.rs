//! GLUE in the form of the Hugging Face Hub.

use std::fs::{self, File};
use std::path::Path;
use std::sync::Arc;

use arrow_array::{ArrayRef, Float32Array, Int64Array, RecordBatch, StringArray};
use bert_task_files::{LabelUse, find_split, read_examples, read_file};
use bert_tasks::{Error, Label, Split, Task};
use parquet::arrow::ArrowWriter;
use parquet::file::metadata::KeyValue;
use parquet::file::properties::WriterProperties;

/// Writes texts and labels as the library `datasets` does; `names` are the names of the classes.
fn write(path: &Path, columns: &[&str], labels: ArrayRef, names: &[&str]) {
    let texts = |column: &str| -> ArrayRef {
        Arc::new(StringArray::from_iter_values((0..labels.len()).map(|row| format!("{column} {row}"))))
    };
    let mut all: Vec<(&str, ArrayRef)> = columns.iter().map(|column| (*column, texts(column))).collect();
    all.push(("label", Arc::clone(&labels)));
    let batch = RecordBatch::try_from_iter(all).unwrap();
    let features = format!("{{\"info\": {{\"features\": {{\"label\": {{\"names\": {names:?}}}}}}}}}");
    let metadata = (!names.is_empty()).then(|| vec![KeyValue::new("huggingface".to_string(), features)]);
    let properties = WriterProperties::builder().set_key_value_metadata(metadata).build();
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    let file = File::create(path).unwrap();
    let mut writer = ArrowWriter::try_new(file, batch.schema(), Some(properties)).unwrap();
    writer.write(&batch).unwrap();
    writer.close().unwrap();
}

fn numbers(numbers: &[i64]) -> ArrayRef {
    Arc::new(Int64Array::from(numbers.to_vec()))
}

/// Reads the labels of a file with some classes of a task.
fn labels(task: &Task, columns: &[&str], ids: &[i64], names: &[&str]) -> Result<Vec<Label>, Error> {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("train-00000-of-00001.parquet");
    write(&path, columns, numbers(ids), names);
    let examples = read_file(task, &find_split(task, folder.path(), Split::Train)?.path, true)?;
    Ok(examples.iter().filter_map(|example| example.label).collect())
}

#[test]
fn class_numbers_mean_their_names() {
    let pair = ["sentence1", "sentence2"];
    let check = |task: &Task, columns: &[&str], names: &[&str], classes: [usize; 2]| {
        let expected = classes.map(Label::Class);
        assert_eq!(labels(task, columns, &[0, 1], names).unwrap(), expected, "{task}");
    };
    check(&Task::Rte, &pair, &["entailment", "not_entailment"], [0, 1]);
    check(&Task::Wnli, &pair, &["entailment", "not_entailment"], [1, 0]);
    check(&Task::Sst2, &["sentence"], &["negative", "positive"], [0, 1]);
    check(&Task::Mnli, &["premise", "hypothesis"], &["entailment", "neutral", "contradiction"], [1, 2]);
    let error = labels(&Task::Rte, &pair, &[0], &["yes", "no"]).unwrap_err().to_string();
    assert!(error.contains("unknown label \"yes\""), "{error}");
    let error = labels(&Task::Rte, &pair, &[0], &[]).unwrap_err().to_string();
    assert!(error.contains("unknown label \"0\""), "{error}");
    let error = labels(&Task::Rte, &pair, &[0, -1], &["entailment", "not_entailment"]).unwrap_err();
    assert!(error.to_string().contains("`.skip_unlabelled`"), "{error}");
}

#[test]
fn splits_of_the_hub_are_found() {
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name);
    let names = ["entailment", "neutral", "contradiction"];
    let columns = ["premise", "hypothesis"];
    write(&at("mnli/validation_mismatched-00000-of-00001.parquet"), &columns, numbers(&[2]), &names);
    write(&at("mnli/test_matched-00000-of-00001.parquet"), &columns, numbers(&[-1]), &names);
    let dev = find_split(&Task::Mnli, folder.path(), Split::DevMismatched).unwrap();
    assert!(!dev.is_sample);
    let examples = read_file(&Task::Mnli, &dev.path, true).unwrap();
    assert_eq!((&*examples[0].text_a, examples[0].text_b.as_deref()), ("premise 0", Some("hypothesis 0")));
    assert_eq!(examples[0].label, Some(Label::Class(0)));
    let test = find_split(&Task::Mnli, &at("mnli"), Split::Test).unwrap().path;
    assert_eq!(read_examples(&Task::Mnli, &test, LabelUse::Ignored).unwrap().examples[0].label, None);
    // The official files take precedence.
    fs::create_dir(at("MNLI")).unwrap();
    fs::write(at("MNLI/dev_mismatched.tsv"), "").unwrap();
    let official = find_split(&Task::Mnli, folder.path(), Split::DevMismatched).unwrap();
    assert_eq!(official.path, at("MNLI/dev_mismatched.tsv"));
}

#[test]
fn scores_of_the_hub_are_read() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("stsb/train-00000-of-00001.parquet");
    write(&path, &["sentence1", "sentence2"], Arc::new(Float32Array::from(vec![5.0, 3.8])), &[]);
    let found = find_split(&Task::Stsb, folder.path(), Split::Train).unwrap();
    let examples = read_file(&Task::Stsb, &found.path, true).unwrap();
    assert_eq!(examples[1].label, Some(Label::Score(3.8)));
}

#[test]
fn scores_of_the_hub_are_checked() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("stsb/train/0000.parquet");
    let read = |second: f32, labels: LabelUse| {
        let scores = Arc::new(Float32Array::from(vec![5.0, second]));
        write(&path, &["sentence1", "sentence2"], scores, &[]);
        let found = find_split(&Task::Stsb, folder.path(), Split::Train).unwrap();
        read_examples(&Task::Stsb, &found.path, labels)
    };
    let error = read(7.0, LabelUse::Required).unwrap_err().to_string();
    assert!(error.contains("0000.parquet:2: \"7\" is not a score of task sts-b"), "{error}");
    let error = read(-1.0, LabelUse::Required).unwrap_err().to_string();
    assert!(error.contains("marks an example without a label"), "{error}");
    let left = read(-1.0, LabelUse::LeftOut).unwrap();
    assert_eq!((left.examples.len(), left.without_label), (1, 1));
    assert_eq!(read(-1.0, LabelUse::Ignored).unwrap().examples.len(), 2);
}
