//! Decoding with a cache, greedy search and beam search.

use bert_model::Mode;
use bert_translation::{
    Fusion, SearchConfig, SpecialTokens, StepScores, Translation, TranslationModel, translate,
};
use burn::tensor::{Device, activation::log_softmax};

use crate::common::{check, ids, model, source, values};

const SPECIAL: SpecialTokens = SpecialTokens { start: 1, end: 2, pad: 0, mask: 3 };
const KINDS: [Fusion; 3] = [Fusion::None, Fusion::Embeddings, Fusion::Fused];

/// Returns the log-probabilities after each of these tokens, computed at once without a cache.
fn uncached(model: &TranslationModel, kind: Fusion, tokens: &[i32], sentence: usize) -> Vec<Vec<f32>> {
    let device = Device::flex();
    let encoded = model.encode(&source(kind, &device), Mode::Eval);
    let both = [tokens, tokens].concat();
    let mut caches = model.transformer.caches(&encoded);
    let targets = ids(&both, [2, tokens.len()], &device);
    let hidden = model.transformer.decode(targets, 0, &mut caches, Mode::Eval);
    let hidden = hidden.reshape([2 * tokens.len(), 16]);
    let all = values(log_softmax(model.transformer.logits(hidden), 1));
    all.chunks(13).skip(sentence * tokens.len()).take(tokens.len()).map(<[f32]>::to_vec).collect()
}

#[test]
fn cached_decoding_equals_uncached_decoding() {
    let device = Device::flex();
    for kind in KINDS {
        let model = model(kind, &device);
        let sentences = [[1, 7, 12, 4, 4, 9], [1, 5, 6, 11, 8, 10]];
        let mut scores = StepScores::new(&model, &source(kind, &device), 1);
        let expected = [0, 1].map(|at| uncached(&model, kind, &sentences[at], at));
        for step in 0..6 {
            let next = scores.next(&[sentences[0][step] as u32, sentences[1][step] as u32]);
            for sentence in 0..2 {
                check("scores", &next[sentence * 13..(sentence + 1) * 13], &expected[sentence][step]);
            }
        }
    }
}

#[test]
fn selected_rows_continue_their_hypotheses() {
    let device = Device::flex();
    let model = model(Fusion::Fused, &device);
    let mut scores = StepScores::new(&model, &source(Fusion::Fused, &device), 2);
    scores.next(&[1, 1, 1, 1]);
    scores.next(&[5, 7, 8, 9]);
    // Row 0 continues row 1, and row 3 continues row 2.
    scores.select(&[1, 0, 2, 2]);
    let next = scores.next(&[4, 4, 6, 6]);
    let expected = |tokens: &[i32], at| uncached(&model, Fusion::Fused, tokens, at)[2].clone();
    check("row 0", &next[..13], &expected(&[1, 7, 4], 0));
    check("row 3", &next[39..], &expected(&[1, 8, 6], 1));
}

/// Returns the best translation of a sentence among all of at most `max_length` tokens.
fn best_of_all(model: &TranslationModel, sentence: usize, config: SearchConfig) -> Translation {
    let mut best = Translation { ids: vec![], score: f64::NEG_INFINITY };
    let mut open: Vec<(Vec<u32>, f64)> = vec![(vec![], 0.0)];
    for length in 1..=config.max_length {
        let penalty = ((5.0 + length as f64) / 6.0).powf(config.length_penalty);
        let mut extended = vec![];
        for (ids, score) in open {
            let tokens: Vec<i32> = std::iter::once(1).chain(ids.iter().map(|&id| id as i32)).collect();
            let next = uncached(model, Fusion::Fused, &tokens, sentence).pop().unwrap();
            let finished = (score + f64::from(next[2])) / penalty;
            if finished > best.score {
                best = Translation { ids: ids.clone(), score: finished };
            }
            let longer =
                (4..13u32).map(|id| ([&ids[..], &[id]].concat(), score + f64::from(next[id as usize])));
            extended.extend(longer);
        }
        open = extended;
    }
    best
}

#[test]
fn wide_beam_finds_the_best_of_all() {
    let device = Device::flex();
    let model = model(Fusion::Fused, &device);
    for length_penalty in [0.0, 0.6, 2.0] {
        let config = SearchConfig { beam_size: 90, length_penalty, max_length: 3 };
        let found = translate(&model, &source(Fusion::Fused, &device), SPECIAL, config);
        for (sentence, found) in found.iter().enumerate() {
            let best = best_of_all(&model, sentence, config);
            assert_eq!(found.ids, best.ids, "{length_penalty}");
            assert!((found.score - best.score).abs() < 1e-4, "{} {}", found.score, best.score);
        }
    }
}

#[test]
fn beam_of_one_is_greedy_search() {
    let device = Device::flex();
    for kind in KINDS {
        let model = model(kind, &device);
        let config = SearchConfig { beam_size: 1, length_penalty: 0.6, max_length: 8 };
        let found = translate(&model, &source(kind, &device), SPECIAL, config);
        for (sentence, found) in found.iter().enumerate() {
            let mut tokens = vec![1];
            while tokens.len() <= 8 {
                let next = uncached(&model, kind, &tokens, sentence).pop().unwrap();
                let allowed = (0..13).filter(|id| ![0, 1, 3].contains(id));
                let best = allowed.max_by(|&a, &b| next[a].total_cmp(&next[b])).unwrap();
                if best == 2 {
                    break;
                }
                tokens.push(best as i32);
            }
            let greedy: Vec<u32> = tokens[1..].iter().map(|&id| id as u32).collect();
            // At the limit of 8 tokens, the last place is for the end token.
            assert_eq!(found.ids, greedy[..greedy.len().min(7)], "{kind:?}");
        }
    }
}
