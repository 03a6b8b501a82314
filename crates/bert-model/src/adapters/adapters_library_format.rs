//! Translates tensor names and configurations between this crate and the `adapters` library, version 1.2.
//!
//! `save_adapter(.., with_head=True, use_safetensors=True)` of the library writes the adapter to `adapter_config.json`
//! and `adapter.safetensors`, and the head to `head_config.json` and `model_head.safetensors`.

use serde_json::{Map, Value, json};

use crate::config::adapter::{AdapterConfig, BottleneckForm, adapter_config_error};
use crate::error::Error;

/// The version of the library that defines this layout.
pub(crate) const VERSION: &str = "adapters.1.2.0";

/// Returns the library's `BnConfig.to_dict()` for an adapter of this form.
pub(crate) fn config(form: BottleneckForm, reduction_factor: f64) -> Value {
    let mut config = json!({
        "adapter_residual_before_ln": false,
        "cross_adapter": false,
        "dropout": 0.0,
        "factorized_phm_W": true,
        "factorized_phm_rule": false,
        "hypercomplex_nonlinearity": "glorot-uniform",
        "init_weights": "bert",
        "init_weights_seed": null,
        "inv_adapter": null,
        "inv_adapter_reduction_factor": null,
        "is_parallel": form == BottleneckForm::Parallel,
        "learn_phm": true,
        "leave_out": [],
        "ln_after": false,
        "ln_before": false,
        "mh_adapter": form.after_attention(),
        "non_linearity": if form == BottleneckForm::Houlsby { "swish" } else { "relu" },
        "original_ln_after": true,
        "original_ln_before": form == BottleneckForm::Pfeiffer,
        "output_adapter": true,
        "phm_bias": true,
        "phm_c_init": "normal",
        "phm_dim": 4,
        "phm_init_range": 0.0001,
        "phm_layer": false,
        "phm_rank": 1,
        "reduction_factor": crate::config::adapter::number(reduction_factor),
        "residual_before_ln": true,
        "scaling": form.scaling(),
        "shared_W_phm": false,
        "shared_phm_rule": true,
        "stochastic_depth": 0.0,
        "use_gating": false,
    });
    if form == BottleneckForm::Parallel {
        config["init_weights"] = "mam_adapter".into();
    }
    config
}

/// Keys whose values are not compared: they describe the initialization, another key switches them off, or
/// (`reduction_factor`) they are read separately.
const WITHOUT_EFFECT: [&str; 14] = [
    "cross_adapter",
    "factorized_phm_W",
    "factorized_phm_rule",
    "hypercomplex_nonlinearity",
    "init_weights",
    "init_weights_seed",
    "inv_adapter_reduction_factor",
    "learn_phm",
    "phm_bias",
    "phm_c_init",
    "phm_dim",
    "phm_init_range",
    "phm_rank",
    "reduction_factor",
];

/// Returns the adapter described by a configuration. Rejects settings that the adapter's form does not support.
///
/// # Errors
/// Fails when a key is missing or has a value that is not supported; the error names the key.
pub(crate) fn read_config(config: &Map<String, Value>) -> Result<AdapterConfig, Error> {
    if let Some(architecture) = config.get("architecture").filter(|value| !value.is_null()) {
        let reason =
            format!("is {architecture}; of this library the forms seq_bn, double_seq_bn and par_bn are read");
        return Err(adapter_config_error("architecture", reason));
    }
    let is = |key: &str| config.get(key).and_then(Value::as_bool).unwrap_or(false);
    let form = match (is("is_parallel"), is("mh_adapter")) {
        (true, _) => BottleneckForm::Parallel,
        (false, true) => BottleneckForm::Houlsby,
        (false, false) => BottleneckForm::Pfeiffer,
    };
    let reduction = config.get("reduction_factor").unwrap_or(&Value::Null);
    let Some(reduction_factor) = reduction.as_f64() else {
        return Err(adapter_config_error(
            "reduction_factor",
            format!("is {reduction}; one number for all layers is read"),
        ));
    };
    let expected = self::config(form, reduction_factor);
    for (key, expected) in expected.as_object().expect("an object").iter() {
        // For an absent key, the library uses its default. This is the expected value, except for the keys in
        // which the three forms differ.
        let Some(found) = config.get(key) else { continue };
        let same = match (found.as_f64(), expected.as_f64()) {
            (Some(found), Some(expected)) => found == expected,
            _ => found == expected,
        };
        if !same && !WITHOUT_EFFECT.contains(&key.as_str()) {
            return Err(adapter_config_error(
                key,
                format!("is {found}; in a {} adapter it is {expected}", form.name()),
            ));
        }
    }
    Ok(AdapterConfig::Bottleneck { form, reduction_factor })
}

/// Translates a tensor name of this crate to the library's name in an adapter named `adapter`.
pub(crate) fn to_library_name(name: &str, adapter: &str) -> String {
    name.replace(".adapter.down.", &format!(".adapters.{adapter}.adapter_down.0."))
        .replace(".adapter.up.", &format!(".adapters.{adapter}.adapter_up."))
}

/// Translates the library's tensor name to this crate's. Returns other names unchanged, for the error message.
pub(crate) fn from_library_name(name: &str, adapter: &str) -> String {
    name.replace(&format!(".adapters.{adapter}.adapter_down.0."), ".adapter.down.")
        .replace(&format!(".adapters.{adapter}.adapter_up."), ".adapter.up.")
}

/// Translates the library's names of the classifier's tensors to this crate's. A static head already uses them; a
/// one-layer head of `BertAdapterModel` is named `heads.NAME.1`.
pub(crate) fn head_from_library_name(name: &str) -> String {
    let flexible = name.strip_prefix("heads.").and_then(|rest| rest.split_once(".1."));
    match flexible {
        Some((_, parameter)) => format!("classifier.{parameter}"),
        None => name.to_string(),
    }
}
