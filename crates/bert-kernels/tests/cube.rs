//! Compares the GPU kernels with burn's operations in f64 on the CPU: values and gradients, odd shapes, dropout.
//!
//! Needs the feature `cuda` and a card, or `wgpu` and a device. Mesa's lavapipe, a software Vulkan, is enough (Debian: `apt
//! install mesa-vulkan-drivers`).
#![cfg(any(feature = "cuda", feature = "wgpu"))]

use bert_kernels::adamw::{self, AdamW, State};
use bert_kernels::attention::{AttentionSettings, attention};
use bert_kernels::embeddings::{Tables, embeddings, gather};
use bert_kernels::feed_forward::feed_forward;
use bert_kernels::gelu::{Gelu, bias_gelu};
use bert_kernels::layer_norm::{LayerNormParameters, layer_norm, residual_layer_norm};
use bert_kernels::masked_lm_loss::masked_lm_nll;
use bert_kernels::self_attention::{Projection, QkvProjections, self_attention};
use bert_kernels::{Compute, Dropout, Kernels, Precision, dense, dropout};
use burn::tensor::{DType, Device, Int, Tensor, TensorData};

/// Returns the tolerance for matrix products in f32: on CUDA their factors are rounded to TF32. Measured on an
/// NVIDIA H200: 1.6e-3.
const fn product_tolerance(in_f32: f64) -> f64 {
    if cfg!(feature = "cuda") { 3e-3 } else { in_f32 }
}

type Operation<'a> = &'a dyn Fn(Compute, Vec<Tensor<1>>) -> Tensor<1>;

fn numbers(seed: u64, len: usize) -> Vec<f64> {
    let mut state = seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1;
    let mut next = || {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        f64::from((state >> 40) as f32 / (1u64 << 23) as f32 - 1.0)
    };
    (0..len).map(|_| next()).collect()
}

fn host(x: Tensor<1>) -> Vec<f64> {
    x.into_data().iter::<f64>().collect()
}

/// Returns the output, and the gradients of the sum of the output times fixed weights.
fn run(
    compute: Compute,
    operation: Operation,
    inputs: &[Vec<f64>],
    device: &Device,
    dtype: DType,
) -> Vec<Vec<f64>> {
    let device = device.clone().autodiff();
    let leaf = |values: &Vec<f64>| {
        let data = TensorData::new(values.clone(), [values.len()]);
        Tensor::<1>::from_data(data, (&device, dtype)).require_grad()
    };
    let leaves: Vec<_> = inputs.iter().map(leaf).collect();
    let output = operation(compute, leaves.clone());
    let weights = leaf(&numbers(99, output.dims()[0])).detach();
    let gradients = (output.clone() * weights).sum().backward();
    let gradient = |leaf: &Tensor<1>| host(leaf.grad(&gradients).expect("every input has one"));
    std::iter::once(host(output)).chain(leaves.iter().map(gradient)).collect()
}

fn check(gpu: &Device, name: &str, operation: Operation, inputs: &[Vec<f64>], tolerance: f64) {
    let want = run(Compute::default(), operation, inputs, &Device::flex(), DType::F64);
    for kernels in [Kernels::Fused, Kernels::Plain] {
        let compute = Compute { kernels, ..Compute::default() };
        let got = run(compute, operation, inputs, gpu, DType::F32);
        assert_close(&format!("{name}, {kernels:?}"), &got, &want, tolerance);
    }
}

fn assert_close(name: &str, got: &[Vec<f64>], want: &[Vec<f64>], tolerance: f64) {
    for (i, difference) in differences(got, want).into_iter().enumerate() {
        println!("{name} {i}: {difference:.1e}");
        assert!(difference <= tolerance, "{name} {i}: off by {difference}");
    }
}

/// Returns the maximum difference of each output, relative to its maximum or to 1.
fn differences(got: &[Vec<f64>], want: &[Vec<f64>]) -> Vec<f64> {
    let difference = |(got, want): (&Vec<f64>, &Vec<f64>)| {
        assert_eq!(got.len(), want.len());
        let scale = want.iter().fold(1f64, |scale, x| scale.max(x.abs()));
        let all = got.iter().zip(want).map(|(a, b)| (a - b).abs() / scale);
        // NaN is a difference too.
        all.fold(0f64, |worst, x| if x <= worst { worst } else { x })
    };
    got.iter().zip(want).map(difference).collect()
}

