//! Wrong flags and files for `finetune`.

use super::check_with;
use crate::common::{Folder, entailment};

/// Returns a folder with a run, and with files of RTE that no program accepts.
fn with_bad_files() -> Folder {
    let folder = Folder::with_run();
    let good = entailment(0, 8);
    let case = |name: &str, train: &[u8]| {
        folder.write(&format!("{name}/train.tsv"), train);
        folder.write(&format!("{name}/dev.tsv"), entailment(8, 4));
    };
    case("good", good.as_bytes());
    case("header", good.replacen("sentence2", "hypothesis", 1).as_bytes());
    case("unlabelled", good.replacen("\tlabel", "\tgold", 1).as_bytes());
    case("label", good.replacen("\tentailment", "\tperhaps", 1).as_bytes());
    case("columns", (good.clone() + "8\tone\ttwo\n").as_bytes());
    case("empty", b"");
    case("bare", b"index\tsentence1\tsentence2\tlabel\n");
    case("latin1", &[good.as_bytes(), b"8\tcaf\xe9\tx\tentailment\n"].concat());
    folder.write("trainless/dev.tsv", entailment(8, 4));
    folder.write("devless/train.tsv", entailment(8, 4));
    folder.write("notes/notes.txt", "mine");
    folder
}

#[test]
fn invalid_task_files_are_rejected() {
    let folder = with_bad_files();
    let good = entailment(0, 8);
    let place = good.lines().position(|line| line.ends_with("\tentailment")).expect("one") + 1;
    let label = format!(
        "label/train.tsv:{place}: unknown label \"perhaps\"; the labels of task rte are entailment, not_entailment"
    );
    check_with(
        &folder,
        "finetune --checkpoint run --max-seq-length 48 --output out --task rte --data",
        &[
            ("none", 1, "none: no train file of task rte here"),
            ("trainless", 1, "trainless: no train file of task rte here (looked for "),
            ("devless", 1, "devless: no dev file of task rte here"),
            ("header", 3, "header/train.tsv:1: no column \"sentence2\" in the header"),
            ("unlabelled", 3, "unlabelled/train.tsv:1: no column \"label\" in the header"),
            ("label", 3, &label),
            ("columns", 3, "columns/train.tsv:10: 3 tab-separated columns, expected 4"),
            ("empty", 3, "empty/train.tsv: this file has no examples"),
            ("bare", 3, "bare/train.tsv: this file has no examples"),
            ("latin1", 3, "latin1/train.tsv:10: invalid UTF-8 at byte 5"),
            ("good --predict none.tsv", 1, "none.tsv"),
            ("good --predict header/train.tsv", 3, "header/train.tsv:1: no column"),
        ],
    );
}

#[test]
fn unknown_tasks_and_invalid_labels_are_rejected() {
    let folder = with_bad_files();
    folder.write("STS-B/train.tsv", "index\tsentence1\tsentence2\tscore\n0\ta\tb\t5.1\n");
    folder.write("STS-B/dev.tsv", "index\tsentence1\tsentence2\tscore\n0\ta\tb\t2.0\n");
    folder.write("sst/sst-train.txt", "3 ||| fine\nfine\n");
    folder.write("sst/sst-dev.txt", "3 ||| fine\n");
    check_with(
        &folder,
        "finetune --checkpoint run --output out",
        &[
            ("--nonsense", 2, "unexpected argument '--nonsense'"),
            ("--task rte", 2, "--data <DIR>"),
            ("--task poetry --data good", 2, "unknown task \"poetry\"; the tasks are rte"),
            ("--task rte --data good", 4, "--max-seq-length is 128, but the model has 64 positions"),
            (
                "--task sts-b --data . --max-seq-length 48",
                3,
                "train.tsv:2: \"5.1\" is not a score of task sts-b",
            ),
            (
                "--task sst-5 --data sst --max-seq-length 48",
                3,
                "sst-train.txt:2: expected \"LABEL ||| TEXT\"",
            ),
        ],
    );
}

#[test]
fn finetune_rejects_invalid_values() {
    let folder = with_bad_files();
    check_with(
        &folder,
        "finetune --checkpoint run --max-seq-length 48 --task rte --data good",
        &[
            ("--output notes", 1, "notes: the folder already holds other files; choose another --output"),
            ("--output out --num-train-epochs 0", 2, "--num-train-epochs: must be positive"),
            ("--output out --train-batch-size 0", 2, "--train-batch-size: must be at least 1"),
            ("--output out --learning-rate 0", 2, "--learning-rate: must be positive"),
            ("--output out --warmup-proportion 1", 2, "--warmup-proportion:"),
            ("--output out --seeds 1,1", 2, "--seeds: must differ from each other"),
            ("--output out --seeds one", 2, "invalid value 'one'"),
            ("--output out --seeds 5-1", 2, "invalid value '5-1'"),
            ("--output out --seeds 1-3,2", 2, "--seeds: must differ from each other"),
            ("--output out --max-train-examples 0", 2, "--max-train-examples: must be at least 1"),
            ("--output out --holdout 1", 2, "--holdout: must be between 0 and 1"),
            (
                "--output out --holdout 0.01",
                2,
                "--holdout: 0.01 of 8 training examples leaves one part empty",
            ),
            ("--output out --gradient-accumulation-steps 0", 2, "must be between 1 and --train-batch-size"),
            ("--output out --gradient-accumulation-steps 33", 2, "must be between 1 and --train-batch-size"),
            ("--output out --patience 0", 2, "--patience: must be at least 1"),
            ("--output out --patience 1 --select last", 2, "--patience: needs --select best"),
            ("--output out --learning-rate 1e-4,1e-4", 2, "--learning-rate: the values must differ"),
            ("--output out --learning-rate 1e-4,fast", 2, "invalid value '1e-4,fast'"),
            ("--output out --train-batch-size 8,0", 2, "--train-batch-size: must be at least 1"),
            ("--output out --precision bf16 --kernels plain", 2, "--precision: burn's operations"),
            ("--output out --select worst", 2, "invalid value 'worst'"),
            ("--output out --checkpoint other", 2, "cannot be used multiple times"),
        ],
    );
}
