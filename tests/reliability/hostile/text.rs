//! Plain and compressed text: encodings, corruption, decompression bombs, endless lines.

use std::fs;
use std::io::Write;

use super::{BUILD, check};
use crate::common::Folder;

fn gzip(bytes: &[u8]) -> Vec<u8> {
    let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::default());
    encoder.write_all(bytes).expect("in memory");
    encoder.finish().expect("in memory")
}

fn bzip2(bytes: &[u8]) -> Vec<u8> {
    let mut encoder = bzip2::write::BzEncoder::new(Vec::new(), bzip2::Compression::best());
    encoder.write_all(bytes).expect("in memory");
    encoder.finish().expect("in memory")
}

fn xz(bytes: &[u8]) -> Vec<u8> {
    let mut encoder = liblzma::write::XzEncoder::new(Vec::new(), 1);
    encoder.write_all(bytes).expect("in memory");
    encoder.finish().expect("in memory")
}

/// Returns xz data whose header requests a dictionary of 4 GB.
fn xz_with_large_dictionary() -> Vec<u8> {
    let mut bytes = xz(b"A line.\n");
    // After the stream header: size, flags, filter, size of its properties, dictionary; then padding and checksum.
    assert_eq!(bytes[12..16], [2, 0, 0x21, 1], "the header of the block");
    bytes[16] = 40;
    let mut sum = flate2::Crc::new();
    sum.update(&bytes[12..20]);
    bytes[20..24].copy_from_slice(&sum.sum().to_le_bytes());
    bytes
}

/// Writes data that is much larger when decompressed: `megabytes` of one repeated line.
fn bomb(mut out: impl Write, megabytes: usize) {
    let block = b"so it goes on \n".repeat(1 << 16);
    let count = (megabytes << 20) / block.len();
    (0..count).for_each(|_| out.write_all(&block).expect("in memory"));
}

/// Returns a folder with plain text that is empty, too long or not UTF-8.
fn with_damaged_text() -> Folder {
    let folder = Folder::with_data();
    folder.write("latin1.txt", b"A line.\nCaf\xe9.\n\nOne more.\n");
    folder.write("utf16.txt", b"\xff\xfeA\0 \0l\0\n\0");
    folder.write("latin.txt", b"Caf\xe9.\nNa\xefve.\n\nOne more.\n");
    folder.write("nul.txt", "A line.\n\nOne\0 more.\n");
    folder.write("spaces.txt", "\u{feff} \r\n\t\r\n\u{2028}\n\u{200b}\n");
    folder.write("empty.txt", "");
    fs::File::create(folder.at("gigabyte.txt")).expect("a file").set_len(1 << 30).expect("a sparse file");
    folder
}

#[test]
fn damaged_plain_text_is_rejected() {
    let folder = with_damaged_text();
    let rows = "
        2 | none.txt | none.txt: this input does not exist
        2 | 'a[b' | a[b: this input pattern is not valid...
        3 | empty.txt | the input has no text: 1 file(s), 0 line(s), no tokens
        3 | spaces.txt | the input has no text: 1 file(s), 4 line(s), no tokens
        3 | latin1.txt --strict-utf8 | latin1.txt:2: invalid UTF-8 (without --strict-utf8 it would be replaced and counted)
        3 | utf16.txt | utf16.txt: this is text in UTF-16: convert it to UTF-8 (iconv -f UTF-16 -t UTF-8)
        3 | latin.txt | latin.txt:1: 2 of 3 lines are not UTF-8, the first one here: convert the file to UTF-8 (iconv), leave it out, or replace the invalid bytes with --lossy-utf8
        3 | nul.txt | nul.txt:3: 1 of 2 lines are not UTF-8, the first one here: ...
        3 | nul.txt --strict-utf8 | nul.txt:3: a NUL byte (without --strict-utf8 it would be dropped and counted)
        3 | gigabyte.txt | gigabyte.txt:1: this line is longer than 67108864 bytes; break it between...
        ";
    check(&folder, &format!("{BUILD} --vocab vocab.txt --output out --input"), rows);
}

/// Returns a folder with compressed text that is truncated, corrupt or expands too far.
fn with_damaged_compressed_text() -> Folder {
    let folder = Folder::with_data();
    let good = folder.read("train.txt");
    folder.write("cut.gz", &gzip(&good)[..200]);
    folder.write("flipped.gz", {
        let mut bytes = gzip(&good);
        let end = bytes.len() - 6;
        bytes[end] ^= 4;
        bytes
    });
    folder.write("cut.zst", &zstd::encode_all(&good[..], 3).expect("zstd")[..100]);
    folder.write("fake.zst", b"\x28\xb5\x2f\xfd\xff\xff\xff\xff\xff");
    // A frame that requests a window of 4 GB.
    folder.write("window.zst", b"\x28\xb5\x2f\xfd\x00\xb0\x01\x00\x00");
    let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::best());
    bomb(&mut encoder, 80);
    folder.write("bomb.gz", encoder.finish().expect("in memory"));
    let mut encoder = zstd::Encoder::new(Vec::new(), 3).expect("zstd");
    bomb(&mut encoder, 80);
    folder.write("bomb.zst", encoder.finish().expect("in memory"));
    folder.write("cut.bz2", &bzip2(&good)[..200]);
    folder.write("fake.bz2", b"BZh91AY&SY\xff\xff\xff\xff\xff\xff\xff\xff");
    folder.write("cut.xz", &xz(&good)[..100]);
    folder.write("trailing.xz", [xz(&good), b"more".to_vec()].concat());
    folder.write("window.xz", xz_with_large_dictionary());
    let mut encoder = bzip2::write::BzEncoder::new(Vec::new(), bzip2::Compression::best());
    bomb(&mut encoder, 80);
    folder.write("bomb.bz2", encoder.finish().expect("in memory"));
    let mut encoder = liblzma::write::XzEncoder::new(Vec::new(), 1);
    bomb(&mut encoder, 80);
    folder.write("bomb.xz", encoder.finish().expect("in memory"));
    let mut encoder = zstd::Encoder::new(Vec::new(), 1).expect("zstd");
    // A compressed line of 1 GB: the limit applies to the line, not to the file.
    (0..66).for_each(|_| encoder.write_all(&[b'x'; 1 << 20]).expect("in memory"));
    folder.write("line.zst", encoder.finish().expect("in memory"));
    folder
}

