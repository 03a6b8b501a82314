//! Compares operations with bf16 products, fused and composed of burn's own, with f64 in values and gradients, and
//! checks equal bytes on any number of threads.
//!
//! Every factor may have a relative error of 2^-8; the tolerances are a few times 2^-8, relative to the maximum
//! element.

use bert_kernels::attention::AttentionSettings;
use bert_kernels::feed_forward::feed_forward;
use bert_kernels::gelu::Gelu;
use bert_kernels::masked_lm_loss::masked_lm_nll;
use bert_kernels::self_attention::{Projection, QkvProjections, self_attention};
use bert_kernels::{
    Compute, Dropout, KernelContext, Kernels, PackedWeights, Precision, dense, has_bf16_instructions,
};
use burn::tensor::{DType, Device, Int, Tensor, TensorData};

const UNIT: f64 = 1.0 / 256.0;
/// The two implementations that round: the fused kernels and burn's operations.
const PATHS: [Kernels; 2] = [Kernels::Fused, Kernels::Plain];

type Operation<'a> = &'a (dyn Fn(Compute, Vec<Tensor<1>>) -> Tensor<1> + Sync);

fn numbers(seed: u64, len: usize) -> Vec<f64> {
    let mut state = seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1;
    let mut next = || {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        f64::from((state >> 40) as f32 / (1u64 << 23) as f32 - 1.0)
    };
    (0..len).map(|_| next()).collect()
}

fn leaf(values: &[f64], dtype: DType) -> Tensor<1> {
    let device = Device::flex().autodiff();
    Tensor::from_data(TensorData::new(values.to_vec(), [values.len()]), (&device, dtype)).require_grad()
}

fn host(x: Tensor<1>) -> Vec<f64> {
    x.into_data().iter::<f64>().collect()
}

/// Returns the output, and the gradients of the sum of the output times fixed weights, in the element type of the
/// inputs.
fn run(compute: Compute, operation: Operation, inputs: &[Vec<f64>], dtype: DType) -> Vec<Vec<f64>> {
    let leaves: Vec<_> = inputs.iter().map(|x| leaf(x, dtype)).collect();
    let output = operation(compute, leaves.clone());
    assert_eq!(output.dtype(), dtype);
    let weights = leaf(&numbers(99, output.dims()[0]), dtype).detach();
    let gradients = (output.clone() * weights).sum().backward();
    let gradient = |leaf: &Tensor<1>| {
        let gradient = leaf.grad(&gradients).expect("every input has one");
        assert_eq!(gradient.dtype(), dtype);
        host(gradient)
    };
    std::iter::once(host(output)).chain(leaves.iter().map(gradient)).collect()
}

/// Returns the maximum difference, relative to the maximum wanted element or 1, whichever is greater (the gradient of
/// the keys' bias is zero in theory).
fn error(got: &[f64], want: &[f64]) -> f64 {
    let scale = want.iter().fold(1f64, |scale, x| scale.max(x.abs()));
    assert_eq!(got.len(), want.len());
    got.iter().zip(want).fold(0.0f64, |worst, (got, want)| worst.max((got - want).abs())) / scale
}

fn check(name: &str, operation: Operation, inputs: &[Vec<f64>]) {
    let fused = |precision| Compute { kernels: Kernels::Fused, precision };
    let exact = run(fused(Precision::F32), operation, inputs, DType::F64);
    let full = run(fused(Precision::F32), operation, inputs, DType::F32);
    // f64 products are never rounded to bf16.
    assert!(run(fused(Precision::Bf16), operation, inputs, DType::F64) == exact, "{name}");
    for kernels in PATHS {
        let compute = Compute { kernels, precision: Precision::Bf16 };
        let rounded = run(compute, operation, inputs, DType::F32);
        let mut rounds = false;
        for (i, ((rounded, full), exact)) in rounded.iter().zip(&full).zip(&exact).enumerate() {
            let error_bf16 = error(rounded, exact);
            let error_f32 = error(full, exact);
            assert!(error_f32 < 1e-5, "{name} {i}: f32 is off by {error_f32}");
            assert!(error_bf16 < 4.0 * UNIT, "{name} {i}, {kernels:?}: bf16 is off by {error_bf16}");
            rounds |= error_bf16 > UNIT / 16.0;
        }
        assert!(rounds, "{name}, {kernels:?}: nothing was rounded to bf16");
        if kernels == Kernels::Fused {
            for threads in [1, 2, 3, 16] {
                let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().unwrap();
                let again = pool.install(|| run(compute, operation, inputs, DType::F32));
                assert!(again == rounded, "{name}: different bytes on {threads} threads");
            }
        }
    }
}

fn dense_layers() {
    for (rows, input, output) in [(1, 1, 1), (5, 17, 33), (65, 128, 96), (300, 100, 700)] {
        let inputs = [numbers(1, rows * input), numbers(2, input * output)];
        let operation = |compute: Compute, x: Vec<Tensor<1>>| {
            let (x, weight) = (x[0].clone().reshape([rows, input]), x[1].clone().reshape([input, output]));
            dense::product(compute, x, weight).reshape([rows * output])
        };
        check(&format!("dense {rows} x {input} x {output}"), &operation, &inputs);
    }
}

