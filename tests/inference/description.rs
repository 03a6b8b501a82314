//! The description of a trained model: written by training, carried by exports, and followed by every program.

use serde_json::{Value, json};

use crate::common::Folder;

/// Changes a JSON file of a folder.
fn change(folder: &Folder, file: &str, with: impl FnOnce(&mut Value)) {
    let mut value = folder.json(file).remove(0);
    with(&mut value);
    folder.write(file, value.to_string());
}

/// A table of texts whose class is named by the last word, behind `padding` other words.
fn table(rows: usize, padding: usize) -> String {
    let row = |at: usize| {
        let class = ["stone", "water"][at % 2];
        format!("{} {class},{class}\n", "the river is old ".repeat(padding / 4))
    };
    "text,label\n".to_string() + &(0..rows).map(row).collect::<String>()
}

/// A folder with a run of 32 tokens and 64 positions, and a classifier of `length` tokens in `tuned`.
fn with_classifier(length: usize, padding: usize) -> Folder {
    let folder = Folder::with_run();
    folder.write("train.csv", table(24, padding));
    folder.write("dev.csv", table(8, padding));
    folder.ok(&format!(
        "finetune --task table --train-file train.csv --dev-file dev.csv --columns text,label --checkpoint run \
         --max-seq-length {length} --num-train-epochs 2 --output tuned"
    ));
    folder
}

fn predicted(folder: &Folder, model: &str, flags: &str) -> Vec<Value> {
    let line = format!("bert predict --checkpoint {model} --input dev.csv --columns text {flags}");
    folder.write("predicted.jsonl", folder.ok(&line).stdout);
    folder.json("predicted.jsonl")
}

#[test]
fn exports_keep_the_trained_length() {
    let folder = with_classifier(12, 40);
    let before = predicted(&folder, "tuned", "");
    assert_eq!(predicted(&folder, "tuned", "--max-seq-length 12"), before);
    assert_ne!(predicted(&folder, "tuned", "--max-seq-length 64"), before);
    folder.ok("bert export tuned exported");
    folder.ok("bert export exported again");
    folder.ok("bert import again imported");
    for model in ["tuned/model", "exported", "again", "imported"] {
        assert_eq!(predicted(&folder, model, ""), before, "{model}");
        assert_eq!(folder.json(&format!("{model}/tokenizer_config.json"))[0]["model_max_length"], 12);
        assert_eq!(folder.json(&format!("{model}/tokenizer.json"))[0]["truncation"]["max_length"], 12);
        let description = &folder.json(&format!("{model}/model_description.json"))[0];
        assert_eq!([&description["max_seq_length"], &description["trained_positions"]], [12, 32]);
        assert!(description["task"].is_object(), "{description}");
    }
    folder.ok("bert export tuned sentences --format sentence-transformers");
    assert_eq!(folder.json("sentences/sentence_bert_config.json")[0]["max_seq_length"], 12);
    folder.ok("bert export tuned graph --format onnx");
    assert_eq!(folder.json("graph/tokenizer_config.json")[0]["model_max_length"], 12);
    folder.ok("bert extend-vocab --checkpoint run --input train.txt --add 2 --output more");
    assert_eq!(folder.json("more/tokenizer_config.json")[0]["model_max_length"], 32);
    assert_eq!(folder.json("more/model_description.json")[0]["trained_positions"], 32);
    folder.ok("bert inspect tuned").stdout_has("texts are cut to 12 tokens");
}

#[test]
fn a_corrected_length_is_followed() {
    let folder = with_classifier(32, 40);
    folder.ok("bert export tuned exported");
    let expected = predicted(&folder, "exported", "--max-seq-length 8");
    assert_ne!(predicted(&folder, "exported", ""), expected);
    let state = |length: u64| {
        change(&folder, "exported/tokenizer_config.json", |config| {
            config["model_max_length"] = length.into()
        });
    };
    let full = predicted(&folder, "exported", "");
    for (length, expected, cut) in [(8, expected, 8), (9999, full, 32)] {
        state(length);
        assert_eq!(predicted(&folder, "exported", ""), expected);
        let remark = format!(
            "`model_max_length` {length}, but model_description.json says 32: texts are cut to {cut} tokens"
        );
        folder.ok("bert inspect exported").stdout_has(&remark);
        let line = "bert predict --checkpoint exported --input dev.csv --columns text";
        folder.ok(line).stderr_has(&remark);
    }
}

