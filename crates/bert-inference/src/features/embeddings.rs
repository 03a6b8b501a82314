//! Projects the embeddings of words or sentences to three dimensions, by a principal component analysis (PCA).

use std::io::Write;
use std::path::Path;

use bert_tasks::{TextSource, Truncation};
use bert_tokenization::{is_ideograph, is_special_token};
use serde::Serialize;

use crate::compute::host_tensors::read;
use crate::error::Error;
use crate::features::hidden_states::Extractor;
use crate::model_dir::loaded_model::{LoadedModel, load_encoder};
use crate::model_dir::model_options::ModelOptions;

/// Number of principal components.
const COMPONENTS: usize = 3;
/// Maximum number of steps of the orthogonal iteration; it ends earlier when the components no longer change.
const ITERATIONS: usize = 500;

/// Vectors with labels.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Embeddings {
    /// The label of each vector.
    pub labels: Vec<String>,
    /// For each vector, the number of its line in the input, from 0; for a word, its id in the vocabulary.
    pub lines: Vec<u64>,
    /// `[labels, dimensions]`, row by row.
    pub vectors: Vec<f32>,
    /// Length of a vector.
    pub dimensions: usize,
    /// The counts of the texts that were cut.
    pub truncation: Truncation,
}

/// A vector projected to the principal components, and the vectors nearest to it.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct ProjectedPoint {
    /// The label.
    pub label: String,
    /// Coordinates along the first three components.
    pub coordinates: [f64; COMPONENTS],
    /// Indices of the nearest vectors by cosine, the nearest first, and the cosines.
    pub neighbours: Vec<(usize, f32)>,
}

/// A projection of vectors to their principal components.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Projection {
    /// The points, in the order of the vectors.
    pub points: Vec<ProjectedPoint>,
    /// Share of the variance along each component.
    pub explained: [f64; COMPONENTS],
}

impl Embeddings {
    /// Returns the word embeddings of all tokens of the vocabulary of a model folder.
    ///
    /// # Errors
    /// Fails when the folder cannot be read.
    pub fn from_vocabulary(folder: &Path) -> Result<Self, Error> {
        let options = ModelOptions::default();
        let LoadedModel { model, files } = load_encoder(folder, options, &options.device.open()?)?;
        let labels = files.tokenizer.vocabulary.tokens().to_vec();
        let dimensions = files.config.hidden_size;
        let mut vectors = read(model.embeddings.word_embeddings.weight.val())?;
        vectors.truncate(labels.len() * dimensions);
        let lines = (0..labels.len() as u64).collect();
        Ok(Self { labels, lines, vectors, dimensions, truncation: Truncation::default() })
    }

    /// Returns the vectors of the first `count` words: labels of two or more letters that are not continuation pieces.
    /// If there are fewer, single ideographs follow. Vocabularies are sorted by frequency, so these words are frequent.
    #[must_use]
    pub fn words(&self, count: usize) -> Self {
        let is_word = |label: &str| {
            !is_special_token(label) && label.chars().all(char::is_alphabetic) && label.chars().count() > 1
        };
        let is_character = |label: &str| label.chars().all(is_ideograph) && label.chars().count() == 1;
        let labels = || self.labels.iter().enumerate();
        let words = labels().filter(|(_, label)| is_word(label));
        let characters = labels().filter(|(_, label)| is_character(label));
        let chosen: Vec<(usize, &String)> = words.chain(characters).take(count).collect();
        Self {
            labels: chosen.iter().map(|(_, label)| (*label).clone()).collect(),
            lines: chosen.iter().map(|(at, _)| *at as u64).collect(),
            vectors: chosen.iter().flat_map(|(at, _)| self.vector(*at)).copied().collect(),
            dimensions: self.dimensions,
            truncation: self.truncation,
        }
    }

    /// Returns the pooled hidden states of every text that has a word. The label is the text.
    ///
    /// # Errors
    /// Fails as [`Extractor::each_line`] does.
    ///
    /// # Panics
    /// Panics if the extractor has no pooling.
    pub fn from_texts(extractor: &Extractor, texts: &dyn TextSource) -> Result<Self, Error> {
        assert!(extractor.pooling().is_some(), "a vector for each line");
        let mut embeddings = Self { dimensions: extractor.hidden_size(), ..Self::default() };
        let truncation = extractor.each_line(texts, |lines| {
            for line in lines.iter().filter(|line| line.tokens.len() > 2) {
                embeddings.vectors.extend(&line.layers[0]);
                embeddings.labels.push(line.text.clone());
                embeddings.lines.push(line.line);
            }
            Ok::<(), Error>(())
        })?;
        Ok(Self { truncation, ..embeddings })
    }

    /// Returns the vector of a label.
    pub(crate) fn vector(&self, at: usize) -> &[f32] {
        &self.vectors[at * self.dimensions..(at + 1) * self.dimensions]
    }

