//! Memory budgets, and builds that are stopped and continued.

use std::fs;

use bert_data::{BuildConfig, BuildProgress, BuildStage, ByteSize, Layout, Manifest, build_on};
use bert_storage::Disk;
use bert_testing::disks::{Fault, Faulty, PowerCut, Survival};

use crate::builder::any_size::{World, build_again, content, names, world};
use crate::support::{run, small_text};

#[test]
fn the_bytes_do_not_depend_on_the_budget() {
    let world = world(&small_text(300));
    run(&world.config).unwrap();
    let whole = content(&world.folder.path().join("whole"));
    for (threads, budget) in [(1, 64), (3, 80), (1, 4096)] {
        let name = format!("{threads}-{budget}");
        let memory_budget = Some(ByteSize(budget << 20));
        run(&BuildConfig { threads, memory_budget, ..world.to(&name) }).unwrap();
        assert!(content(&world.folder.path().join(&name)) == whole, "{name}");
    }
    let small = BuildConfig { memory_budget: Some(ByteSize(20 << 20)), ..world.to("small") };
    let error = run(&small).unwrap_err();
    assert!(error.to_string().contains("`.memory_budget` is 20M"), "{error}");
    assert_eq!(error.exit_code(), 2);
}

/// Fails each write operation in turn, as a full disk does; the same command must then end with the same bytes.
#[test]
fn build_resumes_from_every_stop() {
    use BuildStage::{ReusedShards, ReusedText};
    stopped_everywhere(&world(&small_text(40)), &[ReusedText, ReusedShards]);
}

#[test]
fn documents_build_resumes_from_every_stop() {
    let mut world = world(&small_text(40));
    world.config = BuildConfig { layout: Layout::Documents, dupe_factor: 10, ..world.config };
    stopped_everywhere(&world, &[BuildStage::ReusedText, BuildStage::ReusedShards]);
}

fn stopped_everywhere(world: &World, stages: &[BuildStage]) {
    run(&world.config).unwrap();
    let whole = content(&world.folder.path().join("whole"));
    let (mut nth, mut step, mut kept) = (1, 1, Vec::new());
    loop {
        let name = format!("stopped-{nth}");
        let config = BuildConfig { threads: 1, ..world.to(&name) };
        let files = Faulty::new(Fault::Full, nth);
        let result = build_on(&files, &config, &mut |_| {});
        if !files.triggered() {
            assert!(result.is_ok());
            break;
        }
        match result {
            Ok(_) => {}
            Err(error) => {
                assert_eq!(error.exit_code(), 1, "operation {nth}: {error}");
                kept.extend(build_again(&config));
            }
        }
        assert!(content(&world.folder.path().join(&name)) == whole, "operation {nth}");
        fs::remove_dir_all(world.folder.path().join(&name)).unwrap();
        (nth, step) = (nth + step, 1 + nth / 40);
    }
    assert!(nth > 40, "{nth} operations only");
    for stage in stages {
        assert!(kept.contains(stage), "{stage:?} was never used: {kept:?}");
    }
}

/// After a power cut that loses any unsynced data, the same command ends with the same bytes.
#[test]
fn power_cut_loses_no_data() {
    let world = world(&small_text(40));
    run(&world.config).unwrap();
    let whole = content(&world.folder.path().join("whole"));
    let root = world.folder.path().join("root");
    let (mut cut, mut cuts) = (2, 0);
    loop {
        fs::create_dir(&root).unwrap();
        let config = BuildConfig { threads: 1, output: Some(root.join("data")), ..world.config.clone() };
        let files = PowerCut::over(&root, cut).unwrap();
        let result = build_on(&files, &config, &mut |_| {});
        let was_off = files.is_off();
        files.restart(Survival::Random(cut)).unwrap();
        assert!(was_off || result.is_ok());
        build_on(&Disk, &config, &mut |_| {}).unwrap_or_else(|error| panic!("cut {cut}: {error}"));
        // A cut after the manifest may restore a removed work folder.
        let _ = fs::remove_dir_all(root.join("data/.build"));
        assert!(content(&root.join("data")) == whole, "cut {cut}");
        fs::remove_dir_all(&root).unwrap();
        if !was_off {
            break;
        }
        (cut, cuts) = (cut + 3, cuts + 1);
    }
    assert!(cuts > 20, "{cuts} cuts only");
}

/// Stops a build late: shards exist, and no file has its final name. Returns its configuration.
fn stopped(world: &World, name: &str) -> BuildConfig {
    let config = BuildConfig { threads: 1, ..world.to(name) };
    let counting = Faulty::new(Fault::Full, u64::MAX);
    build_on(&counting, &config, &mut |_| {}).unwrap();
    fs::remove_dir_all(world.folder.path().join(name)).unwrap();
    let files = Faulty::new(Fault::Full, counting.operations() - 30);
    assert!(build_on(&files, &config, &mut |_| {}).is_err());
    config
}

