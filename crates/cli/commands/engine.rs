//! `--engine`: hands a build to `bert-cluster`, a program of its own, so that this one needs nothing of an engine.

use std::io::{ErrorKind, Read, Write};
use std::path::PathBuf;
use std::process::{Command, Stdio, exit};

use anyhow::{Context, bail};
use bert_data::{BuildConfig, Manifest};

/// The engine that is this program.
pub const LOCAL: &str = "local";
/// The default number of parts of a build on an engine.
pub const TASKS: u32 = 16;

const PROGRAM: &str = "bert-cluster";

/// Beside this program, or on the PATH.
fn program() -> PathBuf {
    let beside = std::env::current_exe().map(|own| own.with_file_name(PROGRAM));
    beside.ok().filter(|path| path.is_file()).unwrap_or_else(|| PROGRAM.into())
}

/// Builds a data set on an engine, in `tasks` parts, and returns its manifest, which `bert-cluster` prints: this program may
/// be unable to read the store where the data set is. Ends the process where the build fails: `bert-cluster` has said why,
/// and its exit code is this program's.
///
/// # Errors
/// When `bert-cluster` cannot be started, or prints something else.
pub fn build(engine: &str, tasks: u32, config: &BuildConfig, quiet: bool) -> anyhow::Result<Manifest> {
    let mut command = Command::new(program());
    command
        .args(["--engine", engine, "--tasks", &tasks.to_string()])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped());
    if quiet {
        command.arg("--quiet");
    }
    let mut child = match command.spawn() {
        Err(error) if error.kind() == ErrorKind::NotFound => bail!(
            "--engine {engine} needs the program {PROGRAM} beside this one or on the PATH: cargo build --release \
             --manifest-path crates/bert-cluster/Cargo.toml"
        ),
        child => child.with_context(|| format!("cannot start {PROGRAM}"))?,
    };
    let mut options = child.stdin.take().context("no pipe")?;
    options.write_all(&serde_json::to_vec(config)?).with_context(|| format!("cannot write to {PROGRAM}"))?;
    drop(options);
    let mut printed = String::new();
    let read = child.stdout.take().context("no pipe")?.read_to_string(&mut printed);
    let status = child.wait()?;
    if !status.success() {
        exit(status.code().unwrap_or(1));
    }
    read.with_context(|| format!("cannot read what {PROGRAM} prints"))?;
    serde_json::from_str(&printed).with_context(|| {
        format!("the data set is committed, but {PROGRAM} is of another version: it prints no manifest")
    })
}
