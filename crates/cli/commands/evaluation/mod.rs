//! Commands that score a model or show the results of runs.

pub mod evaluate;
pub mod minimal_pairs;
pub mod predict;
pub mod probe;
pub mod report;
pub mod scores;
pub mod watch;

use std::path::{Path, PathBuf};

/// Returns the runs in a folder: the folder itself, or its subfolders that are runs.
pub(crate) fn runs_in(path: &Path) -> Vec<PathBuf> {
    let is_run =
        |path: &Path| ["run.json", "report.json", ".runs"].iter().any(|name| path.join(name).exists());
    if is_run(path) {
        return vec![path.to_path_buf()];
    }
    let entries = std::fs::read_dir(path).into_iter().flatten().flatten().map(|entry| entry.path());
    let mut inside: Vec<PathBuf> = entries.filter(|path| is_run(path)).collect();
    inside.sort();
    if inside.is_empty() { vec![path.to_path_buf()] } else { inside }
}
