//! Tests the memory of a long run: the memory of a training step is freed before the next one starts.
//!
//! This is a separate program, because it counts the allocations of the whole process. The resident size would also count
//! the free memory that the system's allocator keeps, which varies by a tenth.

use bert_inference::{DeviceName, KernelChoice};
use bert_model::{BertConfig, Preset};
use peak_alloc::PeakAlloc;

use synthetic::SyntheticRun;

mod synthetic;

#[global_allocator]
static ALLOCATOR: PeakAlloc = PeakAlloc;

#[test]
fn memory_does_not_grow_with_steps() {
    check_memory(KernelChoice::Fused, 100);
    check_memory(KernelChoice::Plain, 50);
}

/// Compares the maximum after the first ten steps with the minimum after the last ten: buffers that threads keep for
/// reuse fluctuate, but a leak accumulates.
fn check_memory(kernels: KernelChoice, steps: usize) {
    let mut config = BertConfig::preset(Preset::Tiny, 8_000);
    config.compute.kernels = kernels.into();
    let device = DeviceName::Flex.open().unwrap();
    let mut run = SyntheticRun::new(&config, 32, 64, 10, &device);
    let mut in_use = Vec::new();
    for _ in 0..steps {
        run.step();
        in_use.push(ALLOCATOR.current_usage_as_mb());
    }
    let first = in_use[..10].iter().copied().fold(0.0, f32::max);
    let last = in_use[steps - 10..].iter().copied().fold(f32::INFINITY, f32::min);
    println!(
        "{kernels:?}: maximum {first:.1} MiB in ten steps, minimum {last:.1} in the last ten of {steps}"
    );
    assert!(
        last < 1.05 * first,
        "{kernels:?}: maximum {first:.0} MiB in ten steps, minimum {last:.0} in the last ten of {steps}"
    );
}
