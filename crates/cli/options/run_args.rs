//! Flags that the commands with progress share.

/// Flags for the output of a command.
#[derive(clap::Args, Clone, Copy, Debug)]
pub struct PrintArgs {
    /// Print the result as one JSON object.
    #[arg(long)]
    pub json: bool,

    /// Hide the progress on stderr.
    #[arg(long)]
    pub quiet: bool,
}

/// Flags of a command that trains.
#[derive(clap::Args, Clone, Copy, Debug)]
pub struct RunArgs {
    /// Resume the stopped or killed run in --output. The result is the same bit for bit, and finished parts are not
    /// repeated.
    #[arg(long)]
    pub resume: bool,

    /// Hide the progress on stderr.
    #[arg(long)]
    pub quiet: bool,
}
