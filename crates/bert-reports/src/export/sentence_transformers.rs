//! The files that turn an exported encoder into a model of sentence-transformers, which text-embeddings-inference loads too.

use bert_inference::Error;
use bert_inference::Pooling;
use bert_model::BertConfig;
use bert_storage::StagedFolder;
use serde_json::json;

/// Names that [`write`] writes in the folder.
pub(super) const FILES: [&str; 3] = ["modules.json", "sentence_bert_config.json", POOLING];

/// The folder of the pooling module.
const POOLING: &str = "1_Pooling";

/// Writes the list of modules, the maximum length and the pooling module.
///
/// # Errors
/// When a file cannot be written.
pub(super) fn write(folder: &StagedFolder<'_>, config: &BertConfig, pooling: Pooling) -> Result<(), Error> {
    let module = |index: u32, path: &str, class: &str| json!({ "idx": index, "name": index.to_string(), "path": path, "type": format!("sentence_transformers.models.{class}") });
    folder.write_json("modules.json", &[module(0, "", "Transformer"), module(1, POOLING, "Pooling")])?;
    let length = json!({ "max_seq_length": config.max_position_embeddings, "do_lower_case": false });
    folder.write_json("sentence_bert_config.json", &length)?;
    let pooling_folder = folder.inside(POOLING);
    pooling_folder.create()?;
    let settings = json!({
        "word_embedding_dimension": config.hidden_size,
        "pooling_mode_cls_token": pooling == Pooling::Cls,
        "pooling_mode_mean_tokens": pooling == Pooling::Mean,
        "pooling_mode_max_tokens": false,
        "pooling_mode_mean_sqrt_len_tokens": false,
    });
    pooling_folder.write_json("config.json", &settings)?;
    Ok(())
}
