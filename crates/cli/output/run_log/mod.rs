//! Writes the log of a run in standard forms: event files of TensorBoard, and JSON Lines for another program.
//!
//! A failure to write the log is a warning; the run does not depend on it.

mod event_file;
mod log_command;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};

use bert_finetuning::FinetuneEvent;
use bert_inference::StopFlag;
use bert_storage::{Error, reject_url};
use bert_training::histograms::checkpoint_histograms;
use bert_training::{Evaluation, PretrainEvent};
use clap::Args as ClapArgs;
use serde_json::{Map, Value, json};

use self::event_file::EventFile;
use self::log_command::LogCommand;
use crate::output::progress::print_warning;

/// Where the log of a run goes, besides its folder.
#[derive(ClapArgs, Debug, Default)]
pub struct LogArgs {
    /// Write event files for TensorBoard: losses, rates, held-out results and the settings as text [default DIR:
    /// tensorboard/ in the output folder].
    #[arg(long, help_heading = "Logs", hide_short_help = true, value_name = "DIR", require_equals = true)]
    tensorboard: Option<Option<PathBuf>>,

    /// Command that gets the log as JSON Lines on its standard input, for W&B, MLflow or trackio (see examples/log/).
    #[arg(long, help_heading = "Logs", hide_short_help = true, value_name = "CMD")]
    log_command: Option<String>,
}

/// Named values of a step.
type Scalars = Vec<(String, f64)>;

/// The open logs of a run.
pub struct RunLog {
    folder: Option<PathBuf>,
    /// The event files by the name of the series: empty for pre-training, else the cell of a grid and the seed.
    events: BTreeMap<String, EventFile>,
    command_line: Option<String>,
    command: Option<LogCommand>,
    name: String,
    settings: Value,
    batch_size: usize,
    step: u64,
    started: bool,
    has_histograms: bool,
}

impl RunLog {
    /// Prepares the logs of a run that writes to `output`. Files are created and the command is started at the first step,
    /// when the settings have been checked and the run has created its folder.
    ///
    /// # Errors
    /// Fails when the folder of the event files is a URL, or when the settings cannot be written as JSON.
    pub fn open(args: &LogArgs, output: &Path, settings: &impl serde::Serialize) -> anyhow::Result<Self> {
        let default = || output.join("tensorboard");
        let folder = args.tensorboard.as_ref().map(|folder| folder.clone().unwrap_or_else(default));
        folder.as_deref().map_or(Ok(()), reject_url)?;
        Ok(Self {
            folder,
            events: BTreeMap::new(),
            command_line: args.log_command.clone(),
            command: None,
            name: output.display().to_string(),
            settings: serde_json::to_value(settings)?,
            batch_size: 0,
            step: 0,
            started: false,
            has_histograms: false,
        })
    }

    /// Returns the log; if `has_histograms` is true, it adds histograms of every checkpoint to the event files.
    #[must_use]
    pub fn with_histograms(self, has_histograms: bool) -> Self {
        Self { has_histograms, ..self }
    }

    /// Logs an event of pre-training.
    pub fn pretrain(&mut self, event: &PretrainEvent) {
        match event {
            PretrainEvent::Started { batch_size, .. } => self.batch_size = *batch_size,
            PretrainEvent::Step { metrics, timing } => {
                let values = [
                    ("loss", metrics.loss),
                    ("masked_lm_loss", metrics.masked_lm_loss),
                    ("next_sentence_loss", metrics.next_sentence_loss),
                    ("learning_rate", metrics.learning_rate),
                    ("gradient_norm", metrics.gradient_norm),
                    ("sequences_per_second", self.batch_size as f64 / timing.seconds.max(1e-9)),
                ];
                self.add("", metrics.step, named("train", values));
            }
            PretrainEvent::Evaluated { step, evaluation } => {
                let parts = evaluation.parts.iter().flat_map(|part| {
                    let name = part.data.display();
                    held_out(&part.evaluation)
                        .into_iter()
                        .map(move |(key, value)| (format!("{key}/{name}"), value))
                });
                let values = held_out(evaluation).into_iter().chain(parts).collect();
                self.add("", *step, values);
            }
            PretrainEvent::Saved { step, path } if self.has_histograms => self.add_histograms(*step, path),
            _ => {}
        }
    }

