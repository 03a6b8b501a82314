//! BERT from raw text to a scored model: the libraries under one name, and the command-line programs.
//!
//! A program that uses the libraries imports [`prelude`]:
//!
//! ```no_run
//! use std::path::Path;
//!
//! use bert::prelude::*;
//!
//! let extractor = Extractor::open(Path::new("my-bert"), ModelOptions::default())?;
//! for line in extractor.encode(&["a warm day", "the rain is cold"])? {
//!     println!("{} tokens, {} values", line.tokens.len(), line.layers[0].len());
//! }
//! # Ok::<(), bert::inference::Error>(())
//! ```
//!
//! The libraries print nothing and do not exit the process. [`data`], [`model`], [`tasks`], [`training`], [`finetuning`], [`inference`] and [`reports`] have the whole
//! interface and a tour each; the examples in `examples/` are complete programs.
//!
//! The other modules are the programs `make-pretrain-data`, `pretrain`, `finetune` and `bert`.
//! Each program parses its flags, calls one library function, draws its progress on stderr and prints its result to
//! stdout (with `--json` as one object). [`process::exit`] has the exit codes.

use std::alloc::System;

use bert_allocator::ExitOnOom;
use mimalloc::MiMalloc;

/// Returns the allocator of the programs that train. A step repeatedly allocates and frees the same large tensors. The
/// allocator of glibc returns them to the system each time, and the page faults cost a sixth of the step.
pub const fn training_allocator() -> ExitOnOom<MiMalloc> {
    let remedy = "use a smaller batch, --gradient-accumulation-steps or --recompute (pretrain), a smaller model or shorter \
                  sequences; the limit may come from the machine, the container or `ulimit -v`";
    ExitOnOom::new(MiMalloc, remedy)
}

/// Returns the allocator of the data builder: glibc's, which needs less than half the memory.
pub const fn building_allocator() -> ExitOnOom<System> {
    let remedy = "use a smaller --memory-budget or fewer --threads; the limit may come from the machine, the container or \
                  `ulimit -v`";
    ExitOnOom::new(System, remedy)
}

pub use bert_data as data;
pub use bert_finetuning as finetuning;
pub use bert_inference as inference;
pub use bert_model as model;
pub use bert_reports as reports;
pub use bert_storage as storage;
pub use bert_task_files as task_files;
pub use bert_tasks as tasks;
pub use bert_text as text;
pub use bert_tokenization as tokenization;
pub use bert_training as training;
#[cfg(feature = "translation")]
pub use bert_translation as translation;

/// The types and functions that most programs need, in the order in which data passes through them.
pub mod prelude {
    pub use bert_data::make_vocab::{VocabConfig, train_vocabulary};
    pub use bert_data::{BuildConfig, DataSet, Layout, PartialSettings, StoredRows, build, write_documents};
    pub use bert_finetuning::{
        Choices, FinetuneConfig, FinetuneReport, Seeds, TableArgs, TrainingRows, finetune, finetune_rows,
    };
    pub use bert_inference::encoding::model_tokenizer::ModelTokenizer;
    pub use bert_inference::fill_mask::MaskFiller;
    pub use bert_inference::model_dir::model_folder::resolve_model_folder;
    pub use bert_inference::{
        Answer, Attention, AttentionOptions, Classifier, Extractor, LineFeatures, ModelFiles, ModelOptions,
        Predictor,
    };
    pub use bert_inference::{DeviceName, StopFlag};
    pub use bert_model::{Architecture, BertConfig, BertForPreTraining, LossNormalizer, Preset};
    pub use bert_reports::export::{Export, export, export_fresh};
    pub use bert_storage::write_atomic;
    pub use bert_task_files::TextRow;

    pub use bert_tasks::Example;
    pub use bert_training::PretrainConfig;
    pub use bert_training::data_loader::{DataLoader, PretrainingBatch};
    pub use bert_training::evaluation::{Evaluation, evaluate};
    pub use bert_training::initialization::{FreshWeights, InitializationChoice};
    pub use bert_training::optimizer::lr_schedule::{Schedule, ScheduleKind};
    pub use bert_training::optimizer::{Optimizer, OptimizerConfig};
    pub use bert_training::pretrain::{PretrainEvent, pretrain};
    pub use bert_training::step::{MicroBatchLoss, StepId, train_step};
}

pub mod commands;
pub mod options;
pub mod output;
pub mod process;