fn gelus(gpu: &Device) {
    for (rows, width) in [(1, 1), (3, 17), (40, 129), (129, 3), (16_500, 2)] {
        let inputs = [numbers(1, rows * width).iter().map(|x| 5.0 * x).collect(), numbers(2, width)];
        for form in [Gelu::Erf, Gelu::Tanh] {
            let operation = |compute: Compute, x: Vec<Tensor<1>>| {
                let y = bias_gelu(compute, x[0].clone().reshape([rows, width]), x[1].clone(), form);
                y.reshape([rows * width])
            };
            // The tanh form of the derivative would be off by 1e-3. burn's sum of many rows is off by 3e-6.
            let tolerance = if rows > 1000 { 1e-5 } else { 2e-6 };
            check(gpu, &format!("GELU {form:?} {rows} x {width}"), &operation, &inputs, tolerance);
        }
    }
}

fn masks(gpu: &Device) {
    for (key, len) in [(0, 7), (u64::MAX, 1000), (0x0123_4567_89AB_CDEF, 70_001)] {
        // The second mask begins inside of a word.
        let mask = Dropout::new(key, 0.3).expect("it drops");
        for mask in [mask, mask.after(6)] {
            let ones = Tensor::<1>::ones([len], gpu);
            let got: Vec<f32> = dropout::plain(ones, Some(mask)).into_data().iter::<f32>().collect();
            assert!(got == mask.mask(len), "the mask of {key} is another on the device");
        }
    }
}

fn layer_norms(gpu: &Device) {
    for (rows, width) in [(1, 2), (5, 33), (70, 128), (9, 300)] {
        let inputs = [numbers(1, rows * width), numbers(2, width), numbers(3, width)];
        let operation = |compute: Compute, x: Vec<Tensor<1>>| {
            let y = layer_norm(
                compute,
                x[0].clone().reshape([rows, width]),
                LayerNormParameters { gamma: x[1].clone(), beta: x[2].clone(), epsilon: 1e-6 },
            );
            y.reshape([rows * width])
        };
        check(gpu, &format!("LayerNorm {rows} x {width}"), &operation, &inputs, 1e-5);
        let inputs =
            [0, 1, 2, 3, 4].map(|i| numbers(i, if i % 2 == 0 && i < 4 { rows * width } else { width }));
        let operation = |compute: Compute, x: Vec<Tensor<1>>| {
            let grid = |i: usize| x[i].clone().reshape([rows, width]);
            let norm = LayerNormParameters { gamma: x[3].clone(), beta: x[4].clone(), epsilon: 1e-6 };
            let dropout = Dropout::new(7, 0.1);
            let y = residual_layer_norm(compute, [grid(0), grid(2)], x[1].clone(), norm, dropout);
            y.reshape([rows * width])
        };
        check(gpu, &format!("residual LayerNorm {rows} x {width}"), &operation, &inputs, 1e-5);
    }
}

/// Indices with frequent and missing rows: more rows of one index than a block has, at both ends of blocks.
fn gathers(gpu: &Device) {
    for (rows, width, ids) in [
        (1, 1, vec![0]),
        (5, 3, vec![4, 0, 0, 4, 2]),
        (7, 130, (0..200).map(|i| if i % 3 == 0 { 5 } else { (i * i) % 7 }).collect()),
        (40, 1, (0..333).map(|i| (i / 70) * 9 % 40).collect()),
        (40, 2, (0..1100).map(|i| i * i % 37).collect()),
    ] {
        let n = ids.len();
        let operation = |compute: Compute, x: Vec<Tensor<1>>| {
            let ids = Tensor::<1, Int>::from_data(TensorData::new(ids.clone(), [n]), &x[0].device());
            gather(compute, x[0].clone().reshape([rows, width]), ids).reshape([n * width])
        };
        check(gpu, &format!("rows {n} of {rows} x {width}"), &operation, &[numbers(1, rows * width)], 1e-6);
    }
}

