//! `bert evaluate` measures a pre-trained model on the instances of a data folder.

use std::path::PathBuf;

use bert_data::Nsp;
use bert_inference::{
    DEVICE_HELP, DeviceName, KernelChoice, ModelFiles, PrecisionChoice, RequiredHeads, builtin_model,
    load_pretraining,
};
use bert_model::LoadPolicy;
use bert_training::{DataLoader, Evaluation, evaluate, top_k_accuracy};
use clap::Args as ClapArgs;
use serde::Serialize;

use crate::commands::training::pretrain::evaluation_line;
use crate::commands::{at_least, model_folder, selected_device};
use crate::output::progress::print_warning;
use crate::output::table::{FormatArgs, Table, evaluation_figures, print_table};
use crate::process::threads::ThreadArgs;

/// Compute loss and accuracy of a checkpoint on a data folder.
///
/// These are the losses and accuracies of the masked LM and of next-sentence prediction.
#[derive(ClapArgs, Debug)]
pub struct Args {
    /// Pre-training run, checkpoint or Hugging Face folder with both pre-training heads.
    #[arg(long, value_name = "DIR", default_value = builtin_model::NAME)]
    checkpoint: PathBuf,

    /// Data folder made by make-pretrain-data with the checkpoint's vocabulary.
    #[arg(long, value_name = "DIR")]
    data: PathBuf,

    /// Batch size; affects the result only by rounding.
    #[arg(long, value_name = "N", default_value_t = 32, value_parser = at_least(1))]
    batch_size: usize,

    /// Evaluate the first N instances only.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    instances: Option<u64>,

    /// Also compute the top-K accuracy of the masked LM; takes longer.
    #[arg(long, value_name = "K", value_parser = at_least(1))]
    top_k: Option<usize>,

    /// Compute device.
    #[arg(long, value_name = "DEVICE", default_value_t = DeviceName::Flex, help = DEVICE_HELP)]
    device: DeviceName,

    /// Precision of matrix products, f32 or bf16; everything else is f32 [default: bf16 on CUDA, f32 elsewhere].
    #[arg(long, value_enum)]
    precision: Option<PrecisionChoice>,

    #[command(flatten)]
    threads: ThreadArgs,

    #[command(flatten)]
    format: FormatArgs,
}

/// Runs the command.
pub fn run(args: &Args) -> anyhow::Result<()> {
    args.threads.start_pool();
    let name = selected_device(args.device)?;
    let precision = PrecisionChoice::or_default(args.precision, name);
    precision.check(name, KernelChoice::Fused)?;
    let device = name.open()?;
    let folder = model_folder(&args.checkpoint)?;
    let ModelFiles { mut config, tokenizer, description } = ModelFiles::find(&folder)?;
    config.compute = precision.with(KernelChoice::Fused);
    let mut loader = DataLoader::open(&args.data, 0)?;
    loader.check_fits(&config, tokenizer.as_ref())?;
    let length = loader.manifest().config.max_seq_length;
    description.untrained_positions(length).into_iter().for_each(print_warning);
    let policy = match loader.manifest().config.nsp {
        Nsp::Off => LoadPolicy::MaskedLm,
        _ => LoadPolicy::Exact,
    };
    let hint = "evaluate a model with both pre-training heads, or use data made with --nsp off for a masked-LM model";
    let required = RequiredHeads { policy, hint };
    let (model, _) = load_pretraining(&config, &folder, required, 0, &device)?;
    let tokens = args.batch_size * loader.manifest().config.max_seq_length;
    precision.warning(name, &config, tokens).iter().for_each(print_warning);
    let evaluation = evaluate(&model, &mut loader, args.batch_size, args.instances)?;
    let among = |k| top_k_accuracy(&model, &mut loader, k, args.batch_size, args.instances);
    let masked_lm_top_k_accuracy = args.top_k.map(among).transpose()?;
    let figures = Figures { evaluation, top_k: args.top_k, masked_lm_top_k_accuracy };
    print_table(args.format, &figures, figures.table(), |_| figures.line())
}

#[derive(Serialize)]
struct Figures {
    #[serde(flatten)]
    evaluation: Evaluation,
    #[serde(skip_serializing_if = "Option::is_none")]
    top_k: Option<usize>,
    #[serde(skip_serializing_if = "Option::is_none")]
    masked_lm_top_k_accuracy: Option<f64>,
}

impl Figures {
    fn line(&self) -> String {
        let line = evaluation_line(&self.evaluation);
        match (self.top_k, self.masked_lm_top_k_accuracy) {
            (Some(k), Some(share)) => format!("{line}; top-{k} accuracy {:.1} %", 100.0 * share),
            _ => line,
        }
    }

    fn table(&self) -> Table {
        let mut figures = evaluation_figures(&self.evaluation);
        if let (Some(k), Some(share)) = (self.top_k, self.masked_lm_top_k_accuracy) {
            figures.push((format!("masked-LM top-{k} accuracy (%)"), format!("{:.1}", 100.0 * share)));
        }
        Table::from_figures(figures)
    }
}
