//! Reads the input `-`: a copy of standard input in a file, because text is read more than once.

use std::fs::File;
use std::io::{self, Seek};
use std::os::fd::AsRawFd;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use anyhow::{Context, bail};
use bert_storage::{Error, is_url};
use tempfile::TempPath;

use crate::output::progress::print_note_unless;

/// Path of the copy in this process.
static COPY: OnceLock<PathBuf> = OnceLock::new();

/// Returns a message with the name `-` in place of the path of the copy.
pub fn with_given_name(message: String) -> String {
    match COPY.get() {
        Some(copy) => message.replace(&*copy.to_string_lossy(), "-"),
        None => message,
    }
}

/// The copy of standard input. On Linux, the copy is an open file without a name, which the system removes when the
/// process ends, even if it is killed. On other systems, the copy has a name and is removed when this value is dropped.
#[derive(Debug, Default)]
pub struct StandardInput {
    _copy: Option<TextCopy>,
}

#[derive(Debug)]
struct TextCopy {
    file: File,
    path: PathBuf,
    /// The name of the file, which is removed when this value is dropped; `None` on Linux.
    _name: Option<TempPath>,
}

impl TextCopy {
    /// Creates an empty file in a folder.
    fn create(folder: &Path) -> io::Result<Self> {
        if cfg!(target_os = "linux") {
            let file = tempfile::tempfile_in(folder)?;
            let path = PathBuf::from(format!("/proc/self/fd/{}", file.as_raw_fd()));
            return Ok(Self { file, path, _name: None });
        }
        let (file, name) =
            tempfile::Builder::new().prefix(".standard-input-").tempfile_in(folder)?.into_parts();
        Ok(Self { file, path: name.to_path_buf(), _name: Some(name) })
    }
}

impl StandardInput {
    /// Replaces `-` among the inputs by a copy of standard input, and returns the copy. It is in a folder: `scratch`,
    /// else the folder that contains `output`, else the system's folder for temporary files.
    ///
    /// # Errors
    /// Fails if `-` is named twice, if standard input is empty, or if the copy cannot be written.
    pub fn copy(
        inputs: &mut [PathBuf],
        scratch: Option<&Path>,
        output: Option<&Path>,
        quiet: bool,
    ) -> anyhow::Result<Self> {
        let mut named = inputs.iter_mut().filter(|input| input.as_os_str() == "-");
        let Some(input) = named.next() else { return Ok(Self::default()) };
        if named.next().is_some() {
            bail!("-: standard input is given twice; remove one");
        }
        let here = |folder| if folder == Path::new("") { Path::new(".") } else { folder };
        let above = output.and_then(Path::parent).map(here).filter(|folder| folder.is_dir());
        let local = |folder: &&Path| !is_url(folder);
        let folder =
            scratch.filter(local).or(above.filter(local)).map_or_else(std::env::temp_dir, Path::to_owned);
        let mut copy = TextCopy::create(&folder)
            .with_context(|| format!("{}: cannot copy standard input there", folder.display()))?;
        print_note_unless(
            quiet,
            format!(
                "standard input is copied to {} first, because text is read more than once; the copy is removed afterwards",
                folder.display()
            ),
        );
        let copied = io::copy(&mut io::stdin().lock(), &mut copy.file)
            .and_then(|bytes| copy.file.rewind().map(|()| bytes));
        let bytes = copied.with_context(|| format!("{}: cannot copy standard input", folder.display()))?;
        if bytes == 0 {
            return Err(Error::data("standard input is empty").at("-").into());
        }
        copy.path.clone_into(input);
        COPY.get_or_init(|| copy.path.clone());
        Ok(Self { _copy: Some(copy) })
    }
}
