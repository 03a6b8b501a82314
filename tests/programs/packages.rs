//! The crates as a registry receives them.

use std::path::Path;
use std::process::Command;

use serde_json::Value;

/// Maximum size of a packed crate that crates.io accepts, in bytes.
const MAX_BYTES: u64 = 10 << 20;

fn cargo(arguments: &[&str]) -> Vec<u8> {
    let root = env!("CARGO_MANIFEST_DIR");
    let done = Command::new(env!("CARGO")).args(arguments).current_dir(root).output().unwrap();
    assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
    done.stdout
}

/// Returns the packages of the workspace that can be published, as `cargo metadata` describes them.
fn packages() -> Vec<Value> {
    let metadata = cargo(&["metadata", "--no-deps", "--format-version", "1", "--offline"]);
    let mut metadata: Value = serde_json::from_slice(&metadata).unwrap();
    let packages = std::mem::take(metadata["packages"].as_array_mut().unwrap());
    packages.into_iter().filter(|package| package["publish"].is_null()).collect()
}

#[test]
fn packages_have_metadata_and_versions() {
    let packages = packages();
    let names: Vec<&Value> = packages.iter().map(|package| &package["name"]).collect();
    assert!(names.len() > 15 && names.contains(&&Value::from("bert-toolkit")), "{names:?}");
    for package in &packages {
        let name = &package["name"];
        for key in ["description", "license", "rust_version"] {
            assert!(package[key].as_str().is_some_and(|text| !text.is_empty()), "{name}: {key}");
        }
        for key in ["categories", "keywords"] {
            assert!((1..=5).contains(&package[key].as_array().unwrap().len()), "{name}: {key}");
        }
        for dependency in package["dependencies"].as_array().unwrap() {
            // Cargo removes development dependencies without a version.
            if dependency["path"].is_string() && dependency["kind"] != "dev" {
                assert_ne!(dependency["req"], "*", "{name}: {}", dependency["name"]);
                assert!(
                    names.contains(&&dependency["name"]),
                    "{name}: {} is not published",
                    dependency["name"]
                );
            }
        }
    }
}

#[test]
#[ignore = "needs the index of crates.io"]
fn crates_can_be_published() {
    let folder = tempfile::tempdir().unwrap();
    let target = folder.path().to_str().unwrap();
    cargo(&["publish", "--workspace", "--dry-run", "--no-verify", "--allow-dirty", "--target-dir", target]);
    let packed = folder.path().join("package");
    let mut sizes = Vec::new();
    crates_below(&packed, &mut sizes);
    assert!(sizes.len() >= packages().len(), "{sizes:?}");
    assert!(sizes.iter().all(|bytes| *bytes < MAX_BYTES), "{sizes:?}");
}

/// Adds the sizes of all packed crates below a folder.
fn crates_below(folder: &Path, sizes: &mut Vec<u64>) {
    for entry in std::fs::read_dir(folder).unwrap().map(Result::unwrap) {
        let path = entry.path();
        if path.is_dir() {
            crates_below(&path, sizes);
        } else if path.extension().is_some_and(|end| end == "crate") {
            sizes.push(entry.metadata().unwrap().len());
        }
    }
}
