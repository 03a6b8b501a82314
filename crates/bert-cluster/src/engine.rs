//! Runs a build on an engine, stage by stage, then checks the receipts and commits.

use std::str::FromStr;
use std::sync::Arc;
use std::thread::available_parallelism;
use std::time::Duration;

use ballista_core::execution_plans::execute_physical_plan;
use ballista_core::extension::SessionConfigExt;
use bert_data::{BuildConfig, Manifest, merge_with_scratch};
use datafusion::arrow::array::RecordBatch;
use datafusion::error::DataFusionError;
use datafusion::execution::TaskContext;
use datafusion::physical_plan::{ExecutionPlan, collect, common};
use datafusion::prelude::SessionConfig;
use datafusion_proto::protobuf::PhysicalPlanNode;

use crate::codec::Codec;
use crate::error::{Class, Error, Result};
use crate::operator::{plan, receipts};
use crate::scheduler::Scheduler;
use crate::work::{Receipt, Stage, Work};

/// Maximum number of times a stage is submitted if its receipts are lost.
const ATTEMPTS: usize = 10;

/// The engine that runs the parts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Engine {
    /// DataFusion in this process: the same plan without a cluster.
    DataFusion,
    /// A Ballista cluster.
    Ballista(Scheduler),
}

/// Default maximum time that a job waits for executors.
const PATIENCE: Duration = Duration::from_secs(30);

impl FromStr for Engine {
    type Err = Error;

    fn from_str(name: &str) -> Result<Self> {
        match name.strip_prefix("ballista://") {
            Some(address) if address.contains(':') => {
                Ok(Self::Ballista(Scheduler { address: address.to_owned(), patience: PATIENCE }))
            }
            None if name == "datafusion" => Ok(Self::DataFusion),
            _ => Err(Error::usage(format!(
                "unknown engine {name:?}; the engines are local, datafusion and ballista://HOST:PORT"
            ))),
        }
    }
}

impl std::fmt::Display for Engine {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::DataFusion => f.write_str("datafusion"),
            Self::Ballista(scheduler) => write!(f, "ballista://{}", scheduler.address),
        }
    }
}

/// Returns the settings of a job: one part per task, so that a lost executor costs little.
fn session() -> SessionConfig {
    let settings = SessionConfig::new_with_ballista()
        .with_ballista_physical_extension_codec(Arc::new(Codec::default()))
        .with_ballista_job_name("make-pretrain-data");
    settings.set_str(ballista_core::config::BALLISTA_SCHEDULER_MAX_PARTITIONS_PER_TASK, "1")
}

impl Engine {
    /// Returns the engine with this time limit for a job without executors; after this time the job fails.
    #[must_use]
    pub fn with_patience(self, patience: Duration) -> Self {
        match self {
            Self::Ballista(scheduler) => Self::Ballista(Scheduler { patience, ..scheduler }),
            Self::DataFusion => self,
        }
    }

    async fn run(&self, plan: Arc<dyn ExecutionPlan>) -> Result<Vec<RecordBatch>, DataFusionError> {
        match self {
            Self::DataFusion => collect(plan, Arc::new(TaskContext::default())).await,
            Self::Ballista(scheduler) => {
                let (session, url) = (session(), format!("http://{}", scheduler.address));
                let config = session.ballista_config();
                let codec = Codec::default();
                let receipts = execute_physical_plan::<PhysicalPlanNode>(
                    url,
                    &config,
                    plan,
                    &codec,
                    String::new(),
                    session,
                );
                let receipts = async { common::collect(receipts.await?).await };
                tokio::select! {
                    receipts = receipts => receipts,
                    () = scheduler.lost() => {
                        let seconds = scheduler.patience.as_secs();
                        let message = format!("{} has had no executors for {seconds} s", scheduler.address);
                        Err(DataFusionError::Execution(message))
                    }
                }
            }
        }
    }

    /// Returns the number of parts that should run at the same time; all parts if the cluster decides.
    fn partitions(&self, parts: u32) -> u32 {
        match self {
            Self::DataFusion => available_parallelism().map_or(1, |cores| cores.get() as u32).min(parts),
            Self::Ballista(_) => parts,
        }
    }

    /// Runs a stage and returns the receipt of each part.
    async fn stage(&self, work: Work) -> Result<Vec<Receipt>> {
        let parts = work.parts;
        let failed = |cause: DataFusionError| {
            let text = "finished parts are kept, and the same command continues from there";
            Error::new(Class::Later, format!("{self}: {cause}; {text}"))
        };
        let plan = plan(work, self.partitions(parts)).map_err(failed)?;
        let mut attempts = 1;
        let batches = loop {
            match self.run(Arc::clone(&plan)).await {
                Err(error) if attempts < ATTEMPTS && self.lost_receipts(&error) => attempts += 1,
                done => break done.map_err(failed)?,
            }
        };
        one_of_each(self, receipts(&batches).map_err(failed)?, parts)
    }

