//! Tests of the findings, one run for each rule.

use bert_inference::PrecisionChoice;
use bert_model::{BertConfig, Preset};
use bert_training::{
    Baseline, Baselines, DataRules, Evaluation, EvaluationRecord, Moments, RunIdentity, RunPaths, SharedText,
    StepMetrics, StepTiming, Work,
};

use crate::findings::{Severity, findings};
use crate::run_record::RunRecord;

/// Returns the identity of a run of BERT-tiny with 8,000 word pieces and batches of 32.
fn identity(steps: u64) -> RunIdentity {
    RunIdentity {
        steps,
        batch_size: 32,
        learning_rate: 1e-3,
        warmup_steps: 10,
        schedule: "bert".into(),
        optimizer: Moments { beta2: 0.98 },
        seed: 1,
        precision: PrecisionChoice::F32,
        model: BertConfig::preset(Preset::Tiny, 8000),
        init_checkpoint: None,
        initialization: None,
        data: String::new(),
        mixture: Vec::new(),
        vocabulary: String::new(),
        data_rules: DataRules {
            max_seq_length: 128,
            masked_lm_prob: 0.15,
            nsp: "on".into(),
            layout: "instances".into(),
            masking: "static".into(),
        },
    }
}

/// Returns a run of `steps` steps with the losses of a function, evaluated at its end.
fn run(steps: u64, losses: impl Fn(u64) -> (f64, f64), held_out: Evaluation) -> RunRecord {
    let metrics = (1..=steps).map(|step| {
        let (masked_lm_loss, next_sentence_loss) = losses(step);
        let loss = masked_lm_loss + next_sentence_loss;
        let learning_rate = 1e-3;
        let gradient_norm = 1.0;
        let predictions = 20;
        StepMetrics {
            step,
            loss,
            masked_lm_loss,
            next_sentence_loss,
            learning_rate,
            gradient_norm,
            predictions,
            skipped: false,
            precision: PrecisionChoice::F32,
        }
    });
    RunRecord {
        start: bert_inference::environment::Invocation::default(),
        text: None,
        folder: "run".into(),
        metrics: metrics.collect(),
        timing: vec![StepTiming { step: 1, seconds: 1.0, waiting: 0.0 }],
        evaluations: vec![
            EvaluationRecord { step: steps / 2, evaluation: held_out.clone() },
            EvaluationRecord { step: steps, evaluation: held_out },
        ],
        config: RunPaths::default(),
        identity: identity(steps),
        work: Work { flops_per_sequence: 1e9, product_flops: None },
        shared_text: Vec::new(),
        settings: serde_json::Value::Null,
        instances: Some(1000),
        baselines: Some(Baselines {
            predictions: 20_000,
            unigram: Baseline { masked_lm_loss: 6.5, masked_lm_accuracy: 0.06 },
            bigram: Baseline { masked_lm_loss: 5.5, masked_lm_accuracy: 0.2 },
        }),
    }
}

#[test]
fn text_of_training_and_evaluation_is_a_warning() {
    let mut run = run(1000, |_| (3.0, 0.6), evaluation(3.0, 0.9));
    run.shared_text = vec![SharedText {
        data: "held-out".into(),
        within: "data".into(),
        is_evaluated: true,
        unit: "documents".into(),
        compared: 40,
        shared: 10,
    }];
    let found = findings(&run);
    assert_eq!(found[0].severity, Severity::Warning);
    assert_eq!(
        found[0].text,
        "10 of 40 documents of held-out (25.0 %) are in data too, so the model is evaluated on text on which it was trained."
    );
}

