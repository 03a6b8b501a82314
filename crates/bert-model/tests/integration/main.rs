//! The model against `transformers`, against itself, and against broken files.

mod adapter_libraries; // the same against `adapters` and PEFT (ignored: needs BERT_PYTHON)
mod adapters; // forward, gradient and folders of adapters and LoRA
mod common; // goldens, closeness, small models
mod config; // config.json, presets, counts
mod export; // what transformers says about a folder of ours (ignored: needs BERT_PYTHON)
mod folders; // checkpoint folders: names old and new, round trips, every error
mod goldens; // every hidden state, logit, loss and gradient, and ten steps of training
mod initialization; // neighbour heads and counts in untrained models
mod network; // facts of the network: dropout, padding, LayerNorm, fresh loss
