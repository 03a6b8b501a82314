//! Tests of the model: against `transformers`, for internal consistency, and with damaged files.

mod adapter_libraries; // adapters against `adapters` and PEFT (ignored: needs BERT_PYTHON)
mod adapters; // forward, gradient and folders of adapters and LoRA
mod common; // goldens, comparisons, small models
mod config; // config.json, presets, counts
mod export; // transformers loads the saved folders (ignored: needs BERT_PYTHON)
mod folders; // checkpoint folders: tensor names, round trips, every error
mod goldens; // every hidden state, logit, loss and gradient, and ten steps of training
mod initialization; // previous-next and bigram initialization in untrained models
mod network;
mod published_forms; // checkpoints of PyTorch and TensorFlow against transformers // dropout, padding, LayerNorm, loss of a fresh model
