//! `bert probe` changes one word of a text and shows which predictions flip.

mod args;
mod changes;
mod saliency;
mod seeds;

use bert_inference::{ModelOptions, Prober};

pub use crate::commands::evaluation::probe::args::Args;
use crate::commands::evaluation::probe::changes::Probes;
use crate::commands::evaluation::probe::saliency::show_saliency;
use crate::commands::evaluation::probe::seeds::probe_seeds;
use crate::commands::hub::pinned;
use crate::commands::{selected_device, tuned_folder};
use crate::output::table::print_table;

/// Runs the command.
pub fn run(args: &Args) -> anyhow::Result<()> {
    args.threads.start_pool();
    let encoder = args.encoder.as_deref().map(|path| pinned(path, false)).transpose()?;
    if args.all_seeds {
        return probe_seeds(args, encoder.as_deref());
    }
    let folder = tuned_folder(&args.checkpoint)?;
    let device = selected_device(args.device)?;
    let options = ModelOptions::default().with_encoder(encoder.as_deref()).with_device(device);
    let prober = Prober::open(&folder, options)?;
    if args.saliency {
        return show_saliency(args, &prober);
    }
    let probes = Probes::new(args, &folder, &prober)?;
    print_table(args.format, &probes, probes.table(), |_| probes.text())
}
