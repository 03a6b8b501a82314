//! Applies trained BERT models to texts.
//!
//! In this example, a thread that owns a model serves other threads with texts in memory. [`Classifier`], [`Answerer`]
//! and [`Tagger`] take [`Example`](bert_tasks::Example)s in the same way:
//!
//! ```
//! use std::sync::mpsc::{Sender, channel};
//!
//! use bert_inference::{Error, Extractor, ModelOptions};
//!
//! # let folder = tempfile::tempdir().unwrap();
//! # let folder = folder.path();
//! # {
//! #     use bert_model::{Architecture, BertConfig, BertModel, FolderTokenizer, Preset, folder_sink, save_pretrained};
//! #     let words: Vec<String> = "[PAD] [UNK] [CLS] [SEP] [MASK] a warm day".split(' ').map(String::from).collect();
//! #     let config = BertConfig::preset(Preset::Tiny, words.len());
//! #     let model = BertModel::new(&config, 5, &burn::tensor::Device::flex());
//! #     save_pretrained(&mut folder_sink(folder), &model, &config, Some(FolderTokenizer::uncased(&words, 512)))?;
//! # }
//! // `folder` is a model folder.
//! let extractor = Extractor::open(folder, ModelOptions::default())?.with_sentence_pooling()?;
//! let (requests, waiting) = channel::<(String, Sender<Vec<f32>>)>();
//! let service = std::thread::spawn(move || -> Result<(), Error> {
//!     for (text, reply) in waiting {
//!         let mut lines = extractor.encode(&[text.as_str()])?;
//!         // The client may have gone.
//!         drop(reply.send(lines.remove(0).layers.remove(0)));
//!     }
//!     Ok(())
//! });
//!
//! let (reply, vector) = channel();
//! requests.send(("a warm day".to_string(), reply)).expect("the service runs");
//! assert_eq!(vector.recv().expect("a vector").len(), 128);
//! drop(requests);
//! service.join().expect("no panic")?;
//! # Ok::<(), Error>(())
//! ```
//!
//! | task | type or function | folder or file |
//! |---|---|---|
//! | the answer of any fine-tuned head to each text | [`Predictor`], [`predict`], [`predict_texts`] | `prediction/` |
//! | labels with probabilities, or scores | [`Classifier`] | `prediction/classifier.rs` |
//! | answers to questions, quoted from a text | [`Answerer`] | `prediction/question_answerer.rs` |
//! | a tag for every word | [`Tagger`] | `prediction/token_tagger.rs` |
//! | hidden states of every token | [`Extractor`] | `features/hidden_states.rs` |
//! | word and sentence embeddings by principal components | [`Embeddings`] | `features/embeddings.rs` |
//! | the words or texts nearest to a query | [`NeighbourSearch`] | `features/neighbours.rs` |
//! | attention weights, queries and keys of every head | [`Attention`] | `attention/` |
//! | the most probable words at each `[MASK]` | [`MaskFiller`] | `fill_mask.rs` |
//! | the pseudo-log-likelihood of sentences, and minimal pairs | [`MaskFiller::likelihoods`] | `likelihood.rs` |
//! | the predictions that flip when one word changes, and the effect of every word | [`Prober`] | `probe/` |
//!
//! Texts come from a [`TextSource`] in windows, so memory stays bounded; the crate `bert-task-files` has sources that
//! read files. Batches are sorted by length within a window, and results keep the order of the input.
//!
//! `compute/` opens the device ([`DeviceName`]), `encoding/` tokenizes and pads texts, and `model_dir/` finds and opens
//! the folders of models: [`resolve_model_folder`] accepts a Hugging Face folder, a checkpoint, a run, a fine-tuning,
//! or the name of a model of the Hugging Face Hub. The training crates use these folders too.
//!
//! The library prints nothing and never exits the process: it returns an [`Error`], which provides the exit code for a
//! program.
//!
//! # Features
//!
//! | feature | content |
//! |---|---|
//! | `flex` (default) | burn's pure-Rust CPU backend |
//! | `hub` | models of the Hugging Face Hub that are not in its cache are downloaded |
//! | `cli` | the options of models and devices as clap flags |
//! | `builtin-models` | the small English models `tiny-en` and `mini-en` |
//! | `chinese` | words of Chinese text, for attention by word |
//! | `ndarray` | burn's older CPU backend |
//! | `cuda` | the CUDA backend |
//! | `wgpu` | GPUs of all vendors; `vulkan` and `metal` compile kernels to SPIR-V and MSL |

