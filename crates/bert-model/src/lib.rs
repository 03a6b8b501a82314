//! BERT in [burn]: the encoder, the pre-training heads, the classifier, and Hugging Face's folder format.
//!
//! In: a [`BertConfig`] and batches of token ids as tensors. Out: logits, losses, named parameters, and
//! the bytes of `config.json`, `model.safetensors` and the tokenizer files. Not for reading text, for
//! optimizing, or for choosing a device: those are `bert-data`'s and `bert-trainer`'s.
//!
//! What stands where, in the order of the data:
//!
//! | room | what |
//! |---|---|
//! | [`config`] | the sizes: `config.json`, the released presets, parameter and FLOP counts |
//! | [`mod@dropout`] | dropout from a counter, and whether a forward pass drops at all ([`Mode`]) |
//! | [`embeddings`] | words + segments + positions |
//! | [`attention`] | multi-head self-attention |
//! | [`encoder`] | the layers |
//! | [`architecture`] | what all of the following have in common |
//! | [`model`] | embeddings, encoder and pooler: [`BertModel`] |
//! | [`pretraining`] | the masked-LM and next-sentence heads: [`BertForPreTraining`] |
//! | [`classification`] | sequence classification: [`BertForSequenceClassification`] |
//! | [`feature_head`] | an MLP or a recurrent network on a frozen encoder |
//! | [`question_answering`] | where in a text the answer stands: [`BertForQuestionAnswering`] |
//! | [`token_classification`] | a class for every token: [`BertForTokenClassification`] |
//! | [`multiple_choice`] | a score for every choice: [`BertForMultipleChoice`] |
//! | [`several_tasks`] | several classifiers on one encoder |
//! | [`adapter`] | adapters and LoRA: a few weights that learn while the encoder stays |
//! | [`loss`] | the losses and counts of right answers |
//! | [`init`] | initial values: the reference's, neighbour heads, counts |
//! | [`parameters`] | parameters by their published names |
//! | [`loading`] | those parameters out of a checkpoint, with an account of what did not fit |
//! | [`weights`] | those parameters as bytes |
//! | [`pretrained`] | a whole Hugging Face folder, in and out |
//! | [`tokenizer_files`] | the tokenizer files of such a folder |
//!
//! The reference for behaviour is google-research/bert (`modeling.py`, `run_pretraining.py`); the
//! reference for names and files is `transformers`. `tests/golden` holds the numbers.

pub mod adapter;
pub mod architecture;
pub mod attention;
pub mod classification;
pub mod config;
mod config_json;
pub mod dropout;
pub mod embeddings;
pub mod encoder;
pub mod error;
pub mod feature_head;
pub mod init;
pub mod loading;
pub mod loss;
pub mod model;
pub mod multiple_choice;
pub mod parameters;
pub mod pretrained;
pub mod pretraining;
pub mod question_answering;
pub mod several_tasks;
pub mod token_classification;
pub mod tokenizer_files;
pub mod weights;

pub use adapter::{
    AdapterConfig, AdapterFolder, AdapterOrigin, BottleneckForm, FusionFolder, is_adapter_folder,
    is_adapter_parameter, is_fusion_folder, is_fusion_parameter, read_adapter, read_fusion, save_adapter,
    save_fusion,
};
pub use architecture::Architecture;
pub use classification::BertForSequenceClassification;
pub use config::{BertConfig, HiddenAct, Preset};
pub use dropout::{DropoutKey, Mode, Site, dropout};
pub use error::Error;
pub use feature_head::{BertWithFeatureHead, FeatureHeadKind};
pub use init::{Initialization, LogBilinear, LogBilinearShape, LogBilinearSide};
pub use loading::{LoadPolicy, LoadReport, load_named_tensors};
pub use loss::{
    LossNormalizer, PretrainingLoss, PretrainingTargets, classification_loss, correct_count, cross_entropy,
    cross_entropy_sum, pretraining_loss, regression_loss,
};
pub use model::{BertInput, BertModel, BertOutput, BertStates};
pub use multiple_choice::BertForMultipleChoice;
pub use parameters::{NamedTensors, hf_name, map_parameters, named_parameters, to_named_tensors};
pub use pretrained::{
    Sink, folder_sink, load_pretrained_classifier, load_pretrained_pretraining, load_pretrained_weights,
    read_pretrained_config, read_pretrained_tensors, refuse_adapter, refuse_weights_file, save_pretrained,
};
pub use pretraining::{BertForPreTraining, PretrainingInput, PretrainingOutput, PretrainingScores};
pub use question_answering::{BertForQuestionAnswering, SpanLogits, span_loss};
pub use several_tasks::BertForSeveralTasks;
pub use token_classification::{BertForTokenClassification, token_loss};
pub use tokenizer_files::Vocabulary;
pub use weights::{named_tensors_from_bytes, named_tensors_to_bytes, read_safetensors, to_safetensors_bytes};
