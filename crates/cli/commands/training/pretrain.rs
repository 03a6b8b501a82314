//! `pretrain` trains a model on a data folder with masked LM and next-sentence prediction.

use std::fmt::Write as _;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

use bert_inference::memory::bytes_in_words;
use bert_reports::run_findings;
use bert_storage::Disk;
use bert_training::{
    Evaluation, PretrainConfig, PretrainEvent, PretrainOutcome, StepMetrics, Work, dry_run, pretrain_in,
};
use clap::{ArgMatches, Parser};
use serde_json::{Map, Value};

use crate::commands::hub::pinned_start;
use crate::options::help::examples_and_exit_codes;
use crate::options::run_args::RunArgs;
use crate::options::saved_config::{Program, RecipeArgs};
use crate::options::version::long_version;
use crate::output::counting::CountingView;
use crate::output::findings::print_findings;
use crate::output::progress::{Progress, print_note, print_warning};
use crate::output::run_log::{LogArgs, RunLog};
use crate::output::table::{FormatArgs, Table, outcome_table, print_table};
use crate::process::process_group::GroupArgs;
use crate::process::signals::stop_on_signals_after;
use crate::process::threads::ThreadArgs;

const EXAMPLES: &str = "Examples:
  pretrain --recipe laptop --data data --output run
  pretrain --data data --init-checkpoint run --budget 2h --output continued";

/// Pre-train BERT on a folder made by make-pretrain-data.
///
/// The objectives are masked LM and, unless the data was made with --nsp off, next-sentence prediction.
#[derive(Parser, Debug)]
#[command(name = "pretrain", version, long_version = long_version())]
#[command(after_help = EXAMPLES, after_long_help = examples_and_exit_codes(EXAMPLES))]
#[command(mut_arg("format", |flag| flag.hide_short_help(true)))]
pub struct Args {
    #[command(flatten)]
    pub(super) config: PretrainConfig,

    /// Where the remaining options come from.
    #[command(flatten)]
    pub saved: RecipeArgs,

    /// Print an estimate of the run, and write nothing. The estimate has parameters, operations, time (from a few
    /// measured steps), memory, disk and passes over the text.
    #[arg(long, conflicts_with = "resume")]
    dry_run: bool,

    #[command(flatten)]
    threads: ThreadArgs,

    #[command(flatten)]
    format: FormatArgs,

    #[command(flatten)]
    log: LogArgs,

    /// Add histograms of the weights, and of the mean gradients (the optimizer's first moments), of every checkpoint to the
    /// event files.
    #[arg(long, help_heading = "Logs", hide_short_help = true, requires = "tensorboard")]
    tensorboard_histograms: bool,

    #[command(flatten)]
    run: RunArgs,

    #[command(flatten)]
    group: GroupArgs,
}

impl Program for Args {
    type Config = PretrainConfig;

    const SAVED_AS: &str = "run.json";

    const SECTION: &str = "pretrain";

    /// Reduces the warm-up of the recipe to a tenth of the command line's `--steps` if it is longer than these steps.
    /// With `--budget`, the warm-up is a tenth of the steps that fit the budget.
    fn fit_recipe(options: &mut Map<String, Value>, given: &ArgMatches) {
        let steps = given.try_get_one::<u64>("steps").ok().flatten();
        let is_explicit = given.try_get_one::<u64>("warmup_steps").ok().flatten().is_some();
        let has_budget = given.try_contains_id("budget").unwrap_or(false);
        if has_budget && !is_explicit && options.remove("warmup_steps").is_some() {
            print_note("the warm-up is a tenth of the steps, instead of the --warmup-steps of the recipe");
        }
        let warmup = options.get("warmup_steps").and_then(Value::as_u64);
        if let (Some(&steps), Some(warmup), false) = (steps, warmup, is_explicit)
            && warmup > steps
        {
            let reduced = steps / 10;
            print_note(format!(
                "--warmup-steps is {reduced}, a tenth of --steps {steps}, instead of the {warmup} of the recipe"
            ));
            options.insert("warmup_steps".to_string(), reduced.into());
        }
    }
}

