//! Recognizes adapters, and weights in formats of other frameworks, which this crate does not read.

use std::path::{Path, PathBuf};

use crate::error::Error;

/// A framework, whose files are recognized by the end of their names.
struct Framework {
    name: &'static str,
    ends: &'static [&'static str],
    how: &'static str,
}

const FRAMEWORKS: [Framework; 4] = [
    Framework {
        name: "Keras",
        ends: &["tf_model.h5", "saved_model.pb"],
        how: "Convert them once in Python with transformers 4 and tensorflow: \
              `from transformers import BertForPreTraining as M; \
              M.from_pretrained(\"DIR\", from_tf=True).save_pretrained(\"NEW_DIR\")` \
              writes model.safetensors",
    },
    Framework {
        name: "Flax",
        ends: &["flax_model.msgpack"],
        how: "Convert them once in Python with transformers 4 and flax: \
              `from transformers import BertForPreTraining as M; \
              M.from_pretrained(\"DIR\", from_flax=True).save_pretrained(\"NEW_DIR\")` \
              writes model.safetensors",
    },
    Framework {
        name: "ONNX or OpenVINO",
        ends: &[".onnx", "openvino_model.bin", "openvino_model.xml"],
        how: "An exported graph cannot be converted back: use the model.safetensors of the model that it was exported \
              from",
    },
    Framework {
        name: "llama.cpp, rust-bert or Core ML",
        ends: &[".gguf", "rust_model.ot", ".mlmodel"],
        how: "Take the model.safetensors of the model that they were made from",
    },
];

/// Rejects a file of another framework, recognized by its name.
///
/// # Errors
/// Fails when the file belongs to another framework.
pub(crate) fn reject_foreign(path: &Path) -> Result<(), Error> {
    let Some(name) = path.file_name().and_then(|name| name.to_str()) else { return Ok(()) };
    let ours = |framework: &&Framework| framework.ends.iter().any(|end| name.ends_with(end));
    match FRAMEWORKS.iter().find(ours) {
        Some(Framework { name, how, .. }) => {
            Err(Error::model(format!("weights of {name} are not supported. {how}")).at(path))
        }
        None => Ok(()),
    }
}

/// Rejects a folder with weights of another framework. Accepts a folder without weights.
///
/// # Errors
/// Fails when the folder has a file of another framework.
pub fn reject_other_weights(path: &Path) -> Result<(), Error> {
    let mut files: Vec<PathBuf> = [path.to_path_buf(), path.join("onnx")]
        .iter()
        .filter_map(|folder| std::fs::read_dir(folder).ok())
        .flat_map(|entries| entries.filter_map(|entry| Some(entry.ok()?.path())))
        .collect();
    // With sorted files, the error names the same file every time.
    files.sort();
    files.iter().try_for_each(|file| reject_foreign(file))
}

/// The file that every adapter's folder has.
pub(crate) const ADAPTER_CONFIG: &str = "adapter_config.json";

/// The file that every folder of fused adapters has.
pub(crate) const FUSION_CONFIG: &str = "adapter_fusion_config.json";

/// Returns true if a folder holds an adapter or fused adapters, but not a model.
pub fn is_adapter_folder(dir: &Path) -> bool {
    let adapter = dir.join(ADAPTER_CONFIG).is_file() || is_fusion_folder(dir);
    adapter && !dir.join("model.safetensors").is_file()
}

/// Returns true if a folder holds fused adapters.
pub fn is_fusion_folder(dir: &Path) -> bool {
    dir.join(FUSION_CONFIG).is_file()
}

/// Rejects a folder that holds an adapter and no model.
///
/// # Errors
/// Fails when the folder holds an adapter and no model.
pub fn reject_adapter(dir: &Path) -> Result<(), Error> {
    if is_adapter_folder(dir) {
        Err(Error::model(
            "this is an adapter without its encoder. Give the checkpoint that it was trained on, or merge a LoRA \
             into a whole model with `finetune --adapter lora --merge-lora`; `bert predict` and `bert probe` accept \
             the adapter folder",
        )
        .at(dir))
    } else {
        Ok(())
    }
}