    /// Returns the index of each vector with its cosine to `query`, the nearest first.
    pub(crate) fn by_cosine(&self, query: &[f32]) -> Vec<(usize, f32)> {
        let product = |a: &[f32], b: &[f32]| a.iter().zip(b).map(|(x, y)| x * y).sum::<f32>();
        let norm = |row: &[f32]| product(row, row).sqrt().max(f32::MIN_POSITIVE);
        let length = norm(query);
        let cosine = |row: &[f32]| product(row, query) / norm(row) / length;
        let mut all: Vec<(usize, f32)> =
            self.vectors.chunks(self.dimensions).map(cosine).enumerate().collect();
        all.sort_by(|a, b| b.1.total_cmp(&a.1).then(a.0.cmp(&b.0)));
        all
    }

    /// Projects the vectors, and finds the `neighbours` nearest vectors of each.
    ///
    /// # Panics
    /// Panics if there is no vector.
    pub fn project(&self, neighbours: usize) -> Projection {
        let count = self.labels.len();
        let d = self.dimensions;
        assert!(count > 0, "no vector");
        let mean: Vec<f64> = (0..d)
            .map(|at| {
                self.vectors.iter().skip(at).step_by(d).map(|&x| f64::from(x)).sum::<f64>() / count as f64
            })
            .collect();
        let centered: Vec<f64> =
            self.vectors.iter().enumerate().map(|(at, &x)| f64::from(x) - mean[at % d]).collect();
        let covariance = covariance(&centered, d);
        let (components, variances) = principal_components(&covariance, d);
        let total = (0..d).map(|at| covariance[at * d + at]).sum::<f64>().max(f64::MIN_POSITIVE);
        let coordinates = |row: &[f64]| components.each_ref().map(|component| dot(row, component));
        let nearest = self.nearest(neighbours);
        let points = self.labels.iter().zip(centered.chunks(d)).zip(nearest);
        let points = points.map(|((label, row), neighbours)| ProjectedPoint {
            label: label.clone(),
            coordinates: coordinates(row),
            neighbours,
        });
        Projection { points: points.collect(), explained: variances.map(|variance| variance / total) }
    }

    /// Returns the nearest other vectors of each vector by cosine.
    fn nearest(&self, count: usize) -> Vec<Vec<(usize, f32)>> {
        let neighbours = |at: usize| {
            let others = self.by_cosine(self.vector(at)).into_iter().filter(|(other, _)| *other != at);
            others.take(count).collect()
        };
        (0..self.labels.len()).map(neighbours).collect()
    }

    /// Writes the vectors in the format of TensorBoard's projector: one line of tab-separated numbers for each.
    ///
    /// # Errors
    /// Fails when the vectors cannot be written.
    pub fn write_vectors(&self, out: &mut dyn Write) -> std::io::Result<()> {
        self.vectors.chunks(self.dimensions).try_for_each(|row| {
            let numbers: Vec<String> = row.iter().map(f32::to_string).collect();
            writeln!(out, "{}", numbers.join("\t"))
        })
    }

    /// Writes the labels, one in a line, for TensorBoard's projector.
    ///
    /// # Errors
    /// Fails when the labels cannot be written.
    pub fn write_labels(&self, out: &mut dyn Write) -> std::io::Result<()> {
        self.labels.iter().try_for_each(|label| writeln!(out, "{}", label.replace(['\t', '\n'], " ")))
    }
}

/// Returns the covariance matrix of centered rows, `[d, d]`.
fn covariance(rows: &[f64], d: usize) -> Vec<f64> {
    let mut sums = vec![0.0; d * d];
    for row in rows.chunks(d) {
        for (i, &x) in row.iter().enumerate() {
            for (sum, &y) in sums[i * d..(i + 1) * d].iter_mut().zip(row) {
                *sum += x * y;
            }
        }
    }
    let count = (rows.len() / d) as f64;
    sums.iter_mut().for_each(|sum| *sum /= count);
    sums
}

/// Returns the eigenvectors of the largest eigenvalues of a symmetric matrix, and these eigenvalues, by orthogonal
/// iteration. The entry of each vector with the largest absolute value is positive.
fn principal_components(matrix: &[f64], d: usize) -> ([Vec<f64>; COMPONENTS], [f64; COMPONENTS]) {
    // The start vectors have no symmetry and are the same in every run.
    let start = |seed: usize| {
        (0..d).map(move |at| ((at * (2 * seed + 3) + seed) as f64 * 0.618_033_988_75).fract() - 0.5)
    };
    let mut vectors: [Vec<f64>; COMPONENTS] = std::array::from_fn(|seed| start(seed).collect());
    orthonormalize(&mut vectors);
    for _ in 0..ITERATIONS {
        let before = vectors.clone();
        vectors = vectors.each_ref().map(|vector| product(matrix, vector));
        orthonormalize(&mut vectors);
        let change = |(a, b): (&Vec<f64>, &Vec<f64>)| 1.0 - dot(a, b).abs();
        if vectors.iter().zip(&before).map(change).fold(0.0, f64::max) < 1e-12 {
            break;
        }
    }
    for vector in &mut vectors {
        let largest = vector.iter().copied().max_by(|a, b| a.abs().total_cmp(&b.abs())).unwrap_or(0.0);
        if largest < 0.0 {
            vector.iter_mut().for_each(|x| *x = -*x);
        }
    }
    let variances = vectors.each_ref().map(|vector| dot(vector, &product(matrix, vector)).max(0.0));
    (vectors, variances)
}

