//! Tests failures of every n-th file operation of an export, and power failures: the same command then succeeds with
//! the same result.

use std::fs;
use std::path::Path;

use bert_reports::{CardOptions, Export, export_on};
use bert_storage::{Disk, FileSystem};
use bert_testing::disks::{Fault, Faulty, PowerCut, Survival};
use bert_training::Error;

use crate::world::{World, run_to_end};

const FAULTS: [Fault; 3] = [Fault::Io, Fault::Full, Fault::Torn];
const SURVIVALS: [Survival; 4] =
    [Survival::Nothing, Survival::NamesOnly, Survival::Random(1), Survival::Random(2)];
/// A run of two steps with one checkpoint.
const SHORT: [&str; 8] =
    ["--steps", "2", "--save-every", "1", "--keep-checkpoints", "1", "--eval-instances", "4"];

fn names(folder: &Path) -> Vec<String> {
    let entries = fs::read_dir(folder).unwrap();
    let mut names: Vec<String> =
        entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    names
}

/// Checks that an interrupted export is not mistaken for a model, and that its repetition equals `whole`.
fn check_repeated_export(
    target: &Path,
    whole: &Path,
    what: &str,
    write: &dyn Fn(&dyn FileSystem, &Path) -> Result<(), Error>,
) {
    let complete = target.join("config.json").exists();
    assert!(!complete || names(target).contains(&"model.safetensors".to_string()), "{what}");
    if complete {
        let _ = fs::remove_dir_all(target);
    }
    write(&Faulty::never(), target).unwrap_or_else(|error| panic!("{what}: {error}"));
    assert_eq!(names(target), names(whole), "{what}");
    for name in names(whole) {
        assert!(fs::read(whole.join(&name)).unwrap() == fs::read(target.join(&name)).unwrap(), "{what}");
    }
}

#[test]
fn interrupted_export_can_be_repeated() {
    let world = World::new(0.1);
    run_to_end(&world.config("whole", &SHORT), false);
    let from = world.at("whole/checkpoints/step-00000002");
    for encoder in [false, true] {
        // Without a name, the card has the name of the folder.
        let card = CardOptions { name: Some("model".into()), ..CardOptions::default() };
        let how = Export { encoder_only: encoder, card, ..Export::default() };
        let write = |files: &dyn FileSystem, target: &Path| export_on(files, &from, target, &how);
        let whole = world.at(&format!("whole-{encoder}"));
        write(&Disk, &whole).unwrap();
        let check = |target: &Path, what: &str| check_repeated_export(target, &whole, what, &write);
        for fault in FAULTS {
            for nth in 1.. {
                let target = world.at("exported");
                let _ = fs::remove_dir_all(&target);
                let files = Faulty::new(fault, nth);
                let result = write(&files, &target);
                if !files.triggered() {
                    result.unwrap();
                    break;
                }
                check(&target, &format!("{fault:?} at operation {nth}"));
            }
        }
        for cut in 1.. {
            let survival = SURVIVALS[cut as usize % SURVIVALS.len()];
            let _ = fs::remove_dir_all(world.at("cut"));
            fs::create_dir(world.at("cut")).unwrap();
            let files = PowerCut::over(&world.at("cut"), cut).unwrap();
            let result = write(&files, &world.at("cut/exported"));
            let off = files.is_off();
            files.restart(survival).unwrap();
            if !off {
                result.unwrap();
                break;
            }
            check(&world.at("cut/exported"), &format!("{survival:?} at operation {cut}"));
        }
    }
}

#[test]
fn running_export_is_not_disturbed() {
    let world = World::new(0.1);
    run_to_end(&world.config("whole", &SHORT), false);
    let from = world.at("whole/checkpoints/step-00000002");
    let target = world.at("exported");
    fs::create_dir(&target).unwrap();
    fs::write(target.join("vocab.txt"), "another process writes this").unwrap();
    let marker = fs::File::create(target.join(".unfinished")).unwrap();
    marker.lock().unwrap();
    let error = export_on(&Disk, &from, &target, &Export::default()).unwrap_err();
    assert_eq!(error.exit_code(), 6, "{error}");
    assert_eq!(names(&target), [".unfinished", "vocab.txt"]);
    drop(marker);
    export_on(&Disk, &from, &target, &Export::default()).unwrap();
    // Files that do not belong to an export are not deleted, with or without a marker.
    fs::remove_file(target.join("config.json")).unwrap();
    fs::write(target.join(".unfinished"), "").unwrap();
    fs::write(target.join("notes.txt"), "mine").unwrap();
    assert_eq!(export_on(&Disk, &from, &target, &Export::default()).unwrap_err().exit_code(), 1);
    assert!(target.join("notes.txt").exists() && target.join("vocab.txt").exists());
}
