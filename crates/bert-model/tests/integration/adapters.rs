//! Compares adapters and LoRA with a plain network that reads their folders by the libraries' tensor names.

use std::collections::BTreeSet;
use std::path::Path;

use bert_model::{
    AdapterConfig, AdapterFolder, AdapterMetadata, Architecture, BertConfig, BertForSequenceClassification,
    BottleneckForm, FolderTokenizer, Mode, NamedTensors, folder_sink, is_adapter_parameter, map_parameters,
    read_adapter, read_safetensors, to_named_tensors,
};
use burn::tensor::{Device, Tensor, TensorData, activation};
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::common::{Worst, batch, device, named_gradients, small_config, values};

const METADATA: AdapterMetadata<'_> = AdapterMetadata { name: "rte", base: "run" };

fn forms() -> [AdapterConfig; 4] {
    let bottleneck = |form, reduction_factor| AdapterConfig::Bottleneck { form, reduction_factor };
    [
        bottleneck(BottleneckForm::Pfeiffer, 4.0),
        bottleneck(BottleneckForm::Houlsby, 5.0),
        bottleneck(BottleneckForm::Parallel, 2.0),
        AdapterConfig::Lora { rank: 3, alpha: 6.0 },
    ]
}

fn config() -> BertConfig {
    small_config().with_labels(&["yes", "no", "perhaps"])
}

fn base(device: &Device) -> BertForSequenceClassification {
    BertForSequenceClassification::new(&config(), 5, device)
}

/// Returns a model with a new adapter.
fn fresh(adapter: AdapterConfig, seed: u64, device: &Device) -> BertForSequenceClassification {
    let mut model = base(device);
    model.bert = model.bert.with_adapter(adapter, seed).unwrap();
    model
}

/// Returns a model whose adapter has values far from the near-zero initial ones.
fn adapted(adapter: AdapterConfig, device: &Device) -> BertForSequenceClassification {
    let mut place = 0f32;
    map_parameters(fresh(adapter, 3, device), |name, shape| {
        let mut next = || {
            place += 1.0;
            0.3 * (place * 1.7).sin()
        };
        is_adapter_parameter(name).then(|| (0..shape.iter().product()).map(|_| next()).collect())
    })
}

fn words() -> Vec<String> {
    let special = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"].map(String::from);
    special.into_iter().chain((0..56).map(|i| format!("word{i}"))).collect()
}

fn save(dir: &Path, model: &BertForSequenceClassification, adapter: AdapterConfig) {
    let words = words();
    let vocabulary = FolderTokenizer::uncased(&words, 20);
    adapter.save(&mut folder_sink(dir), model, &config(), METADATA, vocabulary).unwrap();
}

fn json_of(dir: &Path, file: &str) -> Value {
    serde_json::from_slice(&std::fs::read(dir.join(file)).unwrap()).unwrap()
}

fn write_json(dir: &Path, file: &str, value: &Value) {
    std::fs::write(dir.join(file), value.to_string()).unwrap();
}

/// BERT as in the papers, one operation at a time, on tensors by published name.
struct Plain {
    tensors: NamedTensors,
    device: Device,
    leaves: std::cell::RefCell<std::collections::BTreeMap<String, Tensor<2>>>,
}

impl Plain {
    /// Returns a parameter as `[out, in]`, or `[1, width]`.
    fn get(&self, name: &str) -> Tensor<2> {
        let leaf = || {
            let (shape, values) = self.tensors.get(name).unwrap_or_else(|| panic!("no tensor {name}"));
            let shape = if shape.len() == 2 { [shape[0], shape[1]] } else { [1, shape[0]] };
            Tensor::from_data(TensorData::new(values.clone(), shape), &self.device).require_grad()
        };
        self.leaves.borrow_mut().entry(name.to_string()).or_insert_with(leaf).clone()
    }

