//! Tests the figures on held-out data: nats per character for any batch size, and the unigram and bigram baselines.

use std::fs;

use bert_data::{DataSet, Layout};
use bert_inference::DeviceName;
use bert_model::{Architecture, BertConfig, BertForPreTraining};
use bert_training::{Baseline, DataLoader, Evaluation, baselines, evaluate, top_k_accuracy};
use burn::module::Module;

use crate::world::World;

/// Word pieces, and the number of characters of text in each.
const PIECES: [(&str, u64); 10] = [
    ("naïve", 5),
    ("##té", 2),
    ("##ß", 1),
    ("gro", 3),
    ("日", 1),
    ("ein", 3),
    ("##mal", 3),
    ("Ωmega", 5),
    (".", 1),
    ("[UNK]", 1),
];

#[test]
fn nats_per_character_counts_masked_characters() {
    let world = World::new(0.0);
    let pieces = ["[PAD]", "[CLS]", "[SEP]", "[MASK]"].into_iter().chain(PIECES.map(|(piece, _)| piece));
    fs::write(world.at("vocab.txt"), pieces.collect::<Vec<_>>().join("\n") + "\n").unwrap();
    let line = "naïveté groß 日 ein einmal Ωmega . unknown\n";
    fs::write(world.at("text.txt"), (line.repeat(4) + "\n").repeat(5)).unwrap();
    world.build("words", |data| data.do_lower_case = Some(false));
    let mut loader = DataLoader::open(&world.at("words"), 0).unwrap();
    let rows = loader.rows();
    let masked = loader.stored(0, rows).unwrap().masked_lm_ids;
    let expected: u64 = masked.iter().map(|&id| PIECES[id as usize - 4].1).sum();
    for piece in 4..4 + PIECES.len() as i32 {
        assert!(masked.contains(&piece), "{piece} is masked somewhere");
    }

    let device = DeviceName::Flex.open().unwrap();
    let config = BertConfig { vocab_size: 14, ..BertConfig::read(world.at("config.json")).unwrap() };
    let model = BertForPreTraining::new(&config, 3, &device.clone().autodiff()).valid();
    let mut measure = |size| evaluate(&model, &mut loader, size, None).unwrap();
    let whole = measure(rows as usize);
    assert_eq!(whole.masked_characters, expected);
    let nats = whole.masked_lm_loss * whole.predictions as f64;
    assert!((whole.masked_lm_nats_per_character * expected as f64 - nats).abs() < 1e-9 * nats, "{whole:?}");
    for size in [1, 3, 7] {
        let parts = measure(size);
        assert_eq!(parts.masked_characters, expected);
        let one = parts.masked_lm_nats_per_character;
        let other = whole.masked_lm_nats_per_character;
        assert!((one - other).abs() < 1e-6, "{one} in batches of {size}, {other} at once");
    }
}

/// Words of two pieces are longer than the budget of one masked token, so whole-word masking skips them.
#[test]
fn batches_without_masked_tokens_are_evaluated() {
    let world = World::new(0.0);
    let pieces = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "long", "##word", "short"];
    fs::write(world.at("vocab.txt"), pieces.join("\n") + "\n").unwrap();
    let document = |last: &str| "longword longword longword\n".repeat(5) + last + "\n\n";
    fs::write(world.at("text.txt"), document("longword").repeat(7) + &document("short")).unwrap();
    world.build("words", |data| (data.do_whole_word_mask, data.max_predictions_per_seq) = (true, Some(1)));
    let mut loader = DataLoader::open(&world.at("words"), 0).unwrap();
    let device = DeviceName::Flex.open().unwrap();
    let config = BertConfig { vocab_size: 8, ..BertConfig::read(world.at("config.json")).unwrap() };
    let model = BertForPreTraining::new(&config, 3, &device.clone().autodiff()).valid();
    let rows = loader.rows();
    assert!((0..rows).any(|row| loader.stored(row, row + 1).unwrap().masked_lm_ids.is_empty()));
    let mut measure = |size| evaluate(&model, &mut loader, size, None).unwrap();
    let whole = measure(rows as usize);
    let single = measure(1);
    assert!(whole.predictions > 0 && single.predictions == whole.predictions, "{whole:?}");
    assert!((single.masked_lm_loss - whole.masked_lm_loss).abs() < 1e-6, "{single:?}, {whole:?}");
    let top = [1, rows as usize].map(|size| top_k_accuracy(&model, &mut loader, 2, size, None).unwrap());
    assert_eq!(top[0], top[1]);
}

#[test]
fn evaluation_without_a_figure_is_read_back() {
    let written = Evaluation { instances: 8, next_sentence_loss: f64::NAN, ..Evaluation::default() };
    let again: Evaluation = serde_json::from_str(&serde_json::to_string(&written).unwrap()).unwrap();
    assert!(again.next_sentence_loss.is_nan() && again.instances == 8);
}

/// An instance: its tokens with masks, and (position, original token) of each mask.
type Instance = (Vec<usize>, Vec<(usize, usize)>);

