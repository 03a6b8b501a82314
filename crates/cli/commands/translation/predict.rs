//! `bert translate predict` translates the lines of a file.

use std::path::PathBuf;

use bert_inference::{DEVICE_HELP, DeviceName, results_not_written};
use bert_storage::check_value;
use bert_task_files::read_lines;
use bert_translation::{SearchConfig, Translator};
use clap::Args as ClapArgs;

use crate::commands::{at_least, model_folder};
use crate::output::files::OverwriteArgs;
use crate::output::progress::Progress;
use crate::output::results::write_results;
use crate::process::threads::ThreadArgs;

/// Translate the lines of a file.
#[derive(ClapArgs, Debug)]
pub struct Args {
    /// Run of `bert translate train`, or one of its checkpoints.
    #[arg(long, value_name = "DIR")]
    checkpoint: PathBuf,

    /// File with one sentence per line.
    #[arg(long, value_name = "FILE")]
    input: PathBuf,

    /// Output file, one translation per line, which appears when it is complete [default: standard output].
    #[arg(long, value_name = "FILE")]
    output: Option<PathBuf>,

    #[command(flatten)]
    overwrite: OverwriteArgs,

    /// Hypotheses per sentence; 1 is greedy search.
    #[arg(long, value_name = "N", default_value_t = 5, value_parser = at_least(1))]
    beam_size: usize,

    /// Exponent of the length penalty; 0 disables it, larger values prefer longer translations.
    #[arg(long, value_name = "X", default_value_t = 0.6)]
    length_penalty: f64,

    /// Maximum number of tokens of a translation [default: the model's maximum].
    #[arg(long, value_name = "N", value_parser = at_least(1))]
    max_length: Option<usize>,

    /// Sentences that are translated together.
    #[arg(long, value_name = "N", default_value_t = 32, value_parser = at_least(1))]
    batch_size: usize,

    /// Compute device.
    #[arg(long, value_name = "DEVICE", default_value_t = DeviceName::Flex, help = DEVICE_HELP)]
    device: DeviceName,

    #[command(flatten)]
    threads: ThreadArgs,

    /// Hide the progress on stderr.
    #[arg(long)]
    quiet: bool,
}

/// Runs the command.
pub fn run(args: &Args) -> anyhow::Result<()> {
    let penalty = args.length_penalty;
    check_value(penalty >= 0.0 && penalty.is_finite(), "length_penalty", penalty, "0 or more")?;
    args.threads.start_pool();
    let output = args.output.as_deref().map(|path| args.overwrite.output(path)).transpose()?;
    let search = SearchConfig {
        beam_size: args.beam_size,
        length_penalty: args.length_penalty,
        max_length: args.max_length.unwrap_or(usize::MAX),
    };
    let translator = Translator::open(&model_folder(&args.checkpoint)?, search, args.device)?;
    let lines = read_lines(&args.input)?;
    let sentences: Vec<&str> = lines.iter().map(String::as_str).collect();
    let mut progress = Progress::new("translate", sentences.len() as u64, args.quiet);
    let translated =
        translator.translate(&sentences, args.batch_size, &mut |done| progress.set(done as u64, "sentences"));
    drop(progress);
    write_results(output.as_ref(), |out| {
        translated.iter().try_for_each(|one| writeln!(out, "{}", one.text).map_err(results_not_written))
    })?;
    Ok(())
}
