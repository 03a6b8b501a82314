//! Two commands are the same build if the contents of the inputs and the version of the streams agree, regardless of
//! the location of the inputs.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use bert_data::{
    BuildConfig, BuildProgress, BuildStage, Manifest, STREAMS_VERSION, build_on, build_part, merge, verify,
};
use bert_storage::Disk;
use bert_storage::checksummed_json::{checksummed_json, read_checksummed};
use bert_testing::disks::{Fault, Faulty};
use serde_json::Value;

use crate::support::{config, run, small_text, small_vocabulary};

struct World {
    folder: tempfile::TempDir,
    config: BuildConfig,
}

/// Returns two files in a separate folder, and a build of them.
fn world() -> World {
    let folder = tempfile::tempdir().unwrap();
    let texts = folder.path().join("here");
    fs::create_dir(&texts).unwrap();
    fs::write(texts.join("a.txt"), small_text(20)).unwrap();
    fs::write(texts.join("b.txt"), small_text(7)).unwrap();
    let vocab = small_vocabulary(folder.path());
    let config = BuildConfig {
        max_seq_length: 32,
        dupe_factor: 3,
        num_shards: Some(5),
        threads: 1,
        ..config(&[&texts], &vocab, &folder.path().join("whole"))
    };
    World { folder, config }
}

