//! Wrong flags, models and checkpoints for `pretrain` and the programs that read its runs.

use serde_json::{Value, json};

use super::check;
use crate::common::{Folder, QUICK, entailment};

#[test]
fn pretrain_names_missing_flags() {
    let folder = Folder::with_data();
    check(
        &folder,
        "pretrain",
        "
        2 | --nonsense | unexpected argument '--nonsense'
        2 | | --data <DIR|URL>
        2 | --data data --steps 2 --output out | --model <SIZE|FILE>
        2 | --data data --model tiny --output out | --steps <N>
        2 | --data data --model tiny --init-checkpoint x --steps 2 --output out | cannot be used with
        ",
    );
}

#[test]
fn pretrain_rejects_invalid_values() {
    let folder = Folder::with_data();
    check(
        &folder,
        "pretrain --data data --output out --model config.json",
        r#"
        2 | --steps 0 | --steps is 0, but must be at least 1
        2 | --steps many | invalid value 'many'
        2 | --steps 2 --batch-size 0 | --batch-size is 0, but must be at least 1
        2 | --steps 2 --gradient-accumulation-steps 0 | --gradient-accumulation-steps is 0, but must be between 1 and --batch-size
        2 | --steps 2 --batch-size 4 --gradient-accumulation-steps 5 | --gradient-accumulation-steps is 5, but
        2 | --steps 2 --learning-rate=-1 | --learning-rate is -1, but must be positive
        2 | --steps 2 --learning-rate NaN | must be a finite number
        2 | --steps 2 --warmup-steps 3 | --warmup-steps is 3, but must be at most --steps (2)
        2 | --steps 2 --adam-beta1 1 | --adam-beta1 is 1, but must be at least 0 and below 1
        2 | --steps 2 --adam-beta2=-0.1 | --adam-beta2 is -0.1, but must be
        2 | --steps 2 --adam-epsilon 0 | --adam-epsilon is 0, but must be positive
        2 | --steps 2 --max-gradient-norm=-1 | --max-gradient-norm is -1, but must be 0 or more
        2 | --steps 2 --weight-decay inf | must be a finite number
        2 | --steps 2 --schedule cosine | invalid value 'cosine'
        2 | --steps 2 --save-every 0 | --save-every is 0, but must be at least 1
        2 | --steps 2 --keep-checkpoints 0 | --keep-checkpoints is 0, but must be at least 1
        2 | --steps 2 --eval-every 2 | --eval-data
        2 | --steps 2 --keep-best | --eval-data
        2 | --steps 2 --average-last 0 | --average-last is 0, but must be at least 1
        2 | --steps 9 --save-every 4 --average-last 4 | --average-last: the run writes 3 checkpoints: 9 steps, one every 4
        2 | --steps 2 --eval-data held --eval-every 0 | --eval-every is 0, but must be at least 1
        2 | --steps 2 --eval-data held --eval-instances 0 | --eval-instances is 0, but must be at least 1
        2 | --steps 2 --precision f16 | invalid value 'f16'
        2 | --steps 2 --precision bf16 --kernels plain | --precision: burn's operations have no fast
        2 | --steps 2 --precision bf16 --device ndarray | --precision: the ndarray backend has no bf16
        2 | --steps 2 --device gpu | unknown device "gpu": use flex, ndarray, wgpu[:N], cuda[:N] or auto
        2 | --steps 2 --device cuda:x | unknown device "cuda:x"
        "#,
    );
}

#[test]
fn pretrain_rejects_unknown_model_sizes() {
    let folder = Folder::with_data();
    check(
        &folder,
        "pretrain --data data --output out --steps 2 --model",
        r#"
        2 | gigantic | "gigantic" is not a model size (tiny, mini, small, medium, base, large) and not a file
        2 | none.json | "none.json" is not a model size
        "#,
    );
}

