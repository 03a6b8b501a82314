//! Tests ten training steps without dropout with the reference's optimizer and with LAMB, through the trainer's own step.
//!
//! Goldens: `tests/golden/{gelu,gelu_new}/trajectory.safetensors` and `gelu/lamb_trajectory.safetensors` (`timm`'s LAMB),
//! made by
//! `tests/golden/make_transformers_goldens.py` (versions in `birth.json`). Tolerance: 1e-5 relative.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use bert_model::{
    Architecture, BertConfig, BertForPreTraining, BertInput, LoadPolicy, LossNormalizer, Mode,
    PretrainingInput, PretrainingTargets, load_named_tensors, read_safetensors, to_named_tensors,
};
use bert_training::{MicroBatchLoss, Optimizer, OptimizerConfig, OptimizerName, StepSettings, train_step};
use burn::tensor::{Device, Int, Tensor, TensorData};
use safetensors::SafeTensors;

fn golden(hidden_act: &str, file: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/golden").join(hidden_act).join(file)
}

struct Batch {
    tensors: BTreeMap<String, (Vec<usize>, Vec<[u8; 4]>)>,
}

impl Batch {
    fn read(path: &Path) -> Self {
        let bytes = std::fs::read(path).unwrap();
        let file = SafeTensors::deserialize(&bytes).unwrap();
        let words = |data: &[u8]| data.chunks_exact(4).map(|b| b.try_into().unwrap()).collect();
        let tensors =
            file.iter().map(|(name, view)| (name.to_string(), (view.shape().to_vec(), words(view.data()))));
        Self { tensors: tensors.collect() }
    }

    fn ints(&self, name: &str) -> Vec<i32> {
        self.tensors[name].1.iter().map(|b| i32::from_le_bytes(*b)).collect()
    }

    fn floats(&self, name: &str) -> Vec<f32> {
        self.tensors[name].1.iter().map(|b| f32::from_le_bytes(*b)).collect()
    }

    fn shape(&self, name: &str) -> &[usize] {
        &self.tensors[name].0
    }

    fn matrix(&self, name: &str, device: &Device) -> Tensor<2, Int> {
        Tensor::from_data(TensorData::new(self.ints(name), self.shape(name).to_vec()), device)
    }

    fn vector(&self, values: Vec<i32>, device: &Device) -> Tensor<1, Int> {
        let length = values.len();
        Tensor::from_data(TensorData::new(values, [length]), device)
    }

    fn loss(&self, model: &BertForPreTraining, mode: Mode, device: &Device) -> MicroBatchLoss {
        let seq = self.shape("input_ids")[1] as i32;
        let per_row = self.shape("masked_lm_positions")[1];
        let positions = self.ints("masked_lm_positions").into_iter().enumerate();
        let positions = positions.map(|(i, p)| (i / per_row) as i32 * seq + p).collect();
        let weights = self.floats("masked_lm_weights");
        let targets = weights.iter().sum::<f32>();
        let rows = self.shape("input_ids")[0];
        let input = PretrainingInput {
            bert: BertInput {
                input_ids: self.matrix("input_ids", device),
                input_mask: self.matrix("input_mask", device),
                segment_ids: self.matrix("segment_ids", device),
            },
            masked_lm_positions: self.vector(positions, device),
        };
        let length = weights.len();
        let targets_tensor = PretrainingTargets {
            masked_lm_ids: self.vector(self.ints("masked_lm_ids"), device),
            masked_lm_weights: Tensor::from_data(TensorData::new(weights, [length]), device),
            next_sentence_labels: self.vector(self.ints("next_sentence_labels"), device),
        };
        let normalizer = LossNormalizer { masked_lm: f64::from(targets), next_sentence: Some(rows as f64) };
        let loss = model.loss(input, targets_tensor, normalizer, mode);
        MicroBatchLoss::new(loss.total, vec![loss.masked_lm, loss.next_sentence])
    }
}

fn close(name: &str, got: f64, want: f64) {
    assert!((got - want).abs() <= 1e-5 * want.abs().max(1e-3), "{name}: {got} is not {want}");
}

fn follow(hidden_act: &str, file: &str, config_of_optimizer: OptimizerConfig) {
    let device = Device::flex().autodiff();
    let mut config = BertConfig::read(golden(hidden_act, "config.json")).unwrap();
    config.hidden_dropout_prob = 0.0;
    config.attention_probs_dropout_prob = 0.0;
    let model = BertForPreTraining::new(&config, 0, &device);
    let weights = read_safetensors(&golden(hidden_act, "model.safetensors")).unwrap();
    let (mut model, _) = load_named_tensors(model, weights, LoadPolicy::Exact).unwrap();
    let batch = Batch::read(&golden(hidden_act, file));
    let losses = batch.floats("losses");
    let norms = batch.floats("gradient_norms");
    let mut optimizer = Optimizer::new(config_of_optimizer, &model);
    for (step, learning_rate) in batch.floats("learning_rates").into_iter().enumerate() {
        let loss = |model: &BertForPreTraining, batch: &Batch, mode| batch.loss(model, mode, &device);
        let (updated, report) = train_step(
            model,
            &mut optimizer,
            std::slice::from_ref(&batch),
            loss,
            StepSettings { seed: 0, step: step as u64, learning_rate: f64::from(learning_rate) },
        );
        model = updated;
        let report = report.unwrap();
        let want = &losses[3 * step..3 * step + 3];
        close(&format!("loss {step}"), report.loss, f64::from(want[0]));
        close(&format!("masked LM loss {step}"), report.parts[0], f64::from(want[1]));
        close(&format!("next sentence loss {step}"), report.parts[1], f64::from(want[2]));
        close(&format!("gradient norm {step}"), report.gradient_norm, f64::from(norms[step]));
    }
    for (name, (_, values)) in to_named_tensors(&model) {
        let want = batch.floats(&format!("final.{name}"));
        let scale = want.iter().fold(1e-3f32, |most, x| most.max(x.abs()));
        // The gradient of a key's bias consists only of rounding errors, which Adam scales up to its step size.
        let tolerance = if name.ends_with("key.bias") { 1e-4 } else { 1e-5 };
        for (got, want) in values.iter().zip(&want) {
            assert!((got - want).abs() <= tolerance * scale, "{name}: {got} is not {want}");
        }
    }
}

#[test]
fn ten_losses_with_the_erf_gelu() {
    follow("gelu", "trajectory.safetensors", OptimizerConfig::default());
}

#[test]
fn ten_losses_with_the_tanh_gelu() {
    follow("gelu_new", "trajectory.safetensors", OptimizerConfig::default());
}

#[test]
fn ten_losses_with_lamb() {
    let lamb =
        OptimizerConfig { rule: OptimizerName::Lamb, bias_correction: true, ..OptimizerConfig::default() };
    follow("gelu", "lamb_trajectory.safetensors", lamb);
}
