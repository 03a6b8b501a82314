//! Replays the corpus of the fuzz targets: each file unchanged, truncated, and with flipped bits.

use std::fs;
use std::path::Path;

use bert_random::{Domain, Random, Stream};

#[path = "../../fuzz/checks.rs"]
mod checks;
#[path = "../../fuzz/model_checks.rs"]
mod model_checks;
#[path = "../../fuzz/program_checks.rs"]
mod program_checks;
#[path = "../../fuzz/rank_checks.rs"]
mod rank_checks;

/// Number of variants of each file, in addition to the file itself.
const VARIANTS: usize = 40;

#[test]
fn fuzz_corpus_and_its_mutations_do_not_panic() {
    let corpus = Path::new(env!("CARGO_MANIFEST_DIR")).join("fuzz/corpus");
    let all = checks::CHECKS
        .into_iter()
        .chain(model_checks::MODEL_CHECKS)
        .chain(rank_checks::RANK_CHECKS)
        .chain(program_checks::PROGRAM_CHECKS);
    for (at, (name, check)) in all.enumerate() {
        let mut files: Vec<_> = fs::read_dir(corpus.join(name))
            .unwrap_or_else(|error| panic!("{name}: {error}"))
            .map(|entry| entry.expect("an entry").path())
            .collect();
        files.sort();
        assert!(files.len() >= 3, "{name}: {} files", files.len());
        let mut random = Stream::new(1, Domain::Test, &[at as u64]);
        for path in files {
            let bytes = fs::read(&path).expect("a file");
            check(&bytes);
            for _ in 0..if bytes.is_empty() { 0 } else { VARIANTS } {
                let mut variant = bytes.clone();
                if random.chance(0.3) {
                    variant.truncate(random.below(bytes.len()));
                } else {
                    variant[random.below(bytes.len())] ^= 1 << random.below(8);
                }
                check(&variant);
            }
        }
    }
    checks::clean_up();
}
