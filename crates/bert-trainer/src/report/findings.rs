//! Diagnoses a pre-training run and describes the findings in words.
//!
//! Each [`Finding`] states the figures that it is based on. The rules cover common problems of the reference's users: a
//! loss at the unigram baseline, a next-sentence task that is solved too early (its labels leak), labels of a single
//! class, memorized text, a rising loss. A finding never stops a run.

use bert_pages::{downsample, smooth};
use serde::Serialize;

use crate::evaluation::EvaluationRecord;
use crate::pretrain::best_and_average::BEST;
use crate::report::next_step::next_suggestion;
use crate::report::run_record::RunRecord;
use crate::training::divergence::{Divergence, Rise};

/// Minimum number of steps for a diagnosis.
const FEW_STEPS: usize = 200;

/// Severity of a finding.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Severity {
    /// As expected.
    Good,
    /// Worth knowing.
    Note,
    /// Probably wrong.
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
pub struct Finding {
    /// Its severity.
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
    let rules: [fn(&RunRecord) -> Option<Finding>; 12] = [
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
        |run| next_suggestion(run).filter(|_| divergence(run).is_none()).and_then(note),
    ];
    let mut findings: Vec<Finding> = rules.iter().filter_map(|rule| rule(run)).collect();
    findings.sort_by_key(|finding| std::cmp::Reverse(finding.severity as u8));
    findings
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
    let (now, uniform) = (recent_loss(run), run.uniform_loss());
    if now > uniform - 0.1 {
        return warning(format!(
            "The masked LM loss ({now:.2}) equals the loss of a uniform prediction ({uniform:.2}): nothing is learnt. \
             Check the instances (bert inspect) and --learning-rate."
        ));
    }
    let (held_out, counts) = (run.last_evaluation()?, run.baselines?);
    let loss = held_out.evaluation.masked_lm_loss;
    let (unigram, bigram) = (counts.unigram.masked_lm_loss, counts.bigram.masked_lm_loss);
    if loss > unigram - 0.1 {
        return note(format!(
            "The masked LM is at the unigram baseline: held-out loss {loss:.2}, unigram baseline {unigram:.2}. Its \
             attention does not use the neighbouring tokens yet; the bigram baseline is {bigram:.2}. {}",
            plateau_remedy(run)
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
    // Absent for a run from a checkpoint; excluded for the reference's initial weights.
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
    let last = &run
        .last_evaluation()
        .filter(|_| run.has_next_sentence() && run.metrics.len() >= FEW_STEPS)?
        .evaluation;
    let majority = last.random_next.max(1.0 - last.random_next);
    let error = (majority * (1.0 - majority) / last.instances.max(1) as f64).sqrt();
    let is_learnt = last.next_sentence_accuracy > majority + 2.0 * error;
    let (accuracy, majority) = (100.0 * last.next_sentence_accuracy, 100.0 * majority);
    match is_learnt {
        true => good(format!(
            "Next-sentence prediction is learnt: held-out accuracy {accuracy:.1} %, majority class {majority:.1} %."
        )),
        false => note(format!(
            "Next-sentence prediction is not learnt yet: held-out accuracy {accuracy:.1} %, majority class \
             {majority:.1} %. It is usually learnt after the masked LM, often after thousands of steps, and needs many \
             documents."
        )),
    }
}

fn overfitting(run: &RunRecord) -> Option<Finding> {
    let loss = |record: &EvaluationRecord| record.evaluation.masked_lm_loss;
    let (best, last) = (run.best_evaluation()?, run.last_evaluation()?);
    if loss(last) < loss(best) + 0.05 {
        return None;
    }
    let checkpoint = run.folder.join(format!("checkpoints/step-{:08}", best.step));
    let kept = [checkpoint, run.folder.join(BEST)].into_iter().find(|folder| folder.is_dir());
    let kept = match kept {
        Some(folder) => format!("these weights are in {}", folder.display()),
        None => "these weights were not saved (use --keep-best)".to_string(),
    };
    warning(format!(
        "Overfitting: the held-out masked LM loss was lowest after step {} ({:.3}) and is now {:.3}; {kept}.",
        best.step,
        loss(best),
        loss(last)
    ))
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
    // The first batch always has to be waited for.
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
    let (done, steps) = (run.metrics.last().map_or(0, |m| m.step), run.identity.steps);
    if done >= steps {
        return None;
    }
    note(format!("Step {done} of {steps}: the run is in progress, or was stopped (continue with --resume)."))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::evaluation::Evaluation;
    use crate::evaluation::ngram_baselines::Baseline;
    use crate::evaluation::ngram_baselines::Baselines;
    use crate::pretrain::run_file::{RunIdentity, RunPaths};
    use crate::pretrain::{StepMetrics, StepTiming};

    /// Returns a run of `steps` steps with the losses of a function, evaluated at its end.
    fn run(steps: u64, losses: impl Fn(u64) -> (f64, f64), held_out: Evaluation) -> RunRecord {
        let metrics = (1..=steps).map(|step| {
            let (masked_lm_loss, next_sentence_loss) = losses(step);
            let loss = masked_lm_loss + next_sentence_loss;
            let (learning_rate, gradient_norm, predictions) = (1e-3, 1.0, 20);
            StepMetrics {
                step,
                loss,
                masked_lm_loss,
                next_sentence_loss,
                learning_rate,
                gradient_norm,
                predictions,
                skipped: false,
                precision: crate::compute::precision::PrecisionChoice::F32,
            }
        });
        RunRecord {
            folder: "run".into(),
            metrics: metrics.collect(),
            timing: vec![StepTiming { step: 1, seconds: 1.0, waiting: 0.0 }],
            evaluations: vec![
                EvaluationRecord { step: steps / 2, evaluation: held_out.clone() },
                EvaluationRecord { step: steps, evaluation: held_out },
            ],
            config: RunPaths::default(),
            identity: RunIdentity::example(steps),
            settings: serde_json::Value::Null,
            instances: Some(1000),
            baselines: Some(Baselines {
                predictions: 20_000,
                unigram: Baseline { masked_lm_loss: 6.5, masked_lm_accuracy: 0.06 },
                bigram: Baseline { masked_lm_loss: 5.5, masked_lm_accuracy: 0.2 },
            }),
        }
    }

    fn evaluation(masked_lm_loss: f64, next_sentence_accuracy: f64) -> Evaluation {
        Evaluation {
            instances: 1000,
            random_next: 0.5,
            masked_lm_loss,
            masked_lm_nats_per_character: f64::NAN,
            next_sentence_accuracy,
            ..Evaluation::default()
        }
    }

    fn texts(run: &RunRecord) -> Vec<String> {
        findings(run).into_iter().map(|f| format!("{}: {}", f.severity.word(), f.text)).collect()
    }

    #[test]
    fn good_run_has_only_good_findings() {
        let good = run(2000, falling, evaluation(5.2, 0.8));
        assert!(findings(&good).iter().all(|f| f.severity == Severity::Good), "{:?}", texts(&good));
        assert_eq!(findings(&good).len(), 2);
    }

    /// Returns steps of one second, given the time that each waits for data.
    fn steps_that_wait(waiting: &[f64]) -> Vec<StepTiming> {
        (1..).zip(waiting).map(|(step, &waiting)| StepTiming { step, seconds: 1.0, waiting }).collect()
    }

    #[test]
    fn waiting_for_the_first_batch_is_expected() {
        let mut run = run(2000, falling, evaluation(5.2, 0.8));
        run.timing = steps_that_wait(&[1.0, 0.04, 0.04]);
        assert!(texts(&run).iter().all(|text| !text.contains("waiting")), "{:?}", texts(&run));
    }

    /// Returns losses that fall as in a good run.
    fn falling(step: u64) -> (f64, f64) {
        (8.0 - 3.0 * step as f64 / 2000.0, 0.6)
    }

    fn assert_finding(run: &RunRecord, wanted: &str) {
        let texts = texts(run);
        assert!(texts.iter().any(|text| text.contains(wanted)), "{wanted}: {texts:?}");
    }

    #[test]
    fn faults_of_the_training_loss_are_named() {
        let uniform = 8000f64.ln();
        let flat = run(2000, |_| (uniform, 0.69), evaluation(uniform, 0.5));
        assert_finding(&flat, "warning: The masked LM loss (8.99) equals the loss of a uniform prediction");
        let memorized = run(2000, |_| (3.0, 0.6), evaluation(5.2, 0.8));
        let text = "after 64.0 passes over the instances: the model memorizes the training text";
        assert_finding(&memorized, text);
        let late = |high: f64| move |step: u64| (if step > 1500 { high } else { 6.0 }, 0.6);
        let text = "warning: The run has diverged: at step 1513 the mean training loss is 8.88";
        assert_finding(&run(2000, late(9.5), evaluation(5.2, 0.8)), text);
        let text = "warning: The training loss rose from 6.00 to 6.80";
        assert_finding(&run(2000, late(6.9), evaluation(5.2, 0.8)), text);
        let mut exploded = run(60, |step| (9.0 * step as f64, 0.7), evaluation(500.0, 0.5));
        exploded.evaluations.clear();
        assert_finding(&exploded, "warning: The run has diverged: at step");
        let mut worse = run(2000, falling, evaluation(5.2, 0.8));
        worse.evaluations[0].evaluation.masked_lm_loss = 5.0;
        let text = "lowest after step 1000 (5.000) and is now 5.200; these weights were not saved";
        assert_finding(&worse, text);
    }

    #[test]
    fn faults_of_next_sentence_labels_are_named() {
        let leaking = |step| (6.0, if step > 300 { 0.001 } else { 0.5 });
        let text = "warning: Next-sentence prediction is solved at step 3";
        assert_finding(&run(2000, leaking, evaluation(5.5, 0.8)), text);
        let text = "note: Next-sentence prediction is not learnt yet";
        assert_finding(&run(2000, falling, evaluation(5.2, 0.52)), text);
        let mut one_class = run(2000, falling, evaluation(5.2, 0.8));
        one_class.evaluations[1].evaluation.random_next = 0.9;
        assert_finding(&one_class, "warning: 90.0 % of the held-out next-sentence labels are in one class");
    }

    #[test]
    fn short_slow_and_stopped_runs_are_named() {
        assert_finding(&run(20, falling, evaluation(5.2, 0.8)), "20 steps are too few");
        let mut skipped = run(2000, falling, evaluation(5.2, 0.8));
        skipped.metrics[1999] =
            StepMetrics { skipped: true, masked_lm_loss: f64::NAN, ..skipped.metrics[1999].clone() };
        assert_finding(&skipped, "warning: 1 of 2000 steps were skipped");
        let mut slow = run(2000, falling, evaluation(5.2, 0.8));
        slow.timing = steps_that_wait(&[0.0, 0.5]);
        assert_finding(&slow, "50.0 % of the time is spent waiting");
        let mut stopped = run(2000, falling, evaluation(5.2, 0.8));
        stopped.identity.steps = 9000;
        assert_finding(&stopped, "Step 2000 of 9000");
    }

    #[test]
    fn masked_lm_is_compared_with_the_baselines() {
        let text_for = |held_out: f64, initialization: &str| {
            let mut run = run(2000, |_| (held_out, 0.6), evaluation(held_out, 0.8));
            run.identity.initialization = Some(initialization.into());
            texts(&run).into_iter().find(|text| text.contains("The masked LM")).unwrap()
        };
        let plateau = text_for(6.45, "reference");
        assert!(plateau.starts_with("note: The masked LM is at the unigram baseline"), "{plateau}");
        assert!(plateau.contains("--initialization bigram (or previous-next)"), "{plateau}");
        // The remedy does not suggest what the user already did.
        let stuck = text_for(6.45, "bigram");
        assert!(
            stuck.contains("the cause is another one") && !stuck.contains("(or previous-next)"),
            "{stuck}"
        );
        let between = text_for(5.6, "reference");
        assert!(between.starts_with("note: The masked LM is between the baselines"), "{between}");
        assert!(between.contains("A table of bigram counts predicts better"), "{between}");
        let both = text_for(5.4, "reference");
        assert!(both.starts_with("good: The masked LM is better than both baselines"), "{both}");
        assert!(both.contains("5.40") && both.contains("6.50") && both.contains("5.50"), "{both}");
    }

    #[test]
    fn the_next_suggestion_is_text_a_model_or_steps() {
        let text_for = |hidden: usize, predictions: u64, instances: u64| {
            let mut run = run(2000, |_| (5.2, 0.6), evaluation(5.2, 0.8));
            run.metrics.iter_mut().for_each(|m| m.predictions = predictions);
            run.evaluations[1].evaluation.masked_lm_nats_per_character = 1.5;
            run.identity.model.hidden_size = hidden;
            run.instances = Some(instances);
            texts(&run).into_iter().find(|text| text.contains("Suggestion: ")).unwrap()
        };
        let text = text_for(128, 600, 1000);
        assert!(
            text.starts_with("note: The run has seen 1.2 million masked tokens and reached 1.500 nats"),
            "{text}"
        );
        assert!(text.contains("Suggestion: use more text; the run read this text 64 times"), "{text}");
        assert!(text_for(128, 3000, 100_000).contains("Suggestion: use a larger model"));
        assert!(text_for(128, 60, 100_000).contains("Suggestion: use more steps"));
        assert!(text_for(256, 3000, 100_000).contains("Suggestion: use more steps"));
    }

    #[test]
    fn nsp_off_has_no_next_sentence_findings() {
        let off = run(2000, |step| (8.0 - 3.0 * step as f64 / 2000.0, 0.0), evaluation(5.2, 0.1));
        assert!(texts(&off).iter().all(|text| !text.contains("ext sentence")), "{:?}", texts(&off));
    }
}
