//! Every fused operation against the plain composition in f64: values, gradients, finite differences, odd
//! shapes, masks, large inputs, repetition and thread counts.
//!
//! An f64 tensor takes the plain path through the same public function, so that one closure is both the
//! operation under test and its reference.

use bert_kernels::adamw::{self, AdamW};
use bert_kernels::attention::{self, attention};
use bert_kernels::dense;
use bert_kernels::embeddings::{self, Tables};
use bert_kernels::gelu::{self, Gelu, bias_gelu};
use bert_kernels::layer_norm::{self, layer_norm, residual_layer_norm};
use bert_kernels::masked_lm::{self, masked_lm_nll};
use bert_kernels::masked_lm_scores::{self, masked_lm_scores};
use bert_kernels::self_attention::self_attention;
use bert_kernels::{Dropout, embeddings::embeddings};
use burn::tensor::{DType, Device, Int, Tensor, TensorData};

/// Numbers in -1 .. 1 from a congruential generator.
fn numbers(seed: u64, len: usize) -> Vec<f32> {
    let mut state = seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1;
    let mut next = || {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        ((state >> 40) as f32) / (1u64 << 23) as f32 - 1.0
    };
    (0..len).map(|_| next()).collect()
}

fn leaf(values: &[f32], dtype: DType) -> Tensor<1> {
    let wide: Vec<f64> = values.iter().map(|x| f64::from(*x)).collect();
    let device = Device::flex().autodiff();
    Tensor::from_data(TensorData::new(wide, [values.len()]), (&device, dtype)).require_grad()
}

fn host(x: Tensor<1>) -> Vec<f64> {
    x.into_data().iter::<f64>().collect()
}

fn ints<const D: usize>(values: &[usize], shape: [usize; D]) -> Tensor<D, Int> {
    let values: Vec<i64> = values.iter().map(|x| *x as i64).collect();
    Tensor::from_data(TensorData::new(values, shape), &Device::flex().autodiff())
}