#[test]
fn untrained_positions_are_named() {
    let folder = Folder::with_run();
    let description = &folder.json("run/checkpoints/step-00000006/model_description.json")[0];
    assert_eq!([&description["max_seq_length"], &description["trained_positions"]], [32, 32]);
    folder.ok("bert inspect run").stdout_has("32 of 64 positions were trained");
    let text = "the river flows ".repeat(11) + "to the [MASK]";
    folder.refused(&format!("bert fill-mask --checkpoint run '{text}'"), 1, "no [MASK]");
    let filled = folder.ok(&format!("bert fill-mask --checkpoint run --max-seq-length 64 '{text}'"));
    filled.stderr_has("positions 32 to 63 were never trained");
    folder.ok(
        "make-pretrain-data --input held.txt --vocab vocab.txt --max-seq-length 48 --output long --dupe-factor 1",
    );
    folder.ok("bert evaluate --checkpoint run --data long").stderr_has("never trained");
    let on = "pretrain --data long --init-checkpoint run --steps 1 --batch-size 4 --output on";
    folder.ok(on);
    let description = &folder.json("on/checkpoints/step-00000001/model_description.json")[0];
    assert_eq!(description["trained_positions"], 48);
}

#[test]
fn fine_tuning_takes_the_trained_positions() {
    let folder = Folder::with_run();
    folder.write("train.csv", table(16, 8));
    folder.write("dev.csv", table(8, 8));
    let tune = "finetune --task table --train-file train.csv --dev-file dev.csv --columns text,label --checkpoint \
                run --num-train-epochs 1";
    let ended = folder.ok(&format!("{tune} --output tuned"));
    ended.stderr_has("--max-seq-length is 32, the number of positions that this model was trained with");
    assert_eq!(folder.json("tuned/report.json")[0]["resolved"]["max_seq_length"], 32);
    let warnings = folder.json("tuned/report.json")[0]["warnings"].to_string();
    assert!(warnings.contains("not the usual 128"), "{warnings}");
    folder.ok(&format!("{tune} --max-seq-length 48 --output long"));
    let trained = |model: &str| {
        folder.json(&format!("{model}/model/model_description.json"))[0]["trained_positions"].clone()
    };
    assert_eq!([trained("tuned"), trained("long")], [32, 48]);
    folder.ok(&format!("{tune} --max-seq-length 48 --freeze-encoder --output frozen"));
    assert_eq!(trained("frozen"), 32, "a frozen encoder trains no position");
}

#[test]
fn cut_texts_are_reported() {
    let folder = with_classifier(12, 40);
    let message = "24 of 24 texts of the training set (100.0 %) are cut to --max-seq-length 12: ";
    let report = folder.json("tuned/report.json")[0]["warnings"].to_string();
    assert!(report.contains(message), "{report}");
    assert!(folder.text("tuned/model/README.md").contains(message));
    let ended = folder.ok("bert predict --checkpoint tuned --input dev.csv --columns text");
    ended.stderr_has("8 of 8 texts of the input (100.0 %) are cut to --max-seq-length 12");
    folder.write("long.txt", "the river is old ".repeat(20));
    folder.ok("bert features --checkpoint run --input long.txt").stderr_has("1 of 1 texts of the input");
    let page = "bert attention --checkpoint run --output page.html";
    folder
        .ok(&format!("{page} '{}'", "the river is old ".repeat(20)))
        .stderr_has("to 32 tokens; --max-seq-length sets another length");
}

#[test]
fn special_tokens_are_read_as_the_folder_says() {
    let folder = Folder::with_run();
    folder.ok("bert export run model");
    folder.write("special.txt", "the river[SEP]the river\n");
    let tokens = || -> Vec<Value> {
        let ended = folder.ok("bert features --checkpoint model --layers -1 --input special.txt");
        ended.stderr_has("1 texts of the input contain [SEP]");
        folder.write("features.jsonl", ended.stdout);
        let features = folder.json("features.jsonl").remove(0)["features"].clone();
        features.as_array().expect("a list").iter().map(|token| token["token"].clone()).collect()
    };
    assert_eq!(tokens(), ["[CLS]", "the", "river", "[SEP]", "the", "river", "[SEP]"]);
    change(&folder, "model/tokenizer_config.json", |config| config["split_special_tokens"] = true.into());
    assert!(tokens().len() > 7, "[, sep and ] are pieces");
    folder.ok("bert export model again");
    assert_eq!(folder.json("again/tokenizer_config.json")[0]["split_special_tokens"], true);
    folder.write("train.csv", table(16, 4).replace("stone,", "[SEP] stone,"));
    folder.write("dev.csv", table(8, 4));
    folder.ok("finetune --task table --train-file train.csv --dev-file dev.csv --columns text,label --checkpoint model \
         --num-train-epochs 1 --output tuned");
    let warnings = folder.json("tuned/report.json")[0]["warnings"].to_string();
    assert!(warnings.contains("8 texts of the training set contain [SEP]"), "{warnings}");
    assert_eq!(folder.json("tuned/model/tokenizer_config.json")[0]["split_special_tokens"], true);
}

