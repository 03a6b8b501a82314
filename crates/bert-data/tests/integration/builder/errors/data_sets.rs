//! Damaged data sets.

use bert_data::{BuildConfig, DataSet, Manifest, inspect, read_shard, verify};

use crate::builder::errors::{World, assert_says};
use crate::support::run;

#[test]
fn manifests_are_checked() {
    let world = World::new();
    let data = world.data();
    assert_says(&Manifest::read(&data).unwrap_err(), 3, &["this folder does not exist"]);
    let good = run(&BuildConfig { num_shards: Some(2), ..world.config.clone() }).unwrap().manifest;
    let path = Manifest::path(&data);
    let change = |change: &dyn Fn(&mut serde_json::Value)| {
        let mut value = serde_json::to_value(&good).unwrap();
        change(&mut value);
        std::fs::write(&path, serde_json::to_vec(&value).unwrap()).unwrap();
        Manifest::read(&data).unwrap_err()
    };
    assert_says(&change(&|value| value["format_version"] = 99.into()), 3, &["version 99"]);
    assert_says(&change(&|value| value["extra"] = 2.into()), 3, &["not a valid manifest"]);
    for bad in ["../x.parquet", "/etc/passwd", "a/b", "C:x", ".lock", ""] {
        let error = change(&|value| value["shards"][0]["file"] = bad.into());
        assert!(error.to_string().contains(", which is not a plain file name"), "{error}");
        change(&|value| value["vocabulary"]["file"] = bad.into());
    }
    let error = change(&|value| value["shards"][0]["rows"] = 1.into());
    assert!(error.to_string().contains(", expected"), "{error}");
    change(&|value| value["shards"][0]["rows"] = u64::MAX.into());
    change(&|value| value["report"]["instances"] = 1.into());
    std::fs::write(&path, "{").unwrap();
    assert_says(&inspect(&data, 1).unwrap_err(), 3, &["not a valid manifest"]);
}

#[test]
fn damaged_folders_are_found() {
    let world = World::new();
    let data = world.data();
    let manifest = run(&world.config).unwrap().manifest;
    let shard = manifest.shard_path(&data, 0);
    let bytes = std::fs::read(&shard).unwrap();
    let problem = || verify(&data, true).unwrap().into_problem().unwrap();
    let mut flipped = bytes.clone();
    flipped[bytes.len() / 2] ^= 1;
    std::fs::write(&shard, &flipped).unwrap();
    assert!(problem().to_string().contains(", but the manifest says"));
    assert!(verify(&data, false).unwrap().is_good(), "only a deep check reads digests");
    std::fs::write(&shard, &bytes[1..]).unwrap();
    assert!(problem().to_string().contains("bytes, but the manifest says"));
    std::fs::remove_file(&shard).unwrap();
    assert!(problem().to_string().contains("this file is missing, but the manifest"));
    #[cfg(unix)]
    {
        // A link to itself exists, but cannot be read.
        std::os::unix::fs::symlink(&shard, &shard).unwrap();
        assert_says(&problem(), 1, &["cannot read", "train-00000"]);
        std::fs::remove_file(&shard).unwrap();
    }
    std::fs::write(&shard, &bytes).unwrap();
    std::fs::write(manifest.vocabulary_path(&data), "[UNK]\n").unwrap();
    assert_says(&problem(), 3, &["vocab.txt", "BLAKE3"]);
    assert!(verify(&data, true).unwrap().to_string().contains("bad   "));
}

#[test]
fn manifests_that_contradict_their_files_are_found() {
    let world = World::new();
    let manifest = run(&world.config).unwrap().manifest;
    let forged = |forge: &dyn Fn(&mut bert_data::Manifest)| {
        let mut forged = manifest.clone();
        forge(&mut forged);
        DataSet::from_manifest(&world.data(), forged).and_then(|forged| forged.read_rows(0)).unwrap_err()
    };
    assert_says(
        &forged(&|manifest| manifest.vocabulary.size += 1),
        3,
        &["manifest.json", "the vocabulary's size"],
    );
    assert_says(&forged(&|manifest| manifest.shards[0].rows -= 1), 3, &["train-00000", "the shard's rows"]);
    assert_says(&forged(&|manifest| manifest.config.max_seq_length = 5), 3, &["train-00000", "tokens"]);
}

/// A flipped bit or a cut in a shard read without a manifest is an error or other rows, never a panic.
#[test]
fn damaged_shards_do_not_panic() {
    let world = World::new();
    let manifest = run(&BuildConfig { dupe_factor: 1, ..world.config.clone() }).unwrap().manifest;
    let bytes = std::fs::read(manifest.shard_path(&world.data(), 0)).unwrap();
    let path = world.folder.path().join("damaged.parquet");
    for place in (0..bytes.len()).step_by(5) {
        let mut damaged = bytes.clone();
        damaged[place] ^= 1 << (place % 8);
        std::fs::write(&path, &damaged).unwrap();
        if let Err(error) = read_shard(&path) {
            assert_eq!(error.exit_code(), 3, "{error}");
        }
        std::fs::write(&path, &bytes[..place]).unwrap();
        assert_eq!(read_shard(&path).unwrap_err().exit_code(), 3);
    }
}
