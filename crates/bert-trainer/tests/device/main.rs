//! Tests of devices: the check before the first step and, with the feature `wgpu`, training steps on a GPU.

mod check; // healthy and faulty devices
#[cfg(feature = "wgpu")]
mod steps; // steps on a GPU and on the CPU
