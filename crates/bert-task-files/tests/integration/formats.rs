//! Reads small files of every task, with the quirks of the published files, and checks the message for every error.

use std::fs;
use std::path::Path;

use bert_task_files::{find_split, read_file};
use bert_tasks::{Error, Example, Label, Split, Task, labels_of};

use crate::read_split;

fn read(task: &Task, has_labels: bool, bytes: impl AsRef<[u8]>) -> Result<Vec<Example>, Error> {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("x.tsv");
    fs::write(&path, bytes).unwrap();
    read_file(task, &path, has_labels)
}

/// Returns the error message without the temporary folder's name; checks for exit code 3.
fn refusal(task: &Task, has_labels: bool, bytes: impl AsRef<[u8]>) -> String {
    let error = read(task, has_labels, bytes).unwrap_err();
    assert_eq!(error.exit_code(), 3, "{error}");
    let message = error.to_string();
    message[message.find("x.tsv").unwrap()..].to_string()
}

fn example(index: &str, a: &str, b: Option<&str>, label: Option<Label>) -> Example {
    Example { index: index.into(), text_a: a.into(), text_b: b.map(str::to_string), choices: vec![], label }
}

fn class(class: usize) -> Option<Label> {
    Some(Label::Class(class))
}

#[test]
fn rte_quotes_are_ordinary_characters() {
    let text = "index\tsentence1\tsentence2\tlabel\n\
                0\t\"Salt\" kept, it is said, \"a town.\t\"\tnot_entailment\n\
                1\ta\tb\tentailment\n";
    let expected = [
        example("0", "\"Salt\" kept, it is said, \"a town.", Some("\""), class(1)),
        example("1", "a", Some("b"), class(0)),
    ];
    assert_eq!(read(&Task::Rte, true, text).unwrap(), expected);
    // CRLF, and a missing LF after the last row, read the same.
    let crlf = text.replace('\n', "\r\n");
    assert_eq!(read(&Task::Rte, true, &crlf).unwrap(), expected);
    assert_eq!(read(&Task::Rte, true, text.trim_end()).unwrap(), expected);
    // A file without its header also reads the same.
    let (_, bare) = text.split_once('\n').unwrap();
    assert_eq!(read(&Task::Rte, true, bare).unwrap(), expected);
}

#[test]
fn test_files_have_no_labels() {
    let text = "index\tsentence1\tsentence2\n17\ta\tb\n";
    let expected = [example("17", "a", Some("b"), None)];
    assert_eq!(read(&Task::Rte, false, text).unwrap(), expected);
    assert_eq!(read(&Task::Wnli, false, text).unwrap(), expected);
    // Labelled files can be predicted too.
    let text = "index\tsentence1\tsentence2\tlabel\n17\ta\tb\tentailment\n";
    assert_eq!(read(&Task::Rte, false, text).unwrap(), expected);
    let (_, bare) = text.split_once('\n').unwrap();
    assert_eq!(read(&Task::Rte, false, bare).unwrap(), expected);
}

#[test]
fn sst2_keeps_blanks_and_numbers_rows() {
    let text = "sentence\tlabel\nit 's charming . \t1\n\"dull \t0\n";
    let expected =
        [example("0", "it 's charming . ", None, class(1)), example("1", "\"dull ", None, class(0))];
    assert_eq!(read(&Task::Sst2, true, text).unwrap(), expected);
    let text = "index\tsentence\n5\tuneasy mishmash .\n";
    let expected = [example("5", "uneasy mishmash .", None, None)];
    assert_eq!(read(&Task::Sst2, false, text).unwrap(), expected);
}

#[test]
fn mrpc_has_a_byte_order_mark() {
    let header = "\u{feff}Quality\t#1 ID\t#2 ID\t#1 String\t#2 String\n";
    let text = format!("{header}1\t70\t71\t\"He said\tHe says\n");
    let expected = [example("0", "\"He said", Some("He says"), class(1))];
    assert_eq!(read(&Task::Mrpc, true, text).unwrap(), expected);
    let text = "index\t#1 ID\t#2 ID\t#1 String\t#2 String\n3\t70\t71\ta\tb\n";
    let expected = [example("3", "a", Some("b"), None)];
    assert_eq!(read(&Task::Mrpc, false, text).unwrap(), expected);
}