mod attention;
mod compute;
mod encoding;
mod error;
mod features;
mod fill_mask;
mod likelihood;
mod model_dir;
mod prediction;
mod pretrained_heads;
mod probe;

#[doc(no_inline)]
pub use bert_tasks::{InputText, TextSource, Window, Windows};

pub use crate::attention::{Attention, AttentionOptions, NamedAttention, QueriesAndKeys};
pub use crate::compute::compute_args::ComputeArgs;
pub use crate::compute::device::{DeviceName, KernelChoice};
pub use crate::compute::precision::PrecisionChoice;
pub use crate::compute::stop_flag::StopFlag;
pub use crate::encoding::examples::PaddedBatch;
pub use crate::encoding::model_tokenizer::ModelTokenizer;
pub use crate::encoding::squad_args::SquadArgs;
pub use crate::error::{Class, Error};
pub use crate::features::embeddings::{Embeddings, ProjectedPoint, Projection};
pub use crate::features::hidden_states::{Extractor, LineFeatures, PooledVectors, write_json_lines};
pub use crate::features::neighbours::{Neighbour, NeighbourSearch, Neighbours};
pub use crate::fill_mask::{FilledMask, FilledWord, MaskFiller};
pub use crate::likelihood::{Likelihood, PairAccuracy, ScoredPair};
#[doc(hidden)]
pub use crate::model_dir::checkpoint::RetentionPolicy;
pub use crate::model_dir::checkpoint::{LoaderPosition, OptimizerState, OptimizerValues, ValidCheckpoint};
pub use crate::model_dir::description::{
    Activation, DefaultLength, EncodingLength, ModelDescription, Pooling,
};
pub use crate::model_dir::loaded_model::MemoryModel;
pub use crate::model_dir::model_folder::{ModelFiles, resolve_model_folder, resolve_tuned_folder};
pub use crate::model_dir::model_options::ModelOptions;
pub use crate::model_dir::resolved::Resolved;
pub use crate::model_dir::seed_models::{SeedModel, seed_models};
pub use crate::prediction::classifier::{Answer, Classifier};
pub use crate::prediction::question_answerer::{Answerer, TextAnswer};
pub use crate::prediction::token_tagger::{NamedEntity, TaggedText, Tagger};
pub use crate::prediction::{Predictions, Predictor, predict, predict_texts};
pub use crate::probe::{
    Guess, MaskedWord, Prediction, Probe, Prober, Replacement, Saliency, Subject, WordSaliency,
};

// The other crates of the workspace use these items, which may change in any version.
#[doc(hidden)]
#[cfg(feature = "cli")]
#[cfg(feature = "cli")]
pub use crate::compute::compute_args::{HelpGroup, with_heading};
#[doc(hidden)]
pub use crate::compute::{
    device::DEVICE_HELP, device_rates, device_survey::DeviceInfo, environment, host_tensors, memory,
};
#[doc(hidden)]
pub use crate::encoding::{
    examples::{self, ClassificationBatch, Features},
    model_tokenizer::check_segments,
    questions::EncodedQuestions,
    sentences::EncodedSentences,
};
#[doc(hidden)]
pub use crate::error::{check, corrupt, damaged, mismatch, results_not_written};
#[doc(hidden)]
pub use crate::model_dir::{
    builtin_model, checkpoint, encoder_record, hub_model, json_file, loaded_model,
    model_folder::present_folder, seed_models::seed_folder,
};
#[doc(hidden)]
pub use crate::pretrained_heads::{RequiredHeads, load_pretraining};
