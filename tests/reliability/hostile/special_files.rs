//! Pipes, devices and links where a file is expected.

use std::fs;
use std::os::unix::fs::symlink;

use super::{BUILD, check};
use crate::common::{Folder, entailment};

/// Returns a folder with a run, and with pipes, devices and links under the names of files.
fn with_special_files() -> Folder {
    let folder = Folder::with_run();
    let fifo = std::process::Command::new("mkfifo").arg(folder.at("pipe")).status();
    assert!(fifo.expect("mkfifo").success());
    symlink("loop", folder.at("loop")).expect("a link");
    symlink("nowhere", folder.at("dangling")).expect("a link");
    folder.write("circle/a.txt", folder.read("train.txt"));
    symlink("circle", folder.at("circle/b")).expect("a link");
    folder.write("ring/a/a.txt", folder.read("train.txt"));
    symlink("../../ring", folder.at("ring/a/back")).expect("a link");
    fs::create_dir(folder.at("pipes")).expect("a folder");
    symlink("../pipe", folder.at("pipes/manifest.json")).expect("a link");
    symlink("../pipe", folder.at("pipes/config.json")).expect("a link");
    fs::create_dir(folder.at("zeros")).expect("a folder");
    symlink("/dev/zero", folder.at("zeros/manifest.json")).expect("a link");
    symlink("/dev/zero", folder.at("zeros/config.json")).expect("a link");
    symlink("/dev/zero", folder.at("zeros/train.tsv")).expect("a link");
    folder
}

#[test]
fn special_input_files_are_rejected() {
    let folder = with_special_files();
    check(
        &folder,
        &format!("{BUILD} --vocab vocab.txt --output out --input"),
        "
        2 | pipe | pipe: this input is neither a regular file nor a folder
        2 | /dev/zero | /dev/zero: this input is neither a regular file nor a folder
        2 | loop | loop: this link points to a missing file...
        2 | dangling | dangling: this link points to a missing file...
        2 | pipes | pipes/config.json: this input is neither a regular file nor a folder
        2 | circle | circle/b: this link points to a missing file...
        2 | ring | ring/a/back: this link points to a folder that contains it...
        ",
    );
}

#[test]
fn special_vocabulary_files_are_rejected() {
    let folder = with_special_files();
    check(
        &folder,
        &format!("{BUILD} --input train.txt --output out --vocab"),
        "
        1 | pipe | cannot read vocabulary pipe: it is not a regular file
        1 | /dev/zero | cannot read vocabulary /dev/zero: it is not a regular file
        4 | circle | circle: this folder has no vocab.txt and no tokenizer.json, so it has no WordPiece vocabulary
        ",
    );
}

#[test]
fn special_manifests_are_rejected() {
    let folder = with_special_files();
    check(
        &folder,
        "pretrain --model config.json --steps 1 --output out --data",
        "
        1 | pipes | cannot read pipes/manifest.json: it is not a regular file
        1 | zeros | cannot read zeros/manifest.json: it is not a regular file
        ",
    );
}

#[test]
fn special_model_files_are_rejected() {
    let folder = with_special_files();
    check(
        &folder,
        "bert fill-mask 'a [MASK]' --checkpoint",
        "
        4 | pipes | pipes: no config.json in this folder; give a folder that `save_pretrained` or a run wrote
        4 | zeros | zeros: no config.json in this folder; give a folder that `save_pretrained` or a run wrote
        ",
    );
}

#[test]
fn special_task_files_are_rejected() {
    let folder = with_special_files();
    folder.write("zeros/dev.tsv", entailment(0, 4));
    check(
        &folder,
        "finetune --task rte --max-seq-length 48 --checkpoint run --output out --data",
        "3 | zeros | zeros/train.tsv: this is not a regular file",
    );
}
