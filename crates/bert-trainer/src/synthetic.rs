//! Training steps on a made-up batch, for benchmarks: the cost of a step does not depend on the words.

use std::time::Instant;

use bert_data::rng::{Domain, Random, Stream};
use bert_model::{BertConfig, BertForPreTraining};
use burn::tensor::{Device, Distribution, Tensor};

use crate::data_loader::PretrainingBatch;
use crate::optimizer::{AdamW, AdamWConfig};
use crate::pretrain::pretraining_objective;
use crate::train_step::train_step;

/// A model, its optimizer and one batch.
pub struct SyntheticRun {
    model: Option<BertForPreTraining>,
    optimizer: AdamW,
    batch: PretrainingBatch,
    device: Device,
    step: u64,
}

impl SyntheticRun {
    /// A fresh model and a batch of random words, without padding.
    pub fn new(config: &BertConfig, batch: usize, seq: usize, predictions: usize, device: &Device) -> Self {
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
            batch_size: batch,
            seq_length: seq,
            input_mask: vec![1; input_ids.len()],
            segment_ids: (0..batch * seq).map(|i| i32::from(i % seq >= seq / 2)).collect(),
            input_ids,
            masked_lm_positions,
            masked_lm_ids,
            next_sentence_labels: (0..batch as i32).map(|row| row % 2).collect(),
        };
        let optimizer = AdamW::new(AdamWConfig::default(), &model);
        Self { model: Some(model), optimizer, batch, device, step: 0 }
    }

    /// One step: forward, backward, clip, update. Returns the loss before the update, in nats.
    ///
    /// # Panics
    /// When the loss is not finite.
    pub fn step(&mut self) -> f64 {
        let model = self.model.take().expect("put back by the step before");
        let loss = pretraining_objective(&self.batch, true, &self.device);
        let batches = std::slice::from_ref(&self.batch);
        let (model, report) = train_step(model, &mut self.optimizer, batches, loss, 1e-4, (1, self.step));
        self.model = Some(model);
        self.step += 1;
        report.expect("the loss is finite").loss
    }
}

/// Floating-point operations a second of a large matrix product on this device: what a step made of
/// nothing but products could reach.
pub fn matrix_product_rate(device: &Device) -> f64 {
    const N: usize = 2048;
    let matrix = || Tensor::<2>::random([N, N], Distribution::Uniform(-1.0, 1.0), device);
    let (a, b) = (matrix(), matrix());
    let product = || a.clone().matmul(b.clone()).slice([0..1, 0..1]).into_scalar::<f32>();
    product();
    let repetitions = 5;
    let start = Instant::now();
    for _ in 0..repetitions {
        std::hint::black_box(product());
    }
    repetitions as f64 * 2.0 * (N as f64).powi(3) / start.elapsed().as_secs_f64()
}
