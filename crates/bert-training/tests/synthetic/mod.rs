//! Runs training steps on a synthetic batch, for tests and benchmarks: the cost of a step does not depend on the words.

// Each program uses only a part of this module.
#![allow(dead_code)]

use bert_inference::PaddedBatch;
use bert_model::{
    Architecture, BertConfig, BertForPreTraining, BertForSequenceClassification, BertInput, LossNormalizer,
    Mode, PretrainingInput, classification_loss,
};
use bert_random::{Domain, Random, Stream};
use bert_training::{
    EvaluationSums, MicroBatchLoss, Optimizer, OptimizerConfig, PretrainingBatch, StepSettings,
    evaluate_batch, pretraining_objective, train_step,
};
use burn::module::Module;
use burn::tensor::{Device, Int, Tensor, TensorData};

fn int_vector(values: &[i32], device: &Device) -> Tensor<1, Int> {
    Tensor::from_data(TensorData::new(values.to_vec(), [values.len()]), device)
}

/// A model, its optimizer and one batch.
pub(crate) struct SyntheticRun {
    model: Option<BertForPreTraining>,
    optimizer: Optimizer,
    batch: PretrainingBatch,
    device: Device,
    step: u64,
}

impl SyntheticRun {
    /// Creates a fresh model and a batch of random words, without padding.
    pub(crate) fn new(
        config: &BertConfig,
        batch: usize,
        seq: usize,
        predictions: usize,
        device: &Device,
    ) -> Self {
        let device = device.clone().autodiff();
        let model = BertForPreTraining::new(config, 1, &device);
        let mut random = Stream::new(1, Domain::Test, &[]);
        let mut id = || random.below(config.vocab_size) as i32;
        let input_ids: Vec<i32> = (0..batch * seq).map(|_| id()).collect();
        let masked_lm_ids: Vec<i32> = (0..batch * predictions).map(|_| id()).collect();
        let mut masked_lm_positions = Vec::new();
        for row in 0..batch {
            let mut places: Vec<i32> = (1..seq as i32 - 1).collect();
            random.shuffle(&mut places);
            masked_lm_positions.extend(places[..predictions].iter().map(|p| (row * seq) as i32 + p));
        }
        let batch = PretrainingBatch {
            padded: PaddedBatch {
                rows: batch,
                seq_length: seq,
                input_mask: vec![1; input_ids.len()],
                segment_ids: (0..batch * seq).map(|i| i32::from(i % seq >= seq / 2)).collect(),
                input_ids,
            },
            first_sequence: 0,
            masked_lm_positions,
            masked_lm_ids,
            next_sentence_labels: (0..batch as i32).map(|row| row % 2).collect(),
        };
        let optimizer = Optimizer::new(OptimizerConfig::default(), &model).with_compute(config.compute);
        Self { model: Some(model), optimizer, batch, device, step: 0 }
    }

    /// Runs one step: forward, backward, clip, update. Returns the loss before the update, in nats.
    ///
    /// # Panics
    /// When the loss is not finite.
    pub(crate) fn step(&mut self) -> f64 {
        let model = self.model.take().expect("put back by the step before");
        let normalizer = LossNormalizer {
            masked_lm: self.batch.num_predictions() as f64,
            next_sentence: Some(self.batch.batch_size() as f64),
        };
        let loss = pretraining_objective(normalizer, false, &self.device);
        let batches = std::slice::from_ref(&self.batch);
        let settings = StepSettings { seed: 1, step: self.step, learning_rate: 1e-4 };
        let (model, report) = train_step(model, &mut self.optimizer, batches, loss, settings);
        self.model = Some(model);
        self.step += 1;
        report.expect("the loss is finite").loss
    }
}

/// Returns the tokens of each row of a padded batch: 24 to 116, mean 70, of 128 positions, like RTE's pairs.
fn varied_lengths(batch: usize, seq: usize) -> Vec<usize> {
    (0..batch).map(|row| (24 + row * 37 % 93) * seq / 128).collect()
}

