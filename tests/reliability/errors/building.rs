//! Wrong flags, text and vocabularies for `make-pretrain-data` and `bert make-vocab`.

use super::check_with;
use crate::common::Folder;

#[test]
fn make_pretrain_data_names_missing_flags() {
    let folder = Folder::with_data();
    check_with(
        &folder,
        "make-pretrain-data",
        &[
            ("--nonsense", 2, "unexpected argument '--nonsense'"),
            ("", 2, "no input: name at least one file, folder or pattern"),
            ("--vocab vocab.txt --output out", 2, "no input: name at least one file, folder or pattern"),
            ("--input train.txt --output out", 2, "--vocab is required"),
            ("--input train.txt --vocab vocab.txt", 2, "--output is required"),
        ],
    );
}

#[test]
fn make_pretrain_data_rejects_invalid_values() {
    let folder = Folder::with_data();
    check_with(
        &folder,
        "make-pretrain-data --input train.txt --vocab vocab.txt --output out",
        &[
            ("--max-seq-length long", 2, "invalid value 'long' for '--max-seq-length"),
            ("--max-seq-length 7", 2, "--max-seq-length is 7, but must be between 8 and 65535"),
            ("--max-seq-length 65536", 2, "--max-seq-length is 65536"),
            ("--max-predictions-per-seq 0", 2, "--max-predictions-per-seq is 0"),
            ("--max-seq-length 32 --max-predictions-per-seq 32", 2, "--max-predictions-per-seq is 32"),
            ("--masked-lm-prob 0", 2, "--masked-lm-prob is 0"),
            ("--masked-lm-prob 1.01", 2, "--masked-lm-prob is 1.01"),
            ("--masked-lm-prob NaN", 2, "--masked-lm-prob is NaN"),
            ("--short-seq-prob=-0.1", 2, "--short-seq-prob is -0.1"),
            ("--dupe-factor 0", 2, "--dupe-factor is 0"),
            ("--num-shards 0", 2, "--num-shards is 0"),
            ("--threads 5000", 2, "--threads is 5000"),
            ("--random dice", 2, "invalid value 'dice' for '--random"),
            ("--random reference --num-shards 2", 2, "--num-shards cannot be used with --random reference"),
            ("--random reference --split-sentences", 2, "--split-sentences cannot be used"),
            ("--split-sentences --language xx", 2, "--language is xx"),
            ("--do-lower-case maybe", 2, "invalid value 'maybe'"),
            (
                "--strict-utf8 --lossy-utf8",
                2,
                "the argument '--strict-utf8' cannot be used with '--lossy-utf8'",
            ),
        ],
    );
}

const FLAGS: &str = "--max-seq-length 32 --max-predictions-per-seq 5";

/// Returns a folder with data, and with text and vocabularies that no program accepts.
fn with_bad_files() -> Folder {
    let folder = Folder::with_data();
    folder.write("empty.txt", "");
    folder.write("blank.txt", "\n \n\t\n");
    folder.write("lonely.txt", "One sentence alone.\n");
    folder.write("latin1.txt", b"A fine line.\nCaf\xe9.\n\nAnother one.\n");
    folder.write("cut.gz", b"\x1f\x8b\x08\x00\x00\x00\x00\x00\x00\x03half");
    folder.write("cut.zst", b"\x28\xb5\x2f\xfdhalf");
    std::fs::create_dir(folder.at("hollow")).expect("a folder");
    let vocabulary = folder.text("vocab.txt");
    for token in ["[CLS]", "[SEP]", "[MASK]", "[UNK]"] {
        let name = format!("without-{}.txt", token.trim_matches(['[', ']']));
        folder.write(&name, vocabulary.replace(&format!("{token}\n"), ""));
    }
    folder.write("twice.txt", vocabulary.clone() + "[CLS]\n");
    folder.write("notes/notes.txt", "mine");
    folder
}

#[test]
fn invalid_inputs_are_rejected() {
    let folder = with_bad_files();
    check_with(
        &folder,
        &format!("make-pretrain-data {FLAGS} --vocab vocab.txt --output out --input"),
        &[
            ("none.txt", 2, "none.txt: this input does not exist"),
            ("*.none", 2, "*.none: this input pattern matches no file"),
            (
                "hollow",
                2,
                "hollow: this input folder has no files (names that begin with . or _ are skipped)",
            ),
            ("train.txt train.txt", 2, "train.txt: this input is given twice, or a link points to it"),
            ("empty.txt", 3, "the input has no text"),
            ("blank.txt empty.txt", 3, "the input has no text: 2 file(s)"),
            ("lonely.txt", 3, "no instance can be built"),
            ("latin1.txt --strict-utf8", 3, "latin1.txt:2: invalid UTF-8"),
            ("cut.gz", 3, "cut.gz: damaged gzip data"),
            ("cut.zst", 3, "cut.zst: damaged zstd data"),
        ],
    );
}

#[test]
fn invalid_vocabularies_are_rejected() {
    let folder = with_bad_files();
    check_with(
        &folder,
        &format!("make-pretrain-data {FLAGS} --input train.txt --output out --vocab"),
        &[
            ("none.txt", 1, "none.txt"),
            ("empty.txt", 3, "empty.txt: the vocabulary is empty"),
            ("without-CLS.txt", 3, "has no [CLS]"),
            ("without-SEP.txt", 3, "has no [SEP]"),
            ("without-MASK.txt", 3, "has no [MASK]"),
            ("without-UNK.txt", 3, "has no [UNK]"),
            ("twice.txt", 3, "\"[CLS]\" is already on line 3"),
            ("latin1.txt", 3, "latin1.txt:2: the vocabulary is not valid UTF-8"),
        ],
    );
}

#[test]
fn invalid_outputs_are_rejected() {
    let folder = with_bad_files();
    check_with(
        &folder,
        &format!("make-pretrain-data {FLAGS} --input train.txt --vocab vocab.txt --output"),
        &[
            ("notes", 2, "notes: this output folder holds other data (notes.txt)"),
            ("notes --overwrite", 2, "notes: this output folder holds other data (notes.txt)"),
            ("data", 2, "already holds a finished data set: use --overwrite"),
            ("vocab.txt", 2, "vocab.txt: this output is not a folder"),
            ("train.txt", 2, "train.txt: this output and the input train.txt contain each other"),
        ],
    );
}

#[test]
fn make_vocab_rejects_invalid_flags_and_text() {
    let folder = with_bad_files();
    check_with(
        &folder,
        "bert make-vocab",
        &[
            ("--input train.txt", 2, "--output"),
            ("--output out.txt", 2, "--input"),
            ("--input none.txt --output out.txt", 2, "none.txt: this input does not exist"),
            ("--input empty.txt --output out.txt", 3, "the input has no text"),
            ("--input latin1.txt --strict-utf8 --output out.txt", 3, "latin1.txt:2: invalid UTF-8"),
            ("--input train.txt --vocab-size 8 --output out.txt", 2, "--vocab-size is 8"),
            (
                "--input train.txt --max-words 10 --output out.txt",
                2,
                "--max-words is 10, but must be at least 1000",
            ),
            ("--input train.txt --threads 5000 --output out.txt", 2, "--threads is 5000"),
            (
                "--input train.txt --output vocab.txt",
                1,
                "vocab.txt: this file exists; replace it with --overwrite",
            ),
        ],
    );
}
