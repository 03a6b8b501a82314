//! Shows the progress of downloads from the Hugging Face Hub.

use bert_hub::Event;

use crate::output::progress::{Progress, print_note};

/// Calls a function that may download files, and shows their progress; returns its result. `name` returns the name of
/// the result for the last message.
pub fn with_download<T, E>(
    quiet: bool,
    name: impl FnOnce(&T) -> String,
    get: impl FnOnce(&mut dyn FnMut(Event)) -> Result<T, E>,
) -> Result<T, E> {
    let mut progress = Progress::percent("download", 0, quiet);
    let mut size = 0;
    let got = get(&mut |event| match event {
        Event::Progress { done, total } => {
            size = total;
            progress.set_total(total);
            progress.set(done, &format!("of {}", megabytes(total)));
        }
        Event::Note(text) => print_note(text),
        _ => {}
    })?;
    drop(progress);
    if size > 0 && !quiet {
        print_note(format!("downloaded {} ({})", name(&got), megabytes(size)));
    }
    Ok(got)
}

fn megabytes(bytes: u64) -> String {
    format!("{:.1} MB", bytes as f64 / 1e6)
}
