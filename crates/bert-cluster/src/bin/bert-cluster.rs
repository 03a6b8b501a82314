//! `bert-cluster` submits a build to an engine. `make-pretrain-data --engine` runs it.

use std::io::{Read, Write};
use std::process::ExitCode;
use std::time::Duration;

use anyhow::Context;
use bert_cluster::engine::{Engine, build};
use bert_data::BuildConfig;
use clap::Parser;

/// mimalloc is fast for the many allocations of the builder. `make-pretrain-data` uses the system's allocator
/// instead, which needs less memory.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// Build a data set on an engine. Reads the build options from stdin as JSON and prints the manifest to stdout;
/// `make-pretrain-data --engine` is the convenient interface.
#[derive(Parser, Debug)]
#[command(version)]
struct Args {
    /// Engine: datafusion (this process) or ballista://HOST:PORT.
    #[arg(long)]
    engine: Engine,

    /// Number of parts of the build: a few times the number of cores of the cluster.
    #[arg(long, default_value_t = 16, value_parser = clap::value_parser!(u32).range(2..=99_999))]
    tasks: u32,

    /// Seconds without any executor after which the build fails.
    #[arg(long, default_value_t = 30, value_name = "SECONDS")]
    executors_timeout: u64,

    /// Print only errors on stderr.
    #[arg(long)]
    quiet: bool,
}

async fn run(args: Args) -> anyhow::Result<()> {
    let mut options = String::new();
    std::io::stdin().read_to_string(&mut options).context("cannot read the options from stdin")?;
    let config: BuildConfig = serde_json::from_str(&options).context("the options on stdin")?;
    let on_stage = &mut |stage: &str| {
        if !args.quiet {
            eprintln!("{stage}");
        }
    };
    // Schedulers send SIGUSR1 before they end a job. It is ignored, because finished files are kept anyway.
    #[cfg(unix)]
    let _ignored = tokio::signal::unix::signal(tokio::signal::unix::SignalKind::user_defined1())?;
    let engine = args.engine.with_patience(Duration::from_secs(args.executors_timeout));
    let manifest = build(&engine, &config, args.tasks, on_stage).await?;
    let printed = serde_json::to_string(&manifest)? + "\n";
    std::io::stdout()
        .write_all(printed.as_bytes())
        .context("the data set is complete, but its manifest cannot be printed")
}

#[tokio::main]
async fn main() -> ExitCode {
    env_logger::init();
    bert_cluster::finish(run(Args::parse()).await)
}
