//! `bert-executor`: Ballista's executor with the builder's operator.

use std::net::TcpListener;
use std::process::ExitCode;
use std::sync::Arc;

use anyhow::Context;
use ballista_executor::executor_process::{ExecutorProcessConfig, start_executor_process};
use bert_cluster::codec::Codec;
use bert_cluster::network::{WARNING, check_bind};
use clap::Parser;

/// mimalloc is fast for the many allocations of the builder. `make-pretrain-data` uses the system's allocator
/// instead, which needs less memory.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// Run the parts of builds (Ballista's executor with the builder's operator).
#[derive(Parser, Debug)]
#[command(version)]
struct Args {
    /// Address of the scheduler.
    #[arg(long, default_value = "127.0.0.1:50050", value_name = "HOST:PORT")]
    scheduler: String,

    /// Address to listen on.
    #[arg(long, default_value = "127.0.0.1")]
    bind_host: String,

    /// Host name under which the scheduler and other executors reach this executor; default: --bind-host.
    #[arg(long)]
    external_host: Option<String>,

    /// Port for the receipts (Arrow Flight); 0 selects a free port.
    #[arg(long, default_value_t = 0)]
    port: u16,

    /// Port for the tasks; 0 selects a free port.
    #[arg(long, default_value_t = 0)]
    grpc_port: u16,

    /// Maximum number of parts that run at the same time; 0 means one per core.
    #[arg(long, default_value_t = 0)]
    vcores: usize,

    /// Folder for receipts in transit; default: a temporary folder.
    #[arg(long, value_name = "DIR")]
    work_dir: Option<String>,

    /// Seconds to wait for the scheduler at startup.
    #[arg(long, default_value_t = 30, value_name = "SECONDS")]
    scheduler_timeout: u16,

    /// Seconds between heartbeats; must be several times shorter than the scheduler's --executor-timeout.
    #[arg(long, default_value_t = 5, value_name = "SECONDS")]
    heartbeat: u64,

    /// Allow addresses that other machines can reach.
    #[arg(long)]
    trust_network: bool,
}

/// Returns the port, or a free port instead of 0.
fn port(host: &str, port: u16) -> anyhow::Result<u16> {
    if port != 0 {
        return Ok(port);
    }
    let listener = TcpListener::bind((host, 0)).with_context(|| format!("--bind-host {host}"))?;
    Ok(listener.local_addr()?.port())
}

async fn run(args: Args) -> anyhow::Result<()> {
    check_bind(&args.bind_host, args.trust_network)?;
    let (host, scheduler_port) = args.scheduler.rsplit_once(':').context("--scheduler is HOST:PORT")?;
    let config = ExecutorProcessConfig {
        port: port(&args.bind_host, args.port)?,
        grpc_port: port(&args.bind_host, args.grpc_port)?,
        external_host: Some(args.external_host.unwrap_or_else(|| args.bind_host.clone())),
        bind_host: args.bind_host,
        scheduler_host: host.to_owned(),
        scheduler_port: scheduler_port.parse().context("--scheduler is HOST:PORT")?,
        scheduler_connect_timeout_seconds: args.scheduler_timeout,
        vcores: args.vcores,
        work_dir: args.work_dir,
        executor_heartbeat_interval_seconds: args.heartbeat,
        // The builder has its own memory budget.
        memory_pool_size: Some(0),
        override_physical_codec: Some(Arc::new(Codec::default())),
        ..ExecutorProcessConfig::default()
    };
    eprintln!("executor on {}:{}\nwarning: {WARNING}", config.bind_host, config.port);
    start_executor_process(Arc::new(config)).await?;
    Ok(())
}

#[tokio::main]
async fn main() -> ExitCode {
    env_logger::init();
    bert_cluster::finish(run(Args::parse()).await)
}
