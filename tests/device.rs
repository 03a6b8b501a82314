//! Runs of the programs on a GPU, compared with the CPU and with themselves: the device of wgpu with number 0, for which
//! a software Vulkan will do (Debian: `apt install mesa-vulkan-drivers`).
//!
//! The differences measured on Mesa's lavapipe are at least three times smaller than the bounds.

use std::collections::BTreeMap;

use serde_json::Value;

use crate::common::{Folder, QUICK, entailment, number};
use crate::finetuning::heads::{with_questions, with_tags};

/// Maximum relative difference of the loss of a step.
const LOSS: f64 = 1e-5;
/// Maximum difference of a weight after the last step.
const WEIGHT: f64 = 2e-4;

/// Returns the values of each tensor of a file.
fn weights(folder: &Folder, file: &str) -> BTreeMap<String, Vec<f32>> {
    let values = |bytes: Vec<u8>| -> Vec<f32> {
        bytes.chunks_exact(4).map(|word| f32::from_le_bytes(word.try_into().expect("four bytes"))).collect()
    };
    folder.tensors(file).into_iter().map(|(name, (_, bytes))| (name, values(bytes))).collect()
}

/// Checks that the weights of two files are close.
fn assert_close_weights(folder: &Folder, one: &str, other: &str) {
    let one = weights(folder, one);
    let other = weights(folder, other);
    assert_eq!(one.keys().collect::<Vec<_>>(), other.keys().collect::<Vec<_>>());
    let mut worst = (0.0, "");
    for (name, values) in &one {
        for (a, b) in values.iter().zip(&other[name]) {
            let difference = f64::from((a - b).abs());
            if difference.is_nan() || difference > worst.0 {
                worst = (difference, name);
            }
        }
    }
    println!("weights differ by {:.1e} ({})", worst.0, worst.1);
    assert!(worst.0 <= WEIGHT, "{worst:?}");
}

/// Checks that the losses of all steps of two runs are close.
fn assert_close_losses(folder: &Folder, one: &str, other: &str) {
    let losses = |run: &str| -> Vec<f64> {
        folder.json(&format!("{run}/metrics.jsonl")).iter().map(|step| number(step, "/loss")).collect()
    };
    let pairs = losses(one).into_iter().zip(losses(other));
    let worst = pairs.map(|(a, b)| (a - b).abs() / b).fold(0.0, f64::max);
    println!("losses differ by {worst:.1e}");
    assert!(worst <= LOSS, "{one} and {other}: {worst}");
}

/// Checks that all numbers of two JSON values differ by at most `bound`, and that everything else is equal.
fn assert_close_json(one: &Value, other: &Value, bound: f64, path: &str) {
    match (one, other) {
        (Value::Number(one), Value::Number(other)) => {
            let [one, other] = [one, other].map(|number| number.as_f64().expect("a number"));
            assert!((one - other).abs() <= bound * other.abs().max(1.0), "{path}: {one} and {other}");
        }
        (Value::Array(one), Value::Array(other)) => {
            assert_eq!(one.len(), other.len(), "{path}");
            for (at, (one, other)) in one.iter().zip(other).enumerate() {
                assert_close_json(one, other, bound, &format!("{path}/{at}"));
            }
        }
        (Value::Object(one), Value::Object(other)) => {
            assert_eq!(one.keys().collect::<Vec<_>>(), other.keys().collect::<Vec<_>>(), "{path}");
            for (key, value) in one {
                assert_close_json(value, &other[key], bound, &format!("{path}/{key}"));
            }
        }
        _ => assert_eq!(one, other, "{path}"),
    }
}

/// Pre-trains six steps on a device.
fn pretrain(folder: &Folder, device: &str, output: &str, flags: &str) {
    let data = if output.starts_with("single") { "--data single" } else { "--data data" };
    let quick = QUICK.replace("--data data", data);
    let flags = format!("{quick} --precision f32 --steps 6 --save-every 3 {flags}");
    let ended = folder.ok(&format!("pretrain {flags} --device {device} --output {output}"));
    assert_eq!(ended.stderr.contains("wgpu:0 agrees with the CPU"), device == "wgpu", "{}", ended.stderr);
}

