//! [`Error`]: errors in a configuration, a checkpoint or its files.
//!
//! The messages name the file, the key or the tensor. Wrong tensor shapes in a forward pass are programmer errors and
//! panic (`assert_shape!`).

use std::path::PathBuf;

use crate::load_report::LoadReport;

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

    /// A safetensors file is truncated, or its header is damaged.
    #[error("{}: damaged safetensors file: {reason}", path.display())]
    CorruptSafetensors {
        /// The file.
        path: PathBuf,
        /// The message of the safetensors parser.
        reason: String,
    },

    /// A tensor's element type is not a float.
    #[error("tensor `{name}` has element type {dtype}; f32, f16 and bf16 are read")]
    UnsupportedDtype {
        /// The tensor.
        name: String,
        /// Its element type in the file.
        dtype: String,
    },

    /// A tensor of a checkpoint holds NaN or infinity.
    #[error("tensor `{name}` holds {value}, which is not a finite number")]
    WeightNotFinite {
        /// The tensor.
        name: String,
        /// The first such value.
        value: f32,
    },

    /// A parameter of the model to be saved is NaN or infinite.
    #[error("parameter `{name}` has become {value}; a model that is not finite is not saved")]
    ParameterNotFinite {
        /// The parameter.
        name: String,
        /// The first such value.
        value: f32,
    },

    /// The checkpoint's tensors do not match the model: lists every missing, unexpected and misshapen tensor.
    #[error("the checkpoint does not fit the model: {0}")]
    TensorMismatch(LoadReport),

    /// A second copy of a tied tensor differs from the first.
    #[error("tensor `{name}` must equal `{tied_to}` (they are one parameter), but differs")]
    TiedTensorDiffers {
        /// The copy.
        name: String,
        /// The parameter itself.
        tied_to: String,
    },

    /// Two names in the file refer to one parameter. Holds the current name.
    #[error("tensor `{0}` occurs twice, under its present and its old name")]
    DuplicateTensor(String),

    /// The folder has weights only as this pickle, which can run code when it is loaded.
    #[error(
        "{}: only pickled weights here, and pickles are not read because they can run code. \
         Convert them once in Python: \
         `from transformers import AutoModelForPreTraining as M; \
         M.from_pretrained(\"DIR\").save_pretrained(\"NEW_DIR\")` writes model.safetensors",
        .0.display()
    )]
    PickledWeights(PathBuf),

    /// The only weights in the folder are in this file of another framework.
    #[error("{}: weights of {framework}, which are not read. {how}", path.display())]
    ForeignWeights {
        /// The file.
        path: PathBuf,
        /// The framework that wrote it.
        framework: &'static str,
        /// Instructions to convert it to model.safetensors.
        how: &'static str,
    },

    /// A file was given where a model's folder is expected.
    #[error("{}: a file; name the folder that holds config.json and model.safetensors", .0.display())]
    NotAFolder(PathBuf),

    /// The checkpoint is sharded; this is its index file.
    #[error(
        "{}: the weights are split over several files, which is not read; write one model.safetensors \
         (`save_pretrained(dir, max_shard_size=\"100GB\")`)",
        .0.display()
    )]
    ShardedWeights(PathBuf),

    /// A file that every checkpoint folder needs is missing.
    #[error("{}: no {file} in this folder, so it is not a checkpoint", path.display())]
    MissingFile {
        /// The folder.
        path: PathBuf,
        /// The file's name.
        file: &'static str,
    },

    /// The vocabulary has more words than the table has rows.
    #[error("the vocabulary has {words} words, but the model's `vocab_size` is {vocab_size}")]
    VocabularySize {
        /// Lines of `vocab.txt`.
        words: usize,
        /// Rows of the word embedding table.
        vocab_size: usize,
    },

    /// The log-bilinear model does not match this BERT model.
    #[error(
        "the counts were fitted for another model: they have {found} tokens, this one has {expected} or another shape"
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
    #[error("{}: the adapter is for a hidden size of {adapter}, the model's is {model}", path.display())]
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
        "{}: an adapter without its encoder, so not a model by itself. Name the checkpoint that it was trained on, or \
         make a whole model of a LoRA by `finetune --adapter lora --merge-lora`; `bert predict` and `bert probe` take it as it is",
        .0.display()
    )]
    AdapterWithoutEncoder(PathBuf),

    /// The only weights of an adapter are in this pickle, which can run code when it is loaded.
    #[error(
        "{}: only pickled weights here, and pickles are not read because they can run code. Save them again in Python \
         as safetensors: `model.save_adapter(DIR, NAME, use_safetensors=True)`, with PEFT `model.save_pretrained(DIR)`",
        .0.display()
    )]
    PickledAdapter(PathBuf),

    /// The vocabulary lacks this token, which BERT needs.
    #[error("the vocabulary has no {0}")]
    MissingSpecialToken(&'static str),
}

impl Error {
    /// Returns the documented exit code of a program that ends with this error: 1 for input and output, 2 for a wrong
    /// flag value, 3 for a damaged file, 4 for a mismatched checkpoint, 5 for a numerical failure.
    pub fn exit_code(&self) -> u8 {
        match self {
            Self::Io { .. } => 1,
            Self::UnknownPreset(_) => 2,
            Self::Json { .. } | Self::CorruptSafetensors { .. } | Self::MissingSpecialToken(_) => 3,
            Self::ParameterNotFinite { .. } => 5,
            // The checkpoint is for another model, or in an unsupported format.
            _ => 4,
        }
    }
}
