//! Properties that must hold for any bytes of weights and task files: see `checks.rs`. A separate module, because the
//! tensor engine is slow to build for a fuzzer.

use std::path::Path;

use bert_tasks::{Labels, Task, describe_table, read_file};

use super::checks::{Check, file};

/// All targets of the model crates.
pub(crate) const MODEL_CHECKS: [Check; 3] = [("safetensors", safetensors), ("tsv", tsv), ("table", table)];

/// Checks weights: accepted weights are finite and have the size of their shape.
pub(crate) fn safetensors(bytes: &[u8]) {
    if let Ok(tensors) = bert_model::named_tensors_from_bytes(bytes, Path::new("model.safetensors")) {
        for (name, (shape, values)) in &tensors {
            assert_eq!(shape.iter().product::<usize>(), values.len(), "{name}");
            assert!(values.iter().all(|value| value.is_finite()), "{name}");
        }
    }
    let path = file("model.safetensors", bytes);
    let _ = bert_model::read_safetensors(&path);
}

/// Checks a task file, for each of the tasks.
pub(crate) fn tsv(bytes: &[u8]) {
    let path = file("train.tsv", bytes);
    for task in Task::ALL {
        for has_labels in [true, false] {
            if let Ok(examples) = read_file(task, &path, has_labels) {
                assert!(!examples.is_empty(), "{task}: no examples is an error");
            }
        }
    }
}

/// Checks a table of texts and labels, in each format, with classes and with scores: an accepted table has examples.
pub(crate) fn table(bytes: &[u8]) {
    let columns = ["text", "pair", "label"].map(String::from);
    for name in ["table.csv", "table.tsv", "table.jsonl", "table.parquet"] {
        let path = file(name, bytes);
        for columns in [&columns[..], &[columns[0].clone(), columns[2].clone()]] {
            for labels in [Labels::Classes(&columns[..2]), Labels::Scores] {
                let Ok(described) = describe_table(columns, labels, &path, &path, None) else { continue };
                for has_labels in [true, false] {
                    if let Ok(examples) = read_file(described.task, &path, has_labels) {
                        assert!(!examples.is_empty(), "{name}: no examples is an error");
                    }
                }
            }
        }
    }
}
