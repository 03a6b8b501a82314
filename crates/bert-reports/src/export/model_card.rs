//! Collects the model card of an exported folder: scores, text, usage, limits and settings.
//!
//! The card describes a run by the settings that identify the run (`run.json`), by its evaluation at the exported step,
//! and by the manifest of its data if the data folder still has the same data.

use std::path::{Path, PathBuf};

use bert_data::{Manifest, held_out_folder};
use bert_finetuning::model_card::{
    Card, CardDataset, CardOptions, CardScore, MODEL_PATH, python_usage, stated_in,
};
use bert_finetuning::{FinetuneReport, card_of_finetuning};
use bert_inference::checkpoint::{MARKER, STATE, TrainerState};
use bert_inference::environment::Invocation;
use bert_inference::json_file::read_record;
use bert_inference::present_folder;
use bert_model::BertConfig;
use bert_storage::exists;
use bert_training::identity::RUN;
use bert_training::metrics_log::records;
use bert_training::{
    EVALUATION, Error, Evaluation, EvaluationRecord, InitializationChoice, RunFile, RunIdentity, RunPaths,
    SharedText, StepTiming, damaged,
};

use crate::run_record::{input_names, same_data};

/// The run that wrote a model folder.
struct Origin {
    step: u64,
    identity: RunIdentity,
    /// The run's data folders; `None` if `run.json` is not there.
    paths: Option<RunPaths>,
    /// The command and the computers of the run.
    start: Option<Invocation>,
    /// Duration of all steps up to the exported one, in seconds.
    seconds: f64,
    shared_text: Vec<SharedText>,
    evaluation: Option<Evaluation>,
}

/// Returns the run that wrote this folder: a checkpoint, or its best or averaged weights.
fn origin(folder: &Path) -> Result<Option<Origin>, Error> {
    let state = folder.join(STATE);
    let evaluation = folder.join(EVALUATION);
    // The marker identifies a checkpoint, because the Trainer of `transformers` writes a different
    // `trainer_state.json`.
    if exists(&folder.join(MARKER))? {
        let TrainerState { step, run, .. } = read_record(&state)?;
        let identity = serde_json::from_value(run).map_err(|error| damaged(&state, error))?;
        let run = folder.parent().and_then(Path::parent).map(PathBuf::from).unwrap_or_default();
        let file = if exists(&run.join(RUN))? { Some(read_record::<RunFile>(&run.join(RUN))?) } else { None };
        let start = file.as_ref().map(|file| file.start.clone());
        let (paths, shared_text) = file.map(|file| (file.config, file.shared_text)).unzip();
        let log: Vec<(EvaluationRecord, _)> = records(&run.join("evaluations.jsonl"))?;
        let evaluation = log.into_iter().map(|(record, _)| record).rfind(|record| record.step == step);
        let evaluation = evaluation.map(|record| record.evaluation);
        let shared_text = shared_text.unwrap_or_default();
        let seconds = seconds_of_steps(&run, step)?;
        return Ok(Some(Origin { step, identity, paths, start, seconds, shared_text, evaluation }));
    }
    let Some(run) = folder.parent().map(|run| run.join(RUN)) else { return Ok(None) };
    if !exists(&run)? || !exists(&evaluation)? {
        return Ok(None);
    }
    let (EvaluationRecord { step, evaluation }, run): (_, RunFile) =
        (read_record(&evaluation)?, read_record(&run)?);
    let RunFile { config, identity, shared_text, start, .. } = run;
    let evaluation = Some(evaluation);
    let seconds = seconds_of_steps(folder.parent().unwrap_or(folder), step)?;
    let paths = Some(config);
    Ok(Some(Origin { step, identity, paths, start: Some(start), seconds, shared_text, evaluation }))
}

/// Returns the duration of the steps of a run up to `step`, in seconds; 0 without a log.
fn seconds_of_steps(run: &Path, step: u64) -> Result<f64, Error> {
    let log: Vec<(StepTiming, _)> = records(&run.join("timing.jsonl"))?;
    Ok(log.iter().filter(|(timing, _)| timing.step <= step).map(|(timing, _)| timing.seconds).sum())
}