#[test]
#[ignore = "needs Vulkan"]
fn pretraining_on_a_gpu_equals_the_cpu() {
    let folder = Folder::with_data();
    let build = "--vocab vocab.txt --max-seq-length 32 --max-predictions-per-seq 5 --nsp off --output single";
    folder.ok(&format!("make-pretrain-data --input train.txt {build}"));
    for (name, flags) in [
        ("all", "--eval-data held"),
        ("micro", "--gradient-accumulation-steps 4"),
        ("recompute", "--recompute"),
        ("single", ""),
        ("lamb", "--optimizer lamb"),
    ] {
        println!("{name}");
        let [cpu, gpu] = ["cpu", "gpu"].map(|device| format!("{name}-{device}"));
        pretrain(&folder, "flex", &cpu, flags);
        pretrain(&folder, "wgpu", &gpu, flags);
        assert_close_losses(&folder, &gpu, &cpu);
        let last = |run: &str| format!("{run}/checkpoints/step-00000006/model.safetensors");
        assert_close_weights(&folder, &last(&gpu), &last(&cpu));
    }
    let evaluations = ["all-gpu", "all-cpu"].map(|run| folder.json(&format!("{run}/evaluations.jsonl")));
    assert_close_json(&evaluations[0].clone().into(), &evaluations[1].clone().into(), 1e-5, "");
}

#[test]
#[ignore = "needs Vulkan"]
fn run_on_a_gpu_repeats_and_resumes_to_the_bit() {
    let folder = Folder::with_data();
    let flags = "--eval-data held --gradient-accumulation-steps 2";
    pretrain(&folder, "wgpu", "one", flags);
    pretrain(&folder, "wgpu", "two", flags);
    folder.copy("two", "three");
    // As if the run had been killed after its first checkpoint.
    for file in folder.names("three/checkpoints/step-00000006") {
        std::fs::remove_file(folder.at(&format!("three/checkpoints/step-00000006/{file}"))).expect("removed");
    }
    std::fs::remove_dir(folder.at("three/checkpoints/step-00000006")).expect("removed");
    pretrain(&folder, "wgpu", "three", &format!("{flags} --resume"));
    for other in ["two", "three"] {
        for file in [
            "checkpoints/step-00000006/model.safetensors",
            "checkpoints/step-00000006/optimizer.safetensors",
            "metrics.jsonl",
            "evaluations.jsonl",
        ] {
            let [one, other] = ["one", other].map(|run| folder.read(&format!("{run}/{file}")));
            assert!(one == other, "{file} differs");
        }
    }
    let refused =
        format!("pretrain {QUICK} --precision f32 --steps 6 --save-every 3 {flags} --output one --resume");
    folder.refused(&refused, 4, "backend was \"wgpu\", now \"flex\"");
}

/// Fine-tunes on the CPU and on a GPU, and twice on the GPU. Returns the outputs on the CPU and on the GPU.
fn fine_tune(folder: &Folder, name: &str, line: &str, weights: &str) {
    println!("{name}");
    let [cpu, gpu, again] = ["cpu", "gpu", "again"].map(|run| format!("{name}-{run}"));
    for (device, output) in [("flex", &cpu), ("wgpu", &gpu), ("wgpu", &again)] {
        folder.ok(&format!("{line} --precision f32 --device {device} --output {output}"));
    }
    assert_eq!(folder.read(&format!("{gpu}/{weights}")), folder.read(&format!("{again}/{weights}")));
    assert_close_weights(folder, &format!("{gpu}/{weights}"), &format!("{cpu}/{weights}"));
    let dev = |run: &str| folder.json(&format!("{run}/report.json"))[0]["dev"].clone();
    assert_close_json(&dev(&gpu), &dev(&cpu), 1e-6, "");
}

/// Flags of a short fine-tuning.
const TUNING: &str = "finetune --checkpoint run --max-seq-length 48 --num-train-epochs 1 --train-batch-size 8 \
                      --learning-rate 1e-3";

