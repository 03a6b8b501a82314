//! Sends the log of a run to another program, as JSON Lines on its standard input.

use std::io::{self, Write};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Receiver, SyncSender, TrySendError, sync_channel};
use std::thread::JoinHandle;

use anyhow::Context;
use serde_json::Value;

/// Maximum number of lines that wait for the program; when it is slower, lines are dropped.
const QUEUE: usize = 10_000;

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
        let mut command = shell(line);
        command.stdin(Stdio::piped()).stdout(stderr()?);
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
    /// When the program has ended.
    pub(super) fn send(&mut self, record: &Value) -> anyhow::Result<()> {
        match self.lines.as_ref().map(|lines| lines.try_send(format!("{record}\n"))) {
            Some(Err(TrySendError::Full(_))) => self.dropped += 1,
            Some(Err(TrySendError::Disconnected(_))) => anyhow::bail!("the program has ended"),
            Some(Ok(())) | None => {}
        }
        Ok(())
    }

    /// Closes the program's input and waits until it ends. Returns a warning if lines were lost or it failed.
    pub(super) fn finish(mut self) -> Option<String> {
        drop(self.lines.take());
        let written = self.writer.take().map(JoinHandle::join);
        let ended = self.child.wait();
        match (written, ended) {
            (_, Ok(status)) if !status.success() => Some(format!("--log-command ended with {status}")),
            (_, Err(error)) => Some(format!("--log-command: {error}")),
            (Some(Ok(Err(error))), _) => Some(format!("--log-command did not read everything: {error}")),
            _ if self.dropped > 0 => {
                Some(format!("--log-command was too slow: {} lines were dropped", self.dropped))
            }
            _ => None,
        }
    }
}

#[cfg(unix)]
fn shell(line: &str) -> Command {
    use std::os::unix::process::CommandExt;
    let mut command = Command::new("sh");
    // A group of its own: Ctrl-C stops the training first, and the program sees the end of its input.
    command.arg("-c").arg(line).process_group(0);
    command
}

#[cfg(not(unix))]
fn shell(line: &str) -> Command {
    let mut command = Command::new("cmd");
    command.arg("/C").arg(line);
    command
}

#[cfg(unix)]
fn stderr() -> anyhow::Result<Stdio> {
    use std::os::fd::AsFd;
    Ok(io::stderr().as_fd().try_clone_to_owned()?.into())
}

#[cfg(not(unix))]
fn stderr() -> anyhow::Result<Stdio> {
    Ok(Stdio::null())
}
