//! `--group` and `--group-timeout`: connects this process to the other ranks of a run.

use std::time::Duration;

use anyhow::ensure;
use bert_collectives::{Deadline, Engine, Environment, Plan, Waiting, host_name};
use bert_training::{Budget, Group};

use crate::output::progress::{print_note, print_warning};

/// Time between two messages about ranks that have not answered.
const WAIT_INTERVAL: Duration = Duration::from_secs(60);

/// Flags of a command that several processes may run together.
#[derive(clap::Args, Clone, Debug)]
pub struct GroupArgs {
    /// Connection to the other ranks. `auto` reads the environment of the launcher (bert launch, mpirun, srun, torchrun,
    /// Kubernetes); `alone` ignores it.
    #[arg(
        long,
        default_value = "auto",
        value_parser = ["auto", "alone", "mpi", "nccl", "tcp"],
        help_heading = "Several processes",
        hide_short_help = true
    )]
    group: String,

    /// Maximum time without an answer of another rank, as 30s or 10m; three times as long before the first step.
    #[arg(
        long,
        value_name = "TIME",
        default_value = "10m",
        help_heading = "Several processes",
        hide_short_help = true
    )]
    group_timeout: Budget,
}

/// Returns the value of an environment variable.
fn variable(name: &str) -> Option<String> {
    std::env::var(name).ok()
}

/// Returns the number of ranks that the launcher has started on this host, if there are several.
pub fn ranks_on_this_host() -> Option<usize> {
    // An invalid variable is reported by `GroupArgs::join`.
    let found = Environment::detect(&variable).ok().flatten()?;
    found.local_world_size.filter(|&ranks| ranks > 1)
}

impl GroupArgs {
    /// Joins the group of this process, and returns it. Rank 0 prints the ranks that it waits for and the connections
    /// that it rejects.
    ///
    /// # Errors
    /// Fails when the timeout is zero, when the variables of the launcher are invalid, or when the group cannot be
    /// joined.
    pub fn join(&self) -> anyhow::Result<Group> {
        let timeout = self.group_timeout.0;
        ensure!(
            !timeout.is_zero(),
            clap::Error::raw(clap::error::ErrorKind::InvalidValue, "--group-timeout must be more than 0\n")
        );
        // `auto` is not the name of an engine, so the plan chooses one.
        let engine = Engine::ALL.into_iter().find(|engine| engine.to_string() == self.group);
        let plan = Plan::choose(engine, &variable, &host_name())?;
        if matches!(plan, Plan::Alone) {
            return Ok(Group::alone());
        }
        let is_first = Environment::detect(&variable)?.is_none_or(|found| found.rank == 0);
        let mut on_wait = move |waiting: &Waiting| {
            if is_first {
                print_note(waiting);
            }
        };
        let mut deadline = Deadline { timeout, interval: WAIT_INTERVAL, on_wait: &mut on_wait };
        let transport = plan.join(&mut deadline, &mut |text| print_warning(text))?;
        Ok(Group::new(transport, timeout, on_wait))
    }
}
