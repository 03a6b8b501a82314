//! `make-pretrain-data`: text to Parquet shards of masked sentence pairs.

use bert_data::{BuildConfig, BuildProgress, BuildStage, build};
use clap::Parser;

use crate::exit::{print, print_json};
use crate::progress::{Progress, say};

/// Make BERT pre-training data from text: sentence pairs, masks, Parquet shards.
#[derive(Parser, Debug)]
#[command(name = "make-pretrain-data", version, after_help = crate::commands::EXIT_CODES)]
pub struct Args {
    #[command(flatten)]
    config: BuildConfig,

    /// Print the manifest as one JSON object instead of the report.
    #[arg(long)]
    json: bool,

    /// No progress on stderr.
    #[arg(long)]
    quiet: bool,

    /// Estimate documents, instances, bytes, memory and time from a sample, and write nothing.
    #[arg(long, conflicts_with = "preview")]
    dry_run: bool,
}

/// Runs the command.
///
/// # Errors
/// What the build returns.
pub fn run(args: Args) -> anyhow::Result<()> {
    if args.dry_run {
        let estimate = bert_data::dry_run(&args.config)?;
        return match args.json {
            true => print_json(&estimate),
            false => print(estimate.to_string().trim_end()),
        };
    }
    let mut view = View::new(args.quiet);
    let outcome = build(&args.config, &mut |progress| view.show(progress));
    view.finish();
    let outcome = outcome?;
    for warning in &outcome.manifest.report.warnings {
        say(&format!("warning: {warning}"));
    }
    if args.json {
        return print_json(&outcome.manifest);
    }
    for instance in &outcome.preview {
        print(instance)?;
    }
    let bytes: u64 = outcome.manifest.shards.iter().map(|shard| shard.bytes).sum();
    let shards = outcome.manifest.shards.len();
    print(&format!("{}", outcome.manifest.report))?;
    print(&format!("{shards} shards, {bytes} bytes: {}", outcome.output.display()))
}

/// Draws a build's progress.
pub struct View {
    quiet: bool,
    shown: Option<(BuildStage, Progress)>,
}

impl View {
    /// A view of a build.
    pub fn new(quiet: bool) -> Self {
        Self { quiet, shown: None }
    }

    /// Shows how far it is.
    pub fn show(&mut self, at: BuildProgress) {
        if self.shown.as_ref().is_none_or(|(stage, _)| *stage != at.stage) {
            self.finish();
            let title = match at.stage {
                BuildStage::Reading => "reading (bytes)",
                BuildStage::Instances => "pairs and masks (documents)",
                BuildStage::Writing => "writing (rows)",
                _ => "building",
            };
            self.shown = Some((at.stage, Progress::new(title, at.total, self.quiet)));
        }
        if let Some((_, progress)) = &mut self.shown {
            progress.set(at.done, "");
        }
    }

    /// Takes the bar away.
    pub fn finish(&mut self) {
        if let Some((_, progress)) = self.shown.take() {
            progress.finish();
        }
    }
}
