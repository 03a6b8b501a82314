//! Builds a data set from documents in memory, and shows its first instances.
//!
//! `cargo run --example dataset_from_documents [-- FOLDER]`

use std::path::PathBuf;

use bert::prelude::*;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let scratch = tempfile::tempdir()?;
    let folder = std::env::args().nth(1).map_or(scratch.path().to_path_buf(), PathBuf::from);
    let at = |name: &str| folder.join(name);

    write_documents(&at("text.txt"), documents())?;

    let vocabulary = VocabConfig::default().with_vocab_size(1000);
    let words = train_vocabulary(&[at("text.txt")], &vocabulary, &mut |_, _| {})?.tokens;
    write_atomic(&at("vocab.txt"), |out| words.iter().try_for_each(|word| writeln!(out, "{word}")))?;

    let config = BuildConfig::new([at("text.txt")], at("vocab.txt"), at("data"))
        .with_max_seq_length(64)
        .with_dupe_factor(5)
        .with_preview(2);
    let built = build(&config, &mut |_| {})?;
    for instance in &built.preview {
        println!("{instance}\n");
    }
    println!("{} instances of {} documents", built.manifest.instances, built.manifest.report.documents);
    Ok(())
}

/// Returns the articles of the almanac. Replace it with your own documents, such as rows of a database.
fn documents() -> impl Iterator<Item = impl Iterator<Item = &'static str>> {
    const ALMANAC: [&str; 3] = [
        include_str!("../corpora/almanac/train/culture.txt"),
        include_str!("../corpora/almanac/train/nature.txt"),
        include_str!("../corpora/almanac/train/science.txt"),
    ];
    ALMANAC.iter().flat_map(|file| file.trim().split("\n\n")).map(str::lines)
}
