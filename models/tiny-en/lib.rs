//! The files of `tiny-en`, a small English BERT model.

/// The name and the content of each file of the model's folder.
pub const FILES: &[(&str, &[u8])] = &[
    ("README.md", include_bytes!("README.md")),
    ("vocab.txt", include_bytes!("vocab.txt")),
    ("tokenizer.json", include_bytes!("tokenizer.json")),
    ("tokenizer_config.json", include_bytes!("tokenizer_config.json")),
    ("special_tokens_map.json", include_bytes!("special_tokens_map.json")),
    ("model_description.json", include_bytes!("model_description.json")),
    ("model.safetensors", include_bytes!("model.safetensors")),
    ("config.json", include_bytes!("config.json")),
];