    fn dense(&self, name: &str, x: Tensor<3>) -> Tensor<3> {
        let weight = self.get(&format!("{name}.weight")).transpose();
        x.matmul(weight.unsqueeze()) + self.get(&format!("{name}.bias")).unsqueeze()
    }

    fn layer_norm(&self, name: &str, x: Tensor<3>) -> Tensor<3> {
        let centred = x.clone() - x.mean_dim(2);
        let variance = centred.clone().square().mean_dim(2);
        let normal = centred / variance.add_scalar(1e-12).sqrt();
        let gamma = self.get(&format!("{name}.weight"));
        let beta = self.get(&format!("{name}.bias"));
        normal * gamma.unsqueeze() + beta.unsqueeze()
    }

    /// Computes `up(activation(down(x)))`.
    fn bottleneck(&self, place: &str, x: Tensor<3>, swish: bool) -> Tensor<3> {
        let narrow = self.dense(&format!("{place}.adapters.rte.adapter_down.0"), x);
        let narrow = if swish { narrow.clone() * activation::sigmoid(narrow) } else { narrow.clamp_min(0.0) };
        self.dense(&format!("{place}.adapters.rte.adapter_up"), narrow)
    }

    /// Computes the end of a block: adapter, residual and LayerNorm.
    fn finish(&self, place: &str, h: Tensor<3>, input: Tensor<3>, adapter: AdapterConfig) -> Tensor<3> {
        let norm = |x| self.layer_norm(&format!("{place}.LayerNorm"), x);
        let AdapterConfig::Bottleneck { form, .. } = adapter else { return norm(h + input) };
        let after_attention = place.ends_with("attention.output");
        let added = match form {
            BottleneckForm::Houlsby => self.bottleneck(place, h.clone(), true),
            _ if after_attention => return norm(h + input),
            BottleneckForm::Pfeiffer => self.bottleneck(place, norm(h.clone() + input.clone()), false),
            BottleneckForm::Parallel => self.bottleneck(place, input.clone(), false) * 4.0,
        };
        norm(added + h + input)
    }

    fn projection(&self, name: &str, x: Tensor<3>, adapter: AdapterConfig) -> Tensor<3> {
        let y = self.dense(name, x.clone());
        let AdapterConfig::Lora { rank, alpha } = adapter else { return y };
        if name.ends_with("key") {
            return y;
        }
        let low = |which: &str| {
            let name = format!("base_model.model.{name}.lora_{which}.weight");
            self.get(&name).transpose().unsqueeze::<3>()
        };
        y + x.matmul(low("A")).matmul(low("B")) * (alpha / rank as f64)
    }

    fn layer(&self, name: &str, x: Tensor<3>, adapter: AdapterConfig) -> Tensor<3> {
        let [batch, seq, hidden] = x.dims();
        let heads = |y: Tensor<3>| y.reshape([batch, seq, 3, hidden / 3]).swap_dims(1, 2);
        let projected = ["query", "key", "value"].map(|which| {
            heads(self.projection(&format!("{name}.attention.self.{which}"), x.clone(), adapter))
        });
        let [query, key, value] = projected;
        let scores = query.matmul(key.transpose()) / ((hidden / 3) as f64).sqrt();
        let context =
            activation::softmax(scores, 3).matmul(value).swap_dims(1, 2).reshape([batch, seq, hidden]);
        let place = format!("{name}.attention.output");
        let x = self.finish(&place, self.dense(&format!("{place}.dense"), context), x, adapter);
        let wide = activation::gelu(self.dense(&format!("{name}.intermediate.dense"), x.clone()));
        let place = format!("{name}.output");
        self.finish(&place, self.dense(&format!("{place}.dense"), wide), x, adapter)
    }

