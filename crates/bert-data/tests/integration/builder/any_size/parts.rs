//! Parts that are built separately and merged.

use std::fs;

use bert_data::{
    BuildConfig, BuildProgress, BuildStage, Error, Layout, Manifest, build_part, build_part_on, merge,
    tokenize_part,
};
use bert_testing::disks::{Fault, Faulty};
use parquet::file::metadata::ParquetMetaDataReader;

use crate::builder::any_size::{World, content, world};
use crate::support::{reference, run, small_text};

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
        let needed = format!(
            "1 of 1 shares of the text are not tokenized yet; the first belongs to part 1 of {parts}: run this part again when \
             all parts have run with `.tokenize_only`"
        );
        assert_eq!(early.to_string(), needed);
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
                assert!(
                    error.text().contains("finished; part 1 is missing")
                        || error.text().contains("finished; parts 1"),
                    "{error}"
                );
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
            assert!(error.to_string().contains(&format!("`.part {owner}` `.parts 2`")), "{name}: {error}");
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
    assert!(
        merge(&folder, &mut |_| {}).unwrap_err().to_string().contains("this folder has no parts of a build")
    );
    tokenize_part(&half(&world, 2), &mut |_| {}).unwrap();
    let error = merge(&folder, &mut |_| {}).unwrap_err();
    assert!(error.to_string().starts_with("0 of "), "{error}");
    let text = &world.config.input[0];
    assert!(merge(text, &mut |_| {}).unwrap_err().io_kind().is_some(), "a file is no folder");
}

#[test]
fn wrong_options_of_parts_are_rejected() {
    let world = world(&small_text(60));
    let part = |index| half(&world, index);
    build_part(&part(1), &mut |_| {}).unwrap();
    for (wrong, named) in [
        (BuildConfig { parts: Some(3), ..part(2) }, "`.parts` is 2, not 3"),
        (world.to("parts"), "`.parts` is 2, not 1"),
        (BuildConfig { random_seed: 1, ..part(1) }, "`.random_seed` is 12345, not 1"),
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
        error.text().starts_with("part 2 is damaged: build it again with `.part 2` `.parts 2`")
            && error.cause::<Error>().is_some_and(|cause| cause.text().contains(", but the manifest says ")),
        "{error}"
    );
    assert!(!Manifest::path(&folder).exists());
    fs::write(&shard, good).unwrap();
    merge(&folder, &mut |_| {}).unwrap();
}
