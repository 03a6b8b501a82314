//! Tests the optimizer: trajectories and moments of AdamW, clipping, and sums of gradients.

use std::collections::BTreeMap;

use bert_inference::checkpoint::OptimizerValues;
use bert_inference::host_tensors;
use bert_kernels::{Compute, adamw};
use burn::module::{Module, Param};
use burn::tensor::{Device, Tensor};

use crate::gradients::gradient_sum::{GradientSum, Tensors};
use crate::optimizer::optimizer_args::{Schedule, ScheduleKind};
use crate::optimizer::sharded::decays_weight;
use crate::optimizer::{Optimizer, OptimizerConfig, StepGradients, Update};

#[derive(Module, Debug)]
struct Scalar {
    weight: Param<Tensor<1>>,
}

fn norm(gradients: &Tensors) -> f64 {
    let tensors: Vec<Tensor<1>> = gradients.iter().flatten().cloned().collect();
    adamw::chunk_squares(Compute::default(), &tensors).concat().iter().sum::<f64>().sqrt()
}

fn trajectory(bias_correction: bool, weight_decay: f64) -> Vec<f32> {
    let device = Device::flex().autodiff();
    let mut module = Scalar { weight: Param::from_data([1.0f32], &device) };
    let config = OptimizerConfig { bias_correction, weight_decay, ..OptimizerConfig::default() };
    let mut optimizer = Optimizer::new(config, &module);
    let schedule = Schedule { kind: ScheduleKind::Bert, peak: 1e-2, total_steps: 10, warmup_steps: 2.0 };
    let mut values = Vec::new();
    for (step, g) in [0.5f32, -0.25, 0.1, 0.4, -0.3, 0.2].into_iter().enumerate() {
        // The gradient of g * weight is g.
        let gradients = (module.weight.val() * g).sum().backward();
        let mut sum = GradientSum::default();
        sum.add(&module, [gradients]);
        let sum = sum.total();
        let norm = norm(&sum);
        assert!((norm - f64::from(g.abs())).abs() < 1e-6);
        let sum = StepGradients::complete(sum);
        module = optimizer.update(
            module,
            sum,
            Update { norm, learning_rate: schedule.learning_rate(step as u64) },
        );
        values.push(module.weight.val().into_scalar::<f32>());
    }
    values
}

// Golden trajectories: AdamWeightDecayOptimizer and the reference's schedule computed in f64 for p = 1, the
// gradients above, peak 1e-2, 10 steps, 2 of warm-up. Tolerance: f32 rounding.
#[test]
fn golden_trajectories() {
    let expected = [
        (false, 0.0, [1.0, 0.994341202, 0.981857659, 0.961061866, 0.95386169, 0.944591974]),
        (false, 0.01, [1.0, 0.994291202, 0.981728116, 0.960863602, 0.953605774, 0.944288378]),
        (true, 0.0, [1.0, 0.998668318, 0.996146377, 0.992324594, 0.991082523, 0.989551961]),
        (true, 0.01, [1.0, 0.998618318, 0.996016488, 0.992124983, 0.990823385, 0.989243281]),
    ];
    for (bias_correction, weight_decay, values) in expected {
        for (got, want) in trajectory(bias_correction, weight_decay).into_iter().zip(values) {
            assert!((f64::from(got) - want).abs() < 5e-7, "{got} is not {want}");
        }
    }
}

#[derive(Module, Debug)]
struct Two {
    early: Param<Tensor<1>>,
    late: Param<Tensor<1>>,
}

fn update_of(optimizer: &mut Optimizer, module: Two, loss: impl FnOnce(&Two) -> Tensor<1>) -> Two {
    let mut sum = GradientSum::default();
    sum.add(&module, [loss(&module).backward()]);
    optimizer.update(module, StepGradients::complete(sum.total()), Update { norm: 1.0, learning_rate: 1e-2 })
}

