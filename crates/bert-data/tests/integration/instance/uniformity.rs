//! Every position after the shuffle is equally likely for a row, and every other document for a random next one.
//!
//! Chi-square over fixed seeds: the sum over all cells of (found - expected)^2 / expected is at most five standard
//! deviations above its mean, which is the number of degrees of freedom; their variance is twice that.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use bert_data::{
    BuildConfig, DocumentPasses, Layout, Masking, Nsp, Row, ShardRows, Vocabulary, read_all_documents,
};

use crate::support::{config, run, shards};

/// Writes documents of equally long sentences, each of one unique word: word `document * sentences + sentence`.
fn words(folder: &Path, documents: usize, sentences: usize) -> (PathBuf, PathBuf) {
    let (text, vocab) = (folder.join("text.txt"), folder.join("vocab.txt"));
    let document =
        |at: usize| (0..sentences).map(|s| format!("w{}\n", at * sentences + s)).collect::<String>();
    fs::write(&text, (0..documents).map(|at| document(at) + "\n").collect::<String>()).unwrap();
    let tokens = (0..documents * sentences).map(|word| format!("w{word}\n")).collect::<String>();
    fs::write(&vocab, format!("[PAD]\n[UNK]\n[CLS]\n[SEP]\n[MASK]\n{tokens}")).unwrap();
    (text, vocab)
}

/// Returns the number of a word of [`words`].
fn word(id: u32) -> usize {
    usize::try_from(id).unwrap() - 5
}

struct ChiSquare {
    sum: f64,
    freedom: f64,
}

impl ChiSquare {
    fn none() -> Self {
        Self { sum: 0.0, freedom: 0.0 }
    }

    /// Adds counts of cells that are equally likely.
    fn add(&mut self, counts: &[u64]) {
        let expected = counts.iter().sum::<u64>() as f64 / counts.len() as f64;
        assert!(expected >= 5.0, "{expected} expected in a cell: too few for a chi-square");
        self.sum += counts.iter().map(|&count| (count as f64 - expected).powi(2) / expected).sum::<f64>();
        self.freedom += counts.len() as f64 - 1.0;
    }

    fn assert_uniform(&self, what: &str) {
        let bound = self.freedom + 5.0 * (2.0 * self.freedom).sqrt();
        assert!(self.sum <= bound, "{what}: chi-square {} of {}, bound {bound}", self.sum, self.freedom);
    }
}

/// Returns the shard and the position of each row of a build, by the number of its document, which is one word.
fn places(config: &BuildConfig) -> BTreeMap<usize, (usize, usize)> {
    let shards = shards(&run(config).unwrap());
    let place = |shard: usize| move |(at, row): (usize, Row<'_>)| (word(row.input_ids[1]), (shard, at));
    shards.iter().enumerate().flat_map(|(shard, rows)| rows.iter().enumerate().map(place(shard))).collect()
}

#[test]
fn shuffle_is_uniform() {
    const ROWS: usize = 96;
    const SHARDS: usize = 4;
    const THIRDS: usize = 3;
    let folder = tempfile::tempdir().unwrap();
    let (text, vocab) = words(folder.path(), ROWS, 1);
    // First, last and in the middle of the text.
    let rows = [0, 1, ROWS / 2, ROWS / 2 + 1, ROWS - 2, ROWS - 1];
    let mut cells = [[0; SHARDS * THIRDS]; 6];
    for random_seed in 0..400 {
        let found = places(&BuildConfig {
            nsp: Nsp::Off,
            masking: Masking::Dynamic,
            dupe_factor: 1,
            num_shards: Some(SHARDS),
            max_seq_length: 8,
            max_predictions_per_seq: Some(1),
            random_seed,
            overwrite: true,
            threads: 1,
            ..config(&[&text], &vocab, &folder.path().join("data"))
        });
        assert_eq!(found.len(), ROWS);
        for (row, cells) in rows.iter().zip(&mut cells) {
            let (shard, at) = found[row];
            cells[shard * THIRDS + at * THIRDS * SHARDS / ROWS] += 1;
        }
    }
    let mut chi_square = ChiSquare::none();
    cells.iter().for_each(|cells| chi_square.add(cells));
    chi_square.assert_uniform("places");
}

const DOCUMENTS: usize = 12;
const SENTENCES: usize = 3;

/// Counts how often each sentence of another document begins the second segment of a random pair, by the first
/// document.
struct RandomNext([[u64; DOCUMENTS * SENTENCES]; DOCUMENTS]);

impl RandomNext {
    fn none() -> Self {
        Self([[0; DOCUMENTS * SENTENCES]; DOCUMENTS])
    }

    fn see(&mut self, row: Row<'_>) {
        if row.next_sentence_label == 1 {
            let b = row.segment_ids.iter().position(|&segment| segment == 1).unwrap();
            self.0[word(row.input_ids[1]) / SENTENCES][word(row.input_ids[b])] += 1;
        }
    }

    fn assert_uniform(&self, what: &str) {
        let mut chi_square = ChiSquare::none();
        for (document, counts) in self.0.iter().enumerate() {
            let own = document * SENTENCES..(document + 1) * SENTENCES;
            assert!(counts[own.clone()].iter().all(|&count| count == 0), "{what}: its own document is next");
            chi_square.add(&[&counts[..own.start], &counts[own.end..]].concat());
        }
        chi_square.assert_uniform(what);
    }
}

fn random_next_config(folder: &Path) -> BuildConfig {
    let (text, vocab) = words(folder, DOCUMENTS, SENTENCES);
    // Nothing is cut, so the second segment begins with the drawn sentence.
    BuildConfig {
        max_seq_length: 16,
        max_predictions_per_seq: Some(2),
        ..config(&[&text], &vocab, &folder.join("data"))
    }
}

#[test]
fn random_next_document_is_uniform() {
    let folder = tempfile::tempdir().unwrap();
    let mut found = RandomNext::none();
    for random_seed in 1..6 {
        let config = BuildConfig {
            masking: Masking::Dynamic,
            dupe_factor: 200,
            random_seed,
            overwrite: true,
            ..random_next_config(folder.path())
        };
        for rows in shards(&run(&config).unwrap()) {
            rows.iter().for_each(|row| found.see(row));
        }
    }
    found.assert_uniform("keyed mode");
}

#[test]
fn random_next_document_is_uniform_in_loader() {
    let folder = tempfile::tempdir().unwrap();
    let config = BuildConfig { layout: Layout::Documents, ..random_next_config(folder.path()) };
    let outcome = run(&config).unwrap();
    let vocabulary = Vocabulary::read(config.vocab.as_ref().unwrap()).unwrap();
    let documents = read_all_documents(&outcome.data_set().unwrap()).unwrap();
    let mut found = RandomNext::none();
    for seed in 1..6 {
        let passes = DocumentPasses::new(&outcome.manifest, &vocabulary, seed).unwrap();
        for (pass, document) in (0..200).flat_map(|pass| (0..documents.len()).map(move |at| (pass, at))) {
            let mut pairs = ShardRows::default();
            passes.append_pairs(&documents, pass, document, &mut pairs).unwrap();
            pairs.iter().for_each(|row| found.see(row));
        }
    }
    found.assert_uniform("passes over documents");
}
