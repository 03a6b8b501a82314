//! Tests the memory of a long run: the memory of a training step is freed before the next one starts.
//!
//! This is a separate program, because it measures the memory of the whole process.

#![cfg(target_os = "linux")]

use bert_model::{BertConfig, Preset};
use bert_trainer::DeviceName;
use bert_trainer::device::KernelChoice;
use synthetic::SyntheticRun;

mod synthetic;

/// Returns the resident memory of this process in MiB.
fn resident_mib() -> f64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).unwrap();
    line.split_whitespace().next().unwrap().parse::<f64>().unwrap() / 1024.0
}

#[test]
fn a_long_run_holds_what_a_short_one_holds() {
    holds_no_more_and_more(KernelChoice::Fused, 100);
    // burn's operations allocate their buffers from the system. How many are in use at once depends on the timing of
    // threads, by a sixth of all memory; with one thread it is constant.
    let one = rayon::ThreadPoolBuilder::new().num_threads(1).build().unwrap();
    one.install(|| holds_no_more_and_more(KernelChoice::Plain, 50));
}

/// Compares the maximum after the first ten steps with the minimum after the last ten: the allocator's memory
/// fluctuates, but a leak accumulates.
fn holds_no_more_and_more(kernels: KernelChoice, steps: usize) {
    let mut config = BertConfig::preset(Preset::Tiny, 8_000);
    config.compute.kernels = kernels.into();
    let device = DeviceName::Flex.open().unwrap();
    let mut run = SyntheticRun::new(&config, 32, 64, 10, &device);
    let held = |_| {
        run.step();
        resident_mib()
    };
    let held: Vec<f64> = (0..steps).map(held).collect();
    let most = held[..10].iter().copied().fold(0.0, f64::max);
    let least = held[steps - 10..].iter().copied().fold(f64::INFINITY, f64::min);
    println!("{kernels:?}: {most:.1} MiB at most in ten steps, {least:.1} at least in the last of {steps}");
    assert!(
        least < 1.05 * most,
        "{kernels:?}: {most:.0} MiB at most in ten steps, {least:.0} at least after {steps}"
    );
}
