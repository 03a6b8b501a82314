//! Defines the errors for task names, folders and files. Errors in a file are a [`TaskProblem`] with a location; lines
//! count from 1, as in editors.

use bert_storage::{Failure, Located, did_you_mean};

use crate::task::Task;
use crate::task::example::Split;

/// An error of this module. [`TaskError::exit_code`] is the matching exit code of a program.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum TaskError {
    /// No task has the given name.
    #[error("unknown task \"{0}\"; the tasks are {names}{similar}", names = Task::names(),
        similar = did_you_mean(.0, Task::names().split(", ")))]
    UnknownTask(String),

    /// The task has no such split.
    #[error("task {task} has no {split} split")]
    NoSuchSplit {
        /// The task.
        task: Task,
        /// The requested split.
        split: Split,
    },

    /// Labelled examples were requested for a task of answers or tags.
    #[error("task {0} has no examples with one label each")]
    NotLabelled(Task),

    /// A table needs two or three different column names.
    #[error(
        "--columns: give TEXT,LABEL or TEXT,TEXT_B,LABEL, all different (given: {given})",
        given = .0.join(",")
    )]
    TableColumns(Vec<String>),

    /// An error in a file or folder.
    #[error(transparent)]
    File(#[from] Located<TaskProblem>),

    /// An error in the lines or rows of a file.
    #[error(transparent)]
    Rows(#[from] Failure),
}

/// An error in a task's file or folder.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum TaskProblem {
    /// The folder has no file for the split.
    #[error("no {split} file of task {task} here (looked for {})", tried.join(", "))]
    MissingSplit {
        /// The task.
        task: Task,
        /// The requested split.
        split: Split,
        /// File names that were tried, relative to the folder.
        tried: Vec<String>,
    },

    /// The folder has a split in several formats.
    #[error("several {split} files ({}); choose one with --{split}-file", found.join(", "))]
    SeveralTables {
        /// The split.
        split: Split,
        /// The files found.
        found: Vec<String>,
    },

    /// The operating system refused to open or read the file.
    #[error("cannot read: {0}")]
    Io(#[source] std::io::Error),

    /// The path is a folder, a device or a pipe instead of a file.
    #[error("this is not a regular file")]
    NotAFile,

    /// The path is a file instead of the folder with the files of a task.
    #[error("this is a file, but --data is the folder with the files of task {task} ({})", tried.join(", "))]
    NotAFolder {
        /// The task.
        task: Task,
        /// File names of the training set.
        tried: Vec<String>,
    },

    /// The file exceeds the size limit in bytes; reading it could fill the memory.
    #[error("larger than {0} bytes; is this the right file?")]
    FileTooLarge(u64),

    /// The file has no examples: it is empty or has a header only.
    #[error("this file has no examples")]
    NoExamples,

    /// All examples of the file were left out.
    #[error(
        "all {0} examples of this file are left out: they have no label, or an answer that is not at its start"
    )]
    AllLeftOut(usize),

    /// The header lacks a required column.
    #[error(
        "no column \"{column}\" in the header (columns here: {}{})",
        header.join(", "),
        did_you_mean(column, header.iter().map(String::as_str).filter(|name| !differ_in_number(column, name)))
    )]
    MissingColumn {
        /// The column's name.
        column: String,
        /// The columns in the header.
        header: Vec<String>,
    },

    /// The header repeats the name of a required column.
    #[error("two columns are named \"{0}\"; rename one of them")]
    DuplicateColumn(String),

    /// A line of tagged words has a different number of columns than the first one.
    #[error("{found} columns, but the first word of the file has {expected}")]
    RaggedColumns {
        /// Columns of this line.
        found: usize,
        /// Columns of the first word.
        expected: usize,
    },

    /// The words are in the second column.
    #[error(
        "the first column numbers the words, as in CoNLL-U; expected the word in the first column and its tag in the \
         last"
    )]
    NumberedWords,

    /// The tag belongs to no supported scheme, so it defines no entities.
    #[error(
        "the tag {0:?} is in no known scheme: a tag is O, or a letter, a hyphen and a type, as in B-PER; the letters \
         are B, I, E and S (IOB, IOE, IOBES), L and U (BILOU), M and W (BMEWO)"
    )]
    UnknownScheme(String),

    /// A row has a different number of columns than the header or any known layout of the task.
    #[error("{found} {separator}-separated columns, expected {expected}")]
    WrongColumns {
        /// Columns in this row.
        found: usize,
        /// The column separator: `comma`, `tab`.
        separator: &'static str,
        /// The expected number of columns, in words.
        expected: String,
    },

    /// The file extension does not match a supported table format.
    #[error("the name of a table must end in .csv, .tsv, .jsonl, .ndjson, .json or .parquet")]
    UnknownTableFormat,

    /// The labels of a training file cannot be classes.
    #[error(
        "{found} different labels in column \"{column}\"; a classification has 2 to {max} (name them with --labels, \
         or use --regression for numbers)"
    )]
    Classes {
        /// The column.
        column: String,
        /// Number of different labels.
        found: usize,
        /// Maximum number of classes.
        max: usize,
    },

    /// A line in minBERT's format lacks the separator.
    #[error("expected \"LABEL ||| TEXT\"")]
    MissingSeparator,

    /// Rows in memory have no row.
    #[error("there are no rows")]
    NoRows,

    /// Some rows in memory have a second text and others have none.
    #[error("either all rows have a second text, or none; this row differs from the first one")]
    MixedPairs,

    /// A line has no text.
    #[error("the line is empty, but must have a text")]
    EmptyText,

    /// A file of questions has an unexpected structure.
    #[error(
        "{0}; expected the form of SQuAD: {{\"data\": [{{\"paragraphs\": [{{\"context\": TEXT, \"qas\": [{{\"id\": ID, \"question\": \
         TEXT, \"answers\": [{{\"text\": TEXT, \"answer_start\": NUMBER}}]}}]}}]}}]}}"
    )]
    BadJson(#[source] serde_json::Error),

    /// Two questions have the same id.
    #[error("two questions have the id {0}: answers are written by id, so one of them would be lost")]
    EqualIds(String),

    /// An example has no label, or one by which other programs mark a missing label.
    #[error(
        "{}; --skip-unlabelled leaves such examples out{}",
        if label.is_empty() { "there is no label here".to_string() } else {
            format!("the label \"{label}\" marks an example without a label in other programs")
        },
        if *may_be_class && !label.is_empty() { ", and --labels makes it a class" } else { "" }
    )]
    MissingLabel {
        /// The label; empty if there is none.
        label: String,
        /// Whether the user can name the classes.
        may_be_class: bool,
    },

    /// A value has the wrong type for its column.
    #[error("\"{column}\" is {found}, expected {expected}")]
    WrongValue {
        /// The column or key.
        column: String,
        /// Description of the value: `missing`, `a number`.
        found: &'static str,
        /// The expected type.
        expected: &'static str,
    },

    /// The task does not have this label.
    #[error("unknown label \"{label}\"; the labels of task {task} are {}", known.join(", "))]
    UnknownLabel {
        /// The task.
        task: Task,
        /// The label as written in the file.
        label: String,
        /// The labels of the task.
        known: Vec<String>,
    },

    /// A number is too large for a score.
    #[error("\"{0}\" is too large for a score (at most {max:e})", max = f32::MAX)]
    LargeScore(String),

    /// A regression target is not a number within the task's range.
    #[error("\"{label}\" is not a score of task {task} (a number from {min} to {max})")]
    BadScore {
        /// The task.
        task: Task,
        /// The score as written in the file.
        label: String,
        /// Minimum score.
        min: f32,
        /// Maximum score.
        max: f32,
    },

    /// A word has no tag.
    #[error("the word {0:?} has no tag in the last column; --skip-unlabelled leaves such sentences out")]
    MissingTag(String),

    /// The tag does not occur in the training file.
    #[error("the tag {tag:?} is not in the training file, which has {}", known.join(", "))]
    UnknownTag {
        /// The tag.
        tag: String,
        /// The tags of the training file.
        known: Vec<String>,
    },

    /// A question has no answer in a task where every question has one; contains the question's id.
    #[error("question {0} has no answer in its text: this is SQuAD 2.0, use --task squad2")]
    Unanswerable(String),

    /// A question has no answer in a data set where every question has one; contains the question's id.
    #[error(
        "question {0} has no answer (SQuAD 2.0 marks such questions with \"is_impossible\": true); --skip-unlabelled leaves \
         such questions out"
    )]
    NoAnswer(String),

    /// The text at the given position differs from the answer.
    #[error(
        "question {id}: the text has {found:?} at character {answer_start}, not the answer {answer:?}; --skip-misplaced-answers leaves such questions out"
    )]
    AnswerNotInText {
        /// The question's id.
        id: String,
        /// The answer.
        answer: String,
        /// Given position of the answer, in characters.
        answer_start: usize,
        /// The text at that position.
        found: String,
    },
}

