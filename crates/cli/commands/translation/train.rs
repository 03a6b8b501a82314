//! `bert translate train` trains a translation model on parallel text.

use bert_translation::{Fusion, StepMetrics, TrainConfig, TrainEvent, TrainOutcome, train};
use clap::Args as ClapArgs;

use crate::commands::hub::pinned_start;
use crate::commands::model_folder;
use crate::options::run_args::RunArgs;
use crate::output::progress::{Progress, print_warning};
use crate::output::stdout::print_result;
use crate::process::signals::stop_on_signals;
use crate::process::threads::ThreadArgs;

/// Train a Transformer on parallel text, alone or with BERT.
#[derive(ClapArgs, Debug)]
pub struct Args {
    #[command(flatten)]
    config: TrainConfig,

    #[command(flatten)]
    threads: ThreadArgs,

    #[command(flatten)]
    run: RunArgs,

    /// Print the result as one JSON object.
    #[arg(long)]
    json: bool,
}

/// Runs the command.
pub fn run(args: &Args) -> anyhow::Result<()> {
    args.threads.start_pool();
    let config = &TrainConfig {
        bert: pinned_start(&args.config.bert, &args.config.output, args.run.quiet)?,
        ..args.config.clone()
    };
    let stop = stop_on_signals()?;
    // Without fusion, a model has its own vocabularies and needs no BERT folder.
    let needs_bert = config.fusion != Fusion::None;
    let bert = needs_bert.then(|| model_folder(&config.bert)).transpose()?;
    let mut progress = Progress::new("translate", config.steps, args.run.quiet);
    let on_event = &mut |event| show(&mut progress, event);
    let outcome = train(config, bert.as_deref(), args.run.resume.into(), &stop, on_event);
    drop(progress);
    print_result(args.json, &outcome?, summary)
}

fn show(progress: &mut Progress, event: TrainEvent) {
    match event {
        TrainEvent::Started { parameters, pairs, dropped, step } => {
            let from = if step == 0 { String::new() } else { format!(", continued after step {step}") };
            let millions = parameters as f64 / 1e6;
            progress.line(&format!("{millions:.2} M trained parameters, {pairs} sentence pairs{from}"));
            if dropped > 0 {
                progress.note(&format!("{dropped} pairs with an empty side are left out"));
            }
        }
        TrainEvent::Step(StepMetrics { step, loss, cross_entropy, learning_rate, .. }) => progress.set(
            step,
            &format!("loss {loss:.4}, cross-entropy {cross_entropy:.4} per token, lr {learning_rate:.1e}"),
        ),
        TrainEvent::Saved { step, path } => progress.line(&format!("step {step}: saved {}", path.display())),
        TrainEvent::Warning(text) => print_warning(&text),
        _ => {}
    }
}

fn summary(outcome: &TrainOutcome) -> String {
    let last = outcome.metrics.map(|metrics| {
        format!("\nlast step: loss {:.4}, cross-entropy {:.4} per token", metrics.loss, metrics.cross_entropy)
    });
    let checkpoint = outcome.checkpoint.display();
    format!("{} steps done; checkpoint {checkpoint}{}", outcome.steps, last.unwrap_or_default())
}
