//! Diagnoses a pre-training run and describes the findings.
//!
//! Each [`Finding`] states the numbers that it is based on. The rules cover common problems of the reference's users: a
//! loss at the unigram baseline, a next-sentence task that is solved too early (its labels leak), labels of a single
//! class, memorized text, a rising loss. A finding never stops a run.

#[cfg(test)]
mod tests;

use std::path::PathBuf;

use bert_inference::json_file::read_record;
use bert_pages::{downsample, smooth};
use bert_training::{BEST, Divergence, EVALUATION, EvaluationRecord, Rise};
use serde::Serialize;

use crate::next_step::next_suggestion;
use crate::run_record::RunRecord;

/// Minimum number of steps for a diagnosis.
const FEW_STEPS: usize = 200;

/// Severity of a finding.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Severity {
    /// A good result.
    Good,
    /// A remark.
    Note,
    /// A probable mistake.
    Warning,
}

impl Severity {
    /// Returns the word printed before the finding.
    pub fn word(self) -> &'static str {
        match self {
            Severity::Good => "good",
            Severity::Note => "note",
            Severity::Warning => "warning",
        }
    }
}

/// One observation about a run.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct Finding {
    /// The severity of the observation.
    pub severity: Severity,
    /// The observation, its significance and a remedy.
    pub text: String,
}

impl Finding {
    pub(super) fn new(severity: Severity, text: String) -> Self {
        Self { severity, text }
    }
}

fn good(text: String) -> Option<Finding> {
    Some(Finding::new(Severity::Good, text))
}

fn note(text: String) -> Option<Finding> {
    Some(Finding::new(Severity::Note, text))
}

fn warning(text: String) -> Option<Finding> {
    Some(Finding::new(Severity::Warning, text))
}

/// Returns the findings about a run, warnings first.
pub(crate) fn findings(run: &RunRecord) -> Vec<Finding> {
    let rules: [fn(&RunRecord) -> Option<Finding>; 13] = [
        shared_text,
        skipped_steps,
        diverged,
        masked_lm_level,
        leaking_labels,
        one_class_labels,
        next_sentence_level,
        overfitting,
        memorized,
        rising_loss,
        waiting,
        unfinished,
        suggestion,
    ];
    let mut findings: Vec<Finding> = rules.iter().filter_map(|rule| rule(run)).collect();
    if run.shared_text.iter().any(|shared| shared.is_evaluated) {
        // A good result on text that the model was trained on does not count.
        findings.retain(|finding| finding.severity != Severity::Good);
    }
    findings.sort_by_key(|finding| std::cmp::Reverse(finding.severity as u8));
    findings
}

/// Suggests the next change, unless another finding names one.
fn suggestion(run: &RunRecord) -> Option<Finding> {
    let others = [diverged, overfitting, memorized, rising_loss];
    if others.iter().any(|rule| rule(run).is_some()) { None } else { next_suggestion(run).and_then(note) }
}

/// Returns the number of standard errors by which the result of an evaluation must exceed a limit. In at most 5 % of
/// the runs, one of the evaluations exceeds the limit by this much by chance (Chernoff's bound of the normal
/// distribution).
fn errors_beyond(run: &RunRecord) -> f64 {
    (2.0 * (20.0 * run.evaluations.len().max(1) as f64).ln()).sqrt()
}

/// Returns the mean masked-LM loss of the last twentieth of the steps, at most 200 of them.
fn recent_loss(run: &RunRecord) -> f64 {
    let losses = run.curve(|m| m.masked_lm_loss);
    let last = (losses.len() / 20).clamp(1, 200).min(losses.len());
    losses[losses.len() - last..].iter().map(|(_, loss)| loss).sum::<f64>() / last as f64
}

fn skipped_steps(run: &RunRecord) -> Option<Finding> {
    let skipped = run.metrics.iter().filter(|m| m.skipped).count();
    if skipped == 0 {
        return None;
    }
    warning(format!(
        "{skipped} of {} steps were skipped, because the loss or the gradient was not finite. Use a lower \
         --learning-rate or more --warmup-steps.",
        run.metrics.len()
    ))
}

/// Warns about evaluation data, or parts of a mixture, whose documents are training data too.
fn shared_text(run: &RunRecord) -> Option<Finding> {
    let shared: Vec<String> = run.shared_text.iter().map(ToString::to_string).collect();
    if shared.is_empty() { None } else { warning(format!("{}.", shared.join("; "))) }
}

