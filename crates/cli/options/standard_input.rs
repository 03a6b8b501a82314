//! Reads the input `-`: a copy of standard input in a file, because text is read more than once.

use std::io::{self, Seek};
use std::path::{Path, PathBuf};

use anyhow::{Context, bail};
use bert_storage::is_url;
use tempfile::NamedTempFile;

use crate::output::progress::print_note;

/// The copy of standard input. It is removed with this value.
#[derive(Debug, Default)]
pub struct StandardInput(Option<NamedTempFile>);

impl StandardInput {
    /// Replaces `-` among the inputs by a copy of standard input in a folder: `scratch`, else the folder that contains
    /// `output`, else the system's folder for temporary files.
    ///
    /// # Errors
    /// Fails if `-` is named twice, if it is empty, or if the copy cannot be written.
    pub fn copy(
        inputs: &mut [PathBuf],
        scratch: Option<&Path>,
        output: Option<&Path>,
        quiet: bool,
    ) -> anyhow::Result<Self> {
        let mut named = inputs.iter_mut().filter(|input| input.as_os_str() == "-");
        let Some(input) = named.next() else { return Ok(Self(None)) };
        if named.next().is_some() {
            bail!("-: standard input is given twice; remove one");
        }
        let here = |folder| if folder == Path::new("") { Path::new(".") } else { folder };
        let above = output.and_then(Path::parent).map(here).filter(|folder| folder.is_dir());
        let local = |folder: &&Path| !is_url(folder);
        let folder =
            scratch.filter(local).or(above.filter(local)).map_or_else(std::env::temp_dir, Path::to_owned);
        let builder = || tempfile::Builder::new().prefix(".standard-input-").tempfile_in(&folder);
        let mut file =
            builder().with_context(|| format!("{}: cannot copy standard input there", folder.display()))?;
        if !quiet {
            print_note(format!(
                "standard input is copied to {} first, because text is read more than once",
                file.path().display()
            ));
        }
        let copied =
            io::copy(&mut io::stdin().lock(), &mut file).and_then(|bytes| file.rewind().map(|()| bytes));
        let bytes =
            copied.with_context(|| format!("{}: cannot copy standard input", file.path().display()))?;
        if bytes == 0 {
            bail!("-: standard input is empty");
        }
        *input = file.path().to_owned();
        Ok(Self(Some(file)))
    }

    /// Returns the file, if standard input was an input.
    #[must_use]
    pub fn path(&self) -> Option<&Path> {
        self.0.as_ref().map(NamedTempFile::path)
    }
}
