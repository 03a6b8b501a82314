//! config.json, presets, and the parameter and FLOP counts.

use bert_model::{BertConfig, Gelu, Preset, named_parameters};
use serde_json::{Map, Value, json};

use crate::common::{golden_folder, small_config, small_model};

fn minimal() -> Map<String, Value> {
    let sizes = json!({
        "vocab_size": 100, "hidden_size": 8, "num_hidden_layers": 1,
        "num_attention_heads": 2, "intermediate_size": 16
    });
    sizes.as_object().unwrap().clone()
}

#[test]
fn counts() {
    // The released sizes: millions of parameters, and GFLOP per sequence of a training step.
    let published = [
        (Preset::Tiny, 4.39, 0.7285, 3.418),
        (Preset::Mini, 11.17, 3.185, 14.94),
        (Preset::Small, 28.76, 10.46, 46.19),
        (Preset::Medium, 41.37, 20.53, 91.28),
        (Preset::Base, 109.48, 66.52, 287.0),
        (Preset::Large, 335.14, 234.6, 995.1),
    ];
    for (preset, millions, at_128, at_512) in published {
        let config = BertConfig::preset(preset, 30522);
        config.validate().unwrap();
        assert!((config.parameter_count() as f64 / 1e6 - millions).abs() < 0.005, "{preset:?}");
        let gflop = |seq, predictions| config.flops_per_sequence(seq, predictions) / 1e9;
        assert!((gflop(128, 20) / at_128 - 1.0).abs() < 0.001, "{preset:?}");
        assert!((gflop(512, 76) / at_512 - 1.0).abs() < 0.001, "{preset:?}");
        assert_eq!(preset.name().parse::<Preset>().unwrap(), preset);
    }
    let config = small_config();
    let parameters = named_parameters(&small_model(&config));
    let counted: usize = parameters.iter().map(|(.., s)| s.iter().product::<usize>()).sum();
    assert_eq!(counted, config.pretraining_parameter_count());
}

#[test]
fn config_round_trips() {
    let mut config = small_config().with_labels(&["entailment", "not_entailment", "unknown"]);
    config.hidden_act = Gelu::Tanh;
    config.classifier_dropout = Some(0.25);
    config.extra.insert("my_key".into(), json!({"kept": [1, 2]}));
    for config in [config, small_config(), small_config().with_regression()] {
        let text = config.to_json_string("BertForPreTraining");
        assert_eq!(BertConfig::from_json(serde_json::from_str(&text).unwrap()).unwrap(), config);
        let json: Value = serde_json::from_str(&text).unwrap();
        assert_eq!(json["architectures"], json!(["BertForPreTraining"]));
        assert_eq!(json["model_type"], "bert");
    }
}

#[test]
fn transformers_config_keys_are_preserved() {
    let config = BertConfig::read(golden_folder("gelu_new").join("config.json")).unwrap();
    assert_eq!((config.hidden_act, config.num_labels), (Gelu::Tanh, 3));
    assert_eq!(config.layer_norm_eps, 1e-12);
    let json: Value = serde_json::from_str(&config.to_json_string("BertModel")).unwrap();
    assert_eq!(json["use_cache"], true);
    assert_eq!(json.get("dtype"), None, "weights are written in f32, whatever was read");
    assert_eq!(json["id2label"]["2"], "LABEL_2");
}

#[test]
fn defaults_are_berts() {
    let config = BertConfig::from_json(minimal()).unwrap();
    assert_eq!((config.hidden_dropout_prob, config.layer_norm_eps), (0.1, 1e-12));
    assert_eq!((config.max_position_embeddings, config.type_vocab_size), (512, 2));
    assert_eq!((config.hidden_act, config.num_labels), (Gelu::Erf, 2));
    let mut json = minimal();
    json.insert("hidden_act".into(), json!("gelu_pytorch_tanh"));
    assert_eq!(BertConfig::from_json(json).unwrap().hidden_act, Gelu::Tanh);
}

