//! Wrong flags, models and checkpoints for `pretrain` and the programs that read its runs.

use serde_json::{Value, json};

use super::{check, check_with};
use crate::common::{Folder, QUICK, entailment};

#[test]
fn pretrain_names_missing_flags() {
    let folder = Folder::with_data();
    check_with(
        &folder,
        "pretrain",
        &[
            ("--nonsense", 2, "unexpected argument '--nonsense'"),
            ("", 2, "--data <DIR|URL>"),
            ("--data data --steps 2 --output out", 2, "--model <SIZE|FILE>"),
            ("--data data --model tiny --output out", 2, "--steps <N>"),
            ("--data data --model tiny --init-checkpoint x --steps 2 --output out", 2, "cannot be used with"),
        ],
    );
}

#[test]
fn pretrain_rejects_invalid_values() {
    let folder = Folder::with_data();
    check_with(
        &folder,
        "pretrain --data data --output out --model config.json",
        &[
            ("--steps 0", 2, "--steps: must be at least 1"),
            ("--steps many", 2, "invalid value 'many'"),
            ("--steps 2 --batch-size 0", 2, "--batch-size: must be at least 1"),
            (
                "--steps 2 --gradient-accumulation-steps 0",
                2,
                "--gradient-accumulation-steps: must be between",
            ),
            ("--steps 2 --batch-size 4 --gradient-accumulation-steps 5", 2, "--gradient-accumulation-steps:"),
            ("--steps 2 --learning-rate=-1", 2, "--learning-rate: must be positive"),
            ("--steps 2 --learning-rate NaN", 2, "--learning-rate: must be positive"),
            ("--steps 2 --warmup-steps 3", 2, "--warmup-steps: must not be more than --steps"),
            ("--steps 2 --adam-beta1 1", 2, "--adam-beta1:"),
            ("--steps 2 --adam-beta2=-0.1", 2, "--adam-beta2:"),
            ("--steps 2 --adam-epsilon 0", 2, "--adam-epsilon: must be positive"),
            ("--steps 2 --max-gradient-norm=-1", 2, "--max-gradient-norm:"),
            ("--steps 2 --weight-decay inf", 2, "--weight-decay:"),
            ("--steps 2 --schedule cosine", 2, "invalid value 'cosine'"),
            ("--steps 2 --save-every 0", 2, "--save-every: must be at least 1"),
            ("--steps 2 --keep-checkpoints 0", 2, "--keep-checkpoints: must be at least 1"),
            ("--steps 2 --eval-every 2", 2, "--eval-data"),
            ("--steps 2 --keep-best", 2, "--eval-data"),
            ("--steps 2 --average-last 0", 2, "--average-last: must be at least 1"),
            (
                "--steps 9 --save-every 4 --average-last 4",
                2,
                "--average-last: the run writes 3 checkpoints: 9 steps, one every 4",
            ),
            ("--steps 2 --eval-data held --eval-every 0", 2, "--eval-every: must be at least 1"),
            ("--steps 2 --eval-data held --eval-instances 0", 2, "--eval-instances: must be at least 1"),
            ("--steps 2 --precision f16", 2, "invalid value 'f16'"),
            ("--steps 2 --precision bf16 --kernels plain", 2, "--precision: burn's operations have no fast"),
            (
                "--steps 2 --precision bf16 --device ndarray",
                2,
                "--precision: the ndarray backend has no bf16",
            ),
            ("--steps 2 --device gpu", 2, "unknown device \"gpu\": use flex, ndarray, cuda or cuda:N"),
            ("--steps 2 --device cuda:x", 2, "unknown device \"cuda:x\""),
        ],
    );
}

#[test]
fn pretrain_rejects_unknown_model_sizes() {
    let folder = Folder::with_data();
    check_with(
        &folder,
        "pretrain --data data --output out --steps 2 --model",
        &[
            (
                "gigantic",
                2,
                "\"gigantic\" is not a model size (tiny, mini, small, medium, base, large) and not a file",
            ),
            ("none.json", 2, "\"none.json\" is not a model size"),
        ],
    );
}

#[test]
fn unavailable_devices_are_rejected() {
    let folder = Folder::with_run();
    folder.write("glue/train.tsv", entailment(0, 16));
    folder.write("glue/dev.tsv", entailment(16, 8));
    let lines = |device: &str| {
        [
            format!("pretrain {QUICK} --steps 2 --output out --device {device}"),
            format!("finetune --task rte --data glue --checkpoint run --output out --device {device}"),
            format!("bert evaluate --checkpoint run --data held --device {device}"),
            format!("bert fill-mask --checkpoint run 'a [MASK]' --device {device}"),
        ]
    };
    for line in lines("gpu") {
        check(&folder, &[(&line, 2, "unknown device \"gpu\"")]);
    }
    if !cfg!(feature = "cuda") {
        for line in lines("cuda") {
            check(
                &folder,
                &[(
                    &line,
                    1,
                    "this build has no cuda:0 backend: build it with `cargo build --release --features cuda`",
                )],
            );
        }
    }
    if !cfg!(feature = "ndarray") {
        for line in lines("ndarray") {
            check(&folder, &[(&line, 1, "--features ndarray`")]);
        }
    }
}

