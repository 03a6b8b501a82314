//! Sends the log of a run to another program, as JSON Lines on its standard input.

use std::io::{self, Write};
use std::os::fd::AsFd;
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::mpsc::{Receiver, SyncSender, TrySendError, sync_channel};
use std::thread::{JoinHandle, sleep};
use std::time::{Duration, Instant};

use anyhow::Context;
use bert_inference::StopFlag;
use serde_json::Value;

use crate::output::progress::print_note;

/// Maximum number of lines that wait for the program; when it is slower, lines are dropped.
const QUEUE: usize = 10_000;
/// Maximum time that the program has to end after the end of its input.
const LIMIT: Duration = Duration::from_secs(60);
/// Maximum time that the program has after a signal has asked the run to stop.
const LIMIT_OF_STOP: Duration = Duration::from_secs(5);
/// Maximum time that a program has if it closed its input during the run.
const LIMIT_OF_CLOSED: Duration = Duration::from_secs(1);
/// Time after which the wait is shown.
const SILENT: Duration = Duration::from_secs(10);
/// Time between two checks of the program.
const TURN: Duration = Duration::from_millis(20);

/// A running program.
pub(super) struct LogCommand {
    child: Child,
    lines: Option<SyncSender<String>>,
    writer: Option<JoinHandle<io::Result<()>>>,
    dropped: u64,
}

impl LogCommand {
    /// Starts a command line in a shell. Its output goes to standard error.
    pub(super) fn start(line: &str) -> anyhow::Result<Self> {
        let mut command = Command::new("sh");
        // The program has a process group of its own: Ctrl-C stops the training first, and then the program's input ends.
        command.arg("-c").arg(line).process_group(0);
        command.stdin(Stdio::piped()).stdout(io::stderr().as_fd().try_clone_to_owned()?);
        let mut child = command.spawn().context("--log-command: the shell does not start")?;
        let mut input = child.stdin.take().expect("piped");
        let (lines, queue): (_, Receiver<String>) = sync_channel(QUEUE);
        let writer = std::thread::spawn(move || {
            queue.iter().try_for_each(|line| input.write_all(line.as_bytes()).and_then(|()| input.flush()))
        });
        Ok(Self { child, lines: Some(lines), writer: Some(writer), dropped: 0 })
    }

    /// Adds a record without waiting.
    ///
    /// # Errors
    /// Fails when the program has ended.
    pub(super) fn send(&mut self, record: &Value) -> anyhow::Result<()> {
        match self.lines.as_ref().map(|lines| lines.try_send(format!("{record}\n"))) {
            Some(Err(TrySendError::Full(_))) => self.dropped += 1,
            Some(Err(TrySendError::Disconnected(_))) => anyhow::bail!("the program has ended"),
            Some(Ok(())) | None => {}
        }
        Ok(())
    }

    /// Closes the program's input and waits until the program ends, for at most a minute, and at most five seconds
    /// after a request to stop. Kills the program after this time. Returns a warning if lines were lost, or if the
    /// program failed or was killed.
    pub(super) fn finish(self, stop: &StopFlag) -> Option<String> {
        self.finish_within(|| if stop.requested().is_some() { LIMIT_OF_STOP } else { LIMIT })
    }

    /// Ends a program that no longer reads its input. Returns the reason as text.
    pub(super) fn finish_closed(self) -> String {
        self.finish_within(|| LIMIT_OF_CLOSED)
            .unwrap_or_else(|| "--log-command has closed its input".to_string())
    }

    fn finish_within(mut self, limit: impl Fn() -> Duration) -> Option<String> {
        drop(self.lines.take());
        let ended = match wait_within(&mut self.child, &limit) {
            Err(error) => return Some(format!("--log-command: {error}")),
            Ok(None) => {
                kill_group(&mut self.child);
                let seconds = limit().as_secs();
                return Some(format!(
                    "--log-command did not end within {seconds} s after the end of its input and was killed"
                ));
            }
            Ok(Some(status)) => status,
        };
        // A descendant of the program may still hold the pipe, and then the writer does not end.
        let deadline = Instant::now() + LIMIT_OF_CLOSED;
        while self.writer.as_ref().is_some_and(|writer| !writer.is_finished()) && Instant::now() < deadline {
            sleep(TURN);
        }
        let writer = self.writer.take().filter(JoinHandle::is_finished);
        match writer.map(JoinHandle::join) {
            _ if !ended.success() => Some(format!("--log-command ended with {ended}")),
            Some(Ok(Err(error))) => Some(format!("--log-command did not read everything: {error}")),
            _ if self.dropped > 0 => {
                Some(format!("--log-command was too slow: {} lines were dropped", self.dropped))
            }
            _ => None,
        }
    }
}

/// Waits until a program ends, and shows the wait if it is long. Returns `None` after the limit, which may become shorter
/// during the wait.
fn wait_within(child: &mut Child, limit: impl Fn() -> Duration) -> io::Result<Option<ExitStatus>> {
    let started = Instant::now();
    let mut is_shown = false;
    loop {
        if let Some(status) = child.try_wait()? {
            return Ok(Some(status));
        }
        let elapsed = started.elapsed();
        if elapsed >= limit() {
            return Ok(None);
        }
        if elapsed >= SILENT && !is_shown {
            is_shown = true;
            print_note(format!("waiting for --log-command to end, at most {} s", limit().as_secs()));
        }
        sleep(TURN);
    }
}

/// Kills a program with its descendants.
fn kill_group(child: &mut Child) {
    if let Some(group) = rustix::process::Pid::from_raw(child.id() as i32) {
        let _ = rustix::process::kill_process_group(group, rustix::process::Signal::KILL);
    }
    let _ = child.kill();
    let _ = child.wait();
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the warning about a command that gets one line and has 200 ms to end.
    fn warning(line: &str) -> Option<String> {
        let mut command = LogCommand::start(line).unwrap();
        command.send(&serde_json::json!({ "step": 1 })).unwrap();
        command.finish_within(|| Duration::from_millis(200))
    }

    #[test]
    fn command_that_never_ends_is_killed() {
        let started = Instant::now();
        for line in ["sleep 1000", "cat > /dev/null; sleep 1000", "trap '' TERM; sleep 1000 | cat"] {
            let warning = warning(line).unwrap();
            assert!(warning.ends_with("after the end of its input and was killed"), "{line}: {warning}");
        }
        assert!(started.elapsed() < Duration::from_secs(10));
    }

    #[test]
    fn command_that_ends_gives_no_warning() {
        assert_eq!(warning("cat > /dev/null"), None);
    }
}
