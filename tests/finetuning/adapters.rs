//! `finetune --adapter`: the trained weights, the files written, and that these files reproduce the scored model.

use bert_inference::examples::predict;
use bert_inference::{DeviceName, Features, ModelTokenizer, StopFlag, resolve_model_folder};
use bert_model::{LoadPolicy, load_pretrained, named_tensors_to_bytes, read_adapter, read_safetensors};
use bert_task_files::read_file;
use bert_tasks::Task;
use serde_json::{Value, json};

use crate::common::{Folder, assert_self_contained, entailment, number};

/// Flags for a quick run of the very small model; the learning rate is high enough to move every weight.
const QUICK: &str = "finetune --task rte --data glue --max-seq-length 48 --num-train-epochs 2 --train-batch-size 8 \
                     --learning-rate 1e-2";

fn with_entailment() -> Folder {
    let folder = Folder::with_run();
    folder.write("glue/RTE/train.tsv", entailment(0, 24));
    folder.write("glue/RTE/dev.tsv", entailment(24, 12));
    folder
}

/// Returns the probabilities of dev with the adapter of a folder on the run's encoder, computed by the library.
fn probabilities(folder: &Folder, adapter: &str) -> String {
    let start = resolve_model_folder(&folder.at("run"), &mut |_| {}).expect("a checkpoint");
    let device = DeviceName::default().open().expect("a processor");
    let labels = |config: bert_model::BertConfig| config.with_labels(&["entailment", "not_entailment"]);
    let (model, ..) =
        load_pretrained(&start, labels, LoadPolicy::FreshHeads, 99, &device).expect("an encoder");
    let model = read_adapter(&folder.at(adapter)).and_then(|found| found.apply(model)).expect("an adapter");
    let task: Task = "rte".parse().expect("a task");
    let examples = read_file(&task, &folder.at("glue/RTE/dev.tsv"), true).expect("examples");
    let text = ModelTokenizer::from_vocabulary(&folder.at(adapter), Default::default())
        .expect("the tokenizer's files");
    let features = Features::new(&examples, &text.tokenizer, &text.vocabulary, 48);
    let rows = predict(&model, &features, task.spec().kind, &device.autodiff(), &StopFlag::new());
    let rows = rows.expect("the device works");
    rows.iter().map(|row| format!("{}\t{}\n", row[0], row[1])).collect()
}

/// Checks the page of an adapter, and that the flags of its report give the same run.
fn check_page_and_repetition(folder: &Folder) {
    folder.ok("bert report pfeiffer");
    let page = folder.text("pfeiffer/report.html");
    assert_self_contained(&page);
    assert!(page.contains("trained parameters"));
    // The same flags from the report give the same run.
    folder.ok("finetune --config pfeiffer --output again");
    assert_eq!(
        folder.read("again/model/adapter.safetensors"),
        folder.read("pfeiffer/model/adapter.safetensors")
    );
}

/// Checks the names of the weight files, and that the loss of the first epoch is recorded.
fn check_files_of_adapter(folder: &Folder, name: &str, report: &Value) {
    let files = folder.names(&format!("{name}/model"));
    let own: Vec<&str> =
        files.iter().map(String::as_str).filter(|file| file.contains("safetensors")).collect();
    match name {
        "lora" => assert_eq!(own, ["adapter_model.safetensors"]),
        _ => assert_eq!(own, ["adapter.safetensors", "model_head.safetensors"]),
    }
    let epochs = report["runs"][0]["history"].as_array().expect("epochs");
    assert!(number(&epochs[0], "/train_loss") > 0.0);
}

/// Checks that the report has the defaults of the adapter.
fn check_resolved_defaults(name: &str, report: &Value) {
    let sizes = match name {
        "pfeiffer" => json!([4.0, null, null]),
        "houlsby" => json!([16.0, null, null]),
        "parallel" => json!([2.0, null, null]),
        _ => json!([null, 3, 6.0]),
    };
    let resolved = &report["resolved"];
    let found = ["adapter_reduction", "lora_rank", "lora_alpha"].map(|key| resolved[key].clone());
    assert_eq!(json!(found), sizes, "the report lists the defaults");
}

