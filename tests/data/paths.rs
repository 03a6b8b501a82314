//! Paths as users write them: `file://` URLs, lists with commas, URLs with passwords.

use crate::common::{Folder, articles};

const FLAGS: &str = "--max-seq-length 32 --max-predictions-per-seq 5 --dupe-factor 1";

fn with_text() -> Folder {
    let folder = Folder::new();
    folder.write("my text/a, b.txt", articles(0, 6));
    folder.write("c.txt", articles(6, 3));
    folder.ok("bert make-vocab --input 'my text/a, b.txt' --vocab-size 300 --output vocab.txt");
    folder
}

#[test]
fn every_flag_accepts_file_urls() {
    let folder = with_text();
    let url =
        |name: &str| format!("file://{}", folder.at(name).to_str().expect("a name").replace(' ', "%20"));
    let text = url("my text/a, b.txt");
    let vocab = url("vocab.txt");
    let data = url("data");
    let scratch = url("fast");
    let build =
        format!("make-pretrain-data {FLAGS} --input {text} --vocab={vocab} --scratch {scratch} --output");
    folder.ok(&format!("{build} {data}"));
    for stage in ["--part 1 --tokenize-only", "--part 2", "--part 1"] {
        folder.ok(&format!("{build} {} --parts 2 {stage}", url("parts")));
    }
    folder.ok(&format!("bert merge {} --scratch {scratch}", url("parts")));
    for command in ["verify", "inspect"] {
        folder.ok(&format!("bert {command} {data}"));
    }
    folder.ok(&format!("bert inspect {data} --html"));
    folder.ok(&format!("bert make-vocab --input {text} --vocab-size 300 --output {}", url("again.txt")));
    assert_eq!(folder.read("again.txt"), folder.read("vocab.txt"));
    assert!(folder.at("data.html").is_file() && !folder.at("file:").exists());
    // A file of options may contain such URLs too.
    let options =
        serde_json::json!({ "input": [text], "vocab": vocab, "output": url("other"), "scratch": scratch });
    folder.write("options.json", options.to_string());
    folder.ok(&format!("make-pretrain-data {FLAGS} --config {}", url("options.json")));
    assert!(folder.at("other/manifest.json").is_file() && !folder.at("file:").exists());
}

#[test]
fn paths_may_contain_commas() {
    let folder = with_text();
    for (input, files) in [("my text/a, b.txt", 1), ("my text/a, b.txt,c.txt", 2), ("my text,c.txt", 2)] {
        folder.ok(&format!(
            "make-pretrain-data {FLAGS} --vocab vocab.txt --input '{input}' --output data --overwrite"
        ));
        assert_eq!(
            folder.checksummed("data/manifest.json")["inputs"].as_array().expect("a list").len(),
            files
        );
    }
}

#[test]
fn tables_in_input_folders_are_skipped_with_one_warning() {
    let folder = with_text();
    folder.write("my text/pairs.tsv", "index\tlabel\n0\tentailment\n");
    let warning = "warning: 1 CSV or TSV file(s) in input folders are skipped, my text/pairs.tsv first: they have no \
                   column \"text\"; name the column of their text with --text-column";
    for line in [
        format!("make-pretrain-data {FLAGS} --vocab vocab.txt --input 'my text' --output data"),
        "bert make-vocab --input 'my text' --vocab-size 300 --output again.txt".to_owned(),
    ] {
        let stderr = folder.ok(&line).stderr;
        assert_eq!(stderr.matches(warning).count(), 1, "{stderr}");
    }
    assert_eq!(folder.read("again.txt"), folder.read("vocab.txt"));
}

#[test]
fn all_files_that_cannot_be_read_are_named() {
    let folder = with_text();
    std::fs::create_dir(folder.at("mixed")).expect("created");
    folder.write("mixed/a.txt", "{\\rtf1 some text}");
    folder.write("mixed/b.txt", "\\documentclass{article}\nSome text.\n");
    folder.write("mixed/c.txt", "@article{mill,\n  title = {The mill}\n}\n");
    std::fs::write(folder.at("mixed/d.txt"), b"Gr\xfc\xdfe.\nM\xfchle.\n".repeat(20)).expect("written");
    std::fs::copy(folder.at("c.txt"), folder.at("mixed/e.txt")).expect("copied");
    for line in [
        "bert make-vocab --input mixed --vocab-size 400 --output other.txt",
        "make-pretrain-data --input mixed --vocab vocab.txt --output none",
        "make-pretrain-data --input mixed --vocab vocab.txt --hold-out 2 --output none",
        "make-pretrain-data --input mixed --vocab vocab.txt --dry-run",
    ] {
        let error = folder.refused(line, 3, "4 input files are not text").stderr;
        for said in [
            "a.txt: this is an RTF",
            "b.txt: this is a LaTeX",
            "c.txt: this is a bibliography",
            "d.txt:1: 40 of 40",
        ] {
            assert!(error.contains(said), "{line}: {error}");
        }
    }
}

#[test]
fn passwords_in_urls_are_not_printed() {
    let folder = with_text();
    for (line, code) in [
        (
            format!(
                "make-pretrain-data {FLAGS} --vocab vocab.txt --output out --input https://me:SECRET@host/a.txt"
            ),
            1,
        ),
        (
            format!("make-pretrain-data {FLAGS} --vocab https://me:SECRET@host/v --output out --input c.txt"),
            1,
        ),
        (
            format!(
                "make-pretrain-data {FLAGS} --vocab vocab.txt --output s3://KEY:SECRET@b/out --input c.txt"
            ),
            1,
        ),
        ("bert verify https://host/data?sig=SECRET".to_owned(), 1),
        ("bert inspect s3://KEY:SECRET@bucket/data".to_owned(), 1),
    ] {
        let ended = folder.run(&line);
        assert_eq!(ended.code, Some(code), "{line}: {}", ended.stderr);
        assert!(!ended.stderr.contains("SECRET") && ended.stderr.contains("***"), "{}", ended.stderr);
    }
}
