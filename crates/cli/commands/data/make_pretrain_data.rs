//! `make-pretrain-data` builds Parquet shards of masked sentence pairs from text.

use std::path::Path;

use bert_data::{BuildConfig, BuildProgress, BuildStage, Manifest, TokenizerFiles, build, build_held_out};
use bert_text::{skipped_names_note, skipped_tables_warning};
use clap::error::ErrorKind;
use clap::{Arg, CommandFactory, Parser};

use crate::commands::data::engine;
use crate::commands::hub::folder_of_name;
use crate::options::help::examples_and_exit_codes;
use crate::options::options_file::OptionsFile;
use crate::options::saved_config::{Program, RecipeArgs};
use crate::options::standard_input::StandardInput;
use crate::options::version::long_version;
use crate::output::progress::{Progress, print_note, print_note_unless, print_warning};
use crate::output::stdout::{print, print_json};
use crate::output::table::{FormatArgs, data_report_table, estimate_table, print_table};
use crate::process::signals::ignore_checkpoint_requests;

/// Message of a command whose output is already complete.
const FINISHED: &str = "this data set is already complete, with the same options and text";

const EXAMPLES: &str = "Examples:
  make-pretrain-data --input corpus/ --vocab vocab.txt --output data
  make-pretrain-data --recipe laptop --input corpus/ --vocab vocab.txt \\
      --output data
  make-pretrain-data --config data --random-seed 2 --output other";

/// Build pre-training data from text.
///
/// The data are masked sentence pairs in Parquet shards.
#[derive(Parser, Debug)]
#[command(name = "make-pretrain-data", version, long_version = long_version(), mut_args(with_heading))]
#[command(after_help = EXAMPLES, after_long_help = examples_and_exit_codes(EXAMPLES))]
pub struct Args {
    #[command(flatten)]
    config: BuildConfig,

    /// Where the remaining options come from.
    #[command(flatten)]
    pub saved: RecipeArgs,

    #[command(flatten)]
    format: FormatArgs,

    /// Hide the progress on stderr.
    #[arg(long)]
    quiet: bool,

    /// Print an estimate from a sample, and write nothing. The estimate has documents, instances, bytes, scratch space,
    /// memory and time.
    #[arg(long, conflicts_with = "preview")]
    dry_run: bool,

    /// Only tokenize this part's share of the text. All shares must be tokenized before any part can make its shards.
    /// Without this flag a part tokenizes its share too, and exits with code 75 if another part's share is missing.
    #[arg(long, requires = "part", conflicts_with_all = ["dry_run", "engine"])]
    tokenize_only: bool,

    /// Engine that runs the build: this process (local), a cluster (ballista://HOST:PORT) or the cluster's plan in one
    /// process (datafusion); see docs/guide/cluster.md.
    #[arg(long, default_value = engine::LOCAL, value_name = "ENGINE", value_parser = engine::name, conflicts_with_all = ["part", "dry_run", "preview"])]
    engine: String,

    /// Number of parts that an engine divides the work into: a few times the number of cores of the cluster; 16 by
    /// default. Not needed with --engine local.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(2..=99_999))]
    tasks: Option<u32>,
}

/// Returns a flag with its heading in the help; `-h` hides rare flags. Flags without a heading come first.
fn with_heading(flag: Arg) -> Arg {
    let (heading, is_rare) = match flag.get_id().as_str() {
        "split_sentences" | "text_column" => ("Text", false),
        "line_breaks" | "language" | "strict_utf8" | "lossy_utf8" | "strict_rows" => ("Text", true),
        "do_lower_case" => ("Tokenization", false),
        "strip_accents" | "tokenize_chinese_chars" => ("Tokenization", true),
        "max_seq_length" | "dupe_factor" | "random_seed" => ("Instances", false),
        "nsp" | "short_seq_prob" | "random" => ("Instances", true),
        "do_whole_word_mask" => ("Masking", false),
        "masked_lm_prob" | "segmenter" | "masking" | "max_ngram" | "random_word_skip_special" => {
            ("Masking", true)
        }
        "max_predictions_per_seq" => ("Masking", true),
        "layout" | "overwrite" | "preview" | "hold_out" => ("Shards", false),
        "columns" | "num_shards" => ("Shards", true),
        "memory_budget" | "scratch" => ("Resources", true),
        "part" | "parts" | "tokenize_only" | "engine" | "tasks" => ("Several machines", true),
        "format" => return flag.hide_short_help(true),
        _ => return flag,
    };
    flag.help_heading(heading).hide_short_help(is_rare)
}

impl Program for Args {
    type Config = BuildConfig;

    const SAVED_AS: &str = "manifest.json";

    const SECTION: &str = "data";

    fn read_saved(path: &Path) -> anyhow::Result<OptionsFile> {
        let mut file = OptionsFile::read(path, Self::SAVED_AS, Self::SECTION)?;
        // The options in a manifest are resolved; `BuildConfig::read` turns them into options of this program.
        if file.is_saved_output() {
            file.options = serde_json::from_value(serde_json::to_value(BuildConfig::read(path)?)?)?;
        }
        Ok(file)
    }
}

