//! Files, folders, patterns, compression, line ends, encodings.

use std::io::Write;
use std::path::{Path, PathBuf};

use bert_data::{BuildConfig, DataReport, Error, dry_run};
use bert_text::{BlockReader, Format, InputReader, expand};

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
    let gzip = |text: &str| gzip(text.as_bytes());
    let zstd = |text: &str| zstd::encode_all(text.as_bytes(), 1).unwrap();
    let (bzip2, xz) = (|text: &str| bzip2(text.as_bytes()), |text: &str| xz(text.as_bytes()));
    let members = |pack: &dyn Fn(&str) -> Vec<u8>| [pack(&text[..half]), pack(&text[half..])].concat();
    for (name, bytes) in [
        ("plain", text.clone().into_bytes()),
        ("gz", members(&gzip)),
        ("zst", members(&zstd)),
        ("one.gz", gzip(&text)),
        ("bz2", members(&bzip2)),
        ("one.bz2", bzip2(&text)),
        ("xz", members(&xz)),
        ("one.xz", xz(&text)),
        // Padding between streams, as pixz and others write it.
        ("padded.xz", [xz(&text[..half]), vec![0; 8], xz(&text[half..])].concat()),
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
        let entry = InputReader::Lines(reader).entry().unwrap();
        assert_eq!((entry.lines, entry.bytes), (200_000, bytes.len() as u64), "{name}");
        assert_eq!(entry.blake3, bert_storage::digest_bytes(&bytes), "{name}");
    }
}

fn gzip(text: &[u8]) -> Vec<u8> {
    let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    encoder.write_all(text).unwrap();
    encoder.finish().unwrap()
}

/// Returns all text of a file, or the error with its detected format.
fn read_all(bytes: &[u8]) -> Result<Vec<u8>, Error> {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("text");
    std::fs::write(&path, bytes).unwrap();
    let (mut reader, mut text) = (InputReader::open(&path, 0, "text")?, Vec::new());
    while let Some(block) = reader.next_block()? {
        text.extend(block.bytes);
    }
    assert_eq!(
        reader.entry()?.blake3,
        bert_storage::digest_bytes(bytes),
        "all bytes are read, those ignored too"
    );
    Ok(text)
}

#[test]
fn multi_stream_compressed_files_are_read() {
    let skip = [&[0x5e, 0x2a, 0x4d, 0x18, 4, 0, 0, 0][..], b"abcd"].concat();
    let zstd = |text: &[u8]| zstd::encode_all(text, 1).unwrap();
    let lzma = |text: &[u8]| {
        let options = liblzma::stream::LzmaOptions::new_preset(1).unwrap();
        let stream = liblzma::stream::Stream::new_lzma_encoder(&options).unwrap();
        let mut encoder = liblzma::write::XzEncoder::new_stream(Vec::new(), stream);
        encoder.write_all(text).unwrap();
        encoder.finish().unwrap()
    };
    let (a, b) = (&b"the cat\n"[..], &b"sat\n"[..]);
    for (name, bytes) in [
        ("pzstd", [&skip[..], &zstd(a), &skip, &zstd(b)].concat()),
        ("a skippable frame behind", [&zstd(&[a, b].concat())[..], &skip].concat()),
        ("skippable frames between", [&zstd(a)[..], &skip, &skip, &zstd(b)].concat()),
        ("an empty frame", [&zstd(b"")[..], &zstd(a), &zstd(b)].concat()),
        ("zeros behind gzip", [&gzip(&[a, b].concat())[..], &[0; 200_000]].concat()),
        ("zeros between members", [&gzip(a)[..], &[0; 512], &gzip(b)].concat()),
        ("other bytes behind gzip", [&gzip(&[a, b].concat())[..], b"more"].concat()),
        ("an empty member", [&gzip(b"")[..], &gzip(a), &gzip(b), &gzip(b"")].concat()),
        ("other bytes behind bzip2", [&bzip2(a)[..], &bzip2(b), b"BZ"].concat()),
        ("streams of xz", [&xz(a)[..], &[0; 4], &xz(b""), &xz(b), &[0; 8]].concat()),
        ("lzma", lzma(&[a, b].concat())),
    ] {
        assert_eq!(read_all(&bytes).unwrap(), b"the cat\nsat\n", "{name}");
    }
}

