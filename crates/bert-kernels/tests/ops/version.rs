//! The version of the arithmetic identifies its bits.

use bert_kernels::Dropout;
use bert_kernels::adamw::{self, AdamW};
use bert_kernels::embeddings::{Tables, embeddings};
use bert_kernels::gelu::{Gelu, bias_gelu};
use bert_kernels::layer_norm::{LayerNormParameters, residual_layer_norm};
use burn::tensor::{DType, Device, Tensor, TensorData};

use crate::common::{FUSED, host, ints, numbers, run, squared_norm};

/// FNV-1a over the bits of numbers.
struct Digest(u64);

impl Digest {
    fn add(&mut self, values: &[f64]) {
        for byte in values.iter().flat_map(|value| value.to_bits().to_le_bytes()) {
            self.0 = (self.0 ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
        }
    }

    fn add_run(&mut self, op: &dyn Fn(Vec<Tensor<1>>) -> Tensor<1>, sizes: &[usize]) {
        let inputs: Vec<_> = sizes.iter().zip(1..).map(|(&size, seed)| numbers(seed, size)).collect();
        let (value, gradients) = run(op, &inputs, DType::F32);
        self.add(&value);
        gradients.iter().for_each(|gradient| self.add(gradient));
    }

    fn add_layers(&mut self) {
        self.add_run(
            &|x| {
                let rows = |i: usize| x[i].clone().reshape([7, 37]);
                let norm = LayerNormParameters { gamma: x[3].clone(), beta: x[4].clone(), epsilon: 1e-12 };
                let y =
                    residual_layer_norm(FUSED, [rows(0), rows(2)], x[1].clone(), norm, Dropout::new(5, 0.1));
                y.reshape([-1])
            },
            &[259, 37, 259, 37, 37],
        );
        self.add_run(
            &|x| {
                let table = |i: usize, rows: usize| x[i].clone().reshape([rows, 19]);
                let tables = Tables { word: table(0, 5), token_type: table(1, 2), position: table(2, 6) };
                let ids = ints(&[0, 1, 2, 3, 4, 0], [1, 6]);
                let segments = ints(&[0, 0, 0, 1, 1, 1], [1, 6]);
                let norm = LayerNormParameters { gamma: x[3].clone(), beta: x[4].clone(), epsilon: 1e-12 };
                embeddings(FUSED, tables, [ids, segments], norm, Dropout::new(9, 0.1)).reshape([-1])
            },
            &[95, 38, 114, 19, 19],
        );
    }

    fn add_adamw(&mut self) {
        let vector =
            |seed| Tensor::<1>::from_data(TensorData::new(numbers(seed, 301), [301]), &Device::flex());
        let state = adamw::State { parameter: vector(1), first: vector(2), second: vector(3).abs() };
        let step = AdamW {
            beta1: 0.9,
            beta2: 0.999,
            epsilon: 1e-6,
            weight_decay: 0.01,
            corrections: Some((0.1, 0.001)),
            gradient_scale: 0.5,
            learning_rate: 1e-3,
        };
        let adamw::State { parameter, first, second } = adamw::update(FUSED, state, vector(4), step);
        [parameter, first, second].into_iter().for_each(|x| self.add(&host(x)));
        self.add(&[squared_norm(FUSED, &[vector(5)])]);
    }
}

/// The bits of all fused operations without matrix products, which are equal on all processors. A change that alters
/// this digest on purpose has to raise `bert_kernels::VERSION`.
#[test]
fn bits_match_the_version() {
    let mut digest = Digest(0xcbf2_9ce4_8422_2325);
    for form in [Gelu::Erf, Gelu::Tanh] {
        digest.add_run(
            &|x| bias_gelu(FUSED, x[0].clone().reshape([7, 37]), x[1].clone(), form).reshape([-1]),
            &[259, 37],
        );
    }
    digest.add_layers();
    digest.add_adamw();
    assert_eq!(
        (bert_kernels::VERSION, digest.0),
        (7, 9_140_336_022_776_287_709),
        "raise VERSION: the arithmetic is another"
    );
}