#[test]
fn adapter_with_its_encoder_is_the_tuned_model() {
    let folder = with_entailment();
    let hidden = 16;
    let layers = 2;
    let dense = |input: usize, output: usize| input * output + output;
    let bottleneck = |width: usize| dense(hidden, width) + dense(width, hidden);
    let head = dense(hidden, 2);
    let cases = [
        ("pfeiffer --adapter-reduction 4", layers * bottleneck(4)),
        ("houlsby", layers * 2 * bottleneck(1)),
        ("parallel", layers * bottleneck(8)),
        ("lora --lora-rank 3 --lora-alpha 6", layers * 2 * 2 * 3 * hidden),
    ];
    let encoder: usize = {
        let tensors = folder.tensors("run/checkpoints/step-00000006/model.safetensors");
        let own = tensors.iter().filter(|(name, _)| name.starts_with("bert."));
        own.map(|(_, (shape, _))| shape.iter().product::<usize>()).sum()
    };
    for (flags, adapter) in cases {
        let name = flags.split(' ').next().expect("a name");
        let ended = folder.ok(&format!("{QUICK} --checkpoint run --adapter {flags} --output {name}"));
        ended.stdout_has(&format!("trained parameters: {} of", adapter + head));
        let report = &folder.json(&format!("{name}/report.json"))[0];
        check_resolved_defaults(name, report);
        assert_eq!(report["parameters"]["trained"], json!(adapter + head));
        assert_eq!(report["parameters"]["all"], json!(encoder + adapter + head));
        let share = (adapter + head) as f64 / (encoder + adapter + head) as f64;
        assert!((number(report, "/parameters/share") - share).abs() < 1e-12);

        check_files_of_adapter(&folder, name, report);
        let scored = folder.text(&format!("{name}/seed-1/dev_probabilities.tsv"));
        assert_eq!(probabilities(&folder, &format!("{name}/model")), scored, "{name}");
    }
    check_page_and_repetition(&folder);
}

#[test]
fn merged_lora_adds_only_its_product() {
    let folder = with_entailment();
    let flags = "--checkpoint run --adapter lora --lora-rank 2 --lora-alpha 3 --merge-lora --keep-seeds";
    folder.ok(&format!("{QUICK} {flags} --output tuned"));
    let mut seed_model = folder.snapshot("tuned/seed-1/model");
    seed_model.insert("README.md".to_string(), folder.snapshot("tuned/model")["README.md"].clone());
    assert!(seed_model == folder.snapshot("tuned/model"), "the only seed has the same model");
    assert_eq!(folder.snapshot("tuned/seed-1/adapter"), folder.snapshot("tuned/adapter"));
    assert_eq!(folder.names("tuned"), ["adapter", "dev_labels.tsv", "model", "report.json", "seed-1"]);
    let read = |file: &str| read_safetensors(&folder.at(file)).expect("tensors");
    let start = read("run/checkpoints/step-00000006/model.safetensors");
    let whole = read("tuned/model/model.safetensors");
    let lora = read("tuned/adapter/adapter_model.safetensors");
    for (name, (_, values)) in whole.iter().filter(|(name, _)| name.starts_with("bert.")) {
        let Some(stem) = ["query", "value"].iter().find_map(|which| {
            name.strip_suffix(".weight").filter(|stem| stem.ends_with(&format!("self.{which}")))
        }) else {
            assert_eq!(values, &start[name].1, "{name} is frozen");
            continue;
        };
        let matrix = |which: &str| &lora[&format!("base_model.model.{stem}.lora_{which}.weight")].1;
        let a = matrix("A");
        let b = matrix("B"); // [rank, hidden], [hidden, rank]
        assert!(b.iter().any(|&x| x != 0.0), "{name} has learned");
        for (at, (&merged, &before)) in values.iter().zip(&start[name].1).enumerate() {
            let out = at / 16;
            let into = at % 16;
            let product: f32 = (0..2).map(|r| b[out * 2 + r] * a[r * 16 + into]).sum();
            assert!((merged - before - 1.5 * product).abs() < 1e-6, "{name}");
        }
    }
    // It is a regular model.
    folder.ok("bert attention --checkpoint tuned 'a river ||| a stream'");
    folder.ok(&format!("{QUICK} --checkpoint tuned --num-train-epochs 1 --output on")
        .replace("--num-train-epochs 2 ", ""));
}

