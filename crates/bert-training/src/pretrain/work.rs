//! The floating-point operations of a run, and the rate at which its device multiplies large matrices.

use serde::{Deserialize, Serialize};

/// The work of a run and the rate of its device.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Work {
    /// Floating-point operations of a sequence of maximum length, forward and backward.
    pub flops_per_sequence: f64,
    /// Floating-point operations per second of large matrix products on a GPU, in the precision of the run, measured
    /// before the first step; `None` on the CPU.
    pub product_flops: Option<f64>,
}

impl Work {
    /// Returns a text with the operations per second and their share of the device's rate; `None` on the CPU.
    pub fn utilization(&self, sequences_per_second: f64) -> Option<String> {
        let rate = self.flops_per_sequence * sequences_per_second;
        let share = 100.0 * rate / self.product_flops?;
        let rate = rate / 1e12;
        let digits = if rate < 10.0 { 2 } else { 0 };
        Some(format!("{rate:.digits$} TFLOP/s ({share:.0} % of large products)"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn utilization_is_a_share_of_products() {
        let work = Work { flops_per_sequence: 66e9, product_flops: Some(500e12) };
        assert_eq!(work.utilization(4000.0).unwrap(), "264 TFLOP/s (53 % of large products)");
        assert_eq!(work.utilization(40.0).unwrap(), "2.64 TFLOP/s (1 % of large products)");
        assert_eq!(Work { product_flops: None, ..work }.utilization(4000.0), None);
    }
}
