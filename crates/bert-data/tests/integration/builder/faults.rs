//! Every file operation of a build fails in turn, or the power does: the build gives a clean error and no incomplete
//! file with a final name, and the same command then ends with the same bytes.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use bert_data::{BuildConfig, Manifest, build_on, verify};
use bert_testing::disks::{Fault, Faulty, PowerCut, Survival};

use crate::support::{config, small_text, small_vocabulary};

struct World {
    folder: tempfile::TempDir,
    config: BuildConfig,
    whole: BTreeMap<String, Vec<u8>>,
}

impl World {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("text.txt");
        fs::write(&path, small_text(12)).unwrap();
        let vocab = small_vocabulary(folder.path());
        let config = BuildConfig {
            max_seq_length: 32,
            max_predictions_per_seq: Some(5),
            dupe_factor: 2,
            num_shards: Some(2),
            threads: 1,
            ..config(&[&path], &vocab, &folder.path().join("whole"))
        };
        build_on(&Faulty::never(), &config, &mut |_| {}).unwrap();
        let whole = content(&folder.path().join("whole"));
        Self { folder, config, whole }
    }

    fn to(&self, name: &str) -> BuildConfig {
        BuildConfig { output: Some(self.folder.path().join(name)), ..self.config.clone() }
    }

    /// Checks that the output is a data set only if it is complete, and that the same command then completes it.
    fn check_and_finish(&self, name: &str, what: &str) {
        let output = self.folder.path().join(name);
        if Manifest::path(&output).exists() {
            let verified = verify(&output, true).unwrap_or_else(|error| panic!("{what}: {error}"));
            assert!(verified.is_good(), "{what}: {verified}");
        }
        build_on(&Faulty::never(), &self.to(name), &mut |_| {})
            .unwrap_or_else(|error| panic!("{what}: {error}"));
        assert!(content(&output) == self.whole, "{what}: other bytes");
    }
}

/// Returns every file of a data set.
fn content(folder: &Path) -> BTreeMap<String, Vec<u8>> {
    fs::read_dir(folder)
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.is_file() && path.file_name().unwrap() != ".lock")
        .map(|path| (path.file_name().unwrap().to_string_lossy().into_owned(), fs::read(&path).unwrap()))
        .collect()
}

#[test]
fn every_failing_operation_of_a_build_is_a_clean_error() {
    let world = World::new();
    for fault in [Fault::Io, Fault::Full, Fault::Torn, Fault::Read] {
        let mut failures = 0;
        for nth in 1.. {
            let what = format!("{fault:?} at operation {nth}");
            let _ = fs::remove_dir_all(world.folder.path().join("out"));
            let files = Faulty::new(fault, nth);
            let result = build_on(&files, &world.to("out"), &mut |_| {});
            if !files.triggered() {
                result.unwrap();
                break;
            }
            if let Err(error) = result {
                failures += 1;
                assert_eq!(error.exit_code(), 1, "{what}: {error}");
                assert!(
                    matches!(fault, Fault::Io | Fault::Read) || bert_data::is_disk_full(&error),
                    "{what}: {error}"
                );
                // A write that finds no space reports the number of bytes needed.
                let text = error.to_string();
                let is_plain_error =
                    matches!(fault, Fault::Io | Fault::Read) || text.contains("cannot create");
                assert!(is_plain_error || text.contains(" needs at least "), "{what}: {text}");
            }
            world.check_and_finish("out", &what);
        }
        assert!(failures > 20, "{fault:?}: only {failures} operations failed");
    }
}

#[test]
fn power_cut_leaves_no_partial_data_set() {
    let world = World::new();
    let mut cuts = 0;
    for cut in 1.. {
        let survivals =
            [Survival::Nothing, Survival::NamesOnly, Survival::Random(cut), Survival::Random(2 * cut)];
        let survival = survivals[cut as usize % 4];
        let what = format!("{survival:?} at operation {cut}");
        let root = world.folder.path().join("cut");
        let _ = fs::remove_dir_all(&root);
        fs::create_dir(&root).unwrap();
        let files = PowerCut::over(&root, cut).unwrap();
        let result = build_on(&files, &world.to("cut/out"), &mut |_| {});
        let off = files.is_off();
        files.restart(survival).unwrap();
        if !off {
            result.unwrap();
            break;
        }
        cuts += 1;
        world.check_and_finish("cut/out", &what);
    }
    assert!(cuts > 40, "{cuts}");
}