#[test]
fn cola_has_a_header_only_in_test() {
    let text = "gj04\t1\t\tBill left.\nks08\t0\t*\tLeft Bill the.";
    let expected =
        [example("0", "Bill left.", None, class(1)), example("1", "Left Bill the.", None, class(0))];
    assert_eq!(read(&Task::Cola, true, text).unwrap(), expected);
    let text = "index\tsentence\n9\tBill left.\n";
    let expected = [example("9", "Bill left.", None, None)];
    assert_eq!(read(&Task::Cola, false, text).unwrap(), expected);
    // The dev file can be predicted too.
    let examples = read(&Task::Cola, false, "gj04\t1\t\tBill left.\n").unwrap();
    assert_eq!(examples, [example("0", "Bill left.", None, None)]);
}

#[test]
fn qnli_and_qqp_columns_are_found_by_name() {
    let text = "index\tquestion\tsentence\tlabel\n0\tWho?\tHe.\tentailment\n";
    let expected = [example("0", "Who?", Some("He."), class(0))];
    assert_eq!(read(&Task::Qnli, true, text).unwrap(), expected);
    let official = "id\tqid1\tqid2\tquestion1\tquestion2\tis_duplicate\n8\t1\t2\ta?\t\t1\n";
    let sample = "index\tquestion1\tquestion2\tis_duplicate\n8\ta?\t\t1\n";
    let expected = [example("8", "a?", Some(""), class(1))];
    assert_eq!(read(&Task::Qqp, true, official).unwrap(), expected);
    assert_eq!(read(&Task::Qqp, true, sample).unwrap(), expected);
    let test = "id\tquestion1\tquestion2\n8\ta?\t\n";
    assert_eq!(read(&Task::Qqp, false, test).unwrap()[0].label, None);
}

#[test]
fn mnli_is_read_with_every_column_count() {
    let common = "index\tpromptID\tpairID\tgenre\tp1\tp2\tq1\tq2\tsentence1\tsentence2";
    let row = "4\t1\t1c\tslate\t(\t(\t(\t(\ta\tb";
    // The single annotators' labels differ from the gold label, which is the one to use.
    let train = format!("{common}\tlabel1\tgold_label\n{row}\tneutral\tcontradiction\n");
    let dev = format!(
        "{common}\tlabel1\tlabel2\tlabel3\tlabel4\tlabel5\tgold_label\n\
         {row}\tneutral\tneutral\tneutral\tneutral\tneutral\tcontradiction\n"
    );
    let sample = "index\tsentence1\tsentence2\tlabel\n4\ta\tb\tcontradiction\n".to_string();
    let expected = [example("4", "a", Some("b"), class(0))];
    for text in [train, dev, sample] {
        assert_eq!(read(&Task::Mnli, true, &text).unwrap(), expected);
        let (_, bare) = text.split_once('\n').unwrap();
        assert_eq!(read(&Task::Mnli, true, bare).unwrap(), expected);
    }
    let test = format!("{common}\n{row}\n");
    let expected = [example("4", "a", Some("b"), None)];
    assert_eq!(read(&Task::Mnli, false, test).unwrap(), expected);
}

#[test]
fn stsb_scores_are_from_0_to_5() {
    let header = "index\tgenre\tfilename\tyear\told_index\tsource1\tsource2\tsentence1\tsentence2";
    let row = "2\tnews\tm\t2012\t1\tn\tn\ta\tb";
    let text = format!("{header}\tscore\n{row}\t3.800\n");
    let expected = [example("2", "a", Some("b"), Some(Label::Score(3.8)))];
    assert_eq!(read(&Task::Stsb, true, text).unwrap(), expected);
    let test = read(&Task::Stsb, false, format!("{header}\n{row}\n")).unwrap();
    assert_eq!(test, [example("2", "a", Some("b"), None)]);
    let refused = |score: &str| refusal(&Task::Stsb, true, format!("{header}\tscore\n{row}\t{score}\n"));
    for bad in ["5.001", "-2", "inf", "three"] {
        let message = format!("x.tsv:2: \"{bad}\" is not a score of task sts-b (a number from 0 to 5)");
        assert_eq!(refused(bad), message);
    }
    for missing in ["-1", "NaN"] {
        let message = format!("x.tsv:2: the label \"{missing}\" marks an example without a label");
        assert!(refused(missing).starts_with(&message));
    }
    assert!(refused("").starts_with("x.tsv:2: there is no label here; `.skip_unlabelled`"));
}

