//! What can go wrong on a cluster, beside what can go wrong on one machine.

use std::process::ExitCode;

use datafusion::error::DataFusionError;

use crate::work::message;

/// A result of this crate.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// What went wrong, and where.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The builder, on this machine.
    #[error(transparent)]
    Build(#[from] bert_data::Error),
    /// The builder, on a machine of the cluster.
    #[error("part {part}: {message}")]
    Part {
        /// The part that failed.
        part: u32,
        /// What the builder said.
        message: String,
        /// The exit code that it has on one machine.
        exit_code: u8,
    },
    /// The engine gave up or could not be reached.
    #[error("{engine}: {source}; what is finished is kept, and the same command goes on from there")]
    Engine {
        /// The engine.
        engine: String,
        /// What it says.
        source: Box<DataFusionError>,
    },
    /// A part has no receipt, or two that differ.
    #[error("{engine} returned {found} different receipts of part {part}, not one; nothing was committed")]
    Receipts {
        /// The engine.
        engine: String,
        /// The part.
        part: u32,
        /// How many receipts it has.
        found: usize,
    },
    /// An engine that does not exist.
    #[error("unknown engine {name:?}; known are local, datafusion and ballista://HOST:PORT")]
    UnknownEngine {
        /// The name that was given.
        name: String,
    },
    /// A data set that is to be replaced in parts.
    #[error(
        "an engine cannot overwrite: its parts share the output, and one would remove what the others made; remove the \
         finished data set first"
    )]
    Overwrite,
    /// An address that other machines can reach, without a word that they may.
    #[error(
        "{host} can be reached from other machines, and whoever reaches it can run plans here; bind to 127.0.0.1, or \
         give --trust-network where only trusted machines are"
    )]
    OpenToAll {
        /// The address.
        host: String,
    },
}

impl Error {
    /// The documented exit code of the programs.
    #[must_use]
    pub fn exit_code(&self) -> u8 {
        match self {
            Self::Build(error) => error.exit_code(),
            Self::Part { exit_code, .. } => *exit_code,
            Self::Engine { .. } => 75,
            Self::Receipts { .. } => 3,
            Self::UnknownEngine { .. } | Self::Overwrite | Self::OpenToAll { .. } => 2,
        }
    }
}

/// Ends a program: prints an error with its causes and gives its exit code.
pub fn finish(result: anyhow::Result<()>) -> ExitCode {
    let Err(error) = result else { return ExitCode::SUCCESS };
    eprintln!("error: {}", bert_storage::visible(&message(error.chain())));
    ExitCode::from(error.downcast_ref().map_or(1, Error::exit_code))
}
