//! The optimizer test of the minBERT assignment (neubig/minbert-assignment, `optimizer_test.py`), with the trainer's
//! own step.
//!
//! A linear layer without bias learns (x0 + x1, -x2) from 1,000 single samples. PyTorch's initial weights for seed 0
//! and the state of NumPy's `default_rng(0)` are constants here, so Python is not needed. The assignment's tolerance is
//! 1e-4 relative, 1e-6 absolute.

use std::collections::BTreeMap;

use bert_model::{LoadPolicy, load_named_tensors, to_named_tensors};
use bert_training::{MicroBatchLoss, Optimizer, OptimizerConfig, StepSettings, train_step};
use burn::nn::{Linear, LinearConfig};
use burn::tensor::{Device, Tensor};

const START: [f32; 6] =
    [-0.004_322_517_7, 0.309_715_84, -0.475_185_33, -0.424_894_6, -0.222_368_97, 0.154_820_53];
/// The expected weights, from `optimizer_test.npy`.
const END: [f32; 6] = [0.554_827_87, 0.866_656_66, 0.072_919_82, -0.447_245_06, -0.295_122_8, -0.271_727_2];

/// NumPy's PCG64 generator (XSL-RR) with seed 0.
struct Pcg64(u128);

impl Pcg64 {
    const INCREMENT: u128 = 87_136_372_517_582_989_555_478_159_403_783_844_777;
    const MULTIPLIER: u128 = 47_026_247_687_942_121_848_144_207_491_837_523_525;

    /// Returns a number uniform in [0, 1).
    fn next(&mut self) -> f64 {
        self.0 = self.0.wrapping_mul(Self::MULTIPLIER).wrapping_add(Self::INCREMENT);
        let folded = ((self.0 >> 64) as u64) ^ (self.0 as u64);
        let bits = folded.rotate_right((self.0 >> 122) as u32);
        (bits >> 11) as f64 / (1u64 << 53) as f64
    }
}

#[test]
fn linear_probe_matches_minbert() {
    let device = Device::flex().autodiff();
    let layer = LinearConfig::new(3, 2).with_bias(false).init(&device);
    let start = BTreeMap::from([("weight".to_string(), (vec![2, 3], START.to_vec()))]);
    let (mut layer, _) = load_named_tensors(layer, start, LoadPolicy::Exact).unwrap();
    let config = OptimizerConfig {
        epsilon: 1e-6,
        weight_decay: 1e-4,
        bias_correction: true,
        max_gradient_norm: 0.0,
        ..OptimizerConfig::default()
    };
    let mut optimizer = Optimizer::new(config, &layer);
    let mut random = Pcg64(35_399_562_948_360_463_058_890_781_895_381_311_971);
    for step in 0..1000 {
        let x: [f32; 3] = std::array::from_fn(|_| random.next() as f32);
        if step == 0 {
            assert_eq!(
                x,
                [0.636_961_687_321_454_3, 0.269_786_713_763_870_3, 0.040_973_523_936_194_69]
                    .map(|x: f64| x as f32)
            );
        }
        let loss = |layer: &Linear, x: &[f32; 3], _| {
            let row = |values: &[f32]| Tensor::<1>::from_data(values, &device).reshape([1, values.len()]);
            let error: Tensor<2> = layer.forward(row(x)) - row(&[x[0] + x[1], -x[2]]);
            MicroBatchLoss::new(error.powi_scalar(2).sum(), vec![])
        };
        let settings = StepSettings { seed: 0, step, learning_rate: 1e-3 };
        let (updated, report) = train_step(layer, &mut optimizer, &[x], loss, settings);
        report.unwrap();
        layer = updated;
    }
    let (_, end) = &to_named_tensors(&layer)["weight"];
    for (found, expected) in end.iter().zip(END) {
        assert!((found - expected).abs() <= 1e-6 + 1e-4 * expected.abs(), "{end:?}");
    }
}
