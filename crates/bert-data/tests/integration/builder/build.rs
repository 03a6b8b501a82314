//! End-to-end tests of the public interface.

use bert_data::page::page;
use bert_data::{
    BuildConfig, BuildProgress, BuildStage, Layout, Manifest, Masking, Nsp, Vocabulary, build, dry_run,
    inspect, verify,
};

use crate::support::{
    Corpus, almanac, canonical, config, long_text, reference, run, shards, shared, small_text,
    small_vocabulary,
};

struct World {
    folder: tempfile::TempDir,
    config: BuildConfig,
}

/// Returns a corpus of `documents` small documents and a configuration for it.
fn world(documents: usize) -> World {
    let folder = tempfile::tempdir().unwrap();
    let text = folder.path().join("text.txt");
    std::fs::write(&text, small_text(documents)).unwrap();
    let vocab = small_vocabulary(folder.path());
    let config = BuildConfig {
        max_seq_length: 32,
        max_predictions_per_seq: Some(5),
        num_shards: Some(3),
        ..config(&[&text], &vocab, &folder.path().join("data"))
    };
    World { folder, config }
}

#[test]
fn the_bytes_do_not_depend_on_threads() {
    let world = world(200);
    let build = |threads: usize, name: &str| {
        let output = world.folder.path().join(name);
        run(&BuildConfig { threads, output: Some(output), ..world.config.clone() }).unwrap().manifest
    };
    let one = build(1, "one");
    assert_eq!(one, build(2, "two"));
    assert_eq!(one, build(3, "three"));
    let rows: Vec<u64> = one.shards.iter().map(|shard| shard.rows).collect();
    // Equal fractions of the passes, whose numbers of rows differ slightly.
    assert!(rows.iter().all(|&rows| rows.abs_diff(one.instances / 3) * 20 < rows), "{rows:?}");
    assert_eq!(rows.iter().sum::<u64>(), one.instances);
    assert_eq!(one.shards[2].file, "train-00002-of-00003.parquet");
}

#[test]
fn seed_and_shard_count_effects() {
    let world = world(60);
    let lines = |name: &str, seed: u64, num_shards: usize| {
        let output = Some(world.folder.path().join(name));
        let config =
            BuildConfig { random_seed: seed, num_shards: Some(num_shards), output, ..world.config.clone() };
        let outcome = run(&config).unwrap();
        let shards = shards(&outcome);
        let mut lines: Vec<String> = shards.iter().flat_map(|rows| rows.iter().map(canonical)).collect();
        let ordered = lines.clone();
        lines.sort();
        (lines, ordered)
    };
    let (one, ordered) = lines("a", 1, 1);
    let (five, _) = lines("b", 1, 5);
    assert_eq!(one, five, "the same instances in any number of shards");
    assert_ne!(one, ordered, "rows are shuffled");
    assert_ne!(one, lines("c", 2, 1).0, "another seed, other instances");
}

#[test]
fn next_sentence_labels_are_correct() {
    // Every document has its own letter, so a pair shows the source of its segments.
    let folder = tempfile::tempdir().unwrap();
    let text = folder.path().join("text.txt");
    let mut lines = String::new();
    for letter in 'a'..='h' {
        lines += &format!("{letter} {letter} {letter} {letter}.\n").repeat(6);
        lines.push('\n');
    }
    std::fs::write(&text, lines).unwrap();
    let vocab = small_vocabulary(folder.path());
    let config = BuildConfig {
        max_seq_length: 16,
        max_predictions_per_seq: Some(1),
        ..config(&[&text], &vocab, &folder.path().join("data"))
    };
    let outcome = run(&config).unwrap();
    let vocabulary = Vocabulary::read(&vocab).unwrap();
    for row in shards(&outcome).iter().flat_map(|rows| rows.iter()) {
        let mut ids = row.input_ids.to_vec();
        for (&position, &id) in row.masked_lm_positions.iter().zip(row.masked_lm_ids) {
            ids[position as usize] = id;
        }
        let letters = |segment: i8| -> Vec<&str> {
            let of_segment = ids.iter().zip(row.segment_ids).filter(|(_, found)| **found == segment);
            of_segment
                .map(|(&id, _)| vocabulary.token(id))
                .filter(|token| token.len() == 1 && *token != ".")
                .collect()
        };
        let (a, b) = (letters(0), letters(1));
        assert!(a.iter().all(|letter| *letter == a[0]) && b.iter().all(|letter| *letter == b[0]));
        assert_eq!(a[0] != b[0], row.next_sentence_label == 1, "{}", canonical(row));
    }
}

