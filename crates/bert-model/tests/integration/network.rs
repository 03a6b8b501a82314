//! Properties of the network that need no reference values.

use std::collections::BTreeSet;

use bert_model::{
    Architecture, BertConfig, BertForPreTraining, BertForSequenceClassification, BertModel, LossNormalizer,
    Mode, Preset, PretrainingInput, PretrainingTargets, classification_loss, cross_entropy_sum,
    named_parameters, regression_loss, to_named_tensors,
};
use burn::nn::LayerNormConfig;
use burn::tensor::{Device, Tensor, TensorData};

use crate::common::{
    Worst, batch, device, error, named_gradients, pretraining_loss, scalar, small_config, small_model, values,
};

fn targets(ids: &[i32], labels: &[i32], device: &Device) -> PretrainingTargets {
    PretrainingTargets {
        masked_lm_ids: Tensor::from_data(ids, device),
        masked_lm_weights: Tensor::ones([ids.len()], device),
        next_sentence_labels: Tensor::from_data(labels, device),
    }
}

#[test]
fn fresh_model_has_uniform_losses() {
    for preset in [Preset::Tiny, Preset::Mini] {
        let config = BertConfig::preset(preset, 30522);
        let model = BertForPreTraining::new(&config, 1, &device());
        let positions: Vec<i32> = (0..4 * 128).step_by(7).collect();
        let n = positions.len();
        let ids: Vec<i32> = (0..n as i32).map(|i| 1 + i * 401 % 30000).collect();
        let input = PretrainingInput {
            bert: batch(&[128, 100, 90, 128], 128, config.vocab_size, &device()),
            masked_lm_positions: Tensor::from_data(positions.as_slice(), &device()),
        };
        let normalizer = LossNormalizer { masked_lm: n as f64, next_sentence: Some(4.0) };
        let targets = targets(&ids, &[0, 1, 1, 0], &device());
        let loss = model.loss(input, targets, normalizer, Mode::train(1));
        let expected = 30522f64.ln() + 2f64.ln();
        let got = scalar(loss.total);
        assert!((got - expected).abs() < 0.15, "{got}, expected about {expected}");
    }
}

/// LayerNorm output has norm `sqrt(width)` for any input; for width 2 it is (1, -1) or (-1, 1).
#[test]
fn layer_norm_output_has_unit_variance() {
    let norm = |d: usize| LayerNormConfig::new(d).with_epsilon(1e-12).init(&device());
    for d in [2usize, 3, 64, 768] {
        let x: Vec<f32> = (0..4 * d).map(|i| ((i * i) as f32 * 0.37).sin() * 3.0 - 1.0).collect();
        let y = norm(d).forward(Tensor::<2>::from_data(TensorData::new(x, [4, d]), &device()));
        let lengths = values(y.square().sum_dim(1).sqrt());
        assert!(error(&lengths, &[(d as f32).sqrt(); 4], 0.0) < 1e-5, "{d}: {lengths:?}");
    }
    let x = Tensor::<2>::from_data([[3.0f32, -7.5], [0.1, 0.2], [-4.0, 1e3]], &device());
    let y = values(norm(2).forward(x));
    assert!(error(&y, &[1.0, -1.0, -1.0, 1.0, -1.0, 1.0], 0.0) < 1e-5, "{y:?}");
}

#[test]
fn padding_changes_nothing_at_real_tokens() {
    let config = small_config();
    let model = small_model(&config);
    let lengths = [7, 5];
    let run = |seq| {
        let states = model.bert.forward_with_states(batch(&lengths, seq, 61, &device()));
        let hidden = states.hidden_states.into_iter().map(values).collect::<Vec<_>>();
        (hidden, values(states.output.pooled_output), values(states.attentions[1].clone()))
    };
    let short = run(7);
    let long = run(12);
    for (short, long) in short.0.iter().zip(&long.0) {
        for (row, length) in lengths.iter().enumerate() {
            let h = config.hidden_size;
            let real = |x: &[f32], seq| x[row * seq * h..(row * seq + length) * h].to_vec();
            assert!(error(&real(long, 12), &real(short, 7), 0.0) < 1e-6);
        }
    }
    assert!(error(&long.1, &short.1, 0.0) < 1e-6);
    // A padded key has probability 0, and every row of probabilities sums to 1.
    for (i, row) in long.2.chunks_exact(12).enumerate() {
        let length = lengths[i / (config.num_attention_heads * 12)];
        assert!(row[length..].iter().all(|p| *p == 0.0));
        assert!((row.iter().sum::<f32>() - 1.0).abs() < 1e-6);
    }
}

