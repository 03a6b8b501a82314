//! Finds the rank of a process in the environment variables of its launcher.

use std::str::FromStr;

use crate::error::Error;

/// Name of a variable that `bert launch` sets and that users may set, like the next three.
const RANK: &str = "BERT_RANK";
const WORLD_SIZE: &str = "BERT_WORLD_SIZE";
const MASTER_ADDR: &str = "BERT_MASTER_ADDR";
const MASTER_PORT: &str = "BERT_MASTER_PORT";
/// The lowest port of groups under Slurm. The job number modulo this constant is added to it.
const SLURM_PORTS: u64 = 20_000;

/// Maximum number of ranks. Each rank has a connection to every other rank.
pub const MAX_RANKS: usize = 4096;

/// A program or service that starts the ranks of a group.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Launcher {
    /// `bert launch`, or variables set by the user.
    Bert,
    /// A Kubernetes Job with `completionMode: Indexed`.
    Kubernetes,
    /// `mpirun` of Open MPI.
    OpenMpi,
    /// `mpirun` of MPICH or Intel MPI.
    Pmi,
    /// `srun` of Slurm.
    Slurm,
    /// `torchrun`.
    Torchrun,
}

impl Launcher {
    /// Returns the name of the launcher.
    pub fn name(self) -> &'static str {
        match self {
            Self::Bert => "bert launch",
            Self::Kubernetes => "Kubernetes",
            Self::OpenMpi => "mpirun (Open MPI)",
            Self::Pmi => "mpirun (PMI)",
            Self::Slurm => "srun",
            Self::Torchrun => "torchrun",
        }
    }
}

/// The place of a process in the group of its launcher.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Environment {
    /// The launcher.
    pub launcher: Launcher,
    /// Rank of this process.
    pub rank: usize,
    /// Number of ranks.
    pub world_size: usize,
    /// Number of ranks on this host, if known.
    pub local_world_size: Option<usize>,
    /// Host name or address of rank 0, if known.
    pub master: Option<String>,
    /// Port of rank 0, if known.
    pub port: Option<u16>,
}

impl Environment {
    /// Reads the variables of a launcher. `variable` returns the value of an environment variable. Returns `None` if no
    /// launcher has started this process.
    ///
    /// # Errors
    /// Fails if a value is invalid or missing.
    pub fn detect(variable: &dyn Fn(&str) -> Option<String>) -> Result<Option<Self>, Error> {
        let has = |name: &str| variable(name).is_some();
        let (launcher, names) = if has(RANK) {
            (Launcher::Bert, [RANK, WORLD_SIZE, "BERT_LOCAL_WORLD_SIZE"])
        } else if has("JOB_COMPLETION_INDEX") && has(WORLD_SIZE) {
            (Launcher::Kubernetes, ["JOB_COMPLETION_INDEX", WORLD_SIZE, "BERT_LOCAL_WORLD_SIZE"])
        } else if has("OMPI_COMM_WORLD_RANK") {
            let names = ["OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_LOCAL_SIZE"];
            (Launcher::OpenMpi, names)
        } else if has("RANK") && has("WORLD_SIZE") {
            (Launcher::Torchrun, ["RANK", "WORLD_SIZE", "LOCAL_WORLD_SIZE"])
        } else if has("PMI_RANK") && has("PMI_SIZE") && !is_plugin_of_slurm(variable) {
            (Launcher::Pmi, ["PMI_RANK", "PMI_SIZE", "MPI_LOCALNRANKS"])
        } else if has_slurm_step(variable) {
            (Launcher::Slurm, ["SLURM_PROCID", "SLURM_STEP_NUM_TASKS", "SLURM_STEP_TASKS_PER_NODE"])
        } else {
            return Ok(None);
        };
        let [rank, world_size, local] = names;
        let environment = Self {
            launcher,
            rank: number(variable, rank)?,
            world_size: number(variable, world_size)?,
            local_world_size: variable(local).and_then(|text| first_count(&text)),
            master: master(launcher, variable),
            port: port(launcher, variable)?,
        };
        let invalid = |name: &str, value: usize, reason| {
            let value = value.to_string();
            Err(Error::usage(format!("the environment variable {name} is {value:?}: {reason}")))
        };
        if environment.world_size > MAX_RANKS {
            return invalid(world_size, environment.world_size, format!("it must be at most {MAX_RANKS}"));
        }
        if environment.rank >= environment.world_size {
            let reason = format!("it must be less than {world_size}, which is {}", environment.world_size);
            return invalid(rank, environment.rank, reason);
        }
        Ok(Some(environment))
    }
}

/// Returns whether the PMI variables come from Slurm's plugin for MPI, and this build has no MPI. An `mpirun`
/// inside a Slurm step sets a different number of ranks.
fn is_plugin_of_slurm(variable: &dyn Fn(&str) -> Option<String>) -> bool {
    !cfg!(feature = "mpi")
        && has_slurm_step(variable)
        && variable("PMI_SIZE") == variable("SLURM_STEP_NUM_TASKS")
}

