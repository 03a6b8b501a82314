use std::fs;

use bert_model::{BertConfig, Preset};
use serde_json::json;

use super::*;

fn folder(files: &[(&str, serde_json::Value)]) -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    for (name, content) in files {
        let path = folder.path().join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, content.to_string()).unwrap();
    }
    folder
}

fn read(files: &[(&str, serde_json::Value)]) -> ModelDescription {
    ModelDescription::read(folder(files).path()).unwrap()
}

fn model() -> BertConfig {
    BertConfig::preset(Preset::Tiny, 50)
}

#[test]
fn a_description_survives_its_file() {
    let description = ModelDescription {
        max_seq_length: Some(128),
        trained_positions: Some(128),
        task: Some(Task::Rte),
        pooling: Some(Pooling::Cls),
        normalize: true,
        activation: Some(Activation::Sigmoid),
        ..ModelDescription::default()
    };
    let written: serde_json::Value = serde_json::from_str(&description.to_json()).unwrap();
    assert_eq!(read(&[("model_description.json", written)]), description);
    assert_eq!(ModelDescription::default().to_json(), "{}\n");
}

#[test]
fn the_length_comes_from_the_most_specific_file() {
    let sentences = ("sentence_bert_config.json", json!({"max_seq_length": 64}));
    let config = ("tokenizer_config.json", json!({"model_max_length": 256}));
    let truncation = ("tokenizer.json", json!({"truncation": {"max_length": 32}}));
    let own = ("model_description.json", json!({"max_seq_length": 16, "trained_positions": 16}));
    let length = |files: &[_]| read(files).max_seq_length;
    assert_eq!(length(&[sentences, config.clone(), truncation.clone()]), Some(64));
    assert_eq!(length(&[config.clone(), truncation.clone()]), Some(256));
    assert_eq!(length(&[truncation]), Some(32));
    assert_eq!(length(std::slice::from_ref(&own)), Some(16));
    // A file that somebody corrected is followed.
    assert_eq!(length(&[own, config]), Some(256));
    let unknown = [("tokenizer_config.json", json!({"model_max_length": 1e30}))];
    assert_eq!(length(&unknown), None);
}

#[test]
fn modules_of_sentence_transformers_are_read() {
    let module = |class: &str, path: &str| json!({"path": path, "type": format!("sentence_transformers.models.{class}")});
    let transformer = module("Transformer", "");
    let pooling = module("Pooling", "1_Pooling");
    let modules = json!([transformer, pooling, module("Normalize", "2_Normalize")]);
    let cls = json!({"pooling_mode_cls_token": true, "pooling_mode_mean_tokens": false});
    let bge = read(&[("modules.json", modules.clone()), ("1_Pooling/config.json", cls)]);
    assert_eq!((bge.pooling, bge.normalize), (Some(Pooling::Cls), true));
    let current = json!({"pooling_mode": "mean"});
    let mean = read(&[("modules.json", json!([transformer, pooling])), ("1_Pooling/config.json", current)]);
    assert_eq!((mean.pooling, mean.normalize), (Some(Pooling::Mean), false));
    let two = json!({"pooling_mode_cls_token": true, "pooling_mode_max_tokens": true});
    let other = read(&[("modules.json", modules), ("1_Pooling/config.json", two)]);
    assert_eq!(other.other_modules, ["pooling cls_token and max_tokens"]);
    let dense = read(&[("modules.json", json!([transformer, module("Dense", "2_Dense")]))]);
    assert_eq!(dense.other_modules, ["sentence_transformers.models.Dense"]);
}

#[test]
fn activations_of_cross_encoders_are_read() {
    let activation = |config: serde_json::Value| {
        ModelDescription::read(folder(&[("config.json", config)]).path()).map(|read| read.activation)
    };
    let older = json!({"sbert_ce_default_activation_function": "torch.nn.modules.linear.Identity"});
    assert_eq!(activation(older).unwrap(), Some(Activation::None));
    let current = json!({"sentence_transformers": {"activation_fn": "torch.nn.modules.activation.Sigmoid"}});
    assert_eq!(activation(current).unwrap(), Some(Activation::Sigmoid));
    let other = activation(json!({"function_to_apply": "relu"})).unwrap_err();
    assert!(other.to_string().contains("`function_to_apply` is relu; none, sigmoid and softmax"), "{other}");
    let mut logits = [0.0, 3f32.ln()];
    Activation::Softmax.apply(&mut logits);
    assert_eq!(logits.map(|x| (1000.0 * x).round()), [250.0, 750.0]);
}

#[test]
fn lengths_follow_the_trained_positions() {
    let trained = ModelDescription {
        max_seq_length: Some(64),
        trained_positions: Some(128),
        ..ModelDescription::default()
    };
    let length = |description: &ModelDescription, asked, default| {
        description.encoding_length(asked, default, &model()).unwrap()
    };
    use DefaultLength::{Task, Trained};
    assert_eq!(length(&trained, None, Trained(usize::MAX)), EncodingLength { tokens: 64, remark: None });
    let task = length(&trained, None, Task(384));
    assert_eq!(task.tokens, 128);
    assert!(task.remark.unwrap().contains("not the usual 384"));
    assert_eq!(length(&trained, None, Task(100)), EncodingLength { tokens: 100, remark: None });
    let asked = length(&trained, Some(200), Task(384));
    assert_eq!(asked.tokens, 200);
    assert!(asked.remark.unwrap().contains("positions 128 to 199 were never trained"));
    let unknown = ModelDescription::default();
    assert_eq!(length(&unknown, None, Trained(usize::MAX)).tokens, 512);
    assert_eq!(length(&unknown, Some(512), Task(384)), EncodingLength { tokens: 512, remark: None });
    let error = unknown.encoding_length(Some(513), Task(384), &model()).unwrap_err().to_string();
    assert!(error.contains("--max-seq-length is 513, but the model has 512 positions"), "{error}");
}
