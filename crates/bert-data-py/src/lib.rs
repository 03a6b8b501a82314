//! The Python module `bert_data`: the parts of a build as plain functions, for engines that run Python tasks.
//!
//! `plan` lists the parts, `run` runs one, `run_batch` runs the parts of an Arrow batch, and `commit` combines them
//! into a data set. The functions are stateless, so any scheduler may run them anywhere, repeatedly. They release the
//! GIL while they work.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use arrow::array::{ArrayRef, AsArray, Float64Array, Int64Array, RecordBatch, StringArray, UInt32Array};
use arrow::datatypes::{DataType, UInt32Type};
use arrow::error::ArrowError;
use arrow::pyarrow::PyArrowType;
use bert_cluster::work::{Receipt, Stage, Work};
use bert_data_rs::{BuildConfig, merge_with_scratch};
use pyo3::create_exception;
use pyo3::exceptions::{PyException, PyOSError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::PyDict;
use pythonize::{depythonize, pythonize};

create_exception!(
    bert_data,
    BuildError,
    PyException,
    "The builder refused: options, text or files are wrong. Its `exit_code` is the programs'."
);

fn invalid(error: impl std::fmt::Display) -> PyErr {
    PyValueError::new_err(error.to_string())
}

fn refused(py: Python<'_>, message: String, exit_code: u8) -> PyErr {
    let error = BuildError::new_err(message);
    match error.value(py).setattr("exit_code", exit_code) {
        Ok(()) => error,
        Err(failed) => failed,
    }
}

/// Returns the tasks of one stage ("tokenize", then "shards"): a list of dicts with `part` (from 1) and `work` (JSON).
///
/// The keyword arguments are the options of make-pretrain-data: input, vocab, output, dupe_factor, ... All tasks of the
/// first stage must finish before the second stage begins.
#[pyfunction]
#[pyo3(signature = (stage, parts, **options))]
fn plan(
    py: Python<'_>,
    stage: &str,
    parts: u32,
    options: Option<&Bound<'_, PyDict>>,
) -> PyResult<Vec<Py<PyAny>>> {
    let stage: Stage = serde_json::from_value(stage.into()).map_err(invalid)?;
    if parts < 2 {
        return Err(invalid("parts must be at least 2: a build in one part needs no scheduler"));
    }
    let config: BuildConfig = match options {
        Some(options) => depythonize(options).map_err(invalid)?,
        None => BuildConfig::default(),
    };
    config.check().map_err(|error| refused(py, error.to_string(), error.exit_code()))?;
    let work = serde_json::to_string(&Work::new(stage, &config, parts)).map_err(invalid)?;
    (1..=parts)
        .map(|part| {
            let task = PyDict::new(py);
            task.set_item("part", part)?;
            task.set_item("work", &work)?;
            Ok(task.into_any().unbind())
        })
        .collect()
}

/// Runs one part. An `OSError` is transient and can be retried; a failure in the receipt is permanent.
fn done(work: &str, part: u32) -> PyResult<Receipt> {
    let work = Work::parse(work.as_bytes()).map_err(invalid)?;
    work.run(part, &AtomicBool::new(false)).map_err(|error| PyOSError::new_err(error.to_string()))
}

/// Runs one task and returns its receipt: a dict with `part`, `count` (tokens, then rows) and `seconds`.
///
/// Raises OSError if another attempt may succeed, and BuildError if not.
#[pyfunction]
fn run(py: Python<'_>, task: &Bound<'_, PyDict>) -> PyResult<Py<PyAny>> {
    let field = |name| task.get_item(name)?.ok_or_else(|| invalid(format!("a task has {name:?}")));
    let (part, work): (u32, String) = (field("part")?.extract()?, field("work")?.extract()?);
    let receipt = py.detach(|| done(&work, part))?;
    if let Some((message, exit_code)) = &receipt.failure {
        return Err(refused(py, format!("part {part}: {message}"), *exit_code));
    }
    Ok(pythonize(py, &receipt)?.unbind())
}

/// Runs the tasks of an Arrow batch (columns `part` and `work`) and returns their receipts as a batch (`part`, `count`,
/// `seconds`).
#[pyfunction]
fn run_batch(py: Python<'_>, tasks: PyArrowType<RecordBatch>) -> PyResult<PyArrowType<RecordBatch>> {
    let tasks = tasks.0;
    let column = |name, kind: DataType| -> Result<_, ArrowError> {
        let column = tasks.column_by_name(name);
        let column =
            column.ok_or_else(|| ArrowError::SchemaError(format!("a task has the column {name:?}")))?;
        arrow::compute::cast(column, &kind)
    };
    let parts = column("part", DataType::UInt32).map_err(invalid)?;
    let works = column("work", DataType::Utf8).map_err(invalid)?;
    let (parts, works): (&UInt32Array, &StringArray) =
        (parts.as_primitive::<UInt32Type>(), works.as_string());
    let receipts = py.detach(|| {
        let each = parts.values().iter().zip(works.iter());
        each.map(|(&part, work)| done(work.unwrap_or_default(), part)).collect::<PyResult<Vec<_>>>()
    })?;
    if let Some((part, (message, exit_code))) =
        receipts.iter().find_map(|receipt| Some((receipt.part, receipt.failure.clone()?)))
    {
        return Err(refused(py, format!("part {part}: {message}"), exit_code));
    }
    // Spark does not have unsigned integers, so the columns are signed.
    let parts = Int64Array::from_iter_values(receipts.iter().map(|receipt| i64::from(receipt.part)));
    let counts = Int64Array::from_iter_values(receipts.iter().map(|receipt| receipt.count as i64));
    let seconds = Float64Array::from_iter_values(receipts.iter().map(|receipt| receipt.seconds));
    let columns: [(_, ArrayRef); 3] =
        [("part", Arc::new(parts)), ("count", Arc::new(counts)), ("seconds", Arc::new(seconds))];
    let batch = RecordBatch::try_from_iter_with_nullable(columns.map(|(name, column)| (name, column, false)));
    Ok(PyArrowType(batch.map_err(invalid)?))
}

/// Checks that all parts exist and nothing was lost or duplicated, commits the data set and returns its manifest.
/// `scratch` is the `scratch` option of the plan, if any.
#[pyfunction]
#[pyo3(signature = (output, scratch=None))]
fn commit(py: Python<'_>, output: PathBuf, scratch: Option<PathBuf>) -> PyResult<Py<PyAny>> {
    let manifest = py
        .detach(|| merge_with_scratch(&output, scratch.as_deref(), &mut |_| {}))
        .map_err(|error| refused(py, error.to_string(), error.exit_code()))?;
    Ok(pythonize(py, &manifest)?.unbind())
}

/// BERT pre-training data from text, in parts that any engine may run.
#[pymodule]
fn bert_data(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add("__version__", env!("CARGO_PKG_VERSION"))?;
    module.add("BuildError", module.py().get_type::<BuildError>())?;
    module.add_function(wrap_pyfunction!(plan, module)?)?;
    module.add_function(wrap_pyfunction!(run, module)?)?;
    module.add_function(wrap_pyfunction!(run_batch, module)?)?;
    module.add_function(wrap_pyfunction!(commit, module)?)
}