#[test]
fn one_document_prints_a_warning() {
    let folder = tempfile::tempdir().unwrap();
    let text = folder.path().join("text.txt");
    std::fs::write(&text, "the cat sat on the mat.\n".repeat(40)).unwrap();
    let vocab = small_vocabulary(folder.path());
    let config = config(&[&text], &vocab, &folder.path().join("data"));
    let outcome = run(&config).unwrap();
    assert_eq!(outcome.manifest.report.random_next, 0);
    let warnings = outcome.manifest.report.warnings.join("\n");
    assert!(warnings.contains("one document only") && warnings.contains("more than 60 %"), "{warnings}");
}

#[test]
fn one_sentence_documents_print_a_warning() {
    let folder = tempfile::tempdir().unwrap();
    let text = folder.path().join("text.txt");
    std::fs::write(&text, "the cat sat on the mat.\n\n".repeat(40)).unwrap();
    let vocab = small_vocabulary(folder.path());
    for split_sentences in [false, true] {
        let config = config(&[&text], &vocab, &folder.path().join(format!("data-{split_sentences}")));
        let outcome = run(&BuildConfig { split_sentences, ..config }).unwrap();
        let report = &outcome.manifest.report;
        assert_eq!((report.documents, report.one_sentence_documents), (40, 40));
        let warnings = report.warnings.join("\n");
        assert!(warnings.contains("40 of 40 documents have one sentence only"), "{warnings}");
        assert!(warnings.contains("100.0 % of the next sentence labels are random"), "{warnings}");
        assert_eq!(warnings.matches("use --split-sentences").count(), if split_sentences { 0 } else { 2 });
    }
}

/// Without a cap, the masked fraction equals the requested fraction at any length.
#[test]
fn the_default_cap_follows_from_the_length() {
    let folder = tempfile::tempdir().unwrap();
    let text = folder.path().join("text.txt");
    std::fs::write(&text, small_text(10).replace("\n\n", "\n").repeat(12) + "\n" + &small_text(9)).unwrap();
    let vocab = small_vocabulary(folder.path());
    let made = |name: &str, change: &dyn Fn(BuildConfig) -> BuildConfig| {
        let config = config(&[&text], &vocab, &folder.path().join(name));
        run(&change(BuildConfig { max_seq_length: 512, short_seq_prob: 0.0, ..config })).unwrap().manifest
    };
    let free = made("free", &|config| config);
    assert_eq!(free.config.max_predictions_per_seq, 77);
    assert!((0.145..0.155).contains(&free.report.masked_fraction()), "{}", free.report.masked_fraction());
    assert!(free.report.warnings.iter().all(|text| !text.contains("--max-predictions-per-seq")));
    let dynamic = made("dynamic", &|config| BuildConfig { masking: Masking::Dynamic, ..config });
    assert_eq!(dynamic.config.max_predictions_per_seq, 77);

    for (name, capped) in [
        ("by hand", made("by hand", &|config| BuildConfig { max_predictions_per_seq: Some(20), ..config })),
        ("reference", made("reference", &reference)),
    ] {
        assert_eq!(capped.config.max_predictions_per_seq, 20, "{name}");
        assert!(capped.report.masked_fraction() < 0.1, "{name}: {}", capped.report.masked_fraction());
        let warnings = capped.report.warnings.join("\n");
        assert!(warnings.contains("At most 20 tokens") && warnings.contains("3.9 %"), "{name}: {warnings}");
        let card = std::fs::read_to_string(folder.path().join(name).join("README.md")).unwrap();
        assert!(card.contains("At most 20 tokens"), "{name}");
    }
    assert!(page(&folder.path().join("by hand"), 1).unwrap().contains("At most 20 tokens"));
}

