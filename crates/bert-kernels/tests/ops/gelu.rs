//! Bias and GELU.

use bert_kernels::gelu::{Gelu, bias_gelu};
use burn::tensor::Tensor;

use crate::common::{FUSED, ROWS_AND_WIDTHS, check, check_differences, numbers};

#[test]
fn bias_and_gelu() {
    for form in [Gelu::Erf, Gelu::Tanh] {
        for (rows, width) in ROWS_AND_WIDTHS {
            let op = |x: Vec<Tensor<1>>| {
                bias_gelu(FUSED, x[0].clone().reshape([1, rows, width]), x[1].clone(), form).reshape([-1])
            };
            let x = numbers(1, rows * width).iter().map(|x| 4.0 * x).collect();
            let inputs = [x, numbers(2, width)];
            check(&format!("{form:?} {rows} {width}"), &op, &inputs);
            if rows * width < 3000 {
                check_differences(&format!("{form:?} {rows} {width}"), &op, &inputs);
            }
        }
        let large = [vec![-1e4, -100.0, -20.0, -9.0, 0.0, 9.0, 20.0, 1e4], vec![0.0; 8]];
        check(
            "large",
            &|x| bias_gelu(FUSED, x[0].clone().reshape([1, 8]), x[1].clone(), form).reshape([8]),
            &large,
        );
    }
}