/// The output, and the gradients of its product with fixed weights.
fn run(
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

fn close(name: &str, got: &[f64], want: &[f64], tolerance: f64) {
    assert_eq!(got.len(), want.len(), "{name}");
    // A gradient that is zero in theory (that of the keys' bias) is compared with 0.1.
    let scale = want.iter().fold(0.1f64, |scale, x| scale.max(x.abs()));
    for (i, (got, want)) in got.iter().zip(want).enumerate() {
        assert!((got - want).abs() <= tolerance * scale, "{name}[{i}]: {got} is not {want} (of {scale})");
    }
}

/// f32 against f64; f32 twice and on other thread counts; the directional derivative.
fn check(name: &str, op: &(dyn Fn(Vec<Tensor<1>>) -> Tensor<1> + Sync), inputs: &[Vec<f32>]) {
    let (value, gradients) = run(op, inputs, DType::F32);
    let (want, want_gradients) = run(op, inputs, DType::F64);
    close(name, &value, &want, 1e-5);
    for (i, (got, want)) in gradients.iter().zip(&want_gradients).enumerate() {
        close(&format!("{name}: gradient {i}"), got, want, 1e-5);
    }
    for threads in [1, 2, 3] {
        let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().unwrap();
        let again = pool.install(|| run(op, inputs, DType::F32));
        assert!(again == (value.clone(), gradients.clone()), "{name}: other bytes on {threads} threads");
    }
    // Without autodiff the value is the same.
    let inner = inputs.iter().map(|x| leaf(x, DType::F32).inner()).collect();
    assert_eq!(host(op(inner)), value, "{name}: another value without autodiff");
}

/// Central differences in f32 along one direction per input.
fn check_differences(name: &str, op: &dyn Fn(Vec<Tensor<1>>) -> Tensor<1>, inputs: &[Vec<f32>]) {
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

const ROWS_AND_WIDTHS: [(usize, usize); 8] =
    [(1, 1), (3, 1), (1, 3), (3, 17), (17, 127), (129, 129), (300, 128), (5, 4100)];

#[test]
fn bias_and_gelu() {
    for form in [Gelu::Erf, Gelu::Tanh] {
        for (rows, width) in ROWS_AND_WIDTHS {
            let op = |x: Vec<Tensor<1>>| {
                bias_gelu(x[0].clone().reshape([1, rows, width]), x[1].clone(), form).reshape([-1])
            };
            let x = numbers(1, rows * width).iter().map(|x| 4.0 * x).collect();
            let inputs = [x, numbers(2, width)];
            check(&format!("{form:?} {rows} {width}"), &op, &inputs);
            if rows * width < 3000 {
                check_differences(&format!("{form:?} {rows} {width}"), &op, &inputs);
            }
        }
        let large = [vec![-1e4, -100.0, -20.0, -9.0, 0.0, 9.0, 20.0, 1e4], vec![0.0; 8]];
        check("large", &|x| bias_gelu(x[0].clone().reshape([1, 8]), x[1].clone(), form).reshape([8]), &large);
    }
}

#[test]
fn layer_norm_alone() {
    for (rows, width) in ROWS_AND_WIDTHS {
        let op = |x: Vec<Tensor<1>>| {
            layer_norm(x[0].clone().reshape([rows, width]), x[1].clone(), x[2].clone(), 1e-12).reshape([-1])
        };
        if width > 1 {
            let inputs = [numbers(1, rows * width), numbers(2, width), numbers(3, width)];
            check(&format!("{rows} {width}"), &op, &inputs);
        }
    }
    // A row of one element has no variance: only beta is left.
    let one = layer_norm(leaf(&[5.0], DType::F32), leaf(&[2.0], DType::F32), leaf(&[3.0], DType::F32), 1e-12);
    assert_eq!(host(one), [3.0]);
}

#[test]
fn residual_dropout_and_layer_norm() {
    for dropout in [None, Dropout::new(12, 0.1), Dropout::new(13, 0.5)] {
        for (rows, width) in ROWS_AND_WIDTHS.into_iter().filter(|(_, width)| *width > 3) {
            let op = |x: Vec<Tensor<1>>| {
                let [a, residual] = [&x[0], &x[2]].map(|x| x.clone().reshape([rows, 1, width]));
                let affine = (x[3].clone(), x[4].clone());
                residual_layer_norm(a, x[1].clone(), residual, affine, 1e-12, dropout).reshape([-1])
            };
            let wide = |seed| numbers(seed, rows * width);
            let thin = |seed| numbers(seed, width);
            let inputs = [wide(1), thin(2), wide(3), thin(4), thin(5)];
            check(&format!("{rows} {width} {dropout:?}"), &op, &inputs);
            if rows * width < 3000 {
                check_differences(&format!("{rows} {width} {dropout:?}"), &op, &inputs);
            }
        }
    }
}

#[test]
fn attention_of_all_heads() {
    let shapes = [(1, 1, 1, 1), (2, 3, 3, 1), (3, 17, 2, 5), (2, 127, 2, 8), (1, 129, 1, 3), (5, 32, 4, 16)];
    for dropout in [None, Dropout::new(5, 0.1)] {
        for (batch, seq, heads, head) in shapes {
            let hidden = heads * head;
            // Padding from the right in every row but the last, which is nothing but padding.
            let mask: Vec<f32> = (0..batch * seq)
                .map(|i| if i / seq == batch - 1 || i % seq > seq - 1 - i / seq { -10_000.0 } else { 0.0 })
                .collect();
            let op = |x: Vec<Tensor<1>>| {
                let [query, key, value] = std::array::from_fn(|i| x[i].clone().reshape([batch, seq, hidden]));
                let bias = leaf(&mask, x[0].dtype()).detach().reshape([batch, 1, 1, seq]);
                attention([query, key, value], bias, heads, 1.0 / (head as f64).sqrt(), dropout).reshape([-1])
            };
            let n = batch * seq * hidden;
            let inputs = [numbers(1, n), numbers(2, n), numbers(3, n)];
            // In f32 a score has only 1e-3 left beside -10000: rows of padding alone are compared loosely.
            let (value, gradients) = run(&op, &inputs, DType::F32);
            let (want, want_gradients) = run(&op, &inputs, DType::F64);
            let (plain, plain_gradients) = {
                let plain = |x: Vec<Tensor<1>>| {
                    let [query, key, value] =
                        std::array::from_fn(|i| x[i].clone().reshape([batch, seq, hidden]));
                    let bias = leaf(&mask, DType::F32).detach().reshape([batch, 1, 1, seq]);
                    let scale = 1.0 / (head as f64).sqrt();
                    attention::plain([query, key, value], bias, heads, scale, dropout).reshape([-1])
                };
                run(&plain, &inputs, DType::F32)
            };
            let name = format!("{batch} {seq} {heads} {head} {dropout:?}");
            let real = (batch - 1) * seq * hidden;
            close(&name, &value[..real], &want[..real], 1e-5);
            close(&name, &value, &plain, 1e-3);
            for i in 0..3 {
                close(&name, &gradients[i][..real], &want_gradients[i][..real], 1e-5);
                close(&name, &gradients[i], &plain_gradients[i], 2e-3);
            }
            for threads in [1, 2, 3] {
                let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().unwrap();
                let again = pool.install(|| run(&op, &inputs, DType::F32));
                assert!(again == (value.clone(), gradients.clone()), "{name}: {threads} threads");
            }
            if n < 600 {
                // Differences of scores vanish beside -10000: here without the row of padding alone.
                let mask: Vec<f32> = (0..batch * seq)
                    .map(|i| if seq > 1 && i % seq == seq - 1 { -10_000.0 } else { 0.0 })
                    .collect();
                let op = |x: Vec<Tensor<1>>| {
                    let [query, key, value] =
                        std::array::from_fn(|i| x[i].clone().reshape([batch, seq, hidden]));
                    let bias = leaf(&mask, x[0].dtype()).detach().reshape([batch, 1, 1, seq]);
                    attention([query, key, value], bias, heads, 0.5, dropout).reshape([-1])
                };
                check(&name, &op, &inputs);
                check_differences(&name, &op, &inputs);
            }
        }
    }
}

#[test]
fn dense_product() {
    for (rows, input, output) in [
        (1, 1, 1),
        (3, 17, 5),
        (127, 129, 33),
        (600, 128, 512),
        (300, 512, 129),
        (4096, 64, 96),
        (4095, 17, 131),
        (33, 4096, 19),
        (257, 1021, 67),
    ] {
        let op = |x: Vec<Tensor<1>>| {
            let weight = x[1].clone().reshape([input, output]);
            dense::product(x[0].clone().reshape([1, rows, input]), weight).reshape([-1])
        };
        let name = format!("{rows} {input} {output}");
        check(&name, &op, &[numbers(1, rows * input), numbers(2, input * output)]);
    }
}

#[test]
fn self_attention_with_its_projections() {
    for (batch, seq, heads, head) in [(1, 1, 1, 1), (3, 17, 2, 5), (2, 127, 2, 64), (5, 33, 4, 16)] {
        for dropout in [None, Dropout::new(5, 0.1)] {
            let hidden = heads * head;
            let mask: Vec<f32> =
                (0..batch * seq).map(|i| if i % seq > seq / 2 { -10_000.0 } else { 0.0 }).collect();
            let op = |x: Vec<Tensor<1>>| {
                let bias = leaf(&mask, x[0].dtype()).detach().reshape([batch, 1, 1, seq]);
                let projections =
                    std::array::from_fn(|i| (x[1 + i].clone().reshape([hidden, hidden]), x[4 + i].clone()));
                let hidden = x[0].clone().reshape([batch, seq, hidden]);
                self_attention(hidden, projections, bias, heads, 0.25, dropout).reshape([-1])
            };
            let scale = 1.0 / (hidden as f32).sqrt();
            let mut inputs = vec![numbers(1, batch * seq * hidden)];
            inputs.extend((2..5).map(|i| numbers(i, hidden * hidden).iter().map(|w| w * scale).collect()));
            inputs.extend((5..8).map(|i| numbers(i, hidden)));
            let name = format!("{batch} {seq} {heads} {head} {dropout:?}");
            check(&name, &op, &inputs);
            if hidden < 20 && seq > 1 {
                check_differences(&name, &op, &inputs);
            }
        }
    }
}

#[test]
fn attention_with_large_scores() {
    let op = |x: Vec<Tensor<1>>| {
        let [query, key, value] = std::array::from_fn(|i| x[i].clone().reshape([1, 4, 2]));
        let bias = leaf(&[0.0; 4], x[0].dtype()).detach().reshape([1, 1, 1, 4]);
        attention([query, key, value], bias, 1, 1.0, None).reshape([-1])
    };
    let large = |seed| numbers(seed, 8).iter().map(|x| 30.0 * x).collect::<Vec<f32>>();
    let (value, gradients) = run(&op, &[large(1), large(2), large(3)], DType::F32);
    let (want, want_gradients) = run(&op, &[large(1), large(2), large(3)], DType::F64);
    close("large", &value, &want, 2e-4);
    for (got, want) in gradients.iter().zip(&want_gradients) {
        close("large", got, want, 2e-3);
    }
}

#[test]
fn three_embeddings() {
    for (batch, seq, hidden) in [(1, 1, 3), (3, 17, 5), (4, 127, 33), (2, 129, 128)] {
        for dropout in [None, Dropout::new(21, 0.1)] {
            let (vocabulary, positions) = (50, seq + 3);
            let ids: Vec<usize> = (0..batch * seq).map(|i| (i * 7 + i / 3) % vocabulary).collect();
            let segments: Vec<usize> = (0..batch * seq).map(|i| usize::from(i % seq > seq / 2)).collect();
            let op = |x: Vec<Tensor<1>>| {
                let table = |i: usize, rows: usize| x[i].clone().reshape([rows, hidden]);
                let tables = Tables {
                    word: table(0, vocabulary),
                    token_type: table(1, 2),
                    position: table(2, positions),
                };
                let (ids, segments) = (ints(&ids, [batch, seq]), ints(&segments, [batch, seq]));
                let affine = (x[3].clone(), x[4].clone());
                embeddings(tables, ids, segments, affine, 1e-12, dropout).reshape([-1])
            };
            let inputs = [
                numbers(1, vocabulary * hidden),
                numbers(2, 2 * hidden),
                numbers(3, positions * hidden),
                numbers(4, hidden),
                numbers(5, hidden),
            ];
            let name = format!("{batch} {seq} {hidden} {dropout:?}");
            check(&name, &op, &inputs);
            if hidden > 4 && seq < 20 {
                check_differences(&name, &op, &inputs);
            }
        }
    }
}

#[test]
fn masked_lm_loss() {
    for (n, hidden, vocab) in [(1, 1, 2), (3, 17, 127), (5, 3, 512), (129, 16, 1030), (17, 8, 9001)] {
        let labels: Vec<usize> = (0..n).map(|i| (i * 613 + vocab - 1) % vocab).collect();
        let op = |x: Vec<Tensor<1>>| {
            let table = x[1].clone().reshape([vocab, hidden]);
            masked_lm_nll(x[0].clone().reshape([n, hidden]), table, x[2].clone(), ints(&labels, [n]))
        };
        let inputs = [numbers(1, n * hidden), numbers(2, vocab * hidden), numbers(3, vocab)];
        check(&format!("{n} {hidden} {vocab}"), &op, &inputs);
        if n * hidden < 600 && vocab < 600 {
            check_differences(&format!("{n} {hidden} {vocab}"), &op, &inputs);
        }
        let large = [
            numbers(1, n * hidden).iter().map(|x| 40.0 * x).collect(),
            numbers(2, vocab * hidden),
            numbers(3, vocab).iter().map(|x| 100.0 * x).collect(),
        ];
        check(&format!("large {n} {hidden} {vocab}"), &op, &large);
    }
}

#[test]
fn a_table_that_is_used_twice() {
    // The word table embeds the tokens and projects onto the vocabulary: one gradient from both.
    for (batch, seq, hidden, vocab) in [(1, 1, 3, 4), (3, 17, 5, 50), (2, 33, 32, 1000)] {
        let tokens = batch * seq;
        let ids: Vec<usize> = (0..tokens).map(|i| (i * 7 + i / 3) % vocab).collect();
        let labels: Vec<usize> = (0..tokens).map(|i| (i * 5 + 1) % vocab).collect();
        let op = |x: Vec<Tensor<1>>| {
            let table = x[0].clone().reshape([vocab, hidden]);
            let rows = |i: usize, rows: usize| x[i].clone().reshape([rows, hidden]);
            let tables = Tables { word: table.clone(), token_type: rows(1, 2), position: rows(2, seq) };
            let affine = (x[3].clone(), x[4].clone());
            let segments = ints(&vec![1; tokens], [batch, seq]);
            let states = embeddings(tables, ints(&ids, [batch, seq]), segments, affine, 1e-12, None);
            masked_lm_nll(states.reshape([tokens, hidden]), table, x[5].clone(), ints(&labels, [tokens]))
        };
        let table = |seed, rows: usize| numbers(seed, rows * hidden);
        let inputs =
            [table(1, vocab), table(2, 2), table(3, seq), table(4, 1), table(5, 1), numbers(6, vocab)];
        let name = format!("{batch} {seq} {hidden} {vocab}");
        check(&name, &op, &inputs);
        if seq == 17 {
            check_differences(&name, &op, &inputs);
        }
    }
}

#[test]
fn masked_lm_scores_of_an_evaluation() {
    for (n, hidden, vocab) in [(1, 1, 2), (3, 17, 127), (129, 16, 1030), (40, 8, 9001)] {
        let inputs = |dtype| {
            let part = |seed, len| leaf(&numbers(seed, len), dtype).inner();
            let table = part(2, vocab * hidden).reshape([vocab, hidden]);
            (part(1, n * hidden).reshape([n, hidden]), table, part(3, vocab))
        };
        // Every other label is the greatest logit's, so that both answers occur.
        let (x, table, bias) = inputs(DType::F64);
        let best = (x.matmul(table.transpose()) + bias.unsqueeze::<2>()).argmax(1);
        let best: Vec<usize> = best.into_data().iter::<i64>().map(|i| i as usize).collect();
        let labels: Vec<usize> = (0..n).map(|i| if i % 2 == 0 { best[i] } else { i * 613 % vocab }).collect();
        let scores = |dtype| {
            let (x, table, bias) = inputs(dtype);
            let labels = ints(&labels, [n]).inner();
            masked_lm_scores(x, table, bias, labels).map(host)
        };
        let [nll, correct] = scores(DType::F32);
        let [want_nll, want_correct] = scores(DType::F64);
        close("nll", &nll, &want_nll, 1e-5);
        assert_eq!(correct, want_correct);
        assert!((0..n).step_by(2).all(|i| correct[i] == 1.0) && (n == 1 || correct.contains(&0.0)));
        for threads in [1, 2, 3] {
            let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().unwrap();
            assert_eq!(pool.install(|| scores(DType::F32)), [nll.clone(), correct.clone()]);
        }
    }
    // Of equal logits the first is the prediction, within a block of the vocabulary and across blocks.
    let device = Device::flex();
    let vocab = 1000;
    for f in [masked_lm_scores, masked_lm_scores::plain] {
        let zeros = |shape: [usize; 2]| Tensor::<2>::zeros(shape, &device);
        let labels = Tensor::from_ints([0, 1, 999], &device);
        let [nll, correct] = f(zeros([3, 4]), zeros([vocab, 4]), zeros([1, vocab]).reshape([vocab]), labels);
        assert_eq!(host(correct), [1.0, 0.0, 0.0]);
        close("nll", &host(nll), &[(vocab as f64).ln(); 3], 1e-6);
    }
}

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
            fused = adamw::update(fused, gradient.clone(), step);
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
    assert!((adamw::squared_norm(&tensors) / want - 1.0).abs() < 1e-12);
    assert!((adamw::plain_squared_norm(&tensors) / want - 1.0).abs() < 1e-5);
    assert_eq!(adamw::squared_norm(&[]), 0.0);
}

#[test]
fn shared_inputs_are_not_overwritten() {
    let device = Device::flex();
    let x = Tensor::<2>::from_data(TensorData::new(numbers(1, 12), [3, 4]), &device);
    let before = x.clone().into_data();
    let vector = |seed| Tensor::<1>::from_data(TensorData::new(numbers(seed, 4), [4]), &device);
    let affine = (vector(3), vector(4));
    let y = residual_layer_norm(x.clone(), vector(2), x.clone(), affine, 1e-12, Dropout::new(1, 0.5));
    let state = adamw::State { parameter: vector(5), first: vector(6), second: vector(6).abs() };
    let step = AdamW {
        beta1: 0.9,
        beta2: 0.999,
        epsilon: 1e-6,
        weight_decay: 0.0,
        corrections: None,
        gradient_scale: 1.0,
        learning_rate: 0.1,
    };
    let kept = state.clone();
    let updated = adamw::update(state, vector(7), step);
    let activated = bias_gelu(x.clone(), vector(8), Gelu::Erf);
    assert_ne!(activated.into_data(), before);
    x.into_data().assert_eq(&before, true);
    kept.parameter.clone().into_data().assert_eq(&vector(5).into_data(), true);
    assert_ne!(host(kept.parameter), host(updated.parameter));
    drop(y);
}

#[test]
fn views_are_taken_as_they_are() {
    let device = Device::flex().autodiff();
    let x = Tensor::<2>::from_data(TensorData::new(numbers(1, 60), [6, 10]), &device);
    let bias = leaf(&numbers(2, 6), DType::F32);
    let transposed = x.clone().transpose(); // [10, 6]
    let part = x.narrow(0, 2, 3).narrow(1, 1, 6); // [3, 6]
    for view in [transposed, part] {
        let got = bias_gelu(view.clone(), bias.clone(), Gelu::Erf);
        let want = gelu::plain(view, bias.clone(), Gelu::Erf);
        got.into_data().assert_approx_eq::<f32>(&want.into_data(), burn::tensor::Tolerance::absolute(1e-6));
    }
}

#[test]
fn gradient_checkpointing_takes_the_plain_path() {
    let device = Device::flex().autodiff().gradient_checkpointing();
    let vector =
        |seed| Tensor::<1>::from_data(TensorData::new(numbers(seed, 6), [6]), &device).require_grad();
    let x = vector(1);
    let y = bias_gelu(x.clone().reshape([2, 3]), vector(2).narrow(0, 0, 3), Gelu::Erf);
    let gradients = y.sum().backward();
    let want = {
        let x = leaf(&numbers(1, 6), DType::F32);
        let bias = leaf(&numbers(2, 6), DType::F32).narrow(0, 0, 3);
        let gradients = bias_gelu(x.clone().reshape([2, 3]), bias, Gelu::Erf).sum().backward();
        host(x.grad(&gradients).unwrap())
    };
    close("gradient", &host(x.grad(&gradients).unwrap()), &want, 1e-6);
}

#[test]
fn not_a_number_is_not_hidden() {
    // A step with NaN must be seen as one: the trainer refuses it.
    let broken = |len: usize| {
        let mut x = numbers(1, len);
        x[len / 2] = f32::NAN;
        leaf(&x, DType::F32)
    };
    let fine = |len: usize| leaf(&numbers(2, len), DType::F32);
    let has_nan = |x: Tensor<1>| host(x).iter().any(|x| x.is_nan());
    assert!(has_nan(bias_gelu(broken(40), fine(40), Gelu::Erf)));
    assert!(has_nan(bias_gelu(broken(40), fine(40), Gelu::Tanh)));
    assert!(has_nan(layer_norm(broken(40), fine(40), fine(40), 1e-12)));
    let bias = || leaf(&[0.0; 5], DType::F32).reshape([1, 1, 1, 5]);
    let shape = [1, 5, 8];
    let qkv = [broken(40).reshape(shape), fine(40).reshape(shape), fine(40).reshape(shape)];
    assert!(has_nan(attention(qkv, bias(), 2, 1.0, None).reshape([-1])));
    let nll = masked_lm_nll(
        broken(40).reshape([5, 8]),
        fine(24).reshape([3, 8]),
        fine(3),
        ints(&[0, 1, 2, 0, 1], [5]),
    );
    assert!(has_nan(nll));
    assert!(adamw::squared_norm(&[broken(40).inner()]).is_nan());
}

#[test]
fn plain_and_fused_agree_in_f32_as_well() {
    let n = 300;
    let x = || leaf(&numbers(1, n), DType::F32).reshape([3, 100]);
    let v = |seed| leaf(&numbers(seed, 100), DType::F32);
    let got = layer_norm(x(), v(2), v(3), 1e-12);
    let want = layer_norm::plain(x(), v(2), v(3), 1e-12);
    close("layer_norm", &host(got.reshape([-1])), &host(want.reshape([-1])), 1e-6);
    let nll = |f: fn(Tensor<2>, Tensor<2>, Tensor<1>, Tensor<1, Int>) -> Tensor<1>| {
        let table = leaf(&numbers(5, 700), DType::F32).reshape([7, 100]);
        host(f(x(), table, leaf(&numbers(6, 7), DType::F32), ints(&[0, 6, 3], [3])))
    };
    close("nll", &nll(masked_lm_nll), &nll(masked_lm::plain), 1e-6);
    let dropped = |fused: bool| {
        let table = |seed, rows: usize| leaf(&numbers(seed, rows * 4), DType::F32).reshape([rows, 4]);
        let tables = Tables { word: table(1, 5), token_type: table(2, 2), position: table(3, 6) };
        let affine = (leaf(&[1.0; 4], DType::F32), leaf(&[0.5; 4], DType::F32));
        let op = if fused { embeddings } else { embeddings::plain };
        let ids = ints(&[0, 1, 2, 3, 4, 0], [1, 6]);
        let y = op(tables, ids, ints(&[0, 0, 0, 1, 1, 1], [1, 6]), affine, 1e-12, Dropout::new(9, 0.5));
        host(y.reshape([-1]))
    };
    let (fused, plain) = (dropped(true), dropped(false));
    close("embeddings", &fused, &plain, 1e-5);
    // The masks are the same, element by element.
    assert!(fused.iter().zip(&plain).all(|(a, b)| (*a == 0.0) == (*b == 0.0)));
    assert!(fused.contains(&0.0));
}
