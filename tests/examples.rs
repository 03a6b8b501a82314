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
    let said = String::from_utf8(output.stdout).unwrap();
    assert!(output.status.success(), "{name}: {said}{}", String::from_utf8_lossy(&output.stderr));
    said
}

#[test]
fn a_data_set_is_built_from_documents() {
    let said = output_of("dataset_from_documents");
    assert!(said.contains("[CLS]") && said.trim_end().ends_with("documents"), "{said}");
}

#[test]
fn shards_are_read() {
    let said = output_of("read_shards");
    assert!(said.contains("masked tokens\nrow 0: [CLS]"), "{said}");
}

#[test]
fn a_loop_of_ones_own_trains() {
    let said = output_of("training_loop");
    let losses: Vec<f64> = said
        .lines()
        .map(|line| line.split_whitespace().nth(3).unwrap().trim_end_matches(',').parse().unwrap())
        .collect();
    assert_eq!(losses.len(), 8, "{said}");
    assert!(losses[7] < losses[0], "the loss does not fall: {said}");
}

#[test]
fn a_table_of_ones_own_is_learnt() {
    let said = output_of("finetune_table");
    assert!(said.contains("accuracy: ") && said.contains("the best run's model"), "{said}");
}

#[test]
fn features_of_a_text_are_nearest_to_itself() {
    let said = output_of("features");
    assert!(said.starts_with("1.000 a warm day\n") && said.lines().count() == 3, "{said}");
}