#[test]
#[ignore = "needs Vulkan"]
fn fine_tuning_on_a_gpu_equals_the_cpu() {
    let folder = Folder::with_run();
    folder.write("glue/RTE/train.tsv", entailment(0, 24));
    folder.write("glue/RTE/dev.tsv", entailment(24, 12));
    let line = format!("{TUNING} --task rte --data glue");
    fine_tune(&folder, "classifier", &line, "model/model.safetensors");
    fine_tune(
        &folder,
        "micro",
        &format!("{line} --gradient-accumulation-steps 2"),
        "model/model.safetensors",
    );
    for (adapter, file) in [("pfeiffer", "adapter.safetensors"), ("lora", "adapter_model.safetensors")] {
        fine_tune(&folder, adapter, &format!("{line} --adapter {adapter}"), &format!("model/{file}"));
    }
    let (questions, _) = with_questions(false);
    let line = format!("{TUNING} --task squad --data squad --max-query-length 12 --doc-stride 16");
    fine_tune(&questions, "squad", &line, "model/model.safetensors");
    let tags = with_tags();
    fine_tune(&tags, "tags", &format!("{TUNING} --task conll --data ner"), "model/model.safetensors");
}

#[test]
#[ignore = "needs Vulkan"]
fn inference_on_a_gpu_equals_the_cpu() {
    let folder = Folder::with_run();
    folder.write("glue/RTE/train.tsv", entailment(0, 24));
    folder.write("glue/RTE/dev.tsv", entailment(24, 12));
    folder.ok(&format!("{TUNING} --precision f32 --task rte --data glue --output tuned"));
    folder.write("texts.txt", "The river is old.\nA small stone\n");
    folder.write("pairs.tsv", "The river is old.\tA river\nA small stone\tThe stone is small.\n");
    for (line, bound) in [
        ("bert evaluate --checkpoint run --data held --precision f32 --top-k 3 --json", 1e-5),
        ("bert fill-mask --checkpoint run --json 'The [MASK] is old.'", 1e-4),
        ("bert features --checkpoint run --input texts.txt --layers all", 1e-4),
        ("bert predict --checkpoint tuned --input pairs.tsv --format tsv", 1e-4),
        ("bert probe --checkpoint run --json 'The [MASK] is old.' --replace old=small", 1e-3),
    ] {
        let [cpu, gpu] = ["flex", "wgpu"].map(|device| {
            let stdout = folder.ok(&format!("{line} --device {device}")).stdout;
            let values = serde_json::Deserializer::from_str(&stdout).into_iter::<Value>();
            Value::Array(values.map(|value| value.expect("JSON")).collect())
        });
        assert_close_json(&gpu, &cpu, bound, line);
    }
}

#[test]
#[ignore = "needs Vulkan"]
fn devices_are_listed_and_checked() {
    let folder = Folder::new();
    let listed = folder.ok("bert devices --check --batch-size 4 --max-seq-length 32 --json").json();
    let devices = listed["devices"].as_array().expect("a list");
    let names: Vec<&str> = devices.iter().map(|device| device["device"].as_str().expect("a name")).collect();
    assert!(names.starts_with(&["flex", "wgpu:0"]), "{names:?}");
    for device in devices {
        assert!(
            number(device, "/rates/f32_flops") > 1e6 && number(device, "/rates/memory_bytes") > 1e6,
            "{device}"
        );
        assert!(number(device, "/rates/launch_seconds") > 0.0, "{device}");
    }
    let check = devices[1]["check"].as_str().expect("a result");
    assert!(check.starts_with("agrees with the CPU") && check.contains("the same bits twice"), "{check}");
    let text = folder.ok("bert devices --device wgpu").stdout;
    assert!(text.starts_with("wgpu:0: ") && text.contains("GFLOP/s in f32"), "{text}");
    folder.refused("bert devices --device wgpu:99", 1, "no device with this number");
}

#[test]
#[ignore = "needs Vulkan"]
fn automatic_device_is_named_with_the_reason() {
    let folder = Folder::with_data();
    let line = format!("pretrain {QUICK} --steps 1 --output run --device auto");
    let stderr = folder.ok(&line).stderr;
    assert!(
        stderr.contains("device ") && stderr.contains("GFLOP/s") && stderr.contains("wgpu:0"),
        "{stderr}"
    );
    let backend = folder.checksummed("run/run.json")["identity"]["backend"].clone();
    assert!(backend == "flex" || backend == "wgpu", "{backend}");
    folder.ok("bert fill-mask --checkpoint run --device auto 'The [MASK] is old.'").stderr_has("GFLOP/s");
}
