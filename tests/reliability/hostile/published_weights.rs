//! Weights in published forms: PyTorch files that name foreign classes or forge sizes, damaged TensorFlow checkpoints,
//! and indices of several files.

use std::io::{Cursor, Write as _};
use std::path::Path;

use serde_json::json;
use zip::CompressionMethod;
use zip::write::{SimpleFileOptions, ZipWriter};

use super::check;
use crate::common::Folder;

const AGAIN: &str = "; copy or download it again";
const COMMON: &str = "bert features --input new.txt --checkpoint";

/// Returns the bytes of a file in `tests/golden/import`.
fn golden(name: &str) -> Vec<u8> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden/import").join(name);
    std::fs::read(path).expect("a golden file")
}

/// Returns a folder with a text and copies of the configuration and vocabulary of the golden files.
fn folder_with(cases: &[(&str, &str, Vec<u8>)]) -> Folder {
    let folder = Folder::new();
    folder.write("new.txt", "the river\n");
    for (name, file, bytes) in cases {
        folder.write(&format!("{name}/config.json"), golden("pytorch/config.json"));
        folder.write(&format!("{name}/vocab.txt"), golden("google/vocab.txt"));
        folder.write(&format!("{name}/{file}"), bytes);
    }
    folder
}

/// Returns a zip archive as `torch.save` writes it, with a pickle and one storage of four bytes.
fn torch_zip(pickle: &[u8], method: CompressionMethod) -> Vec<u8> {
    let mut zip = ZipWriter::new(Cursor::new(Vec::new()));
    let options = SimpleFileOptions::default().compression_method(method);
    for (name, bytes) in [("data.pkl", pickle), ("data/0", &[0; 4])] {
        zip.start_file(format!("archive/{name}"), options).expect("an entry");
        zip.write_all(bytes).expect("written");
    }
    zip.finish().expect("an archive").into_inner()
}

/// Returns the pickle of `{"a": tensor}` with a storage of `count` floats and a shape and strides in opcodes.
fn tensor_pickle(count: u32, shape: &[u8], strides: &[u8]) -> Vec<u8> {
    [b"\x80\x02}", &entry("a", "0", count, [shape, strides])[..], b"."].concat()
}

/// Returns the opcodes that add a tensor to a dictionary: its name, the key of its storage, the number of floats in
/// the storage, and shape and strides.
fn entry(name: &str, key: &str, count: u32, shape_and_strides: [&[u8]; 2]) -> Vec<u8> {
    let text = |text: &str| [b"X", &(text.len() as u32).to_le_bytes()[..], text.as_bytes()].concat();
    let count = [b"J", &count.to_le_bytes()[..]].concat();
    let storage =
        [b"(", &text("storage")[..], b"ctorch\nFloatStorage\n", &text(key), &text("cpu"), &count, b"tQ"]
            .concat();
    let [shape, strides] = shape_and_strides;
    let args = [b"(", &storage[..], b"K\0", shape, strides, b"\x89Nt"].concat();
    let tensor = [b"ctorch._utils\n_rebuild_tensor_v2\n", &args[..], b"R"].concat();
    [&text(name)[..], &tensor, b"s"].concat()
}

fn pickles() -> Vec<(&'static str, &'static str, Vec<u8>)> {
    let stored = |pickle: &[u8]| torch_zip(pickle, CompressionMethod::Stored);
    let mib = b"J\0\0\x10\0";
    let numbers = b"K\x01\x85";
    let square = [b"(", &mib[..], mib, b"t"].concat();
    let long_shape = [b"(", &b"K\x01".repeat(500_000)[..], b"t"].concat();
    let full = golden("pytorch/pytorch_model.bin");
    let legacy = golden("pytorch-legacy/pytorch_model.bin");
    // Two storages, each smaller than the file.
    let part = |name: &str, key: &str| entry(name, key, 150, [&numbers[..], &numbers[..]]);
    let overlapping = [b"\x80\x02}", &part("a", "0")[..], &part("b", "1"), b"."].concat();
    let bytes = [
        ("class", stored(b"\x80\x02cos\nsystem\nX\x02\0\0\0id\x85R.")),
        ("stack-class", stored(b"\x80\x04\x8c\x08builtins\x8c\x04eval\x93.")),
        ("bare", b"\x80\x02cposix\nsystem\n.....".to_vec()),
        ("opcode", stored(b"\x80\x02ccollections\nOrderedDict\n)\x81.")),
        ("text", stored(b"\x80\x02X\x01\0\0\0a.")),
        ("number", stored(b"\x80\x02}X\x01\0\0\0aK\x01s.")),
        ("many", stored(&[b"\x80\x02", &b"}".repeat(2_000_000)[..], b"."].concat())),
        ("long", stored(&b"}".repeat(3_000_000))),
        ("count", stored(&tensor_pickle(u32::MAX >> 1, numbers, numbers))),
        ("overlap", stored(&overlapping)),
        ("beyond", stored(&tensor_pickle(1, b"K\x09\x85", numbers))),
        ("repeats", stored(&tensor_pickle(1, &square, b"K\0K\0\x86"))),
        ("rank", stored(&tensor_pickle(1, &long_shape, numbers))),
        ("packed", torch_zip(&tensor_pickle(1, numbers, numbers), CompressionMethod::Deflated)),
        ("zip-cut", full[..full.len() - 100].to_vec()),
        ("legacy-cut", legacy[..legacy.len() - 100].to_vec()),
        ("legacy-short", legacy[..1000].to_vec()),
    ];
    bytes.into_iter().map(|(name, bytes)| (name, "pytorch_model.bin", bytes)).collect()
}