#[test]
fn padding_rows_stay_finite_and_isolated() {
    let model = small_model(&small_config());
    let run = |lengths: &[usize]| {
        let input = batch(lengths, 6, 61, &device());
        values(model.bert.forward(input, Mode::Eval).pooled_output)
    };
    let with = run(&[6, 0]);
    let without = run(&[6]);
    assert!(with.iter().all(|x| x.is_finite()));
    assert!(error(&with[..24], &without, 0.0) < 1e-6);
}

#[test]
fn predictions_use_the_gathered_positions() {
    let config = small_config();
    let model = small_model(&config);
    let predict = |positions: &[i32]| {
        let input = PretrainingInput {
            bert: batch(&[8, 6], 8, 61, &device()),
            masked_lm_positions: Tensor::from_data(positions, &device()),
        };
        values(model.forward(input, Mode::Eval).prediction_logits)
    };
    let every = predict(&(0..16).collect::<Vec<_>>());
    let some = [13, 0, 7, 7, 8];
    for (logits, place) in predict(&some).chunks_exact(61).zip(some) {
        let place = place as usize;
        assert!(error(logits, &every[place * 61..(place + 1) * 61], 0.0) < 1e-6);
    }
}

#[test]
fn micro_batch_gradients_sum_to_the_batch() {
    let device = device().autodiff();
    let config = small_config();
    let model = BertForPreTraining::new(&config, 5, &device);
    let normalizer = LossNormalizer { masked_lm: 5.0, next_sentence: Some(3.0) };
    // Rows of 8 tokens; the second micro-batch has no prediction in its last row.
    let run = |rows: std::ops::Range<usize>, positions: &[i32], ids: &[i32]| {
        let all = batch(&[8, 6, 7], 8, 61, &device);
        let take = |x: Tensor<2, burn::tensor::Int>| x.narrow(0, rows.start, rows.len());
        let input = PretrainingInput {
            bert: bert_model::BertInput {
                input_ids: take(all.input_ids),
                input_mask: take(all.input_mask),
                segment_ids: take(all.segment_ids),
            },
            masked_lm_positions: Tensor::from_data(positions, &device),
        };
        let targets = targets(ids, &[0, 1, 1][rows.clone()], &device);
        let loss = model.loss(input, targets, normalizer, Mode::Eval);
        let gradients = named_gradients(&model, &loss.total.backward());
        (scalar(loss.total), gradients)
    };
    let whole = run(0..3, &[1, 4, 9, 12, 13], &[5, 6, 7, 8, 9]);
    let first = run(0..1, &[1, 4], &[5, 6]);
    let second = run(1..3, &[1, 4, 5], &[7, 8, 9]);
    assert!((first.0 + second.0 - whole.0).abs() < 1e-5 * whole.0);
    let mut worst = Worst::default();
    for (name, (_, expected)) in &whole.1 {
        let pairs = first.1[name].1.iter().zip(&second.1[name].1);
        let sum: Vec<f32> = pairs.map(|(a, b)| a + b).collect();
        worst.check(name, &sum, expected, 0.01, 1e-5);
    }
}

#[test]
fn micro_batch_without_predictions_trains_next_sentence() {
    let device = device().autodiff();
    let model = BertForPreTraining::new(&small_config(), 5, &device);
    let input = PretrainingInput {
        bert: batch(&[8, 6], 8, 61, &device),
        masked_lm_positions: Tensor::from_data(TensorData::new(Vec::<i32>::new(), [0]), &device),
    };
    let normalizer = LossNormalizer { masked_lm: 3.0, next_sentence: Some(2.0) };
    let loss = model.loss(input, targets(&[], &[0, 1], &device), normalizer, Mode::Eval);
    let gradients = named_gradients(&model, &loss.total.backward());
    assert_eq!(scalar(loss.masked_lm), 0.0);
    assert_eq!(scalar(loss.total), scalar(loss.next_sentence));
    assert!(gradients.contains_key("bert.encoder.layer.0.output.dense.weight"));
}