/// Returns the card for a model of a run or of a fine-tuning, or for its encoder only; `None` for a folder of another
/// program.
pub(crate) fn card_of_folder(folder: &Path, encoder_only: bool) -> Result<Option<Card>, Error> {
    let output = folder.parent().filter(|_| folder.file_name().is_some_and(|name| name == "model"));
    if let Some(report) = output.and_then(|output| FinetuneReport::read(output).ok())
        && !encoder_only
    {
        return Ok(Some(card_of_finetuning(&report)));
    }
    let Some(Origin { step, identity: run, paths, start, seconds, shared_text, evaluation }) =
        origin(folder)?
    else {
        return Ok(None);
    };
    let manifest = paths.as_ref().and_then(|paths| same_data(paths.data.first(), &run));
    let nsp = run.data_rules.nsp.clone();
    let (objectives, class) = match nsp.as_str() {
        "off" => ("masked LM", "BertForMaskedLM"),
        "sop" => ("masked LM and sentence order", "BertForPreTraining"),
        _ => ("masked LM and next-sentence prediction", "BertForPreTraining"),
    };
    let model = if encoder_only { "the encoder of a BERT" } else { "a BERT" };
    let held_out = paths.as_ref().and_then(evaluation_data);
    Ok(Some(Card {
        name: "bert".to_string(),
        path: folder.display().to_string(),
        library: Some("transformers"),
        model: format!("{model} pre-trained by {objectives}"),
        task: Some(if encoder_only { "feature-extraction" } else { "fill-mask" }),
        stated: CardOptions { language: manifest.as_ref().and_then(language), ..CardOptions::default() }.or(
            paths
                .as_ref()
                .and_then(|paths| paths.init_checkpoint.as_deref())
                .and_then(present_folder)
                .map(|folder| stated_in(&folder))
                .unwrap_or_default(),
        ),
        dataset: CardDataset {
            name: held_out.unwrap_or_else(|| "held-out text".to_string()),
            id: "held-out-text".to_string(),
            ..CardDataset::default()
        },
        scores: evaluation
            .filter(|_| !encoder_only)
            .map(|evaluation| scores(&evaluation, &nsp))
            .unwrap_or_default(),
        text: manifest.as_ref().map(text_rows).unwrap_or_default(),
        usage: python_usage(if encoder_only { "BertModel" } else { class }),
        limits: limits(&run, step, &nsp)
            .into_iter()
            .chain(shared_text.iter().map(|shared| format!("{shared}.")))
            .collect(),
        settings: settings(run, step)
            .into_iter()
            .chain(start.map(started).unwrap_or_default())
            .chain([("time of steps", format!("{seconds:.0} s"))])
            .collect(),
    }))
}

/// Returns the description of the evaluation data.
fn evaluation_data(paths: &RunPaths) -> Option<String> {
    let path = paths.eval_data.as_deref()?;
    let name = |path: &Path| path.file_name().map(|name| name.to_string_lossy().into_owned());
    if path == held_out_folder(paths.data.first()) {
        name(paths.data.first()).map(|data| format!("the held-out documents of {data}"))
    } else {
        name(path).map(|name| format!("the evaluation data {name}"))
    }
}

/// Returns the language of the sentence splitter, if the text was split.
fn language(manifest: &Manifest) -> Option<String> {
    let config = serde_json::to_value(&manifest.config).ok()?;
    let is_split = config.get("split_sentences")?.as_bool()?;
    config.get("language")?.as_str().filter(|_| is_split).map(String::from)
}

/// Returns the rows that describe the training text.
fn text_rows(manifest: &Manifest) -> Vec<(&'static str, String)> {
    let bytes: u64 = manifest.inputs.iter().map(|input| input.bytes).sum();
    let report = &manifest.report;
    vec![
        ("files", input_names(manifest, 5, "more")),
        ("bytes", bytes.to_string()),
        ("documents", report.documents.to_string()),
        ("sentences", report.sentences.to_string()),
        ("word pieces", report.tokens.to_string()),
    ]
}

