//! Elementary functions in f32, written so that loops over them become vector code.
//!
//! They are branch-free and use no tables. Every fused multiply-add is explicit (`mul_add`, which rounds once
//! on any processor), and the compiler makes no others, so results do not depend on the vector width. On x86
//! processors from before 2013, which lack the instruction, a slow library function computes `mul_add`. A NaN
//! argument gives NaN. The tests below check these bounds of the errors: 2e-7 relative for `exp_to_88`; 2e-7
//! for the normal distribution; 2e-7 of `max(|x|, 1)` for both forms of GELU; 4e-7 for the derivative of the
//! erf form and 1e-6 for the derivative of the tanh form.

/// Defines a function that is compiled for AVX-512, for AVX2 and for the build's own target. Each call
/// selects one of the three versions at run time. All three have the same body and give the same results.
macro_rules! vectorized {
    ($(#[$meta:meta])* $visibility:vis fn $name:ident($($argument:ident: $type:ty),* $(,)?) $(-> $result:ty)? $body:block) => {
        $(#[$meta])*
        $visibility fn $name($($argument: $type),*) $(-> $result)? {
            #[inline(always)]
            fn body($($argument: $type),*) $(-> $result)? $body

            #[cfg(target_arch = "x86_64")]
            {
                #[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl")]
                fn avx512($($argument: $type),*) $(-> $result)? { body($($argument),*) }
                #[target_feature(enable = "avx2,fma")]
                fn avx2($($argument: $type),*) $(-> $result)? { body($($argument),*) }

                if $crate::cpu::math::has_avx512() {
                    #[expect(unsafe_code, reason = "a function for AVX-512, called where it was detected")]
                    // SAFETY: the processor has every feature that the function is compiled for.
                    return unsafe { avx512($($argument),*) };
                }
                if std::arch::is_x86_feature_detected!("avx2") && std::arch::is_x86_feature_detected!("fma") {
                    #[expect(unsafe_code, reason = "a function for AVX2, called where it was detected")]
                    // SAFETY: the processor has both features that the function is compiled for.
                    return unsafe { avx2($($argument),*) };
                }
            }
            body($($argument),*)
        }
    };
}
pub(crate) use vectorized;

/// Returns whether the processor has the parts of AVX-512 that kernels are compiled for.
#[cfg(target_arch = "x86_64")]
pub(crate) fn has_avx512() -> bool {
    use std::arch::is_x86_feature_detected as has;
    has!("avx512f") && has!("avx512bw") && has!("avx512dq") && has!("avx512vl")
}

/// Number of lanes of every sum, on every processor.
pub(crate) const LANES: usize = 32;

/// Evaluates a polynomial by Horner's rule, highest coefficient first.
#[inline(always)]
fn polynomial<const N: usize>(x: f32, coefficients: [f32; N]) -> f32 {
    let mut value = coefficients[0];
    for coefficient in &coefficients[1..] {
        value = value.mul_add(x, *coefficient);
    }
    value
}

/// The natural logarithm of the smallest normal f32, below which `exp_to_88` returns 0.
const MIN_EXPONENT: f32 = -87.336_54;

/// Returns `e^x` for x up to 88, such as a logit minus the maximum; 0 if x is below [`MIN_EXPONENT`].
#[inline(always)]
pub(crate) fn exp_to_88(x: f32) -> f32 {
    let (value, n) = exp_parts(max_or_nan(x, MIN_EXPONENT));
    let value = value * power_of_two(n);
    if x < MIN_EXPONENT { 0.0 } else { value }
}

/// Returns `e^r` and n with `x = n ln(2) + r` and `|r| <= ln(2) / 2`, as in Cephes' `expf`.
#[inline(always)]
fn exp_parts(x: f32) -> (f32, i32) {
    // Adding this number to a float rounds the float to an integer and leaves the integer in the low bits of
    // the sum.
    const ROUND: f32 = 12_582_912.0;
    let shifted = x.mul_add(std::f32::consts::LOG2_E, ROUND);
    let n = shifted - ROUND;
    // ln(2) is split into two parts. The first part has few bits, so that its product with n is exact.
    let r = n.mul_add(2.121_944_4e-4, n.mul_add(-0.693_359_4, x));
    let p =
        polynomial(r, [1.987_569_2e-4, 1.398_199_9e-3, 8.333_452e-3, 4.166_579_6e-2, 1.666_666_5e-1, 0.5]);
    let value = p.mul_add(r * r, r) + 1.0;
    (value, (shifted.to_bits() as i32).wrapping_sub(ROUND.to_bits() as i32))
}

#[inline(always)]
fn power_of_two(n: i32) -> f32 {
    f32::from_bits((n.wrapping_add(127) << 23) as u32)
}

/// Bound beyond which the standard normal distribution equals 0 or 1 to within 8e-8.
const TAIL: f32 = 5.25;

/// Returns the standard normal distribution function `P(X <= x)`; 0 below `-TAIL`, 1 above `TAIL`.
///
/// Computes `1/2 + x q(x^2)` with a polynomial q in `x^2 2 / TAIL^2 - 1`, fitted to minimize the maximum error of `x q`
/// (1.6e-8) on `0 <= x <= TAIL`. It needs no exponential and no division.
#[inline(always)]
pub(crate) fn normal(x: f32) -> f32 {
    let bounded = x.clamp(-TAIL, TAIL);
    let s = (bounded * bounded).mul_add(2.0 / (TAIL * TAIL), -1.0);
    let q = polynomial(
        s,
        [
            2.399_454_2e-4,
            -6.565_819_5e-4,
            6.647_477e-4,
            -1.039_540_3e-3,
            2.892_341_2e-3,
            -5.448_513e-3,
            8.417_884e-3,
            -1.277_525_35e-2,
            1.853_864_5e-2,
            -2.504_193_2e-2,
            3.203_144e-2,
            -3.976_341_3e-2,
            4.964_578_5e-2,
            -6.712_682e-2,
            1.346_593_5e-1,
        ],
    );
    let value = if x < -TAIL { 0.0 } else { bounded.mul_add(q, 0.5) };
    if x > TAIL { 1.0 } else { value }
}

/// Returns `x P(X <= x)`, the erf form of GELU.
#[inline(always)]
pub(crate) fn gelu(x: f32) -> f32 {
    // For very negative x, the distribution function is zero. The bound avoids negative infinity times zero.
    max_or_nan(x, -1e4) * normal(x)
}

/// Returns [`gelu`] and its derivative, which share most of the work.
#[inline(always)]
pub(crate) fn gelu_and_derivative(x: f32) -> (f32, f32) {
    let bounded = x.clamp(-1e4, 1e4);
    let distribution = normal(x);
    let density = exp_to_88(-0.5 * bounded * bounded) * 0.398_942_3;
    (max_or_nan(x, -1e4) * distribution, bounded.mul_add(density, distribution))
}

const SQRT_8_OVER_PI: f32 = 1.595_769_2;
const CUBIC: f32 = 0.044_715;

/// Returns the tanh form of GELU, `0.5 x (1 + tanh(u))` with `u = sqrt(2/pi) (x + 0.044715 x^3)`, computed as
/// `x / (1 + e^(-2u))`, and its derivative.
#[inline(always)]
pub(crate) fn gelu_tanh_and_derivative(x: f32) -> (f32, f32) {
    let bounded = x.clamp(-1e4, 1e4);
    let (s, rest) = sigmoid_of_cubic(bounded);
    let slope = SQRT_8_OVER_PI * (3.0 * CUBIC * bounded).mul_add(bounded, 1.0);
    (max_or_nan(x, -1e4) * s, (bounded * s * rest).mul_add(slope, s))
}

/// Returns `1 / (1 + e^(-2u))` and its difference from 1, without cancellation.
#[inline(always)]
fn sigmoid_of_cubic(x: f32) -> (f32, f32) {
    let exponent = -SQRT_8_OVER_PI * (CUBIC * x * x).mul_add(x, x);
    // The bound keeps `e` finite; otherwise the second value could be infinity times zero.
    let e = exp_to_88(if exponent > 80.0 { 80.0 } else { exponent });
    let s = 1.0 / (1.0 + e);
    (s, e * s)
}

/// Returns the maximum of x and `minimum`; NaN if x is NaN, unlike `f32::max`.
#[inline(always)]
fn max_or_nan(x: f32, minimum: f32) -> f32 {
    if x < minimum { minimum } else { x }
}

/// Returns the sum of the elements, added in [`LANES`] lanes.
#[inline(always)]
pub(crate) fn sum(x: &[f32]) -> f32 {
    let mut lanes = [0f32; LANES];
    let chunks = x.chunks_exact(LANES);
    let rest = chunks.remainder();
    for chunk in chunks {
        for (lane, x) in lanes.iter_mut().zip(chunk) {
            *lane += x;
        }
    }
    for (lane, x) in lanes.iter_mut().zip(rest) {
        *lane += x;
    }
    fold(lanes)
}

/// Replaces each element `x` by `f(x)`, and returns the sum of the results in the order of [`sum`].
#[inline(always)]
pub(crate) fn map_sum(x: &mut [f32], f: impl Fn(f32) -> f32) -> f32 {
    let mut lanes = [0f32; LANES];
    let mut chunks = x.chunks_exact_mut(LANES);
    for chunk in &mut chunks {
        for (lane, x) in lanes.iter_mut().zip(chunk) {
            *x = f(*x);
            *lane += *x;
        }
    }
    for (lane, x) in lanes.iter_mut().zip(chunks.into_remainder()) {
        *x = f(*x);
        *lane += *x;
    }
    fold(lanes)
}

/// Replaces each `x` by `f(x, y)`, and returns the maximum of the results, as [`max`] does.
#[inline(always)]
pub(crate) fn zip_max(x: &mut [f32], y: &[f32], f: impl Fn(f32, f32) -> f32) -> f32 {
    let mut lanes = [f32::NEG_INFINITY; LANES];
    let mut xs = x.chunks_exact_mut(LANES);
    let ys = y.chunks_exact(LANES);
    let y_rest = ys.remainder();
    for (x, y) in (&mut xs).zip(ys) {
        for ((lane, x), y) in lanes.iter_mut().zip(x).zip(y) {
            *x = f(*x, *y);
            *lane = if *x > *lane { *x } else { *lane };
        }
    }
    for ((lane, x), y) in lanes.iter_mut().zip(xs.into_remainder()).zip(y_rest) {
        *x = f(*x, *y);
        *lane = if *x > *lane { *x } else { *lane };
    }
    pairwise(lanes, |a, b| if b > a { b } else { a })
}

/// Returns the dot product, added in [`LANES`] lanes.
#[inline(always)]
pub(crate) fn dot(x: &[f32], y: &[f32]) -> f32 {
    let mut lanes = [0f32; LANES];
    let xs = x.chunks_exact(LANES);
    let ys = y.chunks_exact(LANES);
    let x_rest = xs.remainder();
    let y_rest = ys.remainder();
    for (x, y) in xs.zip(ys) {
        for ((lane, x), y) in lanes.iter_mut().zip(x).zip(y) {
            *lane = x.mul_add(*y, *lane);
        }
    }
    for ((lane, x), y) in lanes.iter_mut().zip(x_rest).zip(y_rest) {
        *lane = x.mul_add(*y, *lane);
    }
    fold(lanes)
}

/// Returns the maximum of the elements; NaN is skipped.
#[inline(always)]
pub(crate) fn max(x: &[f32]) -> f32 {
    let mut lanes = [f32::NEG_INFINITY; LANES];
    let chunks = x.chunks_exact(LANES);
    let rest = chunks.remainder();
    for chunk in chunks {
        for (lane, x) in lanes.iter_mut().zip(chunk) {
            *lane = if *x > *lane { *x } else { *lane };
        }
    }
    for (lane, x) in lanes.iter_mut().zip(rest) {
        *lane = if *x > *lane { *x } else { *lane };
    }
    pairwise(lanes, |a, b| if b > a { b } else { a })
}

/// Returns the sum of the lanes, added pairwise.
#[inline(always)]
fn fold(lanes: [f32; LANES]) -> f32 {
    pairwise(lanes, |a, b| a + b)
}

#[inline(always)]
fn pairwise(lanes: [f32; LANES], of: impl Fn(f32, f32) -> f32) -> f32 {
    // The arrays have constant lengths, so the compiler keeps them in registers.
    let lanes: [f32; 16] = std::array::from_fn(|i| of(lanes[i], lanes[i + 16]));
    let lanes: [f32; 8] = std::array::from_fn(|i| of(lanes[i], lanes[i + 8]));
    let lanes: [f32; 4] = std::array::from_fn(|i| of(lanes[i], lanes[i + 4]));
    let lanes: [f32; 2] = std::array::from_fn(|i| of(lanes[i], lanes[i + 2]));
    of(lanes[0], lanes[1])
}

#[cfg(test)]
mod tests {
    use super::*;

    fn relative(got: f32, want: f64) -> f64 {
        (f64::from(got) - want).abs() / want.abs().max(f64::from(f32::MIN_POSITIVE))
    }

    #[test]
    fn exp_relative_error_is_below_2e_7() {
        let mut worst = 0.0f64;
        for i in -87_000..=88_000 {
            let x = i as f32 * 1e-3;
            worst = worst.max(relative(exp_to_88(x), f64::from(x).exp()));
        }
        assert!(worst < 2e-7, "{worst}");
        assert_eq!(exp_to_88(0.0), 1.0);
    }

    #[test]
    fn exp_is_zero_below_the_normal_numbers() {
        for i in -104_000..-87_336 {
            let x = i as f32 * 1e-3;
            assert_eq!(exp_to_88(x), 0.0, "{x}");
        }
        assert_eq!(exp_to_88(-10_000.0), 0.0);
        assert_eq!(exp_to_88(f32::NEG_INFINITY), 0.0);
        assert!(exp_to_88(f32::NAN).is_nan());
    }

    // P(X <= x) in f64: from a Taylor series for small |x|, and from Laplace's continued fraction for the rest.
    fn normal_f64(x: f64) -> f64 {
        let a = x.abs();
        let density = (-0.5 * a * a).exp() / (2.0 * std::f64::consts::PI).sqrt();
        let tail = if a < 3.0 {
            let mut term = a;
            let mut sum = a;
            let mut n = 1.0;
            while term > 1e-18 * sum {
                n += 2.0;
                term *= a * a / n;
                sum += term;
            }
            0.5 - density * sum
        } else {
            let fraction = (1..200).rev().fold(a, |f, n| a + f64::from(n) / f);
            density / fraction
        };
        if x < 0.0 { tail } else { 1.0 - tail }
    }

    #[test]
    fn gelu_and_its_derivative() {
        let mut value = 0.0f64;
        let mut slope = 0.0f64;
        for i in -14_000..14_000 {
            let x = i as f32 * 1e-3;
            let wide = f64::from(x);
            let want = wide * normal_f64(wide);
            value = value.max((f64::from(gelu(x)) - want).abs() / wide.abs().max(1.0));
            let density = (-0.5 * wide * wide).exp() / (2.0 * std::f64::consts::PI).sqrt();
            slope =
                slope.max((f64::from(gelu_and_derivative(x).1) - normal_f64(wide) - wide * density).abs());
            assert!((f64::from(normal(x)) - normal_f64(wide)).abs() < 2e-7, "{x}");
        }
        assert!(value < 2e-7 && slope < 4e-7, "{value} {slope}");
    }

    #[test]
    fn gelu_tanh_and_its_derivative() {
        let mut value = 0.0f64;
        let mut slope = 0.0f64;
        for i in -14_000..14_000 {
            let x = i as f32 * 1e-3;
            let wide = f64::from(x);
            let c = (2.0 / std::f64::consts::PI).sqrt();
            let tanh = (c * (wide + 0.044715 * wide.powi(3))).tanh();
            value = value.max(
                (f64::from(gelu_tanh_and_derivative(x).0) - 0.5 * wide * (1.0 + tanh)).abs()
                    / wide.abs().max(1.0),
            );
            let want = 0.5 * (1.0 + tanh)
                + 0.5 * wide * (1.0 - tanh * tanh) * c * (1.0 + 3.0 * 0.044715 * wide * wide);
            slope = slope.max((f64::from(gelu_tanh_and_derivative(x).1) - want).abs());
        }
        assert!(value < 2e-7 && slope < 1e-6, "{value} {slope}");
    }

    #[test]
    fn extremes_stay_finite_and_nan_passes() {
        for f in [gelu, |x| gelu_tanh_and_derivative(x).0] {
            assert_eq!(f(1e30), 1e30);
            assert!(f(-1e30).abs() < 1e-30);
            assert_eq!(f(0.0), 0.0);
            assert_eq!(f(f32::INFINITY), f32::INFINITY);
            assert!(f(f32::NAN).is_nan());
        }
        for f in [|x| gelu_and_derivative(x).1, |x| gelu_tanh_and_derivative(x).1] {
            assert_eq!(f(1e30), 1.0);
            assert!(f(-1e30).abs() < 1e-20);
            assert!((f(0.0) - 0.5).abs() < 1e-7);
            assert!(f(f32::NAN).is_nan());
        }
    }

    #[test]
    fn fused_passes_equal_separate_passes() {
        for n in [0, 1, 31, 32, 33, 100] {
            let x: Vec<f32> = (0..n).map(|i| (i as f32 * 0.7).sin()).collect();
            let y: Vec<f32> = (0..n).map(|i| (i as f32 * 1.3).cos()).collect();
            let mapped: Vec<f32> = x.iter().map(|x| exp_to_88(*x)).collect();
            let mut in_place = x.clone();
            assert_eq!(map_sum(&mut in_place, exp_to_88), sum(&mapped));
            assert_eq!(in_place, mapped);
            let zipped: Vec<f32> = x.iter().zip(&y).map(|(x, y)| x - y).collect();
            let mut in_place = x;
            assert_eq!(zip_max(&mut in_place, &y, |x, y| x - y), max(&zipped));
            assert_eq!(in_place, zipped);
        }
    }

    #[test]
    fn sums_of_any_length() {
        for n in [0, 1, 15, 16, 17, 100] {
            let x: Vec<f32> = (0..n).map(|i| i as f32).collect();
            assert_eq!(sum(&x), x.iter().sum::<f32>());
            assert_eq!(dot(&x, &x), x.iter().map(|x| x * x).sum::<f32>());
            assert_eq!(max(&x), x.last().copied().unwrap_or(f32::NEG_INFINITY));
        }
    }
}