fn evaluation(masked_lm_loss: f64, next_sentence_accuracy: f64) -> Evaluation {
    Evaluation {
        instances: 1000,
        random_next: 0.5,
        predictions: 20_000,
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
    assert!(stuck.contains("the cause is another one") && !stuck.contains("(or previous-next)"), "{stuck}");
    let between = text_for(5.8, "reference");
    assert!(between.starts_with("note: The masked LM is between the baselines"), "{between}");
    assert!(between.contains("A table of bigram counts predicts better"), "{between}");
    let both = text_for(5.3, "reference");
    assert!(both.starts_with("good: The masked LM is better than both baselines"), "{both}");
    assert!(both.contains("5.30") && both.contains("6.50") && both.contains("5.50"), "{both}");
}

#[test]
fn small_differences_are_within_the_error() {
    let text_for = |held_out: f64, accuracy: f64| {
        texts(&run(2000, |_| (held_out, 0.6), evaluation(held_out, accuracy))).join("\n")
    };
    // With 20,000 tokens and two evaluations the margin is 2.7 standard errors of 5.5 / sqrt(20,000).
    let at = text_for(5.45, 0.8);
    assert!(
        at.contains("note: The masked LM is at the bigram baseline") && !at.contains("better than both"),
        "{at}"
    );
    // 1,000 instances: the standard error is 1.6 %.
    assert!(text_for(5.3, 0.535).contains("is not learnt yet"), "2.2 standard errors");
    assert!(text_for(5.3, 0.58).contains("note: Next-sentence prediction begins to be learnt"));
    assert!(text_for(5.3, 0.61).contains("good: Next-sentence prediction is learnt"));
}

#[test]
fn best_weights_are_named_by_their_content() {
    let folder = tempfile::tempdir().unwrap();
    let best = folder.path().join("best");
    std::fs::create_dir(&best).unwrap();
    let mut worse = run(2000, falling, evaluation(5.2, 0.8));
    worse.folder = folder.path().to_path_buf();
    worse.evaluations[0] = EvaluationRecord { step: 0, evaluation: evaluation(3.7, 0.8) };
    let write = |step: u64| {
        let record = EvaluationRecord { step, evaluation: evaluation(3.7, 0.8) };
        std::fs::write(best.join("evaluation.json"), serde_json::to_string(&record).unwrap()).unwrap();
    };
    write(60);
    assert_finding(&worse, "lowest after step 0 (3.700) and is now 5.200; these are the initial weights");
    worse.evaluations[0].step = 60;
    assert_finding(&worse, "these weights are in ");
    write(40);
    assert_finding(&worse, "these weights were not saved");
}

#[test]
fn the_next_suggestion_is_text_a_model_or_steps() {
    let run_for = |hidden: usize, predictions: u64, instances: u64| {
        let mut run = run(2000, |_| (5.2, 0.6), evaluation(5.2, 0.8));
        run.metrics.iter_mut().for_each(|m| m.predictions = predictions);
        run.evaluations[1].evaluation.masked_lm_nats_per_character = 1.15;
        let preset = if hidden == 128 { Preset::Tiny } else { Preset::Mini };
        run.identity.model = BertConfig::preset(preset, 8000);
        run.instances = Some(instances);
        run
    };
    let suggestion = |run: &RunRecord| texts(run).into_iter().find(|text| text.contains("Suggestion: "));
    let text_for =
        |hidden, predictions, instances| suggestion(&run_for(hidden, predictions, instances)).unwrap();
    let text = text_for(128, 600, 1000);
    assert!(
        text.starts_with("note: The run has seen 1.2 million masked tokens and reached 1.150 nats"),
        "{text}"
    );
    assert!(text.contains("Suggestion: use more text; the run read this text 64 times"), "{text}");
    assert!(text_for(128, 3000, 100_000).contains("Suggestion: use a larger model"));
    assert!(text_for(128, 600, 100_000).contains("Suggestion: use more steps"));
    assert!(text_for(256, 1000, 100_000).contains("Suggestion: use more steps"));
    // Different text, a different model, a different length, and far fewer tokens than measured.
    let other = |change: fn(&mut RunRecord)| {
        let mut run = run_for(128, 600, 100_000);
        change(&mut run);
        suggestion(&run)
    };
    assert_eq!(other(|run| run.evaluations[1].evaluation.masked_lm_nats_per_character = 2.5), None);
    assert_eq!(other(|run| run.identity.model.num_hidden_layers = 3), None);
    assert_eq!(other(|run| run.identity.data_rules.max_seq_length = 512), None);
    assert_eq!(suggestion(&run_for(128, 6, 100_000)), None);
}

#[test]
fn nsp_off_has_no_next_sentence_findings() {
    let off = run(2000, |step| (8.0 - 3.0 * step as f64 / 2000.0, 0.0), evaluation(5.2, 0.1));
    assert!(texts(&off).iter().all(|text| !text.contains("ext sentence")), "{:?}", texts(&off));
}
