//! [`folder_uses`]: the commands that a model folder can be used with, from the parts of the model that it contains.

use std::fmt;
use std::path::{Path, PathBuf};

use bert_inference::{ModelDescription, ModelFiles, ModelOptions, ModelTokenizer, Pooling, Predictor};
use bert_model::{FolderContents, find_weights};
use bert_storage::with_flags;
use bert_training::Error;
use serde::Serialize;

use crate::export::class;

/// The use of a folder by some commands.
#[derive(Clone, Debug, Serialize)]
pub struct FolderUse {
    /// The commands.
    pub commands: &'static str,
    /// Whether the commands accept the folder without further flags.
    pub ready: bool,
    /// The effect of the commands on this folder, or the parts that the folder lacks.
    pub state: String,
}

/// The contents and uses of a model folder.
#[derive(Clone, Debug, Serialize)]
pub struct FolderUses {
    /// The folder.
    pub folder: PathBuf,
    /// The form of the weights, for example `TensorFlow checkpoint`.
    pub form: String,
    /// The class of `transformers` with the same parts.
    pub class: &'static str,
    /// Number of values in all tensors.
    pub parameters: usize,
    /// Number of layers.
    pub layers: usize,
    /// Width of the hidden states.
    pub hidden_size: usize,
    /// Rows of the word embeddings.
    pub vocab_size: usize,
    /// Number of words of the tokenizer; `None` if the folder has no tokenizer.
    pub words: Option<usize>,
    /// The description of the model.
    pub description: ModelDescription,
    /// Number of positions.
    pub positions: usize,
    /// Tensors of no known part, which are ignored or rejected.
    pub unknown: Vec<String>,
    /// The commands and whether they accept the folder.
    pub uses: Vec<FolderUse>,
}

/// Reads a model folder and returns its uses.
///
/// # Errors
/// Fails when the folder has no configuration or no weights, or they cannot be read.
pub fn folder_uses(folder: &Path) -> Result<FolderUses, Error> {
    let files = ModelFiles::find(folder)?;
    let weights = find_weights(folder)?;
    let contents = FolderContents::new(&files.config, weights.read()?)?;
    let uses = uses(folder, &contents, &files);
    let ModelFiles { config, tokenizer, description } = files;
    Ok(FolderUses {
        folder: folder.into(),
        form: weights.form.to_string(),
        class: class(folder, &contents)?,
        parameters: contents.tensors.values().map(|(_, values)| values.len()).sum(),
        layers: config.num_hidden_layers,
        hidden_size: config.hidden_size,
        vocab_size: config.vocab_size,
        words: tokenizer.map(|tokenizer| tokenizer.vocabulary.len()),
        description,
        positions: config.max_position_embeddings,
        uses,
        unknown: contents.unknown,
    })
}

fn uses(
    folder: &Path,
    contents: &FolderContents,
    files: &ModelFiles<Option<ModelTokenizer>>,
) -> Vec<FolderUse> {
    let ModelFiles { config, tokenizer, description } = files;
    let row = |commands, problem: Option<String>, state: &str| FolderUse {
        commands,
        ready: problem.is_none(),
        state: problem.unwrap_or_else(|| state.to_string()),
    };
    let encoder = unusable_encoder(contents);
    let no_texts = tokenizer.is_none().then(|| "no: the folder has no tokenizer files".to_string());
    let texts_read = encoder.clone().or(no_texts);
    let decoder = match (contents.has_untied_decoder, contents.has_masked_lm()) {
        (true, _) => Some("no: the decoder is not tied to the word embeddings".to_string()),
        (false, true) => None,
        (false, false) => Some("no: the folder has no masked-LM head".to_string()),
    };
    let masked_lm = encoder.clone().or(decoder);
    let next_sentence = (!contents.has_next_sentence()).then(|| {
        if masked_lm.is_none() {
            "with data of --nsp off".to_string()
        } else {
            "no: the folder lacks the pre-training heads".to_string()
        }
    });
    let both = masked_lm.clone().or(next_sentence);
    let count = contents.missing_heads.len();
    let fresh = both.as_ref().filter(|_| encoder.is_none()).map(|other| match count {
        0 => "with --fresh-heads, which uses the word embeddings as the decoder".to_string(),
        _ if other.starts_with("no") => format!("with --fresh-heads, which initializes {count} tensors"),
        _ => format!("with --fresh-heads, which initializes {count} tensors, or {other}"),
    });
    let has_pairs = config.type_vocab_size > 1;
    let texts = if has_pairs { "yes" } else { "yes, for single texts: the model has one segment" };
    let instances = if has_pairs { "yes" } else { "with data of --nsp off: the model has one segment" };
    let pooler = if contents.has_pooler() { "" } else { "; the pooler is initialized at random" };
    let finetune = format!("{texts}{pooler}");
    let answers = answers(folder, contents);
    let is_of_sentences = description.pooling.is_some() || !description.other_modules.is_empty();
    let no_pooling = description.pooling_of_texts().err().map(no);
    let vectors = row("features --pooling model", texts_read.clone().or(no_pooling), texts);
    let mut rows = vec![
        row("finetune", texts_read.clone(), &finetune),
        row("bert features, attention", texts_read.clone(), texts),
        row("bert fill-mask", texts_read.clone().or(masked_lm), texts),
        row("bert evaluate", both.clone(), instances),
        row("pretrain --init-checkpoint", fresh.or(both), instances),
        row("bert predict", texts_read.or(answers.clone().err()), &answers.unwrap_or_default()),
    ];
    rows.extend(is_of_sentences.then_some(vectors));
    rows
}

