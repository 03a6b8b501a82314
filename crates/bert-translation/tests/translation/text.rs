//! Parallel text from two files and from a table.

use std::fs;
use std::path::Path;

use bert_translation::{ParallelArgs, SentencePair};

fn files(folder: &Path, source: &str, target: &str) -> ParallelArgs {
    fs::write(folder.join("s.txt"), source).unwrap();
    fs::write(folder.join("t.txt"), target).unwrap();
    let path = |name: &str| Some(folder.join(name));
    ParallelArgs { source: path("s.txt"), target: path("t.txt"), table: None, columns: vec![] }
}

fn table(folder: &Path, name: &str, text: &str, columns: &[&str]) -> ParallelArgs {
    fs::write(folder.join(name), text).unwrap();
    let columns = columns.iter().map(|column| column.to_string()).collect();
    ParallelArgs { source: None, target: None, table: Some(folder.join(name)), columns }
}

fn pair(source: &str, target: &str) -> SentencePair {
    SentencePair { source: source.into(), target: target.into() }
}

#[test]
fn lines_of_two_files_are_pairs() {
    let folder = tempfile::tempdir().unwrap();
    let text = files(folder.path(), "\u{feff}a b\r\n\nc\n", "x\ny\nz").read().unwrap();
    assert_eq!(text.pairs, [pair("a b", "x"), pair("c", "z")]);
    assert_eq!(text.dropped, 1);
}

#[test]
fn columns_of_a_table_are_pairs() {
    let folder = tempfile::tempdir().unwrap();
    let expected = [pair("a, b", "x"), pair("c", "z")];
    let tsv = table(folder.path(), "t.tsv", "id\tde\ten\n1\tx\ta, b\n2\tz\tc\n", &["en", "de"]);
    assert_eq!(tsv.read().unwrap().pairs, expected);
    let csv = table(folder.path(), "t.csv", "en,de\n\"a, b\",x\nc,z\n", &["en", "de"]);
    assert_eq!(csv.read().unwrap().pairs, expected);
}

#[test]
fn wrong_text_has_a_clear_error() {
    let folder = tempfile::tempdir().unwrap();
    let message = |args: ParallelArgs| {
        let error = args.read().unwrap_err();
        (error.to_string(), error.exit_code())
    };
    let (text, code) = message(files(folder.path(), "a\nb\n", "x\n"));
    assert!(text.contains("has 2 lines") && text.contains("has 1:") && code == 3, "{text} {code}");
    let (text, code) = message(files(folder.path(), "\n", "\n"));
    assert!(text.contains("no lines with text") && code == 3, "{text} {code}");
    let (text, code) = message(table(folder.path(), "t.tsv", "en\tde\na\tx\n", &["en", "fr"]));
    assert!(text.contains("\"fr\"") && code == 3, "{text} {code}");
    let args = files(folder.path(), "a\n", "x\n");
    fs::write(folder.path().join("t.txt"), b"x\xff\n").unwrap();
    let (text, code) = message(args);
    assert!(text.contains("t.txt:1: ") && text.contains("UTF-8") && code == 3, "{text} {code}");
    let missing = ParallelArgs { source: Some("missing".into()), ..files(folder.path(), "a", "b") };
    assert!(message(missing).0.starts_with("cannot read missing"));
}
