//! Chooses the transport of a group.

use std::fmt;

use crate::deadline::Deadline;
use crate::environment::{Environment, Launcher};
use crate::error::Error;
use crate::tcp::{TcpConfig, TcpTransport, Token};
use crate::transport::Transport;

/// Minimum length of `BERT_GROUP_TOKEN`.
const MIN_TOKEN: usize = 16;

/// A library that moves the bytes of a group.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Engine {
    /// No library: a single process.
    Alone,
    /// MPI, in builds with the feature `mpi`.
    Mpi,
    /// NCCL, in builds with the feature `nccl`. It has not been tested on a GPU.
    Nccl,
    /// TCP.
    Tcp,
}

impl Engine {
    /// All engines.
    pub const ALL: [Self; 4] = [Self::Alone, Self::Mpi, Self::Nccl, Self::Tcp];
}

impl fmt::Display for Engine {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        f.write_str(match self {
            Self::Alone => "alone",
            Self::Mpi => "mpi",
            Self::Nccl => "nccl",
            Self::Tcp => "tcp",
        })
    }
}

/// The group that a process belongs to.
#[derive(Clone, Debug)]
pub enum Plan {
    /// The process trains alone.
    Alone,
    /// The process is a rank of MPI.
    Mpi,
    /// The process joins a group over TCP, and its ranks then move bytes over NCCL.
    Nccl(TcpConfig),
    /// The process joins a group over TCP.
    Tcp(TcpConfig),
}

impl Plan {
    /// Chooses the group of this process. Without an engine, the launcher decides: no group if there is no launcher or
    /// only one rank, MPI under `mpirun` if this build has it, otherwise TCP. `variable` returns the value of an
    /// environment variable, and `host` is the name of this host in messages.
    ///
    /// # Errors
    /// Fails if this build does not have the engine, if a variable that the group needs is missing, or if a variable is
    /// invalid.
    pub fn choose(
        engine: Option<Engine>,
        variable: &dyn Fn(&str) -> Option<String>,
        host: &str,
    ) -> Result<Self, Error> {
        const HAS_MPI: bool = cfg!(feature = "mpi");
        if engine == Some(Engine::Alone) {
            return Ok(Self::Alone);
        }
        let environment = Environment::detect(variable)?;
        let is_mpi = environment
            .as_ref()
            .is_some_and(|found| matches!(found.launcher, Launcher::OpenMpi | Launcher::Pmi));
        match (engine, environment) {
            (Some(Engine::Mpi), _) if !HAS_MPI => Err(Error::usage(
                "`.group mpi` needs a build with MPI: `cargo build --release --features mpi`",
            )),
            (Some(Engine::Mpi), _) => Ok(Self::Mpi),
            (Some(Engine::Nccl), _) if !cfg!(feature = "nccl") => Err(Error::usage(
                "`.group nccl` needs a build with NCCL: `cargo build --release --features cuda,nccl`",
            )),
            (Some(Engine::Nccl), Some(found)) => tcp(found, variable, host).map(Self::Nccl),
            (None, Some(found)) if is_mpi && HAS_MPI && found.world_size > 1 => Ok(Self::Mpi),
            (None, Some(found)) if found.world_size == 1 => Ok(Self::Alone),
            (_, Some(found)) => tcp(found, variable, host).map(Self::Tcp),
            (None, None) => Ok(Self::Alone),
            (Some(engine @ (Engine::Tcp | Engine::Nccl)), None) => Err(Error::usage(format!(
                "`.group {engine}` needs BERT_RANK and BERT_WORLD_SIZE, or a launcher such as `bert launch`, srun \
                     or torchrun"
            ))),
            (Some(Engine::Alone), _) => Ok(Self::Alone),
        }
    }

    /// Joins the group. `on_refused` is called with a text for each connection that this rank rejects.
    ///
    /// # Errors
    /// Fails as [`TcpTransport::join`] does, and if this build does not have the engine.
    pub fn join(
        &self,
        deadline: &mut Deadline,
        on_refused: &mut dyn FnMut(&str),
    ) -> Result<Box<dyn Transport>, Error> {
        match self {
            Self::Alone => Ok(Box::new(TcpTransport::alone())),
            #[cfg(feature = "mpi")]
            Self::Mpi => Ok(Box::new(crate::mpi::MpiTransport::join(deadline)?)),
            #[cfg(not(feature = "mpi"))]
            Self::Mpi => Err(Error::usage("this build has no MPI")),
            #[cfg(feature = "nccl")]
            Self::Nccl(config) => {
                Ok(Box::new(crate::nccl::NcclTransport::join(config, deadline, on_refused)?))
            }
            #[cfg(not(feature = "nccl"))]
            Self::Nccl(_) => Err(Error::usage("this build has no NCCL")),
            Self::Tcp(config) => Ok(Box::new(TcpTransport::join(config, deadline, on_refused)?)),
        }
    }
}

