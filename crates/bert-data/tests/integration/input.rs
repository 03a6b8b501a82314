//! Files, folders, patterns, compression, line ends, encodings.

use std::io::Write;
use std::path::{Path, PathBuf};

use bert_data::input::{BlockReader, Format, expand};
use bert_data::{BuildConfig, DataReport};

use crate::support::{config, reference, run, small_vocabulary};

fn names(files: &[PathBuf], folder: &Path) -> Vec<String> {
    files.iter().map(|file| file.strip_prefix(folder).unwrap().to_str().unwrap().to_owned()).collect()
}

#[test]
fn inputs_are_sorted_bytewise() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path();
    std::fs::create_dir(path.join("sub")).unwrap();
    for name in ["b.txt", "a.txt", "10.txt", "9.txt", "Z.txt", ".hidden", "sub/c.txt", "[x].txt"] {
        std::fs::write(path.join(name), "the cat\n").unwrap();
    }
    let all = expand(&[path.to_owned()]).unwrap();
    assert_eq!(names(&all, path), ["10.txt", "9.txt", "Z.txt", "[x].txt", "a.txt", "b.txt", "sub/c.txt"]);
    let some = expand(&[path.join("[ab]*.txt"), path.join("9.txt"), path.join("[x].txt")]).unwrap();
    assert_eq!(names(&some, path), ["a.txt", "b.txt", "9.txt", "[x].txt"], "an existing name is no pattern");
}

#[test]
fn compressed_files_are_read_whole() {
    let folder = tempfile::tempdir().unwrap();
    let text: String = (0..200_000).map(|line| format!("line {line} of a long text\n")).collect();
    let half = text.len() / 2;
    let gzip = |text: &str| {
        let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
        encoder.write_all(text.as_bytes()).unwrap();
        encoder.finish().unwrap()
    };
    let zstd = |text: &str| zstd::encode_all(text.as_bytes(), 1).unwrap();
    let members = |pack: &dyn Fn(&str) -> Vec<u8>| [pack(&text[..half]), pack(&text[half..])].concat();
    for (name, bytes) in [
        ("plain", text.clone().into_bytes()),
        ("gz", members(&gzip)),
        ("zst", members(&zstd)),
        ("one.gz", gzip(&text)),
    ] {
        let path = folder.path().join(name);
        std::fs::write(&path, &bytes).unwrap();
        let mut reader = BlockReader::open(&path, 0, Format::Text).unwrap();
        let (mut joined, mut next_line) = (Vec::new(), 1);
        while let Some(block) = reader.next_block().unwrap() {
            assert_eq!(block.first_line, next_line);
            next_line += block.lines().count() as u64;
            assert!(block.ends_file || block.bytes.ends_with(b"\n"));
            assert!(block.bytes.len() < 400_000, "blocks are bounded");
            joined.extend(block.bytes);
        }
        assert!(joined == text.as_bytes(), "{name}");
        let entry = reader.entry();
        assert_eq!((entry.lines, entry.bytes), (200_000, bytes.len() as u64), "{name}");
        assert_eq!(entry.blake3, bert_data::files::digest_bytes(&bytes), "{name}");
    }
}

/// Builds from files with this content and returns the report.
fn report(contents: &[&[u8]], change: impl Fn(BuildConfig) -> BuildConfig) -> DataReport {
    let folder = tempfile::tempdir().unwrap();
    let mut inputs = Vec::new();
    for (index, content) in contents.iter().enumerate() {
        inputs.push(folder.path().join(format!("{index}.txt")));
        std::fs::write(&inputs[index], content).unwrap();
    }
    let vocab = small_vocabulary(folder.path());
    let inputs: Vec<&Path> = inputs.iter().map(PathBuf::as_path).collect();
    run(&change(config(&inputs, &vocab, &folder.path().join("data")))).unwrap().manifest.report
}

#[test]
fn line_ends_and_marks() {
    let same = |config| config;
    let plain = report(&[b"the cat\nsat\n\nthe dog\nran\n"], same);
    assert_eq!((plain.documents, plain.sentences, plain.tokens), (2, 4, 6));
    for content in [
        &b"\xef\xbb\xbfthe cat\r\nsat\r\n\r\nthe dog\r\nran"[..],
        b"  the cat\t\nsat\n \x1c\x1d \n\n\nthe dog\n\xe2\x80\x8b\nran\n\n\n",
    ] {
        let found = report(&[content], same);
        assert_eq!(found.instances, plain.instances);
        assert_eq!((found.documents, found.sentences, found.tokens), (2, 4, 6), "{content:?}");
        assert_eq!(found.unknown_tokens, 0);
    }
    let empty = report(&[b"the cat\nsat\n\n\xe2\x80\x8b\n\nthe dog\nran\n"], same);
    assert_eq!((empty.documents, empty.empty_documents), (2, 1), "a document without a token is left out");
}

#[test]
fn a_files_end_ends_a_document_but_not_in_the_reference() {
    let files: &[&[u8]] = &[b"the cat\nsat\n", b"the dog\nran\n\nthe mat\n"];
    assert_eq!(report(files, |config| config).documents, 3);
    assert_eq!(report(files, reference).documents, 2);
    // The reference's reader deletes every carriage return; ours takes an inner one as a blank.
    let lone: &[&[u8]] = &[b"the\rcat\nsat\n\nthe dog\nran\n"];
    assert_eq!(report(lone, |config| config).tokens, 6);
    assert_eq!(report(lone, reference).tokens, 8, "thecat is the ##c ##a ##t");
}

#[test]
fn invalid_utf8_is_replaced_and_counted() {
    let found = report(&[b"the \xff cat\nsat\n\nthe dog\nran \xc3\x28\n"], |config| config);
    assert_eq!(found.invalid_utf8_lines, 2);
    assert!(found.warnings.iter().any(|warning| warning.contains("2 line(s) were not UTF-8")));
}

#[test]
fn running_text_is_split_into_sentences() {
    let text: &[&[u8]] =
        &[b"The cat sat. The dog ran far away! Is the sun hot?\n\nThe dog ran. The cat sat.\n"];
    let split = report(text, |config| BuildConfig { split_sentences: true, ..config });
    assert_eq!((split.documents, split.sentences), (2, 5));
    assert_eq!(report(text, |config| config).sentences, 2);
}
