//! Test inputs, and the comparison of an operation in f32 with the same operation in f64.

use bert_kernels::adamw::{self, NormOrder};
use bert_kernels::{Compute, Kernels, Precision};
use burn::tensor::{DType, Device, Int, Tensor, TensorData};

/// Fused kernels in f32.
pub(crate) const FUSED: Compute = Compute { kernels: Kernels::Fused, precision: Precision::F32 };
pub(crate) const PLAIN: Compute = Compute { kernels: Kernels::Plain, precision: Precision::F32 };

/// Returns numbers in `[-1, 1)` from a linear congruential generator.
pub(crate) fn numbers(seed: u64, len: usize) -> Vec<f32> {
    let mut state = seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1;
    let mut next = || {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        ((state >> 40) as f32) / (1u64 << 23) as f32 - 1.0
    };
    (0..len).map(|_| next()).collect()
}

pub(crate) fn leaf(values: &[f32], dtype: DType) -> Tensor<1> {
    let wide: Vec<f64> = values.iter().map(|x| f64::from(*x)).collect();
    let device = Device::flex().autodiff();
    Tensor::from_data(TensorData::new(wide, [values.len()]), (&device, dtype)).require_grad()
}

pub(crate) fn host(x: Tensor<1>) -> Vec<f64> {
    x.into_data().iter::<f64>().collect()
}

pub(crate) fn ints<const D: usize>(values: &[usize], shape: [usize; D]) -> Tensor<D, Int> {
    let values: Vec<i64> = values.iter().map(|x| *x as i64).collect();
    Tensor::from_data(TensorData::new(values, shape), &Device::flex().autodiff())
}

/// Returns the output, and the gradients of the sum of the output times fixed weights.
pub(crate) fn run(
    op: &dyn Fn(Vec<Tensor<1>>) -> Tensor<1>,
    inputs: &[Vec<f32>],
    dtype: DType,
) -> (Vec<f64>, Vec<Vec<f64>>) {
    let leaves: Vec<_> = inputs.iter().map(|x| leaf(x, dtype)).collect();
    let output = op(leaves.clone());
    let weights = leaf(&numbers(99, output.dims()[0]), dtype).detach();
    let gradients = (output.clone() * weights).sum().backward();
    (host(output), leaves.iter().map(|x| host(x.grad(&gradients).expect("every input has one"))).collect())
}

/// Returns the sum of the squares of all elements of all tensors, as the global norm adds them.
pub(crate) fn squared_norm(compute: Compute, tensors: &[Tensor<1>]) -> f64 {
    let order = tensors.first().map_or(NormOrder::Flat, |x| NormOrder::for_tensor(compute, x));
    order.total(adamw::chunk_squares(compute, tensors).iter().map(Vec::as_slice))
}

pub(crate) fn close(name: &str, got: &[f64], want: &[f64], tolerance: f64) {
    assert_eq!(got.len(), want.len(), "{name}");
    // A gradient that is zero in theory (the gradient of the keys' bias) is compared with 0.1.
    let scale = want.iter().fold(0.1f64, |scale, x| scale.max(x.abs()));
    for (i, (got, want)) in got.iter().zip(want).enumerate() {
        assert!((got - want).abs() <= tolerance * scale, "{name}[{i}]: {got} is not {want} (of {scale})");
    }
}

/// Compares f32 with f64, and f32 on several thread counts and without autodiff with f32.
pub(crate) fn check(name: &str, op: &(dyn Fn(Vec<Tensor<1>>) -> Tensor<1> + Sync), inputs: &[Vec<f32>]) {
    let (value, gradients) = run(op, inputs, DType::F32);
    let (want, want_gradients) = run(op, inputs, DType::F64);
    close(name, &value, &want, 1e-5);
    for (i, (got, want)) in gradients.iter().zip(&want_gradients).enumerate() {
        close(&format!("{name}: gradient {i}"), got, want, 1e-5);
    }
    for threads in [1, 2, 3, 16] {
        let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().unwrap();
        let again = pool.install(|| run(op, inputs, DType::F32));
        assert!(again == (value.clone(), gradients.clone()), "{name}: different bytes on {threads} threads");
    }
    // Without autodiff the value is the same.
    let inner = inputs.iter().map(|x| leaf(x, DType::F32).inner()).collect();
    assert_eq!(host(op(inner)), value, "{name}: different value without autodiff");
}

/// Compares the gradients with central differences in f32 along one random direction per input.
pub(crate) fn check_differences(name: &str, op: &dyn Fn(Vec<Tensor<1>>) -> Tensor<1>, inputs: &[Vec<f32>]) {
    let (value, gradients) = run(op, inputs, DType::F32);
    let weights = numbers(99, value.len());
    let step = 4e-3f32;
    for i in 0..inputs.len() {
        let direction = numbers(7 + i as u64, inputs[i].len());
        let loss = |sign: f32| -> f64 {
            let mut inputs = inputs.to_vec();
            for (x, d) in inputs[i].iter_mut().zip(&direction) {
                *x += sign * step * d;
            }
            let output = op(inputs.iter().map(|x| leaf(x, DType::F32)).collect());
            host(output).iter().zip(&weights).map(|(x, w)| x * f64::from(*w)).sum()
        };
        let slope = (loss(1.0) - loss(-1.0)) / (2.0 * f64::from(step));
        let want: f64 = gradients[i].iter().zip(&direction).map(|(g, d)| g * f64::from(*d)).sum();
        let scale: f64 = gradients[i].iter().map(|g| g * g).sum::<f64>().sqrt();
        assert!((slope - want).abs() < 5e-3 * scale.max(1e-2), "{name}: input {i}: {slope} is not {want}");
    }
}

/// Sizes of elementwise operations: one, odd sizes, and sizes of more than one block.
pub(crate) const ROWS_AND_WIDTHS: [(usize, usize); 8] =
    [(1, 1), (3, 1), (1, 3), (3, 17), (17, 127), (129, 129), (300, 128), (5, 4100)];
