//! The unit of work: one part of one stage of a build.

use std::panic::resume_unwind;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use bert_data::{BuildConfig, BuildProgress, build_part, tokenize_part};
use bert_storage::{Class, is_url, objects, on_disk};
use bert_text::split_lists;
use serde::{Deserialize, Serialize};

/// Maximum time that a part waits for the lock of another process that works on it. A machine that lost its network may
/// still hold the lock when the engine already runs the part elsewhere.
const LOCK_WAIT: Duration = Duration::from_secs(20);
const LOCK_POLL: Duration = Duration::from_millis(200);

/// A stage: work that all parts finish before the next stage begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Stage {
    /// Tokenizes the files into the token store.
    Tokenize,
    /// Writes the shards from the token store.
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

/// The description of one stage of a build: everything that an executor needs except the part number.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Work {
    /// Version of the program that planned the stage; executors of a different version reject it.
    pub program: String,
    /// The stage.
    pub stage: Stage,
    /// Configuration of the build.
    pub config: BuildConfig,
    /// Number of parts.
    pub parts: u32,
}

/// The result of a part.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Receipt {
    /// Part number, from 1.
    pub part: u32,
    /// Number of rows in the shards of the part; in the tokenize stage, number of tokens in its text.
    pub count: u64,
    /// Duration in seconds.
    pub seconds: f64,
    /// Message and exit code of the builder, if it failed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub failure: Option<(String, u8)>,
}

/// Panic payload that unwinds the builder's thread when its part is cancelled.
struct Cancelled;

impl Work {
    /// Name and version of this program.
    pub const PROGRAM: &'static str = concat!("bert ", env!("CARGO_PKG_VERSION"));

    /// Creates a stage of a build in `parts` parts. Relative paths become absolute, because workers run in different
    /// folders.
    #[must_use]
    pub fn new(stage: Stage, config: &BuildConfig, parts: u32) -> Self {
        let config = absolute(config).with_threads(config.threads.max(1));
        Self { program: Self::PROGRAM.to_owned(), stage, config, parts }
    }

    /// Parses the work of this version of the program.
    ///
    /// # Errors
    /// Fails when the text is not a [`Work`] in JSON, or when another version planned the stage.
    pub fn parse(json: &[u8]) -> Result<Self, String> {
        let work: Self = serde_json::from_slice(json).map_err(|error| error.to_string())?;
        if work.program != Self::PROGRAM {
            let theirs = &work.program;
            let ours = Self::PROGRAM;
            return Err(format!("the job was planned by {theirs}, but this executor is {ours}"));
        }
        Ok(work)
    }

    /// Runs one part. A failure that another attempt may fix is returned as an error; any other is in the receipt, with
    /// the builder's message.
    ///
    /// # Errors
    /// Fails when the disk or the network fails, or when another process holds the part's lock.
    ///
    /// # Panics
    /// Panics within a second after `cancelled` becomes true; the part's lock is then released.
    pub fn run(&self, part: u32, cancelled: &AtomicBool) -> std::io::Result<Receipt> {
        let start = Instant::now();
        let config = self.config.clone().with_part(part as usize).with_parts(self.parts as usize);
        let stop_if_cancelled = || {
            if cancelled.load(Ordering::Relaxed) {
                resume_unwind(Box::new(Cancelled));
            }
        };
        let mut watch = |_: BuildProgress| stop_if_cancelled();
        let mut build = |config: &BuildConfig| match self.stage {
            Stage::Tokenize => tokenize_part(config, &mut watch).map(|text| text.tokens),
            Stage::Shards => build_part(config, &mut watch).map(|shards| shards.rows),
        };
        // A part of the held-out data set is built with each part of the training data.
        let held_out = config.held_out_config();
        let mut attempt = || -> bert_data::Result<u64> {
            let count = build(&config)?;
            held_out.as_ref().map(&mut build).transpose()?;
            Ok(count)
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

/// Returns the configuration with absolute paths, because the processes of the cluster may run in other folders. URLs
/// are left unchanged.
fn absolute(config: &BuildConfig) -> BuildConfig {
    let absolute = |path: &Path| {
        if is_url(path) {
            return path.to_owned();
        }
        // An empty path has no absolute form; it is rejected when it is opened.
        std::path::absolute(on_disk(path)).unwrap_or_else(|_| path.to_owned())
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
    error.class() == Class::InUse
}

/// Returns whether another attempt, here or on another machine, may succeed.
fn may_pass(error: &bert_data::Error) -> bool {
    let system_errors = || causes(error).filter_map(|cause| cause.downcast_ref::<std::io::Error>());
    // The key and the bucket are the same on every machine, so every attempt would be rejected.
    if system_errors().any(objects::is_rejection) {
        return false;
    }
    let is_system_error = error.class() == Class::Failed && system_errors().next().is_some();
    is_system_error || matches!(error.class(), Class::Later | Class::InUse)
}

/// Returns an error and its causes.
fn causes(error: &bert_data::Error) -> impl Iterator<Item = &(dyn std::error::Error + 'static)> {
    std::iter::successors(Some(error as &(dyn std::error::Error + 'static)), |error| error.source())
}

/// Formats an error with its causes, except the causes that its message already quotes.
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
