//! A build gives the same bytes for any memory budget, threads, parts and interruptions.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use bert_data::{
    BuildConfig, BuildProgress, BuildStage, ByteSize, Error, Layout, Located, Manifest, ManifestProblem,
    OutputProblem, PartError, build_on, build_part, build_part_on, merge, tokenize_part,
};
use bert_storage::Disk;
use bert_storage::faults::{Fault, Faulty, PowerCut, Survival};
use parquet::file::metadata::ParquetMetaDataReader;

use crate::support::{config, reference, run, small_text, small_vocabulary};

struct World {
    folder: tempfile::TempDir,
    config: BuildConfig,
}

fn world(text: &str) -> World {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("text.txt");
    fs::write(&path, text).unwrap();
    let vocab = small_vocabulary(folder.path());
    let config = BuildConfig {
        max_seq_length: 32,
        max_predictions_per_seq: Some(5),
        dupe_factor: 3,
        num_shards: Some(5),
        threads: 2,
        ..config(&[&path], &vocab, &folder.path().join("whole"))
    };
    World { folder, config }
}

impl World {
    fn to(&self, name: &str) -> BuildConfig {
        BuildConfig { output: Some(self.folder.path().join(name)), ..self.config.clone() }
    }
}

/// Returns every file of a folder except the lock.
fn content(folder: &Path) -> BTreeMap<String, Vec<u8>> {
    fs::read_dir(folder)
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.file_name().unwrap() != ".lock")
        .map(|path| (path.file_name().unwrap().to_string_lossy().into_owned(), fs::read(&path).unwrap()))
        .collect()
}

fn names(folder: &Path) -> impl Iterator<Item = String> {
    let entries = fs::read_dir(folder).unwrap();
    entries.map(|entry| entry.unwrap().file_name().to_string_lossy().into_owned())
}

/// Builds again and returns the stages that reused files of an earlier run.
fn build_again(config: &BuildConfig) -> Vec<BuildStage> {
    let mut kept = Vec::new();
    let mut see = |at: BuildProgress| {
        if matches!(at.stage, BuildStage::ReusedText | BuildStage::ReusedShards) {
            kept.push(at.stage);
        }
    };
    build_on(&Disk, config, &mut see).unwrap();
    kept
}

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
    assert!(error.to_string().contains("--memory-budget is 20M"), "{error}");
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
    assert!(
        matches!(error, Error::Output(Located { problem: OutputProblem::Unfinished { .. }, .. }))
            && error.exit_code() == 2
    );
    let text = error.to_string();
    assert!(text.contains("--dupe-factor is 3, not 4") && text.contains("--overwrite"), "{text}");
    // An option that follows from another one is listed after it.
    let text = run(&BuildConfig { max_seq_length: 64, max_predictions_per_seq: None, ..config })
        .unwrap_err()
        .to_string();
    let at = |name: &str| text.find(name).unwrap_or_else(|| panic!("{name}: {text}"));
    assert!(at("--max-seq-length is ") < at("--max-predictions-per-seq is "), "{text}");
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

#[test]
fn parts_merge_to_the_whole_data_set() {
    parts_make_the_whole(&world(&small_text(200)));
}

#[test]
fn document_parts_merge_to_the_whole_data_set() {
    let mut world = world(&small_text(200));
    world.config = BuildConfig { layout: Layout::Documents, dupe_factor: 10, ..world.config };
    parts_make_the_whole(&world);
}

/// If a shard has several row groups, its part makes all of them.
#[test]
fn parts_with_larger_shards_merge_to_the_whole() {
    let mut world = world(&small_text(400));
    world.config = BuildConfig { dupe_factor: 150, num_shards: Some(2), ..world.config };
    let made = run(&world.config).unwrap();
    let shard = fs::File::open(made.manifest.shard_path(&made.output, 0)).unwrap();
    let metadata = ParquetMetaDataReader::new().parse_and_finish(&shard).unwrap();
    assert!(metadata.num_row_groups() > 1, "{} rows", made.manifest.instances);
    for index in [1, 2] {
        build_part(&BuildConfig { part: Some(index), parts: Some(2), ..world.to("parts") }, &mut |_| {})
            .unwrap();
    }
    let folder = world.folder.path().join("parts");
    merge(&folder, &mut |_| {}).unwrap();
    assert!(content(&folder) == content(&made.output));
}

