//! The masked-LM loss, and the scores of an evaluation.

use bert_kernels::masked_lm_eval::{self, masked_lm_scores};
use bert_kernels::masked_lm_loss::masked_lm_nll;
use burn::tensor::{DType, Device, Tensor};

use crate::common::{FUSED, check, check_differences, close, host, ints, leaf, numbers};

#[test]
fn masked_lm_loss() {
    for (n, hidden, vocab) in [(1, 1, 2), (3, 17, 127), (5, 3, 512), (129, 16, 1030), (17, 8, 9001)] {
        let labels: Vec<usize> = (0..n).map(|i| (i * 613 + vocab - 1) % vocab).collect();
        let op = |x: Vec<Tensor<1>>| {
            let table = x[1].clone().reshape([vocab, hidden]);
            masked_lm_nll(FUSED, x[0].clone().reshape([n, hidden]), table, x[2].clone(), ints(&labels, [n]))
        };
        let inputs = [numbers(1, n * hidden), numbers(2, vocab * hidden), numbers(3, vocab)];
        check(&format!("{n} {hidden} {vocab}"), &op, &inputs);
        if n * hidden < 600 && vocab < 600 {
            check_differences(&format!("{n} {hidden} {vocab}"), &op, &inputs);
        }
        let large = [
            numbers(1, n * hidden).iter().map(|x| 40.0 * x).collect(),
            numbers(2, vocab * hidden),
            numbers(3, vocab).iter().map(|x| 100.0 * x).collect(),
        ];
        check(&format!("large {n} {hidden} {vocab}"), &op, &large);
    }
}

#[test]
fn masked_lm_scores_of_an_evaluation() {
    for (n, hidden, vocab) in [(1, 1, 2), (3, 17, 127), (129, 16, 1030), (40, 8, 9001)] {
        let inputs = |dtype| {
            let part = |seed, len| leaf(&numbers(seed, len), dtype).inner();
            let table = part(2, vocab * hidden).reshape([vocab, hidden]);
            (part(1, n * hidden).reshape([n, hidden]), table, part(3, vocab))
        };
        // Every other label has the maximum logit, so that correct and wrong predictions occur.
        let (x, table, bias) = inputs(DType::F64);
        let best = (x.matmul(table.transpose()) + bias.unsqueeze::<2>()).argmax(1);
        let best: Vec<usize> = best.into_data().iter::<i64>().map(|i| i as usize).collect();
        let labels: Vec<usize> = (0..n).map(|i| if i % 2 == 0 { best[i] } else { i * 613 % vocab }).collect();
        let scores = |dtype| {
            let (x, table, bias) = inputs(dtype);
            let labels = ints(&labels, [n]).inner();
            masked_lm_scores(FUSED, x, table, bias, labels).map(host)
        };
        let [nll, correct] = scores(DType::F32);
        let [want_nll, want_correct] = scores(DType::F64);
        close("nll", &nll, &want_nll, 1e-5);
        assert_eq!(correct, want_correct);
        assert!((0..n).step_by(2).all(|i| correct[i] == 1.0) && (n == 1 || correct.contains(&0.0)));
        for threads in [1, 2, 3, 16] {
            let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().unwrap();
            assert_eq!(pool.install(|| scores(DType::F32)), [nll.clone(), correct.clone()]);
        }
    }
    // The first of equal logits is the prediction, within a block of the vocabulary and across blocks.
    let device = Device::flex();
    let vocab = 1000;
    for f in [masked_lm_scores, masked_lm_eval::plain] {
        let zeros = |shape: [usize; 2]| Tensor::<2>::zeros(shape, &device);
        let labels = Tensor::from_ints([0, 1, 999], &device);
        let [nll, correct] =
            f(FUSED, zeros([3, 4]), zeros([vocab, 4]), zeros([1, vocab]).reshape([vocab]), labels);
        assert_eq!(host(correct), [1.0, 0.0, 0.0]);
        close("nll", &host(nll), &[(vocab as f64).ln(); 3], 1e-6);
    }
}

#[test]
fn a_batch_without_targets_has_empty_scores() {
    let device = Device::flex();
    let inputs = || {
        let x = Tensor::<2>::zeros([0, 8], &device);
        let table = Tensor::<2>::ones([1000, 8], &device);
        (x, table, Tensor::<1>::ones([1000], &device))
    };
    let (x, table, bias) = inputs();
    let scores = masked_lm_scores(FUSED, x, table, bias, ints(&[], [0]).inner());
    assert!(scores.map(host).iter().all(Vec::is_empty));
    let (x, table, bias) = inputs();
    assert!(host(masked_lm_nll(FUSED, x, table, bias, ints(&[], [0]).inner())).is_empty());
}
