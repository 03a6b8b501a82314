//! [`Error`], the error type of all libraries: a class, which determines the exit code of a program, a place and a text.

use std::borrow::Cow;
use std::error::Error as StdError;
use std::fmt;
use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};

use crate::objects::is_transient;
use crate::objects::url::shown;

/// A result of the libraries.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// A class of errors. It says who can correct the error, and determines a program's exit code.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Class {
    /// A file cannot be read or written, or something else failed on this machine (1).
    Failed,
    /// An output exists and may not be replaced (1).
    Exists,
    /// A flag, an argument or a configuration is wrong (2).
    Usage,
    /// Data is damaged or has a wrong format (3).
    Data,
    /// An example has no label (3).
    Unlabelled,
    /// A checkpoint is invalid, or does not match the model, the data or the run (4).
    Model,
    /// A number is not finite, or a device computes wrong numbers (5).
    Numerical,
    /// Another process is writing to the output (6).
    InUse,
    /// There is not enough memory (7).
    Memory,
    /// The same command can succeed later (75).
    Later,
    /// The signal of this number stopped the command (128 + number).
    Stopped(i32),
    /// Another process failed, with this exit code.
    Elsewhere(u8),
}

impl Class {
    /// Returns the documented exit code of a program that ends with an error of this class.
    pub fn exit_code(self) -> u8 {
        match self {
            Self::Failed | Self::Exists => 1,
            Self::Usage => 2,
            Self::Data | Self::Unlabelled => 3,
            Self::Model => 4,
            Self::Numerical => 5,
            Self::InUse => 6,
            Self::Memory => 7,
            Self::Later => 75,
            Self::Stopped(signal) => 128 + signal as u8,
            Self::Elsewhere(code) => code,
        }
    }
}

/// An error. Its message begins with its place, if it has one, and ends with its causes, unless the text quotes them:
/// `train.tsv:3: the line is empty, but must have a text`, `cannot read train.tsv: permission denied`. A message names a
/// setting as a field of its configuration, with a dot and in backquotes: `with_flags` turns it into a flag.
pub struct Error(Box<Parts>);

#[derive(Debug)]
struct Parts {
    class: Class,
    is_absent: bool,
    setting: Option<&'static str>,
    value: Option<String>,
    path: Option<PathBuf>,
    line: Option<u64>,
    text: Cow<'static, str>,
    cause: Option<Box<dyn StdError + Send + Sync>>,
}

impl Error {
    /// Returns an error without a place.
    pub fn new(class: Class, text: impl Into<Cow<'static, str>>) -> Self {
        let text = text.into();
        Self(Box::new(Parts {
            class,
            is_absent: false,
            setting: None,
            value: None,
            path: None,
            line: None,
            text,
            cause: None,
        }))
    }

    /// Returns an error of [`Class::Failed`].
    pub fn failed(text: impl Into<Cow<'static, str>>) -> Self {
        Self::new(Class::Failed, text)
    }

    /// Returns an error of [`Class::Usage`].
    pub fn usage(text: impl Into<Cow<'static, str>>) -> Self {
        Self::new(Class::Usage, text)
    }

    /// Returns an error of [`Class::Data`].
    pub fn data(text: impl Into<Cow<'static, str>>) -> Self {
        Self::new(Class::Data, text)
    }

    /// Returns an error of [`Class::Model`].
    pub fn model(text: impl Into<Cow<'static, str>>) -> Self {
        Self::new(Class::Model, text)
    }

    /// Returns the error for the value of a setting. `setting` is its name in the configuration, such as `batch_size`.
    pub fn option(setting: &'static str, text: impl Into<Cow<'static, str>>) -> Self {
        debug_assert!(!setting.contains('-'), "{setting}: the name in the configuration");
        let mut error = Self::usage(text);
        error.0.setting = Some(setting);
        error
    }

    /// Returns the error for a value of a setting that is not allowed. Its text is "must be" followed by `expected`.
    pub fn value(setting: &'static str, value: impl fmt::Display, expected: impl fmt::Display) -> Self {
        let mut error = Self::option(setting, format!("must be {expected}"));
        error.0.value = Some(value.to_string());
        error
    }

    /// Returns a function that converts a system error. If the system error carries an error of this crate, the
    /// function returns that error. `action` is a verb: "open", "read", "write", "rename".
    pub fn io(action: &'static str, path: &Path) -> impl FnOnce(io::Error) -> Self + use<> {
        let text = format!("cannot {action} {}", shown(path));
        move |cause| {
            let class = if is_transient(&cause) { Class::Later } else { Class::Failed };
            Self::carried_by(cause).unwrap_or_else(|cause| Self::new(class, text).because(cause))
        }
    }

    /// Returns the error of a failed write, after which the file would have had `needed` bytes. If `cause` carries an
    /// error of this crate, returns that error.
    pub(crate) fn write(path: &Path, needed: u64, cause: io::Error) -> Self {
        match Self::carried_by(cause) {
            Ok(carried) => carried,
            Err(cause) if is_disk_full(&cause) => Self::failed(format!(
                "the disk is full: {} needs at least {needed} bytes; free space, then run the same command again",
                shown(path)
            ))
            .because(cause),
            Err(cause) => Self::io("write", path)(cause),
        }
    }

