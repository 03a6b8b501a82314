//! Plain and compressed text: encodings, damage, bombs, endless lines.

use std::fs;
use std::io::Write;

use super::{BUILD, check};
use crate::common::Folder;

fn gzip(bytes: &[u8]) -> Vec<u8> {
    let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::default());
    encoder.write_all(bytes).expect("in memory");
    encoder.finish().expect("in memory")
}

/// Something much larger when decompressed: `megabytes` of a line again and again.
fn bomb(mut out: impl Write, megabytes: usize) {
    let block = b"so it goes on \n".repeat(1 << 16);
    let count = (megabytes << 20) / block.len();
    (0..count).for_each(|_| out.write_all(&block).expect("in memory"));
}

#[test]
fn plain_and_compressed() {
    let folder = Folder::with_data();
    let good = folder.read("train.txt");
    folder.write("latin1.txt", b"A line.\nCaf\xe9.\n\nOne more.\n");
    folder.write("utf16.txt", b"\xff\xfeA\0 \0l\0\n\0");
    folder.write("spaces.txt", "\u{feff} \r\n\t\r\n\u{2028}\n\0\0\n");
    folder.write("empty.txt", "");
    folder.write("cut.gz", &gzip(&good)[..200]);
    folder.write("flipped.gz", {
        let mut bytes = gzip(&good);
        let end = bytes.len() - 6;
        bytes[end] ^= 4;
        bytes
    });
    folder.write("trailing.gz", [gzip(&good), b"more".to_vec()].concat());
    folder.write("cut.zst", &zstd::encode_all(&good[..], 3).expect("zstd")[..100]);
    folder.write("fake.zst", b"\x28\xb5\x2f\xfd\xff\xff\xff\xff\xff");
    // A frame that asks for a window of a gigabyte.
    folder.write("window.zst", b"\x28\xb5\x2f\xfd\x00\xa0\x01\x00\x00");
    let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::best());
    bomb(&mut encoder, 80);
    folder.write("bomb.gz", encoder.finish().expect("in memory"));
    let mut encoder = zstd::Encoder::new(Vec::new(), 3).expect("zstd");
    bomb(&mut encoder, 80);
    folder.write("bomb.zst", encoder.finish().expect("in memory"));
    let mut encoder = zstd::Encoder::new(Vec::new(), 1).expect("zstd");
    // A line of a gigabyte, compressed: that the limit is on the line and not on the file.
    (0..66).for_each(|_| encoder.write_all(&[b'x'; 1 << 20]).expect("in memory"));
    folder.write("line.zst", encoder.finish().expect("in memory"));
    fs::File::create(folder.at("gigabyte.txt")).expect("a file").set_len(1 << 30).expect("a sparse file");
    let checked = check(
        &folder,
        &format!("{BUILD} --vocab vocab.txt --output out --input"),
        &[
            ("none.txt", 2, "input none.txt does not exist"),
            ("'a[b'", 2, "input pattern \"a[b\" is not valid..."),
            ("empty.txt", 3, "the input holds no text: 1 file(s), 0 line(s), not one token"),
            ("spaces.txt", 3, "the input holds no text: 1 file(s), 4 line(s), not one token"),
            (
                "latin1.txt --strict-utf8",
                3,
                "latin1.txt:2: invalid UTF-8 (without --strict-utf8 it would be replaced and counted)",
            ),
            ("utf16.txt --strict-utf8", 3, "utf16.txt:1: invalid UTF-8 (without..."),
            ("cut.gz", 3, "cut.gz is damaged gzip data: ..."),
            (
                "flipped.gz",
                3,
                "flipped.gz is damaged gzip data: corrupt gzip stream does not have a matching checksum",
            ),
            ("trailing.gz", 3, "trailing.gz is damaged gzip data: ..."),
            ("cut.zst", 3, "cut.zst is damaged zstd data: ..."),
            ("fake.zst", 3, "fake.zst is damaged zstd data: ..."),
            ("window.zst", 3, "window.zst is damaged zstd data: ..."),
            (
                "bomb.gz",
                3,
                "bomb.gz: ... bytes of gzip have become ... bytes of text and more: no text is so repetitive. If it is meant, give it as plain text",
            ),
            (
                "bomb.zst",
                3,
                "bomb.zst: ... bytes of zstd have become ... bytes of text and more: no text is so repetitive. If it is meant, give it as plain text",
            ),
            ("line.zst", 3, "line.zst:1: the line is longer than 67108864 bytes"),
            ("gigabyte.txt", 3, "gigabyte.txt:1: the line is longer than 67108864 bytes"),
        ],
    );
    assert_eq!(checked, 16);
}

/// A million empty documents are no documents, in bounded memory; text among them is found.
#[test]
fn a_million_empty_documents() {
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
