//! Golden tensors, comparison relative to a scale, and small models.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use bert_model::{
    Architecture, BertConfig, BertForPreTraining, BertInput, LossNormalizer, NamedTensors, Preset,
    PretrainingInput, PretrainingLoss, PretrainingOutput, PretrainingTargets, cross_entropy,
    cross_entropy_sum,
};
use burn::module::{Module, ModuleVisitor, Param};
use burn::tensor::{Device, Gradients, Int, Tensor, TensorData};
use safetensors::SafeTensors;
use safetensors::tensor::Dtype;

/// Returns both losses, gathered from the logits. `BertForPreTraining::loss` computes them without a gather.
pub(crate) fn pretraining_loss(
    output: PretrainingOutput,
    targets: PretrainingTargets,
    normalizer: LossNormalizer,
) -> PretrainingLoss {
    let nll = cross_entropy(output.prediction_logits, targets.masked_lm_ids);
    // With the reference's guard against a batch without predictions.
    let masked_lm = (nll * targets.masked_lm_weights).sum().div_scalar(normalizer.masked_lm + 1e-5);
    let next_sentence = cross_entropy_sum(output.seq_relationship_logits, targets.next_sentence_labels)
        .div_scalar(normalizer.next_sentence.expect("pairs"));
    PretrainingLoss { total: masked_lm.clone() + next_sentence.clone(), masked_lm, next_sentence }
}

pub(crate) fn device() -> Device {
    Device::flex()
}

pub(crate) fn golden_folder(hidden_act: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/golden").join(hidden_act)
}

/// The tensors of one golden file, floats and integers.
pub(crate) struct Golden {
    pub(crate) floats: NamedTensors,
    pub(crate) ints: BTreeMap<String, (Vec<usize>, Vec<i32>)>,
}

impl Golden {
    pub(crate) fn read(hidden_act: &str, file: &str) -> Self {
        let bytes = std::fs::read(golden_folder(hidden_act).join(file)).unwrap();
        let tensors = SafeTensors::deserialize(&bytes).unwrap();
        let mut floats = NamedTensors::new();
        let mut ints = BTreeMap::new();
        for (name, view) in tensors.iter() {
            let words = view.data().chunks_exact(4).map(|b| <[u8; 4]>::try_from(b).unwrap());
            let shape = view.shape().to_vec();
            match view.dtype() {
                Dtype::F32 => {
                    floats.insert(name.into(), (shape, words.map(f32::from_le_bytes).collect()));
                }
                Dtype::I32 => {
                    ints.insert(name.into(), (shape, words.map(i32::from_le_bytes).collect()));
                }
                other => panic!("{name}: {other:?}"),
            }
        }
        Self { floats, ints }
    }

    pub(crate) fn float(&self, name: &str) -> &[f32] {
        &self.floats[name].1
    }

    pub(crate) fn int<const D: usize>(&self, name: &str, device: &Device) -> Tensor<D, Int> {
        let (shape, values) = &self.ints[name];
        Tensor::from_data(TensorData::new(values.clone(), shape.clone()), device)
    }

    pub(crate) fn input(&self, device: &Device) -> BertInput {
        BertInput {
            input_ids: self.int("input_ids", device),
            input_mask: self.int("input_mask", device),
            segment_ids: self.int("segment_ids", device),
        }
    }

    /// Returns the batch, including padded predictions, which have weight 0.
    pub(crate) fn pretraining(
        &self,
        device: &Device,
    ) -> (PretrainingInput, PretrainingTargets, LossNormalizer) {
        let weights = self.float("masked_lm_weights");
        let ids = &self.ints["masked_lm_ids"].1;
        let [batch, seq] = self.input(device).input_ids.dims();
        let per_row = ids.len() / batch;
        let places = self.ints["masked_lm_positions"].1.iter().enumerate();
        let flat: Vec<i32> = places.map(|(i, p)| (i / per_row * seq) as i32 + p).collect();
        let input = PretrainingInput {
            bert: self.input(device),
            masked_lm_positions: Tensor::from_data(flat.as_slice(), device),
        };
        let targets = PretrainingTargets {
            masked_lm_ids: Tensor::from_data(ids.as_slice(), device),
            masked_lm_weights: Tensor::from_data(weights, device),
            next_sentence_labels: self.int("next_sentence_labels", device),
        };
        let normalizer = LossNormalizer {
            masked_lm: weights.iter().map(|w| f64::from(*w)).sum(),
            next_sentence: Some(batch as f64),
        };
        (input, targets, normalizer)
    }
}

