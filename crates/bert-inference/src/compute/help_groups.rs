//! Groups the flags of a configuration under headings in the help, and offers values to completions.

use std::ffi::OsStr;

use clap::builder::{PossibleValue, TypedValueParser};

/// A heading of the help with its flags, by their ids.
pub struct HelpGroup {
    /// The heading.
    pub heading: &'static str,
    /// Flags of `-h` and `--help`.
    pub common: &'static [&'static str],
    /// Flags of `--help` only.
    pub rare: &'static [&'static str],
}

/// Puts a flag under its heading. Flags without a heading come first in the help.
pub fn with_heading(flag: clap::Arg, groups: &[HelpGroup]) -> clap::Arg {
    let id = flag.get_id().to_string();
    let id = id.as_str();
    match groups.iter().find(|group| group.common.contains(&id) || group.rare.contains(&id)) {
        Some(group) => flag.help_heading(group.heading).hide_short_help(group.rare.contains(&id)),
        None => flag,
    }
}

/// A parser of values that offers known values to the completion of a shell. The help does not list them.
#[derive(Clone)]
pub struct WithCompletions<P> {
    parser: P,
    known: fn() -> Vec<&'static str>,
}

impl<P> WithCompletions<P> {
    /// Returns a parser that offers these values.
    pub fn new(parser: P, known: fn() -> Vec<&'static str>) -> Self {
        Self { parser, known }
    }
}

impl<P: TypedValueParser> TypedValueParser for WithCompletions<P> {
    type Value = P::Value;

    fn parse_ref(
        &self,
        command: &clap::Command,
        flag: Option<&clap::Arg>,
        value: &OsStr,
    ) -> Result<Self::Value, clap::Error> {
        self.parser.parse_ref(command, flag, value)
    }

    fn possible_values(&self) -> Option<Box<dyn Iterator<Item = PossibleValue> + '_>> {
        Some(Box::new((self.known)().into_iter().map(PossibleValue::new)))
    }
}