fn attention() {
    let batch = 3;
    let seq = 20;
    let hidden = 48;
    let heads = 3;
    let mut inputs = vec![numbers(1, batch * seq * hidden)];
    for i in 0..3 {
        inputs.push(numbers(2 + i, hidden * hidden).iter().map(|x| x / 4.0).collect());
        inputs.push(numbers(5 + i, hidden));
    }
    let operation = |compute: Compute, x: Vec<Tensor<1>>| {
        let [query, key, value] = [1, 3, 5].map(|i: usize| Projection {
            weight: x[i].clone().reshape([hidden, hidden]),
            bias: x[i + 1].clone().reshape([hidden]),
        });
        let bias = Tensor::zeros([batch, 1, 1, seq], (&Device::flex().autodiff(), x[0].dtype()));
        let states = x[0].clone().reshape([batch, seq, hidden]);
        let projections = QkvProjections { query, key, value };
        let dropout = Dropout::new(3, 0.1);
        let output = self_attention(
            compute,
            states,
            projections,
            bias,
            AttentionSettings { heads, scale: 0.25, dropout },
        );
        output.reshape([batch * seq * hidden])
    };
    check("attention", &operation, &inputs);
}

fn feed_forward_networks() {
    for (rows, input, wide, output) in [(1, 1, 1, 1), (5, 17, 33, 9), (300, 64, 530, 48)] {
        let scaled = |seed, len: usize, scale: f64| -> Vec<f64> {
            numbers(seed, len).iter().map(|x| x * scale).collect()
        };
        let inputs = [
            numbers(1, rows * input),
            scaled(2, input * wide, 1.0 / (input as f64).sqrt()),
            numbers(3, wide),
            scaled(4, wide * output, 1.0 / (wide as f64).sqrt()),
        ];
        let operation = |compute: Compute, x: Vec<Tensor<1>>| {
            let first = Projection { weight: x[1].clone().reshape([input, wide]), bias: x[2].clone() };
            let second = x[3].clone().reshape([wide, output]);
            let states = x[0].clone().reshape([rows, input]);
            feed_forward(compute, states, first, second, Gelu::Erf).reshape([rows * output])
        };
        check(&format!("feed-forward {rows} x {input} x {wide} x {output}"), &operation, &inputs);
    }
}

fn masked_lm() {
    let n = 37;
    let hidden = 40;
    let vocab = 1100;
    let inputs = [numbers(1, n * hidden), numbers(2, vocab * hidden), numbers(3, vocab)];
    let labels: Vec<i64> = (0..n as i64).map(|i| i * 29 % vocab as i64).collect();
    let operation = |compute: Compute, x: Vec<Tensor<1>>| {
        let labels =
            Tensor::<1, Int>::from_data(TensorData::new(labels.clone(), [n]), &Device::flex().autodiff());
        let states = x[0].clone().reshape([n, hidden]);
        let table = x[1].clone().reshape([vocab, hidden]);
        masked_lm_nll(compute, states, table, x[2].clone(), labels)
    };
    check("masked LM", &operation, &inputs);
}

#[test]
fn operations_with_bf16_products() {
    if !has_bf16_instructions() {
        println!("no AVX-512 BF16: burn's own operations run instead of the fused kernels");
    }
    dense_layers();
    attention();
    feed_forward_networks();
    masked_lm();
}

const HIDDEN: usize = 48;
const WIDE: usize = 600;

fn tensor(seed: u64, len: usize) -> Tensor<1> {
    let values: Vec<f32> = numbers(seed, len).iter().map(|x| *x as f32 / 4.0).collect();
    Tensor::from_data(TensorData::new(values, [len]), &Device::flex())
}

/// Returns the output of a layer for `rows` states of each of two sequences.
fn layer_output(ctx: KernelContext, weights: &[Tensor<2>], rows: usize) -> TensorData {
    let states = tensor(99, 2 * rows * HIDDEN).reshape([2, rows, HIDDEN]);
    let [query, key, value] = [0, 1, 2]
        .map(|i: usize| Projection { weight: weights[i].clone(), bias: tensor(50 + i as u64, HIDDEN) });
    let projections = QkvProjections { query, key, value };
    let bias = Tensor::zeros([2, 1, 1, rows], &Device::flex());
    let x = self_attention(
        ctx,
        states,
        projections,
        bias,
        AttentionSettings { heads: 3, scale: 0.25, dropout: None },
    );
    let x = dense::product(ctx, x, weights[3].clone());
    let first = Projection { weight: weights[4].clone(), bias: tensor(60, WIDE) };
    feed_forward(ctx, x, first, weights[5].clone(), Gelu::Erf).into_data()
}

/// Calls two layers in turn with cached weights, then changes the weights of one layer.
#[test]
fn cached_weights_do_not_change_bits() {
    let matrix = |seed, shape: [usize; 2]| tensor(seed, shape[0] * shape[1]).reshape::<2, _>(shape);
    let layer = |seed: u64| -> Vec<Tensor<2>> {
        let square = |i| matrix(seed + i, [HIDDEN, HIDDEN]);
        (0..4)
            .map(square)
            .chain([matrix(seed + 4, [HIDDEN, WIDE]), matrix(seed + 5, [WIDE, HIDDEN])])
            .collect()
    };
    for precision in [Precision::F32, Precision::Bf16] {
        let compute = Compute { kernels: Kernels::Fused, precision };
        let mut layers = [layer(100), layer(200)];
        let packed = [PackedWeights::default(), PackedWeights::default()];
        for rows in [20, 7, 130] {
            for (weights, packed) in layers.iter().zip(&packed) {
                let kept = layer_output(compute.with_packed_weights(packed), weights, rows);
                kept.assert_eq(&layer_output(compute.into(), weights, rows), true);
            }
            let before = layer_output(compute.into(), &layers[0], rows);
            layers[0] = layers[0].drain(..).map(|weight| weight.mul_scalar(1.5)).collect();
            let after = layer_output(compute.with_packed_weights(&packed[0]), &layers[0], rows);
            after.assert_eq(&layer_output(compute.into(), &layers[0], rows), true);
            assert!(before != after, "different weights give a different output");
        }
    }
}
