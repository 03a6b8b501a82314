//! Writes the rows of a command to standard output as they are computed, or to an output that the user names.

use std::io::{BufWriter, ErrorKind, IsTerminal, Write, stdout};

use bert_inference::Error::{Results, Storage};
use bert_storage::OutputFile;
use bert_training::Error;

use crate::output::files::with_remedy;
use crate::output::status_line;
use crate::output::terminal::VisibleWriter;

/// Calls `write` with the output, or with standard output, and returns its result. Returns `None` if the reader of a
/// pipe has closed it, which is not an error. A terminal shows control characters as escapes; a file or a pipe
/// receives the bytes unchanged.
pub fn write_results<T, E: Into<Error>>(
    output: Option<&OutputFile>,
    write: impl FnOnce(&mut (dyn Write + Send)) -> Result<T, E>,
) -> anyhow::Result<Option<T>> {
    let write = |out: &mut (dyn Write + Send)| write(out).map_err(E::into);
    let written = match output {
        Some(output) => write_output(output, write),
        None => write_stdout(write),
    };
    match written {
        Err(Error::Inference(Results(source))) if source.kind() == ErrorKind::BrokenPipe => Ok(None),
        Err(Error::Inference(Storage(error))) => Err(with_remedy(error)),
        other => Ok(Some(other?)),
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
    out.flush().map_err(Results)?;
    Ok(value)
}

fn write_output<T>(
    output: &OutputFile,
    write: impl FnOnce(&mut (dyn Write + Send)) -> Result<T, Error>,
) -> Result<T, Error> {
    let mut writer = output.begin()?;
    let value = write(&mut writer).map_err(|error| match error {
        Error::Inference(Results(source)) if source.kind() != ErrorKind::BrokenPipe => {
            writer.failed(source).into()
        }
        other => other,
    })?;
    writer.commit()?;
    Ok(value)
}
