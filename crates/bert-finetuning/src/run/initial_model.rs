//! Creates the model that a run starts from, with the checkpoint's weights or new ones (`--random-init`).

use std::path::Path;

use bert_data::DataSet;
use bert_inference::{ModelTokenizer, StopFlag};
use bert_model::{Architecture, BertConfig, LoadPolicy, load_named_tensors, read_pretrained_tensors};
use bert_training::{DataLoader, Error, FreshWeights, InitializationChoice};

use crate::config::FinetuneConfig;
use crate::events::FinetuneEvent;
use crate::kinds::FinetuneTask;
use crate::setup::{BaseCheckpoint, Setup};

/// Prefixes of all tensors that a fine-tuning adds to an encoder.
const TUNED_HEADS: [&str; 3] = ["classifier.", "head.", "qa_outputs."];

/// Creates the initial weights for `--random-init`.
fn fresh_weights(
    config: &FinetuneConfig,
    text: &ModelTokenizer,
    model: &BertConfig,
    seed: u64,
    on_event: &mut dyn FnMut(FinetuneEvent),
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
    let mut on_event = |event| on_event(FinetuneEvent::Counting(event));
    choice.weights(&[(data, 1.0)], model, seed, &StopFlag::new(), &mut on_event).map(Some)
}

/// The model that a run starts from, and its configuration.
pub(crate) struct InitialModel<M> {
    pub(crate) model: M,
    pub(crate) config: BertConfig,
}

/// Returns the initial model of the run with this seed.
pub(crate) fn initial_model<T: FinetuneTask>(
    task: &T,
    seed: u64,
    on_event: &mut dyn FnMut(FinetuneEvent),
) -> Result<InitialModel<T::Model>, Error> {
    let Setup { config, checkpoint, .. } = task.setup();
    let BaseCheckpoint { folder, tokenizer, device, .. } = checkpoint;
    let mut model_config = task.model_config(checkpoint.model_config.clone());
    model_config.compute = checkpoint.compute;
    let model = match fresh_weights(config, tokenizer, &model_config, seed, on_event)? {
        Some(fresh) => T::Model::initialized(&model_config, fresh.initialization(), seed, device)?,
        None => {
            let model = T::Model::new(&model_config, seed, device);
            let is_first = seed == config.seeds[0];
            let mut warn = |text: String| {
                if is_first {
                    on_event(FinetuneEvent::Warning(text));
                }
            };
            let (model, fresh) = load_encoder(model, folder, &mut warn)?;
            task.prepared(model, &fresh.iter().collect::<Vec<_>>(), seed)?
        }
    };
    let model = config.with_trained_layers(model, model_config.num_hidden_layers)?;
    Ok(InitialModel { model, config: model_config })
}

/// Returns the model with the encoder of a checkpoint and a new head, and the names of the encoder's tensors that the
/// checkpoint lacks.
fn load_encoder<M: Architecture>(
    model: M,
    checkpoint: &Path,
    warn: &mut dyn FnMut(String),
) -> Result<(M, Vec<String>), Error> {
    let mut tensors = read_pretrained_tensors(checkpoint)?;
    // Discard the heads of an earlier fine-tuning: their outputs belong to another task, even if the shapes match.
    let is_head = |name: &String| TUNED_HEADS.iter().any(|head| name.starts_with(head));
    if tensors.extract_if(.., |name, _| is_head(name)).count() > 0 {
        let text = "the head of the checkpoint is from an earlier fine-tuning; it is replaced by a new head";
        warn(text.to_string());
    }
    let (model, loaded) = load_named_tensors(model, tensors, LoadPolicy::FreshHeads)?;
    let fresh: Vec<String> = loaded.missing.into_iter().filter(|name| name.starts_with("bert.")).collect();
    if !fresh.is_empty() {
        warn(format!("not in the checkpoint, so initialized at random: {fresh:?}"));
    }
    Ok((model, fresh))
}
