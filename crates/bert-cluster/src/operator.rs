//! The physical operator that maps part numbers to receipts.
//!
//! The operator is unary: Ballista assigns the partitions of the leaf below it to tasks, and supports only its own
//! leaves. Ballista also renumbers the partitions of a task, so the part number is stored in a row and never taken from
//! the partition number.

use std::any::Any;
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use datafusion::arrow::array::{AsArray, RecordBatch, StringArray, UInt32Array};
use datafusion::arrow::datatypes::{DataType, Field, Schema, SchemaRef, UInt32Type};
use datafusion::common::tree_node::TreeNodeRecursion;
use datafusion::datasource::memory::MemorySourceConfig;
use datafusion::datasource::source::DataSourceExec;
use datafusion::error::{DataFusionError, Result};
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_expr::{EquivalenceProperties, PhysicalExpr};
use datafusion::physical_plan::execution_plan::{Boundedness, EmissionType};
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use datafusion::physical_plan::{
    DisplayAs, DisplayFormatType, ExecutionPlan, ExecutionPlanProperties, Partitioning, PlanProperties,
};
use futures::{StreamExt, TryStreamExt, stream};

use crate::work::{Receipt, Work};

/// An operator that runs the parts whose numbers it receives.
#[derive(Debug)]
pub struct PartsExec {
    work: Arc<Work>,
    input: Arc<dyn ExecutionPlan>,
    properties: Arc<PlanProperties>,
}

/// Returns the plan of a stage: its parts, distributed over partitions that an engine may run at the same time.
///
/// # Errors
/// Fails when DataFusion fails, which does not happen in practice.
pub fn plan(work: Work, partitions: u32) -> Result<Arc<dyn ExecutionPlan>> {
    let schema = Arc::new(Schema::new(vec![Field::new("part", DataType::UInt32, false)]));
    let partition = |first| {
        let parts = UInt32Array::from_iter_values((first..=work.parts).step_by(partitions as usize));
        Ok(vec![RecordBatch::try_new(Arc::clone(&schema), vec![Arc::new(parts)])?])
    };
    let tasks = (1..=partitions.min(work.parts)).map(partition).collect::<Result<Vec<_>>>()?;
    let leaf = DataSourceExec::new(Arc::new(MemorySourceConfig::try_new(&tasks, Arc::clone(&schema), None)?));
    Ok(Arc::new(PartsExec::new(Arc::new(work), Arc::new(leaf))))
}

impl PartsExec {
    /// Creates the operator above an input that supplies the part numbers.
    #[must_use]
    pub fn new(work: Arc<Work>, input: Arc<dyn ExecutionPlan>) -> Self {
        let partitions = Partitioning::UnknownPartitioning(input.output_partitioning().partition_count());
        let properties = PlanProperties::new(
            EquivalenceProperties::new(receipt_schema()),
            partitions,
            EmissionType::Final,
            Boundedness::Bounded,
        );
        Self { work, input, properties: Arc::new(properties) }
    }

    /// Returns the work that the operator does for a part.
    #[must_use]
    pub fn work(&self) -> &Work {
        &self.work
    }
}

impl DisplayAs for PartsExec {
    fn fmt_as(&self, _: DisplayFormatType, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "PartsExec: {}, {} parts", self.work.stage, self.work.parts)
    }
}

impl ExecutionPlan for PartsExec {
    fn name(&self) -> &'static str {
        "PartsExec"
    }

    fn properties(&self) -> &Arc<PlanProperties> {
        &self.properties
    }

    fn children(&self) -> Vec<&Arc<dyn ExecutionPlan>> {
        vec![&self.input]
    }

    fn apply_expressions(
        &self,
        _: &mut dyn FnMut(&Arc<dyn PhysicalExpr>) -> Result<TreeNodeRecursion>,
    ) -> Result<TreeNodeRecursion> {
        Ok(TreeNodeRecursion::Continue)
    }

    /// Returns false, because a partition of the input is a task, so redistributing its rows would not help.
    fn benefits_from_input_partitioning(&self) -> Vec<bool> {
        vec![false]
    }

    fn with_new_children(
        self: Arc<Self>,
        children: Vec<Arc<dyn ExecutionPlan>>,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        let [input] = <[_; 1]>::try_from(children)
            .map_err(|given| DataFusionError::Internal(format!("one input, not {}", given.len())))?;
        Ok(Arc::new(Self::new(Arc::clone(&self.work), input)))
    }

    fn execute(&self, partition: usize, context: Arc<TaskContext>) -> Result<SendableRecordBatchStream> {
        let work = Arc::clone(&self.work);
        let input = self.input.execute(partition, context)?;
        let receipts = input
            .map_ok(|batch| {
                let parts = batch.column(0).as_primitive::<UInt32Type>().values().to_vec();
                stream::iter(parts.into_iter().map(Ok::<_, DataFusionError>))
            })
            .try_flatten()
            .and_then(move |part| run(Arc::clone(&work), part));
        Ok(Box::pin(RecordBatchStreamAdapter::new(receipt_schema(), receipts.boxed())))
    }
}

/// A guard that stops the builder's thread when the future that waits for it is dropped.
struct StopOnDrop(Arc<AtomicBool>);

impl Drop for StopOnDrop {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

async fn run(work: Arc<Work>, part: u32) -> Result<RecordBatch> {
    let cancelled = Arc::new(AtomicBool::new(false));
    let _stop = StopOnDrop(Arc::clone(&cancelled));
    let done = tokio::task::spawn_blocking(move || work.run(part, &cancelled)).await;
    let receipt =
        done.map_err(|failed| DataFusionError::Execution(format!("part {part}: {}", panic_text(failed))))?;
    to_batch(
        &receipt.map_err(|error| {
            DataFusionError::IoError(std::io::Error::other(format!("part {part}: {error}")))
        })?,
    )
}

/// Returns the message of a panicked thread.
fn panic_text(failed: tokio::task::JoinError) -> String {
    let Ok(payload) = failed.try_into_panic() else { return "cancelled".to_owned() };
    let payload: &(dyn Any + Send) = &*payload;
    let text = payload
        .downcast_ref::<String>()
        .map(String::as_str)
        .or_else(|| payload.downcast_ref::<&str>().copied());
    format!("the builder panicked: {}", text.unwrap_or("no message"))
}

/// Returns the output schema: one column with receipts as JSON.
fn receipt_schema() -> SchemaRef {
    Arc::new(Schema::new(vec![Field::new("receipt", DataType::Utf8, false)]))
}

fn to_batch(receipt: &Receipt) -> Result<RecordBatch> {
    let json = serde_json::to_string(receipt).map_err(|error| DataFusionError::External(error.into()))?;
    Ok(RecordBatch::try_new(receipt_schema(), vec![Arc::new(StringArray::from(vec![json]))])?)
}

/// Parses the receipts from the returned batches.
///
/// # Errors
/// Fails if a value is not a receipt.
pub fn receipts(batches: &[RecordBatch]) -> Result<Vec<Receipt>> {
    let invalid = |error: serde_json::Error| DataFusionError::External(error.into());
    let texts = batches.iter().flat_map(|batch| batch.column(0).as_string::<i32>().iter());
    texts.map(|json| serde_json::from_str(json.unwrap_or_default()).map_err(invalid)).collect()
}
