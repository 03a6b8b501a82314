//! Invalid data folders, for every program that opens them.

use bert_data::FORMAT_VERSION;

use super::check;
use crate::common::{Folder, QUICK, articles};

/// Adds copies of the data with a damaged manifest, and data with another vocabulary.
fn add_damaged_manifests(folder: &Folder) {
    let manifest = folder.text("data/manifest.json");
    let changed = |name: &str, manifest: String| {
        folder.copy("data", name);
        folder.write(&format!("{name}/manifest.json"), manifest);
    };
    changed("cut", manifest[..manifest.len() / 2].to_string());
    changed("outside", manifest.replace("train-00000-of-00003.parquet", "../train-00000-of-00003.parquet"));
    changed(
        "future",
        manifest.replace(&format!("\"format_version\": {FORMAT_VERSION}"), "\"format_version\": 99"),
    );
    // Each of three shards has as many rows as the first one has, plus one.
    let rows = folder.json("data/manifest.json")[0]["shards"][0]["rows"].to_string();
    changed("counts", manifest.replacen(&format!("\"rows\": {rows}"), "\"rows\": 1", 1));
    folder.write("other.txt", articles(12, 4));
    folder.ok("bert make-vocab --input other.txt --vocab-size 300 --output other-vocab.txt");
    folder.ok(
        "make-pretrain-data --input other.txt --vocab other-vocab.txt --max-seq-length 32 --output other",
    );
}

#[test]
fn data_folders() {
    let folder = Folder::with_run();
    std::fs::create_dir(folder.at("hollow")).expect("a folder");
    add_damaged_manifests(&folder);
    let broken = format!(
        r#"
        3 | none | none: this folder does not exist
        3 | train.txt | train.txt: this is a file, but a data set is a folder with a manifest.json
        3 | hollow | hollow: this folder has no manifest.json: the data set is not complete
        3 | cut | cut/manifest.json: not a valid manifest
        3 | outside | "../train-00000-of-00003.parquet", which is not a plain file name
        3 | future | format version 99, but this program reads version {FORMAT_VERSION}
        3 | counts | the sum of the shards' rows is
        "#
    );
    for common in [
        "bert verify",
        "bert inspect",
        "bert evaluate --checkpoint run --data",
        "pretrain --model config.json --steps 2 --output out --data",
        "pretrain --model config.json --steps 2 --output out --data data --eval-data",
    ] {
        check(&folder, common, &broken);
    }
    check(
        &folder,
        "",
        &format!(
            "
        4 | pretrain {QUICK} --steps 2 --eval-data other --output out | another vocabulary
        4 | bert evaluate --checkpoint run --data other | another vocabulary
        4 | pretrain --data other --init-checkpoint run --steps 2 --output out | another vocabulary
        2 | bert inspect data --index 1000000 | 1000000
        "
        ),
    );
}

#[test]
fn damaged_shards_are_found() {
    let folder = Folder::with_run();
    folder.copy("data", "bad");
    for shard in 0..3 {
        folder.flip(&format!("bad/train-{shard:05}-of-00003.parquet"));
    }
    let verified = folder.run("bert verify bad");
    assert_eq!(verified.code, Some(3));
    assert_eq!(verified.stdout.matches("bad   ").count(), 3, "every file is looked at: {}", verified.stdout);
    assert_eq!(verified.stdout.matches("good  vocab.txt").count(), 1);
    let lines = [
        "pretrain --data bad --initialization reference --model config.json --steps 2 --output out",
        // Another seed than `run`, whose initial weights are in the cache if they took a second.
        "pretrain --data bad --initialization bigram --seed 2 --model config.json --steps 2 --output counted",
        "pretrain --data data --eval-data bad --allow-overlap --model config.json --steps 2 --output out2",
        "bert evaluate --checkpoint run --data bad",
    ];
    for line in lines {
        let ended = folder.run(line);
        assert_eq!(ended.code, Some(3), "{line}: {}", ended.stderr);
        ended.stderr_has("BLAKE3");
        ended.stderr_has("bad/train-0000");
    }
    // After the repair, the run resumes at the same step.
    for shard in 0..3 {
        folder.flip(&format!("bad/train-{shard:05}-of-00003.parquet"));
    }
    folder.ok("bert verify bad");
    folder.ok(&format!("{} --resume", lines[0]));
    // A failure before the weights exist leaves no run.
    folder.ok(lines[1]);
}

/// With the feature `object-stores` URLs work; `bert-cluster` has the tests.
#[cfg(not(feature = "object-stores"))]
#[test]
fn urls_need_a_feature() {
    let folder = Folder::with_data();
    check(
        &folder,
        "",
        "
        1 | make-pretrain-data --input s3://bucket/text --vocab vocab.txt --output out | built without the feature `object-stores`
        1 | bert inspect gs://bucket/data | built without the feature `object-stores`
        1 | bert verify az://bucket/data | built without the feature `object-stores`
        1 | pretrain --data https://host.example/data --model tiny --steps 2 --output out | built without the feature `object-stores`
        ",
    );
}
