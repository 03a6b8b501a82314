//! Builds `report.html`, a self-contained page about a pre-training run or a fine-tuning.
//!
//! It reads the folder of a run (`run.json`, `metrics.jsonl`, `evaluations.jsonl`, `timing.jsonl`) or of a fine-tuning
//! (`report.json`). The [`Report`] has the page, with curves and tables, and the findings as text. The page loads no
//! external resources. It compares losses and scores with baselines and, for a run, with published results.
//! [`compare`] compares several fine-tunings, `tables` writes features and attention weights as Parquet, and
//! [`export`] converts models between formats.

mod attention_page;
mod compare;
mod comparison;
mod export;
mod filled_sentences;
mod findings;
mod finetuning;
mod live;
mod next_step;
mod page;
mod pretraining;
mod projector_page;
mod protobuf;
mod run_record;
mod tables;

#[doc(no_inline)]
pub use bert_training::Error;

pub use attention_page::attention_page;
pub use compare::glue_submission::{Submission, write_submission};
pub use compare::glue_table::{GlueRow, GlueTable};
pub use compare::pairwise::{Comparison, SeedPair, Side, compare, compare_sides};
pub use compare::{Collection, Group, collect};
pub use comparison::comparison_page;
pub use export::extend::{NewRows, extend_model};
pub use export::import::{Import, Imported, import};
pub use export::onnx::{OnnxModel, export_onnx};
pub use export::{CardOptions, Export, WeightType, export, export_fresh, export_on};
pub use findings::{Finding, Severity};
pub use finetuning::finetuning_page;
pub use page::Report;
pub use pretraining::pretraining_page;
pub use projector_page::projector_page;

// The other crates of the workspace use these items, which may change in any version.
#[doc(hidden)]
pub use compare::{glue_submission::answered_labels, glue_table::TASKS, shared_text_warnings};
#[doc(hidden)]
pub use export::uses::{FolderUse, FolderUses, folder_uses};
#[doc(hidden)]
pub use export::{check_export_folder, transplant_encoder};
#[doc(hidden)]
pub use live::{LiveFigure, LiveRun, LiveState, LiveStatus, status::live_page};
#[doc(hidden)]
pub use protobuf::Message;
#[doc(hidden)]
pub use tables::{write_attention_parquet, write_features_parquet};

use std::path::Path;

use bert_storage::exists;

/// Returns the page of the run or fine-tuning in `folder`; `others` are pre-training runs to compare with.
///
/// # Errors
/// Fails when the folder does not exist or is neither a run nor a fine-tuning, when a fine-tuning is to be compared
/// with runs, or when the files cannot be read.
pub fn report(folder: &Path, others: &[&Path]) -> Result<Report, Error> {
    if exists(&folder.join("run.json"))? {
        return pretraining_page(folder, others);
    }
    if !exists(folder)? {
        let text = "this folder does not exist; give the output folder of pretrain or finetune";
        return Err(Error::failed(text).absent().at(folder));
    }
    if !exists(&folder.join("report.json"))? {
        return Err(page::no_run(folder));
    }
    if !others.is_empty() {
        let reason = format!("{} is a fine-tuning, not a pre-training run", folder.display());
        return Err(Error::option("compare", reason));
    }
    finetuning_page(folder)
}

/// Returns the findings about a pre-training run, warnings first, without the page.
///
/// # Errors
/// Fails when the run's files cannot be read.
pub fn run_findings(run: &Path) -> Result<Vec<Finding>, Error> {
    Ok(findings::findings(&run_record::RunRecord::read(run)?.with_baselines()))
}