/// Tables with more positions than a sequence has, of two widths.
fn embedding_sums(gpu: &Device) {
    for (batch, seq, hidden) in [(1, 1, 1), (3, 5, 8), (40, 30, 12)] {
        let inputs = [(1, 9 * hidden), (2, 2 * hidden), (3, 31 * hidden), (4, hidden), (5, hidden)];
        let inputs = inputs.map(|(seed, len)| numbers(seed, len));
        let operation = |compute: Compute, x: Vec<Tensor<1>>| {
            let table = |i: usize, rows: usize| x[i].clone().reshape([rows, hidden]);
            let tables = Tables { word: table(0, 9), token_type: table(1, 2), position: table(2, 31) };
            let ints = |modulus: i32| {
                let ids: Vec<i32> = (0..(batch * seq) as i32).map(|i| i * i % modulus).collect();
                Tensor::<2, Int>::from_data(TensorData::new(ids, [batch, seq]), &x[0].device())
            };
            let norm = LayerNormParameters { gamma: x[3].clone(), beta: x[4].clone(), epsilon: 1e-3 };
            let dropout = Dropout::new(3, 0.1);
            embeddings(compute, tables, [ints(9), ints(2)], norm, dropout).reshape([batch * seq * hidden])
        };
        check(gpu, &format!("embeddings {batch} x {seq} x {hidden}"), &operation, &inputs, 2e-5);
    }
}

/// Chunks of several lengths, with losses in the same transfer.
fn squares(gpu: &Device) {
    let lengths = [1, 100, adamw::CHUNK, 2 * adamw::CHUNK + 77];
    let tensors = |device: &Device| -> Vec<Tensor<1>> {
        let tensor = |&len: &usize| {
            let values: Vec<f32> = numbers(len as u64, len).iter().map(|&x| x as f32).collect();
            Tensor::from_data(TensorData::new(values, [len]), device)
        };
        lengths.iter().map(tensor).collect()
    };
    let want = adamw::chunk_squares(Compute::default(), &tensors(&Device::flex()));
    let losses = Tensor::<1>::from_floats([0.25, -3.0], gpu);
    let (got, losses) = adamw::chunk_squares_and(Compute::default(), &tensors(gpu), losses);
    assert_eq!(losses, [0.25, -3.0]);
    assert_eq!(got.iter().map(Vec::len).collect::<Vec<_>>(), [1, 1, 1, 3]);
    for (got, want) in got.iter().flatten().zip(want.iter().flatten()) {
        assert!((got - want).abs() < 1e-5 * want, "{got} is not {want}");
    }
}

fn attentions(gpu: &Device) {
    for (batch, seq, heads, head, probability) in [(1, 1, 1, 1, 0.0), (2, 9, 3, 4, 0.2), (3, 150, 2, 16, 0.1)]
    {
        let hidden = heads * head;
        let len = batch * seq * hidden;
        let inputs = [1, 2, 3].map(|seed| numbers(seed, len).iter().map(|x| 2.0 * x).collect());
        let operation = |compute: Compute, x: Vec<Tensor<1>>| {
            let states: [Tensor<3>; 3] = std::array::from_fn(|i| x[i].clone().reshape([batch, seq, hidden]));
            let bias = key_bias(batch, seq, &x[0]);
            attention(
                compute,
                states,
                bias,
                AttentionSettings { heads, scale: 0.3, dropout: Dropout::new(5, probability) },
            )
            .reshape([len])
        };
        check(
            gpu,
            &format!("attention {batch} x {seq} x {hidden}"),
            &operation,
            &inputs,
            product_tolerance(1e-5),
        );
    }
}

fn masked_lm_losses(gpu: &Device) {
    for (n, hidden, vocab) in [(1, 1, 1), (3, 7, 130), (70, 16, 1000)] {
        let inputs = [numbers(1, n * hidden), numbers(2, vocab * hidden), numbers(3, vocab)];
        let operation = |compute: Compute, x: Vec<Tensor<1>>| {
            let labels: Vec<i32> = (0..n as i32).map(|i| i * 7 % vocab as i32).collect();
            let labels = Tensor::<1, Int>::from_data(TensorData::new(labels, [n]), &x[0].device());
            let matrix = |i: usize, rows: usize| x[i].clone().reshape([rows, hidden]);
            masked_lm_nll(compute, matrix(0, n), matrix(1, vocab), x[2].clone(), labels)
        };
        check(
            gpu,
            &format!("masked LM {n} x {hidden} of {vocab}"),
            &operation,
            &inputs,
            product_tolerance(1e-5),
        );
    }
}

fn feed_forwards(gpu: &Device) {
    for (rows, width, wide, form) in [(1, 1, 1, Gelu::Erf), (70, 6, 21, Gelu::Tanh), (300, 12, 64, Gelu::Erf)]
    {
        let inputs =
            [numbers(1, rows * width), numbers(2, width * wide), numbers(3, wide), numbers(4, wide * width)];
        let operation = |compute: Compute, x: Vec<Tensor<1>>| {
            let matrix = |i: usize, shape: [usize; 2]| x[i].clone().reshape(shape);
            let first = Projection { weight: matrix(1, [width, wide]), bias: x[2].clone() };
            let y = feed_forward(compute, matrix(0, [rows, width]), first, matrix(3, [wide, width]), form);
            y.reshape([rows * width])
        };
        let name = format!("feed-forward {rows} x {width} x {wide}");
        check(gpu, &name, &operation, &inputs, product_tolerance(1e-5));
    }
}

