//! `--tensorboard` and `--log-command` of `pretrain` and `finetune`.

use std::path::Path;
use std::process::Command;

use serde_json::Value;

use crate::common::{Folder, QUICK, entailment, number};

/// Returns the records that a command has received.
fn received(folder: &Folder, name: &str) -> Vec<Value> {
    folder.text(name).lines().map(|line| serde_json::from_str(line).expect("JSON")).collect()
}

/// Returns the event files in a folder.
fn event_files(folder: &Path) -> Vec<std::path::PathBuf> {
    let entries = std::fs::read_dir(folder).expect("the folder exists");
    entries.map(|entry| entry.expect("a file").path()).collect()
}

#[test]
fn log_command_gets_settings_steps_and_evaluations() {
    let folder = Folder::with_data();
    let line = format!("pretrain {QUICK} --eval-data held --steps 3 --output run");
    let plain = Folder::with_data();
    plain.ok(&line);
    folder.ok(&format!("{line} --tensorboard --log-command 'cat > log.jsonl'"));
    let records = received(&folder, "log.jsonl");
    assert_eq!((&records[0]["name"], &records[0]["settings"]["steps"]), (&"run".into(), &3.into()));
    let steps: Vec<&Value> =
        records.iter().filter(|record| !record["values"]["train/loss"].is_null()).collect();
    let metrics = folder.json("run/metrics.jsonl");
    assert_eq!(steps.len(), 3);
    for (record, metrics) in steps.iter().zip(&metrics) {
        assert_eq!(record["step"], metrics["step"]);
        assert_eq!(number(record, "/values/train~1loss"), number(metrics, "/loss"));
    }
    let evaluated = records.iter().filter(|record| !record["values"]["held_out/masked_lm_loss"].is_null());
    assert_eq!(evaluated.count(), folder.json("run/evaluations.jsonl").len());
    assert_eq!(records.last().expect("a record")["end"], true);
    assert_eq!(event_files(&folder.at("run/tensorboard")).len(), 1);
    assert_eq!(folder.read("run/metrics.jsonl"), plain.read("run/metrics.jsonl"), "the same bits");
}

#[test]
fn failing_log_command_is_a_warning() {
    let folder = Folder::with_data();
    let ended =
        folder.ok(&format!("pretrain {QUICK} --steps 3 --output run --log-command 'echo out; exit 3'"));
    ended.stderr_has("warning: --log-command ended with exit status: 3");
    assert!(!ended.stdout.contains("out\n3 steps"), "its output goes to stderr: {}", ended.stdout);
    ended.stderr_has("out");
}

#[test]
fn finetune_logs_losses_and_scores() {
    let folder = Folder::with_run();
    folder.write("glue/RTE/train.tsv", entailment(0, 8));
    folder.write("glue/RTE/dev.tsv", entailment(8, 4));
    folder.ok(
        "finetune --data glue --task rte --max-seq-length 48 --num-train-epochs 1 --checkpoint run --output tuned --seeds 1,2 \
         --tensorboard=events --log-command 'cat > log.jsonl'",
    );
    let records = received(&folder, "log.jsonl");
    for seed in [1, 2] {
        let has = |name: &str| records.iter().any(|record| !record["values"][name].is_null());
        assert!(
            has(&format!("seed-{seed}/train/loss")) && has(&format!("seed-{seed}/dev/accuracy")),
            "{records:?}"
        );
    }
    // One folder for each seed: TensorBoard discards the later steps of a folder when one seed is resumed.
    for seed in ["seed-1", "seed-2"] {
        assert_eq!(event_files(&folder.at(&format!("events/{seed}"))).len(), 1);
    }
}

#[test]
fn cells_of_a_grid_have_their_own_series() {
    let folder = Folder::with_run();
    folder.write("glue/RTE/train.tsv", entailment(0, 24));
    folder.write("glue/RTE/dev.tsv", entailment(24, 4));
    folder.ok(
        "finetune --data glue --task rte --max-seq-length 48 --num-train-epochs 1 --checkpoint run --output tuned \
         --learning-rate 1e-4,1e-3 --holdout 0.2 --tensorboard=events --log-command 'cat > log.jsonl'",
    );
    let records = received(&folder, "log.jsonl");
    for cell in ["cell-1", "cell-2"] {
        let name = format!("{cell}/seed-1/train/loss");
        let steps = records.iter().filter(|record| !record["values"][&name].is_null());
        let steps: Vec<u64> = steps.map(|record| record["step"].as_u64().expect("a step")).collect();
        assert!(!steps.is_empty() && steps.is_sorted_by(|a, b| a < b), "one value a step: {steps:?}");
        assert_eq!(event_files(&folder.at(&format!("events/{cell}/seed-1"))).len(), 1);
    }
}

/// TensorBoard's own reader; the package `tensorboard` in the interpreter `BERT_PYTHON`.
#[test]
#[ignore = "needs BERT_PYTHON with tensorboard"]
fn tensorboard_reads_the_event_files() {
    let folder = Folder::with_data();
    folder.ok(&format!(
        "pretrain {QUICK} --eval-data held --steps 4 --save-every 2 --output run --tensorboard --tensorboard-histograms"
    ));
    let code = "
import json, sys
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator
events = EventAccumulator(sys.argv[1], size_guidance={'histograms': 0})
events.Reload()
loss = [[event.step, event.value] for event in events.Scalars('train/loss')]
text = events.Tensors('settings/text_summary') if 'settings/text_summary' in events.Tags()['tensors'] else \
events.Tensors('settings')
print(json.dumps({'loss': loss, 'text': text[0].tensor_proto.string_val[0].decode(), 'tags': events.Tags()['scalars'],
    'counts': [event.histogram_value.num for event in events.Histograms('weights/bert.pooler.dense.bias')],
    'histograms': len(events.Tags()['histograms'])}))
";
    let python = std::env::var("BERT_PYTHON").expect("BERT_PYTHON names an interpreter");
    let read =
        Command::new(python).args(["-c", code]).arg(folder.at("run/tensorboard")).output().expect("it runs");
    assert!(read.status.success(), "{}", String::from_utf8_lossy(&read.stderr));
    let read: Value = serde_json::from_slice(&read.stdout).expect("JSON");
    for (event, metrics) in
        read["loss"].as_array().expect("a list").iter().zip(folder.json("run/metrics.jsonl"))
    {
        assert_eq!(event[0], metrics["step"]);
        assert!((number(event, "/1") - number(&metrics, "/loss")).abs() < 1e-6);
    }
    assert_eq!(read["loss"].as_array().map(Vec::len), Some(4));
    assert_eq!(read["counts"], serde_json::json!([16.0, 16.0]), "two checkpoints: {read}");
    assert!(number(&read, "/histograms") > 40.0, "weights and moments: {read}");
    assert!(read["text"].as_str().expect("text").contains("\"learning_rate\""), "{read}");
    assert!(read["tags"].as_array().expect("a list").contains(&"held_out/masked_lm_loss".into()), "{read}");
}
