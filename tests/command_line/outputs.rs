//! Outputs: every command that writes a file, or a folder, with every kind of target.

use std::fs;
use std::os::unix::fs::{FileTypeExt, symlink};
use std::path::Path;
use std::process::{Command, Stdio};
use std::thread::sleep;
use std::time::Duration;

use crate::common::Folder;
use crate::finetuning::tasks::with_entailment;
use crate::pretraining::resume::send;

/// The commands that write a file, with their other flags. `OUTPUT` is the file.
const FILES: [&str; 9] = [
    "bert make-vocab --input train.txt --vocab-size 400 --output OUTPUT",
    "bert inspect data --html=OUTPUT",
    "bert attention 'The river is long.' --checkpoint run --layers 0 --output OUTPUT",
    "bert attention 'The river is long.' --checkpoint run --layers 0 --output pages/new.html --parquet OUTPUT",
    "bert features --checkpoint run --input train.txt --output OUTPUT",
    "bert features --checkpoint run --input train.txt --format parquet --output OUTPUT",
    "bert projector --checkpoint run --words 20 --output OUTPUT",
    "bert predict --checkpoint tuned --input pairs.tsv --output OUTPUT",
    "bert report run --output OUTPUT",
];

/// The commands that fill a folder. `OUTPUT` is the folder.
const FOLDERS: [&str; 12] = [
    "make-pretrain-data --input train.txt --vocab vocab.txt --output OUTPUT",
    "pretrain --data data --model config.json --steps 1 --output OUTPUT",
    "finetune --task rte --data glue --checkpoint run --num-train-epochs 1 --output OUTPUT",
    "bert init --model config.json --vocab vocab.txt --output OUTPUT",
    "bert import exported OUTPUT",
    "bert export run OUTPUT",
    "bert export run OUTPUT --format onnx",
    "bert extend-vocab --checkpoint exported --input train.txt --add 5 --output OUTPUT",
    "bert glue --data glue --tasks rte --checkpoint run --output OUTPUT",
    "bert multitask --data glue --tasks rte,sst-2 --checkpoint run --output OUTPUT -- --max-seq-length 32",
    "bert quickstart --output OUTPUT",
    "bert man OUTPUT",
];

/// Creates a folder with everything that the commands read.
fn world() -> Folder {
    let folder = with_entailment();
    folder.write("pairs.tsv", "a\tb\nc\td\n");
    for (split, when) in [("train", ""), ("dev", " today")] {
        let rows = format!("sentence\tlabel\nit rains{when}\t0\nit shines{when}\t1\n");
        folder.write(&format!("glue/SST-2/{split}.tsv"), rows);
    }
    folder.ok("finetune --task rte --data glue --checkpoint run --num-train-epochs 1 --max-seq-length 32 --output tuned");
    folder.ok("bert export run exported");
    folder
}

/// Returns the line with an output. A second page that a line writes does not exist.
fn with_output(folder: &Folder, line: &str, output: &str) -> String {
    let _ = fs::remove_dir_all(folder.at("pages"));
    line.replace("OUTPUT", output)
}

fn pipe(folder: &Folder, name: &str) {
    let made = Command::new("mkfifo").arg(folder.at(name)).status().expect("mkfifo starts");
    assert!(made.success());
}

#[test]
fn files_are_replaced_only_with_overwrite() {
    let folder = world();
    for line in FILES {
        folder.write("mine", "mine");
        symlink("mine", folder.at("link")).unwrap();
        for target in ["mine", "link"] {
            let refused = folder.refused(&with_output(&folder, line, target), 1, "this file exists");
            refused.stderr_has("--overwrite");
            assert_eq!(folder.text("mine"), "mine", "{line}");
            folder.ok(&format!("{} --overwrite", with_output(&folder, line, target)));
            assert_ne!(folder.read("mine"), b"mine", "{line}");
            folder.write("mine", "mine");
        }
        assert!(fs::symlink_metadata(folder.at("link")).unwrap().is_symlink(), "{line}");
        fs::remove_file(folder.at("link")).unwrap();
        folder.refused(&with_output(&folder, line, "data"), 1, "this is a folder");
    }
}

