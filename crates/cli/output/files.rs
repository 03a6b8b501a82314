//! Files that the user names as output, and files in the folders of the programs.

use std::path::Path;
use std::sync::Once;

use anyhow::Context;
use bert_storage::{
    Class, Disk, Error, Existing, OutputFile, StagedFolder, check_writable, remove_unfinished_outputs,
    write_atomic,
};
use clap::Args;

use crate::output::signals::end_on_signals;

/// The flag of all commands that write a file.
#[derive(Args, Clone, Copy, Debug)]
pub struct OverwriteArgs {
    /// Replace an output file that exists.
    #[arg(long)]
    pub overwrite: bool,
}

impl OverwriteArgs {
    /// Returns the output with this path, and checks that it can be written, before the work for it begins. Creates
    /// its parent folders. From now on, a signal that ends the process removes unfinished outputs.
    ///
    /// # Errors
    /// Fails as [`OutputFile::new`] does.
    pub fn output(self, path: &Path) -> anyhow::Result<OutputFile> {
        static HANDLER: Once = Once::new();
        let mut installed = Ok(());
        HANDLER.call_once(|| installed = end_on_signals(remove_unfinished_outputs));
        installed?;
        let existing = if self.overwrite { Existing::Replace } else { Existing::Keep };
        OutputFile::new(path, existing).map_err(with_remedy)
    }
}

/// Checks that an output folder is new or empty and can be written, before the work for it begins.
///
/// # Errors
/// Fails when the folder has files, with `hint` as the remedy, or when it cannot be read or written.
pub fn check_new_folder(path: &Path, hint: &'static str) -> anyhow::Result<()> {
    if !StagedFolder::new(&Disk, path).names()?.is_empty() {
        return Err(bert_training::output_exists(path, "other files", hint).into());
    }
    Ok(check_writable(&Disk, path)?)
}

/// Returns the error about an existing file with a remedy: the flag that replaces the file. Other errors are
/// unchanged.
pub fn with_remedy(error: Error) -> anyhow::Error {
    if error.class() == Class::Exists {
        return anyhow::anyhow!("{error}; replace it with --overwrite or choose another name");
    }
    error.into()
}

/// Writes the whole text of an output.
///
/// # Errors
/// Fails as [`OutputFile::write`] does.
pub fn write_text(output: &OutputFile, text: &str) -> anyhow::Result<()> {
    output.write(|out| out.write_all(text.as_bytes())).map_err(with_remedy)
}

/// Writes a text file in an output folder of the program, and creates its parent folders.
///
/// # Errors
/// Fails as [`write_atomic`] does.
pub fn write_own_file(path: &Path, text: &str) -> anyhow::Result<()> {
    let folder = path.parent().unwrap_or(path);
    std::fs::create_dir_all(folder).with_context(|| format!("cannot create {}", folder.display()))?;
    write_atomic(path, |out| out.write_all(text.as_bytes()))?;
    Ok(())
}