pub(crate) fn values<const D: usize>(tensor: Tensor<D>) -> Vec<f32> {
    tensor.into_data_as::<f32>().try_into_vec().unwrap()
}

pub(crate) fn scalar(tensor: Tensor<1>) -> f64 {
    f64::from(values(tensor)[0])
}

/// Returns the maximum difference, relative to the maximum expected magnitude or `floor`, whichever is greater.
pub(crate) fn error(got: &[f32], expected: &[f32], floor: f32) -> f64 {
    assert_eq!(got.len(), expected.len());
    assert!(got.iter().all(|x| x.is_finite()));
    let scale = expected.iter().fold(floor, |max, x| max.max(x.abs()));
    let pairs = got.iter().zip(expected);
    let worst = pairs.fold(0f64, |max, (a, b)| max.max((f64::from(*a) - f64::from(*b)).abs()));
    worst / f64::from(scale)
}

/// Collects errors and prints the maximum.
#[derive(Default)]
pub(crate) struct Worst(f64, String);

impl Worst {
    pub(crate) fn check(&mut self, name: &str, got: &[f32], expected: &[f32], floor: f32, tolerance: f64) {
        let error = error(got, expected, floor);
        assert!(error <= tolerance, "{name}: error {error:e} of its scale, allowed {tolerance:e}");
        if error >= self.0 {
            (self.0, self.1) = (error, name.into());
        }
    }

    pub(crate) fn report(&self, what: &str) {
        println!("{what}: maximum error {:.2e} of the tensor's scale, at {}", self.0, self.1);
    }
}

/// Returns every gradient by published name, in the published layout.
pub(crate) fn named_gradients<M: Module>(model: &M, gradients: &Gradients) -> NamedTensors {
    struct Collector<'a>(Vec<String>, &'a Gradients, NamedTensors);
    impl ModuleVisitor for Collector<'_> {
        fn enter_module(&mut self, name: &str, _: &str) {
            self.0.push(name.into());
        }
        fn exit_module(&mut self, _: &str, _: &str) {
            self.0.pop();
        }
        fn visit_float<const D: usize>(&mut self, param: &Param<Tensor<D>>) {
            let Some(gradient) = param.val().grad(self.1) else { return };
            let name = bert_model::hf_name(&self.0.join("."));
            let gradient = if bert_model::is_transposed(&name, D) { gradient.transpose() } else { gradient };
            let shape = gradient.dims().to_vec();
            self.2.insert(name, (shape, values(gradient)));
        }
    }
    let mut collector = Collector(vec![], gradients, NamedTensors::new());
    model.visit(&mut collector);
    collector.2
}

/// Returns the configuration of a small model with all parts and without dropout.
pub(crate) fn small_config() -> BertConfig {
    let mut config = BertConfig::preset(Preset::Tiny, 61);
    config.hidden_size = 24;
    config.num_attention_heads = 3;
    config.intermediate_size = 40;
    config.max_position_embeddings = 20;
    config.hidden_dropout_prob = 0.0;
    config.attention_probs_dropout_prob = 0.0;
    config.initializer_range = 0.2;
    config
}

pub(crate) fn small_model(config: &BertConfig) -> BertForPreTraining {
    BertForPreTraining::new(config, 5, &device())
}

/// Returns rows of `lengths` tokens, padded to `seq`, with ids that depend on row and position.
pub(crate) fn batch(lengths: &[usize], seq: usize, vocab: usize, device: &Device) -> BertInput {
    let place = |f: &dyn Fn(usize, usize) -> i32| {
        let rows = lengths.iter().enumerate();
        let values: Vec<i32> = rows
            .flat_map(|(row, length)| {
                (0..seq).map(move |i| if i < *length { f(row, i) } else { 0 }).collect::<Vec<_>>()
            })
            .collect();
        Tensor::from_data(TensorData::new(values, [lengths.len(), seq]), device)
    };
    BertInput {
        input_ids: place(&|row, i| (1 + (row * 31 + i * 7) % (vocab - 1)) as i32),
        input_mask: place(&|_, _| 1),
        segment_ids: place(&|_, i| (i >= 3) as i32),
    }
}

/// Runs a script of `tests/golden` on a folder, with the interpreter that the environment variable `BERT_PYTHON` names.
pub(crate) fn run_python(script: &str, dir: &Path) {
    let python = std::env::var("BERT_PYTHON").expect("this test needs BERT_PYTHON, a Python interpreter");
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/golden").join(script);
    let output = std::process::Command::new(python).arg(script).arg(dir).output().unwrap();
    println!("{}", String::from_utf8_lossy(&output.stdout));
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
}
