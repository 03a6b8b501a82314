//! Reads runs and fine-tunings while they are in progress, for `bert watch`. Nothing is written, and on Linux no lock is
//! taken.

use std::path::{Path, PathBuf};

use bert_pages::{Curve, Line, chart_data, downsample, grouped, smooth};
use bert_storage::{Disk, Locate, StagedFolder};
use serde::Serialize;
use serde_json::Value;

use super::findings::{Finding, findings};
use super::live_finetuning::FinetuningWatch;
use super::run_record::RunRecord;
use crate::error::{Error, FolderProblem};
use crate::run_dir::identity::RUN;
use crate::run_dir::json_file::exists;
use crate::run_dir::log_tail::LogTail;

/// Maximum number of points of a curve.
const POINTS: usize = 400;
/// Number of steps over which the present loss and speed are averaged.
const RECENT: usize = 50;

/// Whether a run is in progress.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum LiveState {
    /// A process holds the lock of the folder.
    Running,
    /// No process holds it, and steps are left.
    Stopped,
    /// All steps are done.
    Finished,
}

/// A name and its value, in words.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct LiveFigure {
    /// The name.
    pub name: &'static str,
    /// The value, with its unit.
    pub value: String,
}

/// The present state of a run or a fine-tuning.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct LiveStatus {
    /// The folder, as the user gave it.
    pub name: String,
    /// `pre-training` or `fine-tuning`.
    pub kind: &'static str,
    /// Whether it is in progress.
    pub state: LiveState,
    /// The state in words: `running`, `stopped at step 30`, `finished`.
    pub state_text: String,
    /// Finished steps; of a fine-tuning, those of the present seed.
    pub step: u64,
    /// All steps.
    pub steps: u64,
    /// Loss, held-out results, rate, speed and time left, as far as they are known.
    pub figures: Vec<LiveFigure>,
    /// The findings, warnings first.
    pub findings: Vec<Finding>,
    /// The data of the charts, for the script of the page.
    pub charts: Vec<Value>,
    /// The latest losses, smoothed, for a small curve.
    pub losses: Vec<f64>,
}

/// A run or fine-tuning that is read again and again.
pub struct LiveRun {
    folder: PathBuf,
    kind: Option<Kind>,
}

enum Kind {
    Pretraining(Box<PretrainingWatch>),
    Finetuning(Box<FinetuningWatch>),
}

impl LiveRun {
    /// Creates a reader of the folder of a run or fine-tuning. The folder need not have any file yet.
    #[must_use]
    pub fn new(folder: &Path) -> Self {
        Self { folder: folder.to_path_buf(), kind: None }
    }

    /// Returns the folder.
    #[must_use]
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// Reads the changes since the last call.
    ///
    /// # Errors
    /// [`FolderProblem::NothingToReport`] while the folder is neither a run nor a fine-tuning; errors of reading a file.
    pub fn status(&mut self) -> Result<LiveStatus, Error> {
        let in_use = StagedFolder::new(&Disk, &self.folder).is_in_use();
        if self.kind.is_none() {
            self.kind = Some(if exists(&self.folder.join(RUN))? {
                Kind::Pretraining(Box::new(PretrainingWatch::open(&self.folder)?))
            } else if FinetuningWatch::is_one(&self.folder)? {
                Kind::Finetuning(Box::new(FinetuningWatch::new(&self.folder)))
            } else {
                return Err(FolderProblem::NothingToReport.located(&self.folder).into());
            });
        }
        match self.kind.as_mut().expect("set above") {
            Kind::Pretraining(watch) => watch.status(in_use),
            Kind::Finetuning(watch) => watch.status(in_use),
        }
    }
}

/// The logs of a pre-training run.
struct PretrainingWatch {
    run: RunRecord,
    metrics: LogTail,
    timing: LogTail,
    evaluations: LogTail,
    last: Option<LiveStatus>,
}

