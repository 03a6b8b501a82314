//! [`Error`]: errors in a configuration, a checkpoint or its files. [`LoadReport`]: the differences between a checkpoint
//! and a model.
//!
//! The messages name the file, the key or the tensor. Wrong tensor shapes in a forward pass are programmer errors and
//! panic (`assert_shape!`).

use std::fmt;
use std::path::PathBuf;

/// An error of this crate, with the file, key or tensor it concerns.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A file could not be read or written.
    #[error("{}: {source}", path.display())]
    Io {
        /// The file or folder.
        path: PathBuf,
        /// The operating system's error.
        #[source]
        source: std::io::Error,
    },

    /// A JSON file is not JSON, or not an object.
    #[error("{}: not valid JSON: {reason}", path.display())]
    Json {
        /// The file.
        path: PathBuf,
        /// The parser's message, with line and column.
        reason: String,
    },

    /// A key of `config.json` is absent, has the wrong type, or has a value that this model does not support.
    #[error("model configuration: `{key}` {reason}")]
    Config {
        /// The key of `config.json`.
        key: String,
        /// The problem with its value.
        reason: String,
    },

    /// There is no preset of this name.
    #[error("unknown model size `{0}`; the sizes are tiny, mini, small, medium, base and large")]
    UnknownPreset(String),

    /// A weights file is truncated or inconsistent.
    #[error("{}: damaged {format} file: {reason}; copy or download it again", path.display())]
    CorruptWeights {
        /// The file.
        path: PathBuf,
        /// `safetensors`, `PyTorch` or `TensorFlow`.
        format: &'static str,
        /// The problem.
        reason: String,
    },

    /// A weights file is intact, but contains something that this crate does not read.
    #[error("{}: this {format} file is not supported: {reason}", path.display())]
    UnsupportedWeights {
        /// The file.
        path: PathBuf,
        /// `safetensors`, `PyTorch` or `TensorFlow`.
        format: &'static str,
        /// The problem, and how to convert the file.
        reason: String,
    },

    /// A tensor's element type is not a float.
    #[error("tensor `{name}` has element type {dtype}; save it as f32, f16 or bf16")]
    UnsupportedDtype {
        /// The tensor.
        name: String,
        /// Its element type in the file.
        dtype: String,
    },

    /// A tensor of a checkpoint holds NaN or infinity.
    #[error("tensor `{name}` contains {value}, which is not finite; use an earlier checkpoint")]
    WeightNotFinite {
        /// The tensor.
        name: String,
        /// The first such value.
        value: f32,
    },

    /// A parameter of the model to be saved is NaN or infinite.
    #[error(
        "parameter `{name}` contains {value}, so the model was not saved; resume from an earlier checkpoint with a \
         lower learning rate"
    )]
    ParameterNotFinite {
        /// The parameter.
        name: String,
        /// The first such value.
        value: f32,
    },

    /// The checkpoint's tensors do not match the model: lists every missing, unexpected and misshapen tensor.
    #[error("the checkpoint does not match the model: {0}")]
    TensorMismatch(LoadReport),

    /// A second copy of a tied tensor differs from the first.
    #[error("tensor `{name}` differs from `{tied_to}`, but BERT ties both; untied weights are not supported")]
    TiedTensorDiffers {
        /// The copy.
        name: String,
        /// The parameter itself.
        tied_to: String,
    },

    /// Two names in the file refer to one parameter. Holds the current name.
    #[error("tensor `{0}` occurs twice, under its current and its old name; remove one of them")]
    DuplicateTensor(String),

    /// The only weights in the folder are in this file of another framework.
    #[error("{}: weights of {framework} are not supported. {how}", path.display())]
    ForeignWeights {
        /// The file.
        path: PathBuf,
        /// The framework that wrote it.
        framework: &'static str,
        /// Instructions to convert it to model.safetensors.
        how: &'static str,
    },

    /// A file was given where a model's folder is expected.
    #[error("{}: this is a file; give the folder that contains config.json and the weights", .0.display())]
    NotAFolder(PathBuf),

    /// A file that every checkpoint folder needs is missing.
    #[error(
        "{}: no {file} in this folder{}; give a folder that `save_pretrained` or a run wrote",
        path.display(),
        if *file == "model.safetensors" { ", nor weights of PyTorch or TensorFlow" } else { "" }
    )]
    MissingFile {
        /// The folder.
        path: PathBuf,
        /// The file's name.
        file: &'static str,
    },

    /// The vocabulary has more words than the table has rows.
    #[error(
        "the vocabulary has {words} words, more than the model's `vocab_size` of {vocab_size}; use the vocabulary of \
         the model"
    )]
    VocabularySize {
        /// Lines of `vocab.txt`.
        words: usize,
        /// Rows of the word embedding table.
        vocab_size: usize,
    },

    /// The log-bilinear model does not match this BERT model.
    #[error(
        "the log-bilinear model does not match this BERT model: it has {found} tokens and `vocab_size` is {expected}, \
         or the hidden size or the heads differ; fit it for this configuration"
    )]
    LogBilinear {
        /// Number of counted tokens.
        found: usize,
        /// The model's `vocab_size`.
        expected: usize,
    },

    /// A key of `adapter_config.json` is absent or has an unsupported value, or the size of an adapter is invalid.
    #[error("adapter configuration: `{key}` {reason}")]
    AdapterConfig {
        /// The key of `adapter_config.json`.
        key: String,
        /// The problem with its value.
        reason: String,
    },

    /// The adapter was made for an encoder of another width.
    #[error(
        "{}: the adapter has hidden size {adapter}, but the model has {model}; use the encoder that it was trained on",
        path.display()
    )]
    AdapterWidth {
        /// The adapter's folder.
        path: PathBuf,
        /// The hidden size that the adapter was made for.
        adapter: usize,
        /// The hidden size of the model.
        model: usize,
    },

    /// This adapter's folder was given where a whole model's folder is needed.
    #[error(
        "{}: this is an adapter without its encoder. Give the checkpoint that it was trained on, or merge a LoRA into \
         a whole model with `finetune --adapter lora --merge-lora`; `bert predict` and `bert probe` accept the \
         adapter folder",
        .0.display()
    )]
    AdapterWithoutEncoder(PathBuf),

    /// The vocabulary lacks this token, which BERT needs.
    #[error("the vocabulary has no {0}, which BERT needs; use a WordPiece vocabulary of BERT")]
    MissingSpecialToken(&'static str),
}

