//! Creates the model that a run starts from, with the checkpoint's weights or new ones (`--random-init`).

use bert_data::DataSet;
use bert_model::{Architecture, BertConfig, LoadPolicy, load_named_tensors, read_pretrained_tensors};

use crate::data_loader::DataLoader;
use crate::encoding::model_tokenizer::ModelTokenizer;
use crate::error::Error;
use crate::finetune::config::FinetuneConfig;
use crate::finetune::events::FinetuneEvent;
use crate::finetune::model::pretrained::{Opened, Setup};
use crate::finetune::objectives::Objective;
use crate::initialization::{FreshWeights, InitializationChoice};

/// Prefixes of all tensors that a fine-tuning adds to an encoder.
const TUNED_HEADS: [&str; 3] = ["classifier.", "head.", "qa_outputs."];

/// Creates the initial weights for `--random-init`.
fn fresh_weights(
    config: &FinetuneConfig,
    text: &ModelTokenizer,
    model: &BertConfig,
    seed: u64,
) -> Result<Option<FreshWeights>, Error> {
    if !config.random_init {
        return Ok(None);
    }
    let choice = config.initialization.unwrap_or(InitializationChoice::Reference);
    let Some(data) = &config.initialization_data else {
        return FreshWeights::uncounted(choice).map(Some);
    };
    let data = DataSet::open(data)?;
    DataLoader::new(data.clone(), 0)?.check_fits(model, Some(text))?;
    FreshWeights::new(choice, &data, model, seed).map(Some)
}

/// Returns the initial model of the run with this seed.
///
/// # Errors
/// When the weights cannot be read or do not fit the model.
pub(crate) fn start_model<O: Objective>(
    objective: &O,
    seed: u64,
    tell: &mut dyn FnMut(FinetuneEvent),
) -> Result<(O::Model, BertConfig), Error> {
    let Setup { config, opened, .. } = objective.setup();
    let Opened { start, text, device, .. } = opened;
    let mut model_config = objective.model_config(opened.model.clone());
    model_config.compute = opened.compute;
    if let Some(fresh) = fresh_weights(config, text, &model_config, seed)? {
        let model = O::Model::initialized(&model_config, fresh.initialization(), seed, device)?;
        return Ok((config.with_trained_layers(model, model_config.num_hidden_layers)?, model_config));
    }
    let model = O::Model::new(&model_config, seed, device);
    let mut tensors = read_pretrained_tensors(start)?;
    let first = seed == config.seeds[0];
    // Discard the heads of an earlier fine-tuning: their outputs belong to another task, even if the shapes match.
    let is_head = |name: &String| TUNED_HEADS.iter().any(|head| name.starts_with(head));
    let heads = tensors.extract_if(.., |name, _| is_head(name)).count();
    if heads > 0 && first {
        let text = "the head of the checkpoint is from an earlier fine-tuning; it is replaced by a new head";
        tell(FinetuneEvent::Warning(text.to_string()));
    }
    let (model, loaded) = load_named_tensors(model, tensors, LoadPolicy::FreshHeads)?;
    let fresh: Vec<&String> = loaded.missing.iter().filter(|name| name.starts_with("bert.")).collect();
    if !fresh.is_empty() && first {
        tell(FinetuneEvent::Warning(format!("not in the checkpoint, so initialized at random: {fresh:?}")));
    }
    let model = objective.prepared(model, &fresh, seed)?;
    Ok((config.with_trained_layers(model, model_config.num_hidden_layers)?, model_config))
}
