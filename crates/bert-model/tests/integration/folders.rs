//! Checkpoint folders: round trips, old and current tensor names, and every error.

use std::path::Path;

use bert_model::{
    Architecture, BertConfig, BertForPreTraining, BertForSequenceClassification, Error, FolderTokenizer,
    LoadPolicy, NamedTensors, folder_sink, hf_name, load_named_tensors, load_pretrained, named_parameters,
    named_tensors_from_bytes, named_tensors_to_bf16_bytes, named_tensors_to_bytes, save_pretrained,
    to_named_tensors, to_safetensors_bytes,
};
use safetensors::tensor::{Dtype, TensorView, serialize};

use crate::common::{device, golden_folder, small_config, small_model};

fn words() -> Vec<String> {
    let special = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "hello", "world", "##s", "!"];
    special.map(String::from).to_vec()
}

fn tensors() -> NamedTensors {
    to_named_tensors(&small_model(&small_config()))
}

fn load(tensors: NamedTensors, policy: LoadPolicy) -> Result<NamedTensors, Error> {
    let fresh = BertForPreTraining::new(&small_config(), 77, &device());
    load_named_tensors(fresh, tensors, policy).map(|(model, _)| to_named_tensors(&model))
}

fn renamed(tensors: NamedTensors, f: impl Fn(&str) -> String) -> NamedTensors {
    tensors.into_iter().map(|(name, t)| (f(&name), t)).collect()
}

#[test]
fn tensor_names_are_the_published_ones() {
    let bytes = std::fs::read(golden_folder("gelu").join("model.safetensors")).unwrap();
    let published = named_tensors_from_bytes(&bytes, Path::new("golden")).unwrap();
    let config = BertConfig::read(golden_folder("gelu").join("config.json")).unwrap();
    let mut ours = named_parameters(&BertForPreTraining::new(&config, 0, &device()));
    ours.sort_by(|a, b| a.0.cmp(&b.0));
    let ours: Vec<_> = ours.into_iter().map(|(name, _, shape)| (name, shape)).collect();
    let published: Vec<_> = published.into_iter().map(|(name, (shape, _))| (name, shape)).collect();
    assert_eq!(ours, published);
    assert_eq!(
        hf_name("bert.encoder.layer.0.attention.self_attention.query.weight"),
        "bert.encoder.layer.0.attention.self.query.weight"
    );
    assert_eq!(hf_name("embeddings.layer_norm.beta"), "embeddings.LayerNorm.bias");
}

#[test]
fn saved_folder_round_trips() {
    let dir = tempfile::tempdir().unwrap();
    let config = small_config();
    let words = words();
    let model = small_model(&config);
    let vocabulary = FolderTokenizer::uncased(&words, 20);
    for name in ["a", "b"] {
        let sink = &mut folder_sink(dir.path().join(name));
        save_pretrained(sink, &model, &config, Some(vocabulary.clone())).unwrap();
    }
    let mut files = Vec::new();
    for entry in std::fs::read_dir(dir.path().join("a")).unwrap() {
        let name = entry.unwrap().file_name().into_string().unwrap();
        let [a, b] = ["a", "b"].map(|d| std::fs::read(dir.path().join(d).join(&name)).unwrap());
        assert_eq!(a, b, "{name}: equal models, equal bytes");
        files.push(name);
    }
    files.sort_unstable();
    let expected = [
        "config.json",
        "model.safetensors",
        "special_tokens_map.json",
        "tokenizer.json",
        "tokenizer_config.json",
        "vocab.txt",
    ];
    assert_eq!(files, expected);

    let a = dir.path().join("a");
    let (read, read_config, report) =
        load_pretrained::<BertForPreTraining>(&a, |config| config, LoadPolicy::Exact, 99, &device()).unwrap();
    assert_eq!(read_config, config);
    assert_eq!(to_named_tensors(&read), to_named_tensors(&model));
    assert!(report.missing.is_empty() && report.unexpected.is_empty());
}

