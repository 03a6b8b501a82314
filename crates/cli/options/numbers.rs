//! Bounds of the numbers on the command line.
//!
//! A flag of a built-in numeric type accepts numbers within these bounds only: a product of two of them fits 64 bits,
//! and each is a finite number of the type `f32`, which is 0 only if the given number is 0. The flags themselves may
//! have tighter limits.

use std::any::TypeId;
use std::ffi::OsString;

use bert_finetuning::Choices;
use clap::error::{ContextKind, ContextValue, ErrorKind};
use clap::{Arg, ArgMatches, Command};

/// Largest absolute value of a number.
const MAX: f64 = 1e9;

/// Parses a command line, the name of the program first, and checks the bounds of its numbers.
///
/// # Errors
/// Fails when the command line has a usage error.
pub fn parse(
    mut command: Command,
    line: impl IntoIterator<Item = OsString>,
) -> Result<ArgMatches, clap::Error> {
    let matches = command.try_get_matches_from_mut(line)?;
    check(&command, &matches)?;
    Ok(matches)
}

fn check(command: &Command, matches: &ArgMatches) -> Result<(), clap::Error> {
    for flag in command.get_arguments().filter(|flag| is_number(flag)) {
        let given = matches.try_get_raw(flag.get_id().as_str()).ok().flatten().into_iter().flatten();
        let texts = given.filter_map(|text| text.to_str()).flat_map(|text| text.split(','));
        for text in texts {
            if let Some(reason) = problem(text) {
                return Err(invalid(command, flag, text, reason));
            }
        }
    }
    match matches.subcommand() {
        Some((name, inner)) => command.find_subcommand(name).map_or(Ok(()), |command| check(command, inner)),
        None => Ok(()),
    }
}

/// Returns whether a flag takes a number, or a list of numbers, that is not a random seed.
pub fn is_number(flag: &Arg) -> bool {
    let value = flag.get_value_parser().type_id();
    let numbers = [
        TypeId::of::<u16>(),
        TypeId::of::<u32>(),
        TypeId::of::<u64>(),
        TypeId::of::<usize>(),
        TypeId::of::<i32>(),
        TypeId::of::<f32>(),
        TypeId::of::<f64>(),
        TypeId::of::<Choices<usize>>(),
        TypeId::of::<Choices<f64>>(),
    ];
    numbers.into_iter().any(|number| value == number) && !flag.get_id().as_str().ends_with("seed")
}

/// Returns the bound that a number violates, if it is out of bounds.
fn problem(text: &str) -> Option<&'static str> {
    let number: f64 = text.trim().parse().ok()?;
    if !number.is_finite() {
        Some("must be a finite number")
    } else if number.abs() > MAX {
        Some("must be at most 1000000000")
    } else if number != 0.0 && number as f32 == 0.0 {
        Some("must be 0 or at least 1e-45")
    } else {
        None
    }
}

fn invalid(command: &Command, flag: &Arg, text: &str, reason: &str) -> clap::Error {
    let message = format!("invalid value '{text}' for '{flag}': {reason}");
    let mut error = command.clone().error(ErrorKind::ValueValidation, message);
    error.insert(ContextKind::InvalidArg, ContextValue::String(flag.to_string()));
    error
}