/// Returns whether `srun` has started this process. A batch script has SLURM_PROCID and SLURM_NTASKS, too, but only
/// `srun` sets the variables of a step.
fn has_slurm_step(variable: &dyn Fn(&str) -> Option<String>) -> bool {
    variable("SLURM_PROCID").is_some() && variable("SLURM_STEP_NUM_TASKS").is_some()
}

fn number<T: FromStr>(variable: &dyn Fn(&str) -> Option<String>, name: &str) -> Result<T, Error> {
    let value = variable(name).unwrap_or_default();
    value.trim().parse().map_err(|_| {
        let reason = if value.is_empty() { "it is not set" } else { "it is not a number in the valid range" };
        Error::usage(format!("the environment variable {name} is {value:?}: {reason}"))
    })
}

/// Returns the first number in Slurm's list of ranks per host, for example 2 for `2(x3),1`.
fn first_count(text: &str) -> Option<usize> {
    let end = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    text[..end].parse().ok().filter(|&count| count > 0)
}

fn master(launcher: Launcher, variable: &dyn Fn(&str) -> Option<String>) -> Option<String> {
    let hosts = || variable("SLURM_STEP_NODELIST").or_else(|| variable("SLURM_JOB_NODELIST"));
    let given = variable(MASTER_ADDR).or_else(|| variable("MASTER_ADDR")).filter(|host| !host.is_empty());
    given.or_else(|| hosts().filter(|_| launcher == Launcher::Slurm).map(|list| first_host(&list)))
}

/// Returns the first host in a host list of Slurm, for example `node007` for `node[007-009,12],login1`.
fn first_host(list: &str) -> String {
    let first_of = |text: &str| text.split([',', '-', ']']).next().unwrap_or_default().to_string();
    match (list.find('['), list.find(',')) {
        (Some(bracket), comma) if comma.is_none_or(|comma| bracket < comma) => {
            let rest = &list[bracket + 1..];
            let suffix =
                rest.find(']').map_or("", |end| rest[end + 1..].split([',', '[']).next().unwrap_or(""));
            format!("{}{}{suffix}", &list[..bracket], first_of(rest))
        }
        _ => list.split(',').next().unwrap_or_default().to_string(),
    }
}

