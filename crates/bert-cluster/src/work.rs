//! The unit of work: one part of one stage of a build.

use std::panic::resume_unwind;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use bert_data::input::split_lists;
use bert_data::{BuildConfig, BuildProgress, build_part, tokenize_part};
use bert_storage::{is_url, objects, on_disk};
use serde::{Deserialize, Serialize};

/// How long a part waits for another process that works on it. A machine that lost its network may still hold the lock
/// when the engine already runs the part elsewhere.
const LOCK_WAIT: Duration = Duration::from_secs(20);
const LOCK_POLL: Duration = Duration::from_millis(200);

/// A stage: work that all parts do before the next stage begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Stage {
    /// Files -> store of token ids.
    Tokenize,
    /// Store -> shards.
    Shards,
}

impl std::fmt::Display for Stage {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Tokenize => "tokenizing",
            Self::Shards => "making shards",
        })
    }
}

/// A stage of a build: all that an executor must know apart from the number of a part.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Work {
    /// The program that planned it; executors of another version refuse it.
    pub program: String,
    /// The stage.
    pub stage: Stage,
    /// The build.
    pub config: BuildConfig,
    /// Into how many parts it is divided.
    pub parts: u32,
}

/// The result of a part.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Receipt {
    /// The part, from 1.
    pub part: u32,
    /// Rows of its shards; tokens of its text while tokenizing.
    pub count: u64,
    /// Seconds that it took.
    pub seconds: f64,
    /// The message and the exit code of the builder where it failed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub failure: Option<(String, u8)>,
}

/// A part is no longer wanted: what the builder's thread unwinds with.
struct Cancelled;

impl Work {
    /// The version of the program that has this code.
    pub const PROGRAM: &'static str = concat!("bert ", env!("CARGO_PKG_VERSION"));

    /// A stage of a build in `parts` parts. Relative paths become absolute: workers run in folders of their own.
    #[must_use]
    pub fn new(stage: Stage, config: &BuildConfig, parts: u32) -> Self {
        let config = absolute(config).with_threads(config.threads.max(1));
        Self { program: Self::PROGRAM.to_owned(), stage, config, parts }
    }

    /// Does one part. A failure that another attempt may mend is an error; any other is in the receipt, with the builder's
    /// own words.
    ///
    /// # Errors
    /// [`std::io::Error`]: a disk or network, or another process that holds the part.
    ///
    /// # Panics
    /// Unwinds when `cancelled` becomes true, within a second; the part's lock is then released.
    pub fn run(&self, part: u32, cancelled: &AtomicBool) -> std::io::Result<Receipt> {
        let start = Instant::now();
        let config = self.config.clone().with_part(part as usize).with_parts(self.parts as usize);
        let stop_if_cancelled = || {
            if cancelled.load(Ordering::Relaxed) {
                resume_unwind(Box::new(Cancelled));
            }
        };
        let mut watch = |_: BuildProgress| stop_if_cancelled();
        let mut attempt = || match self.stage {
            Stage::Tokenize => tokenize_part(&config, &mut watch).map(|text| text.tokens),
            Stage::Shards => build_part(&config, &mut watch).map(|shards| shards.rows),
        };
        let done = loop {
            match attempt() {
                Err(error) if is_in_use(&error) && start.elapsed() < LOCK_WAIT => {
                    stop_if_cancelled();
                    thread::sleep(LOCK_POLL);
                }
                done => break done,
            }
        };
        let receipt = Receipt { part, seconds: start.elapsed().as_secs_f64(), ..Receipt::default() };
        match done {
            Ok(count) => Ok(Receipt { count, ..receipt }),
            Err(error) if may_pass(&error) => Err(std::io::Error::other(message(causes(&error)))),
            Err(error) => {
                let failure = Some((message(causes(&error)), error.exit_code()));
                Ok(Receipt { failure, ..receipt })
            }
        }
    }
}

/// Paths as every machine of the cluster has them.
fn absolute(config: &BuildConfig) -> BuildConfig {
    let absolute = |path: &Path| match is_url(path) {
        true => path.to_owned(),
        // An empty path has no absolute form; it is refused where it is opened.
        false => std::path::absolute(on_disk(path)).unwrap_or_else(|_| path.to_owned()),
    };
    let optional = |path: &Option<PathBuf>| path.as_deref().map(absolute);
    BuildConfig {
        input: split_lists(&config.input).iter().map(|path| absolute(path)).collect(),
        vocab: optional(&config.vocab),
        output: optional(&config.output),
        scratch: optional(&config.scratch),
        ..config.clone()
    }
}

fn is_in_use(error: &bert_data::Error) -> bool {
    matches!(error, bert_data::Error::Storage(bert_storage::Error::InUse { .. }))
}

/// Whether another attempt, here or on another machine, may go well.
fn may_pass(error: &bert_data::Error) -> bool {
    let of_system = || causes(error).filter_map(|cause| cause.downcast_ref::<std::io::Error>());
    // No machine has another key or another bucket.
    if of_system().any(objects::is_refusal) {
        return false;
    }
    let of_disk = error.exit_code() == 1 && of_system().next().is_some();
    matches!(error, bert_data::Error::Storage(_)) || of_disk || error.exit_code() == 75
}

/// An error and what it comes from.
fn causes(error: &bert_data::Error) -> impl Iterator<Item = &(dyn std::error::Error + 'static)> {
    std::iter::successors(Some(error as &(dyn std::error::Error + 'static)), |error| error.source())
}

/// An error with its causes, those left out that it quotes.
pub(crate) fn message<'e>(causes: impl Iterator<Item = &'e (dyn std::error::Error + 'static)>) -> String {
    let add = |text: String, cause: String| {
        if text.contains(&cause) { text } else { format!("{text}: {cause}") }
    };
    causes.map(ToString::to_string).reduce(add).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_of_a_task_are_absolute() {
        let config =
            BuildConfig::new(["text", "s3://bucket/text"], "v.txt", "out").with_scratch("file:///fast");
        let config = Work::new(Stage::Tokenize, &config, 2).config;
        let here = std::env::current_dir().unwrap();
        assert_eq!(config.input, [here.join("text"), PathBuf::from("s3://bucket/text")]);
        assert_eq!((config.vocab, config.output), (Some(here.join("v.txt")), Some(here.join("out"))));
        assert_eq!(config.scratch, Some(PathBuf::from("/fast")));
    }
}
