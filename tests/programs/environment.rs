//! The environment of a program: closed pipes, odd paths, folders that cannot be written, and the flags that control
//! the output.

use std::process::Stdio;

use crate::common::{Folder, QUICK, ended, entailment};

#[test]
fn closed_stdout_is_not_an_error() {
    let folder = Folder::with_run();
    let flags = "--vocab vocab.txt --max-seq-length 32 --max-predictions-per-seq 5";
    let lines = [
        "bert inspect data --instances 100000".to_string(),
        "bert inspect data --json".to_string(),
        "bert verify data".to_string(),
        "bert verify run".to_string(),
        "bert evaluate --checkpoint run --data held".to_string(),
        "bert fill-mask --checkpoint run 'a [MASK]'".to_string(),
        format!("make-pretrain-data --input train.txt {flags} --preview 100 --output again"),
        format!("pretrain {QUICK} --steps 1 --output again-run --json"),
        "pretrain --help".to_string(),
        "bert --version".to_string(),
    ];
    for line in &lines {
        let mut child = folder.start(line);
        drop(child.stdout.take());
        let ended = ended(line, child.wait_with_output().expect("its end"));
        assert_eq!(ended.code, Some(0), "{line}: {}", ended.stderr);
    }
    // The work was done anyway.
    folder.ok("bert verify again");
    folder.ok("bert verify again-run");
}

#[test]
fn closed_stderr_is_not_an_error() {
    let folder = Folder::with_data();
    let cases = [
        (format!("pretrain {QUICK} --steps 3 --save-every 1 --output run"), 0),
        ("bert verify nothing-here".to_string(), 3),
        ("bert --nonsense".to_string(), 2),
    ];
    for (line, code) in &cases {
        let mut child = folder.start(line);
        drop(child.stderr.take());
        assert_eq!(child.wait().expect("its end").code(), Some(*code), "{line}");
    }
    folder.ok("bert verify run");
}

#[test]
fn result_goes_to_stdout_and_quiet_hides_progress() {
    let folder = Folder::with_data();
    folder.write("glue/train.tsv", entailment(0, 16));
    folder.write("glue/dev.tsv", entailment(16, 8));
    let data = "--input train.txt --vocab vocab.txt --max-seq-length 64";
    let quick = QUICK.replace("--data data", "--data o1");
    let tune = "--task rte --data glue --max-seq-length 64 --num-train-epochs 1 --train-batch-size 8";
    let lines = [
        format!("make-pretrain-data {data} --output o1"),
        format!("pretrain {quick} --steps 2 --eval-data held --output o2"),
        format!("finetune {tune} --checkpoint o2 --output o3"),
    ];
    for (at, line) in lines.iter().enumerate() {
        let quiet = folder.ok(&format!("{line} --quiet"));
        // Warnings are printed nevertheless.
        let is_quiet = |ended: &str| {
            ended
                .lines()
                .all(|line| line.starts_with("warning: 10 of 16") || line.starts_with("warning: 6 of 8"))
        };
        assert!(is_quiet(&quiet.stderr), "{line}: {}", quiet.stderr);
        assert!(!quiet.stdout.is_empty() && !quiet.stdout.starts_with('{'), "{line}: {}", quiet.stdout);
        let as_json = folder.ok(&format!("{line}-json --json --quiet"));
        as_json.json();
        assert!(is_quiet(&as_json.stderr), "{line}: {}", as_json.stderr);
        assert!(folder.at(&format!("o{}-json", at + 1)).is_dir());
    }
    for line in [
        "bert inspect o1 --json",
        "bert evaluate --checkpoint o2 --data held --json",
        "bert fill-mask --checkpoint o2 'a [MASK]' --json",
    ] {
        folder.ok(line).json();
    }
}

#[test]
fn quiet_keeps_warnings() {
    let folder = Folder::with_run();
    folder.flip("run/checkpoints/step-00000006/model.safetensors");
    let ended =
        folder.ok(&format!("pretrain {QUICK} --steps 6 --save-every 2 --output run --resume --quiet"));
    assert!(ended.stderr.starts_with("warning: "), "--quiet hides no warning: {:?}", ended.stderr);
    assert_eq!(ended.stderr.lines().count(), 1, "{}", ended.stderr);
}

