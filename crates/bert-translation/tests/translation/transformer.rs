//! The Transformer without BERT against `torch.nn.Transformer`: `tests/golden/make_goldens.py`.

use bert_model::{LoadPolicy, Mode, NamedTensors, load_named_tensors};
use bert_translation::{Fusion, TargetBatch, TranslationModel};
use burn::tensor::{Device, Tensor};

use crate::common::{check, config, golden, ids, named_gradients, source, values};

fn transformer(goldens: &NamedTensors, device: &Device) -> TranslationModel {
    let model = TranslationModel::zeroed(&config(Fusion::None), None, device);
    let weights = goldens.iter().filter(|(name, _)| name.starts_with("transformer."));
    let weights = weights.map(|(name, tensor)| (name.clone(), tensor.clone())).collect();
    load_named_tensors(model, weights, LoadPolicy::Exact).unwrap().0
}

#[test]
fn logits_equal_torch_transformer() {
    let device = Device::flex();
    let goldens = golden("transformer.safetensors");
    let model = transformer(&goldens, &device);
    let encoded = model.encode(&source(Fusion::None, &device), Mode::Eval);
    let targets = ids(&[1, 12, 7, 3, 1, 9, 2, 0], [2, 4], &device);
    let mut caches = model.transformer.caches(&encoded);
    let hidden = model.transformer.decode(targets, 0, &mut caches, Mode::Eval);
    let logits = model.transformer.logits(hidden.reshape([8, 16]));
    check("logits", &values(logits), &goldens["logits"].1);
}

#[test]
fn loss_and_gradients_equal_torch_transformer() {
    let device = Device::flex().autodiff();
    let goldens = golden("transformer.safetensors");
    let model = transformer(&goldens, &device);
    let target = TargetBatch {
        input_ids: ids(&[1, 12, 7, 3, 1, 9, 2, 0], [2, 4], &device),
        positions: ids(&[0, 1, 2, 3, 4, 5], [6], &device),
        labels: ids(&[12, 7, 3, 8, 9, 2], [6], &device),
    };
    let loss = model.loss(&source(Fusion::None, &device), &target, Mode::train(3));
    let scalar = |x: &Tensor<1>| values(x.clone());
    check("loss", &scalar(&loss.smoothed), &goldens["loss"].1);
    check("cross-entropy", &scalar(&loss.cross_entropy), &goldens["cross_entropy"].1);
    let gradients = loss.smoothed.backward();
    let mut checked = 0;
    for (name, gradient) in named_gradients(&model, &gradients) {
        let gradient = gradient.unwrap_or_else(|| panic!("{name} has no gradient"));
        check(&format!("gradient of {name}"), &gradient, &goldens[&format!("grad.{name}")].1);
        checked += 1;
    }
    assert_eq!(checked, goldens.keys().filter(|name| name.starts_with("grad.")).count());
}
