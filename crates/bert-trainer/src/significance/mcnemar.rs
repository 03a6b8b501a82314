//! Computes McNemar's exact test: whether two models that answered the same examples differ in how many they get
//! right.

use serde::{Deserialize, Serialize};

use crate::tasks::Label;

/// The examples on which two models differ, and how odd that would be if they were equally good.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct McNemar {
    /// Examples that only the first gets right.
    pub only_first: usize,
    /// Examples that only the second gets right.
    pub only_second: usize,
    /// Two-sided probability of a division as uneven, if each such example fell to either model with probability 1/2.
    pub p: f64,
}

impl McNemar {
    /// The test of two models' answers.
    ///
    /// # Panics
    /// When there is not one answer of each for every label.
    pub fn of(labels: &[Label], first: &[Label], second: &[Label]) -> Self {
        assert!(labels.len() == first.len() && labels.len() == second.len(), "one answer for each label");
        let right =
            labels.iter().zip(first.iter().zip(second)).map(|(label, (a, b))| (a == label, b == label));
        let (mut only_first, mut only_second) = (0, 0);
        for pair in right {
            only_first += usize::from(pair == (true, false));
            only_second += usize::from(pair == (false, true));
        }
        Self { only_first, only_second, p: two_sided(only_first, only_second) }
    }
}

/// Twice the probability of at most the smaller number among as many throws of a fair coin, at most 1.
fn two_sided(a: usize, b: usize) -> f64 {
    let (fewer, all) = (a.min(b), a + b);
    // In logarithms: 2^-n has no floating-point number from n = 1075 on.
    let mut term = -(all as f64) * std::f64::consts::LN_2;
    let mut sum = term.exp();
    for k in 1..=fewer {
        term += ((all - k + 1) as f64 / k as f64).ln();
        sum += term.exp();
    }
    (2.0 * sum).min(1.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn close(value: f64, expected: f64) {
        assert!((value - expected).abs() <= 1e-9 * expected, "{value} is not {expected}");
    }

    /// 6 against 16: exact p = .0525 in Fagerland, Lydersen and Laake, The McNemar test for binary matched-pairs
    /// data, BMC Medical Research Methodology 13 (2013). The other digits are `2 * sum(comb(n, k) for k in range(b +
    /// 1)) / 2**n` in exact integers of Python.
    #[test]
    fn exact_probabilities() {
        close(two_sided(6, 16), 220_112.0 / 4_194_304.0);
        close(two_sided(59, 121), 4.434449263755176e-06);
        close(two_sided(900, 1100), 8.457089535503927e-06);
        close(two_sided(0, 5), 0.0625);
        assert_eq!(two_sided(0, 0), 1.0);
        assert_eq!(two_sided(7, 7), 1.0);
    }

    #[test]
    fn what_both_get_right_or_wrong_does_not_count() {
        let class = |of: [usize; 6]| of.map(Label::Class);
        let test =
            McNemar::of(&class([0, 0, 1, 1, 2, 2]), &class([0, 0, 1, 0, 0, 1]), &class([0, 1, 0, 0, 1, 2]));
        assert_eq!((test.only_first, test.only_second, test.p), (2, 1, 1.0));
    }
}
