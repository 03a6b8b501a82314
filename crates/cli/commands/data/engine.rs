//! `--engine`: runs a build on a cluster by starting the program `bert-cluster`, so that this program does not depend
//! on the cluster libraries.

use std::io::{ErrorKind, Read, Write};
use std::path::PathBuf;
use std::process::{Command, Stdio, exit};

use anyhow::{Context, bail};
use bert_data::{BuildConfig, Manifest};

/// Name of the engine that builds in this process.
pub const LOCAL: &str = "local";
/// Default number of parts of a build on a cluster engine.
pub const TASKS: u32 = 16;

/// Checks the value of `--engine` and returns it.
///
/// # Errors
/// Fails when it names no engine; the error lists the engines.
pub fn name(text: &str) -> Result<String, &'static str> {
    let is_engine = matches!(text, LOCAL | "datafusion") || text.starts_with("ballista://");
    if is_engine {
        Ok(text.to_owned())
    } else {
        Err("the engines are local, datafusion and ballista://HOST:PORT")
    }
}

const PROGRAM: &str = "bert-cluster";

/// Returns the path of `bert-cluster`: in the folder of this program, or else found on the PATH.
fn program() -> PathBuf {
    let neighbour = std::env::current_exe().map(|own| own.with_file_name(PROGRAM));
    neighbour.ok().filter(|path| path.is_file()).unwrap_or_else(|| PROGRAM.into())
}

/// Builds a data set on a cluster engine, in `tasks` parts, and returns its manifest.
///
/// The manifest is read from the output of `bert-cluster`, because this program may not be able to read the store that
/// holds the data set. If the build fails, `bert-cluster` has printed the error, and this process exits with the same
/// exit code.
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
            "--engine {engine} needs the program {PROGRAM}, in the folder of this program or on the PATH; build it with cargo build \
             --release --manifest-path crates/bert-cluster/Cargo.toml"
        ),
        child => child.with_context(|| format!("cannot start {PROGRAM}"))?,
    };
    let mut options = child.stdin.take().context("no pipe to bert-cluster")?;
    options.write_all(&serde_json::to_vec(config)?).with_context(|| format!("cannot write to {PROGRAM}"))?;
    drop(options);
    let mut printed = String::new();
    let read = child.stdout.take().context("no pipe to bert-cluster")?.read_to_string(&mut printed);
    let status = child.wait()?;
    if !status.success() {
        exit(status.code().unwrap_or(1));
    }
    read.with_context(|| format!("cannot read the output of {PROGRAM}"))?;
    serde_json::from_str(&printed).with_context(|| {
        format!("the data set is complete, but {PROGRAM} printed no manifest: build it from the version of this program")
    })
}
