//! LayerNorm alone, and with bias, dropout and residual.

use bert_kernels::Dropout;
use bert_kernels::layer_norm::{LayerNormParameters, layer_norm, residual_layer_norm};
use burn::tensor::{DType, Tensor};

use crate::common::{FUSED, ROWS_AND_WIDTHS, check, check_differences, host, leaf, numbers};

#[test]
fn layer_norm_alone() {
    for (rows, width) in ROWS_AND_WIDTHS {
        let op = |x: Vec<Tensor<1>>| {
            layer_norm(
                FUSED,
                x[0].clone().reshape([rows, width]),
                LayerNormParameters { gamma: x[1].clone(), beta: x[2].clone(), epsilon: 1e-12 },
            )
            .reshape([-1])
        };
        if width > 1 {
            let inputs = [numbers(1, rows * width), numbers(2, width), numbers(3, width)];
            check(&format!("{rows} {width}"), &op, &inputs);
        }
    }
    // A row of one element has no variance: only beta is left.
    let one = layer_norm(
        FUSED,
        leaf(&[5.0], DType::F32),
        LayerNormParameters {
            gamma: leaf(&[2.0], DType::F32),
            beta: leaf(&[3.0], DType::F32),
            epsilon: 1e-12,
        },
    );
    assert_eq!(host(one), [3.0]);
}

#[test]
fn residual_dropout_and_layer_norm() {
    for dropout in [None, Dropout::new(12, 0.1), Dropout::new(13, 0.5)] {
        for (rows, width) in ROWS_AND_WIDTHS.into_iter().filter(|(_, width)| *width > 3) {
            let op = |x: Vec<Tensor<1>>| {
                let [a, residual] = [&x[0], &x[2]].map(|x| x.clone().reshape([rows, 1, width]));
                let norm = LayerNormParameters { gamma: x[3].clone(), beta: x[4].clone(), epsilon: 1e-12 };
                residual_layer_norm(FUSED, [a, residual], x[1].clone(), norm, dropout).reshape([-1])
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
