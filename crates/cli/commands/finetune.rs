//! `finetune` trains a checkpoint on a task and scores it.

use std::fmt::Write as _;
use std::path::PathBuf;
use std::time::Instant;

use bert_trainer::StopFlag;
use bert_trainer::finetune::{FinetuneConfig, FinetuneEvent, FinetuneReport, TaskEpoch, finetune};
use clap::Parser;

use crate::exit::print_result;
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

    /// Go on with the fine-tuning in --output that was stopped or killed, bit for bit; finished runs are not run again.
    #[arg(long)]
    resume: bool,

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
            |_| unreachable!("finetune has no --recipe"),
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
    let report = tune(&args.config, args.resume, args.quiet, &stop)?;
    print_result(args.json, &report, summary)
}

/// Fine-tunes, and draws its events.
///
/// # Errors
/// What fine-tuning returns.
pub fn tune(
    config: &FinetuneConfig,
    resume: bool,
    quiet: bool,
    stop: &StopFlag,
) -> anyhow::Result<FinetuneReport> {
    let mut view = View::new(config, quiet);
    Ok(finetune(config, resume, stop, &mut |event| view.show(&event))?)
}

/// Draws a fine-tuning's events.
pub struct View {
    progress: Progress,
    seeds: Vec<u64>,
    cells: u64,
    cells_done: u64,
    started: Instant,
}

impl View {
    /// A view of the runs of this configuration.
    pub fn new(config: &FinetuneConfig, quiet: bool) -> Self {
        Self {
            progress: Progress::new("finetune", 0, quiet),
            seeds: config.seeds.to_vec(),
            cells: config.grid_cells() as u64,
            cells_done: 0,
            started: Instant::now(),
        }
    }

    /// Shows an event.
    pub fn show(&mut self, event: &FinetuneEvent) {
        match event {
            FinetuneEvent::Step { seed, step, steps, loss } => {
                let runs = self.seeds.len() as u64;
                let before = self.seeds.iter().position(|s| s == seed).unwrap_or(0) as u64;
                // Cells have different numbers of steps; this is how far it would be if all were like the present one.
                let done = (self.cells_done * runs + before) * steps + step;
                let all = self.cells * runs * steps;
                self.progress.set_total(all);
                let seconds = self.started.elapsed().as_secs_f64();
                let left = duration((all - done) as f64 * seconds / done as f64);
                self.progress
                    .set(done, &format!("seed {seed}, step {step} of {steps}, loss {loss:.4}, {left} left"));
            }
            FinetuneEvent::Evaluated { seed, epoch, scores, held_out } => {
                let set = if *held_out { "held-out" } else { "dev" };
                self.progress.line(&format!("seed {seed}, epoch {epoch:.1}: {set} {scores}"));
            }
            FinetuneEvent::TasksEvaluated { epoch, tasks } => {
                for TaskEpoch { task, steps, dev, .. } in tasks {
                    self.progress.line(&format!("epoch {epoch}, {task}, {steps} steps: dev {dev}"));
                }
            }
            FinetuneEvent::Resumed { seed, step } => self.progress.line(&match step {
                Some(step) => format!("seed {seed}: goes on after step {step}"),
                None => format!("seed {seed}: was finished before"),
            }),
            FinetuneEvent::CellDone { cell, cells, report } => {
                self.cells_done = *cell as u64;
                self.progress.line(&format!("cell {cell} of {cells}: {report}"));
            }
            FinetuneEvent::Warning(text) => self.progress.warn(text),
        }
    }
}

fn summary(report: &FinetuneReport) -> String {
    let grid = report.grid.as_ref().map_or(String::new(), |grid| format!("{grid}\n\n"));
    let mut text = format!("{grid}dev\n{}", report.dev);
    for (name, summary) in [("dev, mismatched", &report.dev_mismatched), ("test", &report.test)] {
        if let Some(summary) = summary {
            let _ = write!(text, "\n{name}\n{summary}");
        }
    }
    let stopped = report.runs.iter().filter(|run| run.stopped_early);
    let stopped: Vec<String> = stopped
        .map(|run| {
            format!("seed {} after {:.1} epochs", run.seed, run.history.last().map_or(0.0, |at| at.epoch))
        })
        .collect();
    if !stopped.is_empty() {
        let _ = write!(text, "\nended by --patience: {}", stopped.join(", "));
    }
    // Those of the scores stand beside them.
    let beside = report.dev.warnings();
    for warning in report.warnings.iter().filter(|warning| !beside.contains(warning)) {
        let _ = write!(text, "\nwarning: {warning}");
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
