//! Tests of all operations: inputs that are shared, views, checkpointed or NaN, and the composition of burn's own
//! operations.

use bert_kernels::adamw::{self, AdamW};
use bert_kernels::attention::{AttentionSettings, attention};
use bert_kernels::embeddings::{self, Tables, embeddings};
use bert_kernels::gelu::{self, Gelu, bias_gelu};
use bert_kernels::layer_norm::{self, LayerNormParameters, layer_norm, residual_layer_norm};
use bert_kernels::masked_lm_loss::{self, masked_lm_nll};
use bert_kernels::{Compute, Dropout};
use burn::tensor::{DType, Device, Int, Tensor, TensorData};

use crate::common::{FUSED, close, host, ints, leaf, numbers, squared_norm};

#[test]
fn shared_inputs_are_not_overwritten() {
    let device = Device::flex();
    let x = Tensor::<2>::from_data(TensorData::new(numbers(1, 12), [3, 4]), &device);
    let before = x.clone().into_data();
    let vector = |seed| Tensor::<1>::from_data(TensorData::new(numbers(seed, 4), [4]), &device);
    let norm = LayerNormParameters { gamma: vector(3), beta: vector(4), epsilon: 1e-12 };
    let y = residual_layer_norm(FUSED, [x.clone(), x.clone()], vector(2), norm, Dropout::new(1, 0.5));
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
    let updated = adamw::update(FUSED, state, vector(7), step);
    let activated = bias_gelu(FUSED, x.clone(), vector(8), Gelu::Erf);
    assert_ne!(activated.into_data(), before);
    x.into_data().assert_eq(&before, true);
    kept.parameter.clone().into_data().assert_eq(&vector(5).into_data(), true);
    assert_ne!(host(kept.parameter), host(updated.parameter));
    drop(y);
}

#[test]
fn strided_views_are_accepted() {
    let device = Device::flex().autodiff();
    let x = Tensor::<2>::from_data(TensorData::new(numbers(1, 60), [6, 10]), &device);
    let bias = leaf(&numbers(2, 6), DType::F32);
    let transposed = x.clone().transpose(); // [10, 6]
    let part = x.narrow(0, 2, 3).narrow(1, 1, 6); // [3, 6]
    for view in [transposed, part] {
        let got = bias_gelu(FUSED, view.clone(), bias.clone(), Gelu::Erf);
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
    let y = bias_gelu(FUSED, x.clone().reshape([2, 3]), vector(2).narrow(0, 0, 3), Gelu::Erf);
    let gradients = y.sum().backward();
    let want = {
        let x = leaf(&numbers(1, 6), DType::F32);
        let bias = leaf(&numbers(2, 6), DType::F32).narrow(0, 0, 3);
        let gradients = bias_gelu(FUSED, x.clone().reshape([2, 3]), bias, Gelu::Erf).sum().backward();
        host(x.grad(&gradients).unwrap())
    };
    close("gradient", &host(x.grad(&gradients).unwrap()), &want, 1e-6);
}

#[test]
fn nan_is_propagated() {
    // NaN must reach the output: the trainer skips a step with NaN.
    let broken = |len: usize| {
        let mut x = numbers(1, len);
        x[len / 2] = f32::NAN;
        leaf(&x, DType::F32)
    };
    let fine = |len: usize| leaf(&numbers(2, len), DType::F32);
    let has_nan = |x: Tensor<1>| host(x).iter().any(|x| x.is_nan());
    assert!(has_nan(bias_gelu(FUSED, broken(40), fine(40), Gelu::Erf)));
    assert!(has_nan(bias_gelu(FUSED, broken(40), fine(40), Gelu::Tanh)));
    assert!(has_nan(layer_norm(
        FUSED,
        broken(40),
        LayerNormParameters { gamma: fine(40), beta: fine(40), epsilon: 1e-12 }
    )));
    let bias = || leaf(&[0.0; 5], DType::F32).reshape([1, 1, 1, 5]);
    let shape = [1, 5, 8];
    let qkv = [broken(40).reshape(shape), fine(40).reshape(shape), fine(40).reshape(shape)];
    assert!(has_nan(
        attention(FUSED, qkv, bias(), AttentionSettings { heads: 2, scale: 1.0, dropout: None })
            .reshape([-1])
    ));
    let nll = masked_lm_nll(
        FUSED,
        broken(40).reshape([5, 8]),
        fine(24).reshape([3, 8]),
        fine(3),
        ints(&[0, 1, 2, 0, 1], [5]),
    );
    assert!(has_nan(nll));
    assert!(squared_norm(FUSED, &[broken(40).inner()]).is_nan());
}

#[test]
fn plain_and_fused_agree_in_f32_as_well() {
    let n = 300;
    let x = || leaf(&numbers(1, n), DType::F32).reshape([3, 100]);
    let v = |seed| leaf(&numbers(seed, 100), DType::F32);
    let got = layer_norm(FUSED, x(), LayerNormParameters { gamma: v(2), beta: v(3), epsilon: 1e-12 });
    let want = layer_norm::plain(x(), LayerNormParameters { gamma: v(2), beta: v(3), epsilon: 1e-12 });
    close("layer_norm", &host(got.reshape([-1])), &host(want.reshape([-1])), 1e-6);
    let nll = |f: fn(Compute, Tensor<2>, Tensor<2>, Tensor<1>, Tensor<1, Int>) -> Tensor<1>| {
        let table = leaf(&numbers(5, 700), DType::F32).reshape([7, 100]);
        host(f(FUSED, x(), table, leaf(&numbers(6, 7), DType::F32), ints(&[0, 6, 3], [3])))
    };
    close("nll", &nll(masked_lm_nll), &nll(masked_lm_loss::plain), 1e-6);
    let dropped = |fused: bool| {
        let table = |seed, rows: usize| leaf(&numbers(seed, rows * 4), DType::F32).reshape([rows, 4]);
        let tables = Tables { word: table(1, 5), token_type: table(2, 2), position: table(3, 6) };
        let norm = LayerNormParameters {
            gamma: leaf(&[1.0; 4], DType::F32),
            beta: leaf(&[0.5; 4], DType::F32),
            epsilon: 1e-12,
        };
        let ids = ints(&[0, 1, 2, 3, 4, 0], [1, 6]);
        let segments = ints(&[0, 0, 0, 1, 1, 1], [1, 6]);
        let dropout = Dropout::new(9, 0.5);
        let y = if fused {
            embeddings(FUSED, tables, [ids, segments], norm, dropout)
        } else {
            embeddings::plain(tables, [ids, segments], norm, dropout)
        };
        host(y.reshape([-1]))
    };
    let fused = dropped(true);
    let plain = dropped(false);
    close("embeddings", &fused, &plain, 1e-5);
    // The masks are the same, element by element.
    assert!(fused.iter().zip(&plain).all(|(a, b)| (*a == 0.0) == (*b == 0.0)));
    assert!(fused.contains(&0.0));
}
