//! Tests of the check of a device: it passes on a healthy device, and names a tensor on a faulty one.
//!
//! The device is the CPU with burn's own operations; the faults are failures of drivers that have been reported.

use bert_inference::{DeviceName, Error};
use bert_kernels::faults::{DriverFault, with_fault};
use bert_kernels::{Compute, Kernels};
use bert_model::{BertConfig, Preset};
use bert_training::step::device_check::{CheckShape, DeviceCheck, check_device};

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

#[test]
fn driver_faults_are_refused_with_the_tensor() {
    for (fault, least) in [
        (DriverFault::RowsNearZero, 0.1),
        (DriverFault::ReadPastEnd, 0.01),
        (DriverFault::HugeGradients, 1e6),
        (DriverFault::TanhDerivative, 2e-4),
    ] {
        let error = with_fault(fault, || check(SHAPE)).unwrap_err();
        println!("{fault:?}: {error}");
        assert_eq!(error.exit_code(), 5, "{fault:?}: {error}");
        let Error::DeviceWrong { device, tensor, difference, bound } = &error else { panic!("{error}") };
        assert!(device == "wgpu:0" && *difference > least && *bound < 0.01, "{fault:?}: {error}");
        let named = tensor.starts_with("the gradient of ") || tensor == "the loss";
        assert!(named && error.to_string().contains("bert devices --check"), "{fault:?}: {error}");
    }
}
