//! Tests of the programs as a user runs them: one binary, one module per promise.
//!
//! Everything is made in the test from a few cut articles of `corpora/`, with a model of some ten
//! thousand parameters; nothing needs a network, a GPU or another program than those of this
//! workspace; tests that do are ignored with that reason (`scripts/check --all` runs them).

mod adapters; // fine-tuning of a few weights: adapters and LoRA
mod built_in; // the model that the programs bring
#[cfg(unix)]
mod commands; // every command, with nothing but what it requires
mod common; // a folder to work in, the programs, small data and a small model
mod determinism; // equal input gives equal bytes; accumulation is the same batch
mod environment; // closed pipes, no terminal, odd paths, --quiet and --json
mod errors; // wrong input: exit code, message, nothing changed

mod examples; // the programs of examples/, run as they are
mod foreign_models; // model folders of others: what they lack, their tokenizers, other formats
mod full_disk; // a disk that is really full
mod fuzz_corpus; // the corpus of the fuzz targets, replayed
mod glue; // all tasks of GLUE in one command
mod heads; // fine-tuning with other heads: answers, tags, choices
mod hostile; // files that are hostile or damaged: exit code and message of each
mod initialization; // where a run begins, and that it goes on so
mod kills; // killed at random moments until done: nothing lost, nothing doubled
mod licences; // of what the programs are made of
mod limits; // memory: estimated, compared with limits, and run out of
mod multitask; // one encoder on several tasks
mod options; // what decides the data is said, saved, and read back
mod parts; // a data set made in parts, and with little memory, is the same data set
mod paths; // file:// URLs, lists with commas, URLs with passwords
mod probe; // a word changed, and which predictions flip
mod python; // shards and exported folders, read by the Python libraries they are meant for
mod recipes; // options that were measured together, and a run as long as the time there is
mod resume; // stopped, killed, corrupted: continued bit for bit
mod resume_finetuning; // the same of a fine-tuning
mod said; // warnings with their figures, the share of [UNK], the room on disk
mod tables; // fine-tuning on tables of one's own, in every form
mod tasks; // fine-tuning: reports, predictions, what is trained and what is not
mod the_path; // text to vocabulary, shards, model, evaluation, pages, export
mod trainer; // a folder for the Trainer of transformers, and the same rows for ours
mod trust; // subsets, grids, early stopping, intervals and paired tests of fine-tunings
mod using; // predict, features: a model on new texts