#[test]
fn manifest_describes_the_files() {
    let world = world(50);
    let outcome = run(&BuildConfig { preview: 2, ..world.config.clone() }).unwrap();
    let folder = world.config.output.as_deref().unwrap();
    let manifest = Manifest::read(folder).unwrap();
    assert_eq!(manifest, outcome.manifest);
    assert!(verify(folder, true).unwrap().is_good());
    assert_eq!(manifest.config.max_seq_length, 32);
    assert_eq!(manifest.inputs[0].lines, small_text(50).lines().count() as u64);
    let report = &manifest.report;
    assert_eq!(report.documents, 50);
    assert_eq!(report.length_histogram.iter().map(|range| range.instances).sum::<u64>(), manifest.instances);
    assert_eq!(
        report.replaced_by_mask + report.replaced_by_random + report.left_unchanged,
        report.masked_tokens
    );
    assert!(report.to_string().contains("replaced by [MASK]"));
    let vocabulary = std::fs::read(manifest.vocabulary_path(folder)).unwrap();
    assert_eq!(vocabulary, std::fs::read(world.config.vocab.as_ref().unwrap()).unwrap());
    assert_eq!(outcome.preview.len(), 2);
    assert!(
        outcome.preview[0].contains("[CLS]") && outcome.preview[0].contains("\n  B:"),
        "{}",
        outcome.preview[0]
    );
    let inspection = inspect(folder, 3).unwrap();
    assert_eq!(inspection.instances[..2], outcome.preview);
    assert!(inspection.to_string().contains("frequent tokens"));
    let verified = verify(folder, true).unwrap().to_string();
    assert!(verified.starts_with("good  vocab.txt\ngood  train-00000-of-00003.parquet ("), "{verified}");
    assert_eq!(bert_data::inspect_instance(folder, 1).unwrap(), outcome.preview[1]);
    // Only the committed files and the lock are left: shards, manifest, vocabulary, data card.
    let left: Vec<_> = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    assert_eq!(left.len(), 3 + 4, "{left:?}");
}

#[test]
fn report_counts_match_the_rows() {
    let world = world(50);
    let outcome = run(&world.config).unwrap();
    let (manifest, report) = (&outcome.manifest, &outcome.manifest.report);
    let read = Vocabulary::read(&manifest.vocabulary_path(&outcome.output)).unwrap();
    let mut counts = vec![0; read.len()];
    let (mut masked, mut random_next) = (0, 0);
    for row in shards(&outcome).iter().flat_map(|rows| rows.iter()) {
        masked += row.masked_lm_ids.len();
        random_next += usize::from(row.next_sentence_label == 1);
        let mut ids = row.input_ids.to_vec();
        for (&position, &id) in row.masked_lm_positions.iter().zip(row.masked_lm_ids) {
            ids[position as usize] = id;
        }
        ids.iter().for_each(|&id| counts[id as usize] += 1);
    }
    let (instances, tokens) = (manifest.instances as f64, counts.iter().sum::<u64>() as f64);
    assert_eq!(report.random_next_fraction(), random_next as f64 / instances);
    assert_eq!(report.masked_fraction(), masked as f64 / tokens);
    assert!((report.padding_fraction() - (1.0 - tokens / (32.0 * instances))).abs() < 1e-12);
    let inspection = inspect(&outcome.output, 1).unwrap();
    assert_eq!(inspection.frequent_tokens.len(), 20);
    for (token, count) in &inspection.frequent_tokens {
        assert_eq!(counts[read.id(token).unwrap() as usize], *count, "{token}");
    }
}

#[test]
fn progress_ascends_and_ends_at_its_total() {
    let world = world(50);
    let mut last: Vec<BuildProgress> = Vec::new();
    let mut see = |at: BuildProgress| match last.last_mut() {
        Some(before) if before.stage == at.stage => {
            assert!(before.done <= at.done && before.total == at.total, "{before:?} {at:?}");
            *before = at;
        }
        _ => last.push(at),
    };
    build(&world.config, &mut see).unwrap();
    let stages: Vec<BuildStage> = last.iter().map(|at| at.stage).collect();
    assert_eq!(stages, [BuildStage::Reading, BuildStage::Instances]);
    assert!(last.iter().all(|at| at.done == at.total && at.total > 0), "{last:?}");
}