impl PretrainingWatch {
    fn open(folder: &Path) -> Result<Self, Error> {
        let mut run = RunRecord::read(folder)?;
        run.metrics.clear();
        run.timing.clear();
        run.evaluations.clear();
        let tail = |name: &str| LogTail::new(&folder.join(name));
        let [metrics, timing, evaluations] = ["metrics.jsonl", "timing.jsonl", "evaluations.jsonl"].map(tail);
        Ok(Self { run, metrics, timing, evaluations, last: None })
    }

    fn status(&mut self, in_use: bool) -> Result<LiveStatus, Error> {
        let mut changed = self.metrics.read_into(&mut self.run.metrics)?;
        changed |= self.timing.read_into(&mut self.run.timing)?;
        changed |= self.evaluations.read_into(&mut self.run.evaluations)?;
        let step = self.run.metrics.last().map_or(0, |metrics| metrics.step);
        let (state, state_text) = state(in_use, step, self.run.identity.steps);
        if let Some(last) = self.last.as_ref().filter(|last| !changed && last.state == state) {
            return Ok(last.clone());
        }
        let status = LiveStatus {
            name: self.run.folder.display().to_string(),
            kind: "pre-training",
            state,
            state_text,
            step,
            steps: self.run.identity.steps,
            figures: self.figures(state),
            findings: findings(&self.run).into_iter().filter(|finding| finding.counts_in(state)).collect(),
            charts: self.charts(),
            losses: smooth(&downsample(&self.run.curve(|m| m.masked_lm_loss), 60), 3)
                .into_iter()
                .map(|point| point.1)
                .collect(),
        };
        self.last = Some(status.clone());
        Ok(status)
    }

    fn figures(&self, state: LiveState) -> Vec<LiveFigure> {
        let run = &self.run;
        let mut figures = Vec::new();
        let mut add = |name, value: String| figures.push(LiveFigure { name, value });
        let recent = &run.metrics[run.metrics.len().saturating_sub(RECENT)..];
        let finite = recent.iter().map(|m| m.masked_lm_loss).filter(|loss| loss.is_finite());
        let (sum, count) = finite.fold((0.0, 0), |(sum, count), loss| (sum + loss, count + 1));
        if count > 0 {
            add("masked LM loss", format!("{:.3} nats", sum / f64::from(count)));
        }
        if let Some(last) = run.last_evaluation() {
            let e = &last.evaluation;
            add("held-out loss", format!("{:.3} nats at step {}", e.masked_lm_loss, grouped(last.step)));
            add("held-out accuracy", format!("{:.1} %", 100.0 * e.masked_lm_accuracy));
            if e.masked_lm_nats_per_character.is_finite() {
                add("per character", format!("{:.3} nats, held-out", e.masked_lm_nats_per_character));
            }
        }
        if let Some(last) = recent.last() {
            add("learning rate", format!("{:.2e}", last.learning_rate));
        }
        let timing = &run.timing[run.timing.len().saturating_sub(RECENT)..];
        let seconds: f64 = timing.iter().map(|step| step.seconds).sum();
        if seconds > 0.0 {
            let steps = timing.len() as f64;
            let rate = run.identity.batch_size as f64 * steps / seconds;
            add("throughput", format!("{rate:.1} sequences/s"));
            let left = run.identity.steps.saturating_sub(run.metrics.last().map_or(0, |m| m.step)) as f64;
            if state == LiveState::Running {
                add("time left", duration(left * seconds / steps));
            }
            add("time so far", duration(run.seconds(1).0));
        }
        figures
    }

    fn charts(&self) -> Vec<Value> {
        let run = &self.run;
        let scale = run.step_scale();
        let curve =
            |name: &str, color, line, points| Curve::new(name, color, line, points).with_scale(&scale);
        let losses = downsample(&run.curve(|m| m.masked_lm_loss), POINTS);
        let smoothed = smooth(&losses, (losses.len() / 20).max(1));
        let loss = [
            curve("", "var(--a)", Line::Pale, losses),
            curve("training, smoothed", "var(--a)", Line::Plain, smoothed),
            curve("held-out", "var(--b)", Line::Marked, run.held_out(|e| e.masked_lm_loss)),
        ];
        let rate = downsample(&run.curve(|m| m.learning_rate), POINTS);
        let rate = curve("learning rate", "var(--a)", Line::Plain, rate);
        let uniform = [("uniform prediction", run.uniform_loss())];
        vec![
            chart_data("step", "masked LM loss (nats)", &loss, &uniform),
            chart_data("step", "learning rate", &[rate], &[]),
        ]
    }
}

