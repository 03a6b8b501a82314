//! Files of a fine-tuning task.

use std::fs;

use super::check;
use crate::common::{Folder, entailment};

/// Checks that a quote is a regular character: the reference does not parse CSV.
fn check_quotes_are_characters(folder: &Folder, good: &str) {
    folder.write(
        "quotes/train.tsv",
        good.to_string() + "8\t\"a \"b\t\"\tentailment\n9\t\"\t'x\"\tnot_entailment\n",
    );
    folder.write("quotes/dev.tsv", entailment(8, 4));
    folder.ok(
        "finetune --task rte --max-seq-length 48 --checkpoint run --num-train-epochs 1 --output out --data quotes",
    );
}

#[test]
fn damaged_task_files_are_rejected() {
    let folder = Folder::with_run();
    let good = entailment(0, 8);
    let case = |name: &str, train: &[u8]| {
        folder.write(&format!("{name}/train.tsv"), train);
        folder.write(&format!("{name}/dev.tsv"), entailment(8, 4));
    };
    case("missing", good.replacen("\tsentence2", "", 1).as_bytes());
    case("label", good.replacen("\tentailment", "\tperhaps", 1).as_bytes());
    case("columns", (good.clone() + "8\tone\ttwo\n").as_bytes());
    case("extra", (good.clone() + "8\ta\tb\tentailment\tmore\n").as_bytes());
    case("empty", b"");
    case("nul", b"\0\0\0\n\0");
    case("latin1", &[good.as_bytes(), b"8\tcaf\xe9\tx\tentailment\n"].concat());
    case("line", &[good.as_bytes(), &[b'x'; 2 << 20]].concat());
    case("carriage", good.replace('\n', "\r").as_bytes());
    fs::create_dir_all(folder.at("sparse")).expect("a folder");
    fs::File::create(folder.at("sparse/train.tsv")).expect("a file").set_len(4 << 30).expect("a sparse file");
    folder.write("sparse/dev.tsv", entailment(8, 4));
    check(
        &folder,
        "finetune --task rte --max-seq-length 48 --checkpoint run --output out --data",
        r#"
        3 | missing | missing/train.tsv:1: no column "sentence2" in the header (columns here: index, sentence1, label)
        3 | label | label/train.tsv:...: unknown label "perhaps"; the labels of task rte are entailment, not_entailment
        3 | columns | columns/train.tsv:10: 3 tab-separated columns, expected 4 as in the first row
        3 | extra | extra/train.tsv:10: 5 tab-separated columns, expected 4 as in the first row
        3 | empty | empty/train.tsv: this file has no examples
        3 | nul | nul/train.tsv:1: 1 tab-separated columns, expected a header, or 4 columns
        3 | latin1 | latin1/train.tsv:10: invalid UTF-8 at byte 5 of the line; convert the file: iconv -f LATIN1 -t UTF-8 OLD > NEW
        3 | line | line/train.tsv:10: line longer than 1048576 bytes; is this the right file?
        3 | carriage | carriage/train.tsv:...
        3 | sparse | sparse/train.tsv: larger than 1073741824 bytes; is this the right file?
        "#,
    );
    check_quotes_are_characters(&folder, &good);
}