/// Runs the command.
pub fn run(mut args: Args) -> anyhow::Result<()> {
    if args.engine == engine::LOCAL && args.tasks.is_some() {
        let reason = "--tasks needs --engine; without an engine, divide the work with --part and --parts";
        return Err(Args::command().error(ErrorKind::MissingRequiredArgument, reason).into());
    }
    if args.engine != engine::LOCAL && args.config.overwrite {
        let reason = "--overwrite cannot be used with --engine: its parts share the output, and one part would remove the \
                      shards of the others; remove the finished data set first, or choose another --output";
        return Err(Args::command().error(ErrorKind::ArgumentConflict, reason).into());
    }
    require_flags(&args)?;
    if args.config.part.is_some() && !args.format.is_default() {
        let reason = "--format cannot be used with --part: a part has no table; bert merge prints the table of all parts";
        return Err(Args::command().error(ErrorKind::ArgumentConflict, reason).into());
    }
    ignore_checkpoint_requests()?;
    args.config.check()?;
    args.config.cap_warning().iter().for_each(print_warning);
    if let Some(vocab) = &mut args.config.vocab {
        *vocab = folder_of_name(vocab, args.quiet)?;
    }
    let _copy = copy_standard_input(&mut args)?;
    skipped_names_note(&args.config.input)?.iter().for_each(print_note);
    skipped_tables_warning(&args.config.input, &args.config.text_column)?.iter().for_each(print_warning);
    if args.dry_run {
        let estimate = bert_data::dry_run(&args.config)?;
        if args.format.is_json() {
            warn_all(&estimate.warnings);
        }
        return print_table(args.format, &estimate, estimate_table(&estimate), |_| estimate.to_string());
    }
    if args.engine != engine::LOCAL {
        let tasks = args.tasks.unwrap_or(engine::TASKS);
        let manifest = engine::build(&args.engine, tasks, &args.config, args.quiet)?;
        let output = args.config.output.as_deref().unwrap_or(Path::new(""));
        return show_in(args.format, &manifest, output);
    }
    vocabulary_note(&args.config)?.iter().for_each(print_note);
    bert_data::casing_warning(&args.config)?.iter().for_each(print_warning);
    if args.config.part.is_some() {
        return run_part(&args);
    }
    let outcome = with_progress(args.quiet, |on_progress| build(&args.config, on_progress))?;
    if !args.format.is_json() {
        outcome.preview.iter().try_for_each(|instance| print(instance))?;
    }
    show_in(args.format, &outcome.manifest, &outcome.output)?;
    show_held_out(&args, &outcome.manifest)
}

/// Rejects options that lack a required flag after `--config` was read. A dry run writes nothing, so it does not
/// require `--output`.
fn require_flags(args: &Args) -> anyhow::Result<()> {
    let BuildConfig { input, vocab, output, .. } = &args.config;
    let flags = [
        ("--input <PATH>...", input.is_empty()),
        ("--vocab <FILE>", vocab.is_none()),
        ("--output <DIR>", output.is_none() && !args.dry_run),
    ];
    let missing = flags.iter().filter(|(_, is_missing)| *is_missing).map(|(flag, _)| format!("\n  {flag}"));
    let missing = missing.collect::<String>();
    if missing.is_empty() {
        Ok(())
    } else {
        let reason = format!("the following required arguments were not provided:{missing}");
        Err(Args::command().error(ErrorKind::MissingRequiredArgument, reason).into())
    }
}

/// Builds the held-out data set, if one is requested, and prints its report. With `--json`, the manifest of this data
/// set is not printed, because a program prints only one object; it is in the data set's folder.
fn show_held_out(args: &Args, training: &Manifest) -> anyhow::Result<()> {
    let built = with_progress(args.quiet, |on_progress| build_held_out(&args.config, training, on_progress))?;
    match built {
        Some(outcome) if args.format.is_json() => {
            warn_all(&outcome.manifest.report.warnings);
            Ok(())
        }
        Some(outcome) => {
            print("\nheld-out documents:")?;
            show_in(args.format, &outcome.manifest, &outcome.output)
        }
        None => Ok(()),
    }
}

/// Replaces the input `-` by a copy of standard input, and returns the copy. Rejects `-` for a part or an engine, which
/// would read the copy on another machine.
fn copy_standard_input(args: &mut Args) -> anyhow::Result<StandardInput> {
    let is_shared = args.config.part.is_some() || args.engine != engine::LOCAL;
    if is_shared && args.config.input.iter().any(|input| input.as_os_str() == "-") {
        let reason = "--input - cannot be used with --part or --engine: every machine reads the text; write it to a file";
        return Err(Args::command().error(ErrorKind::ArgumentConflict, reason).into());
    }
    let BuildConfig { input, scratch, output, .. } = &mut args.config;
    StandardInput::copy(input, scratch.as_deref(), output.as_deref(), args.quiet)
}

