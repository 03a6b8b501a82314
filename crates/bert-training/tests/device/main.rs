//! Tests of devices: the check before the first step and, with the features `wgpu` or `cuda`, training steps on a GPU.

mod check; // healthy and faulty devices
#[cfg(any(feature = "cuda", feature = "wgpu"))]
mod steps; // steps on a GPU and on the CPU