#[test]
fn bytes_after_compressed_data_are_reported() {
    let bytes = [&gzip(b"the cat\nsat\n\nthe dog\nran\n")[..], b"more"].concat();
    let message = report(&[&bytes], |config| config).warnings.join("\n");
    assert!(message.contains("4 byte(s) of 0.txt follow the compressed data and were ignored"), "{message}");
}

/// Windows of up to 2 GiB are read, with no more memory than the size of the text.
#[test]
fn large_zstd_windows_are_read_or_reported() {
    let window = |log: u8| {
        let mut encoder = zstd::stream::Encoder::new(Vec::new(), 1).unwrap();
        encoder.write_all(b"the cat\nsat\n").unwrap();
        let mut bytes = encoder.finish().unwrap();
        // The window follows the descriptor of a frame whose size is unknown.
        bytes[5] = (log - 10) << 3;
        bytes
    };
    for log in [27, 28, 31] {
        assert_eq!(read_all(&window(log)).unwrap(), b"the cat\nsat\n", "2^{log}");
    }
    let message = read_all(&window(32)).unwrap_err().to_string();
    let parts =
        ["zstd data with a window of 4096 MiB", "limit is 2048 MiB", "zstd -d --long=31", "zstd --long=27"];
    assert!(parts.iter().all(|part| message.contains(part)), "{message}");
    let dictionary = [0x28, 0xb5, 0x2f, 0xfd, 0x01, 0x58, 0x07, 0x01, 0, 0];
    let message = read_all(&dictionary).unwrap_err().to_string();
    assert!(message.contains("compressed with a dictionary"), "{message}");
}

/// JSON in files of any name and layout gives the same rows.
#[test]
fn json_of_any_layout_is_read() {
    let row = |text: &str| format!("{{\"n\": NaN, \"text\": \"{text}\"}}");
    let (a, b) = (row("The cat sat. The dog ran."), row("Far away."));
    let message = |bytes: &[u8]| {
        let report = report(&[bytes], |config| BuildConfig { dupe_factor: 1, ..config });
        (report.documents, report.sentences, report.unknown_tokens)
    };
    for json in [
        format!("{a}\n{b}\n"),
        format!("\u{feff}{a}\n\u{feff}{b}\n"),
        format!("[{a},{b}]"),
        format!("[\n {a},\n {b}\n]\n").replace(", \"", ",\n \""),
        format!("{a}{b}"),
        format!("{a}\r\n\r\n{b}"),
    ] {
        assert_eq!(message(json.as_bytes()), (2, 3, 0), "{json}");
        assert_eq!(message(&gzip(json.as_bytes())), (2, 3, 0), "{json}");
    }
    let half = format!("{}\n{b}\n", a.replace("dog", "\\ud83d dog"));
    assert_eq!(message(half.as_bytes()), (2, 3, 0));
    let counted = report(&[half.as_bytes()], |config| config).warnings.join("\n");
    assert!(counted.contains("1 row(s) of 0.txt held half of a surrogate pair"), "{counted}");
    let strict = |config| BuildConfig { strict_utf8: true, ..config };
    let error = build_of(&[half.as_bytes()], strict).unwrap_err().to_string();
    assert!(error.contains("0.txt:1: half of a surrogate pair"), "{error}");
}

#[test]
fn files_without_a_token_are_named() {
    let good = &b"the cat\nsat\n\nthe dog\nran\n"[..];
    let empty = gzip(b"");
    let message =
        report(&[good, b"", b" \n\n", &empty, "\u{200b}\n".as_bytes()], |config| config).warnings.join("\n");
    assert!(message.contains("4 input file(s) gave no text, 1.txt the first"), "{message}");
    assert!(!report(&[good], |config| config).warnings.join("\n").contains("gave no text"));
}

