//! Fits word embeddings to bigram counts, for the initialization `bigram`.
//!
//! The neighbouring tokens predict a masked token far better than unigram frequencies do. This module fits a
//! log-bilinear model (Mnih and Hinton, 2007) to the bigram counts. In it, a token occurs next to the neighbour `c`
//! with the probability
//!
//! ```text
//! softmax over tokens t of (bias[t] + table[t] . O V x)        x = table[c], scaled to the length after a LayerNorm
//! ```
//!
//! There is a pair of matrices O, V for each offset, and one table for both roles, because BERT's masked LM has only
//! one table. The text is read once. The fit takes several hundred steps, each with the full count distributions of a
//! few neighbours. The result is a function of (text, seed, shape), bit-identical for any number of threads.

use std::time::Instant;

use bert_data::{DataSet, Vocabulary};
use bert_inference::host_tensors::{int_vector, values};
use bert_inference::{DeviceName, StopFlag};
use bert_model::{BertConfig, LogBilinear, LogBilinearShape, LogBilinearSide};
use bert_random::{Domain, Random, Stream};
use bert_storage::CachedResult;
use bert_tokenization::is_special_token;
use burn::tensor::{Device, Gradients, Int, Tensor, TensorData};
use rayon::prelude::*;

use crate::error::{Error, check_stop, no_instances};
use crate::initialization::bigram_counts::{BigramCounts, Side};
use crate::initialization::cached_fit::{CachedFit, SpecialIds};
use crate::initialization::fit_step::{OutputGradients, Parameter};

/// Number of optimization steps.
const STEPS: usize = 800;
/// Number of warm-up steps.
const WARMUP: usize = 20;
/// Number of neighbours per step, for each offset.
const NEIGHBOURS: usize = 48;
/// Peak learning rates of Adam for the table and the bias, and for the matrices.
const RATES: (f64, f64) = (0.06, 0.008);
/// Initial standard deviation of the table.
const TABLE_STD: f64 = 0.5;
/// Initial standard deviation of the elements of each product of two matrices.
const PRODUCT_STD: f64 = 0.02;

/// Random streams of [`Domain::LogBilinear`].
const TABLE: u64 = 0;
const MATRICES: u64 = 1;
const SAMPLES: u64 = 2;

/// An event of the computation of initial weights.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum CountingEvent {
    /// This fraction of the work is done, from 0 to 1.
    Progress(f64),
    /// The model of an earlier computation on the same text is used.
    Reused,
    /// A warning for the user.
    Warning(String),
}

/// Typical share of the total time that counting takes.
const COUNTING_SHARE: f64 = 0.4;

/// Counts the text of weighted data sets, and fits a model to it that can initialize a BERT of this shape. Saves the
/// result in the user's cache and reuses it the next time.
///
/// # Errors
/// Fails when a stop is requested, when a shard cannot be read or does not match the manifest, when the text has no
/// words, when the shape is too small for neighbour heads, or when the default device is not in this build.
pub(crate) fn log_bilinear(
    sets: &[(DataSet, f64)],
    model: &BertConfig,
    seed: u64,
    stop: &StopFlag,
    on_event: &mut dyn FnMut(CountingEvent),
) -> Result<LogBilinear, Error> {
    let shape = LogBilinear::shape(model)?;
    let data = &sets[0].0;
    let cached = CachedFit::new(sets, &shape, seed);
    // A cache that cannot be read or written only costs time.
    match cached.load(special_ids(data.vocabulary())) {
        Ok(CachedResult::Valid(found)) => {
            on_event(CountingEvent::Reused);
            check_stop(stop)?;
            return Ok(found);
        }
        Ok(CachedResult::Absent) => {}
        Ok(CachedResult::Damaged(path)) => on_event(CountingEvent::Warning(format!(
            "{} is damaged; the text is counted again",
            path.display()
        ))),
        Err(error) => on_event(CountingEvent::Warning(format!("{error}; the text is counted again"))),
    }
    let started = Instant::now();
    let farthest = shape.offsets.iter().map(|offset| offset.unsigned_abs()).max().unwrap_or(0);
    let counts = BigramCounts::from_data(sets, farthest as usize, stop, &mut |share| {
        on_event(CountingEvent::Progress(COUNTING_SHARE * share));
    })?;
    let mut on_step = |share: f64| {
        on_event(CountingEvent::Progress(COUNTING_SHARE + (1.0 - COUNTING_SHARE) * share));
        check_stop(stop)
    };
    let fitted = fit(counts, data.vocabulary(), &shape, seed, &mut on_step)?
        .ok_or_else(|| no_instances().at(data.folder()))?;
    if let Err(error) = cached.save(&fitted, started.elapsed()) {
        on_event(CountingEvent::Warning(format!("{error}; the next run counts the text again")));
    }
    Ok(fitted)
}

