//! The cache of the Hub. Each repository has a folder `models--OWNER--NAME` or `datasets--OWNER--NAME`, which contains
//! the files, named by their digests (`blobs`), a folder of links to them for each commit (`snapshots`), and the
//! commits of branches and tags (`refs`).

use std::fs;
use std::path::{Path, PathBuf};

use crate::files::needed_files;
use crate::name::{Name, is_commit};

/// Folder of this crate in the cache. It lists the files of each commit that was downloaded completely.
const COMPLETE: &str = ".bert";

/// The folder of a repository in the cache, and the requested name.
pub(crate) struct Cache<'a> {
    pub(crate) folder: PathBuf,
    pub(crate) name: &'a Name,
}

impl<'a> Cache<'a> {
    /// Returns the folder of the named repository in the cache at the path `cache`.
    pub(crate) fn new(cache: &Path, name: &'a Name) -> Self {
        let kind = if name.is_data { "datasets" } else { "models" };
        Self { folder: cache.join(format!("{kind}--{}", name.id.replace('/', "--"))), name }
    }

    /// Returns the commit of the revision: the revision itself if it is a commit, else the commit that the cache
    /// records for it.
    pub(crate) fn commit(&self) -> Option<String> {
        let Self { folder, name } = self;
        name.commit().map(str::to_string).or_else(|| commit_of(folder, name.revision()))
    }

    /// Returns the folder of a commit, which may not exist.
    pub(crate) fn snapshot(&self, commit: &str) -> PathBuf {
        self.folder.join("snapshots").join(commit)
    }

    /// Returns the path of the list of the needed files of a commit. The list exists if all of them have been
    /// downloaded.
    pub(crate) fn list(&self, commit: &str) -> PathBuf {
        let path = &self.name.path;
        let digest = bert_storage::digest_bytes(path.as_bytes());
        let end = if path.is_empty() { String::new() } else { format!("-{}", &digest[..16]) };
        self.folder.join(COMPLETE).join(format!("{commit}{end}"))
    }

    /// Returns whether all needed files of a commit were downloaded by this crate and still exist. If the name is the
    /// path of a single file, no list is needed.
    pub(crate) fn is_complete(&self, commit: &str) -> bool {
        let snapshot = self.snapshot(commit);
        let list = fs::read_to_string(self.list(commit));
        snapshot.join(&self.name.path).is_file()
            || list.is_ok_and(|files| files.lines().all(|file| snapshot.join(file).is_file()))
    }

    /// Returns whether a commit has files that another program may have downloaded: the configuration and weights of a
    /// model, or the folder of a data set, in which some files may be missing.
    pub(crate) fn is_usable(&self, commit: &str) -> bool {
        let snapshot = self.snapshot(commit);
        if self.name.is_data {
            let Name { path, .. } = self.name;
            return snapshot
                .join(self.name.before_pattern().map_or(&**path, |_| self.name.folder()))
                .is_dir();
        }
        let entries = fs::read_dir(snapshot).into_iter().flatten();
        let names: Vec<String> =
            entries.filter_map(|entry| entry.ok()?.file_name().into_string().ok()).collect();
        needed_files(&names.iter().map(String::as_str).collect::<Vec<_>>()).is_ok()
    }
}

/// Returns the name of a path in a cache that belongs to a commit of a data set:
/// `hf://datasets/OWNER/NAME@COMMIT/PATH`, which is the same on any computer. Returns `None` for other paths.
pub fn name_of_cached(path: &Path) -> Option<String> {
    let (id, rest) = path.to_str()?.rsplit_once("/datasets--")?.1.split_once("/snapshots/")?;
    let (commit, path) = rest.split_once('/').unwrap_or((rest, ""));
    is_commit(commit).then(|| format!("hf://datasets/{}@{commit}/{path}", id.replacen("--", "/", 1)))
}

/// Returns the folder of the newest version in a folder `models--OWNER--NAME` of a cache: the commit of `main`, or the
/// only commit. Returns `None` for other folders.
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

    #[test]
    fn cached_files_of_data_sets_have_names() {
        let path = format!("/home/u/hub/datasets--a--b-c/snapshots/{COMMIT}/x/*.txt");
        let name = format!("hf://datasets/a/b-c@{COMMIT}/x/*.txt");
        assert_eq!(name_of_cached(Path::new(&path)), Some(name));
        let whole = format!("/hub/datasets--a--b/snapshots/{COMMIT}");
        assert_eq!(name_of_cached(Path::new(&whole)), Some(format!("hf://datasets/a/b@{COMMIT}/")));
        for path in [
            "a/b.txt".to_string(),
            format!("/hub/models--a--b/snapshots/{COMMIT}/x"),
            "/hub/datasets--a--b/snapshots/main/x".to_string(),
        ] {
            assert_eq!(name_of_cached(Path::new(&path)), None, "{path}");
        }
    }
}