    /// Returns the error with the path of the file or folder that it concerns, unless it has one.
    pub fn at(mut self, path: impl AsRef<Path>) -> Self {
        self.0.path.get_or_insert_with(|| path.as_ref().to_owned());
        self
    }

    /// Returns the error with a line of a file, or a row of a table without lines, counted from 1, unless it has a path.
    pub fn at_line(mut self, path: impl AsRef<Path>, line: u64) -> Self {
        if self.0.path.is_none() {
            self.0.line = Some(line);
        }
        self.at(path)
    }

    /// Returns the error with its cause.
    pub fn because(mut self, cause: impl Into<Box<dyn StdError + Send + Sync>>) -> Self {
        self.0.cause = Some(cause.into());
        self
    }

    /// Returns the error, marked as an error about something that does not exist.
    pub fn absent(mut self) -> Self {
        self.0.is_absent = true;
        self
    }

    /// Returns the error with a different text.
    pub fn with_text(mut self, text: impl Into<Cow<'static, str>>) -> Self {
        self.0.text = text.into();
        self
    }

    /// Returns the error with its line number replaced by the result of `map`, if it has a line.
    pub fn map_line(mut self, map: impl FnOnce(u64) -> u64) -> Self {
        self.0.line = self.0.line.map(map);
        self
    }

    /// Returns the class.
    pub fn class(&self) -> Class {
        self.0.class
    }

    /// Returns the documented exit code of a program that ends with this error.
    pub fn exit_code(&self) -> u8 {
        self.0.class.exit_code()
    }

    /// Returns whether the error says that something does not exist.
    pub fn is_absent(&self) -> bool {
        self.0.is_absent
    }

    /// Returns the setting whose value is wrong.
    pub fn setting(&self) -> Option<&'static str> {
        self.0.setting
    }

    /// Returns the file or folder that the error concerns.
    pub fn path(&self) -> Option<&Path> {
        self.0.path.as_deref()
    }

    /// Returns the line that the error concerns, counted from 1.
    pub fn line(&self) -> Option<u64> {
        self.0.line
    }

    /// Returns the message without the place and the causes.
    pub fn text(&self) -> &str {
        &self.0.text
    }

    /// Returns the cause if it has this type.
    pub fn cause<E: StdError + 'static>(&self) -> Option<&E> {
        self.0.cause.as_ref()?.downcast_ref()
    }

    /// Returns the cause.
    pub fn into_cause(self) -> Option<Box<dyn StdError + Send + Sync>> {
        self.0.cause
    }

    /// Returns the kind of the system error that is the cause.
    pub fn io_kind(&self) -> Option<ErrorKind> {
        self.cause().map(io::Error::kind)
    }

    /// Returns the error that an [`io::Error`] carries. Errors pass through the writers of other crates in this form.
    ///
    /// # Errors
    /// Returns `error` itself if it does not carry one.
    pub fn carried_by(error: io::Error) -> std::result::Result<Self, io::Error> {
        error.downcast::<Self>()
    }

    /// Wraps this error in an [`io::Error`].
    pub(crate) fn carry(self) -> io::Error {
        io::Error::new(self.io_kind().unwrap_or(ErrorKind::Other), self)
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Parts { setting, value, path, line, text, .. } = &*self.0;
        match (setting, value) {
            (Some(setting), Some(value)) => write!(f, "`.{setting}` is {value}, but ")?,
            (Some(setting), None) => write!(f, "`.{setting}`: ")?,
            (None, _) => {}
        }
        if let Some(path) = path {
            write!(f, "{}:", shown(path))?;
            line.map_or(Ok(()), |line| write!(f, "{line}:"))?;
            f.write_str(" ")?;
        }
        f.write_str(text)?;
        let mut said = text.to_string();
        for cause in std::iter::successors(self.source(), |&cause| cause.source()) {
            let cause = cause.to_string();
            if !said.contains(&cause) {
                write!(f, ": {cause}")?;
                said += &cause;
            }
        }
        Ok(())
    }
}

impl fmt::Debug for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl StdError for Error {
    fn source(&self) -> Option<&(dyn StdError + 'static)> {
        self.0.cause.as_deref().map(|cause| cause as _)
    }
}

/// Fails with [`Error::value`] unless the value of a setting is allowed.
///
/// # Errors
/// Fails if `is_allowed` is false.
pub fn check_value(
    is_allowed: bool,
    setting: &'static str,
    value: impl fmt::Display,
    expected: impl fmt::Display,
) -> Result<()> {
    if is_allowed { Ok(()) } else { Err(Error::value(setting, value, expected)) }
}

/// Fails if the value of a setting is 0.
///
/// # Errors
/// Fails if the setting has a value, and the value is 0.
pub fn at_least_one<T: Default + PartialEq>(setting: &'static str, number: Option<T>) -> Result<()> {
    check_value(number != Some(T::default()), setting, 0, "at least 1")
}