impl TaskProblem {
    /// Returns whether an example lacks its label, tag or answer.
    pub fn is_missing_label(&self) -> bool {
        matches!(self, Self::MissingLabel { .. } | Self::MissingTag(_) | Self::NoAnswer(_))
    }
}

impl TaskError {
    /// Returns the exit code for a program that ends with this error: 2 for wrong usage, 3 for bad data, 1 when a file
    /// is missing or cannot be read.
    pub fn exit_code(&self) -> u8 {
        match self {
            Self::File(error) => match error.problem {
                TaskProblem::MissingSplit { .. } | TaskProblem::Io(_) => 1,
                TaskProblem::UnknownTableFormat | TaskProblem::SeveralTables { .. } => 2,
                _ => 3,
            },
            Self::Rows(error) => error.exit_code(),
            _ => 2,
        }
    }
}

/// Returns a description of the type of a JSON value, for [`TaskProblem::WrongValue`].
pub fn json_type(value: &serde_json::Value) -> &'static str {
    use serde_json::Value;
    match value {
        Value::Null => "null",
        Value::Bool(_) => "a truth value",
        Value::Number(_) => "a number",
        Value::String(_) => "a text",
        Value::Array(_) => "a list",
        Value::Object(_) => "an object",
    }
}

/// Returns whether two names differ in their last number only, as `sentence1` and `sentence2`: one is not meant for the other.
fn differ_in_number(one: &str, other: &str) -> bool {
    let stem = |name: &str| name.trim_end_matches(|c: char| c.is_ascii_digit()).to_owned();
    stem(one) != one && stem(one) == stem(other)
}
