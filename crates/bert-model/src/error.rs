//! [`Error`]: everything that can be wrong with a configuration, a checkpoint or its files.
//!
//! The messages name the file, the key or the tensor. Wrong tensor shapes in a forward pass are programmer errors and
//! panic (`assert_shape!`).

use std::path::PathBuf;

use crate::load_report::LoadReport;

/// What went wrong, with the place.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A file could not be read or written.
    #[error("{}: {source}", path.display())]
    Io {
        /// The file or folder.
        path: PathBuf,
        /// The system's own error.
        #[source]
        source: std::io::Error,
    },

    /// A JSON file is not JSON, or not an object.
    #[error("{}: not valid JSON: {reason}", path.display())]
    Json {
        /// The file.
        path: PathBuf,
        /// What the parser said, with line and column.
        reason: String,
    },

    /// A key of `config.json` is absent, of the wrong type, or has a value this model does not have.
    #[error("model configuration: `{key}` {reason}")]
    Config {
        /// The key of `config.json`.
        key: String,
        /// What is wrong with it.
        reason: String,
    },

    /// No preset of this name.
    #[error("unknown model size `{0}`; the sizes are tiny, mini, small, medium, base and large")]
    UnknownPreset(String),

    /// A safetensors file is cut short, or its header is damaged.
    #[error("{}: damaged safetensors file: {reason}", path.display())]
    CorruptSafetensors {
        /// The file.
        path: PathBuf,
        /// What the format's reader said.
        reason: String,
    },

    /// A tensor holds numbers that are not floats.
    #[error("tensor `{name}` has element type {dtype}; f32, f16 and bf16 are read")]
    UnsupportedDtype {
        /// The tensor.
        name: String,
        /// Its element type, as the file has it.
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

    /// A parameter of the model that is to be saved is NaN or infinite.
    #[error("parameter `{name}` has become {value}; a model that is not finite is not saved")]
    ParameterNotFinite {
        /// The parameter.
        name: String,
        /// The first such value.
        value: f32,
    },

    /// The tensors of a checkpoint are not those of the model: every missing, unexpected and misshapen one.
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

    /// Two names in the file stand for one parameter; the present one.
    #[error("tensor `{0}` occurs twice, under its present and its old name")]
    DuplicateTensor(String),

    /// The folder has weights only as this pickle, which can run code when it is read.
    #[error(
        "{}: only pickled weights here, and pickles are not read because they can run code. \
         Convert them once in Python: \
         `from transformers import AutoModelForPreTraining as M; \
         M.from_pretrained(\"DIR\").save_pretrained(\"NEW_DIR\")` writes model.safetensors",
        .0.display()
    )]
    PickledWeights(PathBuf),

    /// The weights are there only in this file of another framework.
    #[error("{}: weights of {framework}, which are not read. {how}", path.display())]
    ForeignWeights {
        /// The file.
        path: PathBuf,
        /// The framework that wrote it.
        framework: &'static str,
        /// How model.safetensors is made from it.
        how: &'static str,
    },

    /// This file was named where a model's folder is expected.
    #[error("{}: a file; name the folder that holds config.json and model.safetensors", .0.display())]
    NotAFolder(PathBuf),

    /// A checkpoint split over several files, of which this is the index.
    #[error(
        "{}: the weights are split over several files, which is not read; write one model.safetensors \
         (`save_pretrained(dir, max_shard_size=\"100GB\")`)",
        .0.display()
    )]
    ShardedWeights(PathBuf),

    /// A file that every checkpoint folder has is not there.
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

    /// A log-bilinear model that was not made for this model.
    #[error(
        "the counts were fitted for another model: they have {found} tokens, this one has {expected} or another shape"
    )]
    LogBilinear {
        /// Tokens that were counted.
        found: usize,
        /// The model's `vocab_size`.
        expected: usize,
    },

    /// A key of `adapter_config.json` is absent or has a value this model does not have, or an adapter's size is wrong.
    #[error("adapter configuration: `{key}` {reason}")]
    AdapterConfig {
        /// The key of `adapter_config.json`.
        key: String,
        /// What is wrong with it.
        reason: String,
    },

    /// An adapter that was made for an encoder of another width.
    #[error("{}: the adapter is for a hidden size of {adapter}, the model's is {model}", path.display())]
    AdapterWidth {
        /// The adapter's folder.
        path: PathBuf,
        /// The hidden size that it was made for.
        adapter: usize,
        /// The model's.
        model: usize,
    },

    /// This adapter's folder was named where a whole model's is needed.
    #[error(
        "{}: an adapter without its encoder, so not a model by itself. Name the checkpoint that it was trained on, or \
         make a whole model of a LoRA by `finetune --adapter lora --merge-lora`; `bert predict` and `bert probe` take it as it is",
        .0.display()
    )]
    AdapterWithoutEncoder(PathBuf),

    /// An adapter's weights are there only as this pickle, which can run code when it is read.
    #[error(
        "{}: only pickled weights here, and pickles are not read because they can run code. Save them again in Python \
         as safetensors: `model.save_adapter(DIR, NAME, use_safetensors=True)`, with PEFT `model.save_pretrained(DIR)`",
        .0.display()
    )]
    PickledAdapter(PathBuf),

    /// A vocabulary without this token, which BERT needs.
    #[error("the vocabulary has no {0}")]
    MissingSpecialToken(&'static str),
}

impl Error {
    /// The documented exit code of a program that ends with this error: 1 for input and output, 2 for a
    /// wrong flag value, 3 for a damaged file, 4 for a checkpoint of another shape, 5 for numbers gone wrong.
    pub fn exit_code(&self) -> u8 {
        match self {
            Self::Io { .. } => 1,
            Self::UnknownPreset(_) => 2,
            Self::Json { .. } | Self::CorruptSafetensors { .. } | Self::MissingSpecialToken(_) => 3,
            Self::ParameterNotFinite { .. } => 5,
            // What is there is not this model, or not in a form that is read.
            _ => 4,
        }
    }
}
