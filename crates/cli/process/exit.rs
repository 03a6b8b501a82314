//! Ends a program: prints the error once and returns the documented exit code.
//!
//! | code | meaning |
//! |---|---|
//! | 0 | done |
//! | 1 | error |
//! | 2 | usage |
//! | 3 | bad or corrupt data |
//! | 4 | checkpoint invalid or of a different shape |
//! | 5 | numerical failure |
//! | 6 | output in use by another process |
//! | 7 | not enough memory: the estimate exceeds the limit, or an allocation failed |
//! | 75 | retry later: other parts of a build have not tokenized their text yet, a store or the Hugging Face Hub is unavailable, or another rank is lost |
//! | 130, 143 | stopped cleanly by SIGINT, SIGTERM |

use std::borrow::Cow;
use std::io::Write;
use std::process::ExitCode;

use bert_storage::set_commit;

use crate::options::standard_input::with_given_name;
use crate::options::version::COMMIT;
use crate::output::status_line::write_above;
use crate::output::terminal::{Word, visible};

/// Runs a program and returns its exit code.
pub fn run_program(run: impl FnOnce() -> anyhow::Result<()>) -> ExitCode {
    set_commit(COMMIT);
    finish(run())
}

/// Returns the exit code of a result. Prints an error with its causes to stderr.
pub fn finish(result: anyhow::Result<()>) -> ExitCode {
    let Err(error) = result else { return ExitCode::SUCCESS };
    // A usage error comes from flags that one command passes to another.
    if let Some(usage) = error.downcast_ref::<clap::Error>() {
        let plain = usage.render().to_string();
        // The colours of clap are escape sequences too: print them only if the text itself has no control characters.
        match visible(&plain) {
            Cow::Borrowed(_) => drop(usage.print()),
            Cow::Owned(text) => drop(write!(std::io::stderr(), "{text}")),
        }
        return ExitCode::from(2);
    }
    // Do not repeat causes that the message already quotes.
    let mut text = error.to_string();
    for cause in error.chain().skip(1) {
        let cause = cause.to_string();
        if !text.contains(&cause) {
            text.push_str(": ");
            text.push_str(&cause);
        }
    }
    let text = with_given_name(text);
    let code = exit_code(&error);
    // A requested stop is not an error.
    let word = if [130, 143].contains(&code) { Word::Note } else { Word::Error };
    write_above(&format!("{}\n", word.message(&text)));
    ExitCode::from(code)
}

/// Returns the documented exit code of an error.
pub fn exit_code(error: &anyhow::Error) -> u8 {
    error.downcast_ref::<bert_storage::Error>().map_or(1, bert_storage::Error::exit_code)
}