#[test]
fn a_preview_marks_masks() {
    let world = world(20);
    let lines = run(&BuildConfig { preview: 50, ..world.config.clone() }).unwrap().preview;
    assert_eq!(lines.len(), 50);
    assert!(
        ["[MASK:", "[KEPT:", "->"].iter().all(|shown| lines.iter().any(|line| line.contains(shown))),
        "{lines:?}"
    );
}

#[test]
fn many_inputs_are_counted_and_a_hundred_are_named() {
    let world = world(4);
    let text = std::fs::read(&world.config.input[0]).unwrap();
    let folder = world.config.output.as_ref().unwrap().with_file_name("many");
    std::fs::create_dir(&folder).unwrap();
    (0..103).for_each(|file| std::fs::write(folder.join(format!("{file:03}.txt")), &text).unwrap());
    let outcome = run(&BuildConfig { input: vec![folder], ..world.config }).unwrap();
    let card = std::fs::read_to_string(outcome.output.join("README.md")).unwrap();
    assert!(card.contains("/099.txt | ") && !card.contains("/100.txt"), "{card}");
    assert!(card.contains("\n3 more are in `manifest.json`.\n"), "{card}");
    let shown = inspect(&outcome.output, 1).unwrap().to_string();
    assert!(shown.contains("/099.txt (") && shown.contains("\nand 3 more inputs\n"), "{shown}");
    assert_eq!(outcome.manifest.inputs.len(), 103);
}

#[test]
fn overwrite_replaces_a_finished_data_set() {
    let world = world(20);
    run(&world.config).unwrap();
    let second = BuildConfig { num_shards: Some(2), overwrite: true, ..world.config.clone() };
    let outcome = run(&second).unwrap();
    assert!(verify(&outcome.output, true).unwrap().is_good());
    assert!(!outcome.output.join("train-00000-of-00003.parquet").exists());
}

#[test]
fn leftovers_of_unfinished_builds_are_removed() {
    let world = world(20);
    let folder = world.config.output.clone().unwrap();
    std::fs::create_dir_all(folder.join(".build")).unwrap();
    std::fs::write(folder.join(".build/rows"), "left").unwrap();
    std::fs::write(folder.join("train-00007-of-00009.parquet"), "left").unwrap();
    let outcome = run(&world.config).unwrap();
    assert!(verify(&outcome.output, true).unwrap().is_good());
    assert!(!folder.join(".build").exists() && !folder.join("train-00007-of-00009.parquet").exists());
}

#[test]
fn configuration_is_the_same_as_flags_and_as_json() {
    #[derive(clap::Parser)]
    struct Cli {
        #[command(flatten)]
        config: BuildConfig,
    }
    use clap::Parser;
    assert_eq!(Cli::parse_from(["x"]).config, BuildConfig::default());
    let flags = "x --input a b,c --vocab v --output o --do-lower-case false --do-whole-word-mask --dupe-factor 5 \
                 --random reference --num-shards 1";
    let config = Cli::parse_from(flags.split_whitespace()).config;
    // Lists are split when files are looked up, because a name may hold a comma.
    assert_eq!(config.input.len(), 2);
    assert!(config.do_lower_case == Some(false) && config.do_whole_word_mask);
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("config.json");
    std::fs::write(&path, serde_json::to_vec(&config).unwrap()).unwrap();
    assert_eq!(BuildConfig::read(&path).unwrap(), config);
}

