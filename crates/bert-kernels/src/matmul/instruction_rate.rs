//! Measures the rate of the multiply instruction alone: an upper bound of the rate of every matrix product.
//!
//! Each thread repeats the instruction on registers, without loads and stores, and on independent sums, so that the
//! latency of the instruction is hidden. AMX tiles are loaded from the L1 cache, which takes less time than multiplying
//! the tiles.

use std::time::Instant;

use crate::arguments::Precision;

/// Number of measurements. The fastest one counts, because other programs make a measurement slower.
const TURNS: usize = 20;

/// Returns the floating-point operations per second of the multiply instruction that products in this precision use, on
/// all threads of rayon's pool. Returns `None` if the processor has no such instruction, and on processors other than
/// x86-64.
pub fn instruction_rate(precision: Precision) -> Option<f64> {
    let run = multiplier(precision)?;
    let turns = (0..TURNS).map(|_| {
        let started = Instant::now();
        let done: f64 = rayon::broadcast(|_| run()).into_iter().sum();
        done / started.elapsed().as_secs_f64()
    });
    turns.reduce(f64::max)
}

#[cfg(not(target_arch = "x86_64"))]
fn multiplier(_: Precision) -> Option<fn() -> f64> {
    None
}

#[cfg(target_arch = "x86_64")]
use x86_64::multiplier;

#[cfg(target_arch = "x86_64")]
#[expect(unsafe_code, reason = "functions for vector instructions, called where these were detected")]
mod x86_64 {
    use std::arch::is_x86_feature_detected as has;
    use std::arch::x86_64::*;
    use std::hint::black_box;

    use crate::arguments::Precision;
    use crate::matmul::bf16::amx::{SIDE, Term, TileRegisters};
    use crate::matmul::bf16::pack;
    use crate::matmul::bf16::unit::{Kind, Unit};
    use crate::matmul::matrix_view::MatrixMut;

    /// Number of independent sums: more than the latency of the instruction times the number of its units.
    const SUMS: usize = 12;
    /// Number of times that each sum is updated.
    const ROUNDS: usize = 1 << 20;

    /// Returns the number of floating-point operations for this number of multiply-adds in one instruction.
    fn operations(multiply_adds: usize) -> f64 {
        (2 * multiply_adds * SUMS * ROUNDS) as f64
    }

    /// Returns a function that repeats the instruction, and returns the number of floating-point operations.
    pub(super) fn multiplier(precision: Precision) -> Option<fn() -> f64> {
        match (precision, Unit::best().map(Unit::kind)) {
            (Precision::F32, _) if has!("avx512f") => Some(f32_in_512_bits),
            (Precision::F32, _) if has!("avx2") && has!("fma") => Some(f32_in_256_bits),
            (Precision::F32, _) => None,
            (Precision::Bf16, Some(Kind::Tiles)) => Some(bf16_in_tiles),
            (Precision::Bf16, Some(Kind::Registers)) => Some(bf16_in_512_bits),
            (Precision::Bf16, None) => None,
        }
    }

    /// Defines a function that runs `ROUNDS` rounds of one instruction on independent sums, and returns their
    /// operations.
    macro_rules! repeated {
        ($name:ident, $features:literal, $vector:ty, $set:ident, $factor:expr, $instruction:ident, $multiplications:literal) => {
            fn $name() -> f64 {
                #[target_feature(enable = $features)]
                fn run() -> [$vector; SUMS] {
                    let factor = $factor;
                    // The sums differ, because the compiler would compute equal sums only once.
                    let mut sums = std::array::from_fn(|at| $set(black_box(at as f32)));
                    for _ in 0..ROUNDS {
                        for sum in &mut sums {
                            *sum = $instruction(*sum, factor, factor);
                        }
                    }
                    sums
                }
                // SAFETY: `multiplier` has detected the instructions.
                black_box(unsafe { run() });
                operations($multiplications)
            }
        };
    }
    repeated!(
        f32_in_512_bits,
        "avx512f",
        __m512,
        _mm512_set1_ps,
        _mm512_set1_ps(black_box(0.5)),
        _mm512_fmadd_ps,
        16
    );
    repeated!(
        f32_in_256_bits,
        "avx2,fma",
        __m256,
        _mm256_set1_ps,
        _mm256_set1_ps(black_box(0.5)),
        _mm256_fmadd_ps,
        8
    );
    repeated!(
        bf16_in_512_bits,
        "avx512f,avx512bw,avx512vl,avx512bf16",
        __m512,
        _mm512_set1_ps,
        pack::bf16(_mm512_set1_epi32(black_box(0x3f00_3f00))),
        _mm512_dpbf16_ps,
        32
    );

    fn bf16_in_tiles() -> f64 {
        /// Tiles along k in a term: a, b and c take 20 KiB of the L1 cache.
        const TILES: usize = 4;
        const TERMS: usize = 64;
        const BLOCKS: usize = 64;
        let a = [0; TILES * pack::PAIRS * SIDE];
        let b = [0; TILES * pack::PAIRS * SIDE];
        let mut c = [0.0; SIDE * SIDE];
        let terms: Vec<Term> = (0..TERMS).map(|_| Term::new(&a, &b, &b)).collect();
        let registers = TileRegisters::configure();
        for _ in 0..BLOCKS {
            registers.products(&terms, MatrixMut::new(&mut c, SIDE), true);
        }
        black_box(c);
        (2 * SIDE * SIDE * 2 * pack::PAIRS * TILES * TERMS * BLOCKS) as f64
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::has_bf16_instructions;

    #[test]
    fn instruction_is_faster_than_one_operation_per_cycle() {
        let rate = instruction_rate(Precision::Bf16);
        assert_eq!(rate.is_some(), has_bf16_instructions());
        // No processor with these instructions is slower than 10 GFLOP/s.
        assert!(rate.is_none_or(|rate| rate > 1e10), "{rate:?}");
        let rate = instruction_rate(Precision::F32);
        assert!(rate.is_none_or(|rate| rate > 1e9), "{rate:?}");
    }
}