/// The encoder is loaded, the classifier is random.
#[test]
fn pretraining_folder_initializes_a_classifier() {
    let a = tempfile::tempdir().unwrap();
    let model = small_model(&small_config());
    save_pretrained(&mut folder_sink(a.path()), &model, &small_config(), None).unwrap();
    let labels = |config: BertConfig| config.with_labels(&["a", "b", "c"]);
    let (classifier, config, report) = load_pretrained::<BertForSequenceClassification>(
        a.path(),
        labels,
        LoadPolicy::FreshHeads,
        3,
        &device(),
    )
    .unwrap();
    assert_eq!(report.missing, ["classifier.weight", "classifier.bias"]);
    assert!(report.unexpected.iter().all(|name| name.starts_with("cls.")));
    let classifier = to_named_tensors(&classifier);
    let pooler = "bert.pooler.dense.weight";
    assert_eq!(classifier[pooler], to_named_tensors(&model)[pooler]);
    let fresh = to_named_tensors(&BertForSequenceClassification::new(&config, 3, &device()));
    assert_eq!(classifier["classifier.weight"], fresh["classifier.weight"]);
    assert_eq!(classifier["classifier.weight"].0, [3, 24]);
}

#[test]
fn safetensors_header_says_pt() {
    let bytes = to_safetensors_bytes(&small_model(&small_config()));
    let (_, header) = safetensors::SafeTensors::read_metadata(&bytes).unwrap();
    assert_eq!(header.metadata().as_ref().unwrap()["format"], "pt");
}

#[test]
fn old_names_prefixes_and_tied_copies() {
    let expected = tensors();
    let old = |name: &str| match name.rsplit_once("LayerNorm.") {
        Some((stem, "weight")) => format!("{stem}LayerNorm.gamma"),
        Some((stem, _)) => format!("{stem}LayerNorm.beta"),
        None => name.to_string(),
    };
    let mut published = renamed(tensors(), old);
    let table = published["bert.embeddings.word_embeddings.weight"].clone();
    let bias = published["cls.predictions.bias"].clone();
    published.insert("cls.predictions.decoder.weight".into(), table);
    published.insert("cls.predictions.decoder.bias".into(), bias);
    published.insert("bert.embeddings.position_ids".into(), (vec![1, 3], vec![0.0, 1.0, 2.0]));
    assert_eq!(load(published.clone(), LoadPolicy::Exact).unwrap(), expected);

    // The bias under its tied name only, and the names of the encoder without their prefix.
    published.remove("cls.predictions.bias");
    let bare = renamed(published, |name| name.trim_start_matches("bert.").to_string());
    assert_eq!(load(bare, LoadPolicy::Exact).unwrap(), expected);
}

/// Checkpoints of `BertModel` and `BertForMaskedLM` lack heads or the pooler.
#[test]
fn partial_checkpoints_initialize_a_model() {
    let full = tensors();
    let fresh = to_named_tensors(&BertForPreTraining::new(&small_config(), 77, &device()));
    let without = |parts: &[&str]| -> NamedTensors {
        let kept = full.iter().filter(|(name, _)| !parts.iter().any(|p| name.starts_with(p)));
        kept.map(|(name, t)| (name.clone(), t.clone())).collect()
    };
    for parts in [&["cls."][..], &["cls.seq_relationship", "bert.pooler"]] {
        let loaded = load(without(parts), LoadPolicy::FreshHeads).unwrap();
        for (name, tensor) in loaded {
            let source = if parts.iter().any(|p| name.starts_with(p)) { &fresh } else { &full };
            assert_eq!(tensor, source[&name], "{name}");
        }
        let error = load(without(parts), LoadPolicy::Exact).unwrap_err();
        assert!(error.to_string().contains("cls.seq_relationship.weight"), "{error}");
    }
}

