//! Weights in safetensors: inconsistent headers, other files in their place, NaN and infinite values.

use std::fs;

use super::check;
use crate::common::Folder;

/// Returns a safetensors file with a header and data.
fn safetensors(header: &str, data: &[u8]) -> Vec<u8> {
    [&(header.len() as u64).to_le_bytes()[..], header.as_bytes(), data].concat()
}

/// Returns a folder with copies of a model whose weights are damaged or forged.
fn with_damaged_weights() -> Folder {
    let folder = Folder::with_run();
    folder.ok("bert export run good");
    let case = |name: &str, bytes: Vec<u8>| {
        folder.copy("good", name);
        folder.write(&format!("{name}/model.safetensors"), bytes);
    };
    let tensor = |shape: &str, from: u64, to: u64| {
        format!("{{\"dtype\":\"F32\",\"shape\":{shape},\"data_offsets\":[{from},{to}]}}")
    };
    let a = tensor("[1]", 0, 4);
    let b = tensor("[1]", 4, 8);
    case("header", (1u64 << 60).to_le_bytes().to_vec());
    case("length", 100_000_000u64.to_le_bytes().to_vec());
    case("short", b"abc".to_vec());
    case("json", safetensors("{\"a\":", &[]));
    case("deep", safetensors(&"[".repeat(100_000), &[]));
    case("overlap", safetensors(&format!("{{\"a\":{a},\"b\":{a}}}"), &[0; 8]));
    case("hole", safetensors(&format!("{{\"a\":{a},\"b\":{}}}", tensor("[1]", 8, 12)), &[0; 12]));
    case("beyond", safetensors(&format!("{{\"a\":{a},\"b\":{b}}}"), &[0; 4]));
    case("after", safetensors(&format!("{{\"a\":{a}}}"), &[0; 8]));
    case("backwards", safetensors(&format!("{{\"a\":{}}}", tensor("[1]", 4, 0)), &[0; 4]));
    case(
        "shape",
        safetensors(
            &format!("{{\"a\":{}}}", tensor("[4611686018427387904,4611686018427387904]", 0, 4)),
            &[0; 4],
        ),
    );
    case("negative", safetensors(&format!("{{\"a\":{}}}", tensor("[-1]", 0, 4)), &[0; 4]));
    case("twice", safetensors(&format!("{{\"a\":{a},\"a\":{b}}}"), &[0; 8]));
    // A duplicate name for the same bytes, where only the later entry matches the data.
    case("same", safetensors(&format!("{{\"a\":{a},\"a\":{a}}}"), &[0; 4]));
    case("later", safetensors(&format!("{{\"cls.a\":{a},\"cls.a\":{}}}", tensor("[2]", 0, 8)), &[0; 8]));
    case(
        "metadata",
        safetensors(&format!("{{\"__metadata__\":{{}},\"__metadata__\":{{}},\"a\":{a}}}"), &[0; 4]),
    );
    case("dtype", safetensors("{\"a\":{\"dtype\":\"I64\",\"shape\":[1],\"data_offsets\":[0,8]}}", &[0; 8]));
    case("nan", safetensors(&format!("{{\"cls.a\":{a}}}"), &f32::NAN.to_le_bytes()));
    case("infinite", safetensors(&format!("{{\"cls.a\":{a}}}"), &f32::NEG_INFINITY.to_le_bytes()));
    let many = |count: usize| -> String {
        let one = |at| format!("\"t{at}\":{}", tensor("[0]", 0, 0));
        format!("{{{}}}", (0..count).map(one).collect::<Vec<_>>().join(","))
    };
    case("many", safetensors(&many(40_000), &[]));
    case("million", safetensors(&many(1_000_000), &[]));
    case("zip", b"PK\x03\x04 as PyTorch writes it".to_vec());
    case("pickle", b"\x80\x02\x8a\x0al\xfc\x9cF\xf9 j\xa8P\x19.\x80\x02M".to_vec());
    folder.copy("good", "bin");
    fs::rename(folder.at("bin/model.safetensors"), folder.at("bin/pytorch_model.bin")).expect("renamed");
    folder.write("weights.bin", b"whatever it holds");
    folder.write("checkpoint.tar", b"\x80\x04\x95\x01\x02\x03\x04\x05\x06");
    folder.write("notes.txt", "not a model");
    folder
}

/// Checks the damage that has a message of its own.
fn check_other_damage(folder: &Folder, common: &str) {
    let again = "; copy or download it again";
    let pickle =
        "this safetensors file is not supported: it is a file of PyTorch; rename it to pytorch_model.bin";
    let file = "this is a file; give the folder that contains config.json and the weights";
    let table = format!(
        r#"
        3 | same | same/model.safetensors: damaged safetensors file: two tensors are named "a"...{again}
        4 | dtype | dtype/model.safetensors: tensor `a` has element type I64; save it as f32, f16 or bf16
        4 | nan | nan/model.safetensors: tensor `cls.a` contains NaN, which is not finite; use an earlier checkpoint
        4 | infinite | infinite/model.safetensors: tensor `cls.a` contains -inf, which is not finite; use an earlier checkpoint
        4 | many | many: the checkpoint does not match the model: missing: ... and 39980 more
        3 | million | million/model.safetensors: damaged safetensors file: its header has ... bytes, more than 4194304{again}
        4 | zip | zip/model.safetensors: {pickle}
        4 | pickle | pickle/model.safetensors: {pickle}
        3 | bin | bin/pytorch_model.bin: damaged PyTorch file: it is neither a zip archive nor a pickle{again}
        4 | weights.bin | weights.bin: {file}
        4 | checkpoint.tar | checkpoint.tar: {file}
        4 | notes.txt | notes.txt: {file}
        "#
    );
    check(folder, common, &table);
}

#[test]
fn damaged_weights_are_rejected() {
    let folder = with_damaged_weights();
    let again = "; copy or download it again";
    let common = "bert fill-mask 'a [MASK]' --checkpoint";
    for name in [
        "header",
        "length",
        "short",
        "json",
        "deep",
        "overlap",
        "hole",
        "beyond",
        "after",
        "backwards",
        "shape",
        "negative",
        "twice",
        "later",
        "metadata",
    ] {
        let message = format!("{name}/model.safetensors: damaged safetensors file: ...{again}");
        check(&folder, common, &format!("3 | {name} | {message}"));
    }
    check_other_damage(&folder, common);
}