/// Returns the entry of a use that an error prevents.
fn no(error: Error) -> String {
    with_flags(&format!("no: {error}"))
}

/// Returns a description of a head's answers, or the reason why there are none. `Predictor::open` decides whether a
/// head can be used.
fn answers(folder: &Path, contents: &FolderContents) -> Result<String, String> {
    let answers = match (contents.labels, contents.has_answers()) {
        (_, true) => "answers questions".to_string(),
        (Some(labels), false) => format!("{labels} labels"),
        (None, false) => return Err("no: the folder has no head of a task; fine-tune it first".to_string()),
    };
    let opened = Predictor::open(folder, ModelOptions::default());
    opened.map(|_| answers).map_err(no)
}

/// Returns the reason why the encoder cannot be loaded, if there is one.
fn unusable_encoder(contents: &FolderContents) -> Option<String> {
    let FolderContents { missing_encoder, misshapen, unknown, .. } = contents;
    let wrong = missing_encoder.len() + misshapen.len() + contents.other_layers().len();
    // Unknown tensors of the pre-training heads do not matter, because the encoder is loaded without these heads.
    let others = unknown.iter().filter(|name| !name.starts_with("cls.")).count();
    match (wrong, others) {
        (0, 0) => None,
        (0, _) => Some(format!("no: {others} tensors are unknown; `bert import` leaves them out")),
        _ => {
            Some(format!("no: {wrong} tensors of the encoder are missing, superfluous or have another shape"))
        }
    }
}

impl fmt::Display for FolderUses {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{}: {} in a {}", self.folder.display(), self.class, self.form)?;
        let layers = self.layers;
        let hidden = self.hidden_size;
        let vocab = self.vocab_size;
        let words = self.words.map_or("no tokenizer files".to_string(), |words| format!("{words} words"));
        writeln!(
            f,
            "{} parameters: {layers} layers, hidden size {hidden}, {vocab} embeddings; {words}\n",
            self.parameters
        )?;
        if let Some(length) = self.description.max_seq_length {
            writeln!(f, "texts are cut to {length} tokens")?;
        }
        if let Some(remark) = &self.description.length_remark {
            writeln!(f, "{remark}")?;
        }
        if let Some(trained) = self.description.trained_positions {
            writeln!(f, "{trained} of {} positions were trained", self.positions)?;
        }
        if let Some(pooling) = self.description.pooling {
            let pooling = if pooling == Pooling::Cls { "[CLS]" } else { "the mean" };
            let normalized = if self.description.normalize { ", of length 1" } else { "" };
            writeln!(f, "the vector of a text is {pooling}{normalized}")?;
        }
        for FolderUse { commands, state, .. } in &self.uses {
            writeln!(f, "{commands:<27} {state}")?;
        }
        if self.unknown.is_empty() {
            Ok(())
        } else {
            writeln!(f, "\nunknown tensors: {}", self.unknown.join(", "))
        }
    }
}
