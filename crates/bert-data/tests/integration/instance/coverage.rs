//! The tokens covered by a data set, counted a second time from the shards.
//!
//! Every token of these texts is a different word, so the ids in the shards identify the covered tokens.

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use bert_data::{BuildConfig, Layout, Manifest, Masking, Nsp, RandomMode, Vocabulary, read_shard, verify};
use bert_storage::checksummed_json::checksummed_json;

use crate::support::{config, reference, run, shards};

/// Writes documents with sentences of these lengths, every token a different word; returns the text and the vocabulary.
fn unique_words(folder: &Path, documents: &[&[usize]]) -> (PathBuf, PathBuf) {
    let (mut text, mut vocabulary) = (String::new(), "[PAD]\n[UNK]\n[CLS]\n[SEP]\n[MASK]\n".to_owned());
    let mut words = 0;
    for sentences in documents {
        for &tokens in *sentences {
            for _ in 0..tokens {
                write!(text, "w{words} ").unwrap();
                writeln!(vocabulary, "w{words}").unwrap();
                words += 1;
            }
            text.push('\n');
        }
        text.push('\n');
    }
    let (path, vocab) = (folder.join("text.txt"), folder.join("vocab.txt"));
    std::fs::write(&path, text).unwrap();
    std::fs::write(&vocab, vocabulary).unwrap();
    (path, vocab)
}

/// Returns the words that occur in some row, with masks undone.
fn words_in(manifest: &Manifest, folder: &Path) -> BTreeSet<u32> {
    let mut seen = BTreeSet::new();
    for shard in 0..manifest.shards.len() {
        for row in read_shard(&manifest.shard_path(folder, shard)).unwrap().iter() {
            let mut ids = row.input_ids.to_vec();
            for (&position, &id) in row.masked_lm_positions.iter().zip(row.masked_lm_ids) {
                ids[position as usize] = id;
            }
            seen.extend(ids.into_iter().filter(|&id| id >= 5));
        }
    }
    seen
}

/// Builds, checks that the report agrees with the shards, and returns the number of tokens in no instance.
fn uncovered_tokens(config: &BuildConfig) -> u64 {
    let outcome = run(config).unwrap();
    let (report, invariants) = (&outcome.manifest.report, &outcome.manifest.invariants);
    let seen = words_in(&outcome.manifest, &outcome.output).len() as u64;
    assert_eq!(report.sampled_tokens, report.tokens);
    assert_eq!(report.uncovered_tokens, report.tokens - seen, "{:?} {:?}", config.random, config.nsp);
    assert_eq!(invariants.tokens, report.tokens * config.dupe_factor as u64);
    assert!(invariants.covered_tokens <= invariants.tokens && invariants.covered_tokens > 0);
    let warns = report.warnings.iter().any(|warning| warning.contains("occur in no instance"));
    let percent = if config.dupe_factor == 1 { 20 } else { 1 };
    assert_eq!(warns, 100 * report.uncovered_tokens >= percent * report.tokens, "{:?}", report.warnings);
    report.uncovered_tokens
}

#[test]
fn lines_longer_than_an_instance_are_used_to_the_last_token() {
    let folder = tempfile::tempdir().unwrap();
    let long: Vec<&[usize]> = vec![&[300; 9], &[300], &[300; 4], &[300, 20, 300], &[1000], &[300; 2]];
    let (text, vocab) = unique_words(folder.path(), &long);
    let output =
        |name: &str| BuildConfig { overwrite: true, ..config(&[&text], &vocab, &folder.path().join(name)) };
    for seed in 1..6 {
        let keyed = BuildConfig { random_seed: seed, ..output("keyed") };
        assert_eq!(uncovered_tokens(&keyed), 0, "seed {seed}");
        // Only a piece that remains at a document's end may have no partner.
        assert!(uncovered_tokens(&BuildConfig { nsp: Nsp::Sop, ..keyed.clone() }) < 100, "seed {seed}");
        assert_eq!(uncovered_tokens(&BuildConfig { nsp: Nsp::Off, ..keyed }), 0, "seed {seed}");
    }
    let outcome = run(&output("report")).unwrap();
    let long_lines: usize =
        long.iter().map(|sentences| sentences.iter().filter(|&&tokens| tokens > 125).count()).sum();
    assert_eq!(outcome.manifest.report.cut_sentences, long_lines as u64);
    let text = outcome.manifest.report.to_string();
    assert!(text.contains("omitted in all passes"), "{text}");
}

#[test]
fn uncovered_tokens_are_counted_and_reported() {
    let folder = tempfile::tempdir().unwrap();
    let (text, vocab) = unique_words(folder.path(), &[&[300; 6], &[40; 5], &[12], &[500, 7], &[9, 9]]);
    let base = config(&[&text], &vocab, &folder.path().join("data"));
    let base = BuildConfig { overwrite: true, dupe_factor: 3, ..base };
    assert!(uncovered_tokens(&reference(base.clone())) > 600, "the reference cuts long lines at both ends");
    let sop = BuildConfig { nsp: Nsp::Sop, ..base.clone() };
    assert!(uncovered_tokens(&sop) >= 12, "a document of one sentence gives no pair");
    uncovered_tokens(&BuildConfig { max_seq_length: 32, dupe_factor: 1, ..base.clone() });
    assert_eq!(uncovered_tokens(&BuildConfig { nsp: Nsp::Off, dupe_factor: 1, ..base.clone() }), 0);
    uncovered_tokens(&BuildConfig { masking: Masking::Dynamic, ..base });
}

