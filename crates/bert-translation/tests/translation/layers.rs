//! One fused layer of the encoder and of the decoder against `tests/golden/make_goldens.py`.

use bert_model::{LoadPolicy, Mode, NamedTensors, load_named_tensors};
use bert_translation::{
    Branches, DecoderLayer, EncoderLayer, Fusion, MaskedStates, TranslationConfig, causal_bias,
};
use burn::module::Module;
use burn::tensor::{Device, Tensor};

use crate::common::{check, config, golden, ids, named_gradients, tensor, values};

#[derive(Module, Debug)]
struct Layers {
    encoder: EncoderLayer,
    decoder: DecoderLayer,
}

fn layers(goldens: &NamedTensors, drop_net_prob: f64, device: &Device) -> Layers {
    let sizes =
        TranslationConfig { bert_hidden_size: 24, encoder_layers: 1, drop_net_prob, ..config(Fusion::Fused) };
    let layers = Layers {
        encoder: EncoderLayer::zeroed(&sizes, 0, device),
        decoder: DecoderLayer::zeroed(&sizes, 0, device),
    };
    let is_weight = |name: &str| name.starts_with("encoder.") || name.starts_with("decoder.");
    let weights = goldens.iter().filter(|(name, _)| is_weight(name));
    let weights = weights.map(|(name, tensor)| (name.clone(), tensor.clone())).collect();
    load_named_tensors(layers, weights, LoadPolicy::Exact).unwrap().0
}

/// Returns a mode in which both layers use these attentions.
fn mode(wanted: Branches) -> (f64, Mode) {
    if wanted == Branches::Both {
        return (0.0, Mode::train(0));
    }
    let drawn = |mode| [0, 1].map(|layer| Branches::draw(1.0, mode, layer));
    let seed = (0..).find(|&seed| drawn(Mode::train(seed)) == [wanted; 2]).unwrap();
    (1.0, Mode::train(seed))
}

fn masked(states: Tensor<3>, lengths: [usize; 2], device: &Device) -> MaskedStates {
    let [_, seq, _] = states.dims();
    let mask: Vec<i32> = lengths.iter().flat_map(|&n| (0..seq).map(move |at| i32::from(at < n))).collect();
    let bias = bert_model::layers::attention::attention_bias(ids(&mask, [2, seq], device));
    MaskedStates { states, bias }
}

#[test]
fn fused_layers_equal_pytorch_in_all_cases() {
    let device = Device::flex().autodiff();
    let goldens = golden("layers.safetensors");
    for (name, wanted) in
        [("both", Branches::Both), ("ordinary", Branches::Ordinary), ("bert", Branches::Bert)]
    {
        let (drop_net_prob, mode) = mode(wanted);
        let layers = layers(&goldens, drop_net_prob, &device);
        let input = |name: &str| tensor::<3>(&goldens, &format!("input.{name}"), &device).require_grad();
        let [source, target, memory, bert] = ["source", "target", "encoder", "bert"].map(input);
        let masked_bert = masked(bert.clone(), [7, 4], &device);
        let encoded =
            layers.encoder.forward(masked(source.clone(), [5, 3], &device), Some(&masked_bert), mode);
        let mut cache = layers.decoder.cache(&masked(memory.clone(), [5, 3], &device), Some(&masked_bert));
        let decoded = layers.decoder.forward(target.clone(), causal_bias(4, &device), &mut cache, mode);
        let weighted = |x: &Tensor<3>, name: &str| (x.clone() * tensor(&goldens, name, &device)).sum();
        let loss = weighted(&encoded, "weights.encoder") + weighted(&decoded, "weights.decoder");
        let gradients = loss.backward();
        check("encoded", &values(encoded), &goldens[&format!("{name}.encoded")].1);
        check("decoded", &values(decoded), &goldens[&format!("{name}.decoded")].1);
        let inputs = [("source", source), ("target", target), ("encoder", memory), ("bert", bert)];
        let input_gradients =
            inputs.map(|(name, x)| (format!("input.{name}"), x.grad(&gradients).map(values::<3>)));
        let all = input_gradients.into_iter().chain(named_gradients(&layers, &gradients));
        let mut checked = 0;
        for (parameter, gradient) in all {
            let expected = goldens.get(&format!("{name}.grad.{parameter}"));
            assert_eq!(gradient.is_some(), expected.is_some(), "{name}: {parameter}");
            if let (Some(gradient), Some((_, expected))) = (gradient, expected) {
                check(&format!("{name}: gradient of {parameter}"), &gradient, expected);
                checked += 1;
            }
        }
        assert!(checked >= 30, "{checked}");
    }
}