impl Error {
    /// Returns the documented exit code of a program that ends with this error: 1 for input and output, 2 for a wrong
    /// flag value, 3 for a damaged file, 4 for a mismatched checkpoint, 5 for a numerical failure.
    pub fn exit_code(&self) -> u8 {
        match self {
            Self::Io { .. } => 1,
            Self::UnknownPreset(_) => 2,
            Self::Json { .. } | Self::CorruptWeights { .. } | Self::MissingSpecialToken(_) => 3,
            Self::ParameterNotFinite { .. } => 5,
            // The checkpoint is for another model, or in an unsupported format.
            _ => 4,
        }
    }
}

/// The differences between a checkpoint's tensors and a model's parameters.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LoadReport {
    /// Names of parameters that the checkpoint lacks.
    pub missing: Vec<String>,
    /// Names of tensors that the model lacks.
    pub unexpected: Vec<String>,
    /// Name, shape in the model and shape in the checkpoint of tensors whose shapes differ.
    pub misshapen: Vec<(String, Vec<usize>, Vec<usize>)>,
}

impl fmt::Display for LoadReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut parts = Vec::new();
        if !self.missing.is_empty() {
            parts.push(format!("missing: {}", listed(&self.missing)));
        }
        if !self.unexpected.is_empty() {
            parts.push(format!("unexpected: {}", listed(&self.unexpected)));
        }
        for (name, model, checkpoint) in self.misshapen.iter().take(MAX_LISTED) {
            parts.push(format!("{name} has shape {checkpoint:?}, but the model has {model:?}"));
        }
        if self.misshapen.len() > MAX_LISTED {
            parts.push(format!("and {} more with a different shape", self.misshapen.len() - MAX_LISTED));
        }
        f.write_str(&parts.join("; "))
    }
}

/// Maximum number of names in a message; the rest are counted.
const MAX_LISTED: usize = 20;

fn listed(names: &[String]) -> String {
    let shown = names.len().min(MAX_LISTED);
    let more = match names.len() - shown {
        0 => String::new(),
        more => format!(" and {more} more"),
    };
    names[..shown].join(", ") + &more
}