    /// Logs an event of a fine-tuning. The scores of an epoch are logged at its last step.
    pub fn finetune(&mut self, event: &FinetuneEvent) {
        match event {
            FinetuneEvent::Step { cell, seed, step, loss, .. } => {
                self.step = *step;
                self.add(&series(*cell, *seed), *step, named("train", [("loss", *loss)]));
            }
            FinetuneEvent::Evaluated { cell, seed, scores, held_out, .. } => {
                let set = if *held_out { "held-out" } else { "dev" };
                let values = scores.iter().map(|(metric, value)| {
                    (format!("{set}/{}", metric.to_string().replace(' ', "_")), value)
                });
                self.add(&series(*cell, *seed), self.step, values.collect());
            }
            _ => {}
        }
    }

    /// Ends the logs, and waits for the command for a limited time.
    pub fn finish(mut self, stop: &StopFlag) {
        if let Some(mut command) = self.command.take() {
            // The error can be discarded, because `finish` reports a program that has ended.
            let _ = command.send(&json!({ "end": true }));
            command.finish(stop).iter().for_each(print_warning);
        }
    }

    fn add(&mut self, series: &str, step: u64, values: Scalars) {
        if !self.started {
            self.started = true;
            match self.command_line.take().map(|line| LogCommand::start(&line)).transpose() {
                Ok(command) => self.command = command,
                Err(error) => print_warning(format!("{error:#}; the run continues without it")),
            }
            let record = json!({ "name": self.name, "time": unix_time(), "settings": self.settings });
            self.send(&record);
        }
        let values: Scalars = values.into_iter().filter(|(_, value)| value.is_finite()).collect();
        if self.folder.is_some() && !self.events.contains_key(series) {
            self.open_events(series, step);
        }
        if let Some(events) = self.events.get_mut(series)
            && let Err(error) = events.scalars(step, &values)
        {
            self.events.clear();
            self.folder = None;
            print_warning(format!("--tensorboard: {error}; the log ends here"));
        }
        let prefix = if series.is_empty() { String::new() } else { format!("{series}/") };
        let values: Map<String, Value> =
            values.into_iter().map(|(name, value)| (format!("{prefix}{name}"), value.into())).collect();
        self.send(&json!({ "step": step, "time": unix_time(), "values": values }));
    }

    fn add_histograms(&mut self, step: u64, checkpoint: &Path) {
        let Some(events) = self.events.get_mut("") else { return };
        let written = checkpoint_histograms(checkpoint)
            .map_err(anyhow::Error::from)
            .and_then(|histograms| Ok(events.histograms(step, &histograms)?));
        if let Err(error) = written {
            print_warning(format!("--tensorboard-histograms: step {step}: {error}"));
        }
    }

    /// Creates the event file of a series and writes the settings into it.
    fn open_events(&mut self, series: &str, step: u64) {
        let Some(folder) = self.folder.as_ref().map(|folder| folder.join(series)) else { return };
        let text = format!("```json\n{:#}\n```", self.settings);
        let opened =
            EventFile::create(&folder, step).and_then(|mut file| file.text("settings", &text).map(|()| file));
        match opened {
            Ok(file) => {
                self.events.insert(series.to_string(), file);
            }
            Err(error) => {
                self.folder = None;
                let failed = Error::io("write to", &folder.components().collect::<PathBuf>())(error);
                print_warning(format!("--tensorboard: {failed}"));
            }
        }
    }

    fn send(&mut self, record: &Value) {
        if let Some(command) = &mut self.command
            && command.send(record).is_err()
            && let Some(command) = self.command.take()
        {
            let reason = command.finish_closed();
            print_warning(format!("{reason}; the run continues without it"));
        }
    }
}

/// Returns the name of the series of a seed.
fn series(cell: Option<usize>, seed: u64) -> String {
    match cell {
        Some(cell) => format!("cell-{cell}/seed-{seed}"),
        None => format!("seed-{seed}"),
    }
}

fn named<const N: usize>(group: &str, values: [(&str, f64); N]) -> Scalars {
    values.into_iter().map(|(name, value)| (format!("{group}/{name}"), value)).collect()
}

fn held_out(evaluation: &Evaluation) -> Scalars {
    let values = [
        ("masked_lm_loss", evaluation.masked_lm_loss),
        ("masked_lm_accuracy", evaluation.masked_lm_accuracy),
        ("masked_lm_nats_per_character", evaluation.masked_lm_nats_per_character),
        ("next_sentence_loss", evaluation.next_sentence_loss),
        ("next_sentence_accuracy", evaluation.next_sentence_accuracy),
    ];
    named("held_out", values)
}

fn unix_time() -> f64 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs_f64()
}
