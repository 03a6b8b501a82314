//! Attention of all heads, alone and with its projections; the dense product.

use bert_kernels::attention::{self, AttentionSettings, attention};
use bert_kernels::self_attention::{Projection, QkvProjections, self_attention};
use bert_kernels::{Dropout, dense};
use burn::tensor::{DType, Tensor};

use crate::common::{FUSED, check, check_differences, close, leaf, numbers, run};

/// The sizes of an attention, and which keys are masked.
struct Case {
    batch: usize,
    seq: usize,
    heads: usize,
    head: usize,
    scale: f64,
    dropout: Option<Dropout>,
    mask: Vec<f32>,
}

impl Case {
    /// Returns queries, keys and values, and the bias of the mask.
    fn inputs(&self, x: &[Tensor<1>]) -> ([Tensor<3>; 3], Tensor<4>) {
        let shape = [self.batch, self.seq, self.heads * self.head];
        let bias = leaf(&self.mask, x[0].dtype()).detach().reshape([self.batch, 1, 1, self.seq]);
        (std::array::from_fn(|i| x[i].clone().reshape(shape)), bias)
    }

    fn fused(&self, x: &[Tensor<1>]) -> Tensor<1> {
        let (qkv, bias) = self.inputs(x);
        attention(
            FUSED,
            qkv,
            bias,
            AttentionSettings { heads: self.heads, scale: self.scale, dropout: self.dropout },
        )
        .reshape([-1])
    }

    fn plain(&self, x: &[Tensor<1>]) -> Tensor<1> {
        let (qkv, bias) = self.inputs(x);
        attention::plain(
            FUSED,
            qkv,
            bias,
            AttentionSettings { heads: self.heads, scale: self.scale, dropout: self.dropout },
        )
        .context
        .reshape([-1])
    }
}

/// Compares with f64, with burn's operations and with other numbers of threads, where the last row is all padding.
fn check_padded(name: &str, case: &Case, inputs: &[Vec<f32>]) {
    // In f32 a score has a precision of only 1e-3 next to -10000: rows with only padding are compared loosely.
    let op = |x: Vec<Tensor<1>>| case.fused(&x);
    let (value, gradients) = run(&op, inputs, DType::F32);
    let (want, want_gradients) = run(&op, inputs, DType::F64);
    let (plain, plain_gradients) = run(&|x: Vec<Tensor<1>>| case.plain(&x), inputs, DType::F32);
    let real = (case.batch - 1) * case.seq * case.heads * case.head;
    close(name, &value[..real], &want[..real], 1e-5);
    close(name, &value, &plain, 1e-3);
    for i in 0..3 {
        close(name, &gradients[i][..real], &want_gradients[i][..real], 1e-5);
        close(name, &gradients[i], &plain_gradients[i], 2e-3);
    }
    for threads in [1, 2, 3, 16] {
        let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().unwrap();
        let again = pool.install(|| run(&op, inputs, DType::F32));
        assert!(again == (value.clone(), gradients.clone()), "{name}: {threads} threads");
    }
}

#[test]
fn attention_of_all_heads() {
    let shapes = [(1, 1, 1, 1), (2, 3, 3, 1), (3, 17, 2, 5), (2, 127, 2, 8), (1, 129, 1, 3), (5, 32, 4, 16)];
    for dropout in [None, Dropout::new(5, 0.1)] {
        for (batch, seq, heads, head) in shapes {
            let masked = |is_masked: &dyn Fn(usize) -> bool| -> Vec<f32> {
                (0..batch * seq).map(|i| if is_masked(i) { -10_000.0 } else { 0.0 }).collect()
            };
            // Every row is padded on the right; the last row is all padding.
            let mask = masked(&|i| i / seq == batch - 1 || i % seq > seq - 1 - i / seq);
            let scale = 1.0 / (head as f64).sqrt();
            let mut case = Case { batch, seq, heads, head, scale, dropout, mask };
            let n = batch * seq * heads * head;
            let inputs = [numbers(1, n), numbers(2, n), numbers(3, n)];
            let name = format!("{batch} {seq} {heads} {head} {dropout:?}");
            check_padded(&name, &case, &inputs);
            if n < 600 {
                // Differences of scores vanish next to -10000: this test leaves out the row with only padding.
                case.scale = 0.5;
                case.mask = masked(&|i| seq > 1 && i % seq == seq - 1);
                let op = |x: Vec<Tensor<1>>| case.fused(&x);
                check(&name, &op, &inputs);
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
        attention(FUSED, [query, key, value], bias, AttentionSettings { heads: 1, scale: 1.0, dropout: None })
            .reshape([-1])
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
fn self_attention_with_its_projections() {
    for (batch, seq, heads, head) in [(1, 1, 1, 1), (3, 17, 2, 5), (2, 127, 2, 64), (5, 33, 4, 16)] {
        for dropout in [None, Dropout::new(5, 0.1)] {
            let hidden = heads * head;
            let mask: Vec<f32> =
                (0..batch * seq).map(|i| if i % seq > seq / 2 { -10_000.0 } else { 0.0 }).collect();
            let op = |x: Vec<Tensor<1>>| {
                let bias = leaf(&mask, x[0].dtype()).detach().reshape([batch, 1, 1, seq]);
                let [query, key, value] = std::array::from_fn(|i| Projection {
                    weight: x[1 + i].clone().reshape([hidden, hidden]),
                    bias: x[4 + i].clone(),
                });
                let projections = QkvProjections { query, key, value };
                let hidden = x[0].clone().reshape([batch, seq, hidden]);
                self_attention(
                    FUSED,
                    hidden,
                    projections,
                    bias,
                    AttentionSettings { heads, scale: 0.25, dropout },
                )
                .reshape([-1])
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
            dense::product(FUSED, x[0].clone().reshape([1, rows, input]), weight).reshape([-1])
        };
        let name = format!("{rows} {input} {output}");
        check(&name, &op, &[numbers(1, rows * input), numbers(2, input * output)]);
    }
}
