//! The sum of the three tables, and a table that two operations share.

use bert_kernels::Dropout;
use bert_kernels::embeddings::{Tables, embeddings};
use bert_kernels::layer_norm::LayerNormParameters;
use bert_kernels::masked_lm_loss::masked_lm_nll;
use burn::tensor::Tensor;

use crate::common::{FUSED, check, check_differences, ints, numbers};

#[test]
fn three_embeddings() {
    for (batch, seq, hidden) in [(1, 1, 3), (3, 17, 5), (4, 127, 33), (2, 129, 128)] {
        for dropout in [None, Dropout::new(21, 0.1)] {
            let vocabulary = 50;
            let positions = seq + 3;
            let ids: Vec<usize> = (0..batch * seq).map(|i| (i * 7 + i / 3) % vocabulary).collect();
            let segments: Vec<usize> = (0..batch * seq).map(|i| usize::from(i % seq > seq / 2)).collect();
            let op = |x: Vec<Tensor<1>>| {
                let table = |i: usize, rows: usize| x[i].clone().reshape([rows, hidden]);
                let tables = Tables {
                    word: table(0, vocabulary),
                    token_type: table(1, 2),
                    position: table(2, positions),
                };
                let ids = ints(&ids, [batch, seq]);
                let segments = ints(&segments, [batch, seq]);
                let norm = LayerNormParameters { gamma: x[3].clone(), beta: x[4].clone(), epsilon: 1e-12 };
                embeddings(FUSED, tables, [ids, segments], norm, dropout).reshape([-1])
            };
            let inputs = [
                numbers(1, vocabulary * hidden),
                numbers(2, 2 * hidden),
                numbers(3, positions * hidden),
                numbers(4, hidden),
                numbers(5, hidden),
            ];
            let name = format!("{batch} {seq} {hidden} {dropout:?}");
            check(&name, &op, &inputs);
            if hidden > 4 && seq < 20 {
                check_differences(&name, &op, &inputs);
            }
        }
    }
}

#[test]
fn embedding_table_used_twice() {
    // The word table embeds the tokens and projects onto the vocabulary: one gradient from both.
    for (batch, seq, hidden, vocab) in [(1, 1, 3, 4), (3, 17, 5, 50), (2, 33, 32, 1000)] {
        let tokens = batch * seq;
        let ids: Vec<usize> = (0..tokens).map(|i| (i * 7 + i / 3) % vocab).collect();
        let labels: Vec<usize> = (0..tokens).map(|i| (i * 5 + 1) % vocab).collect();
        let op = |x: Vec<Tensor<1>>| {
            let table = x[0].clone().reshape([vocab, hidden]);
            let rows = |i: usize, rows: usize| x[i].clone().reshape([rows, hidden]);
            let tables = Tables { word: table.clone(), token_type: rows(1, 2), position: rows(2, seq) };
            let norm = LayerNormParameters { gamma: x[3].clone(), beta: x[4].clone(), epsilon: 1e-12 };
            let segments = ints(&vec![1; tokens], [batch, seq]);
            let states = embeddings(FUSED, tables, [ints(&ids, [batch, seq]), segments], norm, None);
            masked_lm_nll(
                FUSED,
                states.reshape([tokens, hidden]),
                table,
                x[5].clone(),
                ints(&labels, [tokens]),
            )
        };
        let table = |seed, rows: usize| numbers(seed, rows * hidden);
        let inputs =
            [table(1, vocab), table(2, 2), table(3, seq), table(4, 1), table(5, 1), numbers(6, vocab)];
        let name = format!("{batch} {seq} {hidden} {vocab}");
        check(&name, &op, &inputs);
        if seq == 17 {
            check_differences(&name, &op, &inputs);
        }
    }
}
