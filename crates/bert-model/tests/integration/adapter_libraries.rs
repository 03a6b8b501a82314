//! Adapters, LoRA and fusion against the `adapters` library and PEFT themselves: forward, gradient, and folders both
//! ways.
//!
//! Runs `tests/golden/check_adapters.py` with the interpreter that the environment variable `BERT_PYTHON` names (torch,
//! transformers 4.57, adapters and PEFT installed).

use std::path::Path;

use bert_model::{
    AdapterConfig, AdapterMetadata, Architecture, BertConfig, BertForSequenceClassification, BottleneckForm,
    FolderTokenizer, Mode, NamedTensors, folder_sink, is_adapter_parameter, is_fusion_parameter,
    map_parameters, named_tensors_to_bytes, read_adapter, read_fusion, read_safetensors, save_fusion,
    save_pretrained,
};
use burn::tensor::{Device, Tensor, TensorData};

use crate::common::{Worst, batch, device, named_gradients, run_python, small_config, values};

fn config() -> BertConfig {
    small_config().with_labels(&["yes", "no", "perhaps"])
}

fn words() -> Vec<String> {
    let special = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"].map(String::from);
    special.into_iter().chain((0..56).map(|i| format!("word{i}"))).collect()
}

fn vocabulary(words: &[String]) -> FolderTokenizer<'_> {
    FolderTokenizer::uncased(words, 20)
}

fn base(device: &Device) -> BertForSequenceClassification {
    BertForSequenceClassification::new(&config(), 5, device)
}

/// Returns the model with trained parameters far from their near-zero initial values.
fn varied(
    model: BertForSequenceClassification,
    scale: f32,
    own: fn(&str) -> bool,
) -> BertForSequenceClassification {
    let mut place = 0f32;
    map_parameters(model, |name, shape| {
        let mut next = || {
            place += 1.0;
            scale * (place * 1.7).sin()
        };
        own(name).then(|| (0..shape.iter().product()).map(|_| next()).collect())
    })
}

fn logits(model: &BertForSequenceClassification, device: &Device) -> Tensor<2> {
    model.forward(batch(&[7, 7, 7], 7, 61, device), Mode::Eval)
}

/// Returns the weights of the sum of the logits, `[3, 3]`.
fn weights() -> Vec<f32> {
    (0..9).map(|i| (i as f32 * 2.3).cos()).collect()
}

fn write(path: &Path, tensors: &NamedTensors) {
    std::fs::create_dir_all(path.parent().expect("a folder")).unwrap();
    std::fs::write(path, named_tensors_to_bytes(tensors)).unwrap();
}

/// Returns the logits and the gradients of all trained parameters, by the library's names.
fn expected(
    model: &BertForSequenceClassification,
    device: &Device,
    published: impl Fn(&str) -> String,
) -> NamedTensors {
    let logits = logits(model, device);
    let weights = Tensor::<2>::from_data(TensorData::new(weights(), [3, 3]), device);
    let gradients = (logits.clone() * weights).sum().backward();
    let gradients = named_gradients(model, &gradients).into_iter();
    let mut expected: NamedTensors = gradients.map(|(name, tensor)| (published(&name), tensor)).collect();
    expected.insert("logits".into(), (vec![3, 3], values(logits)));
    expected
}

/// Writes a batch, and the weights of the logits in the loss.
fn write_batch(path: &Path, device: &Device) {
    let input = batch(&[7, 7, 7], 7, 61, device);
    let ints = |tensor: Tensor<2, burn::tensor::Int>| (tensor.dims().to_vec(), values(tensor.float()));
    write(
        path,
        &[
            ("input_ids", ints(input.input_ids)),
            ("input_mask", ints(input.input_mask)),
            ("segment_ids", ints(input.segment_ids)),
            ("weights", (vec![3, 3], weights())),
        ]
        .map(|(name, tensor)| (name.to_string(), tensor))
        .into(),
    );
}