/// Compares every estimate of a dry run with the build itself; the output folder must not exist before.
fn is_right(config: &BuildConfig) {
    let output = config.output.clone().unwrap();
    let estimate = dry_run(config).unwrap();
    assert!(!output.exists());
    let mut most = 0;
    let outcome = build(config, &mut |_| most = most.max(bytes_below(&output))).unwrap();
    let (manifest, report) = (&outcome.manifest, &outcome.manifest.report);
    let bytes: u64 = manifest.shards.iter().map(|shard| shard.bytes).sum();
    for (what, estimate, truth) in [
        ("documents", estimate.documents, report.documents),
        ("sentences", estimate.sentences, report.sentences),
        ("tokens", estimate.tokens, report.tokens),
        ("instances", estimate.instances, report.instances),
        ("bytes", estimate.bytes, bytes),
        ("scratch", estimate.scratch, most),
    ] {
        let off = estimate as f64 / truth as f64;
        println!("{what}: {estimate} estimated, {truth} made: {off:.3}");
        assert!((1.0 / 1.2..1.2).contains(&off), "{what}: {estimate} estimated, {truth} made, {config:?}");
    }
    assert_eq!(estimate.shards, manifest.shards.len());
    assert!(estimate.seconds > 0.0 && estimate.memory > 1 << 20);
    assert!(estimate.to_string().contains("instances, about"));
    std::fs::remove_dir_all(output).unwrap();
}

/// Returns the bytes of all files below a folder; files may vanish during the scan.
fn bytes_below(folder: &std::path::Path) -> u64 {
    let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
    let bytes = entries.map(|entry| match entry.metadata() {
        Ok(data) if data.is_dir() => bytes_below(&entry.path()),
        data => data.map_or(0, |data| data.len()),
    });
    bytes.sum()
}

/// The corpora in the repository, as instances and as documents.
#[test]
fn dry_run_is_exact_on_the_almanac() {
    let folder = tempfile::tempdir().unwrap();
    let vocab = Corpus::almanac().vocab;
    for layout in [Layout::Instances, Layout::Documents] {
        is_right(&BuildConfig { layout, ..config(&[&almanac("")], &vocab, &folder.path().join("data")) });
    }
}

#[test]
fn dry_run_writes_nothing() {
    let world = world(3000);
    for change in [
        |config: BuildConfig| config,
        |config| BuildConfig { nsp: Nsp::Off, masking: Masking::Dynamic, ..config },
        |config| reference(BuildConfig { num_shards: None, dupe_factor: 3, ..config }),
        |config| BuildConfig { layout: Layout::Documents, ..config },
    ] {
        is_right(&change(world.config.clone()));
    }
    let empty = BuildConfig { input: Vec::new(), ..world.config };
    assert_eq!(dry_run(&empty).unwrap_err().exit_code(), 2);
}

/// Short documents and long ones; the text is larger than the sample.
#[test]
fn dry_run_is_accurate_beyond_its_sample() {
    let folder = tempfile::tempdir().unwrap();
    let long = long_text();
    let articles = ["culture.txt", "nature.txt", "science.txt"]
        .map(|file| std::fs::read_to_string(almanac(file)).unwrap() + "\n");
    let inputs = [("short", articles.concat().repeat(70)), ("long", (long + "\n").repeat(70))];
    let inputs = inputs.map(|(name, text)| {
        let path = folder.path().join(name);
        std::fs::write(&path, text).unwrap();
        path
    });
    assert_estimates(&inputs, &Corpus::almanac().vocab);
}

/// On corpora of several kinds.
#[test]
#[ignore = "needs ../shared"]
fn dry_run_is_accurate_on_real_corpora() {
    let corpora = shared().join("data/corpora");
    let inputs = ["enwiki-2015-train-0.txt.zst", "novels-a.txt.zst"].map(|name| corpora.join(name));
    assert_estimates(&inputs, &Corpus::bench().vocab);
}

/// Applies [`is_right`] to both layouts, for text that is sampled.
fn assert_estimates(inputs: &[std::path::PathBuf], vocab: &std::path::Path) {
    let folder = tempfile::tempdir().unwrap();
    let inputs: Vec<&std::path::Path> = inputs.iter().map(std::path::PathBuf::as_path).collect();
    let base = BuildConfig { dupe_factor: 2, ..config(&inputs, vocab, &folder.path().join("data")) };
    let estimate = dry_run(&base).unwrap();
    assert!(estimate.sampled < 0.7, "{estimate}");
    is_right(&base);
    is_right(&BuildConfig {
        layout: Layout::Documents,
        dupe_factor: BuildConfig::default().dupe_factor,
        ..base
    });
}
