//! [`Located`]: a problem and its place in a file. Errors of files say the place once, in one form.

use std::error::Error;
use std::fmt::{self, Display, Formatter};
use std::path::{Path, PathBuf};

/// A problem and its place, which stands first in the message: `train.tsv:3: the line is empty, expected a text`.
#[derive(Debug)]
pub struct Located<P> {
    /// The file or folder.
    pub path: Box<Path>,
    /// The line, or the row of a table without lines, counted from 1; `None` where it is the whole file.
    pub line: Option<u64>,
    /// What is wrong there.
    pub problem: P,
}

impl<P: Display> Display for Located<P> {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        write!(f, "{}:", self.path.display())?;
        if let Some(line) = self.line {
            write!(f, "{line}:")?;
        }
        write!(f, " {}", self.problem)
    }
}

impl<P: Error> Error for Located<P> {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        self.problem.source()
    }
}

/// Gives a problem its place.
pub trait Locate: Sized {
    /// A problem of a whole file or folder.
    fn at(self, path: impl Into<PathBuf>) -> Located<Self>;

    /// A problem of one line, counted from 1.
    fn at_line(self, path: impl Into<PathBuf>, line: u64) -> Located<Self> {
        Located { line: Some(line), ..self.at(path) }
    }
}

impl<P: Error> Locate for P {
    fn at(self, path: impl Into<PathBuf>) -> Located<Self> {
        Located { path: path.into().into(), line: None, problem: self }
    }
}
