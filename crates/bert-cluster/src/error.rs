//! Errors of a cluster, in addition to the errors of a build on one machine.

use std::process::ExitCode;

use datafusion::error::DataFusionError;

use crate::work::message;

/// Result type of this crate.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// Error of a build on an engine.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The builder failed on this machine.
    #[error(transparent)]
    Build(#[from] bert_data::Error),
    /// The builder failed on a machine of the cluster.
    #[error("part {part}: {message}")]
    Part {
        /// Number of the failed part.
        part: u32,
        /// Message of the builder.
        message: String,
        /// Exit code of the same failure on one machine.
        exit_code: u8,
    },
    /// The engine failed or could not be reached.
    #[error("{engine}: {source}; finished parts are kept, and the same command continues from there")]
    Engine {
        /// Name of the engine.
        engine: String,
        /// Error of the engine.
        source: Box<DataFusionError>,
    },
    /// A part has no receipt, or two different ones.
    #[error("{engine} returned {found} different receipts of part {part}, not one; nothing was committed")]
    Receipts {
        /// Name of the engine.
        engine: String,
        /// Part number.
        part: u32,
        /// Number of receipts found.
        found: usize,
    },
    /// The engine does not exist.
    #[error("unknown engine {name:?}; the engines are local, datafusion and ballista://HOST:PORT")]
    UnknownEngine {
        /// The given name.
        name: String,
    },
    /// A cluster build cannot overwrite a data set.
    #[error(
        "an engine cannot overwrite: its parts share the output, and one part would remove the files of the others; remove the \
         finished data set first"
    )]
    Overwrite,
    /// The address can be reached from other machines, and the network is not trusted.
    #[error(
        "{host} can be reached from other machines, and clients that reach it can run plans on this machine; bind to \
         127.0.0.1, or use --trust-network if the network has only trusted machines"
    )]
    OpenToAll {
        /// The address.
        host: String,
    },
}

impl Error {
    /// Returns the documented exit code of the programs.
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

/// Prints an error with its causes and returns its exit code.
pub fn finish(result: anyhow::Result<()>) -> ExitCode {
    let Err(error) = result else { return ExitCode::SUCCESS };
    eprintln!("error: {}", bert_storage::visible(&message(error.chain())));
    ExitCode::from(error.downcast_ref().map_or(1, Error::exit_code))
}
