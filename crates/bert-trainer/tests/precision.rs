//! Training in bf16 stays near training in f32. The precision is selected for the whole process, so this
//! is one program with one test.

use bert_kernels::{Precision, has_bf16_instructions, set_precision};
use bert_model::{BertConfig, Preset};
use bert_trainer::synthetic::SyntheticRun;
use burn::tensor::Device;

/// Steps on one batch at a rate of 1e-4: the loss falls from 8.3 to 4.0 nats.
const STEPS: usize = 25;
/// Of the losses in bf16 from those in f32, in nats: found to be 0.0006 at most.
const TOLERANCE: f64 = 0.005;

fn losses(precision: Precision) -> Vec<f64> {
    set_precision(precision);
    let config = BertConfig::preset(Preset::Tiny, 2_000);
    let mut run = SyntheticRun::new(&config, 4, 32, 5, &Device::flex());
    (0..STEPS).map(|_| run.step()).collect()
}

#[test]
#[ignore = "needs AVX-512 BF16"]
fn losses_in_bf16_are_near_those_in_f32() {
    assert!(has_bf16_instructions(), "this test needs a processor with AVX-512 BF16");
    let (full, rounded) = (losses(Precision::F32), losses(Precision::Bf16));
    assert!(full != rounded, "nothing was rounded");
    assert!(full[0] - full[STEPS - 1] > 3.0, "the loss does not fall: {full:?}");
    for (step, (full, rounded)) in full.iter().zip(&rounded).enumerate() {
        assert!((full - rounded).abs() < TOLERANCE, "step {step}: {full} in f32, {rounded} in bf16");
    }
    assert_eq!(losses(Precision::Bf16), rounded, "bf16 does not repeat");
}
