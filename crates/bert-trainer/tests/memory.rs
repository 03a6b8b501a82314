//! Memory of a long run: what a training step takes is back when the next begins.
//!
//! A program of its own, since the memory is that of the whole process.

#![cfg(target_os = "linux")]

use bert_model::{BertConfig, Preset};
use bert_trainer::DeviceName;
use bert_trainer::device::KernelChoice;
use bert_trainer::synthetic::SyntheticRun;

/// What this process holds, in MiB.
fn resident_mib() -> f64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).unwrap();
    line.split_whitespace().next().unwrap().parse::<f64>().unwrap() / 1024.0
}

#[test]
fn a_run_of_fifty_steps_holds_what_a_run_of_ten_holds() {
    let config = BertConfig::preset(Preset::Tiny, 8_000);
    let device = DeviceName::Flex.open().unwrap();
    for kernels in [KernelChoice::Fused, KernelChoice::Plain] {
        kernels.select();
        let mut run = SyntheticRun::new(&config, 32, 64, 10, &device);
        let mut steps = |n| {
            for _ in 0..n {
                run.step();
            }
            resident_mib()
        };
        let (few, many) = (steps(10), steps(40));
        assert!(many < 1.05 * few, "{kernels:?}: {few:.0} MiB after 10 steps, {many:.0} after 50");
    }
}