/// Products, and attention with its projections, one operation on the device.
fn products(gpu: &Device) {
    for (rows, input, output) in [(1, 1, 1), (7, 33, 5), (130, 64, 70), (1024, 10, 6), (1026, 3, 4)] {
        let inputs = [numbers(1, rows * input), numbers(2, input * output)];
        let operation = |compute: Compute, x: Vec<Tensor<1>>| {
            let [x, weight] =
                [(0, [rows, input]), (1, [input, output])].map(|(i, shape)| x[i].clone().reshape(shape));
            dense::product(compute, x, weight).reshape([rows * output])
        };
        check(
            gpu,
            &format!("product {rows} x {input} x {output}"),
            &operation,
            &inputs,
            product_tolerance(1e-5),
        );
    }
    for (batch, seq, heads, head, probability) in [(1, 1, 1, 1, 0.0), (2, 9, 3, 4, 0.2), (3, 70, 2, 16, 0.1)]
    {
        let shape = [batch, seq, heads, head];
        let operation = self_attention_operation(shape, probability, key_bias);
        let name = format!("self-attention {batch} x {seq} x {}", heads * head);
        check(gpu, &name, &operation, &self_attention_inputs(shape, 1.0), PROJECTIONS);
    }
}

/// One block and several blocks of queries and keys, padding, dropout, the same bits twice. In bf16, on cards, the kernels are
/// compared with the products.
#[test]
fn attention_kernels_agree_with_burn() {
    let gpu = &gpu();
    let kernels = [Kernels::Fused, Kernels::FusedAttention, Kernels::FusedAttention];
    let precisions: &[_] =
        if cfg!(feature = "cuda") { &[Precision::F32, Precision::Bf16] } else { &[Precision::F32] };
    for (batch, seq, heads, probability) in [
        (1, 1, 1, 0.0),
        (3, 17, 2, 0.2),
        (3, 33, 1, 0.0),
        (4, 128, 2, 0.1),
        (3, 129, 1, 0.3),
        (2, 512, 1, 0.1),
    ] {
        let shape = [batch, seq, heads, 64];
        let operation = self_attention_operation(shape, probability, padding);
        let inputs = self_attention_inputs(shape, 0.2);
        let want = run(Compute::default(), &operation, &inputs, &Device::flex(), DType::F64);
        for &precision in precisions {
            let name = format!("attention kernel {batch} x {seq} x {heads} {precision:?}");
            let [products, got, again] = kernels
                .map(|kernels| run(Compute { kernels, precision }, &operation, &inputs, gpu, DType::F32));
            assert!(got == again, "{name}: other bits");
            assert!(seq == 1 || got != products, "{name}: products were computed");
            if precision == Precision::F32 {
                assert_close(&name, &got, &want, PROJECTIONS);
            }
            for (got, bound) in differences(&got, &want).iter().zip(differences(&products, &want)) {
                println!("{name}: {got:.1e}, products {bound:.1e}");
                assert!(*got <= 2.0 * bound + PROJECTIONS, "{name}: off by {got}, products by {bound}");
            }
        }
    }
    // Other heads, and longer rows.
    for shape in [[2, 9, 2, 32], [1, 513, 1, 64]] {
        let operation = self_attention_operation(shape, 0.1, padding);
        let inputs = self_attention_inputs(shape, 0.2);
        let [products, got, _] = kernels.map(|kernels| {
            run(Compute { kernels, ..Compute::default() }, &operation, &inputs, gpu, DType::F32)
        });
        assert!(got == products, "attention of {shape:?}");
    }
}

/// Tolerance of attention with its projections. The gradient of the key's bias is zero, so only its rounding errors are seen:
/// 4.6e-3 with TF32.
const PROJECTIONS: f64 = if cfg!(feature = "cuda") { 1e-2 } else { 5e-5 };

type KeyBias = fn(usize, usize, &Tensor<1>) -> Tensor<4>;

/// Returns tokens, three weights and three biases for a shape of batch, length, heads and their columns.
fn self_attention_inputs([batch, seq, heads, head]: [usize; 4], scale: f64) -> Vec<Vec<f64>> {
    let hidden = heads * head;
    let weights = [2, 3, 4].map(|seed| numbers(seed, hidden * hidden).iter().map(|x| scale * x).collect());
    let biases = [5, 6, 7].map(|seed| numbers(seed, hidden));
    std::iter::once(numbers(1, batch * seq * hidden)).chain(weights).chain(biases).collect()
}

