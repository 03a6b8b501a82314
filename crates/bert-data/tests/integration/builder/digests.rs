//! Shards have the same bytes as when these digests were recorded (commit 5086a6c), in every mode.
//!
//! Origin of the digests: `make-pretrain-data --input corpora/almanac/train --vocab tests/golden/vocab-uncased.txt
//! --max-seq-length 64` with the flags that each case names. A digest also changes with the version of the Parquet
//! writer or of zstd; if rows change, raise `STREAMS_VERSION`.

use std::path::Path;

use bert_data::{BuildConfig, Columns, Layout, Masking, Nsp, RandomMode, build};

fn digests(change: impl FnOnce(BuildConfig) -> BuildConfig) -> Vec<String> {
    let folder = tempfile::tempdir().unwrap();
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    let config = BuildConfig::new(
        [here.join("../../corpora/almanac/train")],
        here.join("tests/golden/vocab-uncased.txt"),
        folder.path().join("data"),
    );
    let built = build(&change(config.with_max_seq_length(64)), &mut |_| {}).unwrap();
    built.manifest.shards.into_iter().map(|shard| shard.blake3).collect()
}

/// `--dupe-factor 3 --num-shards 2`
#[test]
fn instances_of_independent_streams() {
    let found = digests(|config| config.with_dupe_factor(3).with_num_shards(2));
    assert_eq!(
        found,
        [
            "8e60df48bd0220d5df0599d26ae0d70ef93cc027bddee9daae30440654e64231",
            "3b30c198a0e5f8d8ca8ff96ba208cd0591495d5e621815b1d4abad54737ce288"
        ]
    );
}

/// `--layout documents`
#[test]
fn documents() {
    let found = digests(|config| config.with_layout(Layout::Documents));
    assert_eq!(found, ["d9941c2648564aa715223e6f3c4b0ef5c798c39158f7c8732965b6251adc6411"]);
}

/// `--random reference --dupe-factor 3`
#[test]
fn instances_of_the_reference() {
    let found = digests(|config| config.with_random(RandomMode::Reference).with_dupe_factor(3));
    assert_eq!(found, ["1a7f269db0992fa50fcb616e8d4fc2d093f6b0fc0be5b383a9d1ef4ddf489053"]);
}

/// `--do-whole-word-mask true --dupe-factor 2 --columns hf`
#[test]
fn whole_words_in_the_columns_of_transformers() {
    let found =
        digests(|config| config.with_do_whole_word_mask(true).with_dupe_factor(2).with_columns(Columns::Hf));
    assert_eq!(found, ["5fe239e0a739e25aa6bed0ea1f02275f1b08441dad26f4b4c1239e80fb78fc17"]);
}

/// `--max-ngram 3 --nsp sop --masking dynamic --dupe-factor 2`
#[test]
fn spans_and_swapped_segments_without_masks() {
    let found = digests(|config| {
        config.with_max_ngram(3).with_nsp(Nsp::Sop).with_masking(Masking::Dynamic).with_dupe_factor(2)
    });
    assert_eq!(found, ["ce90a4ebef2a888dd6f28f082ca88463002878252a47ac3c21d306c4c2c11670"]);
}