/// Checks that a warning about the data is printed once: in the report, or on stderr with `--json`.
#[test]
fn each_warning_is_printed_once() {
    let folder = Folder::with_run();
    folder.write("one.txt", "The river is long.\nThe river is wide.\n".repeat(20));
    let line = "make-pretrain-data --input one.txt --vocab vocab.txt --dupe-factor 2";
    let report = folder.ok(&format!("{line} --output once"));
    assert_eq!(report.stdout.matches("There is one document only").count(), 1, "{}", report.stdout);
    assert!(!report.stderr.contains("There is one document only"), "{}", report.stderr);
    report.stdout_has("\n1 shard, ");
    let json = folder.ok(&format!("{line} --num-shards 2 --output twice --json"));
    assert_eq!(json.stderr.matches("warning: There is one document only").count(), 1, "{}", json.stderr);
    let line = format!("{line} --num-shards 3 --output parts --parts 2 --part");
    assert!(folder.ok(&format!("{line} 1")).stdout.starts_with("part 1 of 2: 2 shards, "));
    assert!(folder.ok(&format!("{line} 2")).stdout.starts_with("part 2 of 2: 1 shard, "));
    let merged = folder.ok("bert merge parts");
    assert_eq!(merged.stdout.matches("There is one document only").count(), 1);
    assert!(merged.stdout.contains("\n3 shards, ") && merged.stderr.is_empty(), "{}", merged.stderr);
}

/// Uses a path with spaces, quotes and letters of several scripts in every argument that takes a path.
#[test]
fn odd_names_work_everywhere() {
    let folder = Folder::with_data();
    let odd = "ä b/文\"字 $HOME;*é";
    folder.copy("data", &format!("{odd}/data"));
    folder.write(&format!("{odd}/config.json"), folder.read("config.json"));
    folder.write(&format!("{odd}/glue/train.tsv"), entailment(0, 16));
    folder.write(&format!("{odd}/glue/dev.tsv"), entailment(16, 8));
    let flags = "--batch-size 4 --steps 2";
    folder.ok(&format!(
        "pretrain --data '{odd}/data' --eval-data '{odd}/data' --allow-overlap --model '{odd}/config.json' {flags} --output '{odd}/run'"
    ));
    folder.ok(&format!("bert verify '{odd}/run'"));
    folder.ok(&format!("bert export '{odd}/run' '{odd}/out'"));
    folder.ok(&format!(
        "finetune --task rte --data '{odd}/glue' --checkpoint '{odd}/out' --max-seq-length 48 \
         --num-train-epochs 1 --output '{odd}/tuned'"
    ));
    folder.ok(&format!("bert report '{odd}/tuned' --output '{odd}/page <1>.html'"));
    assert_eq!(folder.names(odd), ["config.json", "data", "glue", "out", "page <1>.html", "run", "tuned"]);
    // If a folder with this name exists, the name is a path, not a pattern.
    folder.write(&format!("{odd}/text/a.txt"), folder.read("train.txt"));
    folder.ok(&format!("bert make-vocab --input '{odd}/text' --vocab-size 400 --output '{odd}/v.txt'"));
    assert_eq!(folder.read(&format!("{odd}/v.txt")), folder.read("vocab.txt"));
}

/// Uses names of the maximum length (255 bytes), in a path of some thousand bytes.
#[test]
fn long_names_and_paths() {
    let folder = Folder::with_data();
    let long = format!("{0}/{0}/{0}/{0}/{0}/{0}/{0}/{0}", "é".repeat(100));
    folder.write(&format!("{long}/train.txt"), folder.read("train.txt"));
    let flags = "--vocab vocab.txt --max-seq-length 32 --max-predictions-per-seq 5";
    folder.ok(&format!(
        "make-pretrain-data --input {long}/train.txt {flags} --num-shards 3 --output {long}/data"
    ));
    assert!(
        folder.read("data/train-00000-of-00003.parquet")
            == folder.read(&format!("{long}/data/train-00000-of-00003.parquet"))
    );
    folder.ok(&format!("pretrain --data {long}/data --model config.json --steps 2 --output {long}/run"));
    folder.ok(&format!("bert export {long}/run {long}/out"));
    // A name too long for the file system is a regular error.
    let name = "x".repeat(300);
    let cases = [
        format!("make-pretrain-data --input train.txt {flags} --output {name}"),
        format!("pretrain --data data --model config.json --steps 1 --output {name}"),
        format!("bert export {long}/run {name}"),
        format!("bert make-vocab --input train.txt --output {name}"),
    ];
    for line in &cases {
        folder.refused(line, 1, "too long");
    }
}

