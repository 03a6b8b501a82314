//! AdamW and the global norm.

use bert_kernels::adamw::{self, AdamW};
use burn::tensor::{Device, Tensor, TensorData};

use crate::common::{FUSED, close, host, numbers};

#[test]
fn adamw_trajectories() {
    for (len, corrected, weight_decay) in
        [(1, false, 0.0), (3, true, 0.01), (127, false, 0.01), (40_000, true, 0.0)]
    {
        let device = Device::flex();
        let vector = |values: Vec<f32>| Tensor::<1>::from_data(TensorData::new(values, [len]), &device);
        let start = || adamw::State {
            parameter: vector(numbers(1, len)),
            first: vector(vec![0.0; len]),
            second: vector(vec![0.0; len]),
        };
        let (mut fused, mut plain) = (start(), start());
        for t in 1..=6 {
            let step = AdamW {
                beta1: 0.9,
                beta2: 0.999,
                epsilon: 1e-6,
                weight_decay,
                corrections: corrected.then(|| (1.0 - 0.9f64.powi(t), 1.0 - 0.999f64.powi(t))),
                gradient_scale: if t == 3 { 0.25 } else { 1.0 },
                learning_rate: 1e-3 * f64::from(t),
            };
            let gradient = vector(numbers(10 + t as u64, len));
            fused = adamw::update(FUSED, fused, gradient.clone(), step);
            plain = adamw::plain(plain, gradient, step);
        }
        close("parameter", &host(fused.parameter), &host(plain.parameter), 1e-6);
        close("first", &host(fused.first), &host(plain.first), 1e-6);
        close("second", &host(fused.second), &host(plain.second), 1e-6);
    }
}

#[test]
fn squared_norms() {
    let device = Device::flex();
    let vector =
        |seed, len: usize| Tensor::<1>::from_data(TensorData::new(numbers(seed, len), [len]), &device);
    let tensors = [vector(1, 1), vector(2, 129), vector(3, 40_001)];
    let want: f64 = tensors.iter().flat_map(|x| host(x.clone())).map(|x| x * x).sum();
    assert!((adamw::squared_norm(FUSED, &tensors) / want - 1.0).abs() < 1e-12);
    assert!((adamw::plain_squared_norm(&tensors) / want - 1.0).abs() < 1e-5);
    assert_eq!(adamw::squared_norm(FUSED, &[]), 0.0);
}

/// burn-flex sums tensors of 4,194,304 or more elements in an order that depends on the threads. The embedding table
/// here, 30,522 words of width 256, has 7.8 million.
#[test]
fn norms_of_large_tensors_do_not_depend_on_threads() {
    let len = 30_522 * 256;
    // Several seeds, because different orders may give the same sum.
    for seed in 1..=4 {
        let table = Tensor::<1>::from_data(TensorData::new(numbers(seed, len), [len]), &Device::flex());
        let norms = |threads: usize| {
            let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().unwrap();
            let tensors = [table.clone()];
            pool.install(|| [adamw::squared_norm(FUSED, &tensors), adamw::plain_squared_norm(&tensors)])
        };
        let one = norms(1);
        assert!((one[0] / one[1] - 1.0).abs() < 1e-6);
        for threads in [1, 2, 4, 1, 2, 4] {
            assert_eq!(norms(threads), one, "{threads} threads");
        }
    }
}