#[test]
fn coverage_warning_names_the_cause() {
    let folder = tempfile::tempdir().unwrap();
    let warning = |documents: &[&[usize]], random, dupe_factor| {
        let (text, vocab) = unique_words(folder.path(), documents);
        let base = config(&[&text], &vocab, &folder.path().join("data"));
        let config = BuildConfig { overwrite: true, random, dupe_factor, ..base };
        uncovered_tokens(&config);
        let warnings = run(&config).unwrap().manifest.report.warnings;
        warnings.into_iter().find(|warning| warning.contains("occur in no instance")).unwrap_or_default()
    };
    let (long_lines, medium_lines): ([&[usize]; 2], [&[usize]; 3]) = ([&[300; 6], &[40; 5]], [&[60; 20]; 3]);
    for dupe_factor in [1, 2, 3] {
        let warning = warning(&long_lines, RandomMode::Reference, dupe_factor);
        assert!(warning.contains("lose both ends in every pass"), "{dupe_factor}: {warning}");
    }
    assert_eq!(warning(&long_lines, RandomMode::Keyed, 3), "");
    let twice = warning(&medium_lines, RandomMode::Keyed, 2);
    assert!(twice.contains("a larger --dupe-factor covers more"), "{twice}");
    // Evaluation data has one pass.
    let once = warning(&medium_lines, RandomMode::Keyed, 1);
    assert!(!once.contains("--dupe-factor"), "{once}");
}

#[test]
fn documents_without_an_instance_are_counted() {
    let folder = tempfile::tempdir().unwrap();
    let (text, vocab) = unique_words(folder.path(), &[&[300; 6], &[40; 5], &[120], &[50, 7], &[9]]);
    let base = config(&[&text], &vocab, &folder.path().join("data"));
    let documents = BuildConfig { layout: Layout::Documents, overwrite: true, ..base };
    let report = |nsp| run(&BuildConfig { nsp, ..documents.clone() }).unwrap().manifest.report;
    let sop = report(Nsp::Sop);
    assert_eq!((sop.uncovered_tokens, sop.sampled_tokens), (129, sop.tokens));
    assert!(
        sop.warnings.iter().any(|warning| warning.contains("occur in no instance")),
        "{:?}",
        sop.warnings
    );
    assert_eq!(report(Nsp::On).uncovered_tokens, 0);
    let off = report(Nsp::Off);
    assert_eq!((off.uncovered_tokens, off.omitted_fraction), (0, 0.0));
}

/// Rewrites the manifest of a data folder, with a valid checksum.
fn forge(folder: &Path, forge: impl FnOnce(&mut Manifest)) {
    let mut manifest = Manifest::read(folder).unwrap();
    forge(&mut manifest);
    std::fs::write(Manifest::path(folder), checksummed_json(&manifest)).unwrap();
}

#[test]
fn omitted_fraction_follows_from_the_counts() {
    let folder = tempfile::tempdir().unwrap();
    let (text, vocab) = unique_words(folder.path(), &[&[60; 20], &[60; 20]]);
    let outcome = run(&config(&[&text], &vocab, &folder.path().join("data"))).unwrap();
    forge(&outcome.output, |manifest| {
        manifest.report.omitted_fraction = manifest.report.omitted_fraction.next_up();
    });
    assert_eq!(Manifest::read(&outcome.output).unwrap(), outcome.manifest);
}

fn problem(folder: &Path) -> String {
    let verification = verify(folder, true).unwrap();
    let text = verification.to_string();
    let problem = verification.into_problem().expect("a problem");
    assert_eq!(problem.exit_code(), 3, "{problem}");
    assert!(text.contains(&format!("bad   {problem}")), "{text}");
    problem.to_string()
}

/// Returns the configuration of a data set in two shards.
fn two_shards(folder: &Path) -> BuildConfig {
    let (text, vocab) = unique_words(folder, &[&[30; 40], &[20; 60], &[10; 90], &[70; 5]]);
    BuildConfig { num_shards: Some(2), overwrite: true, ..config(&[&text], &vocab, &folder.join("data")) }
}

type Change = fn(&mut Manifest);

/// Builds once for each change, changes the manifest, and checks that `verify` names the invariant.
fn assert_found<const N: usize>(config: &BuildConfig, changes: [(&str, Change); N]) {
    let data = config.output.as_deref().unwrap();
    for (name, change) in changes {
        run(config).unwrap();
        let good = verify(data, true).unwrap().to_string();
        assert!(good.contains("good  invariants"), "{good}");
        forge(data, change);
        assert!(problem(data).contains(name), "{name}: {}", problem(data));
    }
}