#[test]
fn unsupported_config_values_name_the_key() {
    let wrong = [
        ("hidden_act", json!("relu")),
        ("hidden_act", json!(3)),
        ("model_type", json!("roberta")),
        ("position_embedding_type", json!("relative_key")),
        ("is_decoder", json!(true)),
        ("pruned_heads", json!({"0": [1]})),
        ("add_cross_attention", json!(true)),
        ("vocab_size", json!(null)),
        ("vocab_size", json!(-3)),
        ("hidden_size", json!(9)),
        ("hidden_size", json!("wide")),
        ("num_hidden_layers", json!(0)),
        ("hidden_dropout_prob", json!(1.0)),
        ("attention_probs_dropout_prob", json!(-0.1)),
        ("classifier_dropout", json!(2)),
        ("layer_norm_eps", json!(0)),
        ("initializer_range", json!(0)),
        ("pad_token_id", json!(100)),
        ("id2label", json!({"0": "a", "2": "b"})),
        ("id2label", json!(["a"])),
        ("id2label", json!({"0": "a", "1": "a"})),
        ("num_labels", json!("two")),
    ];
    for (key, value) in wrong {
        let mut json = minimal();
        json.insert(key.into(), value.clone());
        let error = BertConfig::from_json(json).unwrap_err();
        assert_eq!(error.exit_code(), 4);
        let begins = format!("model configuration: `{key}` ");
        assert!(error.to_string().starts_with(&begins), "{key} {value}: {error}");
    }
}

#[test]
fn labels_replace_the_outputs_of_another_head() {
    let regression = BertConfig::from_json(minimal()).unwrap().with_regression();
    assert_eq!(regression.extra["function_to_apply"], "none");
    let classes = regression.clone().with_labels(&["no", "yes"]);
    assert!(classes.extra.get("function_to_apply").is_none() && classes.num_labels == 2);
    let plain = regression.without_outputs();
    assert_eq!(plain, BertConfig::from_json(minimal()).unwrap());
}

#[test]
fn labels_and_their_numbers_agree() {
    let read = |keys: &[(&str, Value)]| {
        let mut json = minimal();
        json.extend(keys.iter().map(|(key, value)| ((*key).to_string(), value.clone())));
        BertConfig::from_json(json)
    };
    let names = ("id2label", json!({"0": "no", "1": "yes"}));
    for label2id in [json!({"no": 0, "yes": 1}), json!({"LABEL_0": 0, "LABEL_1": 1})] {
        assert!(read(&[names.clone(), ("label2id", label2id)]).is_ok());
    }
    for (keys, expected) in [
        (vec![names.clone(), ("num_labels", json!(3))], "names 2 labels, but `num_labels` is 3"),
        (
            vec![names, ("label2id", json!({"no": 1, "yes": 0}))],
            "numbers \"no\" 1, but `id2label` numbers it 0",
        ),
        (vec![("label2id", json!({"no": 0, "yes": 1}))], "`id2label` is missing"),
    ] {
        let error = read(&keys).unwrap_err().to_string();
        assert!(error.contains(expected), "{error}");
    }
}

#[test]
fn files_that_are_not_configurations() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("config.json");
    let error = BertConfig::read(&path).unwrap_err();
    assert_eq!((error.exit_code(), error.io_kind().is_some()), (1, true));
    for text in ["{\"vocab_size\": 1", "[1, 2]", ""] {
        std::fs::write(&path, text).unwrap();
        let error = BertConfig::read(&path).unwrap_err();
        assert_eq!((error.exit_code(), error.to_string().contains(": not valid JSON:")), (3, true));
        assert!(error.to_string().contains("config.json"), "{error}");
    }
    let error = "huge".parse::<Preset>().unwrap_err();
    assert_eq!(error.exit_code(), 2);
    assert!(error.to_string().contains("tiny, mini"), "{error}");
}