#[test]
fn unavailable_devices_are_rejected() {
    let folder = Folder::with_run();
    folder.write("glue/train.tsv", entailment(0, 16));
    folder.write("glue/dev.tsv", entailment(16, 8));
    let refuse = |device: &str, code: i32, message: &str| {
        for line in [
            format!("pretrain {QUICK} --steps 2 --output out"),
            "finetune --task rte --data glue --checkpoint run --output out".to_string(),
            "bert evaluate --checkpoint run --data held".to_string(),
            "bert fill-mask --checkpoint run 'a [MASK]'".to_string(),
        ] {
            check(&folder, &line, &format!("{code} | --device {device} | {message}"));
        }
    };
    refuse("gpu", 2, "unknown device \"gpu\"");
    if !cfg!(feature = "cuda") {
        let build = "build it with `cargo build --release --features cuda`";
        refuse("cuda", 1, &format!("this build has no cuda:0 backend: {build}"));
    }
    if !cfg!(feature = "ndarray") {
        refuse("ndarray", 1, "--features ndarray`");
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
    check(
        &folder,
        "pretrain --data data --steps 2 --output out --model",
        &format!(
            "
            4 | relu.json | `hidden_act` is `relu`; `gelu`, `gelu_new` and `gelu_pytorch_tanh` are supported
            4 | small.json | the model has embeddings of {} tokens, but the vocabulary has {size}
            4 | short.json | the model has 31 positions, but the data has sequences of 32
            4 | heads.json | `hidden_size` is 16, not a multiple of the 3 attention heads
            4 | missing.json | `hidden_size` is missing
            4 | decoder.json | `is_decoder` is true
            4 | dropout.json | `hidden_dropout_prob` is 1
            3 | cut.json | cut.json: not valid JSON
            ",
            size - 1
        ),
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
    let broken = r#"
        4 | none | none: this folder does not exist
        4 | hollow | hollow: no checkpoint here
        4 | data | data: no checkpoint here
        4 | weightless | weightless: no model.safetensors in this folder
        3 | pickled | pickled/pytorch_model.bin: damaged PyTorch file
        3 | split | split/model.safetensors.index.json: damaged safetensors file
        3 | cut | cut/model.safetensors: damaged safetensors file
        4 | other-shape | intermediate.dense.weight has shape [32, 16], but the model has [48, 16]
        "#;
    for common in [
        "bert evaluate --data held --checkpoint",
        "bert fill-mask 'a [MASK]' --checkpoint",
        "pretrain --data data --steps 2 --output out --init-checkpoint",
    ] {
        check(&folder, common, broken);
        check(&folder, common, "4 | encoder | encoder: the model has no masked-LM head");
    }
    check(&folder, "bert attention 'a river' --output a.html --checkpoint", broken);
    folder.write("glue/train.tsv", entailment(0, 16));
    folder.write("glue/dev.tsv", entailment(16, 8));
    check(&folder, "finetune --task rte --data glue --max-seq-length 48 --output out --checkpoint", broken);
}

#[test]
fn commands_reject_invalid_flags_and_folders() {
    let folder = with_damaged_models();
    folder.write("glue/train.tsv", entailment(0, 16));
    check(
        &folder,
        "",
        "
        4 | bert export none out | none: this folder does not exist
        3 | bert export cut out | damaged safetensors file
        1 | bert export run good | good: the folder already holds other files
        1 | bert export run glue --encoder-only | glue: the folder already holds other files
        1 | bert report hollow | hollow
        1 | bert report none | none
        1 | bert fill-mask --checkpoint run 'no mask at all' | no [MASK]
        2 | bert fill-mask --checkpoint run | <TEXT>
        2 | bert fill-mask --checkpoint run 'a [MASK]' --top-k 0 | --top-k
        2 | bert evaluate --checkpoint run --data held --batch-size 0 | --batch-size
        2 | bert evaluate --checkpoint run --data held --instances 0 | --instances
        2 | bert evaluate --checkpoint run --data held --precision 8 | invalid value '8'
        2 | bert evaluate --checkpoint run --data held --precision bf16 --device ndarray | --precision: the ndarray backend has no bf16
        2 | bert attention --checkpoint run 'a' --max-seq-length 2 | --max-seq-length
        4 | bert attention --checkpoint run 'a' --max-seq-length 5000 | --max-seq-length is 5000, but the model has
        2 | bert attention --checkpoint run 'a' --output a --parquet a | --parquet: is the file of --output
        2 | bert extend-vocab --checkpoint run --input train.txt --add 2 --seed 1 --output more | --seed: needs --new-rows random
        2 | bert predict --checkpoint run 'a' --columns text | cannot be used with
        2 | bert probe 'a' --columns text --replace a=b | cannot be used with
        2 | bert probe --data held --columns text --replace a=b | cannot be used with
        2 | bert paint | unrecognized subcommand 'paint'
        1 | bert quickstart --output glue | glue: the folder already holds other files
        2 | bert quickstart --output out --steps 0 | --steps
        ",
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
    wild.stdout_has("diverged:  at step");
    let page = folder.ok("bert report run");
    page.stderr_has("warning: The run has diverged");
    assert!(folder.text("run/report.html").contains("The run has diverged"));
    let tame = folder.ok(&format!("pretrain {QUICK} --steps 60 --output tame"));
    assert!(!tame.stderr.contains("diverged") && !tame.stdout.contains("diverged"), "{}", tame.stderr);
}

#[test]
fn data_folders_without_weights_are_rejected() {
    let folder = Folder::with_data();
    let line = "pretrain --model config.json --steps 2 --output out";
    check(
        &folder,
        line,
        "
        2 | --data data --data held | --data: data: each of several data folders needs a positive weight
        2 | --data data,held | --data: data,held: this is not a data folder, but a list such as data
        ",
    );
}

/// Checks that data without pairs gives no next-sentence figures, because that head is not trained.
#[test]
fn nsp_off_omits_next_sentence_figures() {
    let folder = Folder::with_data();
    let flags = "--vocab vocab.txt --max-seq-length 32 --max-predictions-per-seq 5 --nsp off";
    folder.ok(&format!("make-pretrain-data --input train.txt {flags} --output single"));
    let line = "pretrain --data single --eval-data single --allow-overlap --model config.json --batch-size 8 --steps 2 --output run";
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
                --output run --learning-rate 1e9";
    let ended = folder.refused(line, 5, "so the update was skipped (1 in a row, maximum 10; 1 in total)");
    ended.stderr_has("error: step 13: ");
    ended.stderr_has("--max-skipped-steps 10");
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