#[test]
fn pipes_and_devices_are_written_to() {
    let folder = world();
    for line in FILES {
        folder.ok(&with_output(&folder, line, "plain"));
        let expected = folder.read("plain").len();
        fs::remove_file(folder.at("plain")).unwrap();
        pipe(&folder, "pipe");
        for flag in ["", " --overwrite"] {
            let path = folder.at("pipe");
            let reader = std::thread::spawn(move || fs::read(path).unwrap().len());
            folder.ok(&format!("{}{flag}", with_output(&folder, line, "pipe")));
            assert_eq!(reader.join().unwrap(), expected, "{line}");
            assert!(fs::symlink_metadata(folder.at("pipe")).unwrap().file_type().is_fifo(), "{line}");
            if cfg!(target_os = "linux") {
                let full = format!("{}{flag}", with_output(&folder, line, "/dev/full"));
                folder.refused(&full, 1, "/dev/full");
                assert!(fs::symlink_metadata("/dev/full").unwrap().file_type().is_char_device(), "{line}");
            }
        }
        fs::remove_file(folder.at("pipe")).unwrap();
    }
}

#[cfg(target_os = "linux")]
#[test]
fn open_files_receive_the_output() {
    let folder = world();
    let line = "bert features --checkpoint run --input pairs.tsv --output /dev/fd/1";
    let printed = folder.ok(line);
    assert_eq!(printed.stdout.lines().count(), 2, "{}", printed.stdout);
    let file = fs::File::create(folder.at("open")).unwrap();
    assert!(folder.command(line).stdout(file).status().unwrap().success());
    assert_eq!(folder.text("open"), printed.stdout);
}

#[test]
fn folders_replace_nothing() {
    let folder = world();
    pipe(&folder, "pipe");
    folder.write("mine", "mine");
    symlink("mine", folder.at("link")).unwrap();
    for line in FOLDERS {
        for target in ["mine", "link", "pipe", "/dev/full"] {
            if !Path::new("/dev/full").exists() && target == "/dev/full" {
                continue;
            }
            let ended = folder.run(&with_output(&folder, line, target));
            assert!(matches!(ended.code, Some(1 | 2)), "{line}: {target}: {}", ended.stderr);
            ended.stderr_has(target);
        }
        assert_eq!(folder.text("mine"), "mine", "{line}");
        assert!(fs::symlink_metadata(folder.at("link")).unwrap().is_symlink(), "{line}");
        assert!(fs::symlink_metadata(folder.at("pipe")).unwrap().file_type().is_fifo(), "{line}");
    }
}

#[test]
fn man_pages_and_tensors_are_replaced_with_overwrite() {
    let folder = world();
    for (line, file) in [
        ("bert man pages", "pages/bert-man.1"),
        (
            "bert projector --checkpoint run --words 20 --output pages/p.html --tensors pages",
            "pages/metadata.tsv",
        ),
    ] {
        let _ = fs::remove_dir_all(folder.at("pages"));
        folder.write(file, "mine");
        folder.refused(line, 1, "this file exists");
        assert_eq!(folder.names("pages").len(), 1, "{line}");
        folder.ok(&format!("{line} --overwrite"));
        assert_ne!(folder.text(file), "mine");
    }
}

#[test]
fn a_signal_removes_the_unfinished_output() {
    let folder = Folder::new();
    let is_hidden = |entry: &fs::DirEntry| entry.file_name().to_string_lossy().starts_with('.');
    let files = || {
        let entries = fs::read_dir(folder.at(".")).expect("the folder");
        entries.map(|entry| entry.expect("an entry")).filter(is_hidden).count()
    };
    for (signal, code) in [("INT", 130), ("TERM", 143)] {
        // The command waits for the end of its input.
        let mut command = folder.command("bert features --input - --output features.jsonl");
        let mut child = command.stdin(Stdio::piped()).spawn().expect("the program starts");
        while files() == 0 {
            assert!(child.try_wait().expect("its state").is_none(), "it waits");
            sleep(Duration::from_millis(20));
        }
        send(&child, signal);
        assert_eq!(child.wait().expect("its end").code(), Some(code));
        assert_eq!(files(), 0, "{signal}");
    }
}
