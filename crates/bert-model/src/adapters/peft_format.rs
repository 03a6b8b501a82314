//! Translates tensor names and configurations between this crate and PEFT's LoRA.
//!
//! PEFT writes `adapter_config.json` and `adapter_model.safetensors`, which also holds the classifier
//! (`modules_to_save`).

use serde_json::{Map, Value, json};

use crate::config::adapter::{AdapterConfig, adapter_config_error};
use crate::error::Error;

const PREFIX: &str = "base_model.model.";

/// Returns the configuration as `LoraConfig` writes it, without the keys that have their default value and do not
/// affect the result.
///
/// The commit of a base `NAME@COMMIT` has a key of its own.
pub(crate) fn config(rank: usize, alpha: f64, base: &str) -> Value {
    let commit = base.rsplit_once('@').filter(|(_, commit)| commit.len() == 40);
    let (base, revision) = commit.map_or((base, None), |(base, commit)| (base, Some(commit)));
    json!({
        "alpha_pattern": {},
        "auto_mapping": null,
        "base_model_name_or_path": base,
        "bias": "none",
        "fan_in_fan_out": false,
        "inference_mode": true,
        "init_lora_weights": true,
        "layers_pattern": null,
        "layers_to_transform": null,
        "lora_alpha": crate::config::adapter::number(alpha),
        "lora_dropout": 0.0,
        "modules_to_save": ["classifier"],
        "peft_type": "LORA",
        "r": rank,
        "rank_pattern": {},
        "revision": revision,
        "target_modules": ["query", "value"],
        "task_type": "SEQ_CLS",
        "use_dora": false,
        "use_rslora": false,
    })
}

/// Returns the adapter described by a configuration. Rejects settings that this LoRA does not support.
///
/// # Errors
/// Fails when a key is missing or has a value that is not supported; the error names the key.
pub(crate) fn read_config(config: &Map<String, Value>) -> Result<AdapterConfig, Error> {
    let get = |key: &str| config.get(key).unwrap_or(&Value::Null);
    let reject = |key: &str, expected: &str| {
        Err(adapter_config_error(key, format!("is {}; {expected} is read", get(key))))
    };
    if get("peft_type") != "LORA" {
        return reject("peft_type", "LORA");
    }
    let mut targets: Vec<&str> =
        get("target_modules").as_array().into_iter().flatten().filter_map(Value::as_str).collect();
    targets.sort_unstable();
    if targets != ["query", "value"] {
        return reject("target_modules", "[\"query\", \"value\"]");
    }
    if !matches!(get("bias").as_str(), None | Some("none")) {
        return reject("bias", "none");
    }
    let off = |value: &Value| match value {
        Value::Null | Value::Bool(false) => true,
        Value::Object(entries) => entries.is_empty(),
        _ => false,
    };
    let switches = [
        "alpha_pattern",
        "rank_pattern",
        "layers_to_transform",
        "layer_replication",
        "fan_in_fan_out",
        "lora_bias",
        "use_dora",
        "use_rslora",
        "use_qalora",
        "target_parameters",
        "trainable_token_indices",
    ];
    if let Some(key) = switches.into_iter().find(|key| !off(get(key))) {
        return reject(key, "a LoRA without it");
    }
    let Some(rank) = get("r").as_u64() else { return reject("r", "a whole number") };
    let Some(alpha) = get("lora_alpha").as_f64() else { return reject("lora_alpha", "a number") };
    Ok(AdapterConfig::Lora { rank: rank as usize, alpha })
}

/// Translates this crate's tensor name to PEFT's.
pub(crate) fn to_peft_name(name: &str) -> String {
    format!("{PREFIX}{}", name.replace(".self.lora.", ".self."))
}

/// Translates PEFT's tensor name to this crate's. Returns other names unchanged, for the error message.
pub(crate) fn from_peft_name(name: &str) -> String {
    let name = name.strip_prefix(PREFIX).unwrap_or(name);
    if name.contains(".lora_") {
        name.replace(".attention.self.", ".attention.self.lora.")
    } else {
        name.to_string()
    }
}
