//! `bert launch` runs `pretrain` in several processes on this machine.

use std::ffi::OsString;
use std::io::{BufRead, BufReader};
use std::net::TcpListener;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, ExitStatus, Stdio, exit};
use std::thread::{available_parallelism, sleep};
use std::time::{Duration, Instant};

use anyhow::{Context, bail};
use bert_collectives::MAX_RANKS;
use clap::CommandFactory;
use clap::builder::RangedU64ValueParser;
use rustix::process::{Pid, Signal, kill_process};
use signal_hook::consts::{SIGINT, SIGTERM, SIGUSR1};
use signal_hook::iterator::Signals;

use super::pretrain;
use crate::options::saved_config::{Program, parse_line};
use crate::output::progress::{print_note, print_stderr};
use crate::process::signals::STOP_AT_END_OF_INPUT;

/// Exit code of a program that may succeed when it is started again.
const RETRY: i32 = 75;
/// Time between two checks of the ranks.
const TURN: Duration = Duration::from_millis(50);
/// Time that the other ranks have to end after one has failed.
const GRACE: Duration = Duration::from_secs(30);
/// Pause before the first restart. The pause doubles with each further restart, up to [`MAX_PAUSE`].
const FIRST_PAUSE: Duration = Duration::from_secs(1);
const MAX_PAUSE: Duration = Duration::from_secs(60);

/// Run pretrain in several processes on this machine.
///
/// The result is the same as in one process. The processor cores are divided among the processes (ranks). Rank 0
/// prints its progress and the result; errors of the others have their rank in front. SIGINT, SIGTERM and SIGUSR1 are
/// passed on to all ranks.
#[derive(clap::Args, Debug)]
#[command(after_help = "Examples:
  bert launch --processes 4 -- pretrain --data data --model mini --steps 10000 \\
      --batch-size 32 --gradient-accumulation-steps 4 --output run
  bert launch --processes 2 --restarts 5 -- pretrain --config run --resume")]
pub struct Args {
    /// Number of processes; it must divide --gradient-accumulation-steps.
    #[arg(long, value_name = "N", value_parser = RangedU64ValueParser::<usize>::new().range(1..=MAX_RANKS as u64))]
    processes: usize,

    /// Maximum number of new starts, with --resume, after a rank was killed or ended with exit code 75. The pauses before
    /// them are 1, 2, 4 seconds and so on, at most a minute.
    #[arg(long, value_name = "R", default_value_t = 0)]
    restarts: u32,

    /// `pretrain` and its flags, after `--`.
    #[arg(last = true, required = true, value_name = "COMMAND")]
    command: Vec<OsString>,
}

/// Runs the command. Exits the process with the exit code of the run.
///
/// # Errors
/// Fails if a process cannot be started.
pub fn run(args: &Args) -> anyhow::Result<()> {
    if args.command[0] != "pretrain" {
        let text = format!(
            "bert launch runs pretrain, not {}: write `-- pretrain` and its flags, without a path\n",
            args.command[0].display()
        );
        return Err(clap::Error::raw(clap::error::ErrorKind::InvalidValue, text).into());
    }
    // Parse the flags here too, so that a usage error is reported once and not by each rank.
    let command = pretrain::Args::command().bin_name("pretrain");
    let output = parse_line::<pretrain::Args>(command, args.command.clone())?.config.output;
    let mut signals = Signals::new([SIGINT, SIGTERM, SIGUSR1])?;
    let mut left = args.restarts;
    loop {
        let flags = with_resume(&args.command[1..], &output, left < args.restarts);
        let ended = Ranks::start(args.processes, &flags)?.wait(&mut signals)?;
        if ended.code != RETRY || ended.is_stopping || left == 0 {
            exit(ended.code);
        }
        left -= 1;
        let number = args.restarts - left;
        let pause = pause_before(number);
        let seconds = pause.as_secs();
        let reason = ended.reason;
        print_note(format!(
            "{reason}; starting all ranks again in {seconds} s ({number} of {})",
            args.restarts
        ));
        if let Some(signal) = signal_within(&mut signals, pause) {
            exit(128 + signal);
        }
    }
}

/// Returns the pause before a new start, numbered from 1.
fn pause_before(number: u32) -> Duration {
    FIRST_PAUSE.saturating_mul(1 << (number - 1).min(16)).min(MAX_PAUSE)
}

/// Sleeps, and returns the signal that asks this process to stop, if one comes.
fn signal_within(signals: &mut Signals, pause: Duration) -> Option<i32> {
    let end = Instant::now() + pause;
    while Instant::now() < end {
        sleep(TURN);
        if let Some(signal) = signals.pending().find(|&signal| signal != SIGUSR1) {
            return Some(signal);
        }
    }
    None
}