#[test]
fn minbert_lines_are_split_at_the_separator() {
    let text = "3 ||| It 's \\/ lovely .\n0 ||| a ||| b\tc\n";
    let expected =
        [example("0", "It 's \\/ lovely .", None, class(3)), example("1", "a ||| b\tc", None, class(0))];
    assert_eq!(read(&Task::Sst5, true, text).unwrap(), expected);
    let unlabelled = read(&Task::Sst5, false, text).unwrap();
    assert!(unlabelled.iter().all(|example| example.label.is_none()));
    for has_labels in [true, false] {
        assert_eq!(
            refusal(&Task::Cfimdb, has_labels, "0 ||| a\n1|||b\n"),
            "x.tsv:2: expected \"LABEL ||| TEXT\""
        );
        assert_eq!(
            refusal(&Task::Cfimdb, has_labels, "2 ||| a\n"),
            "x.tsv:1: unknown label \"2\"; the labels of task cfimdb are 0, 1"
        );
    }
}

#[test]
fn wrong_columns_and_labels_name_the_line() {
    let header = "index\tsentence1\tsentence2\tlabel\n";
    let rte = |rest: &str| refusal(&Task::Rte, true, format!("{header}{rest}"));
    assert_eq!(
        rte("0\ta\tb\tentailment\n1\ta\tentailment\n"),
        "x.tsv:3: 3 tab-separated columns, expected 4 as in the first row"
    );
    assert_eq!(
        rte("0\ta\tb\tentailment\textra\n"),
        "x.tsv:2: 5 tab-separated columns, expected 4 as in the first row"
    );
    assert_eq!(
        rte("0\ta\tb\tentailment\n\n"),
        "x.tsv:3: 1 tab-separated columns, expected 4 as in the first row"
    );
    assert_eq!(
        rte("0\ta\tb\tEntailment\n"),
        "x.tsv:2: unknown label \"Entailment\"; the labels of task rte are entailment, not_entailment"
    );
    assert_eq!(
        refusal(&Task::Rte, true, "index\tsentence1\tsentence2\n0\ta\tb\n"),
        "x.tsv:1: no column \"label\" in the header (columns here: index, sentence1, sentence2)"
    );
    assert_eq!(
        refusal(&Task::Rte, false, "index\tsentence1\tsentense2\n0\ta\tb\n"),
        "x.tsv:1: no column \"sentence2\" in the header (columns here: index, sentence1, sentense2; did you mean `sentense2`?)"
    );
    assert_eq!(
        refusal(&Task::Mnli, true, "a\tb\n"),
        "x.tsv:1: 2 tab-separated columns, expected a header, or 12 or 16 or 4 columns"
    );
    assert_eq!(
        refusal(&Task::Sst2, true, "fine film\t2\n"),
        "x.tsv:1: unknown label \"2\"; the labels of task sst-2 are 0, 1"
    );
}

#[test]
fn files_without_examples_are_errors() {
    for text in ["", "index\tsentence1\tsentence2\tlabel\n"] {
        assert_eq!(refusal(&Task::Rte, true, text), "x.tsv: this file has no examples");
    }
    assert_eq!(
        refusal(&Task::Sst5, true, b"1 ||| caf\xe9\n"),
        "x.tsv:1: invalid UTF-8 at byte 9 of the line; convert the file: iconv -f LATIN1 -t UTF-8 OLD > NEW"
    );
    assert_eq!(
        refusal(&Task::Cola, true, "\u{feff}"),
        "x.tsv:1: 1 tab-separated columns, expected a header, or 4 columns"
    );
}

#[test]
fn splits_are_found_in_the_task_folder() {
    let folder = tempfile::tempdir().unwrap();
    let write = |name: &str| {
        let path = folder.path().join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, "").unwrap();
    };
    let find = |task, split| find_split(task, folder.path(), split);
    let error = find(&Task::Mnli, Split::Dev).unwrap_err();
    assert_eq!(error.exit_code(), 1);
    assert_eq!(
        error.to_string(),
        format!(
            "{}: no dev file of task mnli here (looked for dev_matched.tsv, MNLI/dev_matched.tsv, \
             dev_sample.tsv, MNLI/dev_sample.tsv, validation_matched-00000-of-00001.parquet, \
             mnli/validation_matched-00000-of-00001.parquet, validation_matched/0000.parquet, \
             mnli/validation_matched/0000.parquet)",
            folder.path().display()
        )
    );
    let error = find(&Task::Rte, Split::DevMismatched).unwrap_err();
    assert_eq!(error.to_string(), "task rte has no dev-mismatched split");
    assert_eq!(error.exit_code(), 2);

    write("MNLI/dev_sample.tsv");
    let sample = find(&Task::Mnli, Split::Dev).unwrap();
    assert_eq!(sample.path, folder.path().join("MNLI/dev_sample.tsv"));
    assert!(sample.is_sample);
    write("MNLI/dev_matched.tsv");
    assert!(!find(&Task::Mnli, Split::Dev).unwrap().is_sample);
    write("dev_matched.tsv");
    let nearest = find(&Task::Mnli, Split::Dev).unwrap();
    assert_eq!(nearest.path, folder.path().join("dev_matched.tsv"));
    let missing = read_file(&Task::Rte, Path::new("/no/such/file"), true).unwrap_err();
    assert_eq!(missing.exit_code(), 1);
}

