//! Tests that bf16 training stays close to f32, and that two models in one process do not affect each other.

use bert_kernels::{Compute, Kernels, Precision, has_bf16_instructions};
use bert_model::{BertConfig, Preset};
use burn::tensor::Device;

use synthetic::SyntheticRun;

mod synthetic;

/// Steps on one batch at a learning rate of 1e-4: the loss falls from 8.3 to 4.0 nats.
const STEPS: usize = 25;
/// Maximum difference between the losses in bf16 and f32, in nats; the measured difference is at most 0.0006.
const TOLERANCE: f64 = 0.005;

fn losses(precision: Precision) -> Vec<f64> {
    let mut run = run(Compute { precision, ..Compute::default() });
    (0..STEPS).map(|_| run.step()).collect()
}

fn run(compute: Compute) -> SyntheticRun {
    let config = BertConfig { compute, ..BertConfig::preset(Preset::Tiny, 2_000) };
    SyntheticRun::new(&config, 4, 32, 5, &Device::flex())
}

/// Checks that models in f32 and bf16, with fused and plain operations, give the same results in alternating steps as
/// alone.
#[test]
fn alternating_models_do_not_interfere() {
    const FEW: usize = 8;
    let all = [Kernels::Fused, Kernels::Plain]
        .map(|kernels| [Precision::F32, Precision::Bf16].map(|precision| Compute { kernels, precision }));
    let all = all.as_flattened();
    let alone: Vec<Vec<f64>> = all
        .iter()
        .map(|&compute| {
            let mut run = run(compute);
            (0..FEW).map(|_| run.step()).collect()
        })
        .collect();
    let mut runs: Vec<SyntheticRun> = all.iter().map(|&compute| run(compute)).collect();
    let mut together = vec![Vec::new(); all.len()];
    for _ in 0..FEW {
        for (run, losses) in runs.iter_mut().zip(&mut together) {
            losses.push(run.step());
        }
    }
    assert_eq!(together, alone);
    let [fused, rounded, plain, _] = &alone[..] else { unreachable!("there are four") };
    assert!(fused != rounded, "precision changes nothing");
    assert!(fused != plain, "kernels change nothing");
}

#[test]
#[ignore = "needs AVX-512 BF16"]
fn bf16_losses_are_near_f32() {
    assert!(has_bf16_instructions(), "this test needs a processor with AVX-512 BF16");
    let full = losses(Precision::F32);
    let rounded = losses(Precision::Bf16);
    assert!(full != rounded, "nothing was rounded");
    assert!(full[0] - full[STEPS - 1] > 3.0, "the loss does not fall: {full:?}");
    for (step, (full, rounded)) in full.iter().zip(&rounded).enumerate() {
        assert!((full - rounded).abs() < TOLERANCE, "step {step}: {full} in f32, {rounded} in bf16");
    }
    assert_eq!(losses(Precision::Bf16), rounded, "bf16 does not repeat");
}
