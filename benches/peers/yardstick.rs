//! The rates that a training step is compared with: the multiply instruction alone, and a large matrix product, both on
//! all threads.
//!
//! The product is the fastest of several large ones of `bert-kernels`. In f32 the `gemm` crate computes it.

use std::time::Instant;

use bert_kernels::{Compute, Precision, dense, instruction_rate};
use burn::tensor::{Device, Distribution, Tensor};

/// Rows, inner size and columns of the products; the last one is for a GPU only.
const PRODUCTS: [[usize; 3]; 4] =
    [[2048, 2048, 2048], [4096, 1024, 1024], [4096, 768, 3072], [8192, 3072, 3072]];
const REPETITIONS: usize = 5;

/// Products that a GPU computes between two times of the clock.
const LAUNCHES: usize = 20;

/// The highest rates so far, in floating-point operations per second.
#[derive(Default)]
pub(crate) struct Yardstick {
    instruction: Option<f64>,
    product: f64,
}

impl Yardstick {
    /// Measures both rates again, because other programs may have slowed down an earlier measurement. On a GPU the
    /// instruction of the processor is left out.
    pub(crate) fn measure(&mut self, precision: Precision, device: &Device) {
        let rate = (*device == Device::flex()).then(|| instruction_rate(precision)).flatten();
        self.instruction = rate.map(|rate| rate.max(self.instruction.unwrap_or(0.0)));
        let count = if *device == Device::flex() { PRODUCTS.len() - 1 } else { PRODUCTS.len() };
        self.product = PRODUCTS[..count]
            .iter()
            .map(|&sizes| product_rate(sizes, precision, device))
            .fold(self.product, f64::max);
    }

    /// Prints the share of each rate that `rate` reaches.
    ///
    /// # Panics
    /// When a share is above 100 %: then one of the two measurements is wrong.
    pub(crate) fn print(&self, rate: f64) {
        let shares = [
            ("the multiply instruction", self.instruction),
            ("the fastest large product", Some(self.product)),
        ];
        let shares = shares.into_iter().filter_map(|(name, most)| Some((name, most?)));
        let text = shares.clone().map(|(name, most)| {
            format!("{:.0} % of {name} ({:.0} GFLOP/s)", 100.0 * rate / most, most / 1e9)
        });
        println!("        {:.0} GFLOP/s: {}", rate / 1e9, text.collect::<Vec<_>>().join(", "));
        for (name, most) in shares {
            assert!(
                rate <= most,
                "a step cannot be faster than {name}; repeat this on a machine without other load"
            );
        }
    }
}

/// Returns the rate of the fastest repetition of a product.
fn product_rate([m, k, n]: [usize; 3], precision: Precision, device: &Device) -> f64 {
    let matrix = |shape| Tensor::<2>::random(shape, Distribution::Uniform(-1.0, 1.0), device);
    let a = matrix([m, k]);
    let b = matrix([k, n]);
    let compute = Compute { precision, ..Compute::default() };
    let launches = if *device == Device::flex() { 1 } else { LAUNCHES };
    let rates = (0..=REPETITIONS).map(|_| {
        let start = Instant::now();
        let mut product = dense::product(compute, a.clone(), b.clone());
        for _ in 1..launches {
            product = dense::product(compute, a.clone(), b.clone());
        }
        std::hint::black_box(product.slice([0..1, 0..1]).into_scalar::<f32>());
        2.0 * (launches * m * k * n) as f64 / start.elapsed().as_secs_f64()
    });
    rates.fold(0.0, f64::max)
}
