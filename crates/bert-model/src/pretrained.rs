//! Reads and writes a whole Hugging Face folder: configuration, weights and tokenizer files.
//!
//! Folders are read as `transformers` or [`save_pretrained`] writes them: `config.json` and `model.safetensors`.
//! [`save_pretrained`] hands the files one by one to a sink that decides how they reach the disk. Checkpoints of a
//! training run also hold moments and counters, which are `bert-trainer`'s.

use std::io;
use std::path::{Path, PathBuf};

use burn::module::Module;
use burn::tensor::Device;

use crate::architecture::Architecture;
use crate::config::BertConfig;
use crate::error::Error;
use crate::foreign_weights::{refuse_foreign, refuse_other_weights};
use crate::load_report::LoadReport;
use crate::loading::{LoadPolicy, load_named_tensors};
use crate::parameters::NamedTensors;
use crate::snapshot::Snapshot;
use crate::tokenizer_files::Vocabulary;
use crate::weights::{is_pickle, read_safetensors};

/// Takes a file's name and bytes.
pub type Sink<'a> = dyn FnMut(&str, &[u8]) -> io::Result<()> + 'a;

/// Hands out every file of a folder: the tokenizer's, `model.safetensors`, and `config.json` last.
///
/// # Errors
///
/// [`Error::Io`] with the file's name; [`Error::VocabularySize`], [`Error::MissingSpecialToken`] and
/// [`Error::ParameterNotFinite`] before anything is handed out.
pub fn save_pretrained<M: Architecture>(
    sink: &mut Sink<'_>,
    model: &M,
    config: &BertConfig,
    vocabulary: Option<Vocabulary<'_>>,
) -> Result<(), Error> {
    let mut files = files_beside_weights::<M>(config, vocabulary)?;
    let snapshot = Snapshot::of(model);
    snapshot.check_finite()?;
    let mut bytes = Vec::with_capacity(snapshot.file_bytes() as usize);
    snapshot.write(&mut bytes).expect("memory takes all");
    files.insert(files.len() - 1, (WEIGHTS, bytes));
    hand_out(sink, files)
}

/// The weights' name in a folder.
pub const WEIGHTS: &str = "model.safetensors";

/// Every file of a folder but the weights: the tokenizer's, and `config.json` last.
///
/// # Errors
///
/// [`Error::VocabularySize`], [`Error::MissingSpecialToken`].
pub fn files_beside_weights<M: Architecture>(
    config: &BertConfig,
    vocabulary: Option<Vocabulary<'_>>,
) -> Result<Vec<(&'static str, Vec<u8>)>, Error> {
    let mut files = Vec::new();
    if let Some(vocabulary) = vocabulary {
        let words = vocabulary.words.len();
        // The table may be padded to a round number of rows, but each word needs one.
        if words > config.vocab_size {
            let vocab_size = config.vocab_size;
            return Err(Error::VocabularySize { words, vocab_size });
        }
        files = vocabulary.files()?;
    }
    files.push(("config.json", config.to_json_string(M::NAME).into_bytes()));
    Ok(files)
}

/// Hands out files in their order.
pub(crate) fn hand_out(sink: &mut Sink<'_>, files: Vec<(&'static str, Vec<u8>)>) -> Result<(), Error> {
    for (name, bytes) in files {
        sink(name, &bytes).map_err(|source| Error::Io { path: name.into(), source })?;
    }
    Ok(())
}

/// A sink that creates the folder and writes plain files into it.
pub fn folder_sink(dir: impl Into<PathBuf>) -> impl FnMut(&str, &[u8]) -> io::Result<()> {
    let dir = dir.into();
    move |name, bytes| {
        std::fs::create_dir_all(&dir)?;
        std::fs::write(dir.join(name), bytes)
    }
}

/// The folder's `config.json`.
///
/// # Errors
///
/// [`Error::MissingFile`]; otherwise as [`BertConfig::read`].
pub fn read_pretrained_config(dir: &Path) -> Result<BertConfig, Error> {
    let path = dir.join("config.json");
    if !path.is_file() {
        return Err(Error::MissingFile { path: dir.into(), file: "config.json" });
    }
    BertConfig::read(path)
}

/// The folder's weights.
///
/// # Errors
///
/// [`Error::PickledWeights`], [`Error::ShardedWeights`] and [`Error::ForeignWeights`] if they are there but not in one
/// safetensors file, [`Error::AdapterWithoutEncoder`] and [`Error::MissingFile`] if they are not there; otherwise as
/// [`read_safetensors`].
pub fn read_pretrained_tensors(dir: &Path) -> Result<NamedTensors, Error> {
    let path = dir.join(WEIGHTS);
    if path.is_file() {
        return read_safetensors(&path);
    }
    refuse_other_weights(dir)?;
    refuse_adapter(dir)?;
    Err(Error::MissingFile { path: dir.into(), file: WEIGHTS })
}

/// Refuses a folder that holds an adapter and no model.
///
/// # Errors
///
/// [`Error::AdapterWithoutEncoder`].
pub fn refuse_adapter(dir: &Path) -> Result<(), Error> {
    match crate::adapter::is_adapter_folder(dir) {
        true => Err(Error::AdapterWithoutEncoder(dir.into())),
        false => Ok(()),
    }
}

/// Refuses a file where a folder is expected; a pickle, by its name or its first bytes, and a file of another framework
/// with how to convert it.
///
/// # Errors
///
/// [`Error::PickledWeights`], [`Error::ForeignWeights`], [`Error::NotAFolder`]; [`Error::Io`] when it cannot be read.
pub fn refuse_weights_file(path: &Path) -> Result<(), Error> {
    if !path.is_file() {
        return Ok(());
    }
    refuse_foreign(path)?;
    let path = path.to_path_buf();
    let by_name =
        path.extension().is_some_and(|end| ["bin", "pt", "pth", "pkl", "ckpt"].iter().any(|x| end == *x));
    let mut start = [0; 8];
    let read = std::fs::File::open(&path).and_then(|mut file| io::Read::read(&mut file, &mut start));
    match read {
        Err(source) => Err(Error::Io { path, source }),
        Ok(read) if by_name || is_pickle(&start[..read]) => Err(Error::PickledWeights(path)),
        Ok(_) => Err(Error::NotAFolder(path)),
    }
}

/// Puts the folder's weights into a model; `FreshHeads` leaves heads that are not there as they are.
///
/// # Errors
///
/// As [`read_pretrained_tensors`] and [`load_named_tensors`].
pub fn load_pretrained_weights<M: Module>(
    model: M,
    dir: &Path,
    policy: LoadPolicy,
) -> Result<(M, LoadReport), Error> {
    load_named_tensors(model, read_pretrained_tensors(dir)?, policy)
}

/// A model from a folder; `labels` turns the folder's configuration into the model's
/// ([`BertConfig::with_labels`], or the identity). Under `FreshHeads`, heads that are not there are drawn from
/// `seed`.
///
/// # Errors
///
/// As [`read_pretrained_config`] and [`load_pretrained_weights`].
pub fn load_pretrained<M: Architecture>(
    dir: &Path,
    labels: impl FnOnce(BertConfig) -> BertConfig,
    policy: LoadPolicy,
    seed: u64,
    device: &Device,
) -> Result<(M, BertConfig, LoadReport), Error> {
    let config = labels(read_pretrained_config(dir)?);
    config.validate()?;
    let (model, report) = load_pretrained_weights(M::new(&config, seed, device), dir, policy)?;
    Ok((model, config, report))
}