#[test]
fn other_options_are_rejected_on_resume() {
    let world = world(&small_text(40));
    run(&world.config).unwrap();
    let path = |name: &str| world.folder.path().join(name);
    let config = stopped(&world, "other");
    let other = BuildConfig { dupe_factor: 4, ..config.clone() };
    let before = content(&path("other/.build"));
    let error = run(&other).unwrap_err();
    assert!(error.to_string().contains(": repeat that command to finish it, or") && error.exit_code() == 2);
    let text = error.to_string();
    assert!(text.contains("`.dupe_factor` is 3, not 4") && text.contains("`.overwrite`"), "{text}");
    // An option that follows from another one is listed after it.
    let text = run(&BuildConfig { max_seq_length: 64, max_predictions_per_seq: None, ..config })
        .unwrap_err()
        .to_string();
    let at = |name: &str| text.find(name).unwrap_or_else(|| panic!("{name}: {text}"));
    assert!(at("`.max_seq_length` is ") < at("`.max_predictions_per_seq` is "), "{text}");
    assert!(before == content(&path("other/.build")), "something changed");
    run(&BuildConfig { overwrite: true, ..other }).unwrap();
    assert!(content(&path("other")) != content(&path("whole")));
}

/// Threads and memory may differ.
#[test]
fn damaged_work_is_built_again() {
    let world = world(&small_text(40));
    run(&world.config).unwrap();
    let whole = content(&world.folder.path().join("whole"));
    for damaged in ["documents-00000", "train-00000-of-00005.parquet", "text-00000.json", "identity.json"] {
        let config = stopped(&world, damaged);
        let path = world.folder.path().join(damaged).join(".build").join(damaged);
        let mut bytes = fs::read(&path).unwrap();
        let middle = bytes.len() / 2;
        bytes[middle] ^= 0x40;
        fs::write(&path, bytes).unwrap();
        build_again(&BuildConfig { threads: 3, memory_budget: Some(ByteSize(1 << 30)), ..config });
        assert!(content(&world.folder.path().join(damaged)) == whole, "{damaged}");
    }
}

#[test]
fn changed_text_is_built_again() {
    let world = world(&small_text(40));
    let config = stopped(&world, "text");
    fs::write(world.folder.path().join("text.txt"), small_text(30)).unwrap();
    assert!(build_again(&config).is_empty());
    assert_eq!(Manifest::read(&world.folder.path().join("text")).unwrap().report.documents, 30);
}

/// If a build stops while files get their final names, the renamed shards are found there.
#[test]
fn committed_shards_are_not_rebuilt() {
    let world = world(&small_text(20));
    let mut stops = 0;
    for operation in 1.. {
        let config = world.to(&operation.to_string());
        if build_on(&Faulty::new(Fault::Full, operation), &config, &mut |_| {}).is_ok() {
            break;
        }
        let folder = config.output.as_deref().unwrap();
        let named = folder.is_dir() && names(folder).any(|name| name.starts_with("train-"));
        if !named || Manifest::path(folder).exists() {
            continue;
        }
        let mut kept = 0;
        let mut see = |at: BuildProgress| {
            if at.stage == BuildStage::ReusedShards {
                kept = at.done;
            }
        };
        build_on(&Disk, &config, &mut see).unwrap();
        assert_eq!(kept, 5, "stopped at operation {operation}");
        stops += 1;
    }
    assert!(stops >= 5, "{stops} stops");
}

/// A corpus of one document is split when it fills a bucket, and its rows are the same for any number of threads.
#[test]
fn one_long_document() {
    let line = "the cat sat on the mat. the dog ran far away! is the sun hot? walking, talking, far.\n";
    let world = world(&line.repeat(180_000));
    let config = BuildConfig { dupe_factor: 1, ..world.config.clone() };
    let report = run(&BuildConfig { threads: 1, ..config.clone() }).unwrap().manifest.report;
    assert!(report.tokens > 1 << 22 && report.documents == 2, "{} tokens", report.tokens);
    assert!(report.warnings[0].contains("cut there, 1 times, first in text.txt"), "{:?}", report.warnings);
    let whole = content(&world.folder.path().join("whole"));
    let least = Some(ByteSize(64 << 20));
    let output = world.to("other").output;
    run(&BuildConfig { threads: 2, memory_budget: least, output, ..config }).unwrap();
    assert!(content(&world.folder.path().join("other")) == whole);
}
