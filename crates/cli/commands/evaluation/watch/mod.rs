//! `bert watch` shows runs while they are in progress: as a page in a browser, or in the terminal.

mod server;
mod tui;

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use bert_trainer::report::live::{LiveRun, LiveStatus};
use clap::Args as ClapArgs;
use serde::Serialize;
use signal_hook::consts::{SIGINT, SIGTERM};
use signal_hook::iterator::Signals;

use crate::commands::evaluation::runs_in;
use crate::output::progress::{print_message, print_stderr};
use crate::output::terminal::Word;

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
    #[arg(long, value_name = "ADDRESS:PORT", default_value = "127.0.0.1:7177", conflicts_with = "tui")]
    listen: SocketAddr,

    /// Show the runs in the terminal.
    #[arg(long)]
    tui: bool,

    /// Print the state once and end.
    #[arg(long)]
    once: bool,

    /// Seconds between two readings of the folders.
    #[arg(long, value_name = "SECONDS", default_value_t = 1, value_parser = clap::value_parser!(u64).range(1..=3600))]
    interval: u64,
}

/// A run as the page gets it.
#[derive(Serialize)]
#[serde(untagged)]
enum Shown {
    Status(Box<LiveStatus>),
    /// Nothing can be shown, or not yet.
    Waiting {
        name: String,
        error: String,
    },
}

/// The watched folders.
struct Watched {
    given: Vec<PathBuf>,
    runs: BTreeMap<PathBuf, LiveRun>,
    order: Vec<PathBuf>,
}

impl Watched {
    fn new(given: &[PathBuf]) -> anyhow::Result<Self> {
        for path in given {
            anyhow::ensure!(path.is_dir(), "{}: this folder does not exist", path.display());
        }
        Ok(Self { given: given.to_vec(), runs: BTreeMap::new(), order: Vec::new() })
    }

    /// Reads all runs; folders that contain runs are searched again, so that new runs appear.
    fn read(&mut self) -> Vec<Shown> {
        self.order = self.given.iter().flat_map(|path| runs_in(path)).collect();
        let read = |path: &PathBuf| {
            let run = self.runs.entry(path.clone()).or_insert_with(|| LiveRun::new(path));
            match run.status() {
                Ok(status) => Shown::Status(Box::new(status)),
                Err(error) => {
                    // The folder may get another kind of files; begin again.
                    *run = LiveRun::new(path);
                    Shown::Waiting { name: path.display().to_string(), error: error.to_string() }
                }
            }
        };
        self.order.iter().map(read).collect()
    }
}

/// Ends the process at the first SIGINT or SIGTERM, after a call of `last`.
fn end_on_signals(last: impl FnOnce() + Send + 'static) -> anyhow::Result<()> {
    let mut signals = Signals::new([SIGINT, SIGTERM])?;
    std::thread::spawn(move || {
        if let Some(signal) = signals.forever().next() {
            last();
            std::process::exit(128 + signal);
        }
    });
    Ok(())
}

/// Runs the command.
pub fn run(args: &Args) -> anyhow::Result<()> {
    let mut watched = Watched::new(&args.runs)?;
    let interval = Duration::from_secs(args.interval);
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
        let text = format!("everyone who can reach {address} can see the runs; there is no password");
        print_message(Word::Warning, &text);
    }
    print_stderr(&format!("http://{address}/ shows the runs; Ctrl-C ends it"));
    server::serve(&listener, watched, interval)
}