/// Returns the ids of a vocabulary's special tokens.
fn special_ids(vocabulary: &Vocabulary) -> SpecialIds {
    SpecialIds {
        special: (0..vocabulary.len()).filter(|&id| is_special_token(vocabulary.token(id as u32))).collect(),
        mask_id: vocabulary.mask_id() as usize,
        cls_id: vocabulary.cls_id() as usize,
    }
}

/// Fits a model of this shape with Adam; returns `None` if the text has only special tokens. `on_step` receives the
/// finished share of the steps; its error ends the fit.
fn fit(
    mut counts: BigramCounts,
    vocabulary: &Vocabulary,
    shape: &LogBilinearShape,
    seed: u64,
    on_step: &mut dyn FnMut(f64) -> Result<(), Error>,
) -> Result<Option<LogBilinear>, Error> {
    let SpecialIds { special, mask_id, cls_id } = special_ids(vocabulary);
    let running_sum = running_sum(&counts.occurrences, &special);
    if running_sum.last().is_none_or(|&sum| sum == 0) {
        return Ok(None);
    }
    let text = TextStatistics {
        sides: shape.offsets.iter().map(|&offset| counts.side(offset)).collect(),
        shares: counts.shares(),
        running_sum,
    };
    let device = DeviceName::default().open()?.autodiff();
    let mut parameters = Parameters::new(&text, shape, seed, &device);
    for step in 0..STEPS {
        let mut random = Stream::new(seed, Domain::LogBilinear, &[SAMPLES, step as u64]);
        let gradients = parameters.gradients(&text, &mut random, &device);
        parameters.update(gradients, step);
        on_step((step + 1) as f64 / STEPS as f64)?;
    }
    Ok(Some(LogBilinear {
        sides: parameters.sides(&text.shares),
        table: parameters.table.value,
        bias: parameters.bias.value,
        special,
        mask_id,
        cls_id,
    }))
}

/// Statistics of the text that the fit uses.
struct TextStatistics {
    /// The counts at each offset.
    sides: Vec<Side>,
    /// Each token's share of the text.
    shares: Vec<f64>,
    /// The cumulative numbers of occurrences of the tokens, without special tokens.
    running_sum: Vec<u64>,
}

/// The gradients of a step.
struct FitGradients {
    /// Gradient of the table, `[words, width]`.
    table: Vec<f32>,
    /// Gradient of the bias, `[words]`.
    bias: Vec<f32>,
    /// Gradients of the matrices.
    matrices: Gradients,
}

/// The parameters of the model.
struct Parameters {
    /// `[words, width]`
    table: Parameter,
    /// `[1, words]`
    bias: Parameter,
    /// V and O of each offset: `[width, rank]` and `[rank, width]`.
    matrices: Vec<[Parameter; 2]>,
}

impl Parameters {
    /// Returns the initial values: random matrices, and unigram frequencies as bias.
    fn new(text: &TextStatistics, shape: &LogBilinearShape, seed: u64, device: &Device) -> Self {
        let words = text.shares.len();
        let width = shape.width;
        let rank = shape.rank;
        let table = Parameter::new(uniform([words, width], TABLE_STD, &[TABLE], seed, device));
        let logs = text.shares.iter().map(|share| share.ln() as f32).collect::<Vec<_>>();
        let bias = Parameter::new(Tensor::from_data(TensorData::new(logs, [1, words]), device));
        let std = (PRODUCT_STD / (rank as f64).sqrt()).sqrt();
        let start = |shape, address: &[u64]| Parameter::new(uniform(shape, std, address, seed, device));
        let matrices = (0..text.sides.len() as u64)
            .map(|side| {
                [start([width, rank], &[MATRICES, side, 0]), start([rank, width], &[MATRICES, side, 1])]
            })
            .collect();
        Self { table, bias, matrices }
    }