/// Returns an input `[batch, seq]` of two segments with [`varied_lengths`] and random words.
fn padded_input(config: &BertConfig, batch: usize, seq: usize, device: &Device) -> BertInput {
    let mut random = Stream::new(1, Domain::Test, &[]);
    let lengths = varied_lengths(batch, seq);
    let grid = |value: &mut dyn FnMut(usize, usize) -> i32| {
        let values: Vec<i32> = (0..batch * seq).map(|i| value(lengths[i / seq], i % seq)).collect();
        Tensor::<2, Int>::from_data(TensorData::new(values, [batch, seq]), device)
    };
    BertInput {
        input_ids: grid(&mut |length, place| {
            if place < length { random.below(config.vocab_size) as i32 } else { 0 }
        }),
        input_mask: grid(&mut |length, place| i32::from(place < length)),
        segment_ids: grid(&mut |length, place| i32::from(place < length && place >= length / 2)),
    }
}

/// A classifier with two labels, its optimizer and one padded batch.
pub(crate) struct SyntheticClassifier {
    model: Option<BertForSequenceClassification>,
    optimizer: Optimizer,
    input: BertInput,
    labels: Tensor<1, Int>,
    step: u64,
}

impl SyntheticClassifier {
    /// Creates a fresh model and a batch of random words, padded like RTE's pairs.
    pub(crate) fn new(config: &BertConfig, batch: usize, seq: usize, device: &Device) -> Self {
        let device = device.clone().autodiff();
        let model = BertForSequenceClassification::new(config, 1, &device);
        let labels: Vec<i32> = (0..batch as i32).map(|row| row % 2).collect();
        Self {
            optimizer: Optimizer::new(OptimizerConfig::default(), &model).with_compute(config.compute),
            model: Some(model),
            input: padded_input(config, batch, seq, &device),
            labels: int_vector(&labels, &device),
            step: 0,
        }
    }

    /// Runs one step: forward, backward, clip, update.
    ///
    /// # Panics
    /// When the loss is not finite.
    pub(crate) fn step(&mut self) {
        let model = self.model.take().expect("put back by the step before");
        let loss =
            |model: &BertForSequenceClassification, (input, labels): &(BertInput, Tensor<1, Int>), mode| {
                let [rows] = labels.dims();
                let logits = model.forward(input.clone(), mode);
                let total = classification_loss(logits, labels.clone(), rows as f64);
                MicroBatchLoss::new(total, Vec::new())
            };
        let batches = [(self.input.clone(), self.labels.clone())];
        let settings = StepSettings { seed: 1, step: self.step, learning_rate: 2e-5 };
        let (model, report) = train_step(model, &mut self.optimizer, &batches, loss, settings);
        report.expect("the loss is finite");
        self.model = Some(model);
        self.step += 1;
    }
}

/// Returns a closure that runs one padded batch without training, up to the predicted classes.
pub(crate) fn synthetic_classification(
    config: &BertConfig,
    batch: usize,
    seq: usize,
    device: &Device,
) -> impl FnMut() -> Vec<i64> {
    let model = BertForSequenceClassification::new(config, 1, &device.clone().autodiff()).valid();
    let input = padded_input(config, batch, seq, device);
    move || model.forward(input.clone(), Mode::Eval).argmax(1).into_data().iter::<i64>().collect()
}

/// Returns a closure that runs one padded batch without training, up to the sums of an evaluation.
pub(crate) fn synthetic_evaluation(
    config: &BertConfig,
    batch: usize,
    seq: usize,
    predictions: usize,
    device: &Device,
) -> impl FnMut() -> EvaluationSums {
    let model = BertForPreTraining::new(config, 1, &device.clone().autodiff()).valid();
    let input = padded_input(config, batch, seq, device);
    let lengths = varied_lengths(batch, seq);
    let places = |row: usize| (0..predictions).map(move |i| (row, i));
    let positions: Vec<i32> =
        (0..batch).flat_map(places).map(|(row, i)| (row * seq + 1 + i % (lengths[row] - 1)) as i32).collect();
    let mut random = Stream::new(2, Domain::Test, &[]);
    let words: Vec<i32> = positions.iter().map(|_| random.below(config.vocab_size) as i32).collect();
    let labels: Vec<i32> = (0..batch as i32).map(|row| row % 2).collect();
    let input = PretrainingInput { bert: input, masked_lm_positions: int_vector(&positions, device) };
    let words = int_vector(&words, device);
    let labels = int_vector(&labels, device);
    move || {
        let sums = evaluate_batch(&model, input.clone(), words.clone(), labels.clone());
        sums.expect("the device works")
    }
}