fn instances(loader: &mut DataLoader) -> Vec<Instance> {
    let rows = loader.rows();
    let row = |index| {
        let row = loader.stored_row(index).unwrap();
        let masked = row.masked_lm_positions.iter().zip(row.masked_lm_ids);
        let ids = row.input_ids.iter().map(|&id| id as usize).collect();
        (ids, masked.map(|(&at, &id)| (at as usize, id as usize)).collect())
    };
    (0..rows).map(row).collect()
}

/// Computes both baselines of `texts` on some instances, from tables of the whole vocabulary.
fn from_whole_tables(texts: &[Vec<usize>], held_out: &[Instance], mask: usize, size: usize) -> [Baseline; 2] {
    let mut single = vec![1.0; size];
    let mut pairs = vec![vec![0.0; size]; size];
    for text in texts {
        text.iter().for_each(|&id| single[id] += 1.0);
        text.windows(2).for_each(|pair| pairs[pair[0]][pair[1]] += 1.0);
    }
    let all: f64 = single.iter().sum();
    let p: Vec<f64> = single.iter().map(|count| count / all).collect();
    let columns: Vec<Vec<f64>> = (0..size).map(|b| pairs.iter().map(|row| row[b]).collect()).collect();
    let mut sums = [(0.0, 0.0); 2];
    let mut n = 0.0;
    for (ids, masked) in held_out {
        for &(at, target) in masked {
            let mut q = p.clone();
            for (counts, neighbour) in [(&pairs, ids[at - 1]), (&columns, ids[at + 1])] {
                let counts = &counts[neighbour];
                let seen: f64 = counts.iter().sum();
                for t in (0..size).filter(|_| neighbour != mask) {
                    q[t] *= (counts[t] + 500.0 * p[t]) / (seen + 500.0) / p[t];
                }
            }
            for (sum, q) in sums.iter_mut().zip([&p, &q]) {
                let best = (0..size).rev().max_by(|&a, &b| q[a].total_cmp(&q[b])).unwrap();
                *sum = (sum.0 - (q[target] / q.iter().sum::<f64>()).ln(), sum.1 + f64::from(best == target));
            }
            n += 1.0;
        }
    }
    sums.map(|(loss, hits)| Baseline { masked_lm_loss: loss / n, masked_lm_accuracy: hits / n })
}

/// Checks that data with another vocabulary is rejected.
fn check_other_vocabulary_is_rejected(world: &World, held_out: &mut DataLoader, tokens: &[String]) {
    fs::write(world.at("vocab.txt"), tokens.join("\n") + "\nmore\n").unwrap();
    world.build("other", |_| {});
    let train = [(DataSet::open(&world.at("other")).unwrap(), 1.0)];
    assert!(
        baselines(&train, held_out, None)
            .as_ref()
            .is_err_and(|error| error.to_string().contains("the inputs do not match:"))
    );
}

#[test]
fn baselines_do_not_depend_on_the_layout() {
    let world = World::new(0.0);
    world.build("held", |data| data.random_seed = 7);
    world.build("documents", |data| {
        data.layout = Layout::Documents;
        data.dupe_factor = 10;
    });
    let text = fs::read_to_string(world.at("text.txt")).unwrap();
    let mut held_out = DataLoader::open(&world.at("held"), 0).unwrap();
    let vocabulary = held_out.vocabulary().clone();
    let mask = vocabulary.mask_id() as usize;
    let size = vocabulary.len();
    let questions = instances(&mut held_out);
    let id = |word: &str| vocabulary.id(word).unwrap() as usize;
    let documents: Vec<Vec<usize>> =
        text.split("\n\n").map(|document| document.split_whitespace().map(id).collect()).collect();
    // Instances contain their segments as often as these were stored.
    let mut segments = Vec::new();
    for (mut ids, masked) in instances(&mut DataLoader::open(&world.at("data"), 0).unwrap()) {
        masked.into_iter().for_each(|(at, id)| ids[at] = id);
        let special = [vocabulary.cls_id() as usize, vocabulary.sep_id() as usize];
        segments.extend(ids.split(|id| special.contains(id)).map(<[usize]>::to_vec));
    }
    for (layout, texts) in [("documents", documents), ("data", segments)] {
        let train = [(DataSet::open(&world.at(layout)).unwrap(), 1.0)];
        for instances in [None, Some(5)] {
            let asked = &questions[..instances.unwrap_or(questions.len())];
            let found = baselines(&train, &mut held_out, instances.map(|n| n as u64)).unwrap();
            let expected = from_whole_tables(&texts, asked, mask, size);
            for (found, expected) in [found.unigram, found.bigram].iter().zip(expected) {
                let difference = (found.masked_lm_loss - expected.masked_lm_loss).abs();
                assert!(difference < 1e-10, "{layout}: {found:?}, {expected:?}");
                assert_eq!(found.masked_lm_accuracy, expected.masked_lm_accuracy, "{layout}");
            }
            assert!(found.bigram.masked_lm_loss < found.unigram.masked_lm_loss, "{found:?}");
            assert_eq!(found.predictions, asked.iter().map(|(_, masked)| masked.len() as u64).sum::<u64>());
        }
    }

    check_other_vocabulary_is_rejected(&world, &mut held_out, vocabulary.tokens());
}