fn self_attention_operation(
    [batch, seq, heads, head]: [usize; 4],
    probability: f64,
    key_bias: KeyBias,
) -> impl Fn(Compute, Vec<Tensor<1>>) -> Tensor<1> {
    let hidden = heads * head;
    move |compute, x| {
        let projection =
            |i: usize| Projection { weight: x[i].clone().reshape([hidden, hidden]), bias: x[3 + i].clone() };
        let projections = QkvProjections { query: projection(1), key: projection(2), value: projection(3) };
        let states = x[0].clone().reshape([batch, seq, hidden]);
        let settings = AttentionSettings { heads, scale: 0.3, dropout: Dropout::new(5, probability) };
        let bias = key_bias(batch, seq, &x[0]);
        self_attention(compute, states, projections, bias, settings)
            .reshape([batch * seq * hidden])
            .cast(x[0].dtype())
    }
}

/// Returns the bias of keys of rows with all tokens, a third, one, all, and so on.
fn padding(batch: usize, seq: usize, like: &Tensor<1>) -> Tensor<4> {
    let tokens = |row: usize| [seq, seq.div_ceil(3), 1][row % 3];
    bias_where(batch, seq, like, |i| i % seq >= tokens(i / seq))
}

/// Returns the bias of keys: the last of each row is padding, except in rows of one key.
fn key_bias(batch: usize, seq: usize, like: &Tensor<1>) -> Tensor<4> {
    bias_where(batch, seq, like, |i| seq > 1 && i % seq == seq - 1)
}

fn bias_where(batch: usize, seq: usize, like: &Tensor<1>, is_padding: impl Fn(usize) -> bool) -> Tensor<4> {
    let bias = (0..batch * seq).map(|i| if is_padding(i) { -10_000.0 } else { 0.0 });
    let bias = TensorData::new(bias.collect::<Vec<f64>>(), [batch, 1, 1, seq]);
    Tensor::from_data(bias, (&like.device(), like.dtype()))
}

fn updates(gpu: &Device) {
    for (corrections, weight_decay) in [(None, 0.01), (Some((0.1, 0.001)), 0.0)] {
        let step = AdamW {
            beta1: 0.9,
            beta2: 0.999,
            epsilon: 1e-6,
            weight_decay,
            corrections,
            gradient_scale: 0.7,
            learning_rate: 1e-2,
        };
        // Parameters of several lengths share a launch.
        let run = |device: &Device, dtype: DType| {
            let tensor = |values: Vec<f64>| {
                let len = values.len();
                Tensor::<1>::from_data(TensorData::new(values, [len]), (device, dtype))
            };
            let mut updates = adamw::Updates::new(Compute::default());
            let lengths = [5000, 1, 1024, 3, 130, 2049, 70];
            let states = lengths.map(|len| {
                let second = numbers(3, len).iter().map(|x| x * x).collect();
                let state = State {
                    parameter: tensor(numbers(1, len)),
                    first: tensor(numbers(2, len)),
                    second: tensor(second),
                };
                updates.update_part(state, 0..len, tensor(numbers(4, len)), step)
            });
            drop(updates);
            states.map(|State { parameter, first, second }| [parameter, first, second].map(host).concat())
        };
        let want = run(&Device::flex(), DType::F64);
        for (i, (got, want)) in run(gpu, DType::F32).iter().zip(&want).enumerate() {
            for (got, want) in got.iter().zip(want) {
                assert!((got - want).abs() < 1e-5 * want.abs().max(1.0), "AdamW {i}: {got} is not {want}");
            }
        }
    }
}

#[cfg(feature = "cuda")]
fn gpu() -> Device {
    Device::cuda(0)
}

#[cfg(not(feature = "cuda"))]
fn gpu() -> Device {
    Device::wgpu(burn::tensor::DeviceKind::DefaultDevice)
}

#[test]
fn kernels_agree_with_burn() {
    let gpu = gpu();
    gelus(&gpu);
    masks(&gpu);
    layer_norms(&gpu);
    gathers(&gpu);
    embedding_sums(&gpu);
    squares(&gpu);
    attentions(&gpu);
    products(&gpu);
    feed_forwards(&gpu);
    masked_lm_losses(&gpu);
    updates(&gpu);
}