/// Each of five shards is made by its part, which is interrupted once.
fn parts_make_the_whole(world: &World) {
    let made = run(&world.config).unwrap().manifest;
    let stored: u64 = made.shards.iter().map(|shard| shard.rows).sum();
    let whole = content(&world.folder.path().join("whole"));
    for parts in [2, 3, 8] {
        let name = format!("parts-{parts}");
        let folder = world.folder.path().join(&name);
        let part = |index| BuildConfig { part: Some(index), parts: Some(parts), ..world.to(&name) };
        let mut rows = 0;
        let early = build_part(&part(parts), &mut |_| {}).unwrap_err();
        let needed = PartError::TextMissing { part: 1, parts, missing: 1, segments: 1 };
        assert!(matches!(&early, Error::Part(error) if error.to_string() == needed.to_string()), "{early}");
        assert_eq!(early.exit_code(), 75);
        let documents = (1..=parts).map(|index| tokenize_part(&part(index), &mut |_| {}).unwrap().documents);
        assert_eq!(documents.sum::<u64>(), made.invariants.documents);
        for index in (1..=parts).rev() {
            // Interrupted once.
            let files = Faulty::new(Fault::Full, 10 + 7 * index as u64);
            let _ = build_part_on(&files, &part(index), &mut |_| {});
            let outcome = build_part(&part(index), &mut |_| {}).unwrap();
            rows += outcome.rows;
            assert_eq!(outcome.shards, (0..5).filter(|shard| shard % parts + 1 == index).count());
            if index > 1 {
                let error = merge(&folder, &mut |_| {}).unwrap_err();
                assert!(matches!(error, Error::Part(PartError::Missing { missing: 1, .. })), "{error}");
            }
        }
        assert!(build_part(&part(1), &mut |_| {}).unwrap().was_finished);
        assert_eq!(rows, stored);
        assert_eq!(merge(&folder, &mut |_| {}).unwrap().instances, made.instances);
        assert!(content(&folder) == whole, "{parts} parts");
        // All commands can be repeated.
        assert_eq!(merge(&folder, &mut |_| {}).unwrap().instances, made.instances);
        assert!(tokenize_part(&part(2), &mut |_| {}).unwrap().was_finished);
        let again = build_part(&part(1), &mut |_| {}).unwrap();
        assert_eq!((again.was_finished, again.shards), (true, 5usize.div_ceil(parts)));
        assert!(content(&folder) == whole, "{parts} parts, again");
    }
}

/// If files are damaged between the end of a part and the merge, the merge names the part, which makes them again.
#[test]
fn damaged_part_files_are_rebuilt() {
    let world = world(&small_text(60));
    run(&world.config).unwrap();
    let whole = content(&world.folder.path().join("whole"));
    let part = |index| BuildConfig { part: Some(index), parts: Some(2), ..world.to("parts") };
    tokenize_part(&part(2), &mut |_| {}).unwrap();
    for index in [1, 2] {
        build_part(&part(index), &mut |_| {}).unwrap();
    }
    let folder = world.folder.path().join("parts");
    for (name, owner) in
        [("train-00003-of-00005.parquet", 2), ("vocab.txt", 1), (".part-00001-of-00002.json", 1)]
    {
        let path = folder.join(name);
        let mut bytes = fs::read(&path).unwrap();
        let middle = bytes.len() / 2;
        bytes[middle] ^= 1;
        for damage in [Some(bytes), None] {
            damage.map_or_else(|| fs::remove_file(&path), |bytes| fs::write(&path, bytes)).unwrap();
            let error = merge(&folder, &mut |_| {}).unwrap_err();
            assert!(error.to_string().contains(&format!("--part {owner} --parts 2")), "{name}: {error}");
            assert_eq!(error.exit_code(), 3);
            let mut kept = 0;
            let mut see =
                |at: BuildProgress| kept += if at.stage == BuildStage::ReusedShards { at.done } else { 0 };
            let made = build_part(&part(owner), &mut see).unwrap();
            assert!(
                !made.was_finished && (kept > 0 || name.starts_with(".part")),
                "{name}: {kept} shards kept"
            );
            assert!(build_part(&part(owner), &mut |_| {}).unwrap().was_finished);
        }
    }
    merge(&folder, &mut |_| {}).unwrap();
    assert!(content(&folder) == whole);
}

/// Returns the configuration of one of two parts of the data set `parts`.
fn half(world: &World, index: usize) -> BuildConfig {
    BuildConfig { part: Some(index), parts: Some(2), ..world.to("parts") }
}

