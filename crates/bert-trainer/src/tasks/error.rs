//! Lists what can be wrong with a task's name, folder or files. What concerns a file is a [`TaskProblem`] with its
//! place; lines count from 1, as in editors.

use bert_storage::Located;

use super::example::Split;
use super::task::Task;

/// An error of this module. [`TaskError::exit_code`] is what a program should end with.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum TaskError {
    /// No task of the name that was given.
    #[error("unknown task \"{0}\"; known are {names}", names = Task::names())]
    UnknownTask(String),

    /// The task has no such split, by its definition.
    #[error("task {task} has no {split} split")]
    NoSuchSplit {
        /// The task.
        task: Task,
        /// The split that was asked for.
        split: Split,
    },

    /// A task of answers or tags, where examples with a label are read.
    #[error("task {0} has no examples with one label each")]
    NotLabelled(Task),

    /// The names that were given to the columns of a table are not two or three different ones.
    #[error("--columns: name TEXT,LABEL or TEXT,TEXT_B,LABEL, all different (given: {given})", given = .0.join(","))]
    TableColumns(Vec<String>),

    /// A file or folder was at fault.
    #[error(transparent)]
    File(#[from] Located<TaskProblem>),

    /// A Parquet file was at fault.
    #[error(transparent)]
    Parquet(#[from] bert_data::Error),
}

/// What is wrong with a task's file or folder.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum TaskProblem {
    /// The folder has none of the files that may hold the split.
    #[error("no {split} file of task {task} here (looked for {})", tried.join(", "))]
    MissingSplit {
        /// The task.
        task: Task,
        /// The split that was asked for.
        split: Split,
        /// Names looked for, relative to the folder.
        tried: Vec<String>,
    },

    /// A folder has one split in several forms.
    #[error("several {split} files ({}); name one: --{split}-file", found.join(", "))]
    SeveralTables {
        /// The split.
        split: Split,
        /// The files that are there.
        found: Vec<String>,
    },

    /// The operating system refused to open or read the file.
    #[error("cannot read: {0}")]
    Io(#[source] std::io::Error),

    /// A folder, a device or a pipe where a file is needed.
    #[error("not a regular file")]
    NotAFile,

    /// A file larger than any task's, with the limit in bytes: read, it would fill the memory.
    #[error("larger than {0} bytes; is this the right file?")]
    FileTooLarge(u64),

    /// The file holds no example: no bytes at all, or a header alone.
    #[error("no examples in this file")]
    NoExamples,

    /// A line longer than any example can be, with the limit in bytes: most likely not a text file.
    #[error("line longer than {0} bytes; is this the right file?")]
    LineTooLong(usize),

    /// Bytes that are not UTF-8; the first bad byte within the line, from 0.
    #[error("invalid UTF-8 at byte {0} of the line")]
    InvalidUtf8(usize),

    /// The header lacks a column that the task needs.
    #[error("no column \"{column}\" in the header (columns here: {})", header.join(", "))]
    MissingColumn {
        /// The column's name.
        column: String,
        /// The columns that are there.
        header: Vec<String>,
    },

    /// A header that has the name of a needed column twice.
    #[error("two columns are called \"{0}\"; rename one of them")]
    ColumnTwice(String),

    /// A line of tagged words with another number of columns than the first one.
    #[error("{found} columns, the first word of the file has {expected}")]
    RaggedColumns {
        /// Columns of this line.
        found: usize,
        /// Columns of the first word.
        expected: usize,
    },

    /// A file whose words are in the second column.
    #[error(
        "the first column counts words, as in CoNLL-U; here the word is in the first column and its tag in the last"
    )]
    CountedWords,

    /// A tag of a scheme that is not known, so that no entities can be found.
    #[error(
        "the tag {0:?} is of no known scheme: O, or a letter, a hyphen and a kind, as in B-PER; the letters are B, I, E \
         and S (IOB, IOE, IOBES), L and U (BILOU), M and W (BMEWO)"
    )]
    UnknownScheme(String),

    /// A row has more or fewer columns than the header, or than any known layout of the task.
    #[error("{found} {separator}-separated columns, expected {expected}")]
    WrongColumns {
        /// Columns in this row.
        found: usize,
        /// What stands between them: `comma`, `tab`.
        separator: &'static str,
        /// What was expected, in words.
        expected: String,
    },

    /// A quote in a CSV file where RFC 4180 has none.
    #[error("a quote inside a field; put the whole field in quotes and double those in it")]
    StrayQuote,

    /// A quoted field of a CSV file does not end.
    #[error("the quote that begins a field here is never closed")]
    OpenQuote,

    /// The name of a table's file says no form.
    #[error("a table's name ends in .csv, .tsv, .jsonl, .ndjson or .parquet")]
    UnknownForm,

    /// The labels of a training file are no classes.
    #[error(
        "{found} different labels in column \"{column}\"; a classification has 2 to {most} (--labels names them, \
         --regression takes numbers)"
    )]
    Classes {
        /// The column.
        column: &'static str,
        /// How many labels there are.
        found: usize,
        /// How many there may be.
        most: usize,
    },

    /// A line of minBERT's format without its separator.
    #[error("expected \"LABEL ||| TEXT\"")]
    MissingSeparator,

    /// A line where a text should be.
    #[error("the line is empty, expected a text")]
    EmptyText,

    /// A line of JSON Lines that is no object.
    #[error("not a JSON object: {0}")]
    NotJson(#[from] serde_json::Error),

    /// A JSON file of another form.
    #[error("{0}")]
    BadJson(#[source] serde_json::Error),

    /// A value of another kind than its column has.
    #[error("\"{column}\" is {found}, expected {expected}")]
    WrongValue {
        /// The column or key.
        column: String,
        /// What is there: `missing`, `a number`.
        found: &'static str,
        /// What should be there.
        expected: &'static str,
    },

    /// A label that the task does not have.
    #[error("unknown label \"{label}\"; the labels of task {task} are {}", known.join(", "))]
    UnknownLabel {
        /// The task.
        task: Task,
        /// The label as it stands in the file.
        label: String,
        /// The labels of the task.
        known: &'static [&'static str],
    },

    /// A regression target that is not a number within the task's range.
    #[error("\"{label}\" is not a score of task {task} (a number from {min} to {max})")]
    BadScore {
        /// The task.
        task: Task,
        /// The score as it stands in the file.
        label: String,
        /// Lowest score.
        min: f32,
        /// Highest score.
        max: f32,
    },

    /// A word without a tag.
    #[error("the word {0:?} has no tag in a last column")]
    MissingTag(String),

    /// A tag that no word of the training file has.
    #[error("the tag {tag:?} is not among those of the training file: {}", known.join(", "))]
    UnknownTag {
        /// The tag.
        tag: String,
        /// The tags of the training file.
        known: Vec<String>,
    },

    /// A question without an answer in a task where every question has one; the question's id.
    #[error("question {0} has no answer in its text: that is version 2.0, --task squad2")]
    Unanswerable(String),

    /// A question without an answer in a set in which each has one; the question's id.
    #[error("question {0} has no answer (a set of version 2.0 says \"is_impossible\": true)")]
    NoAnswer(String),

    /// An answer that does not stand where the file says.
    #[error("question {id}: the text has {found:?} at character {answer_start}, not the answer {answer:?}")]
    AnswerNotInText {
        /// The question's id.
        id: String,
        /// The answer.
        answer: String,
        /// Where it should begin, in characters.
        answer_start: usize,
        /// What is there.
        found: String,
    },
}

impl TaskError {
    /// The exit code for a program that ends with this error: 2 for wrong usage, 3 for bad data, 1
    /// when a file is missing or cannot be read.
    pub fn exit_code(&self) -> u8 {
        match self {
            Self::File(error) => match error.problem {
                TaskProblem::MissingSplit { .. } | TaskProblem::Io(_) => 1,
                TaskProblem::UnknownForm | TaskProblem::SeveralTables { .. } => 2,
                _ => 3,
            },
            Self::Parquet(error) => error.exit_code(),
            _ => 2,
        }
    }
}