#[test]
fn unsupported_model_configurations_are_rejected() {
    let folder = Folder::with_data();
    let config = |name: &str, key: &str, value: Value| {
        let mut config = folder.config();
        config[key] = value;
        folder.write(name, config.to_string());
    };
    let size = folder.config()["vocab_size"].as_u64().expect("a number");
    config("relu.json", "hidden_act", json!("relu"));
    config("small.json", "vocab_size", json!(size - 1));
    config("short.json", "max_position_embeddings", json!(31));
    config("heads.json", "num_attention_heads", json!(3));
    config("missing.json", "hidden_size", Value::Null);
    config("decoder.json", "is_decoder", json!(true));
    config("dropout.json", "hidden_dropout_prob", json!(1.0));
    folder.write("cut.json", "{\"vocab_size\": 4");
    check_with(
        &folder,
        "pretrain --data data --steps 2 --output out --model",
        &[
            (
                "relu.json",
                4,
                "`hidden_act` is `relu`; `gelu`, `gelu_new` and `gelu_pytorch_tanh` are supported",
            ),
            (
                "small.json",
                4,
                &format!("the model has embeddings of {} tokens, but the vocabulary has {size}", size - 1),
            ),
            ("short.json", 4, "the model has 31 positions, but the data has sequences of 32"),
            ("heads.json", 4, "`hidden_size` is 16, not a multiple of the 3 attention heads"),
            ("missing.json", 4, "`hidden_size` is missing"),
            ("decoder.json", 4, "`is_decoder` is true"),
            ("dropout.json", 4, "`hidden_dropout_prob` is 1"),
            ("cut.json", 3, "cut.json: not valid JSON"),
        ],
    );
}

/// Returns a folder with a run, its export, and damaged copies of the export.
fn with_damaged_models() -> Folder {
    let folder = Folder::with_run();
    folder.ok("bert export run good");
    folder.ok("bert export run encoder --encoder-only");
    std::fs::create_dir(folder.at("hollow")).expect("a folder");
    for name in ["weightless", "pickled", "cut", "other-shape", "split"] {
        folder.copy("good", name);
    }
    for name in ["weightless", "pickled", "split"] {
        std::fs::remove_file(folder.at(&format!("{name}/model.safetensors"))).expect("removed");
    }
    folder.write("pickled/pytorch_model.bin", "not read");
    folder.write("split/model.safetensors.index.json", "{}");
    let weights = folder.read("good/model.safetensors");
    folder.write("cut/model.safetensors", &weights[..weights.len() - 8]);
    let mut shape = folder.json("good/config.json").swap_remove(0);
    shape["intermediate_size"] = json!(48);
    folder.write("other-shape/config.json", shape.to_string());
    folder
}

#[test]
fn damaged_and_missing_models_are_rejected() {
    let folder = with_damaged_models();
    let broken = [
        ("none", 4, "none: this folder does not exist"),
        ("hollow", 4, "hollow: no checkpoint here"),
        ("data", 4, "data: no checkpoint here"),
        ("weightless", 4, "weightless: no model.safetensors in this folder"),
        ("pickled", 4, "save_pretrained(\"NEW_DIR\")` writes model.safetensors"),
        ("split", 4, "sharded weights are not supported"),
        ("cut", 3, "cut/model.safetensors: damaged safetensors file"),
        ("other-shape", 4, "intermediate.dense.weight has shape [32, 16], but the model has [48, 16]"),
    ];
    let heads = ("encoder", 4, "encoder: the model has no masked-LM head");
    for common in [
        "bert evaluate --data held --checkpoint",
        "bert fill-mask 'a [MASK]' --checkpoint",
        "pretrain --data data --steps 2 --output out --init-checkpoint",
    ] {
        check_with(&folder, common, &broken);
        check_with(&folder, common, &[heads]);
    }
    check_with(&folder, "bert attention 'a river' --output a.html --checkpoint", &broken);
    folder.write("glue/train.tsv", entailment(0, 16));
    folder.write("glue/dev.tsv", entailment(16, 8));
    check_with(
        &folder,
        "finetune --task rte --data glue --max-seq-length 48 --output out --checkpoint",
        &broken,
    );
}

