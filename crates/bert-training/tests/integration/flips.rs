//! Tests ten thousand flipped bits and every truncation: each is detected before use and named, without a panic, and an
//! older valid checkpoint is used instead.

use std::fs;
use std::path::{Path, PathBuf};

use bert_inference::StopFlag;
use bert_inference::checkpoint::{CheckpointFolder, verify};
use bert_random::{Domain, Random, Stream};
use bert_testing::disks::Faulty;
use bert_training::{DataLoader, Error, PretrainConfig, Resume, pretrain_on};

use crate::world::{World, run_to_end};

fn names(folder: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder).unwrap();
    let mut paths: Vec<PathBuf> = entries.map(|entry| entry.unwrap().path()).collect();
    paths.retain(|path| !path.file_name().unwrap().to_str().unwrap().starts_with('.'));
    paths.sort();
    paths
}

/// Writes damaged bytes, calls `look`, and restores the original bytes.
fn damaged<T>(path: &Path, good: &[u8], bytes: &[u8], look: impl FnOnce() -> T) -> T {
    fs::write(path, bytes).unwrap();
    let seen = look();
    fs::write(path, good).unwrap();
    seen
}

/// Calls `look` with `flips` single-bit flips, spread over the bytes of the files.
fn flip(files: &[PathBuf], flips: u64, seed: u64, mut look: impl FnMut(&Path, &str, u64)) {
    let good: Vec<Vec<u8>> = files.iter().map(|path| fs::read(path).unwrap()).collect();
    let mut random = Stream::new(seed, Domain::Test, &[]);
    for number in 0..flips {
        let at = random.below(files.len());
        let place = random.below(good[at].len());
        let bit = random.below(8);
        let mut bytes = good[at].clone();
        bytes[place] ^= 1 << bit;
        let what = format!("bit {bit} of byte {place} of {}", files[at].display());
        damaged(&files[at], &good[at], &bytes, || look(&files[at], &what, number));
    }
}

/// Reads the whole folder: opens it as a run does, and takes every batch.
fn read_all(data: &Path) -> Result<(), Error> {
    let mut loader = DataLoader::open(data, 1)?;
    let rows = loader.rows();
    loader.batch(0, rows as usize).map(drop)
}

/// Returns an error and its causes, in words.
fn chain(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut next = error.source();
    while let Some(error) = next {
        text += &format!(": {error}");
        next = error.source();
    }
    text
}

fn assert_names(error: &(dyn std::error::Error + 'static), path: &Path, what: &str) {
    let text = chain(error);
    let name = path.file_name().unwrap().to_str().unwrap();
    assert!(text.contains(name), "{what}: {text}");
}

#[test]
fn flips_in_data_are_found() {
    let world = World::new(0.1);
    let data = world.at("data");
    let files: Vec<PathBuf> =
        names(&data).into_iter().filter(|path| path.extension().is_none_or(|end| end != "md")).collect();
    let kind = |end: &str| -> Vec<PathBuf> {
        files.iter().filter(|path| path.to_str().unwrap().ends_with(end)).cloned().collect()
    };
    let shards = kind(".parquet");
    let small = [kind("manifest.json"), kind("vocab.txt")].concat();
    assert_eq!((shards.len(), small.len(), files.len()), (3, 2, 5), "{files:?}");
    read_all(&data).unwrap();
    for (files, flips) in [(&shards, 3000), (&small, 3000)] {
        flip(files, flips, 7, |path, what, _| match read_all(&data) {
            Ok(()) => panic!("{what} was not found"),
            Err(error) => {
                assert_eq!(error.exit_code(), 3, "{what}: {error}");
                assert_names(&error, path, what);
            }
        });
    }
    for path in &files {
        let good = fs::read(path).unwrap();
        for length in (0..good.len()).step_by(if good.len() > 3000 { 13 } else { 1 }) {
            let what = format!("{} cut off after {length} bytes", path.display());
            let error = damaged(path, &good, &good[..length], || read_all(&data)).expect_err(&what);
            assert_eq!(error.exit_code(), 3, "{what}: {error}");
            assert_names(&error, path, &what);
        }
    }
}

#[test]
fn flips_in_a_checkpoint_select_the_older_one() {
    let world = World::new(0.1);
    let config = world.config("run", &["--steps", "2", "--save-every", "1", "--eval-instances", "4"]);
    run_to_end(&config, false);
    let checkpoints = CheckpointFolder::in_run(&config.output);
    let newest = checkpoints.path(2);
    let files = names(&newest);
    assert_eq!(files.len(), 10, "{files:?}");
    let look = |path: &Path, what: &str| {
        let error = verify(&newest).expect_err(what);
        assert_eq!(error.exit_code(), 4, "{what}: {error}");
        assert_names(&error, path, what);
        let mut warnings = 0;
        let found = checkpoints.newest_good(&mut |_| warnings += 1).unwrap().unwrap().path;
        assert!(found == checkpoints.path(1) && warnings == 1, "{what}: {found:?}");
    };
    flip(&files, 3500, 8, |path, what, _| look(path, what));
    for path in &files {
        let good = fs::read(path).unwrap();
        for length in (0..good.len()).step_by(if good.len() > 3000 { 97 } else { 1 }) {
            let what = format!("{} cut off after {length} bytes", path.display());
            // Without its marker the folder is not a checkpoint at all; with half of the marker it is a corrupt one.
            damaged(path, &good, &good[..length], || look(path, &what));
        }
    }
}

#[test]
fn flips_in_run_json_are_found() {
    let world = World::new(0.1);
    let config = world.config("run", &["--steps", "1"]);
    let config = PretrainConfig { eval_data: None, ..config };
    run_to_end(&config, false);
    let path = world.at("run/run.json");
    let resume = || pretrain_on(&Faulty::never(), &config, Resume::Yes, &StopFlag::new(), &mut |_| {});
    resume().unwrap();
    let look = |what: &str| {
        let error = resume().expect_err(what);
        assert_eq!(error.exit_code(), 4, "{what}: {error}");
        assert_names(&error, &path, what);
    };
    flip(std::slice::from_ref(&path), 500, 9, |_, what, _| look(what));
    let good = fs::read(&path).unwrap();
    for length in (0..good.len()).step_by(7) {
        let what = format!("cut off after {length} bytes");
        damaged(&path, &good, &good[..length], || look(&what));
    }
}
