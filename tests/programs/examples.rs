//! Runs the programs of `examples/` without arguments. Cargo builds them before this test.

use std::path::PathBuf;
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

#[test]
fn dataset_example_builds_from_documents() {
    let message = output_of("dataset_from_documents");
    assert!(message.contains("[CLS]") && message.trim_end().ends_with("documents"), "{message}");
}

#[test]
fn read_shards_example_runs() {
    let message = output_of("read_shards");
    assert!(message.contains("masked tokens\nrow 0: [CLS]"), "{message}");
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

#[test]
fn finetune_table_example_runs() {
    let message = output_of("finetune_table");
    assert!(message.contains("accuracy: ") && message.contains("the best run's model"), "{message}");
}

#[test]
fn features_example_runs() {
    let message = output_of("features");
    assert!(message.starts_with("1.000 a warm day\n") && message.lines().count() == 3, "{message}");
}