    /// Returns the logits, given the output of the embeddings.
    fn logits(&self, embedded: Tensor<3>, adapter: AdapterConfig, classifier: &str) -> Tensor<2> {
        let [batch, _, hidden] = embedded.dims();
        let layers = (0..2).map(|layer| format!("bert.encoder.layer.{layer}"));
        let x = layers.fold(embedded, |x, name| self.layer(&name, x, adapter));
        let pooled = self.dense("bert.pooler.dense", x.narrow(1, 0, 1)).tanh();
        let logits = self.dense(classifier, pooled);
        let [_, _, classes] = logits.dims();
        assert_eq!(hidden, 24);
        logits.reshape([batch, classes])
    }
}

/// Returns the encoder's tensors together with an adapter folder's.
fn encoder_and_adapter(dir: &Path, lora: bool, device: &Device) -> NamedTensors {
    let files: &[&str] = if lora {
        &["adapter_model.safetensors"]
    } else {
        &["adapter.safetensors", "model_head.safetensors"]
    };
    let mut tensors = to_named_tensors(&base(device));
    tensors.retain(|name, _| !name.starts_with("classifier."));
    for file in files {
        tensors.extend(read_safetensors(&dir.join(file)).unwrap());
    }
    tensors
}

/// Returns the name of a parameter in an adapter's folder.
fn published_name(name: &str, lora: bool) -> String {
    if lora {
        format!("base_model.model.{}", name.replace(".lora.", "."))
    } else {
        name.replace("adapter.down", "adapters.rte.adapter_down.0")
            .replace("adapter.up", "adapters.rte.adapter_up")
    }
}

#[test]
fn adapters_match_plain_network() {
    let device = device().autodiff();
    for adapter in forms() {
        let dir = tempfile::tempdir().unwrap();
        let model = adapted(adapter, &device);
        save(dir.path(), &model, adapter);
        let lora = matches!(adapter, AdapterConfig::Lora { .. });
        let tensors = encoder_and_adapter(dir.path(), lora, &device);
        let plain = Plain { tensors, device: device.clone(), leaves: Default::default() };

        let input = batch(&[7, 7, 7], 7, 61, &device);
        let weights = Tensor::<2>::from_data(
            TensorData::new((0..9).map(|i| (i as f32 * 2.3).cos()).collect::<Vec<_>>(), [3, 3]),
            &device,
        );
        let logits = model.forward(input.clone(), Mode::Eval);
        let embedded = model.bert.embeddings.forward(input.input_ids, input.segment_ids, Mode::Eval);
        let prefix = if lora { "base_model.model." } else { "" };
        let expected = plain.logits(embedded, adapter, &format!("{prefix}classifier"));
        let mut worst = Worst::default();
        worst.check("logits", &values(logits.clone()), &values(expected.clone()), 0.0, 1e-5);

        let got = (logits * weights.clone()).sum().backward();
        let expected = (expected * weights).sum().backward();
        let got = named_gradients(&model, &got);
        let learn: BTreeSet<String> = to_named_tensors(&model)
            .into_keys()
            .filter(|name| is_adapter_parameter(name) || name.starts_with("classifier."))
            .collect();
        assert_eq!(got.keys().cloned().collect::<BTreeSet<_>>(), learn, "parameters with a gradient");
        for (name, (_, gradient)) in got {
            let published = published_name(&name, lora);
            let leaf = plain.get(&published);
            let expected = leaf.grad(&expected).unwrap_or_else(|| panic!("{published} has no gradient"));
            worst.check(&name, &gradient, &values(expected), 0.0, 1e-5);
        }
        worst.report(adapter.name());
    }
}

