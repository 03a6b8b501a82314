//! The rate that a training step is compared with: a large matrix product on all threads.
//!
//! The product is the fastest of several large ones of `bert-kernels`. In f32 the `gemm` crate computes it.

use std::time::Instant;

use bert_kernels::{Compute, Precision, dense};
use burn::tensor::{Device, Distribution, Tensor};

/// Rows, inner size and columns of the products; the last one is for a GPU only.
const PRODUCTS: [[usize; 3]; 4] =
    [[2048, 2048, 2048], [4096, 1024, 1024], [4096, 768, 3072], [8192, 3072, 3072]];
const REPETITIONS: usize = 5;

/// Number of products that a GPU computes between two readings of the clock.
const LAUNCHES: usize = 20;

/// The highest rate of a product so far, in floating-point operations per second.
#[derive(Default)]
pub(crate) struct Yardstick {
    product: f64,
}

impl Yardstick {
    /// Measures the rate again, because other programs may have slowed down an earlier measurement.
    pub(crate) fn measure(&mut self, precision: Precision, device: &Device) {
        let count = if *device == Device::flex() { PRODUCTS.len() - 1 } else { PRODUCTS.len() };
        self.product = PRODUCTS[..count]
            .iter()
            .map(|&sizes| product_rate(sizes, precision, device))
            .fold(self.product, f64::max);
    }

    /// Prints the share of the product's rate that `rate` reaches.
    ///
    /// # Panics
    /// Panics if the share is above 100 %, because one of the two measurements is wrong then.
    pub(crate) fn print(&self, rate: f64) {
        let share = 100.0 * rate / self.product;
        let product = self.product / 1e9;
        println!(
            "        {:.0} GFLOP/s: {share:.0} % of the fastest large product ({product:.0} GFLOP/s)",
            rate / 1e9
        );
        assert!(
            rate <= self.product,
            "a step cannot be faster than the fastest large product; repeat this on a machine without other load"
        );
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
