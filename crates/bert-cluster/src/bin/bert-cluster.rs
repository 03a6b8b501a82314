//! `bert-cluster` sends a build to an engine. `make-pretrain-data --engine` runs it.

use std::io::{Read, Write};
use std::process::ExitCode;
use std::time::Duration;

use anyhow::Context;
use bert_cluster::engine::{Engine, build};
use bert_data::BuildConfig;
use clap::Parser;

/// As in `make-pretrain-data`: the builder allocates much.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// Build a data set on an engine. The options of the build are read from stdin, as JSON, and the manifest is printed on
/// stdout; `make-pretrain-data --engine` is the comfortable way.
#[derive(Parser, Debug)]
#[command(version)]
struct Args {
    /// Who runs it: datafusion (this process) or ballista://HOST:PORT.
    #[arg(long)]
    engine: Engine,

    /// Into how many parts the build is divided: some more than cores of the cluster.
    #[arg(long, default_value_t = 16, value_parser = clap::value_parser!(u32).range(2..=99_999))]
    tasks: u32,

    /// Seconds without any executor after which the build fails.
    #[arg(long, default_value_t = 30, value_name = "SECONDS")]
    executors_timeout: u64,

    /// Nothing on stderr but errors.
    #[arg(long)]
    quiet: bool,
}

async fn run(args: Args) -> anyhow::Result<()> {
    let mut options = String::new();
    std::io::stdin().read_to_string(&mut options).context("cannot read the options from stdin")?;
    let config: BuildConfig = serde_json::from_str(&options).context("the options on stdin")?;
    let told = &mut |stage: &str| {
        if !args.quiet {
            eprintln!("{stage}");
        }
    };
    // Schedulers announce the end of a job with it. Finished files are kept anyway.
    #[cfg(unix)]
    let _ignored = tokio::signal::unix::signal(tokio::signal::unix::SignalKind::user_defined1())?;
    let engine = args.engine.with_patience(Duration::from_secs(args.executors_timeout));
    let manifest = build(&engine, &config, args.tasks, told).await?;
    let printed = serde_json::to_string(&manifest)? + "\n";
    std::io::stdout()
        .write_all(printed.as_bytes())
        .context("the data set is committed; cannot print its manifest")
}

#[tokio::main]
async fn main() -> ExitCode {
    env_logger::init();
    bert_cluster::finish(run(Args::parse()).await)
}
