//! Tests of the check of a device: it passes on a healthy device, and names a tensor on a faulty one.
//!
//! The device is the CPU with burn's own operations; the faults are failures of drivers that have been reported.

use bert_inference::DeviceName;
use bert_kernels::hook::{Hook, with_hook};
use bert_kernels::{Compute, Kernels};
use bert_model::{BertConfig, Preset};
use bert_training::Error;
use bert_training::device_check::{CheckShape, DeviceCheck, check_device};
use burn::tensor::Tensor;

/// More than 500 rows of a product.
const SHAPE: CheckShape = CheckShape { rows: 9, length: 64, predictions: 5 };

fn check(shape: CheckShape) -> Result<DeviceCheck, Error> {
    let compute = Compute { kernels: Kernels::Plain, ..Compute::default() };
    let model = BertConfig { compute, ..BertConfig::preset(Preset::Tiny, 300) };
    check_device(DeviceName::Wgpu(0), &DeviceName::Flex.open().unwrap(), &model, shape)
}

#[test]
fn healthy_device_passes_the_check() {
    for shape in [SHAPE, CheckShape { rows: 1, length: 7, predictions: 1 }] {
        let passed = check(shape).unwrap();
        println!("{passed:?}");
        assert!(passed.difference < passed.bound / 3.0, "{passed:?}");
        assert!(passed.loss_difference < 1e-5 && passed.repeats, "{passed:?}");
    }
}

/// Products are nearly zero from row 500 on (burn#4966).
fn rows_near_zero(product: Tensor<2>) -> Tensor<2> {
    let [rows, columns] = product.dims();
    if rows <= 500 {
        return product;
    }
    let near_zero = product.clone().slice([500..rows, 0..columns]).mul_scalar(1e-6);
    product.slice_assign([500..rows, 0..columns], near_zero)
}

/// The last row of a product contains values from behind the end of a factor (burn#5626).
fn read_past_end(product: Tensor<2>) -> Tensor<2> {
    let [rows, columns] = product.dims();
    if rows <= 1 {
        return product;
    }
    let first = product.clone().slice([0..1, 0..columns]);
    let last = product.clone().slice([rows - 1..rows, 0..columns]) + first;
    product.slice_assign([rows - 1..rows, 0..columns], last)
}

/// Products are right, and their gradients are 1e14 times too large (burn#5351).
fn huge_gradients(product: Tensor<2>) -> Tensor<2> {
    product.clone() + (product.clone() - product.detach()).mul_scalar(1e14)
}

#[test]
fn driver_faults_are_refused_with_the_tensor() {
    let product = |product| Hook { product, tanh_derivative: false };
    for (fault, hook, least) in [
        ("rows near zero", product(rows_near_zero), 0.1),
        ("read past the end", product(read_past_end), 0.01),
        ("huge gradients", product(huge_gradients), 1e6),
        // burn's own `gelu` on GPUs.
        ("derivative of the tanh form", Hook { tanh_derivative: true, ..product(|product| product) }, 2e-4),
    ] {
        let error = with_hook(hook, || check(SHAPE)).unwrap_err();
        println!("{fault}: {error}");
        assert_eq!(error.exit_code(), 5, "{fault}: {error}");
        let text = error.to_string();
        let tensor = text.strip_prefix("wgpu:0 computes wrong values: ").unwrap();
        assert!(tensor.starts_with("the gradient of ") || tensor.starts_with("the loss "), "{text}");
        let difference = text.split(" by ").nth(1).and_then(|rest| rest.split(' ').next()).unwrap();
        assert!(difference.parse::<f64>().unwrap() > least, "{fault}: {text}");
        assert!(text.contains("bert devices --check"), "{fault}: {text}");
    }
}
