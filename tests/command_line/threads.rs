//! `--threads` of every command that computes.

use crate::common::{Folder, QUICK};

/// Commands with `--threads`.
const WITH_THREADS: [&str; 24] = [
    "make-pretrain-data",
    "pretrain",
    "finetune",
    "bert data",
    "bert pretrain",
    "bert finetune",
    "bert quickstart",
    "bert make-vocab",
    "bert init",
    "bert merge",
    "bert verify",
    "bert devices",
    "bert evaluate",
    "bert fill-mask",
    "bert attention",
    "bert predict",
    "bert features",
    "bert probe",
    "bert projector",
    "bert nearest",
    "bert minimal-pairs",
    "bert glue",
    "bert multitask",
    "bert experiment",
];

#[test]
fn commands_that_compute_have_threads() {
    let folder = Folder::new();
    for command in WITH_THREADS {
        let help = folder.ok(&format!("{command} -h")).stdout;
        let text = help.split_once("--threads <N>").expect(command).1;
        let text = text.split_whitespace().take(9).collect::<Vec<_>>().join(" ");
        assert_eq!(text, "Compute threads; 0 means one per core [default: 0]", "{command}");
    }
}

#[test]
fn thread_counts_are_range_checked() {
    let folder = Folder::with_run();
    for line in ["bert evaluate --data held --checkpoint run", "bert pretrain --data data --output o"] {
        for threads in ["5000", "-1", "two"] {
            folder.refused(&format!("{line} --threads={threads}"), 2, "--threads");
        }
    }
    folder.refused("bert make-vocab --input train.txt --output v.txt --threads 5000", 2, "at most 4096");
    folder.refused(
        "make-pretrain-data --input train.txt --vocab vocab.txt --output o --threads 5000",
        2,
        "4096",
    );
}

#[test]
fn results_do_not_depend_on_threads() {
    let folder = Folder::with_run();
    let run = format!("pretrain {QUICK} --steps 2");
    for threads in [1, 3] {
        folder.ok(&format!("{run} --threads {threads} --output t{threads}"));
    }
    let weights = |run: &str| folder.read(&format!("{run}/checkpoints/step-00000002/model.safetensors"));
    assert!(weights("t1") == weights("t3"));
    for line in [
        "bert evaluate --data held --checkpoint run --json",
        "bert fill-mask --checkpoint run 'the [MASK] river' --json",
        "bert features --checkpoint run --input held.txt",
    ] {
        let [one, three] = [1, 3].map(|threads| folder.ok(&format!("{line} --threads {threads}")).stdout);
        assert_eq!(one, three, "{line}");
    }
}