#[test]
fn adapter_folder_is_rejected_as_a_model() {
    let folder = with_entailment();
    folder.ok(&format!("{QUICK} --checkpoint run --adapter pfeiffer --output tuned"));
    for path in ["tuned", "tuned/model"] {
        for line in [
            format!("finetune --task rte --data glue --checkpoint {path} --output out"),
            format!("bert fill-mask --checkpoint {path} 'a [MASK]'"),
            format!("bert export {path} out"),
        ] {
            folder.refused(&line, 4, "tuned/model: this is an adapter without its encoder");
        }
    }
    assert!(!folder.at("out").exists());
    let weights = |path: &str| {
        let line = format!("bert attention --checkpoint {path} 'a river' --overwrite --json");
        folder.ok(&line).json()["models"][0]["weights"].clone()
    };
    assert_eq!(weights("tuned"), weights("tuned/model"));
    assert_ne!(weights("tuned"), weights("run"), "the adapter changes the second layer");
}

#[test]
fn adapter_rejects_conflicting_options() {
    let folder = with_entailment();
    let cases = [
        ("--adapter pfeiffer --freeze-encoder", 2, "--freeze-encoder: cannot be used with --adapter"),
        ("--adapter houlsby --random-init", 2, "--random-init: cannot be used with --adapter"),
        ("--adapter parallel --lora-rank 4", 2, "--lora-rank: works with --adapter lora only"),
        ("--adapter lora --adapter-reduction 4", 2, "--adapter-reduction: works with --adapter pfeiffer"),
        ("--merge-lora", 2, "--merge-lora: works with --adapter lora only"),
        ("--adapter prefix", 2, "invalid value 'prefix'"),
        (
            "--adapter lora --lora-rank 17",
            2,
            "--lora-rank is 17, but must be from 1 to the hidden size of 16",
        ),
    ];
    for (flags, code, message) in cases {
        folder.refused(&format!("{QUICK} --checkpoint run {flags} --output out"), code, message);
        assert!(!folder.at("out").exists(), "{flags}");
    }
    // A randomly initialized pooler would not be saved in any folder.
    folder.ok("bert export run whole");
    let mut tensors = read_safetensors(&folder.at("whole/model.safetensors")).expect("tensors");
    tensors.retain(|name, _| !name.starts_with("bert.pooler."));
    folder.write("whole/model.safetensors", named_tensors_to_bytes(&tensors));
    folder.refused(
        &format!("{QUICK} --checkpoint whole --adapter pfeiffer --output out"),
        2,
        "--adapter: the checkpoint has no [\"bert.pooler.",
    );
}

#[test]
fn trained_parameters_are_counted() {
    let folder = with_entailment();
    let parameters = |flags: &str, output: &str| -> Value {
        folder.ok(&format!("{QUICK} --checkpoint run {flags} --output {output}"));
        folder.json(&format!("{output}/report.json"))[0]["parameters"].clone()
    };
    let whole = parameters("", "whole");
    assert_eq!((&whole["trained"], &whole["share"]), (&whole["all"], &json!(1.0)));
    let frozen = parameters("--freeze-encoder", "frozen");
    assert_eq!((&frozen["trained"], &frozen["all"]), (&json!(2 * 16 + 2), &whole["all"]));
}

/// Trains an adapter of a task on the run of the folder.
fn train_adapter(folder: &Folder, task: &str, flags: &str) {
    let line = QUICK.replace("--task rte", &format!("--task {task}"));
    folder.ok(&format!("{line} --checkpoint run --adapter pfeiffer {flags}"));
}

