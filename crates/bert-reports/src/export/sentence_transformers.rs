//! The files that turn an exported encoder into a model of sentence-transformers, which text-embeddings-inference loads too.

use std::path::Path;

use bert_inference::json_file::read_json;
use bert_inference::{ModelDescription, Pooling};
use bert_model::BertConfig;
use bert_storage::{StagedFolder, exists};
use bert_training::Error;
use serde_json::{Value, json};

/// Names of the files and folders that [`SentenceFiles::write`] creates.
pub(super) const FILES: [&str; 5] =
    ["modules.json", "sentence_bert_config.json", SETTINGS, POOLING, NORMALIZE];

/// Prompts and the similarity of vectors.
const SETTINGS: &str = "config_sentence_transformers.json";
/// The folder of the pooling module.
const POOLING: &str = "1_Pooling";
/// The folder of the module that divides vectors by their Euclidean norm.
const NORMALIZE: &str = "2_Normalize";

/// The modules of a sentence model.
pub(super) struct SentenceFiles {
    pub(super) pooling: Pooling,
    /// The settings of the source.
    settings: Option<Value>,
}

impl SentenceFiles {
    /// Returns the files of an export, with the pooling `asked`, else the pooling of the folder, else the mean.
    /// Returns `None` if no sentence model is requested (`is_asked`) and the folder has none.
    ///
    /// # Errors
    /// Fails when the folder has modules that cannot be exported.
    pub(super) fn new(
        folder: &Path,
        description: &ModelDescription,
        is_asked: bool,
        asked: Option<Pooling>,
    ) -> Result<Option<Self>, Error> {
        let is_stated = description.pooling.is_some() || !description.other_modules.is_empty();
        if !is_asked && !is_stated {
            return Ok(None);
        }
        let pooling = match asked {
            Some(pooling) => pooling,
            None if is_stated => description.sentence_pooling()?,
            None => Pooling::Mean,
        };
        let settings = folder.join(SETTINGS);
        let settings = if exists(&settings)? { Some(read_json(&settings)?) } else { None };
        Ok(Some(Self { pooling, settings }))
    }

    /// Writes the list of modules, the maximum length, the settings and the modules.
    ///
    /// # Errors
    /// Fails when a file cannot be written.
    pub(super) fn write(
        self,
        folder: &StagedFolder<'_>,
        config: &BertConfig,
        description: &ModelDescription,
    ) -> Result<(), Error> {
        let module = |index: usize, path: &str, class: &str| {
            json!({
                "idx": index, "name": index.to_string(), "path": path,
                "type": format!("sentence_transformers.models.{class}")
            })
        };
        let mut modules = vec![module(0, "", "Transformer"), module(1, POOLING, "Pooling")];
        if description.normalize {
            modules.push(module(2, NORMALIZE, "Normalize"));
        }
        folder.write_json("modules.json", &modules)?;
        let positions = config.max_position_embeddings;
        let length = description.max_seq_length.unwrap_or(positions);
        let length = json!({ "max_seq_length": length, "do_lower_case": false });
        folder.write_json("sentence_bert_config.json", &length)?;
        let settings = self.settings.unwrap_or_else(
            || json!({ "prompts": {}, "default_prompt_name": null, "similarity_fn_name": "cosine" }),
        );
        folder.write_json(SETTINGS, &settings)?;
        let write = |module: &str, settings: Value| -> Result<(), Error> {
            let module = folder.inside(module);
            module.create()?;
            module.write_json("config.json", &settings)?;
            Ok(())
        };
        if description.normalize {
            write(NORMALIZE, json!({}))?;
        }
        let pooling = self.pooling;
        let settings = json!({
            "word_embedding_dimension": config.hidden_size,
            "pooling_mode_cls_token": pooling == Pooling::Cls,
            "pooling_mode_mean_tokens": pooling == Pooling::Mean,
            "pooling_mode_max_tokens": false,
            "pooling_mode_mean_sqrt_len_tokens": false,
        });
        write(POOLING, settings)
    }
}
