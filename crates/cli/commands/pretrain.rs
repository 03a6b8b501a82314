//! `pretrain` trains a model on a data folder with masked LM and next-sentence prediction.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::time::Instant;

use bert_trainer::PretrainConfig;
use bert_trainer::compute::memory::bytes_in_words;
use bert_trainer::evaluation::Evaluation;
use bert_trainer::pretrain::{PretrainEvent, PretrainOutcome, StepMetrics, pretrain};
use bert_trainer::report::run_findings;
use clap::{ArgMatches, Parser};
use serde_json::{Map, Value};

use crate::commands::report::print_findings;
use crate::exit::print_result;
use crate::progress::{Progress, print_note};
use crate::recipe::{self, Recipe};
use crate::saved_config;
use crate::signals::stop_on_signals;

/// Pre-train BERT (masked LM and next-sentence prediction) on a folder made by make-pretrain-data.
#[derive(Parser, Debug)]
#[command(name = "pretrain", version, after_help = crate::commands::EXIT_CODES)]
pub struct Args {
    #[command(flatten)]
    config: PretrainConfig,

    /// Read options from a JSON file or from an earlier run (its folder or run.json); command-line flags override them.
    #[arg(long = "config", id = saved_config::CONFIG_FILE, value_name = "FILE")]
    pub config_file: Option<PathBuf>,

    /// Read the remaining options from a recipe: a name listed by `bert recipes`, or a file in the same format.
    #[arg(long = "recipe", id = recipe::RECIPE, value_name = "NAME|FILE", value_parser = recipe::parse_name, conflicts_with = saved_config::CONFIG_FILE)]
    pub recipe: Option<String>,

    /// Resume the run in --output from its newest valid checkpoint, bit for bit.
    #[arg(long)]
    resume: bool,

    /// Print the result as one JSON object.
    #[arg(long)]
    json: bool,

    /// Hide the progress on stderr.
    #[arg(long)]
    quiet: bool,
}

impl Args {
    /// Returns the command-line arguments, with the options of `--config` as defaults. Exits the process on a usage
    /// error.
    ///
    /// # Errors
    /// Fails if the file of `--config` is invalid.
    pub fn read() -> anyhow::Result<Self> {
        let read = |path: &_| saved_config::read(path, "run.json");
        saved_config::parse(read, recipe_options, |args: &mut Self| &mut args.config)
    }
}

/// Returns the options of a recipe. Its warm-up is reduced to a tenth of the `--steps` of the command line if it is
/// longer than these.
fn recipe_options(recipe: Recipe, given: &ArgMatches) -> Map<String, Value> {
    let mut options = recipe.pretrain;
    let steps = given.try_get_one::<u64>("steps").ok().flatten();
    let is_explicit = given.try_get_one::<u64>("warmup_steps").ok().flatten().is_some();
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
    options
}

/// Runs the command.
///
/// # Errors
/// Returns the error of the pre-training.
pub fn run(args: Args) -> anyhow::Result<()> {
    let stop = stop_on_signals()?;
    let mut view = View::new(args.config.steps.unwrap_or(0), args.quiet);
    let outcome = pretrain(&args.config, args.resume, &stop, &mut |event| view.show(event));
    drop(view);
    let outcome = outcome?;
    if !args.quiet {
        print_findings(&run_findings(&args.config.output)?);
    }
    print_result(args.json, &outcome, |outcome| summary(outcome, &args.config.output))
}

/// Progress display of a pre-training run.
pub struct View {
    progress: Progress,
    batch_size: usize,
    first_step: u64,
    started: Instant,
    waiting: f64,
}

impl View {
    /// Creates the display of a run of `steps` steps.
    pub fn new(steps: u64, quiet: bool) -> Self {
        let progress = Progress::new("pretrain", steps, quiet);
        Self { progress, batch_size: 0, first_step: 0, started: Instant::now(), waiting: 0.0 }
    }

    /// Updates the display with an event.
    pub fn show(&mut self, event: PretrainEvent) {
        match event {
            PretrainEvent::Measuring => self.progress.line("measuring the time of a step for --budget"),
            PretrainEvent::Measured { steps, seconds_per_step } => {
                self.progress.line(&format!("--budget allows {steps} steps of {seconds_per_step:.3} s each"));
            }
            PretrainEvent::Counting => {
                self.progress.line("counting bigrams of the training text for the initial weights")
            }
            PretrainEvent::Started { step, steps, parameters, batch_size, memory } => {
                self.batch_size = batch_size;
                self.progress.set_total(steps);
                self.first_step = step;
                self.started = Instant::now();
                let from = if step == 0 { String::new() } else { format!(", continued after step {step}") };
                let millions = parameters as f64 / 1e6;
                let memory = memory.map(|bytes| format!(", about {} of memory", bytes_in_words(bytes)));
                let text = format!(
                    "{millions:.2} M parameters, {steps} steps of {batch_size} sequences{}{from}",
                    memory.unwrap_or_default()
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
            }
            PretrainEvent::Saved { step, path } => {
                self.progress.line(&format!("step {step}: saved {}", path.display()));
            }
            PretrainEvent::Averaged { steps, path, evaluation } => {
                let held_out = evaluation.map(|e| format!(": held-out: {}", evaluation_line(&e)));
                let text = format!("saved the average of {} checkpoints to {}", steps.len(), path.display());
                self.progress.line(&(text + &held_out.unwrap_or_default()));
            }
            PretrainEvent::Warning(text) => self.progress.warn(&text),
        }
    }

    fn step_line(&self, metrics: &StepMetrics) -> String {
        let done = (metrics.step - self.first_step) as f64;
        let seconds = self.started.elapsed().as_secs_f64();
        let rate = done * self.batch_size as f64 / seconds;
        // Without sentence pairs, the masked-LM loss is the whole loss.
        let parts = match metrics.next_sentence_loss {
            0.0 => String::new(),
            nsp => format!(" (mlm {:.4}, nsp {nsp:.4})", metrics.masked_lm_loss),
        };
        format!(
            "loss {:.4}{parts}, lr {:.1e}, {rate:.1} sequences/s, loader wait {:.1} %",
            metrics.loss,
            metrics.learning_rate,
            100.0 * self.waiting / seconds,
        )
    }
}

/// Formats an evaluation as one line.
pub fn evaluation_line(evaluation: &Evaluation) -> String {
    let next_sentence = match evaluation.has_next_sentence() {
        true => format!(
            "; next-sentence loss {:.4}, accuracy {:.1} %",
            evaluation.next_sentence_loss,
            100.0 * evaluation.next_sentence_accuracy
        ),
        false => String::new(),
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
