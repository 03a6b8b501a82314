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
    let mut checked = check(
        &folder,
        &format!("{BUILD} --vocab vocab.txt --output out --input"),
        &[
            ("pipe", 2, "pipe: this input is neither a regular file nor a folder"),
            ("/dev/zero", 2, "/dev/zero: this input is neither a regular file nor a folder"),
            ("loop", 2, "loop: this link leads to no file..."),
            ("dangling", 2, "dangling: this link leads to no file..."),
            ("pipes", 2, "pipes/config.json: this input is neither a regular file nor a folder"),
            ("circle", 2, "circle/b: this link leads to no file..."),
            ("ring", 2, "ring/a/back: this link leads back to a folder that it is in..."),
        ],
    );
    checked += check(
        &folder,
        &format!("{BUILD} --input train.txt --output out --vocab"),
        &[
            ("pipe", 1, "cannot read vocabulary pipe: it is not a regular file"),
            ("/dev/zero", 1, "cannot read vocabulary /dev/zero: it is not a regular file"),
            (
                "circle",
                4,
                "circle: no vocab.txt and no tokenizer.json in this folder, so it has no WordPiece vocabulary",
            ),
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
    assert_eq!(checked, 15);
}