    /// Returns whether receipts were lost with an executor after the job was done: neither the job nor the scheduler
    /// failed. Ballista recomputes lost results only for a next stage, not for the client. In a second job, finished
    /// parts return their receipts at once.
    fn lost_receipts(&self, error: &DataFusionError) -> bool {
        let Self::Ballista(scheduler) = self else { return false };
        let message = error.to_string();
        let job_failed = message.contains("Job ") && message.contains(" failed: ");
        !job_failed && !message.contains(&scheduler.address)
    }
}

/// Returns one receipt per part, in order, if none failed.
///
/// An executor that was paused may continue parts that were given to another executor in the meantime. Ballista then
/// returns both receipts. A part has the same bytes wherever it runs, so equal receipts are merged. Two different
/// receipts are an error.
fn one_of_each(engine: &Engine, mut receipts: Vec<Receipt>, parts: u32) -> Result<Vec<Receipt>> {
    for Receipt { part, failure, .. } in &receipts {
        if let Some((message, exit_code)) = failure {
            return Err(Error::new(Class::Elsewhere(*exit_code), format!("part {part}: {message}")));
        }
    }
    receipts.sort_by_key(|receipt| (receipt.part, receipt.count));
    receipts.dedup_by_key(|receipt| (receipt.part, receipt.count));
    for part in 1..=parts {
        let found = receipts.iter().filter(|receipt| receipt.part == part).count();
        if found != 1 {
            return Err(Error::data(format!(
                "{engine} returned {found} different receipts of part {part}, not one; nothing was committed"
            )));
        }
    }
    Ok(receipts)
}

/// Builds a data set in `parts` parts. Calls `on_message` with a message when a stage begins and when it ends.
///
/// # Errors
/// Fails with any [`Error`]; the output folder then contains no new data set, and the next attempt reuses the finished
/// parts in it.
pub async fn build(
    engine: &Engine,
    config: &BuildConfig,
    parts: u32,
    on_message: &mut dyn FnMut(&str),
) -> Result<Manifest> {
    config.check()?;
    if config.overwrite {
        return Err(Error::usage(
            "an engine cannot overwrite: its parts share the output, and one part would remove the files of the \
             others; remove the finished data set first",
        ));
    }
    for stage in [Stage::Tokenize, Stage::Shards] {
        on_message(&format!("{stage} in {parts} parts on {engine}"));
        let receipts = engine.stage(Work::new(stage, config, parts)).await?;
        let seconds: f64 = receipts.iter().map(|receipt| receipt.seconds).sum();
        let longest = receipts.iter().map(|receipt| receipt.seconds).fold(0.0, f64::max);
        let count: u64 = receipts.iter().map(|receipt| receipt.count).sum();
        let what = if stage == Stage::Tokenize { "tokens" } else { "rows" };
        on_message(&format!("{count} {what}; {seconds:.1} s of work, the longest part {longest:.1} s"));
    }
    on_message("checking and committing");
    let folder = config.output.clone().unwrap_or_default();
    let scratch = config.scratch.clone();
    let merged = move || merge_with_scratch(&folder, scratch.as_deref(), &mut |_| {});
    let merged = tokio::task::spawn_blocking(merged).await;
    Ok(merged.unwrap_or_else(|failed| std::panic::resume_unwind(failed.into_panic()))?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn receipts_that_agree_are_one_and_others_are_noticed() {
        let receipt = |part, count| Receipt { part, count, ..Receipt::default() };
        let parts_of = |receipts: &[Receipt]| {
            one_of_each(&Engine::DataFusion, receipts.to_vec(), 3)
                .map(|receipts| receipts.iter().map(|receipt| receipt.part).collect::<Vec<_>>())
                .map_err(|error| (error.to_string(), error.exit_code()))
        };
        let once = [receipt(2, 20), receipt(3, 30), receipt(1, 10)];
        assert_eq!(parts_of(&once), Ok(vec![1, 2, 3]));
        let again = Receipt { seconds: 7.0, ..receipt(2, 20) };
        assert_eq!(parts_of(&[&once[..], &[again]].concat()), Ok(vec![1, 2, 3]));
        let (message, code) = parts_of(&[&once[..], &[receipt(2, 21)]].concat()).unwrap_err();
        assert!(message.contains("2 different receipts of part 2") && code == 3, "{message}");
        let (message, code) = parts_of(&once[1..]).unwrap_err();
        assert!(message.contains("0 different receipts of part 2") && code == 3, "{message}");
        let failed = Receipt { failure: Some(("no input".to_owned(), 2)), ..receipt(1, 0) };
        assert_eq!(parts_of(&[&once[..], &[failed]].concat()), Err(("part 1: no input".to_owned(), 2)));
    }

    #[test]
    fn engines_have_names() {
        for name in ["datafusion", "ballista://host:50050"] {
            assert_eq!(name.parse::<Engine>().unwrap().to_string(), name);
        }
        for name in ["ballista://host", "spark", ""] {
            assert_eq!(name.parse::<Engine>().unwrap_err().exit_code(), 2, "{name}");
        }
    }
}
