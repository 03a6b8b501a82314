//! Lists what can be wrong with a task's name, folder or files. Every variant that concerns a file names it, and
//! its line where there is one (lines count from 1, as in editors).

use std::path::PathBuf;

use super::task::Task;
use crate::tasks::split::Split;

/// An error of this module. [`TaskError::exit_code`] is what a program should end with.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum TaskError {
    /// No task of this name.
    #[error("unknown task \"{name}\"; known are {}", Task::names())]
    UnknownTask {
        /// The name that was given.
        name: String,
    },

    /// The task has no such split, by its definition.
    #[error("task {task} has no {split} split")]
    NoSuchSplit {
        /// The task.
        task: Task,
        /// The split that was asked for.
        split: Split,
    },

    /// A task of answers or tags, where examples with a label are read.
    #[error("task {task} has no examples with one label each")]
    NotLabelled {
        /// The task.
        task: Task,
    },

    /// The folder has none of the files that may hold the split.
    #[error("{}: no {split} file of task {task} here (looked for {})", dir.display(), tried.join(", "))]
    MissingSplit {
        /// The data folder.
        dir: PathBuf,
        /// The task.
        task: Task,
        /// The split that was asked for.
        split: Split,
        /// Names looked for, relative to the folder.
        tried: Vec<String>,
    },

    /// The operating system refused to open or read the file.
    #[error("{}: cannot read: {source}", path.display())]
    Io {
        /// The file.
        path: PathBuf,
        /// Why.
        #[source]
        source: std::io::Error,
    },

    /// A folder, a device or a pipe where a file is needed.
    #[error("{}: not a regular file", path.display())]
    NotAFile {
        /// What is there instead.
        path: PathBuf,
    },

    /// A file larger than any task's: read, it would fill the memory.
    #[error("{}: larger than {limit} bytes; is this the right file?", path.display())]
    FileTooLarge {
        /// The file.
        path: PathBuf,
        /// The limit in bytes.
        limit: u64,
    },

    /// The file holds no example: no bytes at all, or a header alone.
    #[error("{}: no examples in this file", path.display())]
    NoExamples {
        /// The file.
        path: PathBuf,
    },

    /// A line longer than any example can be: most likely not a text file.
    #[error("{}:{line}: line longer than {limit} bytes; is this the right file?", path.display())]
    LineTooLong {
        /// The file.
        path: PathBuf,
        /// The line.
        line: usize,
        /// The limit in bytes.
        limit: usize,
    },

    /// Bytes that are not UTF-8.
    #[error("{}:{line}: invalid UTF-8 at byte {byte} of the line", path.display())]
    InvalidUtf8 {
        /// The file.
        path: PathBuf,
        /// The line.
        line: usize,
        /// First bad byte within the line, from 0.
        byte: usize,
    },

    /// The header lacks a column that the task needs.
    #[error("{}:1: no column \"{column}\" in the header (columns here: {})", path.display(), header.join(", "))]
    MissingColumn {
        /// The file.
        path: PathBuf,
        /// The column's name.
        column: &'static str,
        /// The columns that are there.
        header: Vec<String>,
    },

    /// A row has more or fewer columns than the header, or than any known layout of the task.
    #[error("{}:{line}: {found} tab-separated columns, expected {expected}", path.display())]
    WrongColumns {
        /// The file.
        path: PathBuf,
        /// The line.
        line: usize,
        /// Columns in this row.
        found: usize,
        /// What was expected, in words.
        expected: String,
    },

    /// A row of a table has more or fewer fields than the header.
    #[error("{}:{line}: {found} {separator}-separated fields, the header has {columns}", path.display())]
    WrongFields {
        /// The file.
        path: PathBuf,
        /// The line.
        line: usize,
        /// Fields in this row.
        found: usize,
        /// What stands between them: `comma`, `tab`.
        separator: &'static str,
        /// Fields of the header.
        columns: usize,
    },

    /// A quote in a CSV file where RFC 4180 has none.
    #[error("{}:{line}: a quote inside a field; put the whole field in quotes and double those in it", path.display())]
    StrayQuote {
        /// The file.
        path: PathBuf,
        /// The line.
        line: usize,
    },

    /// A quoted field of a CSV file does not end.
    #[error("{}:{line}: the quote that begins a field here is never closed", path.display())]
    OpenQuote {
        /// The file.
        path: PathBuf,
        /// The line.
        line: usize,
    },

    /// The columns of a table are not two or three different names.
    #[error("--columns: name TEXT,LABEL or TEXT,TEXT_B,LABEL, all different (given: {})", columns.join(","))]
    TableColumns {
        /// The names that were given.
        columns: Vec<String>,
    },

    /// The name of a table's file says no form.
    #[error("{}: a table's name ends in .csv, .tsv, .jsonl, .ndjson or .parquet", path.display())]
    UnknownForm {
        /// The file.
        path: PathBuf,
    },

    /// A folder has one split in several forms.
    #[error("{}: several {split} files ({}); name one: --{split}-file", dir.display(), found.join(", "))]
    SeveralTables {
        /// The data folder.
        dir: PathBuf,
        /// The split.
        split: Split,
        /// The files that are there.
        found: Vec<String>,
    },

    /// The labels of a training file are no classes.
    #[error(
        "{}: {found} different labels in column \"{column}\"; a classification has 2 to {most} (--labels names them, \
         --regression takes numbers)",
        path.display()
    )]
    Classes {
        /// The file.
        path: PathBuf,
        /// The column.
        column: &'static str,
        /// How many labels there are.
        found: usize,
        /// How many there may be.
        most: usize,
    },

    /// A Parquet file was at fault.
    #[error(transparent)]
    Parquet(#[from] bert_data::Error),

    /// A line of minBERT's format without its separator.
    #[error("{}:{line}: expected \"LABEL ||| TEXT\"", path.display())]
    MissingSeparator {
        /// The file.
        path: PathBuf,
        /// The line.
        line: usize,
    },

    /// A line where a text should be.
    #[error("{}:{line}: the line is empty, expected a text", path.display())]
    EmptyText {
        /// The file.
        path: PathBuf,
        /// The line.
        line: usize,
    },

    /// A line of JSON Lines that is no object.
    #[error("{}:{line}: not a JSON object: {reason}", path.display())]
    NotJson {
        /// The file.
        path: PathBuf,
        /// The line.
        line: usize,
        /// What the parser said.
        reason: String,
    },

    /// A value of another kind than its column has.
    #[error("{}:{line}: \"{column}\" is {found}, expected {expected}", path.display())]
    WrongValue {
        /// The file.
        path: PathBuf,
        /// The line; of a Parquet file the row, from 1.
        line: usize,
        /// The column or key.
        column: String,
        /// What is there: `missing`, `a number`.
        found: &'static str,
        /// What should be there.
        expected: &'static str,
    },

    /// A label that the task does not have.
    #[error("{}:{line}: unknown label \"{label}\"; the labels of task {task} are {}", path.display(), known.join(", "))]
    UnknownLabel {
        /// The file.
        path: PathBuf,
        /// The line.
        line: usize,
        /// The task.
        task: Task,
        /// The label as it stands in the file.
        label: String,
        /// The labels of the task.
        known: &'static [&'static str],
    },

    /// A regression target that is not a number within the task's range.
    #[error("{}:{line}: \"{label}\" is not a score of task {task} (a number from {min} to {max})", path.display())]
    BadScore {
        /// The file.
        path: PathBuf,
        /// The line.
        line: usize,
        /// The task.
        task: Task,
        /// The score as it stands in the file.
        label: String,
        /// Lowest score.
        min: f32,
        /// Highest score.
        max: f32,
    },

    /// A JSON file of another form.
    #[error("{}:{}:{}: {source}", path.display(), source.line(), source.column())]
    BadJson {
        /// The file.
        path: PathBuf,
        /// What the parser met.
        #[source]
        source: serde_json::Error,
    },

    /// A tag that no word of the training file has.
    #[error("{}:{line}: the tag {tag:?} is not among those of the training file: {}", path.display(), known.join(", "))]
    UnknownTag {
        /// The file.
        path: PathBuf,
        /// The line.
        line: usize,
        /// The tag.
        tag: String,
        /// The tags of the training file.
        known: Vec<String>,
    },

    /// A question without an answer in a task where every question has one.
    #[error("{}: question {id} has no answer in its text: that is version 2.0, --task squad2", path.display())]
    Unanswerable {
        /// The file.
        path: PathBuf,
        /// The question's id.
        id: String,
    },

    /// An answer that does not stand where the file says.
    #[error(
        "{}: question {id}: the text has {found:?} at character {answer_start}, not the answer {answer:?}",
        path.display()
    )]
    AnswerNotInText {
        /// The file.
        path: PathBuf,
        /// The question's id.
        id: String,
        /// The answer.
        answer: String,
        /// Where it should begin, in characters.
        answer_start: usize,
        /// What is there.
        found: String,
    },

    /// A word without a tag.
    #[error("{}:{line}: the word {word:?} has no tag in a last column", path.display())]
    MissingTag {
        /// The file.
        path: PathBuf,
        /// The line.
        line: usize,
        /// The word.
        word: String,
    },

    /// A question without an answer in a set in which each has one.
    #[error("{}: question {id} has no answer (a set of version 2.0 says \"is_impossible\": true)", path.display())]
    NoAnswer {
        /// The file.
        path: PathBuf,
        /// The question's id.
        id: String,
    },
}

