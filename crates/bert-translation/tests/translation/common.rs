//! Golden tensors, gradients by name, and small models.

use std::path::{Path, PathBuf};

use bert_model::{NamedTensors, Preset, is_transposed, named_parameters, read_safetensors};
use bert_translation::{Fusion, SourceBatch, TranslationConfig, TranslationModel, initialize};
use burn::module::{Module, ModuleVisitor, Param};
use burn::tensor::{Device, Gradients, Int, Tensor, TensorData};

pub(crate) const TOLERANCE: f32 = 1e-5;

pub(crate) fn golden(file: &str) -> NamedTensors {
    read_safetensors(&golden_path(file)).unwrap()
}

pub(crate) fn golden_path(file: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden").join(file)
}

pub(crate) fn tensor<const D: usize>(tensors: &NamedTensors, name: &str, device: &Device) -> Tensor<D> {
    let (shape, values) = &tensors[name];
    Tensor::from_data(TensorData::new(values.clone(), shape.clone()), device)
}

pub(crate) fn ids<const D: usize>(values: &[i32], shape: [usize; D], device: &Device) -> Tensor<D, Int> {
    Tensor::from_data(TensorData::new(values.to_vec(), shape), device)
}

pub(crate) fn values<const D: usize>(tensor: Tensor<D>) -> Vec<f32> {
    tensor.into_data_as::<f32>().try_into_vec().unwrap()
}

/// Compares values with golden ones, relative to the largest of these.
pub(crate) fn check(name: &str, got: &[f32], expected: &[f32]) {
    assert_eq!(got.len(), expected.len(), "{name}");
    let scale = expected.iter().fold(1.0f32, |most, value| most.max(value.abs()));
    for (got, expected) in got.iter().zip(expected) {
        assert!((got - expected).abs() <= TOLERANCE * scale, "{name}: {got} is not {expected}");
    }
}

struct GradientValues<'a>(&'a Gradients, Vec<Option<Vec<f32>>>);

impl ModuleVisitor for GradientValues<'_> {
    fn visit_float<const D: usize>(&mut self, param: &Param<Tensor<D>>) {
        let gradient = param.val().grad(self.0).map(values);
        self.1.push(gradient);
    }
}

/// Returns the published name and the gradient of every parameter, in the published layout.
pub(crate) fn named_gradients<M: Module>(
    model: &M,
    gradients: &Gradients,
) -> Vec<(String, Option<Vec<f32>>)> {
    let mut visitor = GradientValues(gradients, vec![]);
    model.visit(&mut visitor);
    let published = |((name, _, shape), gradient): ((String, _, Vec<usize>), Option<Vec<f32>>)| {
        let gradient = match shape[..] {
            // `[in, out]` in burn.
            [outputs, inputs] if is_transposed(&name, 2) => {
                gradient.map(|values| transpose(&values, inputs, outputs))
            }
            _ => gradient,
        };
        (name, gradient)
    };
    named_parameters(model).into_iter().zip(visitor.1).map(published).collect()
}

/// Transposes a matrix `[rows, columns]`.
fn transpose(values: &[f32], rows: usize, columns: usize) -> Vec<f32> {
    (0..values.len()).map(|at| values[at % rows * columns + at / rows]).collect()
}

pub(crate) fn config(fusion: Fusion) -> TranslationConfig {
    TranslationConfig {
        fusion,
        source_vocab_size: 11,
        target_vocab_size: 13,
        hidden_size: 16,
        intermediate_size: 40,
        num_attention_heads: 2,
        encoder_layers: 2,
        decoder_layers: 2,
        bert_hidden_size: if fusion == Fusion::None { 0 } else { 128 },
        max_length: 16,
        dropout_prob: 0.0,
        drop_net_prob: 0.0,
        label_smoothing: 0.1,
        layer_norm_eps: 1e-5,
        compute: Default::default(),
    }
}

/// A model with random weights; BERT is a new BERT-tiny with 20 tokens.
pub(crate) fn model(fusion: Fusion, device: &Device) -> TranslationModel {
    let bert = (fusion != Fusion::None).then(|| bert_model::BertConfig::preset(Preset::Tiny, 20));
    let mut model = TranslationModel::zeroed(&config(fusion), bert.as_ref(), device);
    model.bert = bert.map(|bert| bert_model::Architecture::new(&bert, 5, device));
    model.transformer = initialize(model.transformer, 7);
    model
}

/// Two sentences of five and three tokens, for both vocabularies.
pub(crate) fn source(fusion: Fusion, device: &Device) -> SourceBatch {
    let mask = ids(&[1, 1, 1, 1, 1, 1, 1, 1, 0, 0], [2, 5], device);
    let bert = (fusion != Fusion::None).then(|| bert_model::BertInput {
        input_ids: ids(&[2, 7, 19, 8, 3, 2, 12, 3, 0, 0], [2, 5], device),
        segment_ids: mask.zeros_like(),
        input_mask: mask.clone(),
    });
    let input_ids = ids(&[1, 5, 9, 2, 3, 4, 4, 10, 0, 0], [2, 5], device);
    SourceBatch { input_ids, input_mask: mask, bert }
}
