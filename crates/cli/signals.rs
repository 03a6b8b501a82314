//! Handles signals: the first SIGINT or SIGTERM asks the run to stop after the current step, a second SIGINT ends the
//! process at once, and SIGUSR1 asks for a checkpoint.

use bert_trainer::StopFlag;
use signal_hook::consts::{SIGINT, SIGTERM, SIGUSR1};
use signal_hook::iterator::Signals;

use crate::progress::say;

/// A stop flag that the process's signals set.
///
/// # Errors
/// When the handlers cannot be installed.
pub fn stop_on_signals() -> anyhow::Result<StopFlag> {
    let stop = StopFlag::new();
    let mut signals = Signals::new([SIGINT, SIGTERM, SIGUSR1])?;
    let flag = stop.clone();
    std::thread::spawn(move || {
        for signal in signals.forever() {
            match signal {
                SIGUSR1 => flag.request_checkpoint(),
                SIGINT if flag.requested().is_some() => {
                    say("stopped at once; the last checkpoint is intact");
                    std::process::exit(130);
                }
                signal => {
                    say("stopping after this step; press Ctrl-C again to stop at once");
                    flag.request(signal);
                }
            }
        }
    });
    Ok(stop)
}
