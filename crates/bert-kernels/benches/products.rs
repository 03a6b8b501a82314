//! Times matrix products in f32 and in bf16 in the shapes of BERT's dense layers, forward and backward.
//!
//! `cargo bench -p bert-kernels --bench products --profile dev [-- tokens..]` (default: 4096 and 1024). The
//! two precisions alternate in one process. Prints the minimum times and their ratio.

use std::time::Instant;

use bert_kernels::attention::AttentionSettings;
use bert_kernels::masked_lm_loss::masked_lm_nll;
use bert_kernels::self_attention::{Projection, QkvProjections, self_attention};
use bert_kernels::{Compute, Dropout, Precision, dense, has_bf16_instructions};
use burn::tensor::{Device, Distribution, Int, Tensor, TensorData};

const ROUNDS: usize = 25;
const LAYERS: [(usize, usize); 9] = [
    (128, 128),
    (128, 512),
    (512, 128),
    (256, 256),
    (256, 1024),
    (1024, 256),
    (768, 768),
    (768, 3072),
    (3072, 768),
];

fn main() {
    if !has_bf16_instructions() {
        println!("this processor has no AVX-512 BF16, and no AMX");
        return;
    }
    let mut tokens: Vec<usize> =
        std::env::args().skip(1).filter_map(|argument| argument.parse().ok()).collect();
    if tokens.is_empty() {
        tokens = vec![4096, 1024];
    }
    println!("{:36}{:>10}{:>10}{:>8}   GFLOP/s", "milliseconds", "f32", "bf16", "ratio");
    for m in tokens {
        for (k, n) in LAYERS {
            dense_layer(m, k, n);
        }
        for (hidden, heads) in [(128, 2), (256, 4), (768, 12)] {
            attention(m / 128, hidden, heads);
            masked_lm(m * 5 / 32, hidden);
        }
    }
}

fn random<const D: usize>(shape: [usize; D]) -> Tensor<D> {
    Tensor::random(shape, Distribution::Normal(0.0, 1.0), &Device::flex().autodiff()).require_grad()
}

fn dense_layer(m: usize, k: usize, n: usize) {
    let x = random([m, k]);
    let weight = random([k, n]);
    let flops = 2 * m * k * n;
    let inner = (x.clone().inner(), weight.clone().inner());
    compare(&format!("{m} x {k} x {n} forward"), flops, |compute| {
        dense::product(compute, inner.0.clone(), inner.1.clone());
    });
    let ones = random([m, n]).detach();
    compare(&format!("{m} x {k} x {n} and backward"), 3 * flops, |compute| {
        (dense::product(compute, x.clone(), weight.clone()) * ones.clone()).sum().backward();
    });
}

fn attention(batch: usize, hidden: usize, heads: usize) {
    let seq = 128;
    let x = random([batch, seq, hidden]);
    let weights: [Tensor<2>; 3] = std::array::from_fn(|_| random([hidden, hidden]));
    let bias = random([hidden]);
    let mask = Tensor::zeros([batch, 1, 1, seq], &Device::flex().autodiff());
    let flops = 3 * 2 * batch * seq * (3 * hidden * hidden + 2 * seq * hidden);
    compare(&format!("attention {batch} x {seq} x {hidden}"), flops, |compute| {
        let [query, key, value] = weights.clone().map(|weight| Projection { weight, bias: bias.clone() });
        let projections = QkvProjections { query, key, value };
        let dropout = Dropout::new(1, 0.1);
        self_attention(
            compute,
            x.clone(),
            projections,
            mask.clone(),
            AttentionSettings { heads, scale: 0.125, dropout },
        )
        .sum()
        .backward();
    });
}

fn masked_lm(n: usize, hidden: usize) {
    let vocab = 30_522;
    // The scale of x gives the logits the spread that they have in training. With a larger spread,
    // exponentials would be subnormal numbers.
    let x = random([n, hidden]).div_scalar((hidden as f64).sqrt()).detach().require_grad();
    let table = random([vocab, hidden]);
    let bias = random([vocab]);
    let labels = (0..n).map(|i| (i * 7919 % vocab) as i64).collect();
    let labels = Tensor::<1, Int>::from_data(TensorData::new(labels, [n]), &Device::flex().autodiff());
    compare(&format!("masked LM {n} x {hidden} x {vocab}"), 3 * 2 * n * hidden * vocab, |compute| {
        masked_lm_nll(compute, x.clone(), table.clone(), bias.clone(), labels.clone()).sum().backward();
    });
}

fn compare(name: &str, flops: usize, mut work: impl FnMut(Compute)) {
    let mut least = [f64::INFINITY; 2];
    for _ in 0..ROUNDS {
        for (precision, least) in [Precision::F32, Precision::Bf16].into_iter().zip(&mut least) {
            let compute = Compute { precision, ..Compute::default() };
            let start = Instant::now();
            work(compute);
            *least = least.min(start.elapsed().as_secs_f64());
        }
    }
    let [f32, bf16] = least.map(|seconds| 1e3 * seconds);
    let rate = |milliseconds: f64| flops as f64 / milliseconds * 1e-6;
    println!("{name:36}{f32:>10.2}{bf16:>10.2}{:>8.2}   {:.0} {:.0}", f32 / bf16, rate(f32), rate(bf16));
}