/// PEFT's names come from a folder that PEFT 0.20 saved. The names of adapters 1.2.0 (88f18eb) come from the
/// `state_dict` of its `Adapter` below `BottleneckLayer.adapters`; its `BertSelfOutput` and `BertOutput` are such
/// layers.
#[test]
fn adapter_names_and_configs_match_the_libraries() {
    let half = |place: &str| -> Vec<String> {
        let ends = ["adapter_down.0.bias", "adapter_down.0.weight", "adapter_up.bias", "adapter_up.weight"];
        ends.iter().map(|end| format!("bert.encoder.layer.1.{place}.adapters.rte.{end}")).collect()
    };
    let lora = |which: &str| -> Vec<String> {
        let place = format!("base_model.model.bert.encoder.layer.1.attention.self.{which}");
        vec![format!("{place}.lora_A.weight"), format!("{place}.lora_B.weight")]
    };
    let expected = [
        half("output"),
        [half("attention.output"), half("output")].concat(),
        half("output"),
        [lora("query"), lora("value")].concat(),
    ];
    for (adapter, expected) in forms().into_iter().zip(expected) {
        let dir = tempfile::tempdir().unwrap();
        save(dir.path(), &adapted(adapter, &device()), adapter);
        let lora = matches!(adapter, AdapterConfig::Lora { .. });
        let file = if lora { "adapter_model.safetensors" } else { "adapter.safetensors" };
        let tensors = read_safetensors(&dir.path().join(file)).unwrap();
        let in_layer: Vec<&String> = tensors.keys().filter(|name| name.contains("layer.1.")).collect();
        assert_eq!(in_layer, expected.iter().collect::<Vec<_>>());
        let written = json_of(dir.path(), "adapter_config.json");
        if lora {
            assert_eq!(tensors["base_model.model.classifier.weight"].0, [3, 24]);
            assert_eq!((&written["peft_type"], &written["r"]), (&json!("LORA"), &json!(3)));
            assert_eq!(written["lora_alpha"], json!(6));
            assert_eq!(written["target_modules"], json!(["query", "value"]));
        } else {
            check_library_config(dir.path(), &written, adapter.name())
        }
    }
}

/// Checks `adapter_config.json` and the head of a folder of the `adapters` library.
fn check_library_config(dir: &Path, written: &Value, form: &str) {
    let config = &written["config"];
    let parallel = form == "par_bn";
    let houlsby = form == "double_seq_bn";
    assert_eq!(config["is_parallel"], json!(parallel));
    assert_eq!(config["mh_adapter"], json!(houlsby));
    assert_eq!(config["original_ln_before"], json!(form == "seq_bn"));
    assert_eq!(config["non_linearity"], json!(if houlsby { "swish" } else { "relu" }));
    // A number with a point: the library asks whether it is a float.
    assert!(config["scaling"].is_f64() && config["scaling"] == json!(if parallel { 4.0 } else { 1.0 }));
    assert_eq!((&written["name"], &written["hidden_size"]), (&json!("rte"), &json!(24)));
    let head = json_of(dir, "head_config.json");
    assert_eq!(head["model_class"], json!("BertForSequenceClassification"));
    assert_eq!(head["label2id"], json!({ "yes": 0, "no": 1, "perhaps": 2 }));
    let head = read_safetensors(&dir.join("model_head.safetensors")).unwrap();
    assert_eq!(head.keys().collect::<Vec<_>>(), ["classifier.bias", "classifier.weight"]);
}

#[test]
fn saved_folder_round_trips() {
    for adapter in forms() {
        let dir = tempfile::tempdir().unwrap();
        let model = adapted(adapter, &device());
        save(dir.path(), &model, adapter);
        let folder = read_adapter(dir.path()).unwrap();
        assert_eq!((folder.adapter, folder.hidden_size), (adapter, 24));
        // A different classifier shows that the folder's classifier replaces it.
        let mut fresh = base(&device());
        fresh.classifier = BertForSequenceClassification::new(&config(), 9, &device()).classifier;
        let again = folder.apply(fresh).unwrap();
        assert_eq!(to_named_tensors(&again), to_named_tensors(&model), "{adapter:?}");
    }
}