/// Returns a note about a vocabulary that is read from JSON: its file and its number of tokens. Returns `None` for a
/// file with one token per line.
fn vocabulary_note(config: &BuildConfig) -> anyhow::Result<Option<String>> {
    let Some(path) = config.vocab.as_deref() else { return Ok(None) };
    let files = TokenizerFiles::read(path)?;
    let count = files.vocabulary.len();
    Ok(files.is_json.then(|| format!("{}: read as JSON, {count} tokens", files.source.display())))
}

/// Prints the report of a data set with its warnings in the form that the flags select, or its manifest as JSON with the
/// warnings on stderr.
pub fn show_in(format: FormatArgs, manifest: &Manifest, folder: &Path) -> anyhow::Result<()> {
    if format.is_json() {
        warn_all(&manifest.report.warnings);
    }
    print_table(format, manifest, data_report_table(&manifest.report), |_| {
        let bytes: u64 = manifest.shards.iter().map(|shard| shard.bytes).sum();
        let shards = count(manifest.shards.len(), "shard");
        format!("{}\n{shards}, {bytes} bytes: {}", manifest.report, folder.display())
    })
}

fn warn_all(warnings: &[String]) {
    warnings.iter().for_each(print_warning);
}

/// Returns a number with its noun: "1 shard", "2 shards".
fn count(number: usize, noun: &str) -> String {
    format!("{number} {noun}{}", if number == 1 { "" } else { "s" })
}

fn run_part(args: &Args) -> anyhow::Result<()> {
    let part = args.config.part.unwrap_or_default();
    let parts = args.config.parts.unwrap_or_default();
    // A part of the held-out data set is built with each part of the training data.
    let held_out = args.config.held_out_config();
    if args.tokenize_only {
        let tokenize = |config: &BuildConfig| {
            with_progress(args.quiet, |on_progress| bert_data::tokenize_part(config, on_progress))
        };
        let bert_data::PartText { documents, tokens, was_finished, .. } = tokenize(&args.config)?;
        held_out.as_ref().map(tokenize).transpose()?;
        if was_finished && !args.quiet {
            print_note(FINISHED);
        }
        return if args.format.is_json() {
            let counts = serde_json::json!({ "documents": documents, "tokens": tokens });
            print_json(&serde_json::json!({ "part": part, "parts": parts, "text": counts }))
        } else {
            print(&format!(
                "part {part} of {parts}: {} of {tokens} tokens\nnext, when all parts are tokenized: run the same command without --tokenize-only",
                count(documents as usize, "document"),
            ))
        };
    }
    let build = |config: &BuildConfig| {
        with_progress(args.quiet, |on_progress| bert_data::build_part(config, on_progress))
    };
    let outcome = build(&args.config)?;
    held_out.as_ref().map(build).transpose()?;
    if args.format.is_json() {
        let shards = outcome.shards;
        let rows = outcome.rows;
        return print_json(
            &serde_json::json!({ "part": part, "parts": parts, "shards": shards, "rows": rows }),
        );
    }
    if outcome.was_finished && !args.quiet {
        print_note("this part is already complete");
    }
    if outcome.shards == 0 && !args.quiet {
        print_note("there are more parts than shards, so this part has none");
    }
    let scratch = args.config.scratch.as_ref().map(|folder| format!(" --scratch {}", folder.display()));
    print(&format!(
        "part {part} of {parts}: {}, {}: {folder}\nnext, when all parts are done: bert merge {folder}{}",
        count(outcome.shards, "shard"),
        count(outcome.rows as usize, "row"),
        scratch.unwrap_or_default(),
        folder = outcome.output.display()
    ))
}

/// Runs a build and draws its progress.
pub fn with_progress<T>(
    quiet: bool,
    build: impl FnOnce(&mut dyn FnMut(BuildProgress)) -> Result<T, bert_data::Error>,
) -> anyhow::Result<T> {
    let mut view = View { quiet, stage: None };
    Ok(build(&mut |progress| view.show(progress))?)
}

/// Progress display of a build.
struct View {
    quiet: bool,
    stage: Option<(BuildStage, Progress)>,
}

impl View {
    /// Updates the display with the progress of the build.
    fn show(&mut self, at: BuildProgress) {
        let done = at.done;
        let total = at.total;
        let note = |text: String| print_note_unless(self.quiet, text);
        // Remove the bar of the previous stage first.
        drop(self.stage.take_if(|(stage, _)| *stage != at.stage));
        let title = match at.stage {
            BuildStage::Reading => "read bytes",
            BuildStage::Instances => "make instances and shards (buckets)",
            BuildStage::Checking => "verify the files of an earlier run",
            BuildStage::ReusedText => {
                return note(format!(
                    "continuing an earlier run: its tokenized text is used ({done} documents)"
                ));
            }
            BuildStage::ReusedShards => {
                return note(format!("continuing an earlier run: {done} of {total} shards are complete"));
            }
            BuildStage::Finished => return note(FINISHED.to_string()),
            BuildStage::ChangedText => {
                return print_warning(
                    "the text has changed since this build was stopped: the build starts again from the beginning",
                );
            }
            _ => "build",
        };
        let new = || (at.stage, Progress::new(title, total, self.quiet));
        self.stage.get_or_insert_with(new).1.set(done, "");
    }
}
