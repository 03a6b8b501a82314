//! Held-out documents from the command line to an evaluation; standard input.

use std::fs::{File, remove_dir_all};

use crate::common::{Folder, articles, ended};

const FLAGS: &str = "--max-seq-length 32 --max-predictions-per-seq 5";

#[test]
fn pretrain_evaluates_on_held_out_documents() {
    let folder = Folder::with_data();
    folder.write("days.txt", articles(0, 40));
    let built = folder.ok(&format!(
        "make-pretrain-data --input days.txt --vocab vocab.txt --hold-out 20% {FLAGS} --output both"
    ));
    assert!(built.stdout.contains("held-out documents:"), "{}", built.stdout);
    let run = "pretrain --data both --model config.json --steps 2 --batch-size 4";
    folder.ok(&format!("{run} --keep-best --output run"));
    assert!(!folder.json("run/evaluations.jsonl").is_empty());
    // Other data in the folder may contain training documents.
    remove_dir_all(folder.at("both/held-out")).expect("removed");
    folder.copy("data", "both/held-out");
    let other = folder.ok(&format!("{run} --output other"));
    assert!(other.stderr.contains("is not evaluated: it was made from other text"), "{}", other.stderr);
    folder.refused(
        "pretrain --data data --model config.json --steps 2 --eval-every 1 --output none",
        2,
        "--hold-out",
    );
}

#[test]
fn parts_write_both_data_sets() {
    let folder = Folder::with_data();
    folder.write(
        "days.txt",
        (1..100).map(|day| format!("It is day {day}.\nThe sun rose.\n\n")).collect::<String>(),
    );
    let part = |part: usize| {
        format!(
            "make-pretrain-data --input days.txt --vocab vocab.txt --hold-out 20 --part {part} --parts 2 --num-shards 2 \
             {FLAGS} --output parts"
        )
    };
    for line in [1, 2].map(part) {
        folder.ok(&format!("{line} --tokenize-only"));
    }
    for line in [2, 1].map(part) {
        folder.ok(&line);
    }
    folder.ok("bert merge parts");
    assert_eq!(folder.json("parts/held-out/manifest.json")[0]["report"]["documents"], 20);
    assert_eq!(folder.json("parts/manifest.json")[0]["report"]["documents"], 79);
}

#[test]
fn standard_input_gives_the_bytes_of_a_file() {
    let folder = Folder::with_data();
    for (output, input) in [("piped", "-"), ("read", "train.txt")] {
        let line = format!(
            "make-pretrain-data --input {input} --vocab vocab.txt {FLAGS} --num-shards 1 --output {output}"
        );
        let mut command = folder.command(&line);
        command.stdin(File::open(folder.at("train.txt")).expect("the text"));
        let ended = ended(&line, command.output().expect("a program"));
        assert_eq!(ended.code, Some(0), "{}", ended.stderr);
        assert_eq!(ended.stderr.contains("standard input is copied to "), input == "-", "{}", ended.stderr);
    }
    let shard = |output: &str| folder.read(&format!("{output}/train-00000-of-00001.parquet"));
    assert!(shard("piped") == shard("read"));
    assert!(!folder.names(".").iter().any(|name| name.contains("standard-input")), "{:?}", folder.names("."));
}

#[test]
fn errors_of_standard_input_name_it() {
    let folder = Folder::with_data();
    folder.write("utf16.txt", b"\xff\xfet\0h\0e\0\n\0");
    folder.write("empty.txt", "");
    for (file, says) in
        [("utf16.txt", "-: this is text in UTF-16"), ("empty.txt", "-: standard input is empty")]
    {
        let line = format!("make-pretrain-data --input - --vocab vocab.txt {FLAGS} --output out");
        let mut command = folder.command(&line);
        command.stdin(File::open(folder.at(file)).expect("the text"));
        let ended = ended(&line, command.output().expect("a program"));
        assert!(ended.code == Some(3) && ended.stderr.contains(says), "{}", ended.stderr);
    }
}