impl Finding {
    /// Returns whether the finding is shown for a run in this state: the note that a run is in progress is not.
    fn counts_in(&self, state: LiveState) -> bool {
        state != LiveState::Running || !self.text.contains("the run is in progress")
    }
}

/// Returns the state of a run, also in words.
pub(super) fn state(in_use: bool, step: u64, steps: u64) -> (LiveState, String) {
    match (in_use, step >= steps && steps > 0) {
        (true, _) => (LiveState::Running, "running".into()),
        (false, true) => (LiveState::Finished, "finished".into()),
        (false, false) => (LiveState::Stopped, format!("stopped at step {}", grouped(step))),
    }
}

/// Formats seconds with two units.
pub(super) fn duration(seconds: f64) -> String {
    let seconds = seconds.round() as u64;
    let (days, hours, minutes) = (seconds / 86_400, seconds / 3600 % 24, seconds / 60 % 60);
    match (days, hours, minutes) {
        (0, 0, 0) => format!("{seconds} s"),
        (0, 0, _) => format!("{minutes} min {} s", seconds % 60),
        (0, ..) => format!("{hours} h {minutes} min"),
        _ => format!("{days} d {hours} h"),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn states_are_named_by_lock_and_step() {
        assert_eq!(state(true, 3, 10), (LiveState::Running, "running".into()));
        assert_eq!(state(false, 1000, 2000), (LiveState::Stopped, "stopped at step 1,000".into()));
        assert_eq!(state(false, 10, 10), (LiveState::Finished, "finished".into()));
    }

    #[test]
    fn durations_have_two_units() {
        let texts = [4.4, 65.0, 3700.0, 90_000.0].map(duration);
        assert_eq!(texts, ["4 s", "1 min 5 s", "1 h 1 min", "1 d 1 h"]);
    }

    #[test]
    fn a_run_is_followed_from_its_first_step_to_a_resume() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path();
        let mut live = LiveRun::new(path);
        assert!(live.status().is_err(), "nothing to show yet");
        let model = json!({ "vocab_size": 8000, "hidden_size": 128, "num_hidden_layers": 2,
            "num_attention_heads": 2, "intermediate_size": 512 });
        let identity = json!({ "steps": 40, "batch_size": 32, "learning_rate": 0.002, "warmup_steps": 5,
            "schedule": "bert", "seed": 1, "data": "digest", "model": model });
        let run = json!({ "identity": identity, "config": { "data": "missing" } });
        std::fs::write(path.join(RUN), run.to_string()).unwrap();
        let step = |number: u64, loss: f64| {
            json!({ "step": number, "loss": loss, "masked_lm_loss": loss, "next_sentence_loss": 0.7,
                "learning_rate": 4e-4, "gradient_norm": 1.0, "predictions": 514 })
            .to_string()
                + "\n"
        };
        std::fs::write(path.join("metrics.jsonl"), step(1, 9.0) + &step(2, 8.0)).unwrap();
        let lock = std::fs::File::create(path.join(".lock")).unwrap();
        lock.try_lock().unwrap();
        let status = live.status().unwrap();
        assert_eq!((status.state, status.step, status.steps), (LiveState::Running, 2, 40));
        assert_eq!(status.figures[0].value, "8.500 nats");
        assert_eq!(status.charts[0]["curves"][0]["ys"], json!([9.0, 8.0]));
        lock.unlock().unwrap();
        assert_eq!(live.status().unwrap().state_text, "stopped at step 2");
        // A resumed run replaces its logs by the steps up to its checkpoint.
        std::fs::write(path.join("new"), step(1, 9.0)).unwrap();
        std::fs::rename(path.join("new"), path.join("metrics.jsonl")).unwrap();
        lock.try_lock().unwrap();
        let status = live.status().unwrap();
        assert_eq!((status.state, status.step), (LiveState::Running, 1));
    }
}
