//! `finetune`: a checkpoint, tuned and scored on a task.

use std::fmt::Write as _;

use bert_trainer::finetune::{FinetuneConfig, FinetuneEvent, FinetuneReport, finetune};
use clap::Parser;

use crate::exit::{print, print_json};
use crate::progress::Progress;
use crate::signals::stop_on_signals;

/// Fine-tune a checkpoint on a task, once per seed, and score it.
#[derive(Parser, Debug)]
#[command(name = "finetune", version, after_help = crate::commands::EXIT_CODES)]
pub struct Args {
    #[command(flatten)]
    config: FinetuneConfig,

    /// Print the report as one JSON object.
    #[arg(long)]
    json: bool,

    /// No progress on stderr.
    #[arg(long)]
    quiet: bool,
}

/// Runs the command.
///
/// # Errors
/// What fine-tuning returns.
pub fn run(args: Args) -> anyhow::Result<()> {
    let stop = stop_on_signals()?;
    let mut progress = Progress::new("finetune", 0, args.quiet);
    let report = finetune(&args.config, &stop, &mut |event| show(&mut progress, &event));
    progress.finish();
    let report = report?;
    match args.json {
        true => print_json(&report),
        false => print(&summary(&report)),
    }
}

/// Draws an event.
pub fn show(progress: &mut Progress, event: &FinetuneEvent) {
    match event {
        FinetuneEvent::Step { seed, step, steps, loss } => {
            progress.set(*step, &format!("of {steps} (seed {seed}) loss {loss:.4}"));
        }
        FinetuneEvent::Evaluated { seed, epoch, scores } => {
            progress.line(&format!("seed {seed}, epoch {epoch:.1}: dev {scores}"));
        }
        FinetuneEvent::Warning(text) => progress.warn(text),
    }
}

fn summary(report: &FinetuneReport) -> String {
    let mut text = format!("dev\n{}", report.dev);
    if let Some(test) = &report.test {
        let _ = write!(text, "\ntest\n{test}");
    }
    if report.is_sample {
        text.push_str(
            "\nscored on samples, not on the official files: not comparable with published figures\n",
        );
    }
    let _ = write!(text, "\ntuned model: {}", report.model.display());
    text
}
