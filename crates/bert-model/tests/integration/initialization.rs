//! Untrained models with previous-next and bigram initialization: attention, predictions and segment comparison.

use bert_model::{
    Architecture, BertConfig, BertForPreTraining, BertInput, Initialization, LogBilinear, LogBilinearSide,
    Mode, Preset, PretrainingInput, to_named_tensors,
};
use burn::tensor::{Tensor, TensorData};

use crate::common::{batch, device, values};

fn model(config: &BertConfig, initialization: Initialization<'_>, seed: u64) -> BertForPreTraining {
    BertForPreTraining::initialized(config, initialization, seed, &device()).unwrap()
}

/// Returns presets, and configurations with other numbers of heads.
fn shapes() -> Vec<BertConfig> {
    let mut shapes = vec![BertConfig::preset(Preset::Tiny, 500), BertConfig::preset(Preset::Mini, 500)];
    for (hidden_size, num_attention_heads) in [(128, 4), (192, 3), (256, 2)] {
        shapes.push(BertConfig { hidden_size, num_attention_heads, ..BertConfig::preset(Preset::Tiny, 500) });
    }
    shapes
}

/// Returns the mean attention probability of each head for the token at an offset, over all tokens that have one.
fn attention_at(attention: &Tensor<4>, offset: i64) -> Vec<f64> {
    let [rows, heads, length, _] = attention.dims();
    let all = values(attention.clone());
    let mean = |head: usize| {
        let places = (0..rows).flat_map(|row| (0..length).map(move |at| (row, at)));
        let probabilities = places.filter_map(|(row, at)| {
            let to = at.checked_add_signed(offset as isize).filter(|&to| to < length)?;
            Some(f64::from(all[((row * heads + head) * length + at) * length + to]))
        });
        let probabilities: Vec<f64> = probabilities.collect();
        probabilities.iter().sum::<f64>() / probabilities.len() as f64
    };
    (0..heads).map(mean).collect()
}

#[test]
fn neighbour_heads_attend_to_adjacent_tokens() {
    for config in shapes() {
        for seed in [1, 2] {
            let model = model(&config, Initialization::PreviousNext, seed);
            let states = model.bert.forward_with_states(batch(&[96, 96], 96, 500, &device()));
            let heads = config.num_attention_heads;
            let offsets: &[i64] = if heads < 4 { &[-1, 1] } else { &[-1, 1, -2, 2] };
            for (head, &offset) in offsets.iter().enumerate() {
                let attention = attention_at(&states.attentions[0], offset);
                assert!(attention[head] > 0.9, "{heads} heads: head {head} at {offset}: {attention:?}");
            }
            // The other heads, and all heads of other layers, attend to no particular offset.
            let others = attention_at(&states.attentions[0], -1)[offsets.len()..].to_vec();
            let later = attention_at(&states.attentions[1], -1);
            assert!(
                others.iter().chain(&later).all(|&probability| probability < 0.1),
                "{others:?} {later:?}"
            );
        }
    }
}

#[test]
fn unspecified_settings_follow_the_reference() {
    let config = BertConfig::preset(Preset::Mini, 300);
    let reference = to_named_tensors(&BertForPreTraining::new(&config, 7, &device()));
    let same = to_named_tensors(&model(&config, Initialization::Reference, 7));
    assert_eq!(reference, same);
    let neighbours = to_named_tensors(&model(&config, Initialization::PreviousNext, 7));
    let differ: Vec<&str> =
        reference.keys().filter(|name| neighbours[*name] != reference[*name]).map(String::as_str).collect();
    let layer = "bert.encoder.layer.0.";
    let expected = [
        "bert.embeddings.position_embeddings.weight".to_string(),
        "bert.embeddings.token_type_embeddings.weight".into(),
        "bert.embeddings.word_embeddings.weight".into(),
        format!("{layer}attention.output.dense.weight"),
        format!("{layer}attention.self.key.weight"),
        format!("{layer}attention.self.query.weight"),
        format!("{layer}attention.self.value.weight"),
        format!("{layer}intermediate.dense.weight"),
        format!("{layer}output.dense.weight"),
        "cls.predictions.transform.dense.weight".into(),
    ];
    assert_eq!(differ, expected);
    assert_eq!(neighbours, to_named_tensors(&model(&config, Initialization::PreviousNext, 7)));
    let other = to_named_tensors(&model(&config, Initialization::PreviousNext, 8));
    assert_ne!(other[&expected[2]], neighbours[&expected[2]]);
}

