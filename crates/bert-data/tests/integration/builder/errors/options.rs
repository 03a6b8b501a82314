//! Options and output folders that are rejected.

use bert_data::{BuildConfig, Nsp, dry_run};
use bert_storage::{Class, Disk, LOCK, StagedFolder};

use crate::builder::errors::{World, assert_says};
use crate::support::{reference, run};

#[test]
fn wrong_values_name_the_flag() {
    let world = World::new();
    let base = || world.config.clone();
    let cases = [
        ("max_seq_length", BuildConfig { max_seq_length: 7, ..base() }),
        ("max_seq_length", BuildConfig { max_seq_length: 70_000, ..base() }),
        ("max_predictions_per_seq", BuildConfig { max_predictions_per_seq: Some(0), ..base() }),
        ("max_predictions_per_seq", BuildConfig { max_predictions_per_seq: Some(128), ..base() }),
        ("masked_lm_prob", BuildConfig { masked_lm_prob: 0.0, ..base() }),
        ("masked_lm_prob", BuildConfig { masked_lm_prob: f64::NAN, ..base() }),
        ("short_seq_prob", BuildConfig { short_seq_prob: 1.1, ..base() }),
        ("dupe_factor", BuildConfig { dupe_factor: 0, ..base() }),
        ("num_shards", BuildConfig { num_shards: Some(0), ..base() }),
        ("max_ngram", BuildConfig { max_ngram: 0, ..base() }),
        ("max_ngram", BuildConfig { max_ngram: 65, ..base() }),
        ("threads", BuildConfig { threads: 5000, ..base() }),
        ("language", BuildConfig { split_sentences: true, language: Some("klingon".to_owned()), ..base() }),
    ];
    for (flag, config) in cases {
        let error = world.fails(&config, 2, &[&format!("`.{flag}`")]);
        assert!(
            [", but must be", ", but must be the ISO 639 code of one of"]
                .iter()
                .any(|text| error.to_string().contains(text))
        );
    }
}

#[test]
fn conflicting_or_missing_options_are_rejected() {
    let world = World::new();
    let base = || world.config.clone();
    for config in [
        reference(BuildConfig { split_sentences: true, ..base() }),
        reference(BuildConfig { num_shards: Some(2), ..base() }),
        reference(BuildConfig { nsp: Nsp::Off, ..base() }),
        reference(BuildConfig { nsp: Nsp::Sop, ..base() }),
        reference(BuildConfig { max_ngram: 2, ..base() }),
        reference(BuildConfig { random_word_skip_special: true, ..base() }),
    ] {
        let error = world.fails(&config, 2, &["`.random reference`"]);
        assert!(error.to_string().contains("cannot be used with"));
    }
    for config in [BuildConfig { output: None, ..base() }, BuildConfig { vocab: None, ..base() }] {
        assert!(world.fails(&config, 2, &["is required"]).to_string().contains("is required:"));
    }
    let wrong = world.file("config.json", br#"{"dupe_factr": 3}"#);
    assert_says(&BuildConfig::read(&wrong).unwrap_err(), 2, &["config.json"]);
    assert_says(&BuildConfig::read(&world.data()).unwrap_err(), 1, &["data"]);
}

#[test]
fn foreign_outputs_are_not_changed() {
    let world = World::new();
    let data = world.data();
    std::fs::create_dir(&data).unwrap();
    std::fs::write(data.join("thesis.tex"), "mine").unwrap();
    for overwrite in [false, true] {
        let config = BuildConfig { overwrite, ..world.config.clone() };
        let error = world.fails(&config, 2, &["data", "thesis.tex"]);
        assert!(error.to_string().contains("this output folder holds other data ("));
        assert_eq!(dry_run(&config).unwrap_err().to_string(), error.to_string(), "a dry run says the same");
    }
    assert_eq!(std::fs::read_dir(&data).unwrap().count(), 1);
    std::fs::remove_file(data.join("thesis.tex")).unwrap();
    // A vocabulary alone may belong to the user, and so may a manifest in another format.
    for name in ["vocab.txt", "manifest.json"] {
        std::fs::write(data.join(name), "{}").unwrap();
        world.fails(&BuildConfig { overwrite: true, ..world.config.clone() }, 2, &[name]);
        std::fs::remove_file(data.join(name)).unwrap();
    }
    run(&world.config).unwrap();
    // Other files may be added later; the same command has nothing to do, and a different one is rejected.
    std::fs::write(data.join("thesis.tex"), "mine").unwrap();
    run(&world.config).unwrap();
    let other = BuildConfig { random_seed: 7, ..world.config.clone() };
    let error = world.fails(&other, 2, &["`.overwrite`", "`.random_seed` is 12345, not 7"]);
    assert!(error.to_string().contains("this output already holds a finished data"));
    assert_eq!(dry_run(&other).unwrap_err().to_string(), error.to_string());
    dry_run(&world.config).unwrap();
    run(&BuildConfig { overwrite: true, ..other }).unwrap();
    assert!(data.join("thesis.tex").exists());
    let file = BuildConfig { output: Some(world.file("file", b"")), ..world.config.clone() };
    assert!(
        world
            .fails(&file, 2, &["not a folder"])
            .to_string()
            .contains("this output is not a folder; choose another")
    );
}

#[test]
fn scratch_folders_are_on_a_disk() {
    let world = World::new();
    let config = BuildConfig { scratch: Some("s3://bucket/scratch".into()), ..world.config.clone() };
    let error = world.fails(&config, 2, &["s3://bucket/scratch", "this must be a path on a disk"]);
    assert_eq!(dry_run(&config).unwrap_err().to_string(), error.to_string());
    assert!(!std::path::Path::new("s3:").exists());
}

#[test]
fn a_folder_in_use_is_rejected() {
    let world = World::new();
    let data = world.data();
    std::fs::create_dir(&data).unwrap();
    let lock = StagedFolder::new(&Disk, &data).lock(LOCK).unwrap();
    let error = world.fails(&world.config, 6, &["in use by another process"]);
    assert!(error.class() == Class::InUse);
    drop(lock);
    run(&world.config).unwrap();
}
