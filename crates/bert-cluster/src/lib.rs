//! Builds pre-training data on a cluster, with the bytes of the laptop.
//!
//! A build divides into parts (`make-pretrain-data --part`). A part first tokenizes its share of the text and then, when
//! all parts have, makes its share of the shards. Either is a pure function of the configuration and the part's number,
//! so it may run anywhere, any number of times. This crate lets [Apache DataFusion Ballista] decide where: it schedules
//! the parts, runs them again when an executor is lost, and brings their receipts back.
//!
//! | module | what it is |
//! |---|---|
//! | [`work`] | one part of a stage: the only thing that is computed |
//! | [`operator`] | [`PartsExec`](operator::PartsExec), a physical operator: rows with part numbers in, receipts out |
//! | [`codec`] | sends the operator to executors |
//! | [`engine`] | runs the stages in this process or on a cluster, checks the receipts, commits |
//! | [`scheduler`] | whether a cluster has executors |
//! | [`network`] | addresses, and which of them may be bound |
//!
//! All machines see the input, the vocabulary and the output folder under the same paths. The output folder is the one
//! place where progress is kept: a job that is sent again goes on from what is finished there.
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
pub use error::{Error, Result, finish};
