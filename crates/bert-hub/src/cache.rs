//! The cache of the Hub: for each model a folder `models--OWNER--NAME` with the files by digest (`blobs`), a folder of
//! links to them for each commit (`snapshots`), and the commits of branches and tags (`refs`).

use std::fs;
use std::path::{Path, PathBuf};

use crate::files::needed_files;
use crate::name::{ModelName, is_commit};

/// Folder of this crate, with a list of the needed files of each commit that was downloaded completely.
const COMPLETE: &str = ".bert";

/// The folder of a model in the cache.
pub(crate) struct ModelCache {
    pub(crate) folder: PathBuf,
}

impl ModelCache {
    /// Returns the folder of a model in the folder of the cache.
    pub(crate) fn new(cache: &Path, name: &ModelName) -> Self {
        Self { folder: cache.join(folder_name(name)) }
    }

    /// Returns the commit of a version, as far as the cache knows it.
    pub(crate) fn commit(&self, name: &ModelName) -> Option<String> {
        name.commit().map(str::to_string).or_else(|| commit_of(&self.folder, name.revision()))
    }

    /// Returns the folder of a commit, which may not exist.
    pub(crate) fn snapshot(&self, commit: &str) -> PathBuf {
        self.folder.join("snapshots").join(commit)
    }

    /// Returns the file with the names of the needed files of a commit that was downloaded completely.
    pub(crate) fn list(&self, commit: &str) -> PathBuf {
        self.folder.join(COMPLETE).join(commit)
    }

    /// Returns whether all needed files of a commit were downloaded by this crate, and are there.
    pub(crate) fn is_complete(&self, commit: &str) -> bool {
        let list = fs::read_to_string(self.list(commit));
        list.is_ok_and(|files| files.lines().all(|file| self.snapshot(commit).join(file).is_file()))
    }

    /// Returns whether a commit has a configuration and weights, as another program may have left them.
    pub(crate) fn is_usable(&self, commit: &str) -> bool {
        let entries = fs::read_dir(self.snapshot(commit)).into_iter().flatten();
        let names: Vec<String> =
            entries.filter_map(|entry| entry.ok()?.file_name().into_string().ok()).collect();
        needed_files(&names.iter().map(String::as_str).collect::<Vec<_>>()).is_ok()
    }
}

/// Returns the newest version in a folder `models--OWNER--NAME` of a cache: the commit of `main`, or the only one. `None`
/// for other folders.
pub fn snapshot(folder: &Path) -> Option<PathBuf> {
    folder.file_name()?.to_str()?.strip_prefix("models--")?;
    let snapshots = folder.join("snapshots");
    if let Some(commit) = commit_of(folder, "main") {
        return Some(snapshots.join(commit)).filter(|path| path.is_dir());
    }
    let mut entries = fs::read_dir(&snapshots).ok()?.filter_map(Result::ok);
    let only = entries.next()?.path();
    entries.next().is_none().then_some(only)
}

fn folder_name(name: &ModelName) -> String {
    format!("models--{}", name.id().replace('/', "--"))
}

/// Returns the commit that a folder records for a branch or tag.
pub(crate) fn commit_of(folder: &Path, revision: &str) -> Option<String> {
    let text = fs::read_to_string(folder.join("refs").join(revision)).ok()?;
    Some(text.trim().to_string()).filter(|text| is_commit(text))
}

#[cfg(test)]
mod tests {
    use super::*;

    const COMMIT: &str = "0123456789abcdef0123456789abcdef01234567";

    #[test]
    fn folders_of_the_cache_are_recognized() {
        let folder = tempfile::tempdir().unwrap();
        let model = folder.path().join("models--x--y");
        let only = model.join("snapshots").join(COMMIT);
        fs::create_dir_all(&only).unwrap();
        assert_eq!(snapshot(&model).unwrap(), only);
        fs::create_dir(model.join("snapshots/other")).unwrap();
        assert_eq!(snapshot(&model), None);
        fs::create_dir(model.join("refs")).unwrap();
        fs::write(model.join("refs/main"), COMMIT).unwrap();
        assert_eq!(snapshot(&model).unwrap(), only);
        fs::write(model.join("refs/main"), "../../..").unwrap();
        assert_eq!(snapshot(&model), None);
        assert_eq!(snapshot(folder.path()), None);
    }
}
