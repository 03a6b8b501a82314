//! The operator: numbers of parts come in, their receipts go out.
//!
//! It is unary. Ballista gives a task some partitions of the leaf below, and it knows how to do that for its own leaves
//! only. It also numbers the partitions of a task anew, so which part is meant stands in a row, never in the number of a
//! partition.

use std::any::Any;
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use datafusion::arrow::array::{
    Array, ArrayRef, AsArray, Float64Array, RecordBatch, StringArray, UInt8Array, UInt32Array, UInt64Array,
};
use datafusion::arrow::datatypes::{
    DataType, Field, Float64Type, Schema, SchemaRef, UInt8Type, UInt32Type, UInt64Type,
};
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

/// Does the parts whose numbers come in.
#[derive(Debug)]
pub struct PartsExec {
    work: Arc<Work>,
    input: Arc<dyn ExecutionPlan>,
    properties: Arc<PlanProperties>,
}

/// The plan of a stage: its parts, dealt to so many partitions, which an engine may run at the same time.
///
/// # Errors
/// None in practice: those of DataFusion.
pub fn plan(work: Work, partitions: u32) -> Result<Arc<dyn ExecutionPlan>> {
    let schema = Arc::new(Schema::new(vec![Field::new("part", DataType::UInt32, false)]));
    let partition = |first| {
        let parts = UInt32Array::from_iter_values((first..=work.parts).step_by(partitions as usize));
        Ok(vec![RecordBatch::try_new(Arc::clone(&schema), vec![Arc::new(parts)])?])
    };
    let tasks = (1..=partitions.min(work.parts)).map(partition).collect::<Result<Vec<_>>>()?;
    let leaf = DataSourceExec::new(Arc::new(MemorySourceConfig::try_new(&tasks, Arc::clone(&schema), None)?));
    Ok(Arc::new(PartsExec::new(work, Arc::new(leaf))))
}

impl PartsExec {
    /// The operator above what names the parts.
    #[must_use]
    pub fn new(work: Work, input: Arc<dyn ExecutionPlan>) -> Self {
        Self::above(Arc::new(work), input)
    }

    fn above(work: Arc<Work>, input: Arc<dyn ExecutionPlan>) -> Self {
        let partitions = Partitioning::UnknownPartitioning(input.output_partitioning().partition_count());
        let properties = PlanProperties::new(
            EquivalenceProperties::new(receipt_schema()),
            partitions,
            EmissionType::Final,
            Boundedness::Bounded,
        );
        Self { work, input, properties: Arc::new(properties) }
    }

    /// What it does with a part.
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

    /// A partition below is a task: dealing its rows anew would not help.
    fn benefits_from_input_partitioning(&self) -> Vec<bool> {
        vec![false]
    }

    fn with_new_children(
        self: Arc<Self>,
        children: Vec<Arc<dyn ExecutionPlan>>,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        let [input] = <[_; 1]>::try_from(children)
            .map_err(|given| DataFusionError::Internal(format!("one input, not {}", given.len())))?;
        Ok(Arc::new(Self::above(Arc::clone(&self.work), input)))
    }

    fn execute(&self, partition: usize, context: Arc<TaskContext>) -> Result<SendableRecordBatchStream> {
        let (work, input) = (Arc::clone(&self.work), self.input.execute(partition, context)?);
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

/// Stops the builder's thread when the future that waits for it is dropped.
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

/// What a thread said when it panicked.
fn panic_text(failed: tokio::task::JoinError) -> String {
    let Ok(said) = failed.try_into_panic() else { return "cancelled".to_owned() };
    let said: &(dyn Any + Send) = &*said;
    let text =
        said.downcast_ref::<String>().map(String::as_str).or_else(|| said.downcast_ref::<&str>().copied());
    format!("the builder panicked: {}", text.unwrap_or("no message"))
}

fn receipt_schema() -> SchemaRef {
    Arc::new(Schema::new(vec![
        Field::new("part", DataType::UInt32, false),
        Field::new("count", DataType::UInt64, false),
        Field::new("seconds", DataType::Float64, false),
        Field::new("message", DataType::Utf8, true),
        Field::new("exit_code", DataType::UInt8, true),
    ]))
}

fn to_batch(receipt: &Receipt) -> Result<RecordBatch> {
    let (message, exit_code) = receipt.failure.clone().unzip();
    let columns: Vec<ArrayRef> = vec![
        Arc::new(UInt32Array::from(vec![receipt.part])),
        Arc::new(UInt64Array::from(vec![receipt.count])),
        Arc::new(Float64Array::from(vec![receipt.seconds])),
        Arc::new(StringArray::from(vec![message])),
        Arc::new(UInt8Array::from(vec![exit_code])),
    ];
    Ok(RecordBatch::try_new(receipt_schema(), columns)?)
}

/// The receipts in what came back.
#[must_use]
pub fn receipts(batches: &[RecordBatch]) -> Vec<Receipt> {
    let of_batch = |batch: &RecordBatch| {
        let column = |at: usize| Arc::clone(batch.column(at));
        let [parts, counts, seconds, messages, exit_codes] = [0, 1, 2, 3, 4].map(column);
        (0..batch.num_rows()).map(move |row| {
            let exit_codes = exit_codes.as_primitive::<UInt8Type>();
            let failure = || (messages.as_string::<i32>().value(row).to_owned(), exit_codes.value(row));
            Receipt {
                part: parts.as_primitive::<UInt32Type>().value(row),
                count: counts.as_primitive::<UInt64Type>().value(row),
                seconds: seconds.as_primitive::<Float64Type>().value(row),
                failure: exit_codes.is_valid(row).then(failure),
            }
        })
    };
    batches.iter().flat_map(of_batch).collect()
}