/// With dropout, both ways of computing the loss use the same masks.
#[test]
fn both_losses_agree_in_training() {
    let device = device().autodiff();
    let mut config = small_config();
    (config.hidden_dropout_prob, config.attention_probs_dropout_prob) = (0.2, 0.3);
    let model = BertForPreTraining::new(&config, 5, &device);
    let run = |fused: bool| {
        let input = PretrainingInput {
            bert: batch(&[8, 6], 8, 61, &device),
            masked_lm_positions: Tensor::from_data([2, 3, 9], &device),
        };
        let targets = targets(&[4, 5, 6], &[0, 1], &device);
        let normalizer = LossNormalizer { masked_lm: 3.0, next_sentence: Some(2.0) };
        let mode = Mode::train(3);
        let loss = if fused {
            model.loss(input, targets, normalizer, mode)
        } else {
            pretraining_loss(model.forward(input, mode), targets, normalizer)
        };
        let gradients = named_gradients(&model, &loss.total.backward());
        (scalar(loss.total), gradients)
    };
    let plain = run(false);
    let fused = run(true);
    assert!((plain.0 - fused.0).abs() < 1e-5 * plain.0);
    assert_eq!(plain.1.len(), named_parameters(&model).len());
    for (name, (_, expected)) in &plain.1 {
        Worst::default().check(name, &fused.1[name].1, expected, 0.01, 1e-5);
    }
}

#[test]
fn frozen_encoder_has_no_gradient_or_dropout() {
    let device = device().autodiff();
    let mut config = small_config();
    config.hidden_dropout_prob = 0.3;
    let config = config.with_labels(&["no", "yes", "maybe"]);
    let model = BertForSequenceClassification::new(&config, 5, &device);
    let input = || batch(&[8, 6], 8, 61, &device);
    let mode = Mode::train(9);
    let logits = model.forward_frozen(input(), mode);
    let labels = Tensor::from_data([2, 0], &device);
    let gradients = classification_loss(logits.clone(), labels, 2.0).backward();
    let named: BTreeSet<String> = named_gradients(&model, &gradients).into_keys().collect();
    let classifier = ["classifier.bias", "classifier.weight"];
    assert_eq!(named, classifier.map(String::from).into());

    let kept = model.pooled(input());
    assert_eq!(values(model.classify(kept.clone(), mode)), values(logits.clone()));
    assert_ne!(values(model.classify(kept, Mode::Eval)), values(logits.clone()), "the head drops");
    assert_ne!(values(model.forward(input(), mode)), values(logits), "the encoder would drop");
}

#[test]
fn initial_values_depend_only_on_their_name() {
    let config = small_config();
    let pretraining = to_named_tensors(&BertForPreTraining::new(&config, 4, &device()));
    let classifier = to_named_tensors(&BertForSequenceClassification::new(&config, 4, &device()));
    let bare = to_named_tensors(&BertModel::new(&config, 4, &device()));
    for (name, values) in bare {
        assert_eq!(values, pretraining[&format!("bert.{name}")]);
        assert_eq!(values, classifier[&format!("bert.{name}")]);
    }
    let other = to_named_tensors(&BertForPreTraining::new(&config, 5, &device()));
    let table = "bert.embeddings.word_embeddings.weight";
    assert_ne!(other[table], pretraining[table]);
    assert_eq!(other.len(), named_parameters(&small_model(&config)).len());
}

#[test]
fn losses_match_hand_computed_values() {
    let logits = || Tensor::<2>::from_data([[0.0f32, 0.0], [1000.0, 0.0], [0.0, 2.0]], &device());
    let labels = || Tensor::from_data([0, 1, 1], &device());
    let expected = 2f64.ln() + 1000.0 + (1.0 + (-2f64).exp()).ln();
    let got = scalar(cross_entropy_sum(logits(), labels()));
    assert!((got - expected).abs() < 1e-6 * expected, "{got}");
    let got = scalar(classification_loss(logits(), labels(), 6.0));
    assert!((got - expected / 6.0).abs() < 1e-6 * expected, "{got}");

    let predictions = Tensor::<2>::from_data([[1.0f32], [3.0]], &device());
    let targets = Tensor::from_data([0.0f32, 5.0], &device());
    assert_eq!(scalar(regression_loss(predictions, targets, 2.0)), 2.5);
}
