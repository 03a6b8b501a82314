//! AdamW and the global norm.

use bert_kernels::adamw::{self, AdamW, CHUNK, NormOrder};
use bert_kernels::host_values;
use burn::tensor::{Device, Tensor, TensorData};

use crate::common::{FUSED, PLAIN, close, host, numbers, squared_norm};

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
        let mut fused = start();
        let mut plain = start();
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
    assert!((squared_norm(FUSED, &tensors) / want - 1.0).abs() < 1e-12);
    assert!((squared_norm(PLAIN, &tensors) / want - 1.0).abs() < 1e-5);
    assert_eq!(squared_norm(FUSED, &[]), 0.0);
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
            pool.install(|| [squared_norm(FUSED, &tensors), squared_norm(PLAIN, &tensors)])
        };
        let one = norms(1);
        assert!((one[0] / one[1] - 1.0).abs() < 1e-6);
        for threads in [1, 2, 4, 1, 2, 4] {
            assert_eq!(norms(threads), one, "{threads} threads");
        }
    }
}

fn vector(seed: u64, len: usize) -> Tensor<1> {
    Tensor::from_data(TensorData::new(numbers(seed, len), [len]), &Device::flex())
}

/// Ranges that divide a tensor at multiples of a chunk.
fn parts(len: usize) -> Vec<std::ops::Range<usize>> {
    let bounds = [0, CHUNK, CHUNK, 4 * CHUNK, len];
    bounds.windows(2).map(|w| w[0]..w[1]).filter(|range| !range.is_empty()).collect()
}

#[test]
fn parts_have_the_norm_of_the_whole() {
    for compute in [FUSED, PLAIN] {
        let tensors = [vector(1, 5 * CHUNK + 77), vector(2, 6 * CHUNK), vector(3, 4 * CHUNK + 1)];
        let sums = tensors.each_ref().map(|x| {
            let parts: Vec<Tensor<1>> =
                parts(x.dims()[0]).into_iter().map(|range| x.clone().slice([range])).collect();
            adamw::chunk_squares(compute, &parts).concat()
        });
        let order = NormOrder::for_tensor(compute, &tensors[0]);
        let whole = squared_norm(compute, &tensors);
        assert_eq!(order.total(sums.iter().map(Vec::as_slice)).to_bits(), whole.to_bits());
    }
}

#[test]
fn updates_of_parts_are_the_update_of_the_whole() {
    let len = 5 * CHUNK + 77;
    let step = AdamW {
        beta1: 0.9,
        beta2: 0.999,
        epsilon: 1e-6,
        weight_decay: 0.01,
        corrections: Some((0.1, 0.001)),
        gradient_scale: 0.7,
        learning_rate: 1e-3,
    };
    for compute in [FUSED, PLAIN] {
        let state = |first: Tensor<1>, second| adamw::State { parameter: vector(1, len), first, second };
        let squares = vector(3, len).powi_scalar(2);
        let whole = adamw::update(compute, state(vector(2, len), squares.clone()), vector(4, len), step);
        let mut parameter = vector(1, len);
        for range in parts(len) {
            let part = |x: Tensor<1>| x.slice([range.clone()]);
            let state =
                adamw::State { parameter, first: part(vector(2, len)), second: part(squares.clone()) };
            let updated =
                adamw::Updates::new(compute).update_part(state, range.clone(), part(vector(4, len)), step);
            assert_eq!(host(updated.first), host(part(whole.first.clone())));
            assert_eq!(host(updated.second), host(part(whole.second.clone())));
            parameter = updated.parameter;
        }
        assert_eq!(host(parameter), host(whole.parameter));
    }
}

#[test]
fn host_values_of_a_part() {
    let x = vector(1, 10);
    let mut part = [0.0; 4];
    host_values::read(&x, 3..7, &mut part);
    assert_eq!(part, numbers(1, 10)[3..7]);
    let changed = host(host_values::write(x.clone(), 3, &[1.0, 2.0]));
    assert_eq!((changed[3], changed[4], changed[5]), (1.0, 2.0, host(x.clone())[5]));
    assert_ne!(host(x)[3], 1.0, "shared memory is not changed");
}
