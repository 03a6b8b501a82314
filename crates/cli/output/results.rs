//! Writes the rows of a command to standard output as they are computed, or to a file that is replaced only when
//! complete.

use std::io::{BufWriter, ErrorKind, IsTerminal, Write, stdout};
use std::path::Path;

use bert_inference::Error;
use bert_storage::{AtomicFile, Disk};

use crate::output::files::make_parents;
use crate::output::terminal::VisibleWriter;

/// Calls `write` with the file at `output`, or with standard output, and returns its result. Returns `None` if the
/// reader of standard output has closed the pipe, which is not an error. A terminal shows control characters as
/// escapes; a file or a pipe receives the bytes unchanged.
pub fn write_results<T>(
    output: Option<&Path>,
    write: impl FnOnce(&mut (dyn Write + Send)) -> Result<T, Error>,
) -> anyhow::Result<Option<T>> {
    let Some(path) = output else {
        let plain: Box<dyn Write + Send> = match stdout().is_terminal() {
            true => Box::new(VisibleWriter::new(stdout())),
            false => Box::new(stdout()),
        };
        let mut out = BufWriter::with_capacity(1 << 16, plain);
        let written = write(&mut out);
        return match written.and_then(|value| out.flush().map(|()| value).map_err(Error::Results)) {
            Err(Error::Results(source)) if source.kind() == ErrorKind::BrokenPipe => Ok(None),
            other => Ok(Some(other?)),
        };
    };
    make_parents(path)?;
    let mut file = AtomicFile::create(&Disk, path)?;
    let value = write(&mut file).map_err(|error| match error {
        Error::Results(source) => Error::Io { path: path.to_path_buf(), source },
        other => other,
    })?;
    file.commit()?;
    Ok(Some(value))
}
