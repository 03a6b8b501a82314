//! Tests failures of every n-th file operation, and power failures: the error is clean, the old state stays valid, and
//! the same command then succeeds with the same result.

use std::fs;
use std::path::Path;

use bert_inference::checkpoint::CheckpointFolder;
use bert_inference::{Error, StopFlag};
use bert_storage::FileSystem;
use bert_testing::disks::{Fault, Faulty, PowerCut, Survival};
use bert_training::{PretrainConfig, PretrainEvent, Resume, pretrain_on};

use crate::world::{World, run_to_end};

const FAULTS: [Fault; 3] = [Fault::Io, Fault::Full, Fault::Torn];
const SURVIVALS: [Survival; 4] =
    [Survival::Nothing, Survival::NamesOnly, Survival::Random(1), Survival::Random(2)];
/// Two steps with a checkpoint after each; the first checkpoint is deleted when the second exists.
const SHORT: [&str; 8] =
    ["--steps", "2", "--save-every", "1", "--keep-checkpoints", "1", "--eval-instances", "4"];

fn attempt(files: &dyn FileSystem, config: &PretrainConfig, resume: bool) -> Result<(), Error> {
    let mut panic_on_warning = |event| {
        if let PretrainEvent::Warning(text) = event {
            panic!("a fault left a checkpoint that looks whole and is not: {text}");
        }
    };
    pretrain_on(files, config, resume.into(), &StopFlag::new(), &mut panic_on_warning).map(drop)
}

/// Runs again, as a user would: with `--resume` if the folder exists.
fn again(config: &PretrainConfig) {
    attempt(&Faulty::never(), config, config.output.exists()).unwrap();
}

fn assert_same(world: &World, run: &str, what: &str) {
    for name in ["metrics.jsonl", "evaluations.jsonl"] {
        let read = |run: &str| fs::read(world.at(run).join(name)).unwrap();
        assert!(read("whole") == read(run), "{what}: {name} differs");
    }
    let whole = world.at("whole/checkpoints");
    let other = world.at(run).join("checkpoints");
    assert_eq!(names(&other), ["step-00000002"], "{what}");
    for name in names(&whole.join("step-00000002")) {
        let read = |folder: &Path| fs::read(folder.join("step-00000002").join(&name)).unwrap();
        assert!(read(&whole) == read(&other), "{what}: {name} differs");
    }
    // run.json names the folders, which differ.
    let leftovers: Vec<String> =
        names(&world.at(run)).into_iter().filter(|name| name.ends_with(".tmp")).collect();
    assert_eq!(leftovers, Vec::<String>::new(), "{what}");
}

fn names(folder: &Path) -> Vec<String> {
    let entries = fs::read_dir(folder).unwrap();
    let mut names: Vec<String> =
        entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    names
}

/// Checks that all existing checkpoints are complete and valid.
fn assert_checkpoints_are_good(run: &Path, what: &str) {
    let checkpoints = CheckpointFolder::in_run(run);
    checkpoints.newest_good(&mut |error| panic!("{what}: {error}")).unwrap();
}

#[test]
fn every_failing_operation_of_a_run_is_a_clean_error() {
    let world = World::new(0.1);
    run_to_end(&world.config("whole", &SHORT), false);
    for fault in FAULTS {
        let mut failures = 0;
        for nth in 1.. {
            let what = format!("{fault:?} at operation {nth}");
            let _ = fs::remove_dir_all(world.at("run"));
            let config = world.config("run", &SHORT);
            let files = Faulty::new(fault, nth);
            let result = attempt(&files, &config, false);
            if !files.triggered() {
                result.unwrap();
                break;
            }
            if let Err(error) = result {
                failures += 1;
                assert_eq!(error.exit_code(), 1, "{what}: {error}");
                let text = format!("{error} {:?}", std::error::Error::source(&error).map(|e| e.to_string()));
                assert!(text.contains("run") || text.contains("sync"), "{what}: {text}");
            }
            if config.output.exists() {
                assert_checkpoints_are_good(&config.output, &what);
            }
            again(&config);
            assert_same(&world, "run", &what);
        }
        assert!(failures > 60, "{fault:?}: only {failures} operations failed");
    }
}

#[test]
fn full_disk_reports_the_needed_bytes() {
    let world = World::new(0.1);
    let config = world.config("run", &SHORT);
    let mut reported = 0;
    for nth in 1.. {
        let _ = fs::remove_dir_all(world.at("run"));
        let files = Faulty::new(Fault::Full, nth);
        let result = attempt(&files, &config, false);
        if !files.triggered() {
            break;
        }
        let text = result.map_or_else(|error| error.text().to_string(), |_| String::new());
        if let Some(rest) = text.strip_prefix("the disk is full: the checkpoint needs about ") {
            reported += 1;
            let needed: u64 = rest.split(' ').next().unwrap().parse().unwrap();
            let folder = world.at("run/checkpoints");
            assert!(!names(&folder).iter().any(|name| name.starts_with('.')), "room is given back");
            again(&config);
            let bytes: u64 = names(&folder.join("step-00000002"))
                .iter()
                .map(|name| fs::metadata(folder.join("step-00000002").join(name)).unwrap().len())
                .sum();
            assert!(needed <= bytes && 10 * needed > 9 * bytes, "{needed} reported, {bytes} needed");
        }
    }
    assert!(reported > 5, "{reported}");
}

#[test]
fn power_cut_loses_no_committed_checkpoint() {
    let world = World::new(0.1);
    run_to_end(&world.config("whole", &SHORT), false);
    let mut cuts = 0;
    for cut in 1.. {
        let survival = SURVIVALS[cut as usize % SURVIVALS.len()];
        let what = format!("{survival:?} at operation {cut}");
        let _ = fs::remove_dir_all(world.at("cut"));
        fs::create_dir(world.at("cut")).unwrap();
        let config = world.config("cut/run", &SHORT);
        let files = PowerCut::over(&world.at("cut"), cut).unwrap();
        let mut saved = 0;
        let result = pretrain_on(&files, &config, Resume::No, &StopFlag::new(), &mut |event| {
            if let PretrainEvent::Saved { step, .. } = event {
                saved = step;
            }
        });
        let off = files.is_off();
        files.restart(survival).unwrap();
        if !off {
            result.unwrap();
            break;
        }
        cuts += 1;
        let found = CheckpointFolder::in_run(&config.output)
            .newest_good(&mut |error| panic!("{what}: {error}"))
            .unwrap();
        let step = found.map_or(0, |found| found.state.step);
        assert!(step >= saved, "{what}: checkpoint {saved} was committed, {step} is there");
        again(&config);
        assert_same(&world, "cut/run", &what);
    }
    assert!(cuts > 60, "{cuts}");
}
