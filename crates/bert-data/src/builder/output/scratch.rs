//! Finds the folder that an output has in a scratch folder (`--scratch`).
//!
//! Any number of builds may share a scratch folder. Each output has a folder of its own there, with a name that is made
//! of the output's path. So a build reads and removes nothing that belongs to another output, and whoever holds the
//! output's lock owns that folder.

use std::path::{Path, PathBuf};

use crate::builder::output::work_folder::remove_text;
use crate::config::part::{Owner, owner_of};
use crate::error::{Error, Result};
use bert_storage::{StagedFolder, digest_bytes, is_url};

/// Returns the folder of an output, which exists where it is a folder on a disk. The name does not depend on links or on
/// the folder that a program runs in, but on where a machine mounts the output.
pub(crate) fn folder_in(scratch: &Path, output: &Path) -> Result<PathBuf> {
    let path = match is_url(output) {
        true => output.to_owned(),
        false => output.canonicalize().map_err(Error::io("read folder", output))?,
    };
    let whole = path.as_os_str().as_encoded_bytes();
    let whole = whole.strip_suffix(b"/").unwrap_or(whole);
    let last = path.file_name().unwrap_or_default().to_string_lossy();
    let plain: String = last.chars().filter(|c| c.is_alphanumeric() || "-_.".contains(*c)).take(40).collect();
    Ok(scratch.join(format!("{}-{}", plain.trim_start_matches('.'), &digest_bytes(whole)[..16])))
}

/// Removes the tokenized text from the folder of an output, and the folder when nothing else is in it. Only for who holds
/// the output's lock.
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
