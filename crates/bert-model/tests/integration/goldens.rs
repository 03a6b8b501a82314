//! Compares the model with `transformers`: the values of `tests/golden/make_transformers_goldens.py`, in f32.
//!
//! The error of a tensor is the maximum difference, relative to its maximum magnitude. The bias of the keys has no
//! effect, because softmax ignores a constant added to a row, so its true gradient is 0 and both sides have rounding
//! errors only: they are compared relative to the smallest nonzero gradients.

use bert_model::{
    Architecture, BertConfig, BertForMultipleChoice, BertForPreTraining, BertForQuestionAnswering,
    BertForSequenceClassification, BertForTokenClassification, BertModel, Gelu, LoadPolicy, Mode,
    NamedTensors, classification_loss, load_named_tensors, map_parameters, read_pretrained_tensors,
    span_loss, to_named_tensors, token_loss,
};
use burn::module::Module;
use burn::tensor::{Device, Tensor};

use crate::common::{
    Golden, Worst, device, golden_folder, named_gradients, pretraining_loss, scalar, values,
};

const TOLERANCE: f64 = 1e-5;
const ACTIVATIONS: [&str; 2] = ["gelu", "gelu_new"];
/// The magnitude of the smallest nonzero gradient tensor.
const GRADIENT_FLOOR: f32 = 0.03;

fn model(hidden_act: &str, device: &Device) -> (BertForPreTraining, BertConfig) {
    let folder = golden_folder(hidden_act);
    let config = BertConfig::read(folder.join("config.json")).unwrap();
    assert_eq!(config.hidden_act, if hidden_act == "gelu" { Gelu::Erf } else { Gelu::Tanh });
    let tensors = read_pretrained_tensors(&folder).unwrap();
    let fresh = BertForPreTraining::new(&config, 0, device);
    let (model, _) = load_named_tensors(fresh, tensors, LoadPolicy::Exact).unwrap();
    (model, config)
}

fn check_gradients(worst: &mut Worst, got: &NamedTensors, golden: &Golden) {
    let expected = golden.floats.iter();
    let expected = expected.filter_map(|(name, t)| Some((name.strip_prefix("grad.")?, t)));
    let expected: Vec<_> = expected.collect();
    assert_eq!(got.len(), expected.len());
    for (name, (shape, values)) in expected {
        assert_eq!(&got[name].0, shape, "{name}");
        worst.check(name, &got[name].1, values, GRADIENT_FLOOR, TOLERANCE);
    }
}

#[test]
fn hidden_states_and_logits_match() {
    for hidden_act in ACTIVATIONS {
        let golden = Golden::read(hidden_act, "pretraining.safetensors");
        let (model, config) = model(hidden_act, &device());
        let mut worst = Worst::default();
        let mut check = |name: &str, got: Vec<f32>| {
            worst.check(name, &got, golden.float(name), 0.0, TOLERANCE);
        };
        let states = model.bert.forward_with_states(golden.input(&device()));
        assert_eq!(states.hidden_states.len(), config.num_hidden_layers + 1);
        assert_eq!(states.attentions.len(), config.num_hidden_layers);
        for (i, state) in states.hidden_states.into_iter().enumerate() {
            check(&format!("hidden_states.{i}"), values(state));
        }
        for (i, state) in model.bert.hidden_states(golden.input(&device())).into_iter().enumerate() {
            check(&format!("hidden_states.{i}"), values(state));
        }
        for (i, attention) in states.attentions.into_iter().enumerate() {
            check(&format!("attentions.{i}"), values(attention));
        }
        check("pooled_output", values(states.output.pooled_output));
        let (input, ..) = golden.pretraining(&device());
        let output = model.forward(input, Mode::Eval);
        check("prediction_logits", values(output.prediction_logits));
        check("seq_relationship_logits", values(output.seq_relationship_logits));
        worst.report(&format!("{hidden_act}, forward"));
    }
}

#[test]
fn losses_and_gradients_match_on_both_paths() {
    let device = device().autodiff();
    for hidden_act in ACTIVATIONS {
        let golden = Golden::read(hidden_act, "pretraining.safetensors");
        for path in ["from the logits", "without picking"] {
            let (model, _) = model(hidden_act, &device);
            let (input, targets, normalizer) = golden.pretraining(&device);
            let loss = match path {
                "from the logits" => pretraining_loss(model.forward(input, Mode::Eval), targets, normalizer),
                _ => model.loss(input, targets, normalizer, Mode::Eval),
            };
            let gradients = named_gradients(&model, &loss.total.backward());
            let mut worst = Worst::default();
            for (name, got) in [
                ("loss.total", loss.total),
                ("loss.masked_lm", loss.masked_lm),
                ("loss.next_sentence", loss.next_sentence),
            ] {
                worst.check(name, &values(got), golden.float(name), 0.0, TOLERANCE);
            }
            check_gradients(&mut worst, &gradients, &golden);
            worst.report(&format!("{hidden_act}, losses and gradients {path}"));
        }
    }
}