/// Returns the scores of an evaluation. Accuracies have a binomial 95 % interval.
fn scores(evaluation: &Evaluation, nsp: &str) -> Vec<CardScore> {
    let accuracy = |name: &str, value: f64, count: u64| {
        let half = 1.96 * (value * (1.0 - value) / count.max(1) as f64).sqrt();
        let low = (value - half).max(0.0);
        let high = (value + half).min(1.0);
        let name = format!("{name} accuracy, 95 % interval {low:.4} to {high:.4}, {count} cases");
        CardScore { metric: "accuracy".to_string(), value, name }
    };
    let loss =
        |name: &str, value: f64| CardScore { metric: "loss".to_string(), value, name: name.to_string() };
    let mut scores = vec![
        loss("masked LM loss, nats per word piece", evaluation.masked_lm_loss),
        loss("masked LM loss, nats per character", evaluation.masked_lm_nats_per_character),
        accuracy("masked LM", evaluation.masked_lm_accuracy, evaluation.predictions),
    ];
    if evaluation.has_next_sentence() && nsp != "off" {
        let name = if nsp == "sop" { "sentence order" } else { "next-sentence" };
        scores.push(accuracy(name, evaluation.next_sentence_accuracy, evaluation.instances));
    }
    scores.retain(|score| score.value.is_finite());
    scores
}

fn limits(run: &RunIdentity, step: u64, nsp: &str) -> Vec<String> {
    let mut limits = vec![
        format!("Texts have at most {} word pieces.", run.model.max_position_embeddings),
        "The model repeats the biases of its text, which were not examined.".to_string(),
    ];
    let length = run.data_rules.max_seq_length;
    if length < run.model.max_position_embeddings as u64 {
        limits.push(format!("It was trained on sequences of at most {length} word pieces."));
    }
    match nsp {
        "off" => limits
            .push("It was not trained on pairs: its next-sentence head, if any, has no meaning.".to_string()),
        "sop" => limits.push(
            "Its second head predicts whether two segments are in order, not whether they belong together."
                .to_string(),
        ),
        _ => {}
    }
    if step < run.steps {
        limits.push(format!(
            "Training was not finished: these are the weights after step {step} of {}.",
            run.steps
        ));
    }
    limits
}

fn settings(run: RunIdentity, step: u64) -> Vec<(&'static str, String)> {
    let mut rows = vec![
        ("initialization", initialization(&run)),
        ("steps", format!("{step} of {} of {} sequences", run.steps, run.batch_size)),
        ("shape", shape(&run.model)),
        ("learning_rate", format!("{:?}", run.learning_rate)),
        ("warmup_steps", run.warmup_steps.to_string()),
        ("schedule", run.schedule),
        ("seed", run.seed.to_string()),
        ("precision", run.precision.name().to_string()),
        ("data", run.data),
        ("vocabulary", run.vocabulary),
    ];
    rows.extend(
        run.mixture.iter().map(|data| ("share of data", format!("{:.4} of {}", data.share, data.data))),
    );
    let rules = run.data_rules;
    rows.extend([
        ("max_seq_length", rules.max_seq_length.to_string()),
        ("masked_lm_prob", format!("{:?}", rules.masked_lm_prob)),
        ("nsp", rules.nsp),
        ("layout", rules.layout),
        ("masking", rules.masking),
    ]);
    rows
}

/// Returns the rows that describe the start of a run.
fn started(start: Invocation) -> Vec<(&'static str, String)> {
    let mut hosts = start.hosts;
    hosts.sort();
    hosts.dedup();
    vec![
        ("commit", start.commit),
        ("command", start.command.join(" ")),
        ("ranks", start.ranks.to_string()),
        ("hosts", hosts.join(", ")),
        ("started", start.started),
    ]
}

/// Returns the card of fresh weights.
pub(crate) fn card_of_fresh(choice: InitializationChoice, seed: u64, config: &BertConfig) -> Card {
    Card {
        name: "bert".to_string(),
        path: MODEL_PATH.to_string(),
        library: Some("transformers"),
        model: "a BERT with initial weights, not trained".to_string(),
        task: None,
        stated: CardOptions::default(),
        dataset: CardDataset::default(),
        scores: Vec::new(),
        text: Vec::new(),
        usage: python_usage("BertForPreTraining"),
        limits: vec!["The weights are not trained: predictions have no meaning.".to_string()],
        settings: vec![
            ("initialization", choice.name().to_string()),
            ("seed", seed.to_string()),
            ("shape", shape(config)),
        ],
    }
}

fn shape(config: &BertConfig) -> String {
    format!(
        "{} layers, {} wide, {} heads, {} word pieces",
        config.num_hidden_layers, config.hidden_size, config.num_attention_heads, config.vocab_size
    )
}

/// Describes the initial weights of a run.
fn initialization(run: &RunIdentity) -> String {
    match &run.init_checkpoint {
        Some(digest) => format!("a checkpoint, model.safetensors with BLAKE3 {digest}"),
        None => run.initialization.clone().unwrap_or_default(),
    }
}