#[test]
#[ignore = "needs Python with transformers 4.57, adapters and PEFT (BERT_PYTHON)"]
fn adapter_libraries_compute_the_same() {
    let dir = tempfile::tempdir().unwrap();
    let at = |name: &str| dir.path().join(name);
    let device = device().autodiff();
    let words = words();
    save_pretrained(&mut folder_sink(at("base")), &base(&device), &config(), Some(vocabulary(&words)))
        .unwrap();
    write_batch(&at("batch.safetensors"), &device);
    let bottleneck = |form, reduction_factor| AdapterConfig::Bottleneck { form, reduction_factor };
    for adapter in [
        bottleneck(BottleneckForm::Pfeiffer, 4.0),
        bottleneck(BottleneckForm::Houlsby, 5.0),
        bottleneck(BottleneckForm::Parallel, 2.0),
        AdapterConfig::Lora { rank: 3, alpha: 6.0 },
    ] {
        let form = adapter.name();
        let model = save_varied(&at(form).join("adapter"), "rte", adapter, &device);
        let published = |name: &str| match form {
            "lora" => {
                let name = name.replace(".lora.", ".").replace("classifier.", "classifier.modules_to_save.");
                format!("base_model.model.{name}")
            }
            _ => name
                .replace("adapter.down", "adapters.rte.adapter_down.0")
                .replace("adapter.up", "adapters.rte.adapter_up"),
        };
        write(&at(form).join("expected.safetensors"), &expected(&model, &device, published));
    }
    save_fused(&at("fusion"), &device);
    run_python("check_adapters.py", dir.path());
    check_adapters_of_the_libraries(dir.path(), &device);
}

/// Saves a model with an adapter whose values are far from the initial ones.
fn save_varied(
    path: &Path,
    name: &str,
    adapter: AdapterConfig,
    device: &Device,
) -> BertForSequenceClassification {
    let mut model = base(device);
    model.bert = model.bert.with_adapter(adapter, 3).unwrap();
    let model = varied(model, 0.3, is_adapter_parameter);
    let metadata = AdapterMetadata { name, base: "base" };
    adapter.save(&mut folder_sink(path), &model, &config(), metadata, vocabulary(&words())).unwrap();
    model
}

/// Saves two fused adapters in the folder `fusion`, with the expected outputs.
fn save_fused(dir: &Path, device: &Device) {
    let adapters: Vec<_> = [("one", 4.0), ("two", 3.0)]
        .map(|(name, reduction_factor)| {
            let path = dir.join("adapter/adapters").join(name);
            let adapter = AdapterConfig::Bottleneck { form: BottleneckForm::Pfeiffer, reduction_factor };
            save_varied(&path, name, adapter, device);
            read_adapter(&path).unwrap()
        })
        .into();
    // Larger values would leave the softmax at 0 and 1, and its gradient to rounding.
    let mut fused = base(device);
    fused.bert = fused.bert.with_fusion(&adapters, 0.0, 3).unwrap();
    let fused = varied(fused, 0.05, is_fusion_parameter);
    let metadata = AdapterMetadata { name: "one,two", base: "base" };
    let mut sink = folder_sink(dir.join("adapter"));
    save_fusion(&mut sink, &fused, &config(), metadata, vocabulary(&words())).unwrap();
    let published = |name: &str| name.replace(".fusion.", ".adapter_fusion_layer.one,two.");
    write(&dir.join("expected.safetensors"), &expected(&fused, device, published));
    let distance = fused.bert.fusion_distance().expect("a fusion");
    let distance: NamedTensors = [("regularization".to_string(), (vec![1], values(distance)))].into();
    write(&dir.join("regularization.safetensors"), &distance);
}

/// Checks adapters that the libraries saved, on our encoder.
fn check_adapters_of_the_libraries(dir: &Path, device: &Device) {
    for form in ["seq_bn", "double_seq_bn", "par_bn", "lora", "fusion"] {
        let theirs = dir.join(form).join("theirs");
        let model = match form {
            "fusion" => read_fusion(&theirs).and_then(|found| found.apply(base(device), 0.0)).unwrap(),
            _ => read_adapter(&theirs).and_then(|found| found.apply(base(device))).unwrap(),
        };
        let expected = &read_safetensors(&dir.join(form).join("theirs.safetensors")).unwrap()["logits"].1;
        let mut worst = Worst::default();
        worst.check("logits", &values(logits(&model, device)), expected, 0.0, 1e-5);
        worst.report(&format!("theirs, {form}"));
    }
}
