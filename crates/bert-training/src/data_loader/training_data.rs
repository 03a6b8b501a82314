//! [`TrainingData`], the value of `--data`: one data folder, or several with weights.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

/// A data folder and its weight.
#[derive(Clone, Debug, PartialEq)]
pub struct WeightedFolder {
    /// The folder, or its URL.
    pub folder: PathBuf,
    /// Relative weight of the folder's samples; positive. The weights of all folders need not add up to 1.
    pub weight: f64,
}

/// The data folders of a run. The value is written as `FOLDER`, or as a list of `FOLDER=WEIGHT`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(try_from = "Written", into = "Written")]
pub struct TrainingData {
    folders: Vec<WeightedFolder>,
}

/// The serialized form, as in JSON and TOML.
#[derive(Serialize, Deserialize)]
#[serde(untagged)]
enum Written {
    One(PathBuf),
    Several(Vec<PathBuf>),
}

impl TrainingData {
    /// Parses the values of `--data`. A single folder needs no weight.
    ///
    /// # Errors
    /// Fails if there are no values, or if a weight is missing or not positive; the error then names the
    /// value.
    pub fn parse(values: Vec<PathBuf>) -> Result<Self, String> {
        if let [folder] = &values[..] {
            return Ok(folder.clone().into());
        }
        let weighted = |value: &PathBuf| {
            let parts = value.to_str().and_then(|text| text.rsplit_once('='));
            let weight = parts.and_then(|(_, weight)| weight.parse::<f64>().ok());
            match (parts, weight.filter(|weight| *weight > 0.0 && weight.is_finite())) {
                (Some((folder, _)), Some(weight)) => Ok(WeightedFolder { folder: folder.into(), weight }),
                _ => Err(format!(
                    "{}: each of several data folders needs a positive weight: `.data A=0.8` `.data B=0.2`",
                    value.display()
                )),
            }
        };
        let folders: Vec<WeightedFolder> = values.iter().map(weighted).collect::<Result<_, _>>()?;
        if folders.is_empty() { Err("no data folder".to_string()) } else { Ok(Self { folders }) }
    }

    /// Returns the first folder, whose vocabulary and manifest describe the run.
    pub fn first(&self) -> &Path {
        &self.folders[0].folder
    }

    /// Returns all folders with their weights.
    pub fn folders(&self) -> &[WeightedFolder] {
        &self.folders
    }

    /// Returns the share of each folder; they add up to 1.
    pub fn shares(&self) -> Vec<f64> {
        let sum: f64 = self.folders.iter().map(|folder| folder.weight).sum();
        self.folders.iter().map(|folder| folder.weight / sum).collect()
    }
}

impl Default for TrainingData {
    fn default() -> Self {
        PathBuf::new().into()
    }
}

impl<P: Into<PathBuf>> From<P> for TrainingData {
    fn from(folder: P) -> Self {
        Self { folders: vec![WeightedFolder { folder: folder.into(), weight: 1.0 }] }
    }
}

impl TryFrom<Written> for TrainingData {
    type Error = String;

    fn try_from(written: Written) -> Result<Self, String> {
        match written {
            Written::One(folder) => Ok(folder.into()),
            Written::Several(folders) => Self::parse(folders),
        }
    }
}

impl From<TrainingData> for Written {
    fn from(data: TrainingData) -> Self {
        if let [folder] = &data.folders[..] {
            return Self::One(folder.folder.clone());
        }
        let written = data.folders.into_iter().map(|WeightedFolder { folder, weight }| {
            let mut value: OsString = folder.into();
            value.push(format!("={weight}"));
            value.into()
        });
        Self::Several(written.collect())
    }
}

/// The name of the flag.
#[cfg(feature = "cli")]
const FLAG: &str = "data";

#[cfg(feature = "cli")]
impl clap::Args for TrainingData {
    fn augment_args(command: clap::Command) -> clap::Command {
        let help = "Data folder from make-pretrain-data, or its URL. Several folders with weights are mixed: --data A=0.8 \
                    --data B=0.2";
        let flag = clap::Arg::new(FLAG).long(FLAG).value_name("DIR|URL").help(help).required(true);
        let parser = clap::builder::PathBufValueParser::new();
        command.arg(flag.value_parser(parser).action(clap::ArgAction::Append))
    }

    fn augment_args_for_update(command: clap::Command) -> clap::Command {
        Self::augment_args(command)
    }
}

#[cfg(feature = "cli")]
impl clap::FromArgMatches for TrainingData {
    fn from_arg_matches(matches: &clap::ArgMatches) -> Result<Self, clap::Error> {
        let values = matches.get_many(FLAG).into_iter().flatten().cloned().collect();
        Self::parse(values).map_err(|reason| {
            clap::Error::raw(
                clap::error::ErrorKind::ValueValidation,
                format!("--data: {}\n", bert_storage::with_flags(&reason)),
            )
        })
    }

    fn update_from_arg_matches(&mut self, matches: &clap::ArgMatches) -> Result<(), clap::Error> {
        *self = Self::from_arg_matches(matches)?;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(values: &[&str]) -> Result<TrainingData, String> {
        TrainingData::parse(values.iter().map(PathBuf::from).collect())
    }

    #[test]
    fn weights_become_shares() {
        let data = parse(&["a=3", "lang=en/b=1"]).unwrap();
        assert_eq!(data.shares(), [0.75, 0.25]);
        assert_eq!((data.first(), data.folders()[1].folder.to_str()), (Path::new("a"), Some("lang=en/b")));
        assert_eq!(parse(&["lang=2"]).unwrap().first(), Path::new("lang=2"), "one folder has no weight");
    }

    #[test]
    fn several_folders_need_positive_weights() {
        for wrong in
            [&["a", "b=1"][..], &["a=1", "b=0"], &["a=1", "b=-1"], &["a=1", "b=inf"], &["a=1", "b=x"]]
        {
            assert!(parse(wrong).unwrap_err().contains("needs a positive weight"), "{wrong:?}");
        }
    }

    #[test]
    fn saved_form_is_read_back() {
        for (values, json) in [(&["a"][..], "\"a\""), (&["a=0.8", "b=0.2"], "[\"a=0.8\",\"b=0.2\"]")] {
            let data = parse(values).unwrap();
            assert_eq!(serde_json::to_string(&data).unwrap(), json);
            assert_eq!(serde_json::from_str::<TrainingData>(json).unwrap(), data);
        }
        assert!(serde_json::from_str::<TrainingData>("[\"a\",\"b\"]").is_err());
    }
}