#[test]
fn missing_parts_are_named() {
    let world = world(&small_text(60));
    let folder = world.folder.path().join("parts");
    assert!(matches!(
        merge(&folder, &mut |_| {}).unwrap_err(),
        Error::Manifest(Located { problem: ManifestProblem::NoParts, .. })
    ));
    tokenize_part(&half(&world, 2), &mut |_| {}).unwrap();
    let error = merge(&folder, &mut |_| {}).unwrap_err();
    assert!(matches!(error, Error::Part(PartError::Missing { found: 0, missing: 1, .. })), "{error}");
    let text = &world.config.input[0];
    assert!(
        matches!(merge(text, &mut |_| {}).unwrap_err(), Error::Storage(bert_storage::Error::Io { .. })),
        "a file is no folder"
    );
}

#[test]
fn wrong_options_of_parts_are_rejected() {
    let world = world(&small_text(60));
    let part = |index| half(&world, index);
    build_part(&part(1), &mut |_| {}).unwrap();
    for (wrong, named) in [
        (BuildConfig { parts: Some(3), ..part(2) }, "--parts is 2, not 3"),
        (world.to("parts"), "--parts is 2, not 1"),
        (BuildConfig { random_seed: 1, ..part(1) }, "--random-seed is 12345, not 1"),
    ] {
        let result = match wrong.part {
            Some(_) => build_part(&wrong, &mut |_| {}).map(drop),
            None => run(&wrong).map(drop),
        };
        let error = result.unwrap_err();
        assert!(error.to_string().contains(named), "{error}");
        assert_eq!(error.exit_code(), 2);
    }
    for wrong in [
        BuildConfig { parts: None, ..part(1) },
        BuildConfig { part: None, ..part(1) },
        BuildConfig { part: Some(0), ..part(1) },
        BuildConfig { part: Some(3), ..part(1) },
        BuildConfig { overwrite: true, ..part(1) },
        reference(BuildConfig { num_shards: None, ..part(1) }),
    ] {
        let error = build_part(&wrong, &mut |_| {}).unwrap_err();
        assert_eq!(error.exit_code(), 2, "{error}");
    }
}

#[test]
fn mismatched_parts_are_rejected() {
    let world = world(&small_text(60));
    let folder = world.folder.path().join("parts");
    tokenize_part(&half(&world, 2), &mut |_| {}).unwrap();
    build_part(&half(&world, 1), &mut |_| {}).unwrap();
    // A foreign part: made with another seed elsewhere.
    let elsewhere = BuildConfig { random_seed: 1, output: world.to("elsewhere").output, ..half(&world, 2) };
    tokenize_part(&BuildConfig { part: Some(1), ..elsewhere.clone() }, &mut |_| {}).unwrap();
    build_part(&elsewhere, &mut |_| {}).unwrap();
    let receipt = ".part-00002-of-00002.json";
    for name in ["train-00001-of-00005.parquet", "train-00003-of-00005.parquet", receipt] {
        fs::copy(world.folder.path().join("elsewhere").join(name), folder.join(name)).unwrap();
    }
    let error = merge(&folder, &mut |_| {}).unwrap_err().to_string();
    assert!(error.contains("part 2 does not match the other parts: it has other options"), "{error}");
    // The receipt of the first part under the name of the second.
    fs::copy(folder.join(".part-00001-of-00002.json"), folder.join(receipt)).unwrap();
    let error = merge(&folder, &mut |_| {}).unwrap_err().to_string();
    assert!(error.contains("other number"), "{error}");
    fs::remove_file(folder.join(receipt)).unwrap();
    build_part(&half(&world, 2), &mut |_| {}).unwrap();
    let shard = folder.join("train-00003-of-00005.parquet");
    let good = fs::read(&shard).unwrap();
    fs::write(&shard, &good[1..]).unwrap();
    let error = merge(&folder, &mut |_| {}).unwrap_err();
    assert!(
        matches!(&error, Error::Part(PartError::Damaged { part: 2, parts: 2, source })
            if matches!(source.downcast_ref(), Some(Error::Manifest(Located { problem: ManifestProblem::FileDigest { .. }, .. })))),
        "{error}"
    );
    assert!(!Manifest::path(&folder).exists());
    fs::write(&shard, good).unwrap();
    merge(&folder, &mut |_| {}).unwrap();
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
