//! Wrong flags and files for `finetune`.

use super::check;
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
    check(
        &folder,
        "finetune --checkpoint run --max-seq-length 48 --output out --task rte --data",
        &format!(
            r#"
            1 | none | none: no train file of task rte here
            1 | trainless | trainless: no train file of task rte here (looked for
            1 | devless | devless: no dev file of task rte here
            3 | header | header/train.tsv:1: no column "sentence2" in the header
            3 | unlabelled | unlabelled/train.tsv:1: no column "label" in the header
            3 | label | label/train.tsv:{place}: unknown label "perhaps"; the labels of task rte are entailment, not_entailment
            3 | columns | columns/train.tsv:10: 3 tab-separated columns, expected 4
            3 | empty | empty/train.tsv: this file has no examples
            3 | bare | bare/train.tsv: this file has no examples
            3 | latin1 | latin1/train.tsv:10: invalid UTF-8 at byte 5
            1 | good --predict none.tsv | none.tsv
            3 | good --predict header/train.tsv | header/train.tsv:1: no column
            "#
        ),
    );
}

#[test]
fn unknown_tasks_and_invalid_labels_are_rejected() {
    let folder = with_bad_files();
    folder.write("STS-B/train.tsv", "index\tsentence1\tsentence2\tscore\n0\ta\tb\t5.1\n");
    folder.write("STS-B/dev.tsv", "index\tsentence1\tsentence2\tscore\n0\ta\tb\t2.0\n");
    folder.write("sst/sst-train.txt", "3 ||| fine\nfine\n");
    folder.write("sst/sst-dev.txt", "3 ||| fine\n");
    check(
        &folder,
        "finetune --checkpoint run --output out",
        r#"
        2 | --nonsense | unexpected argument '--nonsense'
        2 | --task rte | --data <DIR>
        2 | --task poetry --data good | unknown task "poetry"; the tasks are rte
        4 | --task rte --data good --max-seq-length 128 | --max-seq-length is 128, but the model has 64 positions
        3 | --task sts-b --data . --max-seq-length 48 | train.tsv:2: "5.1" is not a score of task sts-b
        3 | --task sst-5 --data sst --max-seq-length 48 | sst-train.txt:2: expected "LABEL ||| TEXT"
        "#,
    );
}

#[test]
fn finetune_rejects_invalid_values() {
    let folder = with_bad_files();
    check(
        &folder,
        "finetune --checkpoint run --max-seq-length 48 --task rte --data good",
        "
        1 | --output notes | notes: the folder already holds other files; choose another --output
        2 | --output out --num-train-epochs 0 | --num-train-epochs is 0, but must be positive
        2 | --output out --train-batch-size 0 | --train-batch-size is 0, but must be at least 1
        2 | --output out --learning-rate 0 | --learning-rate is 0, but must be positive
        2 | --output out --warmup-proportion 1 | --warmup-proportion is 1, but must be at least 0 and below 1
        2 | --output out --seeds 1,1 | --seeds: must differ from each other
        2 | --output out --seeds one | invalid value 'one'
        2 | --output out --seeds 5-1 | invalid value '5-1'
        2 | --output out --seeds 1-3,2 | --seeds: must differ from each other
        2 | --output out --max-train-examples 0 | --max-train-examples is 0, but must be at least 1
        2 | --output out --holdout 1 | --holdout is 1, but must be above 0 and below 1
        2 | --output out --holdout 0.01 | --holdout: 0.01 of 8 training examples leaves one part empty
        2 | --output out --gradient-accumulation-steps 0 | is 0, but must be between 1 and --train-batch-size
        2 | --output out --gradient-accumulation-steps 33 | is 33, but must be between 1 and --train-batch-size
        2 | --output out --patience 0 | --patience is 0, but must be at least 1
        2 | --output out --patience 1 --select last | --patience: needs --select best
        2 | --output out --learning-rate 1e-4,1e-4 | --learning-rate: the values must differ
        2 | --output out --learning-rate 1e-4,fast | invalid value '1e-4,fast'
        2 | --output out --train-batch-size 8,0 | --train-batch-size is 0, but must be at least 1
        2 | --output out --precision bf16 --kernels plain | --precision: burn's operations
        2 | --output out --head mlp | --head: needs --freeze-encoder
        2 | --output out --head mlp --layer-decay 0.9 | --head: needs --freeze-encoder
        2 | --output out --initialization previous-next | --initialization: needs --random-init
        2 | --output out --initialization-data data | --initialization-data: needs --initialization bigram
        2 | --output out --select worst | invalid value 'worst'
        2 | --output out --checkpoint other | cannot be used multiple times
        ",
    );
}