#[test]
fn sentence_models_keep_their_modules() {
    let folder = Folder::with_run();
    folder.ok("bert export run source --format sentence-transformers --pooling cls");
    change(&folder, "source/modules.json", |modules| {
        let normalize = json!({
            "idx": 2, "name": "2", "path": "2_Normalize", "type": "sentence_transformers.models.Normalize"
        });
        modules.as_array_mut().expect("a list").push(normalize);
    });
    change(&folder, "source/sentence_bert_config.json", |config| config["max_seq_length"] = 16.into());
    folder.write("source/config_sentence_transformers.json", r#"{"prompts": {"query": "q: "}}"#);
    folder.ok("bert export source same --format sentence-transformers");
    folder.ok("bert export source plain");
    for exported in ["same", "plain"] {
        let modules = folder.json(&format!("{exported}/modules.json")).remove(0);
        assert_eq!(modules[2]["type"], "sentence_transformers.models.Normalize", "{exported}");
        let pooling = folder.json(&format!("{exported}/1_Pooling/config.json")).remove(0);
        assert_eq!(pooling["pooling_mode_cls_token"], true);
        let length = folder.json(&format!("{exported}/sentence_bert_config.json")).remove(0);
        assert_eq!(length["max_seq_length"], 16);
        let settings = folder.json(&format!("{exported}/config_sentence_transformers.json")).remove(0);
        assert_eq!(settings["prompts"]["query"], "q: ");
    }
    folder.write("texts.txt", "the river is old\n");
    let vector = |flags: &str| -> Vec<f64> {
        let features = format!("bert features --checkpoint same --input texts.txt {flags}");
        folder.write("vector.jsonl", folder.ok(&features).stdout);
        let values = folder.json("vector.jsonl")[0]["layers"][0]["values"].clone();
        values.as_array().expect("numbers").iter().map(|x| x.as_f64().expect("a number")).collect()
    };
    let own = vector("--pooling model");
    let cls = vector("--pooling cls");
    let norm = |values: &[f64]| values.iter().map(|x| x * x).sum::<f64>().sqrt();
    assert!((norm(&own) - 1.0).abs() < 1e-4 && norm(&cls) > 1.5, "{} {}", norm(&own), norm(&cls));
    let scaled: Vec<f64> = cls.iter().map(|x| x / norm(&cls)).collect();
    assert!(own.iter().zip(&scaled).all(|(a, b)| (a - b).abs() < 2e-6));
    folder.refused("bert features --checkpoint run --input texts.txt --pooling model", 2, "names no pooling");
    change(&folder, "source/modules.json", |modules| {
        modules[2]["type"] = "sentence_transformers.models.Dense".into()
    });
    folder.refused("bert export source dense --format sentence-transformers", 2, "models.Dense");
}

/// Removes the second row of the segment embeddings of a model folder.
fn with_one_segment(folder: &Folder, model: &str) {
    let path = folder.at(model).join("model.safetensors");
    let mut tensors = bert_model::read_safetensors(&path).expect("weights");
    let name = "bert.embeddings.token_type_embeddings.weight";
    let (shape, values) = tensors.get_mut(name).expect("a table");
    values.truncate(shape[1]);
    shape[0] = 1;
    std::fs::write(path, bert_model::named_tensors_to_bytes(&tensors)).expect("a file written");
    change(folder, &format!("{model}/config.json"), |config| config["type_vocab_size"] = 1.into());
}

#[test]
fn one_segment_refuses_pairs() {
    let folder = Folder::with_run();
    folder.ok("bert export run model");
    with_one_segment(&folder, "model");
    folder.write("one.txt", "the river\n");
    folder.write("two.txt", "the river ||| the stone\n");
    folder.write("pairs.csv", "a,b,label\nthe river,the stone,x\nthe stone,the river,y\n");
    folder.ok("bert features --checkpoint model --input one.txt");
    folder.ok("bert inspect model").stdout_has("for single texts: the model has one segment");
    let reason = "the model has one segment (type_vocab_size 1)";
    for command in [
        "bert features --checkpoint model --input two.txt",
        "bert attention --checkpoint model 'the river ||| the stone' --output page.html",
        "bert fill-mask --checkpoint model 'the river ||| the [MASK]'",
        "bert evaluate --checkpoint model --data held",
        "finetune --task table --train-file pairs.csv --dev-file pairs.csv --columns a,b,label --checkpoint model \
         --output tuned",
        "pretrain --data data --init-checkpoint model --steps 1 --output on",
    ] {
        folder.refused(command, 4, reason);
    }
}

#[test]
fn own_heads_have_a_model_type_of_their_own() {
    let folder = Folder::with_run();
    folder.write("train.csv", table(16, 4));
    folder.write("dev.csv", table(8, 4));
    folder.ok("finetune --task table --train-file train.csv --dev-file dev.csv --columns text,label --checkpoint run \
         --freeze-encoder --head mean --num-train-epochs 2 --output tuned");
    folder.ok("bert export tuned exported");
    assert_eq!(folder.json("exported/config.json")[0]["model_type"], "bert_with_feature_head");
    let tensors = folder.tensors("exported/model.safetensors");
    assert!(tensors.contains_key("head.classifier.weight") && !tensors.contains_key("classifier.weight"));
    let card = folder.text("exported/README.md");
    assert!(!card.contains("library_name") && !card.contains("pipeline_tag"), "{card}");
    folder.ok("bert inspect exported").stdout_has("2 labels");
}

#[test]
fn disagreeing_tokenizer_files_are_refused() {
    let folder = Folder::with_run();
    folder.ok("bert export run model");
    folder.write("one.txt", "the river\n");
    let features = "bert features --checkpoint model --input one.txt";
    folder.ok(features);
    change(&folder, "model/tokenizer_config.json", |config| config["do_lower_case"] = false.into());
    folder.refused(features, 4, "`do_lower_case` is false, but true in tokenizer.json");
    change(&folder, "model/tokenizer_config.json", |config| config["do_lower_case"] = true.into());
    let words = folder.text("model/vocab.txt");
    folder.write("model/vocab.txt", words.replace("\nthe\n", "\nthen\n"));
    folder.refused(features, 4, "in tokenizer.json; correct or delete one of the two files");
}

/// Programs that open a model folder, with the classifier in `model`.
const PROGRAMS: [&str; 10] = [
    "bert inspect model",
    "bert features --checkpoint model --input one.txt",
    "bert predict --checkpoint model --input one.txt",
    "bert attention --checkpoint model 'the river' --output page.html",
    "bert nearest --checkpoint model river",
    "bert export model out",
    "bert export model out --format onnx",
    "bert import model out",
    "bert extend-vocab --checkpoint model --input train.txt --add 2 --output out",
    "finetune --task table --train-file train.csv --dev-file dev.csv --columns text,label --checkpoint model \
     --output out",
];

#[test]
fn every_program_refuses_the_same_folders() {
    let folder = with_classifier(12, 4);
    folder.ok("bert export tuned model");
    folder.write("one.txt", "the river\n");
    let config = "config.json";
    let own = "model_description.json";
    let settings = "tokenizer_config.json";
    let tokenizer = "tokenizer.json";
    for (file, key, value, expected) in [
        (config, "id2label", json!({"0": "same", "1": "same"}), "the name \"same\" to the labels 0 and 1"),
        (config, "label2id", json!({"stone": 1, "water": 0}), "numbers \"stone\" 1, but `id2label`"),
        (config, "pad_token_id", json!(5), "`pad_token_id` of config.json is 5, but [PAD] has the id 0"),
        (config, "sep_token_id", json!(2), "`sep_token_id` of config.json is 2, but [SEP] has the id 3"),
        (config, "architectures", json!(["BertForTokenClassification"]), "`architectures` of config.json"),
        (config, "function_to_apply", json!("relu"), "`function_to_apply` is \"relu\""),
        (own, "max_seq_length", json!(0), "`max_seq_length` is 0, but must be from 5 to the 64 positions"),
        (own, "max_seq_length", json!(65), "`max_seq_length` is 65"),
        (own, "trained_positions", json!(100), "`trained_positions` is 100"),
        (own, "task", json!("mnli"), "`task` has 3 outputs, but config.json has 2 labels"),
        (settings, "model_max_length", json!(2), "`model_max_length` is 2, but must be a number of tokens"),
        (settings, "truncation_side", json!("left"), "`truncation_side` is \"left\"; only right"),
        (settings, "model_input_names", json!(["input_ids"]), "a list with token_type_ids"),
        (settings, "do_lower_case", json!(false), "`do_lower_case` is false, but true in tokenizer.json"),
        (settings, "strip_accents", json!(false), "`strip_accents` is false, but true in tokenizer.json"),
        (settings, "additional_special_tokens", json!(["<new>"]), "only a token of the vocabulary"),
        ("special_tokens_map.json", "cls_token", json!("<s>"), "`cls_token` is \"<s>\"; only [CLS]"),
        (tokenizer, "post_processor", json!(null), "`post_processor` is null"),
        (tokenizer, "truncation", json!({"direction": "Left"}), "`truncation.direction` is \"Left\""),
        (tokenizer, "truncation", json!({"strategy": "Odd"}), "`truncation.strategy` is \"Odd\""),
        (tokenizer, "pre_tokenizer", json!(null), "`pre_tokenizer` is null"),
    ] {
        let path = format!("model/{file}");
        let before = folder.text(&path);
        change(&folder, &path, |json| json[key] = value);
        PROGRAMS.iter().for_each(|line| drop(folder.refused(line, 4, expected)));
        folder.write(&path, before);
    }
    PROGRAMS[..3].iter().for_each(|line| drop(folder.ok(line)));
}

#[test]
fn inspect_says_which_programs_refuse() {
    let folder = with_classifier(12, 4);
    folder.write("one.txt", "the river\n");
    let config = "tuned/model/config.json";
    let before = folder.text(config);
    let features = "bert features --checkpoint tuned --input one.txt";
    let predict = "bert predict --checkpoint tuned --input one.txt";
    change(&folder, config, |config| config["problem_type"] = "regression".into());
    let reason = "`problem_type` is regression with 2 outputs; one is supported";
    folder.refused(predict, 4, reason);
    folder.ok(features);
    folder.ok("bert inspect tuned").stdout_has(reason);
    folder.write(config, before);
    let layers = folder.json(config)[0]["num_hidden_layers"].as_u64().expect("a number");
    change(&folder, config, |config| config["num_hidden_layers"] = (layers - 1).into());
    for program in [predict, features, "bert export tuned out", "bert import tuned/model out"] {
        folder.refused(program, 4, "unexpected: ");
    }
    folder.ok("bert inspect tuned").stdout_has("tensors of the encoder are missing, superfluous or have");
}

#[test]
fn a_class_of_equal_tensors_is_kept() {
    let folder = with_classifier(12, 4);
    std::fs::remove_file(folder.at("tuned/model/model_description.json")).expect("a file");
    let class = json!(["BertForTokenClassification"]);
    change(&folder, "tuned/model/config.json", |config| config["architectures"] = class.clone());
    folder.ok("bert import tuned/model imported");
    folder.ok("bert extend-vocab --checkpoint tuned --input train.txt --add 2 --output extended");
    for model in ["imported", "extended"] {
        assert_eq!(folder.json(&format!("{model}/config.json"))[0]["architectures"], class);
    }
}

#[test]
fn a_cross_encoder_keeps_its_activation() {
    let folder = with_classifier(16, 4);
    let softmax = predicted(&folder, "tuned", "");
    change(&folder, "tuned/model/config.json", |config| {
        config["sentence_transformers"] = json!({"activation_fn": "torch.nn.modules.activation.Sigmoid"});
    });
    let sigmoid = predicted(&folder, "tuned", "");
    let logit = |p: f64| (p / (1.0 - p)).ln();
    let value = |row: &Value, class: &str| row["probabilities"][class].as_f64().expect("a number");
    for (one, other) in softmax.iter().zip(&sigmoid) {
        assert_eq!(one["label"], other["label"]);
        // The softmax of two logits is the logistic function of their difference.
        let difference = logit(value(other, "stone")) - logit(value(other, "water"));
        assert!((difference - logit(value(one, "stone"))).abs() < 1e-4, "{one} {other}");
    }
    folder.ok("bert export tuned exported");
    assert_eq!(predicted(&folder, "exported", ""), sigmoid);
}