#[test]
fn damaged_compressed_text_is_rejected() {
    let folder = with_damaged_compressed_text();
    let rows = "
        3 | cut.gz | cut.gz: damaged gzip data: ...
        3 | flipped.gz | flipped.gz: damaged gzip data: corrupt gzip stream does not have a matching checksum
        3 | cut.zst | cut.zst: damaged zstd data: ...
        3 | fake.zst | fake.zst: damaged zstd data: ...
        3 | window.zst | window.zst: this is zstd data with a window of 4096 MiB, which needs as much memory ...
        3 | cut.bz2 | cut.bz2: damaged bzip2 data: ...
        3 | fake.bz2 | fake.bz2: damaged bzip2 data: ...
        3 | cut.xz | cut.xz: damaged xz data: ...
        3 | trailing.xz | trailing.xz: damaged xz data: ...
        3 | window.xz | window.xz: this is xz data with a window of 4096 MiB, which needs as much memory ...
        3 | bomb.bz2 | bomb.bz2: ... bytes of bzip2 expand to ... bytes or more, which text does ...
        3 | bomb.xz | bomb.xz: ... bytes of xz expand to ... bytes or more, which text does ...
        3 | bomb.gz | bomb.gz: ... bytes of gzip expand to ... bytes or more, which text does not do; if this is intended, give the file uncompressed
        3 | bomb.zst | bomb.zst: ... bytes of zstd expand to ... bytes or more, which text does not do; if this is intended, give the file uncompressed
        3 | line.zst | line.zst:1: this line is longer than 67108864 bytes; break it between...
        ";
    check(&folder, &format!("{BUILD} --vocab vocab.txt --output out --input"), rows);
}

/// Checks that a program is rejected before its second block, with and without its magic number.
fn check_programs_are_rejected(folder: &Folder) {
    let program = std::fs::read(env!("CARGO_BIN_EXE_bert")).expect("a program");
    folder.write("bert.bin", &program[..8 << 20]);
    folder.write("part.bin", &program[1 << 20..9 << 20]);
    let rows = "
        3 | bert.bin | bert.bin: this is a program: it holds no text
        3 | part.bin | part.bin:1: ... lines are not UTF-8, ...
        ";
    check(folder, &format!("{BUILD} --vocab vocab.txt --output out --input"), rows);
    check(folder, "bert make-vocab --output words.txt --input", rows);
}

/// Checks that non-text files are recognized by their first bytes, plain or compressed, by the builder and by
/// `make-vocab`.
#[test]
fn known_binary_formats_are_rejected() {
    let folder = Folder::with_data();
    let tar = [b"notes.txt".to_vec(), vec![0; 248], b"ustar\x0000".to_vec(), vec![b'a'; 2000]].concat();
    let files: [(&str, Vec<u8>); 6] = [
        ("notes.tar", tar.clone()),
        ("notes.tar.gz", gzip(&tar)),
        ("paper.pdf.xz", xz(b"%PDF-1.7\nand so on\n")),
        ("book.epub", b"PK\x03\x04\x14\0\0\0and so on".to_vec()),
        ("data.arrow", b"\xff\xff\xff\xff\x10\0\0\0and so on".to_vec()),
        ("photo.png", b"\x89PNG\r\n\x1a\nand so on".to_vec()),
    ];
    let message = [
        "a tar archive: unpack it first",
        "a tar archive: unpack it first",
        "a PDF document: extract its text first",
        "a ZIP archive (.zip, .docx, .xlsx, .epub, .npz, .pt): unpack it first",
        "an Arrow stream: convert it to Parquet or JSON Lines",
        "a PNG image: it holds no text",
    ];
    files.iter().for_each(|(name, bytes)| folder.write(name, bytes));
    let rows = files
        .iter()
        .zip(message)
        .map(|((name, _), message)| format!("3 | {name} | {name}: this is {message}"));
    let rows = rows.collect::<Vec<_>>().join("\n");
    for line in [
        format!("{BUILD} --vocab vocab.txt --output out --input"),
        format!("{BUILD} --vocab vocab.txt --dry-run --lossy-utf8 --input"),
        "bert make-vocab --output words.txt --input".to_owned(),
    ] {
        check(&folder, &line, &rows);
    }
    check_programs_are_rejected(&folder);
}

/// Checks that a million empty documents take bounded memory and count as none, and that text among them is found.
#[test]
fn million_empty_documents_are_read() {
    let folder = Folder::with_data();
    folder.write(
        "million.txt",
        [b"\n".repeat(1_000_000), folder.read("train.txt"), b"\n \n".repeat(500_000)].concat(),
    );
    folder.ok(&format!("{BUILD} --vocab vocab.txt --input million.txt --num-shards 3 --output out"));
    for shard in 0..3 {
        let name = format!("train-{shard:05}-of-00003.parquet");
        assert!(folder.read(&format!("out/{name}")) == folder.read(&format!("data/{name}")), "{name}");
    }
}
