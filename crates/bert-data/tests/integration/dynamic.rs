//! Masks that the loader makes: what is stored, and that the masks are a pure function with static masking's rules.

use bert_data::{
    BuildConfig, Error, Located, Manifest, Masking, OptionError, RowMasker, RowProblem, ShardProblem,
    Vocabulary, inspect, verify,
};

use crate::support::{Corpus, canonical, config, reference, run, shards, small_text, small_vocabulary};

struct World {
    _folder: tempfile::TempDir,
    config: BuildConfig,
}

fn world() -> World {
    let folder = tempfile::tempdir().unwrap();
    let text = folder.path().join("text.txt");
    std::fs::write(&text, small_text(150)).unwrap();
    let vocab = small_vocabulary(folder.path());
    let config = BuildConfig {
        max_seq_length: 32,
        max_predictions_per_seq: Some(5),
        dupe_factor: 2,
        num_shards: Some(2),
        masking: Masking::Dynamic,
        ..config(&[&text], &vocab, &folder.path().join("data"))
    };
    World { _folder: folder, config }
}

#[test]
fn rows_are_those_of_static_masking_without_masks() {
    let world = world();
    let outcome = run(&world.config).unwrap();
    let fixed = BuildConfig {
        masking: Masking::Static,
        output: Some(world.config.output.as_ref().unwrap().with_extension("static")),
        ..world.config.clone()
    };
    let fixed = run(&fixed).unwrap();
    for (stored, masked) in shards(&outcome).iter().zip(&shards(&fixed)) {
        assert_eq!(stored.len(), masked.len());
        for (stored, masked) in stored.iter().zip(masked.iter()) {
            let mut ids = masked.input_ids.to_vec();
            for (&position, &id) in masked.masked_lm_positions.iter().zip(masked.masked_lm_ids) {
                ids[position as usize] = id;
            }
            assert_eq!(stored.input_ids, ids);
            assert_eq!(stored.segment_ids, masked.segment_ids);
            assert_eq!(stored.next_sentence_label, masked.next_sentence_label);
            assert!(stored.masked_lm_positions.is_empty() && stored.masked_lm_ids.is_empty());
        }
    }
    let bytes = |manifest: &Manifest| manifest.shards.iter().map(|shard| shard.bytes).sum::<u64>();
    assert!(bytes(&outcome.manifest) < bytes(&fixed.manifest));
    assert_eq!(outcome.manifest.config.masking, Masking::Dynamic);
    assert!(outcome.manifest.report.to_string().contains("the loader masks"));
    assert!(verify(&outcome.output, true).unwrap().is_good());
    let shown = inspect(&outcome.output, 40).unwrap().instances;
    assert!(shown.iter().any(|text| text.contains("[MASK:")), "looked at with masks");
    assert_eq!(bert_data::inspect::instance(&outcome.output, 33).unwrap(), shown[33]);
    assert!(matches!(
        run(&reference(world.config)).unwrap_err(),
        Error::Option(OptionError::Conflict { .. })
    ));
}

#[test]
fn stored_masks_are_refused() {
    let world = world();
    let fixed = BuildConfig { masking: Masking::Static, ..world.config.clone() };
    let outcome = run(&fixed).unwrap();
    // The same folder under a manifest that says the loader masks.
    let path = Manifest::path(&outcome.output);
    let mut manifest = serde_json::to_value(&outcome.manifest).unwrap();
    for part in ["config", "report"] {
        manifest[part]["masking"] = "dynamic".into();
    }
    std::fs::write(&path, bert_storage::sealed::sealed(&manifest)).unwrap();
    let problem = verify(&outcome.output, true).unwrap().into_problem().unwrap();
    assert!(
        matches!(
            problem,
            Error::Shard(Located {
                problem: ShardProblem::Row { problem: RowProblem::TooManyMasks { limit: 0, .. }, .. },
                ..
            })
        ),
        "{problem}"
    );
}