#[test]
fn every_wrong_tensor_is_named() {
    let mut wrong = tensors();
    wrong.remove("bert.encoder.layer.1.output.dense.bias");
    wrong.insert("bert.encoder.layer.2.output.dense.bias".into(), (vec![24], vec![0.0; 24]));
    wrong.insert("cls.predictions.bias".into(), (vec![60], vec![0.0; 60]));
    let shape = (vec![40, 20], vec![0.0; 800]);
    wrong.insert("bert.encoder.layer.0.intermediate.dense.weight".into(), shape);
    for policy in [LoadPolicy::Exact, LoadPolicy::FreshHeads] {
        let error = load(wrong.clone(), policy).unwrap_err();
        assert_eq!(error.exit_code(), 4);
        let text = error.to_string();
        for part in [
            "missing: bert.encoder.layer.1.output.dense.bias",
            "unexpected: bert.encoder.layer.2.output.dense.bias",
            "cls.predictions.bias has shape [60], but the model has [61]",
            "bert.encoder.layer.0.intermediate.dense.weight has shape [40, 20], but the model has [40, 24]",
        ] {
            assert!(text.contains(part), "{text}");
        }
    }
}

#[test]
fn tied_copies_must_be_equal_and_names_unique() {
    for (name, kept) in [
        ("cls.predictions.decoder.weight", "bert.embeddings.word_embeddings.weight"),
        ("cls.predictions.decoder.bias", "cls.predictions.bias"),
    ] {
        let mut wrong = tensors();
        let mut copy = wrong[kept].clone();
        copy.1[3] += 1.0;
        wrong.insert(name.into(), copy);
        let error = load(wrong, LoadPolicy::Exact).unwrap_err();
        assert!(error.to_string().contains("`, but BERT ties both; untied weights are"), "{error}");
        assert_eq!(error.exit_code(), 4);
        assert!(error.to_string().contains(name) && error.to_string().contains(kept));
    }
    let mut wrong = tensors();
    let twice = wrong["bert.embeddings.LayerNorm.weight"].clone();
    wrong.insert("bert.embeddings.LayerNorm.gamma".into(), twice);
    let error = load(wrong, LoadPolicy::Exact).unwrap_err();
    assert!(error.to_string().contains("` occurs twice, under its current and its"), "{error}");
    assert_eq!(error.exit_code(), 4);
}

#[test]
fn f16_is_widened_and_integers_rejected() {
    let read = |dtype, bytes: &[u8], shape: &[usize]| {
        let view = TensorView::new(dtype, shape.to_vec(), bytes).unwrap();
        let bytes = serialize([("x", view)], None).unwrap();
        named_tensors_from_bytes(&bytes, Path::new("x.safetensors"))
    };
    let values = [1.5f32, -0.0078125, 3072.0];
    let f16: Vec<u8> = values.iter().flat_map(|v| half::f16::from_f32(*v).to_le_bytes()).collect();
    let bf16: Vec<u8> = values.iter().flat_map(|v| half::bf16::from_f32(*v).to_le_bytes()).collect();
    for (dtype, bytes) in [(Dtype::F16, f16), (Dtype::BF16, bf16)] {
        assert_eq!(read(dtype, &bytes, &[3]).unwrap()["x"], (vec![3], values.to_vec()));
    }
    let error = read(Dtype::I32, &[0; 8], &[2]).unwrap_err();
    assert!(error.to_string().contains("; save it as f32, f16 or bf16"), "{error}");
    assert_eq!(error.exit_code(), 4);
    assert!(error.to_string().contains("`x` has element type I32"), "{error}");
}

#[test]
fn bf16_export_rounds_to_nearest() {
    // 1 + 2^-8 and 1 + 3 * 2^-8 are halfway between two bf16 numbers and are rounded to the even one.
    let eighth = 2f32.powi(-8);
    let values = vec![1.0, 1.0 + eighth, 1.0 + 3.0 * eighth, -2.5e-3, 3.0e38];
    let tensors: NamedTensors = [("x".to_string(), (vec![5], values))].into();
    let bytes = named_tensors_to_bf16_bytes(&tensors);
    assert!(bytes.len() < named_tensors_to_bytes(&tensors).len());
    let read = named_tensors_from_bytes(&bytes, Path::new("x")).unwrap();
    assert_eq!(read["x"], (vec![5], vec![1.0, 1.0, 1.015_625, -0.002_502_441_4, 3.004_055_3e38]));
    assert_eq!(named_tensors_to_bf16_bytes(&read), bytes);
}

