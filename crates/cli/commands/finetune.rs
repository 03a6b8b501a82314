//! `finetune`: a checkpoint, tuned and scored on a task.

use std::fmt::Write as _;
use std::path::PathBuf;
use std::time::Instant;

use bert_trainer::finetune::{FinetuneConfig, FinetuneEvent, FinetuneReport, finetune};
use clap::Parser;

use crate::exit::{print, print_json};
use crate::progress::{Progress, duration};
use crate::saved_config;
use crate::signals::stop_on_signals;

/// Fine-tune a checkpoint on a task, once per seed, and score it.
#[derive(Parser, Debug)]
#[command(name = "finetune", version, after_help = crate::commands::EXIT_CODES)]
pub struct Args {
    #[command(flatten)]
    config: FinetuneConfig,

    /// Take the options from a JSON file, or from an earlier output (its folder or report.json); flags that are given go before it.
    #[arg(long = "config", id = saved_config::CONFIG_FILE, value_name = "FILE")]
    pub config_file: Option<PathBuf>,

    /// Print the report as one JSON object.
    #[arg(long)]
    json: bool,

    /// No progress on stderr.
    #[arg(long)]
    quiet: bool,
}

impl Args {
    /// The arguments of the command line, and under them those of `--config`. Ends the process where clap does.
    ///
    /// # Errors
    /// When the file of `--config` cannot be used.
    pub fn read() -> anyhow::Result<Self> {
        saved_config::parse(
            |path| saved_config::read(path, "report.json"),
            |args: &mut Self| &mut args.config,
        )
    }
}

/// Runs the command.
///
/// # Errors
/// What fine-tuning returns.
pub fn run(args: Args) -> anyhow::Result<()> {
    let stop = stop_on_signals()?;
    let mut view = View::new(&args.config.seeds, args.quiet);
    let report = finetune(&args.config, &stop, &mut |event| view.show(&event));
    view.finish();
    let report = report?;
    match args.json {
        true => print_json(&report),
        false => print(&summary(&report)),
    }
}

/// Draws a fine-tuning's events.
pub struct View {
    progress: Progress,
    seeds: Vec<u64>,
    started: Instant,
}

impl View {
    /// A view of runs with these seeds.
    pub fn new(seeds: &[u64], quiet: bool) -> Self {
        Self { progress: Progress::new("finetune", 0, quiet), seeds: seeds.to_vec(), started: Instant::now() }
    }

    /// Shows an event.
    pub fn show(&mut self, event: &FinetuneEvent) {
        match event {
            FinetuneEvent::Step { seed, step, steps, loss } => {
                let runs_before = self.seeds.iter().position(|s| s == seed).unwrap_or(0) as u64;
                let (done, all) = (runs_before * steps + step, self.seeds.len() as u64 * steps);
                self.progress.set_total(all);
                let seconds = self.started.elapsed().as_secs_f64();
                let left = duration((all - done) as f64 * seconds / done as f64);
                self.progress
                    .set(done, &format!("seed {seed}, step {step} of {steps}, loss {loss:.4}, {left} left"));
            }
            FinetuneEvent::Evaluated { seed, epoch, scores } => {
                self.progress.line(&format!("seed {seed}, epoch {epoch:.1}: dev {scores}"));
            }
            FinetuneEvent::Warning(text) => self.progress.warn(text),
        }
    }

    /// Takes the bar away.
    pub fn finish(&self) {
        self.progress.finish();
    }
}

fn summary(report: &FinetuneReport) -> String {
    let mut text = format!("dev\n{}", report.dev);
    for (name, summary) in [("dev, mismatched", &report.dev_mismatched), ("test", &report.test)] {
        if let Some(summary) = summary {
            let _ = write!(text, "\n{name}\n{summary}");
        }
    }
    if report.is_sample {
        text.push_str(
            "\nscored on samples, not on the official files: not comparable with published figures",
        );
    }
    let _ = write!(text, "\ntrained parameters: {}", report.parameters);
    let output = report.config.output.display();
    let _ = write!(
        text,
        "\ntuned model: {}; for curves and errors: bert report {output}",
        report.model.display()
    );
    text
}