/// Returns the flags of a new start. Without `run.json` there is nothing to resume.
fn with_resume(flags: &[OsString], output: &Path, is_restart: bool) -> Vec<OsString> {
    let mut flags = flags.to_vec();
    let has_run = output.join(pretrain::Args::SAVED_AS).exists();
    if is_restart && has_run && !flags.iter().any(|flag| flag == "--resume") {
        flags.push("--resume".into());
    }
    flags
}

/// The running ranks. They are killed when this value is dropped.
struct Ranks {
    children: Vec<Child>,
    ended: Vec<Option<ExitStatus>>,
    /// The standard inputs of the ranks. A rank stops when its standard input ends, which also happens if this process
    /// is killed.
    _inputs: Vec<ChildStdin>,
}

/// The result of a run, when all ranks have ended.
struct Ended {
    code: i32,
    /// The reason for the end as text; empty if no rank failed.
    reason: String,
    /// Whether a signal has asked this process to stop.
    is_stopping: bool,
}

impl Ranks {
    fn start(processes: usize, flags: &[OsString]) -> anyhow::Result<Self> {
        let program = std::env::current_exe().context("cannot find this program")?;
        let port = TcpListener::bind("127.0.0.1:0")?.local_addr()?.port();
        let token: String = random_bytes()?.iter().map(|byte| format!("{byte:02x}")).collect();
        let threads = (available_parallelism().map_or(1, usize::from) / processes).max(1);
        let mut ranks = Self { children: Vec::new(), ended: Vec::new(), _inputs: Vec::new() };
        for rank in 0..processes {
            let mut command = rank_command(&program, flags, rank, processes);
            command.env("BERT_MASTER_PORT", port.to_string()).env("BERT_GROUP_TOKEN", &token);
            if std::env::var_os("RAYON_NUM_THREADS").is_none() {
                command.env("RAYON_NUM_THREADS", threads.to_string());
            }
            let mut child = command.spawn().context("cannot start a rank")?;
            ranks._inputs.extend(child.stdin.take());
            if let Some(errors) = child.stderr.take() {
                std::thread::spawn(move || print_labelled(rank, BufReader::new(errors)));
            }
            ranks.children.push(child);
            ranks.ended.push(None);
        }
        Ok(ranks)
    }

    /// Passes signals on to the ranks until all have ended.
    fn wait(mut self, signals: &mut Signals) -> anyhow::Result<Ended> {
        let mut first = None;
        let mut deadline = None::<Instant>;
        let mut is_stopping = false;
        while self.ended.iter().any(Option::is_none) {
            sleep(TURN);
            for signal in signals.pending() {
                is_stopping |= signal != SIGUSR1;
                self.send(signal);
            }
            for rank in 0..self.children.len() {
                if self.ended[rank].is_some() {
                    continue;
                }
                let Some(status) = self.children[rank].try_wait()? else { continue };
                self.ended[rank] = Some(status);
                if !status.success() {
                    first.get_or_insert(rank);
                }
                // A stop sets no deadline, because rank 0 may need a long time to write its checkpoint.
                if !matches!(status.code(), Some(0 | 130 | 143)) {
                    deadline.get_or_insert(Instant::now() + GRACE);
                }
            }
            if deadline.is_some_and(|deadline| Instant::now() > deadline) {
                self.kill();
            }
        }
        let statuses: Vec<ExitStatus> = self.ended.iter().copied().flatten().collect();
        Ok(Ended { code: common_code(&statuses, first), reason: reason(&statuses, first), is_stopping })
    }

    fn send(&self, signal: i32) {
        for (child, ended) in self.children.iter().zip(&self.ended) {
            // The id cannot belong to another process, because a child keeps its id until it is waited for. An error
            // means that the rank has just ended.
            if let (None, Some(pid), Some(signal)) =
                (ended, Pid::from_raw(child.id() as i32), Signal::from_named_raw(signal))
            {
                let _ = kill_process(pid, signal);
            }
        }
    }

    fn kill(&mut self) {
        for (child, ended) in self.children.iter_mut().zip(&self.ended) {
            if ended.is_none() {
                let _ = child.kill();
            }
        }
    }
}

impl Drop for Ranks {
    fn drop(&mut self) {
        self.kill();
        for child in &mut self.children {
            let _ = child.wait();
        }
    }
}