/// Returns the rise of the training loss from which the run has not recovered.
fn divergence(run: &RunRecord) -> Option<Rise> {
    let mut divergence = Divergence::default();
    for step in &run.metrics {
        divergence.add(step.step, step.loss, step.predictions);
    }
    divergence.rise()
}

fn diverged(run: &RunRecord) -> Option<Finding> {
    let text = divergence(run)?.text(run.identity.learning_rate, run.identity.warmup_steps);
    warning(format!("{}{}.", text[..1].to_uppercase(), &text[1..]))
}

fn masked_lm_level(run: &RunRecord) -> Option<Finding> {
    if run.metrics.len() < FEW_STEPS {
        return note(format!("{} steps are too few for a diagnosis.", run.metrics.len()));
    }
    let now = recent_loss(run);
    let uniform = run.uniform_loss();
    if now > uniform - 0.1 {
        return warning(format!(
            "The masked LM loss ({now:.2}) equals the loss of a uniform prediction ({uniform:.2}): nothing is learnt. \
             Check the instances (bert inspect) and --learning-rate."
        ));
    }
    let held_out = run.last_evaluation()?;
    let counts = run.baselines?;
    let loss = held_out.evaluation.masked_lm_loss;
    let unigram = counts.unigram.masked_lm_loss;
    let bigram = counts.bigram.masked_lm_loss;
    // The standard deviation of the tokens' losses is about as large as their mean.
    let predictions = counts.predictions.min(held_out.evaluation.predictions.max(1)) as f64;
    let margin = errors_beyond(run) * loss / predictions.sqrt();
    if loss > unigram - margin.max(0.1) {
        return note(format!(
            "The masked LM is at the unigram baseline: held-out loss {loss:.2}, unigram baseline {unigram:.2}. Its \
             attention does not use the neighbouring tokens yet; the bigram baseline is {bigram:.2}. {}",
            plateau_remedy(run)
        ));
    }
    if loss > bigram - margin && loss <= bigram + margin {
        return note(format!(
            "The masked LM is at the bigram baseline: held-out loss {loss:.2}, bigram baseline {bigram:.2}, unigram baseline \
             {unigram:.2}. The difference is within the error of this evaluation ({margin:.2}). More steps help as long as the \
             loss falls."
        ));
    }
    if loss > bigram {
        return note(format!(
            "The masked LM is between the baselines: held-out loss {loss:.2}, unigram baseline {unigram:.2}, bigram \
             baseline {bigram:.2}. A table of bigram counts predicts better. More steps help as long as the loss \
             falls."
        ));
    }
    good(format!(
        "The masked LM is better than both baselines: held-out loss {loss:.2}, unigram baseline {unigram:.2}, bigram \
         baseline {bigram:.2}."
    ))
}

/// Suggests a remedy for a loss that plateaus at the unigram baseline.
fn plateau_remedy(run: &RunRecord) -> String {
    // The initialization is absent for a run from a checkpoint, and is excluded if it is the reference's.
    match run.identity.initialization.as_deref().filter(|&given| given != "reference") {
        Some(given) => format!(
            "The initial weights already had heads for the neighbouring tokens (--initialization {given}), so the cause is \
             another one: check --learning-rate and the instances (bert inspect)."
        ),
        None => "Runs plateau here for thousands of steps, and batch size, learning rate and masks change little. Start a \
                 run with --initialization bigram (or previous-next): its heads attend to the neighbouring tokens."
            .into(),
    }
}

fn leaking_labels(run: &RunRecord) -> Option<Finding> {
    const WINDOW: usize = 50;
    if !run.has_next_sentence() {
        return None;
    }
    let early =
        run.metrics.iter().take_while(|m| m.step < 1000).map(|m| m.next_sentence_loss).collect::<Vec<_>>();
    let solved = early.windows(WINDOW).position(|w| w.iter().sum::<f64>() < 0.02 * WINDOW as f64)?;
    warning(format!(
        "Next-sentence prediction is solved at step {}, which is too early. Possible causes: the text is one \
         document, all labels are equal, the segments differ in form, or the data is so small that the model \
         memorizes it.",
        solved + WINDOW
    ))
}

fn one_class_labels(run: &RunRecord) -> Option<Finding> {
    let random = run.last_evaluation().filter(|_| run.has_next_sentence())?.evaluation.random_next;
    let share = 100.0 * random.max(1.0 - random);
    if share <= 60.0 {
        return None;
    }
    warning(format!(
        "{share:.1} % of the held-out next-sentence labels are in one class, so an accuracy of {share:.1} % is the \
         majority baseline. Put blank lines between documents only."
    ))
}