#[test]
fn lone_carriage_returns_are_rejected_or_reported() {
    let mac = b"the cat\rsat\r\rthe dog\rran\r";
    let error = build_of(&[mac], |config| config).unwrap_err();
    assert!(error.to_string().contains("1 of 1 lines contain carriage returns (\\r)"), "{error}");
    assert_eq!(error.exit_code(), 3);
    let few = b"the cat\r\r\nsat\r\n\r\nthe\rdog\nran\n";
    let found = report(&[few], |config| config);
    assert_eq!((found.documents, found.sentences, found.tokens), (2, 4, 6));
    assert!(found.warnings.join("\n").contains("1 line(s) of 0.txt hold carriage returns"));
}

#[test]
fn markup_lines_are_reported() {
    let markup = b"<p>the cat</p>\n<p>sat</p>\n\nthe dog\nran\n";
    let message = report(&[markup], |config| config).warnings.join("\n");
    assert!(message.contains("50 % of the lines or rows of 0.txt have tags of markup"), "{message}");
}

fn bzip2(text: &[u8]) -> Vec<u8> {
    let mut encoder = bzip2::write::BzEncoder::new(Vec::new(), bzip2::Compression::fast());
    encoder.write_all(text).unwrap();
    encoder.finish().unwrap()
}

fn xz(text: &[u8]) -> Vec<u8> {
    let mut encoder = liblzma::write::XzEncoder::new(Vec::new(), 1);
    encoder.write_all(text).unwrap();
    encoder.finish().unwrap()
}

/// Builds from files with this content and returns the report.
fn report(contents: &[&[u8]], change: impl Fn(BuildConfig) -> BuildConfig) -> DataReport {
    build_of(contents, change).unwrap()
}

fn build_of(contents: &[&[u8]], change: impl Fn(BuildConfig) -> BuildConfig) -> Result<DataReport, Error> {
    let folder = tempfile::tempdir().unwrap();
    let mut inputs = Vec::new();
    for (index, content) in contents.iter().enumerate() {
        inputs.push(folder.path().join(format!("{index}.txt")));
        std::fs::write(&inputs[index], content).unwrap();
    }
    let vocab = small_vocabulary(folder.path());
    let inputs: Vec<&Path> = inputs.iter().map(PathBuf::as_path).collect();
    run(&change(config(&inputs, &vocab, &folder.path().join("data")))).map(|made| made.manifest.report)
}

