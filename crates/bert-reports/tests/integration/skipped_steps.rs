//! Tests the page of a run whose loss was not finite.

use crate::world::{World, run_to_end};

/// Flags that make the weights overflow with the first update.
const DIVERGES: [&str; 8] = [
    "--learning-rate",
    "1e30",
    "--max-gradient-norm",
    "0",
    "--warmup-steps",
    "0",
    "--max-skipped-steps",
    "9",
];

#[test]
fn page_counts_the_skipped_steps() {
    let world = World::new(0.1);
    let metrics = run_to_end(&world.config("run", &DIVERGES), false);
    let skipped = metrics.iter().filter(|step| step.skipped).count();
    assert!(skipped > 0);
    let page = bert_reports::report(&world.at("run"), &[]).unwrap().html;
    assert!(page.contains(&format!("{skipped} of 10 steps were skipped")), "{skipped}");
}
