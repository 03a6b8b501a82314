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
//! The libraries print nothing and do not exit the process. [`data`], [`model`], [`tasks`], [`training`],
//! [`finetuning`], [`inference`] and [`reports`] contain the whole interface, each with an overview; the examples in
//! `examples/` are complete programs.
//!
//! The package also has the programs `make-pretrain-data`, `pretrain`, `finetune` and `bert`. Each program parses its flags,
//! calls one library function, draws its progress on stderr and prints its result to stdout (with `--json` as one object).
//! `process::exit` has the exit codes.

use std::alloc::System;

use bert_allocator::ExitOnOom;
use mimalloc::MiMalloc;

/// The allocator of the programs that train: mimalloc.
pub type TrainingAllocator = ExitOnOom<MiMalloc>;
/// The allocator of the data builder: the system's.
pub type BuildingAllocator = ExitOnOom<System>;

/// Returns the allocator of the programs that train. A step repeatedly allocates and frees the same large tensors. The
/// allocator of glibc returns them to the system each time, and the page faults cost a sixth of the step.
pub const fn training_allocator() -> TrainingAllocator {
    let remedy = "use a smaller batch, --gradient-accumulation-steps or --recompute (pretrain), a smaller model or shorter \
                  sequences; the limit may come from the machine, the container or `ulimit -v`";
    ExitOnOom::new(MiMalloc, remedy)
}

/// Returns the allocator of the data builder: glibc's, which needs less than half of mimalloc's memory.
pub const fn building_allocator() -> BuildingAllocator {
    let remedy = "use a smaller --memory-budget or fewer --threads; the limit may come from the machine, the container or \
                  `ulimit -v`";
    ExitOnOom::new(System, remedy)
}

#[cfg(feature = "translation")]
#[doc(no_inline)]
pub use bert_translation as translation;
#[doc(no_inline)]
pub use {
    bert_data as data, bert_finetuning as finetuning, bert_inference as inference, bert_model as model,
    bert_reports as reports, bert_storage as storage, bert_task_files as task_files, bert_tasks as tasks,
    bert_text as text, bert_tokenization as tokenization, bert_training as training,
};

/// The types and functions that most programs need, in the order in which data passes through them.
pub mod prelude {
    #[doc(no_inline)]
    pub use {
        bert_data::{
            BuildConfig, DataSet, Layout, PartialSettings, StoredRows, VocabConfig, build, train_vocabulary,
            write_documents,
        },
        bert_finetuning::{
            Choices, FinetuneConfig, FinetuneReport, Seeds, TableArgs, TrainingRows, finetune, finetune_rows,
        },
        bert_inference::{
            Answer, Answerer, Attention, AttentionOptions, Classifier, DeviceName, Extractor, LineFeatures,
            MaskFiller, MemoryModel, ModelFiles, ModelOptions, ModelTokenizer, Pooling, Predictor, StopFlag,
            Tagger, resolve_model_folder,
        },
        bert_model::{
            Architecture, BertConfig, BertForPreTraining, BertInput, BertModel, LoadPolicy, LossNormalizer,
            Mode, Preset, load_pretrained, save_pretrained,
        },
        bert_reports::{Export, export, export_fresh},
        bert_storage::write_atomic,
        bert_task_files::TextRow,
        bert_tasks::Example,
        bert_training::{
            DataLoader, Evaluation, FreshWeights, InitializationChoice, MicroBatchLoss, Optimizer,
            OptimizerConfig, PretrainConfig, PretrainEvent, PretrainingBatch, Resume, Schedule, ScheduleKind,
            StepSettings, evaluate, pretrain, train_step,
        },
    };
}

#[doc(hidden)]
pub mod commands;
#[doc(hidden)]
pub mod options;
#[doc(hidden)]
pub mod output;
#[doc(hidden)]
pub mod process;
