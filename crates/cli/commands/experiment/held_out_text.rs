//! The text of the experiments masking and forgetting: a file, or the held-out articles of the embedded corpus.

use std::path::{Path, PathBuf};

use anyhow::Context;
use bert_data::{BuildConfig, build};

use super::args::Args;
use crate::output::files::write_own_file;

/// The held-out articles of the embedded corpus; no built-in model was trained on them.
const ARTICLES: [&str; 6] = [
    include_str!("../../../../corpora/almanac/held_out/nature.txt"),
    include_str!("../../../../corpora/almanac/held_out/science.txt"),
    include_str!("../../../../corpora/almanac/held_out/culture.txt"),
    include_str!("../../../../corpora/yearbook/held_out/nature.txt"),
    include_str!("../../../../corpora/yearbook/held_out/science.txt"),
    include_str!("../../../../corpora/yearbook/held_out/culture.txt"),
];

/// Returns the text of `--input`, or the embedded articles.
///
/// # Errors
/// Fails when the file cannot be read or is not UTF-8.
pub(super) fn text(args: &Args) -> anyhow::Result<String> {
    match &args.input {
        Some(path) => {
            let text = std::fs::read_to_string(path);
            text.with_context(|| format!("--input: cannot read {} as UTF-8 text", path.display()))
        }
        None => Ok(ARTICLES.map(str::trim).join("\n\n") + "\n"),
    }
}

/// Builds the data folder of the text for a checkpoint, unless it exists, and returns it.
///
/// # Errors
/// Fails as [`text`] and [`build`] do.
pub(super) fn data(args: &Args, checkpoint: &Path, output: &Path) -> anyhow::Result<PathBuf> {
    let data = output.join("data");
    if !data.join("manifest.json").exists() {
        let file = output.join("text.txt");
        write_own_file(&file, &text(args)?)?;
        // Two passes reduce the variance of the loss; the masks are the same in every evaluation.
        let config = BuildConfig::new([file], checkpoint, &data)
            .with_max_seq_length(64)
            .with_dupe_factor(2)
            .with_threads(args.threads.count());
        build(&config, &mut |_| {})?;
    }
    Ok(data)
}