#[test]
fn sick_has_classes_and_scores() {
    let text = "pair_ID\tsentence_A\tsentence_B\trelatedness_score\tentailment_judgment\r\n7\ta\tb\t3.7\tNEUTRAL\r\n";
    assert_eq!(read(&Task::Sick, true, text).unwrap(), [example("7", "a", Some("b"), class(2))]);
    let score = Some(Label::Score(3.7));
    assert_eq!(read(&Task::SickR, true, text).unwrap(), [example("7", "a", Some("b"), score)]);
    let (_, bare) = text.split_once('\n').unwrap();
    assert_eq!(read(&Task::SickR, true, bare).unwrap(), [example("7", "a", Some("b"), score)]);
    let low = text.replace("3.7", "0.9");
    assert_eq!(
        refusal(&Task::SickR, true, low),
        "x.tsv:2: \"0.9\" is not a score of task sick-r (a number from 1 to 5)"
    );
}

#[test]
fn snli_skips_rows_without_agreement() {
    let names = "gold_label\tsentence1_binary_parse\tsentence2_binary_parse\tsentence1_parse\tsentence2_parse\t\
                 sentence1\tsentence2\tcaptionID\tpairID\tlabel1\tlabel2\tlabel3\tlabel4\tlabel5\n";
    let rows = "neutral\t(\t(\t(\t(\ta\tb\t3.jpg#4\t3.jpg#4r1n\tneutral\t\t\t\t\n\
                -\t(\t(\t(\t(\tc\td\t3.jpg#4\t3.jpg#4r1e\tneutral\tentailment\t\t\t\n";
    let expected = [example("3.jpg#4r1n", "a", Some("b"), class(2))];
    assert_eq!(read(&Task::Snli, true, format!("{names}{rows}")).unwrap(), expected);
    assert_eq!(read(&Task::Snli, true, rows).unwrap(), expected);
    // Other tasks do not have this marker.
    let text = "index\tsentence1\tsentence2\tlabel\n4\ta\tb\t-\n";
    assert!(refusal(&Task::Mnli, true, text).contains("unknown label \"-\""));
}

#[test]
fn cfimdb_test_has_no_labels() {
    let folder = tempfile::tempdir().unwrap();
    for name in ["cfimdb-test.txt", "sst-test.txt"] {
        fs::write(folder.path().join(name), "0 ||| good\n0 ||| bad\n").unwrap();
    }
    let blanked = read_split(&Task::Cfimdb, folder.path(), Split::Test).unwrap();
    assert_eq!(labels_of(&blanked), None);
    let labelled = read_split(&Task::Sst5, folder.path(), Split::Test).unwrap();
    assert_eq!(labels_of(&labelled), Some(vec![Label::Class(0); 2]));
    let predict = read_file(&Task::Sst5, &folder.path().join("sst-test.txt"), false).unwrap();
    assert_eq!(labels_of(&predict), None);
}

/// Tests that no input panics: every prefix of a file, and every byte replaced by each of several hostile ones.
#[test]
fn damaged_files_never_panic() {
    let header = "index\tgenre\tfilename\tyear\told_index\tsource1\tsource2\tsentence1\tsentence2";
    let stsb = format!("\u{feff}{header}\tscore\n2\tn\tm\t2012\t1\tn\tn\ta\t\"b\t3.8\n");
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("x");
    for (task, text) in [
        (Task::Stsb, stsb.as_str()),
        (Task::Cola, "gj04\t1\t\tBill left.\nks08\t0\t*\tLeft.\n"),
        (Task::Sst5, "3 ||| It 's \u{e9} .\n0 ||| b\n"),
    ] {
        let bytes = text.as_bytes();
        for at in 0..bytes.len() {
            fs::write(&path, &bytes[..at]).unwrap();
            for has_labels in [true, false] {
                let _ = read_file(&task, &path, has_labels);
            }
            for hostile in [0, b'\n', b'\r', b'\t', b'"', 0xff, b'9'] {
                let mut damaged = bytes.to_vec();
                damaged[at] = hostile;
                fs::write(&path, &damaged).unwrap();
                let _ = read_file(&task, &path, true);
            }
        }
    }
}