#[test]
fn masks_are_a_pure_function_of_seed_epoch_and_instance() {
    let world = world();
    let outcome = run(&world.config).unwrap();
    let vocabulary = Vocabulary::read(world.config.vocab.as_ref().unwrap()).unwrap();
    let rows = &shards(&outcome)[0];
    let all = |seed: u64, epoch: u64| -> Vec<String> {
        let mut masker = RowMasker::new(&outcome.manifest, &vocabulary, seed).unwrap();
        rows.iter().zip(0..).map(|(row, index)| canonical(masker.mask(row, epoch, index))).collect()
    };
    let first = all(1, 0);
    assert_eq!(first, all(1, 0));
    let mut masker = RowMasker::new(&outcome.manifest, &vocabulary, 1).unwrap();
    for index in (0..rows.len()).rev() {
        assert_eq!(canonical(masker.mask(rows.row(index), 0, index as u64)), first[index], "in any order");
    }
    for (seed, epoch) in [(1, 1), (2, 0)] {
        let same = first.iter().zip(all(seed, epoch)).filter(|(a, b)| *a == b).count();
        assert!(10 * same < rows.len(), "other masks: {same} of {} are the same", rows.len());
    }
    let fixed = BuildConfig { masking: Masking::Static, overwrite: true, ..world.config.clone() };
    let fixed = run(&fixed).unwrap();
    assert!(RowMasker::new(&fixed.manifest, &vocabulary, 1).is_none(), "masked already");
}

/// For each share the difference to static masking is below 5 sigma of a binomial over both counts; the budget of every
/// row is the same, so the numbers of masks are equal.
#[test]
fn the_masks_have_the_statistics_of_static_ones() {
    let folder = tempfile::tempdir().unwrap();
    let corpus = Corpus::almanac();
    let build = |masking, name: &str| {
        run(&BuildConfig { masking, ..corpus.config(&folder.path().join(name)) }).unwrap()
    };
    let (fixed, dynamic) = (build(Masking::Static, "static"), build(Masking::Dynamic, "dynamic"));
    let vocabulary = Vocabulary::read(&corpus.vocab).unwrap();
    let report = &fixed.manifest.report;
    for (seed, epoch) in [(7, 0), (7, 1), (7, 2), (8, 0), (9, 0)] {
        let mut masker = RowMasker::new(&dynamic.manifest, &vocabulary, seed).unwrap();
        let (mut masks, mut shown, mut kept, mut pieces) = (0u64, 0u64, 0u64, 0u64);
        for (row, index) in shards(&dynamic).iter().flat_map(|rows| rows.iter()).zip(0..) {
            let row = masker.mask(row, epoch, index);
            for (&position, &id) in row.masked_lm_positions.iter().zip(row.masked_lm_ids) {
                let token = row.input_ids[position as usize];
                masks += 1;
                shown += u64::from(token == vocabulary.mask_id());
                kept += u64::from(token == id);
                pieces += u64::from(vocabulary.token(id).starts_with("##"));
            }
        }
        assert_eq!(masks, report.masked_tokens);
        let n = masks as f64;
        let mut fixed_pieces = 0u64;
        for row in shards(&fixed).iter().flat_map(|rows| rows.iter()) {
            let is_piece = |id: &&u32| vocabulary.token(**id).starts_with("##");
            fixed_pieces += row.masked_lm_ids.iter().filter(is_piece).count() as u64;
        }
        for (what, a, b) in [
            ("[MASK]", shown, report.shown_as_mask),
            ("kept", kept, report.shown_unchanged),
            ("##", pieces, fixed_pieces),
        ] {
            let (a, b) = (a as f64 / n, b as f64 / n);
            let bound = 5.0 * (2.0 * a * (1.0 - a) / n).sqrt();
            assert!((a - b).abs() <= bound, "seed {seed}, epoch {epoch}, {what}: {a}, static {b} +- {bound}");
        }
    }
}