/// Reads a head as `BertAdapterModel` of the library saves it, named after the adapter.
#[test]
fn flexible_prediction_head_is_read() {
    let adapter = forms()[0];
    let dir = tempfile::tempdir().unwrap();
    let model = adapted(adapter, &device());
    save(dir.path(), &model, adapter);
    let path = dir.path().join("model_head.safetensors");
    let rename = |name: String| name.replace("classifier.", "heads.rte.1.");
    let head: NamedTensors =
        read_safetensors(&path).unwrap().into_iter().map(|(name, tensor)| (rename(name), tensor)).collect();
    std::fs::write(&path, bert_model::named_tensors_to_bytes(&head)).unwrap();
    let mut config = json_of(dir.path(), "head_config.json");
    config["config"] =
        json!({ "head_type": "classification", "layers": 1, "label2id": config["label2id"].take() });
    write_json(dir.path(), "head_config.json", &config);
    let folder = read_adapter(dir.path()).unwrap();
    assert_eq!(folder.class_names.as_ref().map(|names| names[2].as_str()), Some("perhaps"));
    assert_eq!(to_named_tensors(&folder.apply(base(&device())).unwrap()), to_named_tensors(&model));
}

#[test]
fn fresh_adapter_matches_the_libraries() {
    let input = batch(&[7, 5], 7, 61, &device());
    let logits = |model: &BertForSequenceClassification| values(model.forward(input.clone(), Mode::Eval));
    let start = logits(&base(&device()));
    for adapter in forms() {
        let fresh = |seed| fresh(adapter, seed, &device());
        let model = fresh(1);
        let tensors = to_named_tensors(&fresh(1));
        assert_eq!(tensors, to_named_tensors(&model));
        assert_ne!(tensors, to_named_tensors(&fresh(2)), "another seed");
        for (name, (shape, values)) in tensors.iter().filter(|(name, _)| is_adapter_parameter(name)) {
            let bound = 1.0 / (*shape.last().unwrap() as f32).sqrt();
            let maximum = values.iter().fold(0f32, |max, x| max.max(x.abs()));
            let nothing = maximum == 0.0;
            match adapter.name() {
                _ if name.ends_with(".bias") => assert!(nothing, "{name}"),
                "seq_bn" | "double_seq_bn" => assert!(!nothing && maximum < 0.1, "{name}: {maximum}"),
                _ if name.contains(".up.") || name.contains("lora_B") => assert!(nothing, "{name}"),
                _ => assert!(maximum <= bound && maximum > 0.9 * bound, "{name}: {maximum}"),
            }
        }
        let close = start.iter().zip(logits(&model)).all(|(a, b)| (a - b).abs() < 1e-6);
        match adapter.name() {
            "lora" => assert_eq!(logits(&model), start, "B is zero, so nothing changes, to the bit"),
            "par_bn" => assert!(close, "the second matrix is zero"),
            _ => assert!(!close, "the library does not begin at zero here"),
        }
    }
}

#[test]
fn merged_lora_computes_the_same() {
    let adapter = forms()[3];
    let model = adapted(adapter, &device());
    let mut merged = model.clone();
    merged.bert = merged.bert.with_lora_merged();
    assert!(to_named_tensors(&merged).keys().eq(to_named_tensors(&base(&device())).keys()));
    let input = batch(&[7, 5], 7, 61, &device());
    let logits = |model: &BertForSequenceClassification| values(model.forward(input.clone(), Mode::Eval));
    assert_eq!(logits(&merged), logits(&model));
    assert_ne!(logits(&merged), logits(&base(&device())));
    // The pass that returns the attention probabilities uses the merged weights too.
    let states = model.bert.forward_with_states(input.clone());
    let plain = model.bert.forward(input.clone(), Mode::Eval);
    let mut worst = Worst::default();
    worst.check("pooled", &values(states.output.pooled_output), &values(plain.pooled_output), 0.0, 1e-5);
}

