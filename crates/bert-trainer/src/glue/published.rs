//! Lists the scores of the published models on GLUE's test sets.
//!
//! The scores of tiny to medium are from the table in google-research/bert's README (best of 20 settings on dev, 4
//! epochs), those of base and large from table 1 of the paper. QQP and MRPC have F1, STS-B has Spearman.

use bert_model::BertConfig;

use crate::tasks::Task;

/// A published model and its scores in percent, in the order of [`super::TASKS`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Published {
    /// Its name.
    pub name: &'static str,
    /// Layers and hidden size.
    size: (usize, usize),
    scores: [&'static str; 9],
}

const MODELS: [Published; 6] = [
    Published {
        name: "BERT-tiny",
        size: (2, 128),
        scores: ["0.0", "83.2", "81.1/71.1", "74.3/73.6", "62.2/83.4", "70.2/70.3", "81.5", "57.2", "62.3"],
    },
    Published {
        name: "BERT-mini",
        size: (4, 256),
        scores: ["0.0", "85.9", "81.1/71.8", "75.4/73.3", "66.4/86.2", "74.8/74.3", "84.1", "57.9", "62.3"],
    },
    Published {
        name: "BERT-small",
        size: (4, 512),
        scores: ["27.8", "89.7", "83.4/76.2", "78.8/77.0", "68.1/87.0", "77.6/77.0", "86.4", "61.8", "62.3"],
    },
    Published {
        name: "BERT-medium",
        size: (8, 512),
        scores: ["38.0", "89.6", "86.6/81.6", "80.4/78.4", "69.6/87.9", "80.0/79.1", "87.7", "62.2", "62.3"],
    },
    Published {
        name: "BERT-base",
        size: (12, 768),
        scores: ["52.1", "93.5", "88.9", "85.8", "71.2", "84.6/83.4", "90.5", "66.4", "-"],
    },
    Published {
        name: "BERT-large",
        size: (24, 1024),
        scores: ["60.5", "94.9", "89.3", "86.5", "72.1", "86.7/85.9", "92.7", "70.1", "-"],
    },
];

impl Published {
    /// The score of a task, where it was published.
    pub fn score(self, task: Task) -> Option<&'static str> {
        let at = super::TASKS.iter().position(|of| *of == task)?;
        Some(self.scores[at]).filter(|score| *score != "-")
    }
}

/// The published model of this size.
pub fn published(model: &BertConfig) -> Option<Published> {
    let size = (model.num_hidden_layers, model.hidden_size);
    MODELS.into_iter().find(|published| published.size == size)
}

#[cfg(test)]
mod tests {
    use bert_model::Preset;

    use super::*;

    #[test]
    fn scores_are_those_of_the_task() {
        let of = |preset| published(&BertConfig::preset(preset, 100)).unwrap();
        assert_eq!(of(Preset::Tiny).score(Task::Sst2), Some("83.2"));
        assert_eq!(of(Preset::Mini).score(Task::Rte), Some("57.9"));
        assert_eq!(of(Preset::Base).score(Task::Wnli), None);
        assert_eq!(of(Preset::Base).score(Task::Rte), Some("66.4"));
        assert_eq!(of(Preset::Tiny).score(Task::Snli), None);
        let odd = BertConfig { hidden_size: 64, ..BertConfig::preset(Preset::Tiny, 100) };
        assert_eq!(published(&odd), None);
    }
}