#[test]
fn too_small_models_are_rejected() {
    for (hidden_size, num_attention_heads) in [(64, 1), (24, 6)] {
        let config = BertConfig { hidden_size, num_attention_heads, ..BertConfig::preset(Preset::Tiny, 50) };
        let error =
            BertForPreTraining::initialized(&config, Initialization::PreviousNext, 1, &device()).unwrap_err();
        assert!(error.to_string().contains("`num_attention_heads` is "), "{error}");
        assert!(error.to_string().contains("`reference` works with any"), "{error}");
    }
}

const WORDS: usize = 45;
const MASK: usize = 4;

/// A language in which token `t` is followed by `t + 1`, and the last token by the first after the five special ones.
/// Fitted by hand: each input direction of a side is one word, and its output direction is that word's neighbour.
fn cycle(config: &BertConfig) -> LogBilinear {
    let shape = LogBilinear::shape(config).unwrap();
    let width = shape.width;
    let first = MASK + 1;
    let table: Vec<f32> =
        (0..WORDS * width).map(|i| ((i * i) as f64 * 0.713 + i as f64).sin() as f32).collect();
    let row = |token: usize| &table[token * width..(token + 1) * width];
    let neighbour = |token: usize, offset: i64| {
        let words = (WORDS - first) as i64;
        first + (token as i64 - first as i64 - offset).rem_euclid(words) as usize
    };
    let side = |&offset: &i64| {
        let mut inputs = vec![0.0; shape.rank * width];
        let mut outputs = vec![0.0; shape.rank * width];
        for (direction, token) in (first..WORDS).enumerate() {
            inputs[direction * width..][..width].copy_from_slice(row(token));
            outputs[direction * width..][..width].copy_from_slice(row(neighbour(token, offset)));
        }
        // One direction responds to a word: a row has norm sqrt(width / 2), the projected embedding sqrt(width).
        LogBilinearSide { inputs, outputs, size: 0.5 * (width as f64).powf(1.5) }
    };
    LogBilinear {
        sides: shape.offsets.iter().map(side).collect(),
        bias: vec![-(WORDS as f32).ln(); WORDS],
        table,
        special: (0..first).collect(),
        mask_id: MASK,
        cls_id: CLS,
    }
}

#[test]
fn bigram_initialization_predicts_bigram_probabilities() {
    for config in [Preset::Tiny, Preset::Mini].map(|preset| BertConfig::preset(preset, WORDS + 3)) {
        let fitted = cycle(&config);
        let model = model(&config, Initialization::Bigram(&fitted), 3);
        let length = 33;
        let first = MASK + 1;
        let words: Vec<i32> = (0..length).map(|at| (first + at * 7 / 7 % (WORDS - first)) as i32).collect();
        // Every fourth word is masked, so each has neighbours on both sides.
        let masked: Vec<i32> = (0..length as i32).filter(|at| at % 4 == 2).collect();
        let mut seen = words.clone();
        masked.iter().for_each(|&at| seen[at as usize] = MASK as i32);
        let mut bert = batch(&[length], length, WORDS, &device());
        bert.input_ids = Tensor::from_data(TensorData::new(seen, [1, length]), &device());
        let input =
            PretrainingInput { bert, masked_lm_positions: Tensor::from_data(masked.as_slice(), &device()) };
        let ids: Vec<i32> = masked.iter().map(|&at| words[at as usize]).collect();
        let scores = model.scores(input, Tensor::from_data(ids.as_slice(), &device()));
        let right: f32 = values(scores.masked_lm_correct).iter().sum();
        // Few directions for many words leave room for one mistake; chance is one right in 40.
        assert!(
            right >= masked.len() as f32 - 1.0,
            "{} wide: {right} of {}",
            config.hidden_size,
            masked.len()
        );
    }
}

#[test]
fn padding_vocabulary_rows_are_unlikely() {
    let config = BertConfig::preset(Preset::Tiny, WORDS + 3);
    let mut fitted = cycle(&config);
    fitted.bias[7] = -12.5;
    let tensors = to_named_tensors(&model(&config, Initialization::Bigram(&fitted), 3));
    let (_, bias) = &tensors["cls.predictions.bias"];
    assert_eq!(bias[WORDS..], [-12.5; 3]);
    assert_eq!(bias[..WORDS], fitted.bias);
}

