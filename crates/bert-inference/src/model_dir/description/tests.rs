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
    ModelDescription::read(folder(files).path(), &model(), None).unwrap()
}

/// Returns the error for a folder with these files, without the path.
fn rejection(files: &[(&str, serde_json::Value)]) -> String {
    let folder = folder(files);
    let error = ModelDescription::read(folder.path(), &model(), None).unwrap_err();
    assert_eq!(error.exit_code(), 4, "{error}");
    error.to_string().replace(&*folder.path().to_string_lossy(), "")
}

fn model() -> BertConfig {
    BertConfig::preset(Preset::Tiny, 50).with_labels(&["no", "yes"])
}

#[test]
fn a_description_survives_its_file() {
    let description = ModelDescription {
        max_seq_length: Some(128),
        trained_positions: Some(128),
        task: Some(Task::Sst2),
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
    let unknown = [("tokenizer_config.json", json!({"model_max_length": 1e30}))];
    assert_eq!(length(&unknown), None);
    assert_eq!(length(&[("tokenizer_config.json", json!({"max_len": 64}))]), Some(64));
}

#[test]
fn a_length_never_exceeds_the_training_s() {
    let own = ("model_description.json", json!({"max_seq_length": 48, "trained_positions": 64}));
    let stated = |length: usize| ("tokenizer_config.json", json!({"model_max_length": length}));
    let length = |files: &[_]| {
        let length = read(files).encoding_length(None, DefaultLength::Trained(usize::MAX), &model()).unwrap();
        (length.tokens, length.remark.unwrap_or_default())
    };
    assert_eq!(length(&[own.clone(), stated(48)]), (48, String::new()));
    for (stated_length, expected) in [(8, 8), (9999, 48)] {
        let (tokens, remark) = length(&[own.clone(), stated(stated_length)]);
        assert_eq!(tokens, expected);
        let said = format!("`model_max_length` {stated_length}, but model_description.json says 48");
        assert!(remark.contains(&said) && remark.contains(&format!("cut to {expected} tokens")), "{remark}");
    }
    let (tokens, remark) = length(&[stated(9999)]);
    assert!(tokens == 512 && remark.contains("but the model has 512 positions"), "{remark}");
    let (_, remark) = length(&[("model_description.json", json!({"trained_positions": 0}))]);
    assert!(remark.contains("never trained"), "{remark}");
}

#[test]
fn wrong_values_are_named() {
    let own = "model_description.json";
    let tokenizer = "tokenizer_config.json";
    let table = |labels: [&str; 2]| json!({"task": {"columns": ["text", "label"], "labels": labels}});
    for (file, content, expected) in [
        (own, json!({"max_seq_length": 0}), "`max_seq_length` is 0, but must be from 5 to the 512 positions"),
        (own, json!({"max_seq_length": 100_000}), "`max_seq_length` is 100000"),
        (own, json!({"trained_positions": 513}), "`trained_positions` is 513, but must be from 5"),
        (own, json!({"max_seq_length": -1}), "`max_seq_length` is -1"),
        (own, json!([128]), "not a JSON object"),
        (own, json!({"max_length": 8}), "unknown field `max_length`"),
        (own, json!({"squad": {"doc_stride": 0}}), "`squad.doc_stride` must be at least 1"),
        (own, json!({"task": "mnli"}), "`task` has 3 outputs, but config.json has 2 labels"),
        (own, table(["yes", "no"]), "`task` numbers \"yes\" 0, but `id2label` of config.json numbers it 1"),
        (
            tokenizer,
            json!({"model_max_length": 2}),
            "`model_max_length` is 2, but must be a number of tokens",
        ),
        (tokenizer, json!({"model_max_length": "48"}), "`model_max_length` is \"48\""),
        ("tokenizer.json", json!({"truncation": {"max_length": -1}}), "`truncation.max_length` is -1"),
        ("sentence_bert_config.json", json!({"max_seq_length": 4}), "`max_seq_length` is 4"),
        ("sentence_bert_config.json", json!({"tokenizer_args": {"a": 1}}), "`tokenizer_args`"),
        ("modules.json", json!({"0": "Transformer"}), "not a list"),
        ("config.json", json!({"function_to_apply": 1}), "`function_to_apply` is 1"),
    ] {
        let message = rejection(&[(file, content)]);
        assert!(message.contains(file) && message.contains(expected), "{message}");
    }
    let tags = (own, json!({"task": "conll"}));
    let message = rejection(&[tags, ("config.json", json!({"architectures": ["BertForMaskedLM"]}))]);
    assert!(
        message.contains("is conll, but `architectures` of config.json is [\"BertForMaskedLM\"]"),
        "{message}"
    );
    let both =
        json!({"function_to_apply": "none", "sentence_transformers": {"activation_fn": "torch.nn.Sigmoid"}});
    let message = rejection(&[("config.json", both)]);
    assert!(
        message.contains("`sentence_transformers.activation_fn`") && message.contains("says none"),
        "{message}"
    );
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
    assert_eq!(dense.other_modules, ["module 1 sentence_transformers.models.Dense"]);
    let early = json!([transformer, module("Normalize", "1_Normalize"), module("Pooling", "2_Pooling")]);
    let mean = json!({"pooling_mode": "mean"});
    let early = read(&[("modules.json", early), ("2_Pooling/config.json", mean.clone())]);
    assert_eq!(early.other_modules.len(), 2, "Normalize follows Pooling");
    let prompts = json!({"default_prompt_name": "query"});
    let prompted = [("modules.json", json!([transformer])), ("config_sentence_transformers.json", prompts)];
    let prompted = read(&prompted).pooling_of_texts().unwrap_err().to_string();
    assert!(prompted.contains("adds the prompt \"query\" to every text"), "{prompted}");
    let own = ("model_description.json", json!({"pooling": "cls"}));
    let modules = ("modules.json", json!([transformer, pooling]));
    let message = rejection(&[own, modules, ("1_Pooling/config.json", json!({"pooling_mode": "mean"}))]);
    assert!(message.contains("`pooling` or `normalize` differs from modules.json"), "{message}");
    let wide = json!({"pooling_mode": "mean", "word_embedding_dimension": 384});
    let message =
        rejection(&[("modules.json", json!([transformer, pooling])), ("1_Pooling/config.json", wide)]);
    assert!(message.contains("`word_embedding_dimension` is 384; only 128, the hidden size"), "{message}");
}

#[test]
fn activations_of_cross_encoders_are_read() {
    let activation = |config: serde_json::Value| {
        ModelDescription::read(folder(&[("config.json", config)]).path(), &model(), None)
            .map(|read| read.activation)
    };
    let older = json!({"sbert_ce_default_activation_function": "torch.nn.modules.linear.Identity"});
    assert_eq!(activation(older).unwrap(), Some(Activation::None));
    let current = json!({"sentence_transformers": {"activation_fn": "torch.nn.modules.activation.Sigmoid"}});
    assert_eq!(activation(current).unwrap(), Some(Activation::Sigmoid));
    let other = activation(json!({"function_to_apply": "relu"})).unwrap_err();
    assert!(
        other.to_string().contains("`function_to_apply` is \"relu\"; only none, sigmoid and softmax"),
        "{other}"
    );
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
    let stated = ModelDescription { max_seq_length: Some(128), ..ModelDescription::default() };
    let task = length(&stated, None, Task(384));
    assert_eq!(task.tokens, 128);
    assert!(task.remark.unwrap().contains("states, and not the usual 384"));
    let error = unknown.encoding_length(Some(513), Task(384), &model()).unwrap_err().to_string();
    assert!(error.contains("`.max_seq_length` is 513, but the model has 512 positions"), "{error}");
}