/// Root can write anywhere, so the programs run as the user nobody, who must be able to read them.
#[cfg(unix)]
#[test]
fn a_parent_that_cannot_be_written() {
    use std::fs::{Permissions, copy, set_permissions, write};
    use std::os::unix::fs::PermissionsExt;
    use std::os::unix::process::CommandExt;
    use std::path::Path;
    use std::process::Command;
    let folder = Folder::with_data();
    let closed = folder.at("closed");
    folder.write("closed/x", "x");
    let mode = |path: &Path, mode| set_permissions(path, Permissions::from_mode(mode)).expect("a mode");
    mode(&closed, 0o555);
    let is_root = write(closed.join("probe"), "x").is_ok();
    if is_root {
        mode(folder.root(), 0o755);
    }
    let run = |line: &str| {
        let command = folder.command(line);
        if !is_root {
            return folder.run(line);
        }
        // Folders above the program may be closed to other users, such as root's home.
        let program = Path::new(command.get_program());
        let copied = folder.at(program.file_name().expect("a name").to_str().expect("Unicode"));
        copy(program, &copied).expect("a copy");
        let mut nobody = Command::new(&copied);
        nobody.args(command.get_args()).current_dir(folder.at(".")).uid(65_534);
        let output = nobody.stdin(Stdio::null()).output().expect("the program starts as nobody");
        ended(line, output)
    };
    for line in [
        "make-pretrain-data --input train.txt --vocab vocab.txt --output closed/out",
        &format!("pretrain {QUICK} --steps 1 --output closed/out"),
        "bert make-vocab --input train.txt --output closed/vocab.txt",
    ] {
        let ended = run(line);
        assert_eq!(ended.code, Some(1), "{line}: {}", ended.stderr);
        assert!(ended.stderr.contains("closed/") && ended.stderr.contains("denied"), "{}", ended.stderr);
    }
    mode(&closed, 0o755);
}

/// Checks that the help texts of programs with `--device`, and no others, name the devices.
#[test]
fn device_help_names_the_devices() {
    let folder = Folder::new();
    let message = "wgpu[:N], cuda[:N] or auto";
    for program in ["pretrain", "finetune", "bert evaluate", "bert fill-mask"] {
        let help = folder.ok(&format!("{program} --help")).stdout;
        let words = help.split_whitespace().collect::<Vec<_>>().join(" ");
        assert!(words.contains(message), "{program}: {help}");
    }
    for program in ["bert quickstart", "bert report", "bert export", "bert attention", "make-pretrain-data"] {
        let help = folder.ok(&format!("{program} --help")).stdout;
        assert!(!help.contains("--device"), "{program} offers devices: {help}");
    }
    folder.refused("bert fill-mask --checkpoint x --device gpu 'a [MASK]'", 2, message);
}

/// Checks that programs never read stdin: without a terminal and with a closed stdin, they ask nothing.
#[test]
fn stdin_is_not_read_without_dash() {
    let folder = Folder::with_run();
    let line = "bert evaluate --checkpoint run --data held";
    // An open pipe without data: a program that reads it would never end.
    let mut command = folder.command(line);
    let mut child = command.stdin(Stdio::piped()).spawn().expect("it starts");
    let silent = child.stdin.take();
    let ended = ended(line, child.wait_with_output().expect("its end"));
    drop(silent);
    assert_eq!(ended.stdout, folder.ok(line).stdout);
}