/// Makes each vector orthogonal to the vectors before it and scales it to length 1 (Gram-Schmidt). A vector that is a
/// combination of the vectors before it becomes zero.
fn orthonormalize(vectors: &mut [Vec<f64>; COMPONENTS]) {
    for at in 0..COMPONENTS {
        for before in 0..at {
            let (done, rest) = vectors.split_at_mut(at);
            let share = dot(&done[before], &rest[0]);
            rest[0].iter_mut().zip(&done[before]).for_each(|(x, y)| *x -= share * y);
        }
        let norm = dot(&vectors[at], &vectors[at]).sqrt();
        let factor = if norm > 1e-150 { 1.0 / norm } else { 0.0 };
        vectors[at].iter_mut().for_each(|x| *x *= factor);
    }
}

fn product(matrix: &[f64], vector: &[f64]) -> Vec<f64> {
    matrix.chunks(vector.len()).map(|row| dot(row, vector)).collect()
}

fn dot(a: &[f64], b: &[f64]) -> f64 {
    a.iter().zip(b).map(|(x, y)| x * y).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns points in four dimensions that spread by 3, 2, 1 and 0 along rotated axes.
    fn points() -> Embeddings {
        let mut vectors = Vec::new();
        let mut labels = Vec::new();
        for at in 0..60 {
            let wave = |k: f64| (f64::from(at) * k).sin();
            let a = 3.0 * wave(0.7);
            let b = 2.0 * wave(1.3);
            let c = wave(2.1);
            let rotated = [(a + b) / 2f64.sqrt(), (a - b) / 2f64.sqrt(), c, 0.0];
            vectors.extend(rotated.map(|x| x as f32 + 5.0));
            labels.push(format!("p{at}"));
        }
        Embeddings { labels, vectors, dimensions: 4, ..Embeddings::default() }
    }

    #[test]
    fn components_explain_the_variance_in_order() {
        let projection = points().project(3);
        let [first, second, third] = projection.explained;
        assert!(first > second && second > third && (first + second + third - 1.0).abs() < 1e-6);
        assert!((first / second - 2.25).abs() < 0.2, "{first} {second}");
        let mean: f64 = projection.points.iter().map(|point| point.coordinates[0]).sum();
        assert!(mean.abs() < 1e-4, "centered");
    }

    #[test]
    fn distances_are_kept_where_three_components_suffice() {
        let embeddings = points();
        let projection = embeddings.project(2);
        let row = |at: usize| &embeddings.vectors[at * 4..at * 4 + 4];
        let exact: f32 = row(3).iter().zip(row(9)).map(|(x, y)| (x - y).powi(2)).sum();
        let [a, b] = [3, 9].map(|at: usize| projection.points[at].coordinates);
        let projected: f64 = a.iter().zip(&b).map(|(x, y)| (x - y).powi(2)).sum();
        assert!((f64::from(exact) - projected).abs() < 1e-4, "{exact} {projected}");
    }

    #[test]
    fn nearest_vectors_are_sorted_by_cosine() {
        let vectors = vec![1.0, 0.0, 0.9, 0.1, 0.0, 1.0];
        let labels = ["a", "b", "c"].map(String::from).to_vec();
        let projection = Embeddings { labels, vectors, dimensions: 2, ..Embeddings::default() }.project(2);
        let neighbours: Vec<usize> = projection.points[0].neighbours.iter().map(|(at, _)| *at).collect();
        assert_eq!(neighbours, [1, 2]);
        assert!((projection.points[0].neighbours[0].1 - 0.9939).abs() < 1e-3);
    }

    #[test]
    fn files_for_tensorboard_have_a_line_per_vector() {
        let labels = vec!["a\tb".to_string(), "c".to_string()];
        let embeddings =
            Embeddings { labels, vectors: vec![1.0, 2.5, -1.0, 0.0], dimensions: 2, ..Embeddings::default() };
        let mut vectors = Vec::new();
        let mut names = Vec::new();
        embeddings.write_vectors(&mut vectors).unwrap();
        embeddings.write_labels(&mut names).unwrap();
        assert_eq!((vectors, names), (b"1\t2.5\n-1\t0\n".to_vec(), b"a b\nc\n".to_vec()));
    }
}