#[test]
fn commands_reject_invalid_flags_and_folders() {
    let folder = with_damaged_models();
    folder.write("glue/train.tsv", entailment(0, 16));
    check(
        &folder,
        &[
            ("bert export none out", 4, "none: this folder does not exist"),
            ("bert export cut out", 3, "damaged safetensors file"),
            ("bert export run good", 1, "good: the folder already holds other files"),
            ("bert export run glue --encoder-only", 1, "glue: the folder already holds other files"),
            ("bert report hollow", 1, "hollow"),
            ("bert report none", 1, "none"),
            ("bert fill-mask --checkpoint run 'no mask at all'", 1, "no [MASK]"),
            ("bert fill-mask --checkpoint run", 2, "<TEXT>"),
            ("bert fill-mask --checkpoint run 'a [MASK]' --top-k 0", 2, "--top-k"),
            ("bert evaluate --checkpoint run --data held --batch-size 0", 2, "--batch-size"),
            ("bert evaluate --checkpoint run --data held --instances 0", 2, "--instances"),
            ("bert evaluate --checkpoint run --data held --precision 8", 2, "invalid value '8'"),
            (
                "bert evaluate --checkpoint run --data held --precision bf16 --device ndarray",
                2,
                "--precision: the ndarray backend has no bf16",
            ),
            ("bert attention --checkpoint run 'a' --max-seq-length 2", 2, "--max-seq-length"),
            ("bert paint", 2, "unrecognized subcommand 'paint'"),
            ("bert quickstart --output glue", 1, "glue: the folder already holds other files"),
            ("bert quickstart --output out --steps 0", 2, "--steps"),
        ],
    );
}

#[test]
fn bert_without_a_command_lists_the_commands() {
    let folder = Folder::new();
    // Without a command, the tool lists the commands.
    let ended = folder.run("bert");
    assert_eq!(ended.code, Some(2));
    assert!(ended.stderr.contains("Usage: bert") && ended.stderr.contains("make-vocab"), "{}", ended.stderr);
}

#[test]
fn diverged_run_is_reported() {
    let folder = Folder::with_data();
    let flags = "--initialization reference --warmup-steps 0 --steps 60 --learning-rate";
    let wild = folder
        .ok(&format!("pretrain {} {flags} 10 --output run", QUICK.replace(" --learning-rate 3e-3", "")));
    for part in ["the run has diverged: at step", "(now 10)"] {
        assert!(wild.stderr.contains(part), "{part}: {}", wild.stderr);
    }
    assert!(wild.stdout.contains("diverged:  at step"), "{}", wild.stdout);
    let page = folder.ok("bert report run");
    assert!(page.stderr.contains("warning: The run has diverged"), "{}", page.stderr);
    assert!(folder.text("run/report.html").contains("The run has diverged"));
    let tame = folder.ok(&format!("pretrain {QUICK} --steps 60 --output tame"));
    assert!(!tame.stderr.contains("diverged") && !tame.stdout.contains("diverged"), "{}", tame.stderr);
}

#[test]
fn two_data_folders_are_rejected() {
    let folder = Folder::with_data();
    let line = "pretrain --model config.json --steps 2 --output out";
    check_with(
        &folder,
        line,
        &[
            ("--data data --data held", 2, "cannot be used multiple times"),
            (
                "--data data,held",
                2,
                "--data: data,held: --data needs one data folder, not several such as data",
            ),
        ],
    );
}

/// Checks that data without pairs gives no next-sentence figures, because that head is not trained.
#[test]
fn nsp_off_omits_next_sentence_figures() {
    let folder = Folder::with_data();
    let flags = "--vocab vocab.txt --max-seq-length 32 --max-predictions-per-seq 5 --nsp off";
    folder.ok(&format!("make-pretrain-data --input train.txt {flags} --output single"));
    let line =
        "pretrain --data single --eval-data single --model config.json --batch-size 8 --steps 2 --output run";
    let ended = folder.ok(line);
    assert!(
        ended.stdout.contains("masked LM loss") && !ended.stdout.contains("next-sentence"),
        "{}",
        ended.stdout
    );
    assert!(!ended.stderr.contains("next-sentence") && !ended.stderr.contains("nsp"), "{}", ended.stderr);
    let figures = folder.ok("bert evaluate --checkpoint run --data single --json").json();
    assert_eq!(figures["next_sentence_accuracy"], Value::Null);
    assert!(figures["masked_lm_loss"].is_f64());
}

#[test]
fn non_finite_updates_are_rejected() {
    let folder = Folder::with_data();
    let line = "pretrain --data data --model config.json --batch-size 8 --steps 20 --warmup-steps 0 --save-every 1 \
                --output run --learning-rate 1e38";
    let ended = folder.run(line);
    assert_eq!(ended.code, Some(5), "{}", ended.stderr);
    assert!(
        ended.stderr.contains("so the update was skipped (1 in a row, maximum 10; 1 in total)"),
        "{}",
        ended.stderr
    );
    assert!(
        ended.stderr.contains("error: step 12: ") && ended.stderr.contains("--max-skipped-steps 10"),
        "{}",
        ended.stderr
    );
    let checkpoints = folder.names("run/checkpoints");
    let last = checkpoints.last().expect("a checkpoint before the failure");
    folder.ok(&format!("bert verify run/checkpoints/{last}"));
    for (shape, bytes) in folder.tensors(&format!("run/checkpoints/{last}/model.safetensors")).values() {
        let numbers = bytes.chunks_exact(4).map(|b| f32::from_le_bytes([b[0], b[1], b[2], b[3]]));
        assert!(
            numbers.into_iter().all(f32::is_finite),
            "a weight of shape {shape:?} in the last checkpoint"
        );
    }
}
