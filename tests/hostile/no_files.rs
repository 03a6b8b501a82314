//! Pipes, devices and links where a file is expected.

use std::fs;
use std::os::unix::fs::symlink;

use super::{BUILD, check};
use crate::common::{Folder, entailment};

#[test]
fn what_is_no_file() {
    let folder = Folder::with_run();
    let fifo = std::process::Command::new("mkfifo").arg(folder.at("pipe")).status();
    assert!(fifo.expect("mkfifo").success());
    symlink("loop", folder.at("loop")).expect("a link");
    symlink("nowhere", folder.at("dangling")).expect("a link");
    folder.write("circle/a.txt", folder.read("train.txt"));
    symlink("..", folder.at("circle/up")).expect("a link");
    symlink("circle", folder.at("circle/b")).expect("a link");
    fs::create_dir(folder.at("pipes")).expect("a folder");
    symlink("../pipe", folder.at("pipes/manifest.json")).expect("a link");
    symlink("../pipe", folder.at("pipes/config.json")).expect("a link");
    fs::create_dir(folder.at("zeros")).expect("a folder");
    symlink("/dev/zero", folder.at("zeros/manifest.json")).expect("a link");
    symlink("/dev/zero", folder.at("zeros/config.json")).expect("a link");
    symlink("/dev/zero", folder.at("zeros/train.tsv")).expect("a link");
    let mut checked = check(
        &folder,
        &format!("{BUILD} --vocab vocab.txt --output out --input"),
        &[
            ("pipe", 2, "pipe: this input is neither a regular file nor a folder"),
            ("/dev/zero", 2, "/dev/zero: this input is neither a regular file nor a folder"),
            ("loop", 2, "loop: this input does not exist"),
            ("dangling", 2, "dangling: this input does not exist"),
            ("pipes", 2, "pipes: this input folder holds no files"),
        ],
    );
    checked += check(
        &folder,
        &format!("{BUILD} --input train.txt --output out --vocab"),
        &[
            ("pipe", 1, "cannot read vocabulary pipe: it is not a regular file"),
            ("/dev/zero", 1, "cannot read vocabulary /dev/zero: it is not a regular file"),
            ("circle", 1, "cannot read vocabulary circle: Is a directory..."),
        ],
    );
    checked += check(
        &folder,
        "pretrain --model config.json --steps 1 --output out --data",
        &[
            ("pipes", 1, "cannot read pipes/manifest.json: it is not a regular file"),
            ("zeros", 1, "cannot read zeros/manifest.json: it is not a regular file"),
        ],
    );
    checked += check(
        &folder,
        "bert fill-mask 'a [MASK]' --checkpoint",
        &[
            ("pipes", 4, "pipes: no config.json in this folder, so it is not a checkpoint"),
            ("zeros", 4, "zeros: no config.json in this folder, so it is not a checkpoint"),
        ],
    );
    folder.write("zeros/dev.tsv", entailment(0, 4));
    checked += check(
        &folder,
        "finetune --task rte --max-seq-length 48 --checkpoint run --output out --data",
        &[("zeros", 3, "zeros/train.tsv: not a regular file")],
    );
    assert_eq!(checked, 13);
    // Links in a circle are not followed.
    folder.ok(&format!("{BUILD} --vocab vocab.txt --input circle --num-shards 3 --output out"));
    assert!(
        folder.read("out/train-00000-of-00003.parquet") == folder.read("data/train-00000-of-00003.parquet")
    );
}
