//! Writes the rows of a command to standard output as they are computed, or to an output that the user names.

use std::io::{BufWriter, ErrorKind, IsTerminal, Write, stdout};

use bert_inference::results_not_written;
use bert_storage::{Error, OutputFile};

use crate::output::files::with_remedy;
use crate::output::status_line;
use crate::output::terminal::VisibleWriter;

/// Calls `write` with the output, or with standard output, and returns its result. Returns `None` if the reader of a
/// pipe has closed it, which is not an error. A terminal shows control characters as escapes; a file or a pipe
/// receives the bytes unchanged.
pub fn write_results<T>(
    output: Option<&OutputFile>,
    write: impl FnOnce(&mut (dyn Write + Send)) -> Result<T, Error>,
) -> anyhow::Result<Option<T>> {
    let written = match output {
        Some(output) => write_output(output, write),
        None => write_stdout(write),
    };
    match written {
        Err(error) if error.io_kind() == Some(ErrorKind::BrokenPipe) => Ok(None),
        Err(error) => Err(with_remedy(error)),
        Ok(value) => Ok(Some(value)),
    }
}

fn write_stdout<T>(write: impl FnOnce(&mut (dyn Write + Send)) -> Result<T, Error>) -> Result<T, Error> {
    let plain: Box<dyn Write + Send> = if stdout().is_terminal() {
        status_line::close();
        Box::new(VisibleWriter::new(stdout()))
    } else {
        Box::new(stdout())
    };
    let mut out = BufWriter::with_capacity(1 << 16, plain);
    let value = write(&mut out)?;
    out.flush().map_err(results_not_written)?;
    Ok(value)
}

fn write_output<T>(
    output: &OutputFile,
    write: impl FnOnce(&mut (dyn Write + Send)) -> Result<T, Error>,
) -> Result<T, Error> {
    let mut writer = output.begin()?;
    let value = write(&mut writer)?;
    writer.commit()?;
    Ok(value)
}
