//! Inputs and vocabularies that are rejected.

use std::path::{Path, PathBuf};

use bert_data::{BuildConfig, VocabConfig, Vocabulary, train_vocabulary};

use crate::builder::errors::{World, assert_says};
use crate::support::small_text;

#[test]
fn bad_inputs_are_named() {
    let world = World::new();
    let with = |input: Vec<PathBuf>| BuildConfig { input, ..world.config.clone() };
    let inside = |name: &str| world.folder.path().join(name);
    let text = world.config.input[0].clone();
    assert!(
        world
            .fails(&with(vec![]), 2, &["no input"])
            .to_string()
            .contains("no input: name at least one file, folder or")
    );
    let missing = world.fails(&with(vec![text.clone(), inside("missing.txt")]), 2, &["missing.txt"]);
    assert!(missing.to_string().contains("this input does not exist"));
    let nothing = world.fails(&with(vec![inside("*.nothing")]), 2, &["*.nothing"]);
    assert!(nothing.to_string().contains("this input pattern matches no file"));
    let pattern = world.fails(&with(vec![inside("a***")]), 2, &["a***"]);
    assert!(pattern.to_string().contains("this input pattern is not valid"));
    std::fs::create_dir(inside("empty")).unwrap();
    let empty = world.fails(&with(vec![inside("empty")]), 2, &["empty"]);
    assert!(empty.to_string().contains("this input folder has no files (names that"));
    let twice = world.fails(&with(vec![text.clone(), text]), 2, &["text.txt", "twice"]);
    assert!(twice.to_string().contains("this input is given twice, or a link points"));
    #[cfg(unix)]
    {
        let device = world.fails(&with(vec!["/dev/null".into()]), 2, &["/dev/null"]);
        assert!(device.to_string().contains("this input is neither a regular file nor a"));
    }
    for content in [&b""[..], b"\n\n  \n", b"\xe2\x80\x8b\n"] {
        let error =
            world.fails(&with(vec![world.file("blank.txt", content)]), 3, &["1 file(s)", "no tokens"]);
        assert!(error.to_string().contains("the input has no text:"));
    }
    let one = world.fails(&with(vec![world.file("one.txt", b"the cat sat\n")]), 3, &["1 sentence(s)"]);
    assert!(one.to_string().contains("sentence(s), and a random next sentence"));
}

#[test]
fn damaged_inputs_are_named() {
    let world = World::new();
    let with = |name: &str, content: &[u8]| BuildConfig {
        input: vec![world.file(name, content)],
        ..world.config.clone()
    };
    let mut zstd = zstd::encode_all(small_text(500).as_bytes(), 1).unwrap();
    zstd.truncate(zstd.len() - 9);
    let error = world.fails(&with("cut.zst", &zstd), 3, &["cut.zst", "zstd"]);
    assert!(error.to_string().contains("damaged"));
    let error = world.fails(
        &with("bad.gz", b"\x1f\x8b\x08\x00\x00\x00\x00\x00\x00\x03garbage!"),
        3,
        &["bad.gz", "gzip"],
    );
    assert!(error.to_string().contains("damaged"));
    let error = world.fails(&with("bad.bz2", b"BZh91AY&SYgarbage!"), 3, &["bad.bz2", "bzip2"]);
    assert!(error.to_string().contains("damaged"));
    let error = world.fails(&with("bad.xz", b"\xfd7zXZ\0\0\x04garbage!"), 3, &["bad.xz", "xz"]);
    assert!(error.to_string().contains("damaged"));
    let strict = |name: &str, content: &[u8]| BuildConfig { strict_utf8: true, ..with(name, content) };
    let error = world.fails(&strict("nul.txt", b"the cat\n\nthe c\0t\n"), 3, &["nul.txt:3", "a NUL byte"]);
    assert!(error.to_string().contains("a NUL byte (without `.strict_utf8` it would"));
    let error = world.fails(&strict("latin.txt", b"the cat\n\nthe caf\xe9\n"), 3, &["latin.txt:3"]);
    assert!(error.to_string().contains("invalid UTF-8 (without `.strict_utf8` it"));
    let long = [&b"the cat\n"[..], &vec![b'a'; 65 << 20]].concat();
    let error = world.fails(&with("long.txt", &long), 3, &["long.txt:2"]);
    assert!(error.to_string().contains("bytes; break it between sentences or"));
}

#[test]
fn bad_vocabularies_are_named() {
    let world = World::new();
    let vocabulary =
        |content: &[u8]| Vocabulary::from_bytes(content.to_vec(), Path::new("v.txt")).unwrap_err();
    assert_says(&vocabulary(b""), 3, &["v.txt", "empty"]);
    for missing in ["[UNK]", "[CLS]", "[SEP]", "[MASK]"] {
        let tokens = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "the"]
            .into_iter()
            .filter(|token| *token != missing);
        let content = tokens.collect::<Vec<_>>().join("\n");
        let config =
            BuildConfig { vocab: Some(world.file("v.txt", content.as_bytes())), ..world.config.clone() };
        let error = world.fails(&config, 3, &["v.txt", missing, "5 tokens"]);
        assert!(error.to_string().contains("the vocabulary ("));
    }
    assert_says(&vocabulary(b"[PAD]\nthe\n[UNK]\nthe\n"), 3, &["v.txt:4", "\"the\"", "line 2"]);
    assert_says(&vocabulary(b"[PAD]\n\xff\n"), 3, &["v.txt:2", "UTF-8"]);
    let missing = BuildConfig { vocab: Some("no-such-vocab".into()), ..world.config.clone() };
    assert!(world.fails(&missing, 1, &["no-such-vocab"]).io_kind().is_some());
    let small = VocabConfig { vocab_size: 10, ..VocabConfig::default() };
    assert_says(
        &train_vocabulary(&world.config.input, &small, &mut |_, _| {}).unwrap_err(),
        2,
        &["`.vocab_size`"],
    );
    let blank = [world.file("blank.txt", b"\n")];
    assert_says(&train_vocabulary(&blank, &small, &mut |_, _| {}).unwrap_err(), 3, &["no tokens"]);
    let latin = [world.file("latin.txt", b"caf\xe9\n")];
    let strict = VocabConfig { strict_utf8: true, ..VocabConfig::default() };
    assert_says(&train_vocabulary(&latin, &strict, &mut |_, _| {}).unwrap_err(), 3, &["latin.txt:1"]);
}
