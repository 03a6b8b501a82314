//! Shows that a command is running: after two seconds, prints its name and the elapsed time, and at the end the whole
//! time.

use std::sync::mpsc::{RecvTimeoutError, channel};
use std::time::{Duration, Instant};

use crate::output::progress::{Progress, duration, print_stderr};
use crate::output::status_line;

/// Time before the clock is shown.
const SILENT: Duration = Duration::from_secs(2);
/// Time between two drawings.
const TICK: Duration = Duration::from_millis(500);

/// Runs `work`, shows the clock if it takes long, and returns its result.
pub fn with_clock<T>(title: &str, work: impl FnOnce() -> anyhow::Result<T>) -> anyhow::Result<T> {
    let started = Instant::now();
    let (end, ended) = channel::<()>();
    let name = title.to_string();
    let clock = std::thread::spawn(move || {
        let mut progress = Progress::new(&name, 0, false);
        let mut wait = SILENT;
        while ended.recv_timeout(wait) == Err(RecvTimeoutError::Timeout) {
            progress.set(started.elapsed().as_secs(), "s");
            wait = TICK;
        }
    });
    let result = work();
    drop(end);
    // The result can be discarded, because the clock's thread does not panic.
    let _ = clock.join();
    let elapsed = started.elapsed();
    if result.is_ok() && elapsed > SILENT && status_line::is_available() {
        print_stderr(&format!("done in {}", duration(elapsed.as_secs_f64())));
    }
    result
}
