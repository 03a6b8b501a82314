//! Reads the published files in the data folder next to the workspace: the numbers of rows and labels must match its
//! README, and every answer of XQuAD must be found in a window.

use std::path::{Path, PathBuf};

use bert_task_files::{LabelUse, QuestionRules, find_split, read_file, read_questions};
use bert_tasks::windows::{EncodedQuestion, WindowSettings};
use bert_tasks::{Example, Label, Metric, SpecialIds, Split, Task, constant_baseline, labels_of};
use bert_tokenization::{Tokenizer, Vocabulary};

use crate::read_split;

/// Returns the folder with the published files: `data` in the folder `BERT_SHARED`, else in `../shared` next to the
/// workspace.
fn data() -> PathBuf {
    let default_folder = || Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared");
    let data = std::env::var_os("BERT_SHARED").map_or_else(default_folder, PathBuf::from).join("data");
    assert!(data.is_dir(), "this test needs the published files, and {} is no folder", data.display());
    data
}

/// Returns the number of examples of each class.
fn class_counts(task: &Task, examples: &[Example]) -> Vec<usize> {
    let mut counts = vec![0; task.num_labels()];
    for label in labels_of(examples).expect("labelled") {
        match label {
            Label::Class(class) => counts[class] += 1,
            Label::Score(_) => panic!("a score"),
        }
    }
    counts
}