/// Returns a folder with the adapters `rte/` and `wnli/` of two tasks.
fn with_two_adapters() -> Folder {
    let folder = with_entailment();
    let as_wnli = |file: &str| {
        let text = folder.text(&format!("glue/RTE/{file}"));
        text.replace("\tnot_entailment\n", "\t0\n").replace("\tentailment\n", "\t1\n")
    };
    folder.write("glue/WNLI/train.tsv", as_wnli("train.tsv"));
    folder.write("glue/WNLI/dev.tsv", as_wnli("dev.tsv"));
    train_adapter(&folder, "rte", "--adapter-reduction 4 --output rte");
    train_adapter(&folder, "wnli", "--adapter-reduction 2 --output wnli");
    folder
}

/// Checks the files of a fusion, with copies of its adapters.
fn check_files_of_fusion(folder: &Folder) {
    assert_eq!(
        folder.names("fused/model"),
        [
            "README.md",
            "adapter_fusion_config.json",
            "adapters",
            "config.json",
            "encoder.json",
            "head_config.json",
            "model_adapter_fusion.safetensors",
            "model_description.json",
            "model_head.safetensors",
            "special_tokens_map.json",
            "tokenizer.json",
            "tokenizer_config.json",
            "vocab.txt"
        ]
    );
    for name in ["rte", "wnli"] {
        for file in ["adapter.safetensors", "adapter_config.json"] {
            assert_eq!(
                folder.read(&format!("fused/model/adapters/{name}/{file}")),
                folder.read(&format!("{name}/model/{file}"))
            );
        }
    }
}

/// Checks that the page shows a share for each layer and adapter.
fn check_page_of_fusion(folder: &Folder) {
    folder.ok("bert report fused");
    let page = folder.text("fused/report.html");
    assert_self_contained(&page);
    assert!(page.contains("Attention over the adapters"));
    assert_eq!(
        page.matches("color-mix(in srgb,var(--a) ").count(),
        2 * 2,
        "a shade for each layer and adapter"
    );
}

#[test]
fn adapter_fusion_trains_an_attention() {
    let folder = with_two_adapters();
    let line = format!("{QUICK} --checkpoint run --fusion rte,wnli/model --seeds 1,2");
    let report = folder.ok(&format!("{line} --output fused --json")).json();
    // In each of two layers: query and key with biases, and value without; plus the head.
    let trained = 2 * (3 * 16 * 16 + 2 * 16) + 2 * 16 + 2;
    assert_eq!(report["parameters"]["trained"], json!(trained));
    let fusion = &report["fusion"];
    assert_eq!(fusion["adapters"], json!(["rte", "wnli"]));
    let layers = fusion["shares"].as_array().expect("layers");
    assert_eq!(layers.len(), 2);
    for layer in layers {
        let shares: Vec<f64> = layer.as_array().expect("shares").iter().filter_map(Value::as_f64).collect();
        assert!((shares.iter().sum::<f64>() - 1.0).abs() < 1e-5, "{shares:?}");
    }
    // It has moved from the identity and contributes to the loss.
    assert!(number(fusion, "/regularization") > 1e-6);
    check_files_of_fusion(&folder);
    let tensors = folder.tensors("fused/model/model_adapter_fusion.safetensors");
    let place = "bert.encoder.layer.1.output.adapter_fusion_layer.rte,wnli";
    let names: Vec<&String> =
        tensors.keys().filter(|name| name.starts_with("bert.encoder.layer.1.")).collect();
    let parts = ["key.bias", "key.weight", "query.bias", "query.weight", "value.weight"];
    assert_eq!(names, parts.map(|part| format!("{place}.{part}")).iter().collect::<Vec<_>>());
    check_page_of_fusion(&folder);
    let predicted = predicted(&folder, "--checkpoint fused");
    assert!([1, 2].iter().any(|seed| close(&predicted, &scored(&folder, &format!("fused/seed-{seed}")))));

    // The same command again; and resumed after a simulated kill between its runs.
    folder.ok(&format!("{line} --output again"));
    let attention = |name: &str| folder.read(&format!("{name}/model/model_adapter_fusion.safetensors"));
    assert_eq!(attention("again"), attention("fused"));
}

