//! Handles signals: the first SIGINT or SIGTERM asks the run to stop after the current step, a second SIGINT ends the
//! process at once, and SIGUSR1 asks for a checkpoint.

use std::io::Read;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use bert_inference::StopFlag;
use signal_hook::consts::{SIGINT, SIGTERM, SIGUSR1};
use signal_hook::iterator::Signals;

use crate::output::progress::print_note;

/// Environment variable by which `bert launch` asks a rank to stop at the end of its standard input.
pub const STOP_AT_END_OF_INPUT: &str = "BERT_STOP_AT_END_OF_INPUT";

/// Ignores SIGUSR1 in programs that save finished work anyway. Schedulers send it to all processes of a job some time
/// before they end the job, and it kills a process that does not handle it.
pub fn ignore_checkpoint_requests() -> anyhow::Result<()> {
    signal_hook::flag::register(SIGUSR1, Arc::default())?;
    Ok(())
}

/// Returns a stop flag that is set by the signals of the process, and by the end of `bert launch` if it has started the
/// process.
pub fn stop_on_signals() -> anyhow::Result<StopFlag> {
    stop_on_signals_after(Arc::new(AtomicBool::new(true)))
}

/// Returns a stop flag like [`stop_on_signals`], but a stop ends the process at once as long as `has_started` is false.
///
/// # Errors
/// Fails if the handlers cannot be installed.
pub fn stop_on_signals_after(has_started: Arc<AtomicBool>) -> anyhow::Result<StopFlag> {
    let stop = StopFlag::new();
    let mut signals = Signals::new([SIGINT, SIGTERM, SIGUSR1])?;
    let flag = stop.clone();
    let started = Arc::clone(&has_started);
    std::thread::spawn(move || {
        for signal in signals.forever() {
            match signal {
                SIGUSR1 => flag.request_checkpoint(),
                signal if !started.load(Ordering::Relaxed) => std::process::exit(128 + signal),
                SIGINT if flag.requested().is_some() => {
                    print_note("stopped at once; a checkpoint that was saved before is intact");
                    std::process::exit(130);
                }
                signal => {
                    print_note("stopping after this step; press Ctrl-C again to stop at once");
                    flag.request(signal);
                }
            }
        }
    });
    if std::env::var_os(STOP_AT_END_OF_INPUT).is_some() {
        let flag = stop.clone();
        std::thread::spawn(move || {
            // An error counts as the end of the input too, because nobody writes to this pipe.
            let _ = std::io::stdin().read(&mut [0]);
            if !has_started.load(Ordering::Relaxed) {
                std::process::exit(128 + SIGTERM);
            }
            flag.request(SIGTERM);
        });
    }
    Ok(stop)
}