impl World {
    fn at(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn to(&self, name: &str) -> BuildConfig {
        BuildConfig { output: Some(self.at(name)), ..self.config.clone() }
    }

    /// Returns the same text and vocabulary as on a machine that mounts them at another location.
    fn mounted(&self, config: BuildConfig) -> BuildConfig {
        let there = self.at("there");
        fs::create_dir_all(&there).unwrap();
        for name in ["a.txt", "b.txt"] {
            fs::copy(self.at("here").join(name), there.join(name)).unwrap();
        }
        fs::copy(config.vocab.as_deref().unwrap(), there.join("vocab.small")).unwrap();
        let input = vec![there.join("a.txt"), there.join("b.txt")];
        BuildConfig { input, vocab: Some(there.join("vocab.small")), ..config }
    }

    /// Stops a build so late that shards exist but none has its final name.
    fn stop_late(&self, config: &BuildConfig) {
        let counting = Faulty::new(Fault::Full, u64::MAX);
        build_on(&counting, config, &mut |_| {}).unwrap();
        fs::remove_dir_all(config.output.as_deref().unwrap()).unwrap();
        let files = Faulty::new(Fault::Full, counting.operations() - 30);
        assert!(build_on(&files, config, &mut |_| {}).is_err());
    }
}

/// Builds, and returns which files of an earlier run were used or dropped.
fn stages(config: &BuildConfig) -> Vec<BuildStage> {
    let mut stages = Vec::new();
    let mut see = |at: BuildProgress| {
        if !matches!(at.stage, BuildStage::Reading | BuildStage::Instances | BuildStage::Checking) {
            stages.push(at.stage);
        }
    };
    build_on(&Disk, config, &mut see).unwrap();
    stages
}

fn shards(folder: &Path) -> BTreeMap<String, Vec<u8>> {
    let manifest = Manifest::read(folder).unwrap();
    manifest
        .shards
        .iter()
        .map(|shard| (shard.file.clone(), fs::read(folder.join(&shard.file)).unwrap()))
        .collect()
}

#[test]
fn build_resumes_with_respelled_input_paths() {
    let world = world();
    let made = run(&world.config).unwrap().manifest;
    let stopped = world.to("stopped");
    world.stop_late(&stopped);
    let moved = world.mounted(stopped.clone());
    assert_eq!(stages(&moved), [BuildStage::ReusedText, BuildStage::ReusedShards]);
    let folder = world.at("stopped");
    assert!(shards(&folder) == shards(&world.at("whole")));
    let manifest = Manifest::read(&folder).unwrap();
    assert!(manifest.inputs.iter().all(|input| input.path.contains("/there/")), "{:?}", manifest.inputs);
    assert!(manifest.config.vocab.ends_with("vocab.small"));
    assert_eq!(manifest.config.digest(), made.config.digest());
}

#[test]
fn parts_with_different_mounts_merge() {
    let world = world();
    run(&world.config).unwrap();
    let part = |index| BuildConfig { part: Some(index), parts: Some(2), ..world.to("parts") };
    build_part(&part(1), &mut |_| {}).unwrap();
    let second = world.mounted(part(2));
    build_part(&second, &mut |_| {}).unwrap();
    let folder = world.at("parts");
    let manifest = merge(&folder, &mut |_| {}).unwrap();
    assert!(verify(&folder, true).unwrap().is_good());
    // Shards, manifest and data card: the first part names the inputs in the same way as the whole build.
    for name in ["manifest.json", "README.md", "vocab.txt"] {
        assert!(
            fs::read(folder.join(name)).unwrap() == fs::read(world.at("whole").join(name)).unwrap(),
            "{name}"
        );
    }
    assert!(shards(&folder) == shards(&world.at("whole")));
    assert!(manifest.inputs.iter().all(|input| input.path.contains("/here/")));
}

#[test]
fn finished_part_of_other_text_is_rejected() {
    let world = world();
    let part = BuildConfig { part: Some(1), parts: Some(2), ..world.to("parts") };
    build_part(&part, &mut |_| {}).unwrap();
    assert!(build_part(&world.mounted(part.clone()), &mut |_| {}).unwrap().was_finished);
    fs::write(world.at("here/b.txt"), small_text(8)).unwrap();
    let error = build_part(&part, &mut |_| {}).unwrap_err();
    assert!(error.to_string().contains("a finished part of different text"), "{error}");
    assert_eq!(error.exit_code(), 2);
}

#[test]
fn changed_text_is_rejected_or_rebuilt() {
    let world = world();
    let stopped = world.to("stopped");
    world.stop_late(&stopped);
    let moved = world.mounted(stopped.clone());
    fs::write(world.at("there/a.txt"), small_text(3)).unwrap();
    let error = build_on(&Disk, &moved, &mut |_| {}).unwrap_err();
    assert!(error.to_string().contains(": repeat that command to finish it, or"), "{error}");
    let text = error.to_string();
    assert!(
        text.contains("`.input` is [") && text.contains("/here") && text.contains("there/a.txt"),
        "{text}"
    );
    assert!(text.contains("`.overwrite`"), "{text}");
    assert_eq!(stages(&BuildConfig { overwrite: true, ..moved.clone() }), [BuildStage::ChangedText]);
    assert_eq!(Manifest::read(&world.at("stopped")).unwrap().report.documents, 10);
    fs::remove_dir_all(world.at("stopped")).unwrap();

    world.stop_late(&stopped);
    fs::write(world.at("here/a.txt"), small_text(4)).unwrap();
    assert_eq!(stages(&stopped), [BuildStage::ChangedText]);
    assert_eq!(Manifest::read(&world.at("stopped")).unwrap().report.documents, 11);
}

/// A build that stops between its manifest and its end is complete; a command with different text must not accept it as
/// its own.
#[test]
fn complete_build_of_other_text_is_finished() {
    let world = world();
    let mut stops = 0;
    for operation in 1.. {
        let config = world.to(&operation.to_string());
        if build_on(&Faulty::new(Fault::Io, operation), &config, &mut |_| {}).is_ok() {
            break;
        }
        let folder = config.output.as_deref().unwrap();
        if !Manifest::path(folder).exists() || !folder.join(".build/commit.json").exists() {
            continue;
        }
        stops += 1;
        let moved = world.mounted(config.clone());
        fs::write(world.at("there/a.txt"), small_text(3)).unwrap();
        let error = build_on(&Disk, &moved, &mut |_| {}).unwrap_err();
        assert!(error.to_string().contains("this output already holds a finished data"), "{error}");
        assert_eq!(Manifest::read(folder).unwrap().report.documents, 27);
        build_on(&Disk, &BuildConfig { overwrite: true, ..moved }, &mut |_| {}).unwrap();
        assert_eq!(Manifest::read(folder).unwrap().report.documents, 10);
    }
    assert!(stops > 0);
}

#[test]
fn versions_of_streams_and_text_are_compared() {
    let world = world();
    let stopped = world.to("stopped");
    world.stop_late(&stopped);
    let path = world.at("stopped/.build/identity.json");
    let written: Value = serde_json::from_slice(&read_checksummed(&path).unwrap()).unwrap();
    assert_eq!(written["streams_version"], STREAMS_VERSION);
    assert!(!written.to_string().contains(env!("CARGO_PKG_VERSION")), "{written}");
    for (key, name) in [("streams_version", "streams version"), ("text_version", "text version")] {
        let here = written[key].as_u64().unwrap();
        let found = here - 1;
        let mut other = written.clone();
        other[key] = found.into();
        fs::write(&path, checksummed_json(&other)).unwrap();
        let error = build_on(&Disk, &stopped, &mut |_| {}).unwrap_err();
        assert!(error.to_string().contains(&format!("the {name} is {found}, not {here}")), "{error}");
        assert_eq!(error.exit_code(), 2);
    }
    // The build continues with the versions that began it.
    fs::write(&path, checksummed_json(&written)).unwrap();
    build_on(&Disk, &stopped, &mut |_| {}).unwrap();
}