#[test]
fn adapter_fusion_rejects_conflicting_options() {
    let folder = with_two_adapters();
    folder.ok(&format!("{QUICK} --checkpoint run --output tuned"));
    let line = format!("{QUICK} --fusion rte,wnli --checkpoint tuned/model --output x");
    folder.refused(&line, 4, "the adapter was trained on other weights");
    train_adapter(&folder, "wnli", "--adapter-reduction 2 --seeds 2 --output wnli2");
    let one = QUICK.to_string() + " --checkpoint run --output other";
    for (flags, code, message) in [
        ("--fusion rte", 2, "--fusion: needs two adapters or more"),
        ("--fusion wnli,wnli2", 2, "two adapters have the name wnli"),
        ("--fusion rte,wnli --random-init", 2, "its adapters belong to the checkpoint"),
        ("--fusion rte,wnli --freeze-encoder", 2, "cannot be used with"),
        ("--fusion rte,nowhere", 4, "adapter_config.json"),
    ] {
        folder.refused(&format!("{one} {flags}"), code, message);
        assert!(!folder.at("other").exists());
    }
}

/// Returns the probabilities of dev from `bert predict`.
fn predicted(folder: &Folder, flags: &str) -> Vec<Vec<f64>> {
    let dev = folder.text("glue/RTE/dev.tsv");
    let pair = |row: &str| row.split('\t').skip(1).take(2).collect::<Vec<_>>().join("\t") + "\n";
    folder.write("pairs.tsv", dev.lines().skip(1).map(pair).collect::<String>());
    let message = folder.ok(&format!("bert predict --input pairs.tsv {flags}")).stdout;
    let classes = ["entailment", "not_entailment"];
    let row = |line: &str| -> Vec<f64> {
        let row: Value = serde_json::from_str(line).expect("JSON");
        classes.iter().map(|class| number(&row, &format!("/probabilities/{class}"))).collect()
    };
    message.lines().map(row).collect()
}

/// Returns the probabilities of a run's own dev set.
fn scored(folder: &Folder, run: &str) -> Vec<Vec<f64>> {
    let text = folder.text(&format!("{run}/dev_probabilities.tsv"));
    let row = |line: &str| line.split('\t').map(|value| value.parse().expect("a number")).collect();
    text.lines().map(row).collect()
}

fn close(found: &[Vec<f64>], expected: &[Vec<f64>]) -> bool {
    let rows = found.iter().flatten().zip(expected.iter().flatten());
    found.len() == expected.len() && rows.into_iter().all(|(a, b)| (a - b).abs() < 1e-6)
}

#[test]
fn adapter_folder_predicts_with_its_encoder() {
    let folder = with_entailment();
    folder.ok(&format!("{QUICK} --checkpoint run --adapter houlsby --output tuned"));
    folder.ok(&format!("{QUICK} --checkpoint run --adapter lora --output lora"));
    for name in ["tuned", "lora"] {
        let scored = scored(&folder, &format!("{name}/seed-1"));
        assert!(close(&predicted(&folder, &format!("--checkpoint {name}")), &scored), "{name}");
        assert!(
            close(&predicted(&folder, &format!("--checkpoint {name}/model --encoder run")), &scored),
            "{name}"
        );
    }
    let flips =
        folder.ok("bert probe --checkpoint tuned 'a river ||| a stream' --replace river=pipe --json").json();
    assert_eq!(flips["changes"], json!(1));

    // The encoder was moved, so the path stored in the folder is invalid.
    std::fs::rename(folder.at("run"), folder.at("moved")).expect("a folder");
    let lost = folder.run("bert predict --checkpoint tuned --input pairs.tsv");
    assert_eq!(lost.code, Some(4));
    assert!(
        lost.stderr.contains("which does not exist; give the checkpoint")
            && lost.stderr.contains("--encoder")
    );
    assert_eq!(predicted(&folder, "--checkpoint tuned --encoder moved").len(), 12);
    folder.refused(
        "bert predict --checkpoint moved --encoder moved --input pairs.tsv",
        2,
        "--encoder: works with an adapter folder only",
    );
}
