//! Sums in a fixed order.

use bert_kernels::ordered_sum::sum;
use burn::tensor::{DType, Device, Tensor, TensorData};

use crate::common::{host, leaf, numbers};

#[test]
fn sums_of_every_size_and_their_gradients() {
    for len in [0, 1, 2, 16_383, 16_384, 16_385, 32_768, 40_001] {
        let values = numbers(3, len);
        let want: f64 = values.iter().map(|x| f64::from(*x)).sum();
        let x = leaf(&values, DType::F32);
        let total = sum(x.clone());
        assert_eq!(total.dims(), [1]);
        assert!((host(total.clone())[0] - want).abs() < 1e-6 * (len as f64).max(1.0), "{len} elements");
        let gradients = (total * 3.0).backward();
        assert!(host(x.grad(&gradients).expect("a gradient")).iter().all(|slope| *slope == 3.0));
    }
}

#[test]
fn sums_of_large_tensors_do_not_depend_on_threads() {
    let len = 5_000_000;
    for seed in 1..=4 {
        let x = Tensor::<1>::from_data(TensorData::new(numbers(seed, len), [len]), &Device::flex());
        let sums = |threads: usize| {
            let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().unwrap();
            pool.install(|| host(sum(x.clone())))
        };
        let one = sums(1);
        for threads in [2, 4, 1, 2, 4] {
            assert_eq!(sums(threads), one, "{threads} threads");
        }
    }
}