/// Returns the message of an error or a warning with the flags of a program in place of its settings: `--batch-size` in
/// place of `` `.batch_size` ``.
pub fn with_flags(message: &str) -> String {
    let is_name = |name: &str| {
        name.starts_with(|first: char| first.is_ascii_lowercase())
            && name.bytes().all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'_')
    };
    let mut parts = message.split("`.");
    let mut text = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        text += &match part.split_once('`') {
            // A value may follow the name.
            Some((setting, rest)) if setting.split(' ').next().is_some_and(is_name) => {
                let (name, value) = setting.split_at(setting.find(' ').unwrap_or(setting.len()));
                format!("--{}{value}{rest}", name.replace('_', "-"))
            }
            _ => format!("`.{part}"),
        };
    }
    text
}

/// Returns whether an error, or one of its causes, means that a disk or quota is full.
pub fn is_disk_full(error: &(dyn StdError + 'static)) -> bool {
    use ErrorKind::{QuotaExceeded, StorageFull};
    // The error wrapped in an `io::Error` is not in its chain of sources.
    let is_full = |io: &io::Error| {
        matches!(io.kind(), StorageFull | QuotaExceeded)
            || io.get_ref().is_some_and(|inner| is_disk_full(inner))
    };
    std::iter::successors(Some(error), |&error| error.source())
        .any(|error| error.downcast_ref::<io::Error>().is_some_and(is_full))
}

/// Returns whether an error means that a name does not exist. After any other error, the name may exist.
pub(crate) fn is_absent(error: &io::Error) -> bool {
    matches!(error.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory)
}

#[cfg(test)]
mod tests {
    use std::io::{Error, ErrorKind};

    use super::{Path, is_disk_full};

    #[test]
    fn messages_have_place_text_and_causes() {
        use super::{Class, Error as Located};

        let row = || Located::data("the line is empty").at_line("train.tsv", 3);
        assert_eq!(row().to_string(), "train.tsv:3: the line is empty");
        assert_eq!(row().at_line("other.tsv", 9).to_string(), row().to_string(), "the first place counts");
        assert_eq!(row().map_line(|line| line + 10).line(), Some(13));
        assert_eq!(
            Located::option("steps", "must be at least 1").to_string(),
            "`.steps`: must be at least 1"
        );
        let zero = super::check_value(false, "steps", 0, "at least 1").unwrap_err();
        assert_eq!(zero.to_string(), "`.steps` is 0, but must be at least 1");
        assert!(super::check_value(true, "steps", 1, "at least 1").is_ok());
        let denied = || Error::new(ErrorKind::PermissionDenied, "not yours");
        let error = Located::io("read", Path::new("a"))(denied());
        assert_eq!((error.to_string().as_str(), error.text()), ("cannot read a: not yours", "cannot read a"));
        assert_eq!((error.class(), error.io_kind()), (Class::Failed, Some(ErrorKind::PermissionDenied)));
        let outer = Located::data("part 2 is damaged").because(error);
        assert_eq!(outer.to_string(), "part 2 is damaged: cannot read a: not yours");
        let quoted = Located::failed("the device failed: not yours").because(denied());
        assert_eq!(quoted.to_string(), "the device failed: not yours");
        let carried = Located::io("write", Path::new("b"))(row().carry());
        assert_eq!(carried.to_string(), row().to_string());
    }

    #[test]
    fn settings_are_flags_on_a_command_line() {
        use super::{Error as Located, with_flags};

        let error = Located::option("warmup_steps", "must not be more than `.steps`");
        assert_eq!(with_flags(&error.to_string()), "--warmup-steps: must not be more than --steps");
        assert_eq!(with_flags("use `.adam_beta1 0.9` or `.steps`"), "use --adam-beta1 0.9 or --steps");
        for text in ["`gelu`", "`.", "`.git/x`", "`.A`", "``.``", "read `.npy", ""] {
            assert_eq!(with_flags(text), text);
        }
    }

    #[test]
    fn classes_have_the_documented_exit_codes() {
        use super::Class;

        let classes = [
            (Class::Failed, 1),
            (Class::Exists, 1),
            (Class::Usage, 2),
            (Class::Data, 3),
            (Class::Unlabelled, 3),
            (Class::Model, 4),
            (Class::Numerical, 5),
            (Class::InUse, 6),
            (Class::Memory, 7),
            (Class::Later, 75),
            (Class::Stopped(2), 130),
            (Class::Stopped(15), 143),
            (Class::Elsewhere(4), 4),
        ];
        assert!(classes.iter().all(|(class, code)| class.exit_code() == *code));
    }

    #[test]
    fn disk_full_is_found_in_nested_errors() {
        let full = || Error::from(ErrorKind::StorageFull);
        let wrapped = super::Error::io("write", Path::new("shard"))(full());
        assert!(is_disk_full(&full()) && is_disk_full(&Error::from(ErrorKind::QuotaExceeded)));
        assert!(is_disk_full(&Error::other(full())) && is_disk_full(&wrapped));
        assert!(is_disk_full(&Error::other(wrapped)));
        assert!(!is_disk_full(&Error::other("full")) && !is_disk_full(&Error::from(ErrorKind::NotFound)));
    }
}
