//! Files and folders on a disk that fails or loses its power.

use std::path::Path;

use bert_storage::{
    AtomicFile, Disk, FileDigest, FileSystem, Result, StagedFolder, digest_bytes, write_atomic,
};
use bert_testing::disks::{Fault, Faulty, PowerCut, Survival};

fn write_new(files: &dyn FileSystem, path: &Path, new: &[u8]) -> Result<FileDigest> {
    AtomicFile::create(files, path)?.fill(|out| new.chunks(1000).try_for_each(|part| out.write_all(part)))
}

#[test]
fn a_failure_leaves_the_old_or_new_file() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("file.json");
    let new = vec![b'n'; 200_000];
    for fault in [Fault::Io, Fault::Full, Fault::Torn] {
        let mut failures = 0;
        for nth in 1.. {
            write_atomic(&path, |out| out.write_all(b"old")).unwrap();
            let files = Faulty::new(fault, nth);
            let result = write_new(&files, &path, &new);
            let found = std::fs::read(&path).unwrap();
            assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 1, "no temporary file is left");
            match result {
                Err(error) => {
                    failures += 1;
                    assert_eq!(error.exit_code(), 1);
                    let text = error.to_string();
                    assert!(text.contains("file.json") || text.contains("sync"), "{text}");
                    assert!(found == b"old" || found == new);
                }
                Ok(written) => {
                    assert!(found == new);
                    assert_eq!((written.bytes, written.blake3), (200_000, digest_bytes(&new)));
                }
            }
            if !files.triggered() {
                break;
            }
        }
        // A full disk fails create and at least two writes; an I/O error also fails fsync, rename and the fsync of
        // the folder.
        assert!(failures >= if fault == Fault::Io { 6 } else { 3 }, "{fault:?}: {failures}");
    }
}

#[test]
fn a_power_cut_leaves_the_old_or_new_file() {
    let new = vec![b'n'; 200_000];
    for cut in 1.. {
        let mut done = false;
        let survivals = [Survival::Nothing, Survival::Everything, Survival::NamesOnly];
        for survival in survivals.into_iter().chain((0..8).map(Survival::Random)) {
            let folder = tempfile::tempdir().unwrap();
            let path = folder.path().join("file.json");
            std::fs::write(&path, "old").unwrap();
            let files = PowerCut::over(folder.path(), cut).unwrap();
            let result = write_new(&files, &path, &new);
            done = !files.is_off();
            files.restart(survival).unwrap();
            let found = std::fs::read(&path).unwrap();
            assert!(found == b"old" || found == new, "cut {cut}, {survival:?}: {} bytes", found.len());
            assert!(result.is_err() || found == new, "the committed file exists");
            StagedFolder::new(&Disk, folder.path()).remove_temporaries().unwrap();
            assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 1);
            write_new(&Disk, &path, &new).unwrap();
        }
        if done {
            break;
        }
    }
}

#[test]
fn folders_are_created_durably() {
    let folder = tempfile::tempdir().unwrap();
    let deep = folder.path().join("a/b/c");
    let files = PowerCut::over(folder.path(), u64::MAX).unwrap();
    StagedFolder::new(&files, &deep).create().unwrap();
    files.restart(Survival::Nothing).unwrap();
    assert!(deep.is_dir());
    StagedFolder::new(&Disk, &deep).create().unwrap();
    std::fs::write(folder.path().join("file"), "").unwrap();
    let inside = folder.path().join("file/x");
    assert_eq!(StagedFolder::new(&Disk, &inside).create().unwrap_err().exit_code(), 1);
}

#[test]
fn a_failed_read_is_never_taken_for_absence() {
    let folder = tempfile::tempdir().unwrap();
    let value = serde_json::json!({ "b": 1 });
    StagedFolder::new(&Disk, folder.path()).write_checksummed_unsynced("a", &value).unwrap();
    let reads: [fn(&StagedFolder<'_>) -> Result<bool>; 4] = [
        |staged| staged.read_checksummed::<serde_json::Value>("a").map(|found| found.is_some()),
        |staged| staged.has("a"),
        |staged| staged.names().map(|names| !names.is_empty()),
        |staged| staged.remove("a"),
    ];
    for read in reads {
        let files = Faulty::new(Fault::Read, 1);
        let staged = StagedFolder::new(&files, folder.path());
        assert_eq!(read(&staged).unwrap_err().exit_code(), 1);
        assert!(read(&staged).unwrap(), "only the first read fails");
        assert!(!read(&StagedFolder::new(&Disk, &folder.path().join("none"))).unwrap());
    }
}