fn next_sentence_level(run: &RunRecord) -> Option<Finding> {
    if leaking_labels(run).is_some() || !run.has_next_sentence() || run.metrics.len() < FEW_STEPS {
        return None;
    }
    let last = &run.last_evaluation()?.evaluation;
    let majority = last.random_next.max(1.0 - last.random_next);
    let error = (majority * (1.0 - majority) / last.instances.max(1) as f64).sqrt();
    let above = last.next_sentence_accuracy - majority;
    let is_above_chance = above > errors_beyond(run) * error;
    let is_learnt = is_above_chance && above >= (1.0 - majority) / 5.0;
    let accuracy = 100.0 * last.next_sentence_accuracy;
    let majority = 100.0 * majority;
    if is_learnt {
        good(format!(
            "Next-sentence prediction is learnt: held-out accuracy {accuracy:.1} %, majority class {majority:.1} %."
        ))
    } else if is_above_chance {
        note(format!(
            "Next-sentence prediction begins to be learnt: held-out accuracy {accuracy:.1} %, majority class {majority:.1} %."
        ))
    } else {
        note(format!(
            "Next-sentence prediction is not learnt yet: held-out accuracy {accuracy:.1} %, majority class \
             {majority:.1} %. It is usually learnt after the masked LM, often after thousands of steps, and needs many \
             documents."
        ))
    }
}

fn overfitting(run: &RunRecord) -> Option<Finding> {
    let loss = |record: &EvaluationRecord| record.evaluation.masked_lm_loss;
    let best = run.best_evaluation()?;
    let last = run.last_evaluation()?;
    if loss(last) < loss(best) + 0.05 {
        return None;
    }
    let checkpoint = run.folder.join(format!("checkpoints/step-{:08}", best.step));
    let kept = match [Some(checkpoint), best_folder(run, best.step)]
        .into_iter()
        .flatten()
        .find(|folder| folder.is_dir())
    {
        Some(folder) => format!("these weights are in {}", folder.display()),
        None if best.step == 0 => "these are the initial weights, which a run does not save".to_string(),
        None => "these weights were not saved (use --keep-best)".to_string(),
    };
    warning(format!(
        "Overfitting: the held-out masked LM loss was lowest after step {} ({:.3}) and is now {:.3}; {kept}.",
        best.step,
        loss(best),
        loss(last)
    ))
}

/// Returns the folder of the best weights if they are the weights of step `step`.
fn best_folder(run: &RunRecord, step: u64) -> Option<PathBuf> {
    let folder = run.folder.join(BEST);
    let saved: EvaluationRecord = read_record(&folder.join(EVALUATION)).ok()?;
    (saved.step == step).then_some(folder)
}

fn memorized(run: &RunRecord) -> Option<Finding> {
    let gap = run.last_evaluation().filter(|_| run.metrics.len() >= FEW_STEPS)?.evaluation.masked_lm_loss
        - recent_loss(run);
    if gap < 0.7 {
        return None;
    }
    let passes = run.passes().map(|passes| format!(" after {passes:.1} passes over the instances"));
    note(format!(
        "The training loss is {gap:.2} below the held-out loss{}: the model memorizes the training text, or the \
         held-out text is of another kind. More text helps most; --masking dynamic and fewer steps help a little.",
        passes.unwrap_or_default()
    ))
}

fn rising_loss(run: &RunRecord) -> Option<Finding> {
    if run.metrics.len() < FEW_STEPS || divergence(run).is_some() {
        return None;
    }
    let curve = smooth(&downsample(&run.curve(|m| m.masked_lm_loss), 200), 9);
    let mut lowest = f64::INFINITY;
    for (step, loss) in curve {
        lowest = lowest.min(loss);
        if loss > lowest + 0.7 {
            return warning(format!(
                "The training loss rose from {lowest:.2} to {loss:.2} around step {step:.0}: the run diverges. Use a \
                 lower --learning-rate or more --warmup-steps."
            ));
        }
    }
    None
}

fn waiting(run: &RunRecord) -> Option<Finding> {
    // Every run has to wait for the first batch.
    let (seconds, waiting) = run.seconds(2);
    let share = 100.0 * waiting / seconds.max(1e-9);
    if share <= 5.0 {
        return None;
    }
    note(format!(
        "{share:.1} % of the time is spent waiting for the data loader: the disk is slow, or there are too few cores."
    ))
}

fn unfinished(run: &RunRecord) -> Option<Finding> {
    let done = run.metrics.last().map_or(0, |m| m.step);
    let steps = run.identity.steps;
    if done >= steps {
        return None;
    }
    note(format!("Step {done} of {steps}: the run is in progress, or was stopped (continue with --resume)."))
}
