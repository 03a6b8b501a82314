//! `finetune` trains a checkpoint on a task and evaluates it.

use std::fmt::Write as _;

use bert_finetuning::{FinetuneConfig, FinetuneEvent, FinetuneReport, TaskEpoch, finetune};
use bert_inference::StopFlag;
use bert_tasks::Metric;
use bert_training::MaskedLmScores;
use clap::Parser;

use crate::commands::hub::{folder_of_name, pinned_start};
use crate::options::help::examples_and_exit_codes;
use crate::options::run_args::RunArgs;
use crate::options::saved_config::{Program, RecipeArgs};
use crate::options::version::long_version;
use crate::output::counting::CountingView;
use crate::output::progress::{Progress, print_warning};
use crate::output::run_log::{LogArgs, RunLog};
use crate::output::table::{FormatArgs, finetune_table, print_table};
use crate::process::signals::stop_on_signals;
use crate::process::threads::ThreadArgs;

const EXAMPLES: &str = "Examples:
  finetune --task sst-2 --data glue --checkpoint run --output sst-2 --seeds 1-5
  finetune --task table --data reviews --columns text,label --output reviews-out
  finetune --task rte --data glue --learning-rate 1e-4,3e-4 --output grid";

/// Fine-tune a checkpoint on a task, once per seed, and evaluate it.
#[derive(Parser, Debug)]
#[command(name = "finetune", version, long_version = long_version())]
#[command(after_help = EXAMPLES, after_long_help = examples_and_exit_codes(EXAMPLES))]
#[command(mut_arg("format", |flag| flag.hide_short_help(true)))]
pub struct Args {
    #[command(flatten)]
    config: FinetuneConfig,

    /// Where the remaining options come from.
    #[command(flatten)]
    pub saved: RecipeArgs,

    #[command(flatten)]
    threads: ThreadArgs,

    #[command(flatten)]
    format: FormatArgs,

    #[command(flatten)]
    log: LogArgs,

    #[command(flatten)]
    run: RunArgs,
}

impl Program for Args {
    type Config = FinetuneConfig;

    const SAVED_AS: &str = "report.json";

    const SECTION: &str = "finetune";
}

/// Runs the command.
pub fn run(mut args: Args) -> anyhow::Result<()> {
    args.threads.start_pool();
    // Download before signals are handled, so that a signal ends the download.
    start_from_names(&mut args.config, args.run.quiet)?;
    let stop = stop_on_signals()?;
    let mut log = RunLog::open(&args.log, &args.config.output, &args.config)?;
    let mut view = View::new(&args.config, args.run.quiet);
    let report = finetune(&args.config, args.run.resume.into(), &stop, &mut |event| {
        log.finetune(&event);
        view.show(&event);
    });
    if report.is_ok() {
        view.progress.done();
    }
    drop(view);
    log.finish(&stop);
    let report = report?;
    print_table(args.format, &report, finetune_table(&report), |_| summary(&report))
}

/// Downloads the checkpoint and the adapters of a configuration that are models of the Hub. Replaces the checkpoint by
/// its name with the commit, and each adapter by its folder.
fn start_from_names(config: &mut FinetuneConfig, quiet: bool) -> anyhow::Result<()> {
    config.checkpoint = pinned_start(&config.checkpoint, &config.output, quiet)?;
    for adapter in &mut config.adapters.fusion {
        *adapter = folder_of_name(adapter, quiet)?;
    }
    Ok(())
}

/// Runs a fine-tuning and draws its progress.
pub fn tune(
    config: &FinetuneConfig,
    resume: bool,
    quiet: bool,
    stop: &StopFlag,
) -> anyhow::Result<FinetuneReport> {
    let mut view = View::new(config, quiet);
    Ok(finetune(config, resume.into(), stop, &mut |event| view.show(&event))?)
}

/// Progress display of a fine-tuning.
pub struct View {
    progress: Progress,
    counting: CountingView,
    seeds: Vec<u64>,
    cells: u64,
    metric: Metric,
}