/// Returns the settings with which a process joins its launcher's group over TCP.
fn tcp(
    found: Environment,
    variable: &dyn Fn(&str) -> Option<String>,
    host: &str,
) -> Result<TcpConfig, Error> {
    let Environment { launcher, rank, world_size, master, port, .. } = found;
    let by = format!("{} has started {world_size} ranks", launcher.name());
    let (Some(master), Some(port)) = (master, port) else {
        let mpi = match launcher {
            Launcher::OpenMpi | Launcher::Pmi if !cfg!(feature = "mpi") => {
                "This build has no MPI: build it with `cargo build --release --features mpi`. "
            }
            _ => "",
        };
        let reason = format!(
            "{by}. {mpi}For TCP, set BERT_MASTER_ADDR to the host of rank 0 and BERT_MASTER_PORT to a free port there; \
             `.group alone` trains without the other processes"
        );
        return Err(Error::usage(reason));
    };
    let token = variable("BERT_GROUP_TOKEN").unwrap_or_default();
    if token.len() < MIN_TOKEN {
        let reason = format!(
            "{by}, which need a common secret against other connections: set BERT_GROUP_TOKEN to the same {MIN_TOKEN} \
             or more random characters on all of them, as from `openssl rand -hex 16`"
        );
        return Err(Error::usage(reason));
    }
    Ok(TcpConfig { rank, world_size, master, port, token: Token::new(&token), host: host.to_string() })
}

#[cfg(test)]
mod tests {
    use super::*;

    const OWN: [(&str, &str); 5] = [
        ("BERT_RANK", "1"),
        ("BERT_WORLD_SIZE", "2"),
        ("BERT_MASTER_ADDR", "127.0.0.1"),
        ("BERT_MASTER_PORT", "4000"),
        ("BERT_GROUP_TOKEN", "0123456789abcdef"),
    ];
    const MPIRUN: [(&str, &str); 2] = [("OMPI_COMM_WORLD_RANK", "0"), ("OMPI_COMM_WORLD_SIZE", "2")];

    fn choose(engine: Option<Engine>, variables: &[(&str, &str)]) -> Result<Plan, Error> {
        let variable = |name: &str| {
            variables.iter().find(|(known, _)| *known == name).map(|(_, value)| value.to_string())
        };
        Plan::choose(engine, &variable, "here")
    }

    #[test]
    fn a_process_without_a_launcher_is_alone() {
        assert!(matches!(choose(None, &[]), Ok(Plan::Alone)));
        assert!(matches!(choose(Some(Engine::Alone), &OWN), Ok(Plan::Alone)));
        let one = [("BERT_RANK", "0"), ("BERT_WORLD_SIZE", "1")];
        assert!(matches!(choose(None, &one), Ok(Plan::Alone)));
        let error = choose(Some(Engine::Tcp), &[]).unwrap_err();
        assert!(error.to_string().contains("BERT_RANK") && error.exit_code() == 2, "{error}");
    }

    #[test]
    fn ranks_with_an_address_use_tcp() {
        for engine in [None, Some(Engine::Tcp)] {
            let Ok(Plan::Tcp(config)) = choose(engine, &OWN) else { panic!("no TCP") };
            assert_eq!((config.rank, config.world_size, config.port), (1, 2, 4000));
            assert_eq!((config.master.as_str(), config.host.as_str()), ("127.0.0.1", "here"));
        }
    }

    #[test]
    fn a_token_is_required() {
        for token in ["", "short"] {
            let mut variables = OWN;
            variables[4].1 = token;
            let error = choose(None, &variables).unwrap_err();
            assert!(error.to_string().contains("BERT_GROUP_TOKEN"), "{error}");
            assert_eq!(error.exit_code(), 2);
        }
    }

    #[cfg(not(feature = "mpi"))]
    #[test]
    fn ranks_of_mpirun_are_refused_without_mpi() {
        for engine in [None, Some(Engine::Mpi)] {
            let error = choose(engine, &MPIRUN).unwrap_err();
            assert!(error.to_string().contains("--features mpi"), "{error}");
            assert_eq!(error.exit_code(), 2);
        }
    }

    #[cfg(not(feature = "nccl"))]
    #[test]
    fn nccl_is_refused_without_its_feature() {
        let error = choose(Some(Engine::Nccl), &OWN).unwrap_err();
        assert!(error.to_string().contains("--features cuda,nccl"), "{error}");
        assert_eq!(error.exit_code(), 2);
    }

    #[cfg(feature = "nccl")]
    #[test]
    fn nccl_has_the_address_of_tcp() {
        assert!(matches!(choose(Some(Engine::Nccl), &OWN), Ok(Plan::Nccl(_))));
    }

    #[cfg(feature = "mpi")]
    #[test]
    fn ranks_of_mpirun_use_mpi() {
        assert!(matches!(choose(None, &MPIRUN), Ok(Plan::Mpi)));
    }
}