impl TaskError {
    /// The exit code for a program that ends with this error: 2 for wrong usage, 3 for bad data, 1
    /// when a file is missing or cannot be read.
    pub fn exit_code(&self) -> u8 {
        match self {
            TaskError::UnknownTask { .. }
            | TaskError::NoSuchSplit { .. }
            | TaskError::NotLabelled { .. }
            | TaskError::TableColumns { .. }
            | TaskError::UnknownForm { .. }
            | TaskError::SeveralTables { .. } => 2,
            TaskError::Parquet(error) => error.exit_code(),
            TaskError::MissingSplit { .. } | TaskError::Io { .. } => 1,
            TaskError::NotAFile { .. }
            | TaskError::FileTooLarge { .. }
            | TaskError::NoExamples { .. }
            | TaskError::LineTooLong { .. }
            | TaskError::InvalidUtf8 { .. }
            | TaskError::MissingColumn { .. }
            | TaskError::WrongColumns { .. }
            | TaskError::WrongFields { .. }
            | TaskError::StrayQuote { .. }
            | TaskError::OpenQuote { .. }
            | TaskError::Classes { .. }
            | TaskError::MissingSeparator { .. }
            | TaskError::EmptyText { .. }
            | TaskError::NotJson { .. }
            | TaskError::WrongValue { .. }
            | TaskError::UnknownLabel { .. }
            | TaskError::BadScore { .. }
            | TaskError::BadJson { .. }
            | TaskError::AnswerNotInText { .. }
            | TaskError::MissingTag { .. }
            | TaskError::UnknownTag { .. }
            | TaskError::Unanswerable { .. }
            | TaskError::NoAnswer { .. } => 3,
        }
    }
}