const CLS: usize = 2;
const SEP: usize = 3;

/// `[CLS] A [SEP] B [SEP]` of 20 words each. A uses every third word of the language; B uses the same words if `same`,
/// else the others.
fn pair(same: bool, seed: usize) -> BertInput {
    let length = 20;
    let first = MASK + 1;
    let word = |at: usize, rest: usize| {
        let drawn = (at * 31 + seed * 17 + at * at * 7 + seed * seed * 3) % 13;
        (first + 3 * drawn + rest) as i32
    };
    let mut ids = vec![CLS as i32];
    ids.extend((0..length).map(|at| word(at, 0)));
    ids.push(SEP as i32);
    ids.extend((0..length).map(|at| word(at + length, if same { 0 } else { 1 + at % 2 })));
    ids.push(SEP as i32);
    let all = ids.len();
    let segments: Vec<i32> = (0..all).map(|at| (at > length + 1) as i32).collect();
    let tensor = |values: Vec<i32>| Tensor::from_data(TensorData::new(values, [1, all]), &device());
    BertInput { input_ids: tensor(ids), input_mask: tensor(vec![1; all]), segment_ids: tensor(segments) }
}

#[test]
fn cls_heads_attend_to_one_segment_each() {
    for config in [Preset::Tiny, Preset::Mini].map(|preset| BertConfig::preset(preset, WORDS)) {
        let fitted = cycle(&config);
        let model = model(&config, Initialization::Bigram(&fitted), 3);
        let attentions = model.bert.forward_with_states(pair(true, 1)).attentions;
        let [_, heads, length, _] = attentions[0].dims();
        let cls_weights = |layer: usize, head: usize| {
            values(attentions[layer].clone())[head * length * length..][..length].to_vec()
        };
        for head in 0..heads {
            assert!(cls_weights(0, head)[0] > 0.99, "head {head}: {}", cls_weights(0, head)[0]);
        }
        let on_a = |head: usize| cls_weights(1, head)[..22].iter().sum::<f32>();
        assert!(on_a(0) > 0.65 && on_a(1) < 0.35, "{} {}", on_a(0), on_a(1));
    }
}

#[test]
fn untrained_model_separates_pairs_by_topic() {
    for config in [Preset::Tiny, Preset::Mini].map(|preset| BertConfig::preset(preset, WORDS)) {
        let fitted = cycle(&config);
        for seed in [1, 2, 3] {
            let model = model(&config, Initialization::Bigram(&fitted), seed);
            let next = |same: bool, text: usize| {
                let positions = Tensor::from_data([1], &device());
                let input = PretrainingInput { bert: pair(same, text), masked_lm_positions: positions };
                let logits = values(model.forward(input, Mode::Eval).seq_relationship_logits);
                logits[0] - logits[1]
            };
            let pairs = 100;
            let higher = (0..pairs).filter(|&text| next(true, text) > next(false, text)).count();
            // By chance 50 +- 5.
            assert!(higher > 75, "{} wide, seed {seed}: {higher} of {pairs}", config.hidden_size);
        }
    }
}

#[test]
fn one_layer_model_has_no_segment_comparison() {
    let config = BertConfig { num_hidden_layers: 1, ..BertConfig::preset(Preset::Tiny, WORDS) };
    let fitted = cycle(&config);
    let reference = to_named_tensors(&BertForPreTraining::new(&config, 3, &device()));
    let counts = to_named_tensors(&model(&config, Initialization::Bigram(&fitted), 3));
    let same = |name: &str| assert_eq!(reference[name], counts[name], "{name}");
    ["bert.pooler.dense.weight", "bert.pooler.dense.bias", "cls.seq_relationship.weight"]
        .into_iter()
        .for_each(same);
}

#[test]
fn counts_of_another_shape_are_rejected() {
    let tiny = BertConfig::preset(Preset::Tiny, WORDS);
    let mini = BertConfig::preset(Preset::Mini, WORDS);
    let fitted = cycle(&tiny);
    let rejected = |config: &BertConfig| {
        let initialization = Initialization::Bigram(&fitted);
        BertForPreTraining::initialized(config, initialization, 1, &device())
            .as_ref()
            .is_err_and(|error| error.to_string().contains(", or the hidden size or the heads differ;"))
    };
    assert!(!rejected(&tiny));
    assert!(rejected(&mini) && rejected(&BertConfig { vocab_size: WORDS - 1, ..tiny }));
}