#[test]
fn classifier() {
    let device = device().autodiff();
    for hidden_act in ACTIVATIONS {
        let golden = Golden::read(hidden_act, "classification.safetensors");
        let batch = Golden::read(hidden_act, "pretraining.safetensors");
        let (_, config) = model(hidden_act, &device);
        let mut tensors = read_pretrained_tensors(&golden_folder(hidden_act)).unwrap();
        for name in ["classifier.weight", "classifier.bias"] {
            tensors.insert(name.into(), golden.floats[name].clone());
        }
        let fresh = BertForSequenceClassification::new(&config, 0, &device);
        let (model, report) = load_named_tensors(fresh, tensors, LoadPolicy::FreshHeads).unwrap();
        assert!(report.missing.is_empty());

        let logits = model.forward(batch.input(&device), Mode::Eval);
        let frozen = model.forward_frozen(batch.input(&device), Mode::Eval);
        let mut worst = Worst::default();
        worst.check("logits", &values(logits.clone()), golden.float("logits"), 0.0, TOLERANCE);
        worst.check("frozen logits", &values(frozen), golden.float("logits"), 0.0, TOLERANCE);
        let loss = classification_loss(logits, golden.int("labels", &device), 3.0);
        let gradients = named_gradients(&model, &loss.backward());
        worst.check("loss", &values(loss), golden.float("loss"), 0.0, TOLERANCE);
        check_gradients(&mut worst, &gradients, &golden);
        worst.report(&format!("{hidden_act}, classifier"));
    }
}

/// Returns the model with the golden encoder and the golden weights of its head.
fn with_head<M: Module>(golden: &Golden, head: &str, fresh: M) -> M {
    let mut tensors = read_pretrained_tensors(&golden_folder("gelu")).unwrap();
    for name in [format!("{head}.weight"), format!("{head}.bias")] {
        tensors.insert(name.clone(), golden.floats[&name].clone());
    }
    let (model, report) = load_named_tensors(fresh, tensors, LoadPolicy::FreshHeads).unwrap();
    assert!(report.missing.is_empty(), "{:?}", report.missing);
    model
}

/// Checks the gradients of a head and of the word embeddings.
fn check_head_gradients<M: Module>(worst: &mut Worst, model: &M, loss: &Tensor<1>, golden: &Golden) {
    let gradients = named_gradients(model, &loss.backward());
    let expected = golden.floats.iter().filter_map(|(name, of)| Some((name.strip_prefix("grad.")?, of)));
    let mut checked = 0;
    for (name, (shape, expected)) in expected {
        // Padding has scores, and so gradients; PyTorch excludes row 0, `[PAD]`, from the gradient of the table.
        let skipped = if name.contains("word_embeddings") { shape[1] } else { 0 };
        let got = &gradients[name].1[skipped..];
        let expected = &expected[skipped..];
        worst.check(name, got, expected, GRADIENT_FLOOR, TOLERANCE);
        checked += 1;
    }
    assert_eq!(checked, 3);
}

#[test]
fn question_answering() {
    let device = device().autodiff();
    let golden = Golden::read("gelu", "question_answering.safetensors");
    let batch = Golden::read("gelu", "pretraining.safetensors");
    let (_, config) = model("gelu", &device);
    let model = with_head(&golden, "qa_outputs", BertForQuestionAnswering::new(&config, 0, &device));
    let logits = model.forward(batch.input(&device), Mode::Eval);
    let mut worst = Worst::default();
    let mut check = |name: &str, got: Vec<f32>| worst.check(name, &got, golden.float(name), 0.0, TOLERANCE);
    check("start_logits", values(logits.start.clone()));
    check("end_logits", values(logits.end.clone()));
    let place = |name: &str| golden.int(name, &device);
    let loss = span_loss(logits, place("start_positions"), place("end_positions"), 3.0);
    check("loss", values(loss.clone()));
    check_head_gradients(&mut worst, &model, &loss, &golden);
    worst.report("question answering");
}

#[test]
fn token_classification() {
    let device = device().autodiff();
    let golden = Golden::read("gelu", "token_classification.safetensors");
    let batch = Golden::read("gelu", "pretraining.safetensors");
    let (_, config) = model("gelu", &device);
    let model = with_head(&golden, "classifier", BertForTokenClassification::new(&config, 0, &device));
    let logits = model.forward(batch.input(&device), Mode::Eval);
    let mut worst = Worst::default();
    worst.check("logits", &values(logits.clone()), golden.float("logits"), 0.0, TOLERANCE);
    let labelled = golden.ints["labels"].1.iter().enumerate().filter(|(_, label)| **label != -100);
    let (places, labels): (Vec<i32>, Vec<i32>) =
        labelled.map(|(place, label)| (place as i32, *label)).unzip();
    let vector = |values: &[i32]| Tensor::from_data(values, &device);
    let loss = token_loss(logits, vector(&places), vector(&labels), labels.len() as f64);
    worst.check("loss", &values(loss.clone()), golden.float("loss"), 0.0, TOLERANCE);
    check_head_gradients(&mut worst, &model, &loss, &golden);
    worst.report("token classification");
}