/// Runs the command.
pub fn run(mut args: Args) -> anyhow::Result<()> {
    args.threads.start_pool();
    // Download before signals are handled, so that a signal ends the download, and before other ranks wait for this
    // one.
    let PretrainConfig { init_checkpoint, output, .. } = &mut args.config;
    if let Some(path) = init_checkpoint {
        *path = pinned_start(path, output, args.run.quiet)?;
    }
    let has_joined = Arc::new(AtomicBool::new(false));
    let stop = stop_on_signals_after(Arc::clone(&has_joined))?;
    let mut group = args.group.join()?;
    has_joined.store(true, Ordering::Relaxed);
    let quiet = args.run.quiet || !group.is_first();
    let mut view = View::new(args.config.steps.unwrap_or(0), quiet);
    if args.dry_run {
        let estimate = dry_run(&args.config, &mut group, &stop, &mut |event| view.show(event))?;
        drop(view);
        return if group.is_first() {
            let text = estimate.to_string();
            print_table(args.format, &estimate, Table::from_lines(&text), |_| text)
        } else {
            Ok(())
        };
    }
    // Only one of several ranks writes the log.
    let log_args = if group.is_first() { &args.log } else { &LogArgs::default() };
    let mut log = RunLog::open(log_args, &args.config.output, &args.config)?
        .with_histograms(args.tensorboard_histograms);
    let on_event = &mut |event| {
        log.pretrain(&event);
        view.show(event);
    };
    let outcome = pretrain_in(&Disk, &args.config, &mut group, args.run.resume.into(), &stop, on_event);
    if outcome.is_ok() {
        view.progress.done();
    }
    drop(view);
    log.finish(&stop);
    let outcome = outcome?;
    if !group.is_first() {
        return Ok(());
    }
    if !quiet {
        print_findings(&run_findings(&args.config.output)?);
    }
    print_table(args.format, &outcome, outcome_table(&outcome), |_| summary(&outcome, &args.config.output))
}

/// Progress display of a pre-training run.
pub struct View {
    progress: Progress,
    counting: CountingView,
    batch_size: usize,
    /// The operations of a sequence, and the rate of the device, once the run has started.
    work: Option<Work>,
    first_step: u64,
    started: Instant,
    waiting: f64,
}

impl View {
    /// Creates the display of a run of `steps` steps.
    pub fn new(steps: u64, quiet: bool) -> Self {
        let progress = Progress::new("pretrain", steps, quiet);
        let counting = CountingView::new(quiet);
        Self {
            progress,
            counting,
            batch_size: 0,
            work: None,
            first_step: 0,
            started: Instant::now(),
            waiting: 0.0,
        }
    }

    /// Updates the display with an event.
    pub fn show(&mut self, event: PretrainEvent) {
        match event {
            PretrainEvent::Measuring => self.progress.line("measuring the time of a step"),
            PretrainEvent::Measured { steps, seconds_per_step } => {
                self.progress.line(&format!("--budget allows {steps} steps of {seconds_per_step:.3} s each"));
            }
            PretrainEvent::Defaults(defaults) => {
                defaults.iter().for_each(|default| self.progress.line(&default.to_string()));
            }
            PretrainEvent::DeviceChecked(device, check) => self.progress.line(&format!("{device} {check}")),
            PretrainEvent::Counting(event) => self.counting.show(&event),
            PretrainEvent::Started { step, steps, parameters, batch_size, memory, work } => {
                self.counting.finish();
                self.batch_size = batch_size;
                self.work = Some(work);
                self.progress.set_total(steps);
                self.first_step = step;
                self.started = Instant::now();
                let from = if step == 0 { String::new() } else { format!(", continued after step {step}") };
                let millions = parameters as f64 / 1e6;
                let memory = bytes_in_words(memory);
                let text = format!(
                    "{millions:.2} M parameters, {steps} steps of {batch_size} sequences, about {memory} of memory{from}"
                );
                self.progress.line(&text);
            }
            PretrainEvent::Step { metrics, timing } => {
                self.waiting += timing.waiting;
                let message = self.step_line(&metrics);
                self.progress.set(metrics.step, &message);
            }
            PretrainEvent::Evaluated { step, evaluation } => {
                self.progress.line(&format!("step {step}: held-out: {}", evaluation_line(&evaluation)));
                for part in &evaluation.parts {
                    let share = 100.0 * part.share;
                    let data = part.data.display();
                    let figures = evaluation_line(&part.evaluation);
                    self.progress.line(&format!("step {step}: held-out: {data} ({share:.0} %): {figures}"));
                }
            }
            PretrainEvent::Saved { step, path } => {
                self.progress.line(&format!("step {step}: saved {}", path.display()));
            }
            PretrainEvent::Averaged { steps, path, evaluation } => {
                let held_out = evaluation.map(|e| format!(": held-out: {}", evaluation_line(&e)));
                let text = format!("saved the average of {} checkpoints to {}", steps.len(), path.display());
                self.progress.line(&(text + &held_out.unwrap_or_default()));
            }
            PretrainEvent::Warning(text) => print_warning(&text),
            _ => {}
        }
    }