fn port(launcher: Launcher, variable: &dyn Fn(&str) -> Option<String>) -> Result<Option<u16>, Error> {
    if variable(MASTER_PORT).is_some() {
        return number(variable, MASTER_PORT).map(Some);
    }
    if variable("MASTER_PORT").is_some() {
        let port: u16 = number(variable, "MASTER_PORT")?;
        // The agent of torchrun listens on this port itself, so the group uses the next one.
        let is_taken = variable("TORCHELASTIC_USE_AGENT_STORE").is_some_and(|text| text == "True");
        return Ok(Some(if is_taken { port.wrapping_add(1).max(1024) } else { port }));
    }
    let job = variable("SLURM_JOB_ID").filter(|_| launcher == Launcher::Slurm);
    Ok(job.and_then(|job| job.parse::<u64>().ok()).map(|job| (SLURM_PORTS + job % SLURM_PORTS) as u16))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn detect(variables: &[(&str, &str)]) -> Result<Option<Environment>, Error> {
        Environment::detect(&|name| {
            variables.iter().find(|(known, _)| *known == name).map(|(_, value)| value.to_string())
        })
    }

    fn found(variables: &[(&str, &str)]) -> Environment {
        detect(variables).unwrap().expect("a launcher")
    }

    fn expect(
        launcher: Launcher,
        [rank, world_size, local]: [usize; 3],
        address: Option<(&str, u16)>,
    ) -> Environment {
        let master = address.map(|(host, _)| host.into());
        let port = address.map(|(_, port)| port);
        Environment {
            launcher,
            rank,
            world_size,
            local_world_size: (local > 0).then_some(local),
            master,
            port,
        }
    }

    #[test]
    fn no_launcher_is_found_without_variables() {
        assert_eq!(detect(&[]).unwrap(), None);
        // Some variables are set without a launcher: in a batch script of Slurm, or in a pod of an indexed Kubernetes
        // Job.
        let slurm = [("SLURM_PROCID", "0"), ("SLURM_NTASKS", "4"), ("SLURM_JOB_ID", "7")];
        assert_eq!(detect(&slurm).unwrap(), None);
        assert_eq!(detect(&[("JOB_COMPLETION_INDEX", "3"), ("PMIX_RANK", "1")]).unwrap(), None);
    }

    #[test]
    fn bert_launch_and_kubernetes_are_found() {
        let address =
            [("BERT_MASTER_ADDR", "bert-0.bert"), ("BERT_MASTER_PORT", "29400"), ("BERT_WORLD_SIZE", "4")];
        let expected = Some(("bert-0.bert", 29400));
        let own = [&address[..], &[("BERT_RANK", "1"), ("BERT_LOCAL_WORLD_SIZE", "2")]].concat();
        assert_eq!(found(&own), expect(Launcher::Bert, [1, 4, 2], expected));
        let indexed = [&address[..], &[("JOB_COMPLETION_INDEX", "3")]].concat();
        assert_eq!(found(&indexed), expect(Launcher::Kubernetes, [3, 4, 0], expected));
    }

    #[test]
    fn mpirun_is_found() {
        let variables = [
            ("OMPI_COMM_WORLD_RANK", "2"),
            ("OMPI_COMM_WORLD_SIZE", "3"),
            ("OMPI_COMM_WORLD_LOCAL_RANK", "2"),
            ("OMPI_COMM_WORLD_LOCAL_SIZE", "3"),
            ("PMIX_RANK", "2"),
        ];
        assert_eq!(found(&variables), expect(Launcher::OpenMpi, [2, 3, 3], None));
        let variables = [("PMI_RANK", "0"), ("PMI_SIZE", "2"), ("MPI_LOCALNRANKS", "1")];
        assert_eq!(found(&variables), expect(Launcher::Pmi, [0, 2, 1], None));
    }

    #[test]
    fn torchrun_is_found() {
        let mut variables = vec![
            ("RANK", "1"),
            ("WORLD_SIZE", "2"),
            ("LOCAL_RANK", "1"),
            ("LOCAL_WORLD_SIZE", "2"),
            ("MASTER_ADDR", "localhost"),
            ("MASTER_PORT", "29500"),
        ];
        let expected = |port| expect(Launcher::Torchrun, [1, 2, 2], Some(("localhost", port)));
        assert_eq!(found(&variables), expected(29500));
        variables.push(("TORCHELASTIC_USE_AGENT_STORE", "True"));
        assert_eq!(found(&variables), expected(29501));
        variables.push(("BERT_MASTER_PORT", "4000"));
        assert_eq!(found(&variables), expected(4000));
    }

    #[test]
    fn srun_is_found() {
        let mut variables = vec![
            ("SLURM_PROCID", "5"),
            ("SLURM_STEP_NUM_TASKS", "6"),
            ("SLURM_LOCALID", "1"),
            ("SLURM_STEP_TASKS_PER_NODE", "2(x3)"),
            ("SLURM_JOB_ID", "1234567"),
            ("SLURM_STEP_NODELIST", "node[007-009]"),
        ];
        assert_eq!(found(&variables), expect(Launcher::Slurm, [5, 6, 2], Some(("node007", 34567))));
        variables.extend([("MASTER_ADDR", "other"), ("MASTER_PORT", "1234")]);
        assert_eq!(found(&variables), expect(Launcher::Slurm, [5, 6, 2], Some(("other", 1234))));
    }

    #[cfg(not(feature = "mpi"))]
    #[test]
    fn srun_wins_over_its_pmi_plugin() {
        let step = [("SLURM_PROCID", "1"), ("SLURM_STEP_NUM_TASKS", "2"), ("SLURM_STEP_NODELIST", "node7")];
        let plugin = [&step[..], &[("PMI_RANK", "1"), ("PMI_SIZE", "2")]].concat();
        assert_eq!(found(&plugin).launcher, Launcher::Slurm);
        let mpirun = [&step[..], &[("PMI_RANK", "1"), ("PMI_SIZE", "4")]].concat();
        assert_eq!(found(&mpirun).launcher, Launcher::Pmi);
    }

    #[test]
    fn first_host_of_a_list_is_found() {
        for (list, first) in [
            ("node7", "node7"),
            ("a,b,c", "a"),
            ("node[12,14-16]", "node12"),
            ("login1,node[1-2]", "login1"),
            ("rack[03-04]-n1,x", "rack03-n1"),
        ] {
            assert_eq!(first_host(list), first, "{list}");
        }
    }

    #[test]
    fn invalid_variables_are_named() {
        let error = |variables: &[(&str, &str)]| detect(variables).unwrap_err();
        let text = error(&[("BERT_RANK", "4"), ("BERT_WORLD_SIZE", "4")]).to_string();
        assert_eq!(
            text,
            "the environment variable BERT_RANK is \"4\": it must be less than BERT_WORLD_SIZE, which is 4"
        );
        let text = error(&[("BERT_RANK", "0")]).to_string();
        assert_eq!(text, "the environment variable BERT_WORLD_SIZE is \"\": it is not set");
        let text = error(&[("BERT_RANK", "0"), ("BERT_WORLD_SIZE", "18446744073709551615")]).to_string();
        assert!(text.ends_with("it must be at most 4096"), "{text}");
        let port = [("RANK", "0"), ("WORLD_SIZE", "2"), ("MASTER_PORT", "70000")];
        assert!(error(&port).to_string().contains("MASTER_PORT"));
        assert_eq!(error(&port).exit_code(), 2);
    }
}