#[test]
fn line_endings_and_byte_order_marks() {
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
fn file_end_ends_a_document_except_in_reference() {
    let files: &[&[u8]] = &[b"the cat\nsat\n", b"the dog\nran\n\nthe mat\n"];
    assert_eq!(report(files, |config| config).documents, 3);
    assert_eq!(report(files, reference).documents, 2);
    // The reference's reader deletes every carriage return; this one treats an inner one as a blank.
    let lone: &[&[u8]] = &[b"the\rcat\nsat\n\nthe dog\nran\n"];
    assert_eq!(report(lone, |config| config).tokens, 6);
    assert_eq!(report(lone, reference).tokens, 8, "thecat is the ##c ##a ##t");
}

#[test]
fn invalid_utf8_is_replaced_and_counted() {
    let bad = b"the \xff cat\nsat\n\nthe dog\nran \xc3\x28\nthe \0 cat\n";
    let text = [&bad[..], &b"the sun\n".repeat(55)].concat();
    let found = report(&[&text], |config| config);
    assert_eq!(found.invalid_utf8_lines, 3, "3 of 60 lines");
    let warned = report(&[b"the \xff cat\nsat\n\nthe dog\nran \xc3\x28\n"], lossy);
    assert_eq!(warned.invalid_utf8_lines, 2);
    assert_eq!(warned.tokens, 7, "of \\xc3( the parenthesis is left: {warned}");
    let found = warned;
    assert!(found.warnings.iter().any(|warning| warning.contains("2 line(s) were not UTF-8")));
}

fn lossy(config: BuildConfig) -> BuildConfig {
    BuildConfig { lossy_utf8: true, ..config }
}

/// One file of several blocks, with 6 % of the lines in Latin-1, is rejected at its end for any number of threads; it
/// is rejected earlier if more than half are, and a good file next to it is never rejected.
#[test]
fn text_in_another_encoding_is_rejected() {
    let latin = b"the caf\xe9 \xff is far away from the mat and the dog\n";
    let good = b"the cat sat on the mat. the dog ran far away from it\n";
    let line = |number: usize, share: usize| if number % 100 < share { &latin[..] } else { good };
    let text = |share| (0..20_000).map(|number| line(number, share)).collect::<Vec<_>>().concat();
    let good = text(0);
    for (share, rejected) in [(5, None), (6, Some((1200, 20_000))), (60, Some((60, 100)))] {
        for threads in [1, 2, 4] {
            let few = |config| BuildConfig { dupe_factor: 1, threads, ..config };
            let tried = |config| {
                let config = few(config);
                assert_eq!(dry_run(&config).is_err(), rejected.is_some(), "a dry run says the same");
                config
            };
            let built = build_of(&[&good, &text(share)], tried);
            match (built, rejected) {
                (Ok(report), None) => assert_eq!(report.invalid_utf8_lines, 1000),
                (Err(error), Some((of, all))) => {
                    assert!(
                        error.path().is_some_and(|path| path.ends_with("1.txt")) && error.line() == Some(1)
                    );
                    let words: Vec<&str> = error.text().split(' ').collect();
                    let number = |at: usize| words[at].parse::<u64>().unwrap();
                    let bad = number(0);
                    let lines = number(2);
                    assert_eq!(bad * all / lines, of, "{error}");
                    assert!(share < 50 || lines < 6000, "known after a block: {lines}");
                }
                (other, _) => panic!("{share} %, {threads} threads: {other:?}"),
            }
        }
    }
    let once = |config| lossy(BuildConfig { dupe_factor: 1, ..config });
    assert_eq!(report(&[&text(60)], once).invalid_utf8_lines, 12_000);
}

#[test]
fn known_formats_are_rejected_also_when_compressed() {
    let tar = [b"notes.txt".to_vec(), vec![0; 248], b"ustar\x0000".to_vec(), vec![0; 300]].concat();
    for (content, format) in [
        (tar.clone(), "a tar archive"),
        (gzip(&tar), "a tar archive"),
        (xz(b"%PDF-1.7\n"), "a PDF document"),
        (b"PK\x03\x04\x14\0".to_vec(), "a ZIP archive"),
        (b"\xff\xfet\0h\0e\0".to_vec(), "text in UTF-16"),
        (gzip(&gzip(b"the cat")), "data that was compressed twice"),
        (gzip(b"PAR1"), "Parquet inside compressed data"),
        (b"WARC/1.0\r\nWARC-Type: warcinfo\r\n".to_vec(), "a WARC or WET file"),
    ] {
        // Even `--lossy-utf8` does not accept these.
        let error = build_of(&[b"the cat\n\nthe dog\n", &content], lossy).unwrap_err();
        assert!(error.to_string().contains("this is"), "{error}");
        assert!(
            error.to_string().contains("1.txt: this is ") && error.to_string().contains(format),
            "{error}"
        );
        assert_eq!(error.exit_code(), 3);
    }
}

#[test]
fn running_text_is_split_into_sentences() {
    let text: &[&[u8]] =
        &[b"The cat sat. The dog ran far away! Is the sun hot?\n\nThe dog ran. The cat sat.\n"];
    let split = report(text, |config| BuildConfig { split_sentences: true, ..config });
    assert_eq!((split.documents, split.sentences), (2, 5));
    assert_eq!(report(text, |config| config).sentences, 2);
}
