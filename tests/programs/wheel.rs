//! The Python wheel that carries the four programs (`pyproject.toml`).

use std::path::Path;
use std::process::Command;

/// Runs a program and returns its output; panics with its error output if it fails.
fn run(program: &Path, arguments: &[&str]) -> String {
    let output = Command::new(program).args(arguments).current_dir(env!("CARGO_MANIFEST_DIR")).output();
    let output = output.unwrap_or_else(|error| panic!("{}: {error}", program.display()));
    assert!(
        output.status.success(),
        "{program:?} {arguments:?}: {}",
        String::from_utf8_lossy(&output.stderr)
    );
    String::from_utf8(output.stdout).expect("UTF-8")
}

#[test]
#[ignore = "needs python3 and a network"]
fn wheel_installs_the_programs_without_other_packages() {
    let folder = tempfile::tempdir().expect("a folder");
    let at = |name: &str| folder.path().join(name);
    let text = |name: &str| at(name).to_str().expect("UTF-8").to_string();
    run(Path::new("python3"), &["-m", "venv", &text("builder")]);
    run(&at("builder/bin/python"), &["-m", "pip", "install", "--quiet", "maturin>=1.16,<2"]);
    // The programs of this build, which are compiled already.
    let out = text("wheels");
    run(
        &at("builder/bin/maturin"),
        &["build", "--profile", "dev", "--strip", "--target-dir", "target", "--out", &out],
    );
    let wheels: Vec<_> =
        std::fs::read_dir(at("wheels")).expect("the wheels").map(|entry| entry.unwrap().path()).collect();
    let [wheel] = wheels.as_slice() else { panic!("{wheels:?}") };

    run(Path::new("python3"), &["-m", "venv", &text("user")]);
    let python = at("user/bin/python");
    run(&python, &["-m", "pip", "install", "--quiet", "--no-index", wheel.to_str().expect("UTF-8")]);
    let packages = run(&python, &["-m", "pip", "list", "--format", "freeze"]);
    assert!(packages.contains(concat!("bert-programs==", env!("CARGO_PKG_VERSION"))), "{packages}");
    for program in ["bert", "make-pretrain-data", "pretrain", "finetune"] {
        let version = run(&at("user/bin").join(program), &["--version"]);
        assert!(version.starts_with(&format!("{program} {}", env!("CARGO_PKG_VERSION"))), "{version}");
    }
    let words = run(&at("user/bin/bert"), &["fill-mask", "Paris is the capital of [MASK]."]);
    assert!(words.contains("france"), "{words}");
    run(&python, &["-m", "pip", "uninstall", "--quiet", "--yes", "bert-programs"]);
    assert!(!at("user/bin/bert").exists());
}
