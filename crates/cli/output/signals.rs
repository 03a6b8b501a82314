//! Ends the process on a signal, after the terminal is restored or incomplete files are removed.

use signal_hook::consts::{SIGINT, SIGTERM};
use signal_hook::iterator::Signals;

/// Ends the process at the first SIGINT or SIGTERM, after a call of `last`.
///
/// # Errors
/// Fails if the handlers cannot be installed.
pub fn end_on_signals(last: impl FnOnce() + Send + 'static) -> anyhow::Result<()> {
    let mut signals = Signals::new([SIGINT, SIGTERM])?;
    std::thread::spawn(move || {
        if let Some(signal) = signals.forever().next() {
            last();
            std::process::exit(128 + signal);
        }
    });
    Ok(())
}