#[test]
fn hostile_pickles_are_refused() {
    let folder = folder_with(&pickles());
    let damaged = "pytorch_model.bin: damaged PyTorch file:";
    let refused = "pytorch_model.bin: this PyTorch file is not supported:";
    let not_run = "which a dictionary of tensors does not need and which is not run; save model.state_dict()";
    let table = format!(
        r#"
        4 | class | class/{refused} its pickle contains the class os.system, {not_run}
        4 | stack-class | stack-class/{refused} its pickle contains the class builtins.eval, {not_run}
        4 | bare | bare/{refused} its pickle contains the class posix.system, {not_run}
        4 | opcode | opcode/{refused} its pickle contains the opcode NEWOBJ (0x81), {not_run}
        4 | text | text/{refused} it contains a value that is not a dictionary of tensors; save model.state_dict()
        4 | number | number/{refused} the value of "a" is not a tensor; save model.state_dict()
        4 | many | many: the checkpoint does not match the model: missing: ...
        3 | long | long/{damaged} the entry "archive/data.pkl" has 3000000 bytes, more than 2097152{AGAIN}
        3 | count | count/{damaged} its storages have 8589934588 bytes, more than the file{AGAIN}
        3 | overlap | overlap/{damaged} its storages have 1200 bytes, more than the file{AGAIN}
        3 | beyond | beyond/{damaged} the tensor "a" is larger than its storage{AGAIN}
        3 | repeats | repeats/{damaged} the tensor "a" is larger than its storage{AGAIN}
        4 | rank | rank/{refused} its pickle contains a tensor of 500000 dimensions, {not_run}
        4 | packed | packed/{refused} the entry "archive/data.pkl" is compressed
        3 | zip-cut | zip-cut/{damaged} ...{AGAIN}
        3 | legacy-cut | legacy-cut/{damaged} the storage ... is not complete{AGAIN}
        3 | legacy-short | legacy-short/{damaged} its pickle ends early{AGAIN}
        "#
    );
    check(&folder, COMMON, &table);
}

#[test]
fn damaged_tensorflow_checkpoints_are_refused() {
    let index = "bert_model.ckpt.index";
    let data = "bert_model.ckpt.data-00000-of-00001";
    let [good_index, good_data] = [index, data].map(|name| golden(&format!("google/{name}")));
    let flipped = |bytes: &[u8], at: usize| {
        let mut bytes = bytes.to_vec();
        bytes[at] ^= 1;
        bytes
    };
    let cases = [
        ("index-cut", good_index[..good_index.len() - 1].to_vec(), good_data.clone()),
        ("index-flip", flipped(&good_index, 100), good_data.clone()),
        ("index-large", vec![0; 5 << 20], good_data.clone()),
        ("data-cut", good_index.clone(), good_data[..good_data.len() - 1000].to_vec()),
        ("data-flip", good_index.clone(), flipped(&good_data, 8)),
    ];
    let folder = folder_with(&cases.clone().map(|(name, bytes, _)| (name, index, bytes)));
    for (name, _, bytes) in cases {
        folder.write(&format!("{name}/{data}"), bytes);
    }
    let damaged = "damaged TensorFlow file:";
    let table = format!(
        r#"
        3 | index-cut | index-cut/{index}: {damaged} it does not end with the magic number of a table{AGAIN}
        3 | index-flip | index-flip/{index}: {damaged} the checksum of the block at 0 is wrong{AGAIN}
        3 | index-large | index-large/{index}: {damaged} it has more than 4194304 bytes{AGAIN}
        3 | data-cut | data-cut/{data}: {damaged} the variable ... ends after the file{AGAIN}
        3 | data-flip | data-flip/{data}: {damaged} the checksum of the variable ... is wrong{AGAIN}
        "#
    );
    check(&folder, COMMON, &table);
}

#[test]
fn damaged_indices_of_several_files_are_refused() {
    let index = "model.safetensors.index.json";
    let map = |map: serde_json::Value| json!({ "weight_map": map }).to_string().into_bytes();
    let folder = folder_with(&[
        ("outside", index, map(json!({"a": "../other/model.safetensors"}))),
        ("numbers", index, map(json!({"a": 3}))),
        ("empty", index, map(json!({}))),
        ("json", index, b"{".to_vec()),
        ("large", index, vec![b' '; 2 << 20]),
        ("lacks", index, map(json!({"a": "one.safetensors"}))),
    ]);
    folder.write("lacks/one.safetensors", golden("encoder/model.safetensors"));
    let damaged = format!("{index}: damaged safetensors file:");
    let table = format!(
        r#"
        3 | outside | outside/{damaged} the file of "a" is not the name of a file in this folder{AGAIN}
        3 | numbers | numbers/{damaged} the file of "a" is not the name of a file in this folder{AGAIN}
        3 | empty | empty/{damaged} it has no `weight_map` from tensors to files{AGAIN}
        3 | json | json/{index}: not valid JSON: ...
        3 | large | large/{damaged} it is larger than 1048576 bytes{AGAIN}
        3 | lacks | lacks/{damaged} one.safetensors has the tensor ..., which is not in the index{AGAIN}
        "#
    );
    check(&folder, COMMON, &table);
}