    /// Returns the gradients of the cross-entropy between the model and the counted distributions at sampled
    /// neighbours, in nats.
    fn gradients(&self, text: &TextStatistics, random: &mut Stream, device: &Device) -> FitGradients {
        let mut hidden = Vec::new();
        let mut neighbours = Vec::new();
        let mut tables = Vec::new();
        for (side, [inputs, outputs]) in text.sides.iter().zip(&self.matrices) {
            let table = Tensor::from_inner(self.table.inner()).require_grad();
            let sampled = (0..NEIGHBOURS).map(|_| sample(&text.running_sum, random)).collect::<Vec<_>>();
            let ids: Vec<i32> = sampled.iter().map(|&id| id as i32).collect();
            let ids: Tensor<1, Int> = int_vector(&ids, device);
            let rows = normalized(table.clone().select(0, ids)); // [neighbours, width]
            hidden.push(rows.matmul(inputs.tensor()).matmul(outputs.tensor())); // [neighbours, width]
            neighbours.extend(sampled.into_iter().map(|neighbour| side.tokens(neighbour)));
            tables.push(table);
        }
        let hidden = Tensor::cat(hidden, 0); // [sides * neighbours, width]
        let output = OutputGradients::new(
            hidden.clone().inner(),
            &self.table.value,
            &self.bias.value,
            &neighbours,
            &text.shares,
        );
        let others = (hidden * Tensor::from_inner(output.hidden)).sum().backward();
        // Automatic differentiation with one table for all offsets adds in this order, which determines the bits.
        let mut sum = output.table;
        for table in tables.into_iter().rev() {
            let side_gradient = values(table.grad(&others).expect("the table is tracked"));
            sum.par_iter_mut().zip(side_gradient).for_each(|(sum, side_gradient)| *sum += side_gradient);
        }
        FitGradients { table: sum, bias: output.bias, matrices: others }
    }

    /// Applies one step of Adam, with linear warm-up and decay of the learning rates.
    fn update(&mut self, gradients: FitGradients, step: usize) {
        let progress = ((step + 1) as f64 / WARMUP as f64).min(1.0) * (1.0 - step as f64 / STEPS as f64);
        self.table.update(&gradients.table, RATES.0 * progress, step);
        self.bias.update(&gradients.bias, RATES.0 * progress, step);
        for matrix in self.matrices.iter_mut().flatten() {
            if let Some(gradient) = matrix.tensor().grad(&gradients.matrices) {
                matrix.update(&values(gradient), RATES.1 * progress, step);
            }
        }
    }

    /// Returns the matrices of each offset, with the root mean square length of their output over the text.
    fn sides(&self, shares: &[f64]) -> Vec<LogBilinearSide> {
        let rows = normalized(self.table.inner());
        let side = |[inputs, outputs]: &[Parameter; 2]| {
            let output = rows.clone().matmul(inputs.inner()).matmul(outputs.inner()); // [words, width]
            let squares = values(output.clone().mul(output).sum_dim(1));
            let mean = squares.iter().zip(shares).map(|(&square, share)| f64::from(square) * share);
            LogBilinearSide {
                size: mean.sum::<f64>().sqrt(),
                // Column i of the first matrix is multiplied by row i of the second, so the first is transposed.
                inputs: values(inputs.inner().transpose()),
                outputs: outputs.value.clone(),
            }
        };
        self.matrices.iter().map(side).collect()
    }
}

/// Returns the rows scaled to the length that a LayerNorm gives them.
fn normalized(rows: Tensor<2>) -> Tensor<2> {
    let [_, width] = rows.dims();
    let lengths = rows.clone().mul(rows.clone()).sum_dim(1).sqrt().add_scalar(1e-6); // [rows, 1]
    rows.mul_scalar((width as f64).sqrt()) / lengths
}

/// Returns the cumulative numbers of occurrences, without special tokens, for sampling tokens by frequency.
fn running_sum(occurrences: &[u64], special: &[usize]) -> Vec<u64> {
    let mut sum = 0;
    let add = |(id, &count): (usize, &u64)| {
        sum += if special.contains(&id) { 0 } else { count };
        sum
    };
    occurrences.iter().enumerate().map(add).collect()
}

/// Samples a token by frequency.
fn sample(running_sum: &[u64], random: &mut Stream) -> usize {
    let total = running_sum.last().copied().unwrap_or(0);
    let at = (random.unit() * total as f64) as u64;
    running_sum.partition_point(|&sum| sum <= at).min(running_sum.len() - 1)
}

