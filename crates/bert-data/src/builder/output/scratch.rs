//! Finds the subfolder of an output in a scratch folder (`--scratch`).
//!
//! Any number of builds may share a scratch folder. Each output has its own subfolder, whose name is derived from the
//! path of the output. A build therefore never reads or removes files of another output, and the process that holds the
//! lock of the output owns the subfolder.

use std::path::{Path, PathBuf};

use bert_storage::{StagedFolder, digest_bytes, is_url};

use crate::builder::output::work_folder::remove_text;
use crate::config::part::{Owner, owner_of};
use crate::error::{Error, Result};

/// Returns the subfolder of an output, which must exist unless it is a URL. The name is independent of symbolic links
/// and of the current directory, but it depends on where a machine mounts the output.
pub(crate) fn folder_in(scratch: &Path, output: &Path) -> Result<PathBuf> {
    let path = if is_url(output) {
        output.to_owned()
    } else {
        output.canonicalize().map_err(Error::io("read folder", output))?
    };
    let whole = path.as_os_str().as_encoded_bytes();
    let whole = whole.strip_suffix(b"/").unwrap_or(whole);
    let last = path.file_name().unwrap_or_default().to_string_lossy();
    let plain: String = last.chars().filter(|c| c.is_alphanumeric() || "-_.".contains(*c)).take(40).collect();
    Ok(scratch.join(format!("{}-{}", plain.trim_start_matches('.'), &digest_bytes(whole)[..16])))
}

/// Removes the tokenized text from the subfolder of an output, and the subfolder if it is then empty. The caller must
/// hold the lock of the output.
pub(crate) fn clear_text(folder: &StagedFolder<'_>) -> Result<()> {
    for name in folder.names()? {
        if let Some(Owner::Work(_)) = owner_of(&name) {
            remove_text(&folder.inside(&name))?;
        }
    }
    folder.remove_if_empty()?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_output_has_a_folder_of_its_own() {
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name);
        for name in ["a/data", "b/data"] {
            std::fs::create_dir_all(at(name)).unwrap();
        }
        let name = |output: &Path| folder_in(Path::new("fast"), output).unwrap();
        assert_ne!(name(&at("a/data")), name(&at("b/data")));
        assert_eq!(name(&at("a/data")), name(&at("a/../a/data")));
        let url = name(Path::new("s3://bucket/wiki"));
        assert_eq!(url, name(Path::new("s3://bucket/wiki/")));
        assert!(url.to_str().unwrap().starts_with("fast/wiki-"), "{url:?}");
    }
}
