//! Reads a pre-training run while it is in progress.

use std::path::Path;

use bert_pages::{chart_data, grouped};
use bert_training::Error;
use bert_training::metrics_log::LogTail;
use serde_json::Value;

use crate::findings::{Finding, findings};
use crate::live::status::{LiveFigure, LiveState, LiveStatus, small_curve, state};
use crate::page::duration;
use crate::pretraining::{loss_curves, plain_curve};
use crate::run_record::RunRecord;

/// Number of steps over which the present loss and speed are averaged.
const RECENT: usize = 50;

/// The logs of a pre-training run.
pub(super) struct PretrainingWatch {
    run: RunRecord,
    metrics: LogTail,
    timing: LogTail,
    evaluations: LogTail,
    last: Option<LiveStatus>,
}

impl PretrainingWatch {
    pub(super) fn open(folder: &Path) -> Result<Self, Error> {
        let mut run = RunRecord::read(folder)?;
        run.metrics.clear();
        run.timing.clear();
        run.evaluations.clear();
        let tail = |name: &str| LogTail::new(&folder.join(name));
        let [metrics, timing, evaluations] = ["metrics.jsonl", "timing.jsonl", "evaluations.jsonl"].map(tail);
        Ok(Self { run, metrics, timing, evaluations, last: None })
    }

    pub(super) fn status(&mut self, in_use: bool) -> Result<LiveStatus, Error> {
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
            findings: findings(&self.run).into_iter().filter(|finding| is_shown(finding, state)).collect(),
            charts: self.charts(),
            losses: small_curve(&self.run.curve(|m| m.masked_lm_loss)),
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
            let utilization = run.work.utilization(rate).map_or_else(String::new, |text| format!(", {text}"));
            add("throughput", format!("{rate:.1} sequences/s{utilization}"));
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
        let loss = loss_curves(run, &[], |m| m.masked_lm_loss, |e| e.masked_lm_loss);
        let uniform = [("uniform", run.uniform_loss())];
        vec![
            chart_data("step", "masked LM loss (nats)", &loss, &uniform),
            chart_data("step", "learning rate", &[plain_curve(run, |m| m.learning_rate)], &[]),
        ]
    }
}

/// Returns whether a finding is shown for a run in this state. The note about an unfinished run is hidden while the run
/// is in progress.
fn is_shown(finding: &Finding, state: LiveState) -> bool {
    state != LiveState::Running || !finding.text.contains("the run is in progress")
}
