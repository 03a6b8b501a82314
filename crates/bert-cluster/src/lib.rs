//! Builds pre-training data on a cluster, with the same bytes as a build on one machine.
//!
//! A build is divided into parts (`make-pretrain-data --part`). A part first tokenizes its share of the text and then,
//! when all parts have finished that, makes its share of the shards. Each step is a pure function of the configuration
//! and the part number, so it may run anywhere, any number of times. This crate lets [Apache DataFusion Ballista]
//! decide where: it schedules the parts, reruns them when an executor is lost, and returns their receipts.
//!
//! | module | contents |
//! |---|---|
//! | [`work`] | one part of a stage: the unit of work |
//! | [`operator`] | [`PartsExec`](operator::PartsExec), a physical operator that maps part numbers to receipts |
//! | [`codec`] | serializes the operator for executors |
//! | [`engine`] | runs the stages in this process or on a cluster, checks the receipts, commits |
//! | [`scheduler`] | checks whether a cluster has executors |
//! | [`network`] | checks which addresses may be bound |
//!
//! All machines see the input, the vocabulary and the output folder under the same paths. Progress is stored only in
//! the output folder: a job that is submitted again continues from the finished parts there.
//!
//! ```no_run
//! use bert_cluster::engine::{Engine, build};
//! use bert_data::BuildConfig;
//!
//! # async fn example() -> Result<(), bert_cluster::Error> {
//! let config = BuildConfig::new(["/shared/corpus"], "/shared/vocab.txt", "/shared/data").with_dupe_factor(5);
//! let engine: Engine = "ballista://scheduler:50050".parse()?;
//! let manifest = build(&engine, &config, 64, &mut |stage| eprintln!("{stage}")).await?;
//! println!("{} instances", manifest.instances);
//! # Ok(())
//! # }
//! ```
//!
//! [Apache DataFusion Ballista]: https://datafusion.apache.org/ballista/

#[cfg(feature = "ballista")]
pub mod codec;
#[cfg(feature = "ballista")]
pub mod engine;
#[cfg(feature = "ballista")]
mod error;
#[cfg(feature = "ballista")]
pub mod network;
#[cfg(feature = "ballista")]
pub mod operator;
#[cfg(feature = "ballista")]
pub mod scheduler;
pub mod work;

#[cfg(feature = "ballista")]
pub use error::{Class, Error, Result, finish};
