//! Measures a device: matrix products, memory and the launch of an operation.

use std::time::{Duration, Instant};

use bert_kernels::dense::product;
use bert_kernels::{Compute, Kernels, Precision};
use burn::tensor::{Device, Tensor};
use serde::Serialize;

/// Measured rates of a device at the present load.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct DeviceRates {
    /// Floating-point operations per second of products in f32, of the shape of BERT-base's feed-forward network.
    pub f32_flops: f64,
    /// Floating-point operations per second of the same products in bf16; `None` if the device has no bf16.
    pub bf16_flops: Option<f64>,
    /// Bytes per second that an elementwise operation reads and writes.
    pub memory_bytes: f64,
    /// Duration of an operation on one element, in seconds.
    pub launch_seconds: f64,
}

/// Width of BERT-base.
const HIDDEN: usize = 768;
/// Width inside the feed-forward network of BERT-base.
const INTERMEDIATE: usize = 3072;
/// Numbers of tokens (rows) of the measured product. The first number whose product takes at least [`ONE`] is used, or
/// else the last number.
const TOKENS: [usize; 3] = [256, 2048, 16_384];
/// Numbers of elements of the tensor that is read and written. The first number whose operation takes at least [`ONE`]
/// is used, or else the last number.
const ELEMENTS: [usize; 3] = [1 << 20, 1 << 23, 1 << 26];
/// Minimum duration of one operation.
const ONE: Duration = Duration::from_millis(2);
/// Minimum duration of a measurement.
const MEASURED: Duration = Duration::from_millis(100);

impl DeviceRates {
    /// Measures a device. Products in bf16 are measured only if `bf16` is true.
    pub fn measure(device: &Device, bf16: bool) -> Self {
        let rate_in = |precision| product_rate(device, precision);
        Self {
            f32_flops: rate_in(Precision::F32),
            bf16_flops: bf16.then(|| rate_in(Precision::Bf16)),
            memory_bytes: memory_rate(device),
            launch_seconds: launch_seconds(device),
        }
    }
}

/// Returns the floating-point operations per second of a product.
pub fn product_rate(device: &Device, precision: Precision) -> f64 {
    let compute = Compute { kernels: Kernels::Fused, precision };
    let weight = Tensor::<2>::ones([HIDDEN, INTERMEDIATE], device);
    let of = |tokens: usize| {
        let x = Tensor::<2>::ones([tokens, HIDDEN], device);
        let seconds = seconds(device, || product(compute, x.clone(), weight.clone()));
        (seconds, (2 * tokens * HIDDEN * INTERMEDIATE) as f64)
    };
    rate(TOKENS, of)
}

/// Returns the bytes per second of an elementwise operation.
fn memory_rate(device: &Device) -> f64 {
    let of = |elements: usize| {
        let x = Tensor::<1>::ones([elements], device);
        (seconds(device, || x.clone().add_scalar(1.0)), (2 * size_of::<f32>() * elements) as f64)
    };
    rate(ELEMENTS, of)
}

/// Returns the duration of an operation on one element, in seconds.
fn launch_seconds(device: &Device) -> f64 {
    let x = Tensor::<1>::ones([1], device);
    seconds(device, || x.clone().add_scalar(1.0))
}

/// Returns the work per second of the first size that takes at least [`ONE`], or of the last size. `of` returns the
/// seconds and the work of a size.
fn rate(sizes: [usize; 3], of: impl Fn(usize) -> (f64, f64)) -> f64 {
    let mut rate = 0.0;
    for size in sizes {
        let (seconds, work) = of(size);
        rate = work / seconds;
        if seconds >= ONE.as_secs_f64() {
            break;
        }
    }
    rate
}

/// Returns the mean duration of an operation in seconds, without the first call, which compiles kernels.
fn seconds<const D: usize>(device: &Device, operation: impl Fn() -> Tensor<D>) -> f64 {
    let run = |times: usize| {
        let started = Instant::now();
        (0..times).for_each(|_| drop(operation()));
        // The error can be discarded: a device that fails here also fails its check or its first step, with an error.
        let _ = device.sync();
        started.elapsed()
    };
    run(1);
    let mut times = 1;
    loop {
        let elapsed = run(times);
        if elapsed >= MEASURED || times >= 1 << 14 {
            return elapsed.as_secs_f64() / times as f64;
        }
        times *= 2;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rate_is_that_of_the_first_slow_size() {
        // An operation takes 1 ms, and another microsecond for each unit of work.
        let of = |size: usize| (1e-3 + size as f64 * 1e-6, size as f64);
        assert_eq!(rate([10, 2000, 20_000], of), 2000.0 / (1e-3 + 2e-3));
        assert_eq!(rate([1, 2, 4], of), 4.0 / (1e-3 + 4e-6));
    }
}
