//! Compares plain and fused operations one by one, forward and backward, in the sizes of one training step.
//!
//! `cargo bench -p bert-kernels --profile dev [-- batch seq hidden heads]` (default, BERT-tiny: 32 128 128
//! 2). The two paths alternate in one process. Prints the median times in milliseconds and their ratio.

use std::time::Instant;

use bert_kernels::attention::{AttentionSettings, attention};
use bert_kernels::embeddings::{Tables, embeddings};
use bert_kernels::gelu::{Gelu, bias_gelu};
use bert_kernels::layer_norm::{LayerNormParameters, residual_layer_norm};
use bert_kernels::masked_lm_loss::masked_lm_nll;
use bert_kernels::self_attention::{Projection, QkvProjections, self_attention};
use bert_kernels::{Compute, Dropout, Kernels, adamw, dense};
use burn::tensor::{Device, Distribution, Int, Tensor, TensorData};
use rayon::prelude::*;

const ROUNDS: usize = 15;

/// The sizes of a step, and random inputs of these sizes.
#[derive(Clone, Copy)]
struct Step {
    batch: usize,
    seq: usize,
    hidden: usize,
    heads: usize,
}

const VOCABULARY: usize = 30_522;

fn main() {
    let mut sizes = std::env::args().skip(1).filter_map(|argument| argument.parse::<usize>().ok());
    let mut size = |default| sizes.next().unwrap_or(default);
    let batch = size(32);
    let seq = size(128);
    let hidden = size(128);
    let heads = size(2);
    println!("batch {batch}, seq {seq}, hidden {hidden}, heads {heads}; milliseconds, forward + backward");
    println!("{:28}{:>10}{:>10}{:>8}", "operation", "plain", "fused", "ratio");
    let step = Step { batch, seq, hidden, heads };
    step.layers();
    step.embeddings_and_loss();
    optimizer(VOCABULARY * hidden);
}

fn random(shape: &[usize]) -> Tensor<1> {
    let n = shape.iter().product::<usize>();
    Tensor::<1>::random([n], Distribution::Normal(0.0, 1.0), &Device::flex().autodiff()).require_grad()
}

fn ids(n: usize, below: usize) -> Tensor<1, Int> {
    let ids = (0..n).map(|i| (i * 7919 % below) as i64).collect();
    Tensor::from_data(TensorData::new(ids, [n]), &Device::flex().autodiff())
}

impl Step {
    fn layers(self) {
        let Self { batch, seq, hidden, heads } = self;
        let dropout = Dropout::new(1, 0.1);
        let wide = random(&[batch, seq, 4 * hidden]);
        let wide_bias = random(&[4 * hidden]);
        for form in [Gelu::Erf, Gelu::Tanh] {
            compare(&format!("bias + GELU ({form:?})"), |compute| {
                let x = wide.clone().reshape([batch, seq, 4 * hidden]) * 1.0;
                backward(bias_gelu(compute, x, wide_bias.clone(), form));
            });
        }
        let states: [Tensor<1>; 3] = std::array::from_fn(|_| random(&[batch, seq, hidden]));
        let state = |i: usize| states[i].clone().reshape([batch, seq, hidden]) * 1.0;
        let vectors: [Tensor<1>; 3] = std::array::from_fn(|_| random(&[hidden]));
        compare("residual + LayerNorm", |compute| {
            let norm =
                LayerNormParameters { gamma: vectors[1].clone(), beta: vectors[2].clone(), epsilon: 1e-12 };
            backward(residual_layer_norm(compute, [state(0), state(1)], vectors[0].clone(), norm, dropout));
        });
        let bias = Tensor::<4>::zeros([batch, 1, 1, seq], &Device::flex().autodiff());
        compare("attention", |compute| {
            backward(attention(
                compute,
                std::array::from_fn(state),
                bias.clone(),
                AttentionSettings { heads, scale: 0.125, dropout },
            ));
        });
        let weights: [Tensor<1>; 3] =
            std::array::from_fn(|_| (random(&[hidden, hidden]) * 0.05).detach().require_grad());
        compare("projections + attention", |compute| {
            let [query, key, value] = std::array::from_fn(|i| Projection {
                weight: weights[i].clone().reshape([hidden, hidden]),
                bias: vectors[i].clone(),
            });
            let projections = QkvProjections { query, key, value };
            backward(self_attention(
                compute,
                state(0),
                projections,
                bias.clone(),
                AttentionSettings { heads, scale: 0.125, dropout },
            ));
        });
        let wide_weight = random(&[hidden, 4 * hidden]);
        compare("dense, hidden -> 4 hidden", |compute| {
            backward(dense::product(compute, state(0), wide_weight.clone().reshape([hidden, 4 * hidden])));
        });
    }

