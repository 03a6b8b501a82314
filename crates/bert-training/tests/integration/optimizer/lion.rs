//! A third optimizer in one file: Lion (Chen et al., 2023, arXiv 2302.06675).
//!
//! ```text
//! u <- sign(b1 m + (1 - b1) g) ;  m <- b2 m + (1 - b2) g
//! p <- p - lr (u + decay p)
//! ```

use std::sync::Arc;

use bert_inference::checkpoint::OptimizerState;
use bert_kernels::adamw::Updates;
use bert_training::{
    Change, MicroBatchLoss, Optimizer, Parameter, Resume, StepSettings, TrainingRun, UpdateRule, train_step,
};
use burn::module::{Module, Param};
use burn::tensor::{Device, Tensor};
use serde_json::json;

#[derive(Debug)]
struct Lion {
    beta1: f64,
    beta2: f64,
    weight_decay: f64,
}

impl UpdateRule for Lion {
    fn states(&self) -> &'static [OptimizerState] {
        &[OptimizerState { name: "momentum", is_square: false }]
    }

    fn update(&self, _: &mut Updates, change: Change) -> Parameter {
        let Change { parameter, gradient, numbers } = change;
        let Parameter { value, owned, states } = parameter;
        let momentum = &states[0];
        let gradient = gradient * numbers.gradient_scale;
        let sign = (momentum.clone() * self.beta1 + gradient.clone() * (1.0 - self.beta1)).sign();
        let momentum = momentum.clone() * self.beta2 + gradient * (1.0 - self.beta2);
        let decay = if numbers.decays { self.weight_decay } else { 0.0 };
        let part = value.clone().slice([owned.clone()]);
        let part = part.clone() - (sign + part * decay) * numbers.learning_rate;
        Parameter { value: value.slice_assign([owned.clone()], part), owned, states: vec![momentum] }
    }
}

#[derive(Module, Debug)]
struct Weights {
    weight: Param<Tensor<1>>,
}

const GRADIENTS: [[f32; 2]; 6] =
    [[0.5, -0.25], [-0.3, 0.1], [0.2, 0.4], [-0.5, 0.3], [0.0, 0.1], [0.3, -0.3]];

fn start() -> (Weights, Optimizer) {
    let module = Weights { weight: Param::from_data([0.6f32, -0.8], &Device::flex().autodiff()) };
    let lion = Lion { beta1: 0.9, beta2: 0.99, weight_decay: 0.1 };
    let optimizer = Optimizer::with_rule(Arc::new(lion), 0.0, &module);
    (module, optimizer)
}

fn step(module: Weights, optimizer: &mut Optimizer, number: usize) -> Weights {
    let loss = |module: &Weights, gradient: &[f32; 2], _| {
        let weight = module.weight.val();
        let gradient = Tensor::from_data(*gradient, &weight.device());
        MicroBatchLoss::new((weight * gradient).sum(), vec![])
    };
    let settings = StepSettings { seed: 0, step: number as u64, learning_rate: 1e-2 };
    let (module, report) = train_step(module, optimizer, &[GRADIENTS[number]], loss, settings);
    report.unwrap();
    module
}

fn values(module: &Weights) -> Vec<f32> {
    module.weight.val().inner().into_data().iter::<f32>().collect()
}

/// The expected values are the equations computed in f64.
#[test]
fn lion_follows_its_equations() {
    let expected = [
        [0.589400000, -0.789200000],
        [0.598810600, -0.798410800],
        [0.588211789, -0.807612389],
        [0.597623578, -0.816804777],
        [0.607025954, -0.825987972],
        [0.596418928, -0.815161984],
    ];
    let (mut module, mut optimizer) = start();
    for (number, expected) in expected.into_iter().enumerate() {
        module = step(module, &mut optimizer, number);
        for (value, expected) in values(&module).into_iter().zip(expected) {
            assert!((f64::from(value) - expected).abs() < 3e-7, "step {number}: {value} is not {expected}");
        }
    }
}

#[test]
fn lion_keeps_four_bytes_per_element() {
    let (module, mut optimizer) = start();
    step(module, &mut optimizer, 0);
    let states = optimizer.snapshot().to_named_tensors();
    assert_eq!(states.keys().collect::<Vec<_>>(), ["momentum.weight"]);
    assert_eq!(Lion { beta1: 0.9, beta2: 0.99, weight_decay: 0.1 }.bytes_per_element(), 4);
}

#[test]
fn lion_resumes_from_a_checkpoint() {
    let folder = tempfile::tempdir().unwrap();
    let open = |resume| TrainingRun::open(folder.path(), resume, json!({ "seed": 1 }), &json!({})).unwrap();
    let (mut module, mut optimizer) = start();
    for number in 0..3 {
        module = step(module, &mut optimizer, number);
    }
    open(Resume::No).save(&module, &optimizer, 3, vec![]).unwrap();
    let (_, mut resumed) = start();
    open(Resume::Yes).restore(&mut resumed, &Device::flex()).unwrap();
    let mut again = module.clone();
    for number in 3..6 {
        module = step(module, &mut optimizer, number);
        again = step(again, &mut resumed, number);
    }
    assert_eq!(values(&again), values(&module));

    // AdamW has other states.
    let (module, _) = start();
    let mut adamw = Optimizer::new(Default::default(), &module);
    let error = open(Resume::Yes).restore(&mut adamw, &Device::flex()).unwrap_err().to_string();
    assert!(error.ends_with("unexpected tensor \"momentum.weight\""), "{error}");
}
