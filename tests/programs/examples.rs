//! Runs the programs of `examples/` without arguments. Cargo builds them before this test.

use std::path::{Path, PathBuf};
use std::process::Command;

/// Returns the output of an example.
fn output_of(name: &str) -> String {
    let program: PathBuf =
        std::env::current_exe().unwrap().ancestors().nth(2).unwrap().join("examples").join(name);
    let output = Command::new(&program).output().unwrap_or_else(|error| {
        panic!(
            "{}: {error} (cargo test builds it, cargo test --test integration does not)",
            program.display()
        )
    });
    let message = String::from_utf8(output.stdout).unwrap();
    assert!(output.status.success(), "{name}: {message}{}", String::from_utf8_lossy(&output.stderr));
    message
}

/// Returns a text with `#` for each number and `PATH` for each absolute path.
fn without_figures(text: &str) -> String {
    let word = |word: &str| {
        if word.starts_with('/') {
            return "PATH".to_string();
        }
        let digit = |c: char| c.is_ascii_digit() || c == '.';
        let parts = word.split_inclusive(|c| !digit(c));
        parts
            .map(|part| {
                if part.starts_with(|c: char| c.is_ascii_digit()) {
                    format!("#{}", part.trim_start_matches(digit))
                } else {
                    part.to_string()
                }
            })
            .collect()
    };
    let line = |line: &str| line.split(' ').map(word).collect::<Vec<String>>().join(" ");
    text.trim_end().lines().map(line).collect::<Vec<String>>().join("\n")
}

#[test]
fn guide_shows_the_output_of_every_example() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let guide = std::fs::read_to_string(root.join("docs/guide/library.md")).expect("the page");
    for entry in std::fs::read_dir(root.join("examples")).expect("the examples") {
        let path = entry.expect("an entry").path();
        if path.extension() != Some("rs".as_ref()) {
            continue;
        }
        let name = path.file_stem().expect("a name").to_string_lossy().into_owned();
        let (_, after) = guide.split_once(&format!("<!-- output: {name} -->\n\n```text\n")).expect(&name);
        let (shown, _) = after.split_once("```").expect("the end of a block");
        assert_eq!(without_figures(&output_of(&name)), without_figures(shown), "{name}");
    }
}

#[test]
fn custom_training_loop_example_runs() {
    let message = output_of("training_loop");
    let losses: Vec<f64> = message
        .lines()
        .map(|line| line.split_whitespace().nth(3).unwrap().trim_end_matches(',').parse().unwrap())
        .collect();
    assert_eq!(losses.len(), 8, "{message}");
    assert!(losses[7] < losses[0], "the loss does not fall: {message}");
}