/// Task, folder, class counts of train and dev, and the rows of test. Classes are in the order of their numbers; the
/// README lists them by name.
type Counts = (Task, &'static str, &'static [usize], &'static [usize], Option<usize>);

const COUNTS: [Counts; 12] = [
    (Task::Rte, "glue", &[1249, 1241], &[146, 131], Some(3000)),
    (Task::Sst2, "glue", &[29780, 37569], &[428, 444], Some(1821)),
    (Task::Mrpc, "glue", &[1194, 2474], &[129, 279], Some(1725)),
    (Task::Cola, "glue", &[2528, 6023], &[322, 721], Some(1063)),
    (Task::Wnli, "glue", &[323, 312], &[40, 31], Some(146)),
    (Task::Qnli, "glue", &[4523, 4476], &[2702, 2761], None),
    (Task::Mnli, "glue", &[2958, 3061, 2980], &[320, 347, 333], None),
    (Task::Qqp, "glue", &[5747, 3252], &[623, 377], None),
    (Task::Sst5, "", &[1092, 2218, 1624, 2322, 1288], &[139, 289, 229, 279, 165], Some(2210)),
    (Task::Cfimdb, "", &[856, 851], &[123, 122], Some(488)),
    (Task::Sick, "sick", &[665, 1299, 2536], &[74, 144, 282], Some(4927)),
    (Task::Snli, "snli", &[3024, 2981, 2994], &[326, 346, 328], None),
];

#[test]
#[ignore = "needs ../shared"]
fn counts_equal_the_published_ones() {
    let data = data();
    for (task, folder, train, dev, test) in &COUNTS {
        let dir = data.join(folder);
        let read = |split| read_split(task, &dir, split).unwrap_or_else(|e| panic!("{e}"));
        assert_eq!(class_counts(task, &read(Split::Train)), *train, "{task}");
        assert_eq!(class_counts(task, &read(Split::Dev)), *dev, "{task}");
        match test {
            Some(rows) => {
                let examples = read(Split::Test);
                assert_eq!(examples.len(), *rows, "{task}");
                assert_eq!(labels_of(&examples).is_some(), task.spec().has_labels(Split::Test), "{task}");
            }
            None => assert!(find_split(task, &dir, Split::Test).is_err()),
        }
        for split in [Split::Train, Split::Dev] {
            let is_sample = find_split(task, &dir, split).unwrap().is_sample;
            let expected = match task {
                Task::Mnli | Task::Qqp | Task::Snli => true,
                Task::Qnli => split == Split::Train,
                _ => false,
            };
            assert_eq!(is_sample, expected, "{task} {split}");
        }
    }
}

#[test]
#[ignore = "needs ../shared"]
fn sst5_test_is_labelled() {
    let data = data();
    let test = read_split(&Task::Sst5, &data, Split::Test).unwrap();
    assert_eq!(class_counts(&Task::Sst5, &test), [279, 633, 389, 510, 399]);
}

#[test]
#[ignore = "needs ../shared"]
fn stsb_scores_are_in_range() {
    let data = data();
    for (split, rows) in [(Split::Train, 5749), (Split::Dev, 1500), (Split::Test, 1379)] {
        let examples = read_split(&Task::Stsb, &data.join("glue/STS-B"), split).unwrap();
        assert_eq!(examples.len(), rows);
        assert_eq!(labels_of(&examples).is_some(), split != Split::Test);
    }
}

#[test]
#[ignore = "needs ../shared"]
fn official_columns_give_the_sample_examples() {
    let data = data();
    for (task, classes) in &[(Task::Mnli, 3), (Task::Qqp, 2)] {
        let folder = data.join("glue").join(task.spec().folder);
        let path = folder.join("official_format_rows.tsv");
        let examples = read_file(task, &path, true).unwrap();
        assert_eq!(class_counts(task, &examples), vec![160; *classes]);
        assert!(examples.iter().all(|e| e.text_b.is_some()));
    }
}

#[test]
#[ignore = "needs ../shared"]
fn first_rows_of_the_official_files() {
    let data = data();
    let first = |task: &Task, split| {
        let examples = read_split(task, &data.join("glue"), split).unwrap();
        examples.into_iter().next().unwrap()
    };
    let mrpc = first(&Task::Mrpc, Split::Train);
    assert!(mrpc.text_a.starts_with("Amrozi accused his brother, whom he called \"the"));
    assert!(mrpc.text_b.unwrap().starts_with("Referring to him as only \"the"));
    assert_eq!(mrpc.label, Some(Label::Class(1)));
    let cola = first(&Task::Cola, Split::Dev);
    assert_eq!(cola.text_a, "The sailors rode the breeze clear of the rocks.");
    let sst2 = first(&Task::Sst2, Split::Dev);
    assert_eq!(sst2.text_a, "it 's a charming and often affecting journey . ");
    let stsb = first(&Task::Stsb, Split::Dev);
    assert_eq!(stsb.label, Some(Label::Score(5.0)));
    assert_eq!(stsb.text_b.as_deref(), Some("A man wearing a hard hat is dancing."));
}

/// Checks the README's majority-class figures of the dev sets.
#[test]
#[ignore = "needs ../shared"]
fn majority_baselines_equal_the_published_ones() {
    let data = data();
    for (task, metric, expected) in [
        (Task::Rte, Metric::Accuracy, 0.527),
        (Task::Sst2, Metric::Accuracy, 0.509),
        (Task::Mrpc, Metric::Accuracy, 0.684),
        (Task::Mrpc, Metric::F1, 0.812),
        (Task::Wnli, Metric::Accuracy, 0.563),
    ] {
        let labels = |split| {
            let examples = read_split(&task, &data.join("glue"), split).unwrap();
            labels_of(&examples).unwrap()
        };
        let scores = constant_baseline(&task, &labels(Split::Train), &labels(Split::Dev));
        let value = scores.get(metric).unwrap();
        assert!((value - expected).abs() < 5e-4, "{task} {metric} {value}");
    }
}

/// Checks every question of XQuAD: one window contains the whole answer, and its tokens quote the answer with at
/// most a few more characters.
#[test]
#[ignore = "needs ../shared"]
fn xquad_answers_are_quoted_from_the_text() {
    let data = data();
    let settings = WindowSettings { max_seq_length: 384, doc_stride: 128, max_query_length: 64 };
    for (language, vocabulary) in [
        ("en", "bert-base-uncased-vocab.txt"),
        ("de", "bert-base-uncased-vocab.txt"),
        ("es", "bert-base-uncased-vocab.txt"),
        ("zh", "bert-base-chinese-vocab.txt"),
    ] {
        let vocabulary = Vocabulary::read(&data.join("vocab").join(vocabulary)).unwrap();
        let tokenizer = Tokenizer::new(&vocabulary, true);
        let special = SpecialIds { cls: vocabulary.cls_id(), sep: vocabulary.sep_id() };
        let questions = read_questions(
            &data.join(format!("squad/xquad.{language}.json")),
            QuestionRules { labels: LabelUse::Required, skip_misplaced: false },
        )
        .unwrap()
        .examples;
        assert_eq!(questions.len(), 1190);
        let mut exact = 0;
        for question in &questions {
            let encoded = EncodedQuestion::new(question, &tokenizer, special, settings);
            let window = encoded.windows.iter().find(|window| window.target != (0, 0));
            let window = window.unwrap_or_else(|| panic!("{language} {}: no window", question.id));
            let piece = |place: usize| encoded.pieces[window.tokens.start + place - window.first];
            let quoted = &question.context[piece(window.target.0).start..piece(window.target.1).end];
            let answer = &question.answers[0].text;
            assert!(quoted.contains(answer.trim()), "{language} {}: {quoted:?} {answer:?}", question.id);
            exact += usize::from(quoted == answer);
        }
        // The others end inside a word, or with a blank.
        println!("{language}: {exact} of {} quoted to the character", questions.len());
        assert!(exact * 100 > questions.len() * 97, "{language}: {exact}");
    }
}