/// With bias correction, the first update of a parameter is about its learning rate, whenever its first gradient
/// arrives. A restored optimizer has the number of updates of each parameter.
#[test]
fn bias_correction_counts_updates_per_parameter() {
    let device = Device::flex().autodiff();
    let config = OptimizerConfig { bias_correction: true, weight_decay: 0.0, ..OptimizerConfig::default() };
    let param = || Param::from_data([1.0f32], &device);
    let mut module = Two { early: param(), late: param() };
    let mut optimizer = Optimizer::new(config, &module);
    for _ in 0..50 {
        module = update_of(&mut optimizer, module, |two| two.early.val() * 0.5);
    }
    let step = |optimizer: &mut Optimizer, module: Two| {
        let before = module.late.val().into_scalar::<f32>();
        let module = update_of(optimizer, module, |two| two.late.val() * 0.5);
        (before - module.late.val().into_scalar::<f32>(), module)
    };
    let (first, module) = step(&mut optimizer, module);
    assert!((first - 1e-2).abs() < 1e-5, "{first}");
    let [early, late] = ["early", "late"].map(String::from);
    assert_eq!(optimizer.fewer_updates(), BTreeMap::from([(early, 50), (late, 1)]));

    let mut again = Optimizer::new(config, &module);
    let mut moments = OptimizerValues::new();
    for (name, (_, values)) in optimizer.snapshot().to_named_tensors() {
        let (which, name) = name.split_once('.').unwrap();
        let entry = moments.entry(name.to_string()).or_insert_with(|| vec![Vec::new(); 2]);
        entry[usize::from(which == "second")] = values;
    }
    let fewer = optimizer.fewer_updates();
    again.restore(optimizer.updates(), &fewer, moments, &device.clone().inner()).unwrap();
    assert_eq!(step(&mut again, module.clone()).0, step(&mut optimizer, module).0);
}

#[test]
fn state_of_another_model_is_rejected() {
    #[derive(Module, Debug)]
    struct One {
        weight: Param<Tensor<1>>,
    }
    let device = Device::flex();
    let module = One { weight: Param::from_data([0.5f32, 0.5], &device) };
    let restored = |name: &str, length: usize| {
        let moments = OptimizerValues::from([(name.to_string(), vec![vec![0.0; length]; 2])]);
        let mut optimizer = Optimizer::new(OptimizerConfig::default(), &module);
        optimizer.restore(1, &BTreeMap::new(), moments, &device).map_err(|error| error.to_string())
    };
    assert!(restored("weight", 2).is_ok());
    let error = restored("weight", 1).unwrap_err();
    assert_eq!(error, "the optimizer state has 1 moments of weight, which has 2 elements");
    let error = restored("other", 2).unwrap_err();
    assert_eq!(error, "the optimizer state has moments of other, which is not a parameter of the model");
}

#[test]
fn decay_spares_layer_norm_and_biases() {
    assert!(decays_weight("bert.embeddings.word_embeddings.weight"));
    assert!(decays_weight("bert.encoder.layer.0.attention.self.query.weight"));
    assert!(!decays_weight("bert.encoder.layer.0.attention.self.query.bias"));
    assert!(!decays_weight("bert.embeddings.LayerNorm.weight"));
    assert!(!decays_weight("cls.predictions.bias"));
}

#[test]
fn clipping_is_over_all_parameters_together() {
    #[derive(Module, Debug)]
    struct Shapes {
        a: Param<Tensor<1>>,
        b: Param<Tensor<2>>,
    }
    let device = Device::flex().autodiff();
    let module = Shapes { a: Param::from_data([0.0f32], &device), b: Param::from_data([[0.0f32]], &device) };
    let loss = (module.a.val() * 3.0).sum() + (module.b.val() * 4.0).sum();
    let mut sum = GradientSum::default();
    sum.add(&module, [loss.backward()]);
    let sum = sum.total();
    assert!((norm(&sum) - 5.0).abs() < 1e-6);
    let mut optimizer = Optimizer::new(OptimizerConfig::default(), &module);
    let module =
        optimizer.update(module, StepGradients::complete(sum), Update { norm: 5.0, learning_rate: 0.0 });
    // The first moments are a tenth of the clipped gradients 3/5 and 4/5.
    let state = optimizer.snapshot().to_named_tensors();
    let first = |name: &str| state[&format!("first.{name}")].1[0];
    assert!((first("a") - 0.06).abs() < 1e-7 && (first("b") - 0.08).abs() < 1e-7);
    assert_eq!(module.a.val().into_scalar::<f32>(), 0.0);
}

/// Compares sums of 1 to 9 micro-batches with the explicit tree. In f32 a different order changes bits: 1e8 + 1 is 1e8.
#[test]
fn micro_batches_are_added_in_a_tree() {
    fn tree(values: &[f32]) -> f32 {
        match values {
            [value] => *value,
            _ => {
                let left = values.len().next_power_of_two() / 2;
                tree(&values[..left]) + tree(&values[left..])
            }
        }
    }
    let values = [1e8f32, 1.0, -1e8, 3.0, 7.0, 1e8, 5.0, -1e8, 11.0];
    let device = Device::flex().autodiff();
    let module = Scalar { weight: Param::from_data([1.0f32], &device) };
    for count in 1..=values.len() {
        let mut sum = GradientSum::default();
        for g in &values[..count] {
            sum.add(&module, [(module.weight.val() * *g).sum().backward()]);
        }
        let total: Vec<_> = sum.total().into_iter().map(|g| g.map(host_tensors::values)).collect();
        assert_eq!(total, [Some(vec![tree(&values[..count])])], "{count} micro-batches");
    }
}
