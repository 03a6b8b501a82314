//! `bert-scheduler`: Ballista's scheduler with the builder's operator.

use std::net::{SocketAddr, ToSocketAddrs};
use std::process::ExitCode;
use std::sync::Arc;

use anyhow::Context;
use ballista_core::extension::SessionConfigExt;
use ballista_core::utils::default_session_builder;
use ballista_scheduler::cluster::BallistaCluster;
use ballista_scheduler::config::SchedulerConfig;
use ballista_scheduler::scheduler_process::start_server;
use bert_cluster::codec::Codec;
use bert_cluster::network::{WARNING, check_bind};
use clap::Parser;
use datafusion::prelude::SessionConfig;

/// Schedule the parts of builds on executors (Ballista's scheduler with the builder's operator).
#[derive(Parser, Debug)]
#[command(version)]
struct Args {
    /// Address to listen on.
    #[arg(long, default_value = "127.0.0.1")]
    bind_host: String,

    /// Port to listen on.
    #[arg(long, default_value_t = 50050)]
    port: u16,

    /// Host name under which executors and clients reach the scheduler; default: --bind-host.
    #[arg(long)]
    external_host: Option<String>,

    /// Seconds without a heartbeat after which an executor is lost and its parts run elsewhere.
    #[arg(long, default_value_t = 20, value_name = "SECONDS")]
    executor_timeout: u64,

    /// Seconds without any executor after which running builds fail.
    #[arg(long, default_value_t = 20, value_name = "SECONDS")]
    no_executors_timeout: u64,

    /// Allow addresses that other machines can reach.
    #[arg(long)]
    trust_network: bool,
}

async fn run(args: Args) -> anyhow::Result<()> {
    check_bind(&args.bind_host, args.trust_network)?;
    let address: SocketAddr = (args.bind_host.as_str(), args.port)
        .to_socket_addrs()
        .with_context(|| format!("--bind-host {}", args.bind_host))?
        .next()
        .context("--bind-host has no address")?;
    let config = Arc::new(SchedulerConfig {
        bind_host: args.bind_host.clone(),
        bind_port: args.port,
        external_host: args.external_host.unwrap_or(args.bind_host),
        executor_timeout_seconds: args.executor_timeout,
        expire_dead_executor_interval_seconds: 2,
        no_executors_grace_period_seconds: args.no_executors_timeout,
        override_physical_codec: Some(Arc::new(Codec::default())),
        ..SchedulerConfig::default()
    });
    let session = || {
        SessionConfig::new_with_ballista().with_ballista_physical_extension_codec(Arc::new(Codec::default()))
    };
    let cluster = BallistaCluster::new_memory(
        format!("{}:{}", config.external_host, config.bind_port),
        Arc::new(default_session_builder),
        Arc::new(session),
    );
    eprintln!("scheduler on {address}\nwarning: {WARNING}");
    start_server(cluster, address, config).await?;
    Ok(())
}

#[tokio::main]
async fn main() -> ExitCode {
    env_logger::init();
    bert_cluster::finish(run(Args::parse()).await)
}
