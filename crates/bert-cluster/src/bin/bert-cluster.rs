//! `bert-cluster` sends a build to an engine. `make-pretrain-data --engine` runs it.

use std::io::Read;
use std::process::ExitCode;
use std::time::Duration;

use anyhow::Context;
use bert_cluster::engine::{Engine, build};
use bert_data::BuildConfig;
use clap::Parser;

/// As in `make-pretrain-data`: the builder allocates much.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// Build a data set on an engine. The options of the build are read from stdin, as JSON; `make-pretrain-data --engine` is the
/// comfortable way.
#[derive(Parser, Debug)]
#[command(version)]
struct Args {
    /// Who runs it: datafusion (this process) or ballista://HOST:PORT.
    #[arg(long)]
    engine: Engine,

    /// Into how many parts the build is divided: some more than cores of the cluster.
    #[arg(long, default_value_t = 16, value_parser = clap::value_parser!(u32).range(1..=99_999))]
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
    build(&args.engine.with_patience(Duration::from_secs(args.executors_timeout)), &config, args.tasks, told)
        .await?;
    Ok(())
}

#[tokio::main]
async fn main() -> ExitCode {
    env_logger::init();
    bert_cluster::finish(run(Args::parse()).await)
}
