//! Compares products on both units with products in f64, and products on tiles bit by bit with a reference that rounds
//! as Intel's manual specifies.

use super::*;

fn numbers(seed: u32, len: usize) -> Vec<f32> {
    let mut state = seed;
    let mut next = || {
        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        (state >> 8) as f32 / (1 << 23) as f32 - 1.0
    };
    (0..len).map(|_| next()).collect()
}

/// Returns the nearest bf16, ties to even.
fn rounded(x: f32) -> f64 {
    let bits = x.to_bits();
    f64::from(f32::from_bits((bits + 0x7fff + (bits >> 16 & 1)) & 0xffff_0000))
}

/// Sizes that fill tiles, panels, tasks and blocks along k, and sizes that do not.
const SIZES: [(usize, usize, usize); 14] = [
    (1, 1, 1),
    (3, 5, 2),
    (8, 32, 32),
    (7, 31, 33),
    (9, 33, 31),
    (16, 64, 512),
    (17, 65, 513),
    (65, 40, 1025),
    (300, 100, 70),
    (530, 33, 129),
    (2, 3, 1500),
    (128, 128, 4096),
    (4, 4, 0),
    (0, 4, 4),
];

#[test]
#[ignore = "needs AVX-512 BF16"]
fn register_products_match_f64_in_every_layout() {
    every_layout(Unit::new(Kind::Registers).expect("this test needs a processor with AVX-512 BF16"));
}

#[test]
#[ignore = "needs AMX tiles"]
fn tiles_match_f64_in_every_layout() {
    every_layout(Unit::new(Kind::Tiles).expect("this test needs a processor with AMX tiles of bf16"));
}

fn every_layout(unit: Unit) {
    for (m, n, k) in SIZES {
        for layout in 0..4 {
            let a = numbers(1, (m * k).max(1));
            let b = numbers(2, (k * n).max(1));
            let factor = |data, transposed: bool, rows: usize, columns: usize| {
                if transposed { Matrix::rows(data, rows).transposed() } else { Matrix::rows(data, columns) }
            };
            let a = factor(&a, layout & 1 > 0, m, k);
            let b = factor(&b, layout & 2 > 0, k, n);
            for add in [false, true] {
                check(unit, Gemm { m, n, k }, add, a, b);
            }
        }
    }
}

fn check(unit: Unit, sizes: Gemm, add: bool, a: Matrix, b: Matrix) {
    let Gemm { m, n, k } = sizes;
    let c_row = n + 3;
    let before = numbers(3, m * c_row);
    let run = |threads: usize, mode, a, b| {
        let mut c = before.clone();
        let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().unwrap();
        pool.install(|| Product::new(unit, mode, sizes, a, b).run(MatrixMut::new(&mut c, c_row), add));
        c
    };
    let plain = (Operand::Plain(a), Operand::Plain(b));
    let c = run(1, Threads::One, plain.0, plain.1);
    for threads in [1, 2, 3] {
        let other = run(threads, Threads::All, plain.0, plain.1);
        assert!(c == other, "{m} {n} {k}: different bytes on {threads} threads");
    }
    let packed =
        |side, matrix, lanes| Packed::whole_for(unit, Threads::One, FactorShape { side, lanes, k }, matrix);
    let left = packed(Side::Left, a, m);
    let right = packed(Side::Right, b, n);
    let packed = (Operand::Packed(&left), Operand::Packed(&right));
    for (a, b) in [(packed.0, plain.1), (plain.0, packed.1), packed] {
        assert!(c == run(2, Threads::All, a, b), "{m} {n} {k}: different bytes with packed factors");
    }
    for (at, (c, before)) in c.iter().zip(&before).enumerate() {
        let i = at / c_row;
        let j = at % c_row;
        if j >= n {
            assert_eq!(c, before, "{m} {n} {k}: wrote outside, at {i}, {j}");
            continue;
        }
        let terms = (0..k)
            .map(|l| rounded(a.data[i * a.row + l * a.column]) * rounded(b.data[l * b.row + j * b.column]));
        let (sum, size) = terms.fold((0.0, 0.0), |(sum, size), term| (sum + term, size + term.abs()));
        let want = if add { f64::from(*before) + sum } else { sum };
        // The rounded operands are exact in f64; each of k sums may err by half a unit in the last place of f32.
        let bound = (size + before.abs() as f64) * (k as f64).sqrt().max(4.0) * 2f64.powi(-23);
        assert!((f64::from(*c) - want).abs() <= bound, "{m} {n} {k} at {i}, {j}: {c} is not {want}");
    }
}

/// Computes one element of the product with the rounding of [`Kind::Tiles`].
fn reference_product(k: usize, a: impl Fn(usize) -> f32, b: impl Fn(usize) -> f32) -> f32 {
    let rounded = |x| rounded(x) as f32;
    let mut c = 0.0;
    for tile in (0..k).step_by(32) {
        let chain = |odd| {
            let terms = (tile + odd..k.min(tile + 32)).step_by(2);
            terms.fold(0f32, |sum, l| rounded(a(l)).mul_add(rounded(b(l)), sum))
        };
        c += chain(0) + chain(1);
    }
    c
}

#[test]
#[ignore = "needs AMX tiles"]
fn tiles_round_as_intel_sdm_specifies() {
    let tiles = Unit::new(Kind::Tiles).expect("this test needs a processor with AMX tiles of bf16");
    for (m, n, k) in SIZES {
        let a = numbers(1, m * k);
        let b = numbers(2, k * n);
        let mut c = vec![f32::NAN; m * n];
        if k > 0 && m > 0 {
            let a = Matrix::rows(&a, k);
            let b = Matrix::rows(&b, n);
            let product = Product::new(tiles, Threads::One, Gemm { m, n, k }, a.into(), b.into());
            product.run(MatrixMut::new(&mut c, n), false);
        }
        for (at, c) in c.iter().enumerate().take(m * n * k.min(1)) {
            let want = reference_product(k, |l| a[at / n * k + l], |l| b[l * n + at % n]);
            assert_eq!(c.to_bits(), want.to_bits(), "{m} {n} {k} at {at}: {c} is not {want}");
        }
    }
}

#[test]
#[ignore = "needs AVX-512 BF16"]
fn rounding_ties_to_even_and_non_finite_inputs() {
    assert!(supported(), "this test needs a processor with AVX-512 BF16");
    let product = |a: f32, b: f32| {
        let mut c = [0.0];
        let a = [a];
        let b = [b];
        let a = Matrix::rows(&a, 1);
        let b = Matrix::rows(&b, 1);
        let sizes = Gemm { m: 1, n: 1, k: 1 };
        multiply(MatmulContext::bf16(Threads::One), sizes, MatrixMut::new(&mut c, 1), a.into(), b.into());
        c[0]
    };
    // In units of 2^-7 above 1: a half rounds down to 1, one and a half rounds up to two units.
    assert_eq!(product(1.0 + 0.5 / 128.0, 1.0), 1.0);
    assert_eq!(product(1.0 + 1.5 / 128.0, 1.0), 1.0 + 2.0 / 128.0);
    assert_eq!(product(1e30, 1e30), f32::INFINITY);
    assert!(product(f32::NAN, 1.0).is_nan() && product(f32::INFINITY, 0.0).is_nan());
}