#[test]
fn multiple_choice() {
    let device = device().autodiff();
    let golden = Golden::read("gelu", "multiple_choice.safetensors");
    let batch = Golden::read("gelu", "pretraining.safetensors");
    let (_, config) = model("gelu", &device);
    let model = with_head(&golden, "classifier", BertForMultipleChoice::new(&config, 0, &device));
    let logits = model.forward(batch.input(&device), 3, Mode::Eval);
    assert_eq!(logits.dims(), [1, 3]);
    let mut worst = Worst::default();
    worst.check("logits", &values(logits.clone()), golden.float("logits"), 0.0, TOLERANCE);
    let loss = classification_loss(logits, golden.int("labels", &device), 1.0);
    worst.check("loss", &values(loss.clone()), golden.float("loss"), 0.0, TOLERANCE);
    check_head_gradients(&mut worst, &model, &loss, &golden);
    worst.report("multiple choice");
}

/// The encoder alone has the same names without the prefix.
#[test]
fn encoder_loads_from_a_pretraining_folder() {
    let golden = Golden::read("gelu", "pretraining.safetensors");
    let (_, config) = model("gelu", &device());
    let tensors = read_pretrained_tensors(&golden_folder("gelu")).unwrap();
    let fresh = BertModel::new(&config, 0, &device());
    let (encoder, report) = load_named_tensors(fresh, tensors, LoadPolicy::FreshHeads).unwrap();
    assert!(report.missing.is_empty());
    assert!(report.unexpected.iter().all(|name| name.starts_with("cls.")));
    let pooled = values(encoder.forward(golden.input(&device()), Mode::Eval).pooled_output);
    Worst::default().check("pooled", &pooled, golden.float("pooled_output"), 0.0, TOLERANCE);
}

/// Ten steps of the reference's optimizer, computed on the host in f32, give the weights of `transformers`.
#[test]
fn ten_training_losses_match() {
    let device = device().autodiff();
    for hidden_act in ACTIVATIONS {
        let golden = Golden::read(hidden_act, "trajectory.safetensors");
        let (mut model, _) = model(hidden_act, &device);
        let mut m = NamedTensors::new();
        let mut v = NamedTensors::new();
        let mut worst = Worst::default();
        for (step, rate) in golden.float("learning_rates").iter().enumerate() {
            let (input, targets, normalizer) = golden.pretraining(&device);
            let loss = model.loss(input, targets, normalizer, Mode::Eval);
            let gradients = named_gradients(&model, &loss.total.backward());
            let losses = [loss.total, loss.masked_lm, loss.next_sentence];
            for (kind, got) in losses.into_iter().enumerate() {
                let expected = golden.float("losses")[3 * step + kind];
                let got = scalar(got) as f32;
                worst.check(&format!("step {step}"), &[got], &[expected], 0.0, TOLERANCE);
            }
            let squares = gradients.values().flat_map(|(_, g)| g);
            let norm = squares.map(|g| f64::from(*g).powi(2)).sum::<f64>().sqrt();
            let expected = golden.float("gradient_norms")[step];
            worst.check("norm", &[norm as f32], &[expected], 0.0, TOLERANCE);
            model = adam_step(model, &gradients, norm, *rate, &mut m, &mut v);
        }
        worst.report(&format!("{hidden_act}, ten losses and norms"));

        let mut worst = Worst::default();
        for (name, (_, weights)) in to_named_tensors(&model) {
            let expected = golden.float(&format!("final.{name}"));
            // If the true gradient is 0, Adam turns rounding errors into steps.
            let tolerance = if name.ends_with("key.bias") { 1e-4 } else { TOLERANCE };
            worst.check(&name, &weights, expected, 0.0, tolerance);
        }
        worst.report(&format!("{hidden_act}, weights after ten steps"));
    }
}

fn adam_step<M: Module>(
    model: M,
    gradients: &NamedTensors,
    norm: f64,
    rate: f32,
    m: &mut NamedTensors,
    v: &mut NamedTensors,
) -> M {
    let weights = to_named_tensors(&model);
    let clip = (1.0 / norm.max(1.0)) as f32;
    map_parameters(model, |name, shape| {
        let decay = if name.contains("LayerNorm") || name.contains("bias") { 0.0 } else { 0.01 };
        let zeros = || (shape.to_vec(), vec![0.0; shape.iter().product()]);
        let m = &mut m.entry(name.into()).or_insert_with(zeros).1;
        let v = &mut v.entry(name.into()).or_insert_with(zeros).1;
        let mut p = weights[name].1.clone();
        for (i, g) in gradients[name].1.iter().enumerate() {
            let g = g * clip;
            m[i] = 0.9 * m[i] + 0.1 * g;
            v[i] = 0.999 * v[i] + 0.001 * g * g;
            p[i] -= rate * (m[i] / (v[i].sqrt() + 1e-6) + decay * p[i]);
        }
        Some(p)
    })
}
