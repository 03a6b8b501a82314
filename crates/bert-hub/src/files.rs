//! Selects the files of a model that this workspace reads.

/// Names of the files with configuration, tokenizer, description and licence, one per line, in the order of their
/// download.
const SMALL: &str = include_str!("small_files.txt");

/// The formats of a model's weights. The first one that a model has is read.
const WEIGHTS: [&[&str]; 5] = [
    &["model.safetensors"],
    &["model.safetensors.index.json", "model-*.safetensors"],
    &["pytorch_model.bin"],
    &["pytorch_model.bin.index.json", "pytorch_model-*.bin"],
    &["*.ckpt*.index", "*.ckpt*.data-*"],
];

/// The weights of adapters and of their heads, each in two formats.
const ADAPTER_WEIGHTS: [[&str; 2]; 4] = [
    ["adapter_model.safetensors", "adapter_model.bin"],
    ["adapter.safetensors", "pytorch_adapter.bin"],
    ["model_head.safetensors", "pytorch_model_head.bin"],
    ["model_adapter_fusion.safetensors", "pytorch_model_adapter_fusion.bin"],
];

/// Selects the files of a model to download from the names of all its files, the weights last. Names are relative paths;
/// one with a part such as `..` is never selected.
///
/// # Errors
/// Fails when the configuration is missing, or when no file has weights that can be read; the error is a text that
/// states the reason.
pub fn needed_files<'a>(files: &[&'a str]) -> Result<Vec<&'a str>, String> {
    let has = |name: &str| files.contains(&name);
    let is_adapter = has("adapter_config.json") || has("adapter_fusion_config.json");
    if !is_adapter && !has("config.json") && !has("bert_config.json") {
        return Err("it has no config.json in its first folder, so it is not a model of transformers".into());
    }
    let with_form = |form: &[&str]| -> Vec<&'a str> {
        let is_one = |name: &&&str| is_portable(name) && form.iter().any(|pattern| matches(pattern, name));
        files.iter().filter(is_one).copied().collect()
    };
    let mut needed: Vec<&str> = SMALL.lines().flat_map(|name| with_form(&[name])).collect();
    if has("modules.json") {
        // The settings of a module are in a folder such as 1_Pooling.
        let is_module =
            |name: &str| matches("*_*/config.json", name) && name.starts_with(|c: char| c.is_ascii_digit());
        needed.extend(files.iter().filter(|name| is_portable(name) && is_module(name)));
    }
    if is_adapter {
        for forms in ADAPTER_WEIGHTS {
            needed.extend(
                forms
                    .iter()
                    .map(|form| with_form(&[form]))
                    .find(|found| !found.is_empty())
                    .unwrap_or_default(),
            );
        }
    }
    let weights = WEIGHTS.iter().map(|form| with_form(form)).find(|found| !found.is_empty());
    if weights.is_none() && !is_adapter {
        let others: Vec<&str> = ["tf_model.h5", "flax_model.msgpack", "model.onnx"]
            .into_iter()
            .filter(|name| has(name))
            .collect();
        let has_others =
            if others.is_empty() { String::new() } else { format!("; it has {}", others.join(", ")) };
        return Err(format!(
            "it has no weights in safetensors, PyTorch or a TensorFlow checkpoint{has_others}"
        ));
    }
    needed.extend(weights.unwrap_or_default());
    Ok(needed)
}

/// Returns whether a name consists of characters that are allowed in a path on every system. No pattern matches a
/// leading slash or a part `..`.
fn is_portable(name: &str) -> bool {
    name.chars().all(|c| c.is_ascii_graphic() && !"\\:<>|?*\"".contains(c))
}

/// Returns whether a name has the form of a pattern. A `*` matches any characters except slashes.
fn matches(pattern: &str, name: &str) -> bool {
    let Some((start, rest)) = pattern.split_once('*') else { return pattern == name };
    let Some(end) = name.strip_prefix(start) else { return false };
    let reach = end.find('/').unwrap_or(end.len());
    (0..=reach).any(|at| end.is_char_boundary(at) && matches(rest, &end[at..]))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_form_of_the_weights_is_selected() {
        let base = [
            ".gitattributes",
            "README.md",
            "config.json",
            "coreml/fill-mask/model.mlmodel",
            "flax_model.msgpack",
            "model.onnx",
            "model.safetensors",
            "modeling_own.py",
            "pytorch_model.bin",
            "rust_model.ot",
            "tf_model.h5",
            "tokenizer.json",
            "vocab.txt",
        ];
        let needed = ["config.json", "vocab.txt", "tokenizer.json", "README.md", "model.safetensors"];
        assert_eq!(needed_files(&base).unwrap(), needed);
    }

    #[test]
    fn shards_and_tensorflow_checkpoints_are_selected() {
        let shards = [
            "config.json",
            "pytorch_model-00001-of-00002.bin",
            "pytorch_model-00002-of-00002.bin",
            "pytorch_model.bin.index.json",
        ];
        assert_eq!(needed_files(&shards).unwrap().len(), 4);
        let google = [
            "bert_config.json",
            "bert_model.ckpt.data-00000-of-00001",
            "bert_model.ckpt.index",
            "bert_model.ckpt.meta",
            "vocab.txt",
        ];
        let needed = needed_files(&google).unwrap();
        assert!(needed.len() == 4 && !needed.contains(&"bert_model.ckpt.meta"), "{needed:?}");
    }

    #[test]
    fn settings_of_modules_are_selected() {
        let sentences = [
            "1_Pooling/config.json",
            "2_Dense/model.safetensors",
            "config.json",
            "model.safetensors",
            "modules.json",
            "onnx/config.json",
            "../x_y/config.json",
            "1_x\\..\\y/config.json",
            "1_x\n/config.json",
        ];
        assert_eq!(
            needed_files(&sentences).unwrap(),
            ["config.json", "modules.json", "1_Pooling/config.json", "model.safetensors"]
        );
    }

    #[test]
    fn adapters_need_no_weights_of_a_model() {
        let peft =
            ["adapter_config.json", "adapter_model.bin", "adapter_model.safetensors", "training_args.bin"];
        assert_eq!(needed_files(&peft).unwrap(), ["adapter_config.json", "adapter_model.safetensors"]);
    }

    #[test]
    fn models_without_readable_files_are_refused() {
        assert!(needed_files(&["model.safetensors"]).unwrap_err().contains("config.json"));
        let reason = needed_files(&["config.json", "tf_model.h5"]).unwrap_err();
        assert!(reason.contains("it has tf_model.h5"), "{reason}");
    }
}
