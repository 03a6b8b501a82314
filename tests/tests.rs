//! Tests of the programs as a user runs them: one binary, one module per guarantee.
//!
//! Each test makes its data from a few shortened articles of `corpora/`, with a model of about ten thousand parameters.
//! Tests need no network, GPU or external program; the exceptions are ignored, with the reason (`scripts/check --all`
//! runs them).

mod adapters; // parameter-efficient fine-tuning: adapters and LoRA
mod built_in; // the built-in model
#[cfg(unix)]
mod commands; // every command with only its required arguments
mod common; // a test folder, the programs, small data and a small model
mod determinism; // equal input gives equal bytes; accumulation equals one batch
mod environment; // closed pipes, no terminal, odd paths, --quiet and --json
mod errors; // wrong input: exit code, message, nothing changed
mod examples; // the programs of examples/
mod foreign_models; // model folders of other projects: missing tensors, their tokenizers, other formats
mod full_disk; // a disk that is really full
mod fuzz_corpus; // the corpus of the fuzz targets, replayed
mod glue; // all tasks of GLUE in one command
mod heads; // fine-tuning with other heads: answers, tags, choices
mod help; // --help of every command
mod hostile; // files that are hostile or damaged: exit code and message of each
mod inference; // predict, features: a model on new texts
mod initialization; // initialization of a run, and its resume
mod kills; // killed at random moments until done: nothing lost, nothing duplicated
mod licences; // licences of the dependencies
mod limits; // memory: estimates, limits, out of memory
mod multitask; // one encoder on several tasks
mod options; // options that decide the data are printed, saved and read back
mod parts; // a data set made in parts, and with little memory, is the same data set
mod paths; // file:// URLs, lists with commas, URLs with passwords
mod pipeline; // text to vocabulary, shards, model, evaluation, pages, export
mod probe; // a word changed, and which predictions flip
mod python; // shards and exported folders, read by the Python libraries they are meant for
mod recipes; // recipes, and a run limited by time
mod reliability; // the tests that docs/reliability.md names
mod resume; // stopped, killed, corrupted: continued bit for bit
mod resume_finetuning; // the same for fine-tuning
mod tables; // fine-tuning on user tables, in every format
mod tasks; // fine-tuning: reports, predictions, trained and frozen weights
mod trainer; // a folder for the Trainer of transformers, and the same rows for our programs
mod trust; // subsets, grids, early stopping, intervals and paired tests of fine-tunings
mod warnings; // warnings with figures, the fraction of [UNK], disk space