    fn embeddings_and_loss(self) {
        let Self { batch, seq, hidden, .. } = self;
        let vocab = VOCABULARY;
        let predictions = batch * 20;
        let dropout = Dropout::new(1, 0.1);
        let vectors: [Tensor<1>; 2] = std::array::from_fn(|_| random(&[hidden]));
        let word = random(&[vocab, hidden]);
        let types = random(&[2, hidden]);
        let positions = random(&[512, hidden]);
        let tokens = ids(batch * seq, vocab);
        let segments = ids(batch * seq, 2);
        compare("embeddings", |compute| {
            let table = |x: &Tensor<1>, rows: usize| x.clone().reshape([rows, hidden]);
            let tables = Tables {
                word: table(&word, vocab),
                token_type: table(&types, 2),
                position: table(&positions, 512),
            };
            let grid = |x: &Tensor<1, Int>| x.clone().reshape([batch, seq]);
            let norm =
                LayerNormParameters { gamma: vectors[0].clone(), beta: vectors[1].clone(), epsilon: 1e-12 };
            backward(embeddings(compute, tables, [grid(&tokens), grid(&segments)], norm, dropout));
        });
        let masked = random(&[predictions, hidden]);
        let output_bias = random(&[vocab]);
        let labels = ids(predictions, vocab);
        compare("masked-LM loss", |compute| {
            let table = word.clone().reshape([vocab, hidden]);
            let masked = masked.clone().reshape([predictions, hidden]);
            backward(masked_lm_nll(compute, masked, table, output_bias.clone(), labels.clone()));
        });
    }
}

/// Times AdamW and the gradient norm on tensors of the word table's length, and compares the memory
/// bandwidths of AdamW and of a copy.
fn optimizer(len: usize) {
    let flat = || Tensor::<1>::random([len], Distribution::Default, &Device::flex());
    let gradient = flat();
    let mut state = Some(adamw::State { parameter: flat(), first: flat(), second: flat() });
    let step = adamw::AdamW {
        beta1: 0.9,
        beta2: 0.999,
        epsilon: 1e-6,
        weight_decay: 0.01,
        corrections: None,
        gradient_scale: 0.5,
        learning_rate: 1e-4,
    };
    let update = compare("AdamW, word table", |compute| {
        state = state.take().map(|state| adamw::update(compute, state, gradient.clone(), step));
    });
    compare("global norm, word table", |compute| {
        adamw::chunk_squares(compute, std::slice::from_ref(&gradient));
    });
    // AdamW reads four tensors and writes three; a copy reads one and writes one.
    let bytes = (len * size_of::<f32>()) as f64;
    let update = 7.0 * bytes / update / 1e6;
    let copy = 2.0 * bytes / copying(len) / 1e6;
    println!("AdamW moves {update:.1} GB/s, a copy {copy:.1} GB/s: {:.0} %", 100.0 * update / copy);
}

/// Returns the median time, in milliseconds, of a copy of `n` numbers on all threads.
fn copying(n: usize) -> f64 {
    let from = vec![1.0_f32; n];
    let mut to = vec![0.0_f32; n];
    let times = (0..ROUNDS + 2).map(|_| {
        let start = Instant::now();
        to.par_chunks_mut(1 << 14)
            .zip(from.par_chunks(1 << 14))
            .for_each(|(to, from)| to.copy_from_slice(from));
        std::hint::black_box(&mut to);
        start.elapsed().as_secs_f64() * 1e3
    });
    median(times.collect())
}

fn backward<const D: usize>(x: Tensor<D>) {
    x.sum().backward();
}

/// Times both paths alternately; returns the median time of the fused path in milliseconds.
fn compare(name: &str, mut run: impl FnMut(Compute)) -> f64 {
    let mut times = [Vec::new(), Vec::new()];
    for _ in 0..ROUNDS + 2 {
        for (kernels, times) in [Kernels::Plain, Kernels::Fused].into_iter().zip(&mut times) {
            let compute = Compute { kernels, ..Compute::default() };
            let start = Instant::now();
            run(compute);
            times.push(start.elapsed().as_secs_f64() * 1e3);
        }
    }
    let [plain, fused] = times.map(median);
    println!("{name:28}{plain:>10.2}{fused:>10.2}{:>8.2}", plain / fused);
    fused
}

/// Returns the median of the times after the first two.
fn median(mut times: Vec<f64>) -> f64 {
    times.drain(..2);
    times.sort_by(f64::total_cmp);
    times[times.len() / 2]
}
