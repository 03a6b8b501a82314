//! Fine-tunings of every kind, their resume, and what their reports say.

mod adapters; // parameter-efficient fine-tuning: adapters and LoRA
mod choices; // multiple choice, and heads on a frozen encoder
mod defaults; // settings by model size: printed, reported, kept by a resumed fine-tuning
mod experiments; // fixed grids of course reports, and what fine-tuning forgets
mod glue; // all tasks of GLUE in one command
pub(crate) mod heads; // fine-tuning with other heads: answers and tags
mod labels; // leaks between sets, missing and contradicting labels
mod multitask; // one encoder on several tasks
mod resume; // stopped and killed fine-tunings: continued bit for bit
mod tables; // fine-tuning on user tables, in every format
pub(crate) mod tasks; // fine-tuning: reports, predictions, trained and frozen weights
mod trust; // subsets, grids, early stopping, intervals and paired tests of fine-tunings