impl View {
    /// Creates the display for the runs of a configuration.
    pub fn new(config: &FinetuneConfig, quiet: bool) -> Self {
        Self {
            progress: Progress::new("finetune", 0, quiet),
            counting: CountingView::new(quiet),
            seeds: config.seeds.to_vec(),
            cells: config.grid_cells() as u64,
            metric: config.task.spec().primary,
        }
    }

    /// Updates the display with an event.
    pub fn show(&mut self, event: &FinetuneEvent) {
        match event {
            FinetuneEvent::Step { cell, seed, step, steps, loss } => {
                self.counting.finish();
                let runs = self.seeds.len() as u64;
                let before = self.seeds.iter().position(|s| s == seed).unwrap_or(0) as u64;
                // Grid cells have different numbers of steps; the estimate assumes that all have as many as the current
                // one.
                let cells_done = cell.map_or(0, |cell| cell as u64 - 1);
                let done = (cells_done * runs + before) * steps + step;
                let all = self.cells * runs * steps;
                self.progress.set_total(all);
                self.progress.set(done, &format!("seed {seed}, step {step} of {steps}, loss {loss:.4}"));
            }
            FinetuneEvent::Evaluated { seed, epoch, scores, held_out, .. } => {
                let set = if *held_out { "held-out" } else { "dev" };
                self.progress.line(&format!("seed {seed}, epoch {epoch:.1}: {set} {scores}"));
            }
            FinetuneEvent::MaskedLm { seed, epoch, scores: MaskedLmScores { loss, accuracy, .. } } => {
                let accuracy = 100.0 * accuracy;
                self.progress.line(&format!(
                    "seed {seed}, epoch {epoch:.1}: masked-LM loss {loss:.3}, accuracy {accuracy:.1} %"
                ));
            }
            FinetuneEvent::TasksEvaluated { epoch, tasks } => {
                for TaskEpoch { task, steps, dev, .. } in tasks {
                    self.progress.line(&format!("epoch {epoch}, {task}, {steps} steps: dev {dev}"));
                }
            }
            FinetuneEvent::Resumed { seed, step } => self.progress.note(&match step {
                Some(step) => format!("seed {seed} continues after step {step}"),
                None => format!("seed {seed} is already complete"),
            }),
            FinetuneEvent::CellDone { cell, cells, report } => {
                self.progress.line(&format!("cell {cell} of {cells}: {}", report.row(self.metric)));
            }
            FinetuneEvent::Defaults(defaults) => {
                defaults.iter().for_each(|default| self.progress.line(&default.to_string()));
            }
            FinetuneEvent::DeviceChecked(device, check) => self.progress.line(&format!("{device} {check}")),
            FinetuneEvent::Counting(event) => self.counting.show(event),
            FinetuneEvent::Warning(text) => print_warning(text),
            _ => {}
        }
    }
}

fn summary(report: &FinetuneReport) -> String {
    let grid = report.grid.as_ref().map_or(String::new(), |grid| format!("{grid}\n\n"));
    let mut text = format!("{grid}dev\n{}\n{}", report.dev, report.selection);
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
        let _ = write!(text, "\nstopped early by --patience: {}", stopped.join(", "));
    }
    // The warnings about the scores are left out, because they are printed next to the scores.
    let with_scores = report.dev.warnings();
    for warning in report.warnings.iter().filter(|warning| !with_scores.contains(warning)) {
        let _ = write!(text, "\nwarning: {warning}");
    }
    if report.is_sample {
        text.push_str(
            "\nnote: scored on samples, not on the official files: not comparable with published results",
        );
    }
    let _ = write!(text, "\ntrained parameters: {}", report.parameters);
    let output = report.config.output.display();
    if !report.seed_models.is_empty() {
        let models = report.config.output.join("seed-N/model");
        let _ = write!(text, "\nmodels of all seeds, for --all-seeds: {}", models.display());
    }
    let _ = write!(text, "\nfine-tuned model: {}\nnext: bert report {output}", report.model.display());
    text
}