/// Saves an adapter and changes its configuration.
fn changed_folder(adapter: AdapterConfig, change: impl Fn(&mut Value)) -> TempDir {
    let dir = tempfile::tempdir().unwrap();
    save(dir.path(), &adapted(adapter, &device()), adapter);
    let mut config = json_of(dir.path(), "adapter_config.json");
    change(&mut config);
    write_json(dir.path(), "adapter_config.json", &config);
    dir
}

#[test]
fn unsupported_adapter_configs_are_rejected() {
    let pfeiffer = forms()[0];
    let lora = forms()[3];
    let cases: [(AdapterConfig, &str, Value, &str); 8] = [
        (pfeiffer, "/config/ln_after", json!(true), "`ln_after` is true; in a seq_bn adapter it is false"),
        (
            pfeiffer,
            "/config/non_linearity",
            json!("gelu"),
            "`non_linearity` is \"gelu\"; in a seq_bn adapter",
        ),
        (pfeiffer, "/config/reduction_factor", json!({ "0": 4 }), "one number for all layers is read"),
        (pfeiffer, "/config/scaling", json!("learned"), "`scaling` is \"learned\""),
        (pfeiffer, "/name", json!(null), "`name` is not a string"),
        (lora, "/peft_type", json!("IA3"), "`peft_type` is \"IA3\"; LORA is read"),
        (lora, "/target_modules", json!(["query"]), "`target_modules` is [\"query\"]"),
        (lora, "/use_dora", json!(true), "`use_dora` is true; a LoRA without it is read"),
    ];
    for (adapter, pointer, value, expected) in cases {
        let dir = changed_folder(adapter, |config| *config.pointer_mut(pointer).unwrap() = value.clone());
        let found = read_adapter(dir.path()).unwrap_err().to_string();
        assert!(found.contains(expected), "{found}");
    }
}

#[test]
fn adapters_of_other_sizes_are_rejected() {
    let read = |adapter| -> AdapterFolder { read_adapter(changed_folder(adapter, |_| {}).path()).unwrap() };
    let mut wide = config();
    (wide.hidden_size, wide.num_attention_heads) = (48, 3);
    let mut deep = config();
    deep.num_hidden_layers = 3;
    for adapter in [forms()[0], forms()[3]] {
        let apply = |config: &BertConfig| {
            read(adapter).apply(BertForSequenceClassification::new(config, 1, &device())).unwrap_err()
        };
        let error = apply(&wide);
        assert!(error.to_string().contains("; use the encoder that it was trained on"), "{error}");
        assert_eq!(error.exit_code(), 4);
        assert!(apply(&deep).to_string().contains("missing: bert.encoder.layer.2."));
        let error = apply(&config().with_labels(&["a", "b"])).to_string();
        assert!(error.contains("classifier.weight has shape [3, 24], but the model has [2, 24]"), "{error}");
    }
    for size in [AdapterConfig::Lora { rank: 25, alpha: 1.0 }, AdapterConfig::Lora { rank: 0, alpha: 1.0 }] {
        assert!(
            base(&device())
                .bert
                .with_adapter(size, 1)
                .as_ref()
                .is_err_and(|error| error.to_string().contains("adapter configuration: `"))
        );
    }
}

#[test]
fn adapters_without_safetensors_are_rejected() {
    let dir = changed_folder(forms()[0], |_| {});
    let safe = dir.path().join("adapter.safetensors");
    std::fs::rename(&safe, dir.path().join("pytorch_adapter.bin")).unwrap();
    assert!(
        read_adapter(dir.path())
            .as_ref()
            .is_err_and(|error| error.to_string().contains("; copy or download it again"))
    );
    std::fs::remove_file(dir.path().join("pytorch_adapter.bin")).unwrap();
    assert!(
        read_adapter(dir.path())
            .as_ref()
            .is_err_and(|error| error.to_string().contains("; give a folder that `save_pretrained` or a"))
    );
    let error = bert_model::read_pretrained_tensors(dir.path()).unwrap_err();
    assert!(error.to_string().contains(": this is an adapter without its encoder."), "{error}");
}
