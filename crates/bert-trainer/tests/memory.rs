//! Memory of a long run: what a training step takes is back when the next begins.
//!
//! A program of its own, since the memory is that of the whole process.

#![cfg(target_os = "linux")]

use bert_model::{BertConfig, Preset};
use bert_trainer::DeviceName;
use bert_trainer::device::KernelChoice;
use synthetic::SyntheticRun;

mod synthetic;

/// What this process holds, in MiB.
fn resident_mib() -> f64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).unwrap();
    line.split_whitespace().next().unwrap().parse::<f64>().unwrap() / 1024.0
}

#[test]
fn a_long_run_holds_what_a_short_one_holds() {
    holds_no_more_and_more(KernelChoice::Fused, 100);
    // burn's operations take their buffers from the system. How many are taken at once hangs on which threads meet, by a
    // sixth of all memory; on one thread it does not.
    let one = rayon::ThreadPoolBuilder::new().num_threads(1).build().unwrap();
    one.install(|| holds_no_more_and_more(KernelChoice::Plain, 50));
}

/// Compares the most that is held after one of the first ten steps with the least after one of the last ten: the
/// allocator holds now more, now less, but what a step does not give back stays.
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
