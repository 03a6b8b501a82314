//! The properties of the processor that affect the bits and the speed of matrix products.
//!
//! The bits depend on the vector instructions, and on the size of the L1 data cache, from which the `gemm`
//! crate derives how many terms it adds up before it adds them to the result. The speed is measured with
//! [`product_times`], because it varies among processors with the same instructions.

use std::time::{Duration, Instant};

use gemm_common::cache::CACHE_INFO;

use crate::arguments::Precision;
use crate::matmul::matrix_view::{Gemm, Matrix, MatrixMut, Threads};
use crate::matmul::{MatmulContext, has_bf16_instructions, multiply};

/// Returns the vector instructions of this processor that products and sums use, in one line.
pub fn instruction_set() -> String {
    let mut found = vec![std::env::consts::ARCH];
    #[cfg(target_arch = "x86_64")]
    {
        use std::arch::is_x86_feature_detected as has;
        let known = [
            ("avx2", has!("avx2")),
            ("fma", has!("fma")),
            ("avx512f", has!("avx512f")),
            ("avx512bw", has!("avx512bw")),
            ("avx512dq", has!("avx512dq")),
            ("avx512vl", has!("avx512vl")),
            ("avx512bf16", has!("avx512bf16")),
        ];
        found.extend(known.into_iter().filter_map(|(name, has)| has.then_some(name)));
        if crate::matmul::bf16::on_tiles() {
            found.push("amx-bf16");
        }
    }
    #[cfg(target_arch = "aarch64")]
    if std::arch::is_aarch64_feature_detected!("neon") {
        found.push("neon");
    }
    found.join(" ")
}

/// Returns the name of a unit that multiplies bf16 numbers faster than the vector registers multiply f32
/// numbers, or `None` if the processor is not known to have one. AVX-512 BF16 is fast on AMD's processors
/// (Zen 4 and 5) and slow on Intel's, which have AMX tiles for bf16.
pub fn fast_bf16() -> Option<&'static str> {
    #[cfg(target_arch = "x86_64")]
    {
        if crate::matmul::bf16::on_tiles() {
            return Some("AMX tiles");
        }
        let vendor = std::arch::x86_64::__cpuid(0);
        let name = [vendor.ebx, vendor.edx, vendor.ecx].map(u32::to_le_bytes);
        if has_bf16_instructions() && name.as_flattened() == b"AuthenticAMD" {
            return Some("AVX-512 BF16 on AMD");
        }
    }
    None
}

/// Returns whether the masked-LM loss of this precision recomputes its logits in the backward pass instead of keeping
/// them: on AMX tiles, computing the product takes less time than writing and reading the logits.
pub fn recomputes_logits(precision: Precision) -> bool {
    precision == Precision::Bf16 && crate::matmul::bf16::on_tiles()
}

/// Returns the size in bytes, the associativity and the line length in bytes of the L1 data cache, as the `gemm` crate
/// uses them.
pub fn l1_cache() -> [usize; 3] {
    let cache = CACHE_INFO[0];
    // `gemm` uses at least these values, whatever the system reports.
    [cache.cache_bytes.max(32 << 10), cache.associativity.max(2), cache.cache_line_bytes.max(64)]
}

/// The shortest time of one product in each precision.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ProductTimes {
    /// The time in f32.
    pub f32: Duration,
    /// The time in bf16.
    pub bf16: Duration,
}

/// Maximum number of multiplications of a product that is timed, which take 3 to 15 milliseconds on one core.
const MAX_MULTIPLICATIONS: usize = 1 << 27;
/// Maximum number of rows of a product that is timed.
const MAX_ROWS: usize = 512;
/// After this time, no further pair of products is started if there were at least [`MIN_PAIRS`].
const BUDGET: Duration = Duration::from_millis(80);
/// Maximum number of pairs; the first one warms up.
const MAX_PAIRS: usize = 6;
/// Minimum number of pairs: another program may take the core during one product, and then another pair counts.
const MIN_PAIRS: usize = 3;

/// Times a dense layer's product of `rows` rows, from `input` to `output` features, in f32 and in bf16, for about a
/// tenth of a second in all. Large products are cut to fewer rows and features. Returns `None` without bf16
/// instructions.
pub fn product_times(rows: usize, input: usize, output: usize) -> Option<ProductTimes> {
    if !has_bf16_instructions() {
        return None;
    }
    let m = rows.clamp(1, MAX_ROWS);
    let k = input.clamp(1, MAX_MULTIPLICATIONS / MAX_ROWS);
    let n = output.clamp(1, (MAX_MULTIPLICATIONS / (m * k)).max(1));
    let a = vec![0.5; m * k];
    let b = vec![0.25; k * n];
    let mut c = vec![0.0; m * n];
    Some(fastest(|precision| {
        let started = Instant::now();
        let ctx = MatmulContext::new(precision, Threads::All);
        let c = MatrixMut::new(&mut c, n);
        multiply(ctx, Gemm { m, n, k }, c, Matrix::rows(&a, k), Matrix::rows(&b, n));
        started.elapsed()
    }))
}

/// Returns the shortest times that `run` reports, alternating the precisions. There are at least [`MIN_PAIRS`] pairs,
/// and more until [`BUDGET`] is spent or [`MAX_PAIRS`] is reached.
fn fastest(mut run: impl FnMut(Precision) -> Duration) -> ProductTimes {
    let mut best = ProductTimes { f32: Duration::MAX, bf16: Duration::MAX };
    let mut spent = Duration::ZERO;
    for pairs in 1..=MAX_PAIRS {
        let f32 = run(Precision::F32);
        let bf16 = run(Precision::Bf16);
        best = ProductTimes { f32: best.f32.min(f32), bf16: best.bf16.min(bf16) };
        spent += f32 + bf16;
        if spent >= BUDGET && pairs >= MIN_PAIRS {
            break;
        }
    }
    best
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn timing_stops_at_budget_and_returns_the_minimum() {
        let ms = Duration::from_millis;
        for (each, pairs) in [(ms(1), MAX_PAIRS), (ms(10), 3), (ms(500), MIN_PAIRS)] {
            let mut runs = 0;
            let times = fastest(|precision| {
                runs += 1;
                // The first pair is a warm-up, and slow.
                let cold = if runs <= 2 { each / 2 } else { Duration::ZERO };
                each + cold + if precision == Precision::Bf16 { each } else { Duration::ZERO }
            });
            assert_eq!(runs, 2 * pairs, "{each:?}");
            assert_eq!(times, ProductTimes { f32: each, bf16: 2 * each });
        }
    }

    #[test]
    fn products_are_timed_if_bf16_is_available() {
        for (rows, input, output) in [(1, 1, 1), (4096, 256, 1024), (1 << 20, 1024, 4096)] {
            let times = product_times(rows, input, output);
            assert_eq!(times.is_some(), has_bf16_instructions());
            assert!(times.is_none_or(|times| times.f32 > Duration::ZERO && times.bf16 > Duration::ZERO));
        }
    }

    #[test]
    fn instruction_set_and_l1_cache_are_detected() {
        assert!(instruction_set().starts_with(std::env::consts::ARCH));
        assert!(fast_bf16().is_none() || has_bf16_instructions());
        let [bytes, ways, line] = l1_cache();
        assert!(bytes >= 32 << 10 && ways >= 2 && line >= 64);
    }
}