/// Returns uniform random numbers with mean 0 and this standard deviation.
fn uniform(shape: [usize; 2], std: f64, address: &[u64], seed: u64, device: &Device) -> Tensor<2> {
    let mut random = Stream::new(seed, Domain::LogBilinear, address);
    let bound = 3f64.sqrt() * std;
    let drawn = (0..shape[0] * shape[1]).map(|_| (bound * (2.0 * random.unit() - 1.0)) as f32).collect();
    Tensor::from_data(TensorData::new(drawn, shape), device)
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;
    use crate::initialization::fit_step::distribution;

    const WORDS: usize = 60;
    const SPECIAL: [&str; 5] = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"];

    /// Returns a text in which each word is followed by one of two words and preceded by one of two words, with some
    /// `[UNK]`.
    fn text(random: &mut Stream) -> Vec<u32> {
        let words = (WORDS - SPECIAL.len()) as u64;
        let mut word = random.below(words as usize) as u64;
        let next = |_| {
            word = (2 * word + random.below(2) as u64) % words;
            if random.below(50) == 0 { 1 } else { (SPECIAL.len() as u64 + word) as u32 }
        };
        (0..20_000).map(next).collect()
    }

    fn counted() -> (BigramCounts, Vocabulary) {
        let words = (SPECIAL.len()..WORDS).map(|id| format!("w{id}"));
        let vocabulary: Vec<String> = SPECIAL.iter().map(|word| word.to_string()).chain(words).collect();
        let vocabulary =
            Vocabulary::from_bytes(vocabulary.join("\n").into_bytes(), Path::new("vocab.txt")).unwrap();
        let mut counts = BigramCounts::new(WORDS, 2);
        counts.add(&text(&mut Stream::new(1, Domain::Test, &[])));
        (counts, vocabulary)
    }

    fn fitted(seed: u64) -> LogBilinear {
        let (counts, vocabulary) = counted();
        let shape = LogBilinearShape { width: 24, rank: 16, offsets: vec![-1, 1, -2, 2] };
        fit(counts, &vocabulary, &shape, seed, &mut |_| Ok(())).unwrap().unwrap()
    }

    /// Returns the model's distribution at the offset of side `side` from a neighbour.
    fn predicted(model: &LogBilinear, side: usize, neighbour: usize) -> Vec<f64> {
        let width = model.table.len() / WORDS;
        let row = |id: usize| &model.table[id * width..(id + 1) * width];
        let length = row(neighbour).iter().map(|x| x * x).sum::<f32>().sqrt();
        let side = &model.sides[side];
        let mut hidden = vec![0f64; width];
        for (input, output) in side.inputs.chunks(width).zip(side.outputs.chunks(width)) {
            let looks: f32 = input.iter().zip(row(neighbour)).map(|(a, b)| a * b).sum();
            let looks = looks * (width as f32).sqrt() / length;
            hidden.iter_mut().zip(output).for_each(|(sum, x)| *sum += f64::from(looks * x));
        }
        let logit = |id: usize| {
            f64::from(model.bias[id])
                + row(id).iter().zip(&hidden).map(|(a, b)| f64::from(*a) * b).sum::<f64>()
        };
        let weights: Vec<f64> = (0..WORDS).map(|id| logit(id).exp()).collect();
        let total: f64 = weights.iter().sum();
        weights.into_iter().map(|weight| weight / total).collect()
    }

    #[test]
    fn fit_reproduces_the_counts() {
        let model = fitted(3);
        let (mut counts, _) = counted();
        // Only the previous and the next neighbour are compared: 24 dimensions are too few for larger offsets with 60
        // words.
        for (side, offset) in [-1, 1].into_iter().enumerate() {
            let text_counts = counts.side(offset);
            let mut distance = 0.0;
            for neighbour in SPECIAL.len()..WORDS {
                let wanted = distribution(text_counts.tokens(neighbour), &counts.shares());
                let predicted = predicted(&model, side, neighbour);
                let far: f64 = wanted.iter().zip(&predicted).map(|(a, b)| (f64::from(*a) - b).abs()).sum();
                distance += 0.5 * far / (WORDS - SPECIAL.len()) as f64;
            }
            // The unigram frequencies are at a distance of 0.93.
            assert!(distance < 0.2, "{offset}: {distance}");
        }
        assert_eq!((model.special.as_slice(), model.mask_id), ([0, 1, 2, 3, 4].as_slice(), 4));
    }

    #[test]
    fn bits_depend_on_the_seed_not_on_threads() {
        let with = |threads: usize, seed: u64| {
            let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().unwrap();
            pool.install(|| fitted(seed))
        };
        let one = with(1, 5);
        assert_eq!(one, with(3, 5));
        assert_ne!(one, with(1, 6));
    }

    #[test]
    fn special_tokens_alone_give_no_model() {
        let (_, vocabulary) = counted();
        let mut counts = BigramCounts::new(WORDS, 1);
        counts.add(&[1, 1, 1]);
        let shape = LogBilinearShape { width: 8, rank: 8, offsets: vec![-1, 1] };
        assert_eq!(fit(counts, &vocabulary, &shape, 1, &mut |_| Ok(())).unwrap(), None);
    }
}