#[test]
fn damaged_safetensors_do_not_panic() {
    let small: NamedTensors = [("x".to_string(), (vec![2, 2], vec![1.0; 4]))].into();
    let good = named_tensors_to_bytes(&small);
    assert_eq!(named_tensors_from_bytes(&good, Path::new("x")).unwrap(), small);
    let read = |bytes: &[u8]| named_tensors_from_bytes(bytes, Path::new("w.safetensors"));
    for length in 0..good.len() {
        let error = read(&good[..length]).unwrap_err();
        assert!(error.to_string().contains("; copy or download it again"), "{error}");
        assert_eq!(error.exit_code(), 3);
        assert!(error.to_string().contains("w.safetensors"), "{error}");
    }
    // One damaged byte gives an error, a different number or a different name.
    for place in 0..good.len() {
        for flip in [1u8, 0x80, 0xFF] {
            let mut bad = good.clone();
            bad[place] ^= flip;
            if let Ok(tensors) = read(&bad) {
                assert!(tensors.values().all(|(shape, v)| shape.iter().product::<usize>() == v.len()));
            }
        }
    }
}

#[test]
fn folders_without_readable_weights() {
    let dir = tempfile::tempdir().unwrap();
    let load = || {
        let exact = LoadPolicy::Exact;
        let loaded = load_pretrained::<BertForPreTraining>(dir.path(), |config| config, exact, 0, &device());
        loaded.map(|_| ()).unwrap_err()
    };
    let put = |name: &str, bytes: &[u8]| std::fs::write(dir.path().join(name), bytes).unwrap();

    let error = load();
    assert!(error.to_string().contains("no config.json"), "{error}");
    put("config.json", small_config().to_json_string("BertForPreTraining").as_bytes());
    let error = load();
    assert!(error.to_string().contains("; give a folder that `save_pretrained` or a"), "{error}");
    assert_eq!(error.exit_code(), 4);
    put("pytorch_model.bin", b"pickle");
    let error = load();
    assert!(error.to_string().contains("; copy or download it again"), "{error}");
    assert_eq!(error.exit_code(), 3);
    assert!(error.to_string().contains("pytorch_model.bin"), "{error}");
    put("model.safetensors.index.json", b"{}");
    let error = load();
    assert!(error.to_string().contains("; copy or download it again"), "{error}");
    put("model.safetensors", b"");
    assert_eq!(load().exit_code(), 3);
    let full = to_safetensors_bytes(&small_model(&small_config()));
    put("model.safetensors", &full[..full.len() - 1]);
    assert_eq!(load().exit_code(), 3);
    put("model.safetensors", &full);
    load_pretrained::<BertForPreTraining>(dir.path(), |config| config, LoadPolicy::Exact, 0, &device())
        .unwrap();
}

#[test]
fn mismatched_vocabulary_is_rejected_before_writing() {
    let config = small_config();
    let model = small_model(&small_config());
    let save = |words: &[String], fail: bool| {
        let mut written = 0;
        let mut sink = |_: &str, _: &[u8]| {
            written += 1;
            if fail { Err(std::io::Error::other("full")) } else { Ok(()) }
        };
        let vocabulary = FolderTokenizer::uncased(words, 20);
        let saved = save_pretrained(&mut sink, &model, &config, Some(vocabulary));
        (saved.unwrap_err(), written)
    };
    let long: Vec<String> = (0..62).map(|i| format!("w{i}")).collect();
    let (error, written) = save(&long, false);
    assert!(error.to_string().contains("words, more than the model's `vocab_size` of"), "{error}");
    assert_eq!((error.exit_code(), written), (4, 0));
    let (error, written) = save(&words()[..4], false);
    assert!(error.to_string().contains(", which BERT needs; use a WordPiece"), "{error}");
    assert_eq!((error.exit_code(), written), (3, 0));
    let (error, written) = save(&words(), true);
    assert!(error.io_kind().is_some(), "{error}");
    assert_eq!((error.exit_code(), written), (1, 1));
}