/// Returns the command of a rank. It has a process group of its own, so that Ctrl-C reaches it once, through this
/// process.
fn rank_command(program: &PathBuf, flags: &[OsString], rank: usize, processes: usize) -> Command {
    let mut command = Command::new(program);
    command
        .arg("pretrain")
        .args(flags)
        .env("BERT_RANK", rank.to_string())
        .env("BERT_WORLD_SIZE", processes.to_string())
        .env("BERT_LOCAL_WORLD_SIZE", processes.to_string())
        .env("BERT_MASTER_ADDR", "127.0.0.1")
        .env(STOP_AT_END_OF_INPUT, "1")
        .stdin(Stdio::piped())
        .process_group(0);
    if rank > 0 {
        command.stdout(Stdio::null()).stderr(Stdio::piped());
    }
    command
}

fn random_bytes() -> anyhow::Result<[u8; 16]> {
    let mut bytes = [0; 16];
    if let Err(error) = getrandom::fill(&mut bytes) {
        bail!("no random numbers: {error}");
    }
    Ok(bytes)
}

/// Prints each line of a rank's stderr with the rank in front.
fn print_labelled(rank: usize, lines: impl BufRead) {
    for line in lines.split(b'\n').map_while(Result::ok) {
        print_stderr(&format!("rank {rank}: {}", String::from_utf8_lossy(&line)));
    }
}

/// Returns the exit code of a rank. For a killed rank it is [`RETRY`], because the rank may be started again.
fn code(status: ExitStatus) -> i32 {
    status.code().unwrap_or(RETRY)
}

/// Returns the exit code of the run: an error that would repeat itself takes precedence over a stop, and a stop over
/// 75.
fn common_code(statuses: &[ExitStatus], first: Option<usize>) -> i32 {
    let codes = || first.into_iter().map(|rank| statuses[rank]).chain(statuses.iter().copied()).map(code);
    let is_error = |code: &i32| !matches!(*code, 0 | RETRY | 130 | 143);
    let is_stop = |code: &i32| matches!(*code, 130 | 143);
    codes()
        .find(is_error)
        .or_else(|| codes().find(is_stop))
        .or_else(|| codes().find(|&code| code != 0))
        .unwrap_or(0)
}

/// Returns the reason for the end of the run as text: the killed rank, or else the first failure.
fn reason(statuses: &[ExitStatus], first: Option<usize>) -> String {
    let killed = statuses.iter().position(|status| status.signal().is_some());
    let Some(rank) = killed.or(first) else { return String::new() };
    match (statuses[rank].signal(), statuses[rank].code()) {
        (Some(signal), _) => format!("rank {rank} was killed by signal {signal}"),
        (None, code) => format!("rank {rank} ended with exit code {}", code.unwrap_or(1)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the status of a process that exits with a code.
    fn exited(code: i32) -> ExitStatus {
        ExitStatus::from_raw(code << 8)
    }

    #[test]
    fn an_error_that_repeats_decides_the_exit_code() {
        let killed = ExitStatus::from_raw(9);
        for (statuses, first, expected) in [
            (vec![exited(0), exited(0)], None, 0),
            (vec![exited(75), killed], Some(1), 75),
            (vec![killed, killed], Some(0), 75),
            (vec![exited(75), exited(7), exited(3)], Some(1), 7),
            (vec![exited(75), exited(3)], Some(0), 3),
            (vec![exited(143), exited(143)], Some(1), 143),
            (vec![exited(75), exited(130)], Some(0), 130),
        ] {
            assert_eq!(common_code(&statuses, first), expected, "{statuses:?}");
        }
        assert_eq!(reason(&[exited(75), killed], Some(0)), "rank 1 was killed by signal 9");
    }

    #[test]
    fn pauses_before_restarts_double() {
        let seconds = [1, 2, 3, 7, 8, 1_000_000].map(|number| pause_before(number).as_secs());
        assert_eq!(seconds, [1, 2, 4, 60, 60, 60]);
    }

    #[test]
    fn a_restart_resumes_only_an_existing_run() {
        let folder = tempfile::tempdir().unwrap();
        let flags = ["--steps", "5"].map(OsString::from);
        assert_eq!(with_resume(&flags, folder.path(), true), flags);
        std::fs::write(folder.path().join("run.json"), "{}").unwrap();
        assert_eq!(with_resume(&flags, folder.path(), false), flags);
        let resumed = with_resume(&flags, folder.path(), true);
        assert_eq!(resumed.last().unwrap(), "--resume");
        assert_eq!(with_resume(&resumed, folder.path(), true), resumed);
    }
}
