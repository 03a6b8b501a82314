//! `bert watch` shows runs while they are in progress: as a page in a browser, or in the terminal.

mod server;
mod tui;
mod watched;

use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use bert_storage::exists;
use clap::Args as ClapArgs;

use self::watched::Watched;
use crate::output::progress::{print_stderr, print_warning};
use crate::output::signals::end_on_signals;
use crate::output::stdout::print_json;

/// Watch runs and fine-tunings in a browser or in the terminal.
///
/// Serves a page with losses, held-out results, rates, speed, time left and findings until Ctrl-C. The command reads the
/// folders only, and it can be started before, during or after the runs.
#[derive(ClapArgs, Debug)]
pub struct Args {
    /// Folders of runs or fine-tunings, or folders that contain them.
    #[arg(required = true, value_name = "RUN")]
    runs: Vec<PathBuf>,

    /// Address of the page; any other than a loopback address shows the runs to the network.
    #[arg(long, value_name = "ADDRESS:PORT", default_value = "127.0.0.1:7177", conflicts_with_all = ["tui", "once"])]
    listen: SocketAddr,

    /// Show the runs in the terminal.
    #[arg(long, conflicts_with = "once")]
    tui: bool,

    /// Print the state once and end.
    #[arg(long)]
    once: bool,

    /// Print the state as a JSON array, with an object for each run.
    #[arg(long, requires = "once", conflicts_with = "tui")]
    json: bool,

    /// Seconds between two readings of the folders.
    #[arg(long, value_name = "SECONDS", default_value_t = 1, value_parser = clap::value_parser!(u64).range(1..=3600), conflicts_with = "once")]
    interval: u64,
}

/// Runs the command.
pub fn run(args: &Args) -> anyhow::Result<()> {
    for path in args.runs.iter().filter(|_| args.once) {
        anyhow::ensure!(exists(path)?, "{}: this folder does not exist", path.display());
    }
    let mut watched = Watched::new(&args.runs);
    let interval = Duration::from_secs(args.interval);
    if args.json {
        return print_json(&watched.read());
    }
    if args.once {
        return tui::print_once(&watched.read());
    }
    if args.tui {
        return tui::run(watched, interval);
    }
    end_on_signals(|| {})?;
    let listener = server::bind(args.listen)?;
    let address = listener.local_addr()?;
    if !address.ip().is_loopback() {
        print_warning(format!("everyone who can reach {address} can see the runs; there is no password"));
    }
    print_stderr(&format!("http://{address}/ shows the runs; Ctrl-C ends it"));
    server::serve(&listener, watched, interval)
}
