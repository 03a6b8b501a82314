//! Wrong flags, text and vocabularies for `make-pretrain-data` and `bert make-vocab`.

use super::check;
use crate::common::Folder;

#[test]
fn make_pretrain_data_names_missing_flags() {
    let folder = Folder::with_data();
    check(
        &folder,
        "make-pretrain-data",
        "
        2 | --nonsense | unexpected argument '--nonsense'
        2 | | --input <PATH>...
        2 | | --vocab <FILE>
        2 | | --output <DIR>
        2 | --vocab vocab.txt --output out | --input <PATH>...
        2 | --input train.txt --output out | --vocab <FILE>
        2 | --input train.txt --vocab vocab.txt | --output <DIR>
        ",
    );
}

#[test]
fn make_pretrain_data_rejects_invalid_values() {
    let folder = Folder::with_data();
    check(
        &folder,
        "make-pretrain-data --input train.txt --vocab vocab.txt --output out",
        "
        2 | --max-seq-length long | invalid value 'long' for '--max-seq-length
        2 | --max-seq-length 7 | --max-seq-length is 7, but must be between 8 and 65535
        2 | --max-seq-length 65536 | --max-seq-length is 65536
        2 | --max-predictions-per-seq 0 | --max-predictions-per-seq is 0
        2 | --max-seq-length 32 --max-predictions-per-seq 32 | --max-predictions-per-seq is 32
        2 | --masked-lm-prob 0 | --masked-lm-prob is 0
        2 | --masked-lm-prob 1.01 | --masked-lm-prob is 1.01
        2 | --masked-lm-prob NaN | must be a finite number
        2 | --short-seq-prob=-0.1 | --short-seq-prob is -0.1
        2 | --dupe-factor 0 | --dupe-factor is 0
        2 | --num-shards 0 | --num-shards is 0
        2 | --threads 5000 | --threads is 5000
        2 | --random dice | invalid value 'dice' for '--random
        2 | --random reference --num-shards 2 | --num-shards cannot be used with --random reference
        2 | --random reference --split-sentences | --split-sentences cannot be used
        2 | --split-sentences --language klingon | --language is klingon
        2 | --do-lower-case maybe | invalid value 'maybe'
        2 | --strict-utf8 --lossy-utf8 | the argument '--strict-utf8' cannot be used with '--lossy-utf8'
        ",
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
    check(
        &folder,
        &format!("make-pretrain-data {FLAGS} --vocab vocab.txt --output out --input"),
        "
        2 | none.txt | none.txt: this input does not exist
        2 | *.none | *.none: this input pattern matches no file
        2 | hollow | hollow: this input folder has no files (names that begin with . or _ are skipped)
        2 | train.txt train.txt | train.txt: this input is given twice, or a link points to it
        3 | empty.txt | the input has no text
        3 | blank.txt empty.txt | the input has no text: 2 file(s)
        3 | lonely.txt | no instance can be built
        3 | latin1.txt --strict-utf8 | latin1.txt:2: invalid UTF-8
        3 | cut.gz | cut.gz: damaged gzip data
        3 | cut.zst | cut.zst: damaged zstd data
        ",
    );
}

#[test]
fn invalid_vocabularies_are_rejected() {
    let folder = with_bad_files();
    check(
        &folder,
        &format!("make-pretrain-data {FLAGS} --input train.txt --output out --vocab"),
        r#"
        1 | none.txt | none.txt
        3 | empty.txt | empty.txt: the vocabulary is empty
        3 | without-CLS.txt | has no [CLS]
        3 | without-SEP.txt | has no [SEP]
        3 | without-MASK.txt | has no [MASK]
        3 | without-UNK.txt | has no [UNK]
        3 | twice.txt | "[CLS]" is already on line 3
        3 | latin1.txt | latin1.txt:2: the vocabulary is not valid UTF-8
        "#,
    );
}

#[test]
fn invalid_outputs_are_rejected() {
    let folder = with_bad_files();
    check(
        &folder,
        &format!("make-pretrain-data {FLAGS} --input train.txt --vocab vocab.txt --output"),
        "
        2 | notes | notes: this output folder holds other data (notes.txt)
        2 | notes --overwrite | notes: this output folder holds other data (notes.txt)
        2 | data | already holds a finished data set: use --overwrite
        2 | vocab.txt | vocab.txt: this output is not a folder
        2 | train.txt | train.txt: this output and the input train.txt contain each other
        ",
    );
}

#[test]
fn make_vocab_rejects_invalid_flags_and_text() {
    let folder = with_bad_files();
    check(
        &folder,
        "bert make-vocab",
        "
        2 | --input train.txt | --output
        2 | --output out.txt | --input
        2 | --input none.txt --output out.txt | none.txt: this input does not exist
        3 | --input empty.txt --output out.txt | the input has no text
        3 | --input latin1.txt --strict-utf8 --output out.txt | latin1.txt:2: invalid UTF-8
        2 | --input train.txt --vocab-size 8 --output out.txt | --vocab-size is 8
        2 | --input train.txt --max-words 10 --output out.txt | --max-words is 10, but must be at least 1000
        2 | --input train.txt --threads 5000 --output out.txt | --threads is 5000
        1 | --input train.txt --output vocab.txt | vocab.txt: this file exists; replace it with --overwrite
        ",
    );
}