    fn step_line(&self, metrics: &StepMetrics) -> String {
        let done = (metrics.step - self.first_step) as f64;
        let seconds = self.started.elapsed().as_secs_f64();
        let rate = done * self.batch_size as f64 / seconds;
        let utilization = self.work.and_then(|work| work.utilization(rate));
        let utilization = utilization.map_or_else(String::new, |text| format!(", {text}"));
        // Without sentence pairs, the masked-LM loss is the whole loss.
        let parts = match metrics.next_sentence_loss {
            0.0 => String::new(),
            nsp => format!(", mlm {:.4}, nsp {nsp:.4}", metrics.masked_lm_loss),
        };
        format!(
            "loss {:.4}{parts}, lr {:.1e}, {rate:.1} sequences/s{utilization}, loader wait {:.1} %",
            metrics.loss,
            metrics.learning_rate,
            100.0 * self.waiting / seconds,
        )
    }
}

/// Formats an evaluation as one line.
pub fn evaluation_line(evaluation: &Evaluation) -> String {
    let next_sentence = if evaluation.has_next_sentence() {
        format!(
            "; next-sentence loss {:.4}, accuracy {:.1} %",
            evaluation.next_sentence_loss,
            100.0 * evaluation.next_sentence_accuracy
        )
    } else {
        String::new()
    };
    let masked_lm = match evaluation.predictions {
        0 => "no masked tokens".to_string(),
        _ => format!(
            "masked LM loss {:.4} ({:.4} nats per character), accuracy {:.1} %",
            evaluation.masked_lm_loss,
            evaluation.masked_lm_nats_per_character,
            100.0 * evaluation.masked_lm_accuracy
        ),
    };
    format!("{masked_lm}{next_sentence} ({} instances)", evaluation.instances)
}

fn summary(outcome: &PretrainOutcome, output: &Path) -> String {
    let mut text = format!("{} steps done; checkpoint {}", outcome.steps, outcome.checkpoint.display());
    if let Some(metrics) = &outcome.metrics {
        let _ = write!(text, "\nlast step: loss {:.4}", metrics.loss);
    }
    if let Some(step) = outcome.diverged {
        let _ =
            write!(text, "\ndiverged:  at step {step}; use a lower --learning-rate or more --warmup-steps");
    }
    if outcome.skipped_steps > 0 {
        let _ = write!(text, "\nskipped:   {} steps (loss or gradient not finite)", outcome.skipped_steps);
    }
    if let Some(evaluation) = &outcome.evaluation {
        let _ = write!(text, "\nheld-out:  {}", evaluation_line(evaluation));
    }
    if let Some(best) = &outcome.best {
        let _ = write!(text, "\nbest:      step {}, {}", best.step, evaluation_line(&best.evaluation));
    }
    if let Some(average) = &outcome.average {
        let _ = write!(text, "\naverage:   {}", evaluation_line(average));
    }
    let output = output.display();
    let _ = write!(text, "\nnext:      bert report {output}");
    let _ = write!(text, "\n           finetune --task TASK --data DIR --checkpoint {output} --output DIR");
    text
}