/// A shard in place of another, with digests and counts that agree.
#[test]
fn a_duplicated_shard_is_found() {
    let folder = tempfile::tempdir().unwrap();
    let config = two_shards(folder.path());
    let data = folder.path().join("data");
    let manifest = run(&config).unwrap().manifest;
    std::fs::copy(manifest.shard_path(&data, 0), manifest.shard_path(&data, 1)).unwrap();
    forge(&data, |manifest| {
        let rows = manifest.shards[0].rows;
        let more = rows.wrapping_sub(manifest.shards[1].rows);
        manifest.shards[1] =
            bert_data::ShardEntry { file: manifest.shards[1].file.clone(), ..manifest.shards[0].clone() };
        manifest.instances = manifest.instances.wrapping_add(more);
        manifest.report.instances = manifest.report.instances.wrapping_add(more);
        manifest.invariants.rows = manifest.invariants.rows.wrapping_add(more);
        let report = &mut manifest.report;
        let range = report.length_histogram.iter_mut().max_by_key(|range| range.instances).unwrap();
        range.instances = range.instances.wrapping_add(more);
        report.instance_tokens = report.instance_tokens.min(report.instances * report.max_seq_length as u64);
    });
    assert!(problem(&data).contains("the fingerprint of the rows in the shards"), "{}", problem(&data));
}

#[test]
fn instance_counts_are_recounted() {
    let folder = tempfile::tempdir().unwrap();
    let changes: [(&str, Change); 5] = [
        ("the number of masked tokens in the shards", |manifest| {
            manifest.report.masked_tokens += 1;
            manifest.report.replaced_by_random += 1;
        }),
        ("the number of tokens in the shards", |manifest| manifest.report.instance_tokens -= 1),
        ("the number of rows with label 1", |manifest| manifest.report.random_next += 1),
        ("the number of rows of a range of lengths", |manifest| {
            let ranges = &mut manifest.report.length_histogram;
            let most = (0..ranges.len()).max_by_key(|&range| ranges[range].instances).unwrap();
            ranges[most].instances -= 1;
            ranges[(most + 1) % 2].instances += 1;
        }),
        ("the fingerprint of the rows", |manifest| {
            manifest.invariants.row_fingerprint = format!("{:016x}", 7);
        }),
    ];
    assert_found(&two_shards(folder.path()), changes);
}

#[test]
fn document_counts_are_recounted() {
    let folder = tempfile::tempdir().unwrap();
    let changes: [(&str, Change); 6] = [
        ("the number of tokens in the shards", |manifest| {
            manifest.report.tokens += 1;
            manifest.invariants.tokens += 1;
        }),
        ("the number of sentences in the shards", |manifest| manifest.report.sentences += 1),
        ("the fingerprint of the documents in the shards", |manifest| {
            manifest.invariants.document_fingerprint = format!("{:016x}", 7);
        }),
        ("the number of rows with label 1", |manifest| manifest.report.random_next ^= 1),
        ("the number of instances in the shards", |manifest| {
            manifest.instances += 1;
            manifest.report.instances += 1;
            manifest.report.length_histogram[0].instances += 1;
        }),
        ("the number of tokens in documents without an instance", |manifest| {
            manifest.report.uncovered_tokens += 1;
        }),
    ];
    assert_found(&BuildConfig { layout: Layout::Documents, ..two_shards(folder.path()) }, changes);
}

/// Whole words of several pieces stay in one piece of a long line.
#[test]
fn long_lines_are_cut_between_words() {
    let folder = tempfile::tempdir().unwrap();
    let vocab = folder.path().join("vocab.txt");
    std::fs::write(&vocab, "[PAD]\n[UNK]\n[CLS]\n[SEP]\n[MASK]\nab\n##cd\n##ef\n").unwrap();
    let text = folder.path().join("text.txt");
    std::fs::write(&text, format!("{}\n\n{}\n", "abcdef ".repeat(60), "abcd ".repeat(90))).unwrap();
    let outcome = run(&BuildConfig {
        layout: Layout::Documents,
        max_seq_length: 64,
        ..config(&[&text], &vocab, &folder.path().join("data"))
    })
    .unwrap();
    assert_eq!(outcome.manifest.report.cut_sentences, 2);
    let vocabulary = Vocabulary::read(&vocab).unwrap();
    let bucket = bert_data::read_all_documents(&outcome.data_set().unwrap()).unwrap();
    let documents = bucket.documents();
    assert!(documents.sentences() > 2 * 180 / 61, "{}", documents.sentences());
    let sentences =
        documents.iter().flat_map(|document| (0..document.sentences()).map(move |at| (document, at)));
    for (document, sentence) in sentences {
        let place = document.sentence(sentence);
        assert!(place.len() <= 16, "{place:?}");
        let mut ids = Vec::new();
        document.append_tokens(place.start..place.start + 1, &mut ids);
        assert_eq!(vocabulary.token(ids[0]), "ab", "sentence {sentence}");
    }
    assert!(shards(&run(&config(&[&text], &vocab, &folder.path().join("instances"))).unwrap())[0].len() > 10);
}
