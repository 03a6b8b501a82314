//! Contains the specification of every task, as data only. `spec.rs` documents the fields, and `glue_tsv.rs` of the
//! crate `bert-task-files` has the columns of the files.

use super::example::Split;
use super::spec::{Defaults, Kind, TaskSpec};
use crate::task::metric::Metric;

const GLUE: Defaults = Defaults {
    max_seq_length: 128,
    num_train_epochs: 3.0,
    train_batch_size: 32,
    learning_rate: 5e-5,
    frozen_learning_rate: 1e-3,
};
const GLUE_SMALL: Defaults = Defaults { num_train_epochs: 5.0, ..GLUE };
const GLUE_FILES: &[(Split, &str)] =
    &[(Split::Train, "train.tsv"), (Split::Dev, "dev.tsv"), (Split::Test, "test.tsv")];
const BINARY: &[&str] = &["0", "1"];
const ENTAILMENT: &[&str] = &["entailment", "not_entailment"];

/// RTE, which has the most common properties: a pair of texts, two classes, accuracy. The other specifications list
/// only the differences.
pub(crate) const RTE: TaskSpec = TaskSpec {
    name: "rte",
    folder: "RTE",
    kind: Kind::Classification,
    labels: ENTAILMENT,
    class_names: ENTAILMENT,
    pair: true,
    choices: 0,
    metrics: &[Metric::Accuracy],
    primary: Metric::Accuracy,
    defaults: GLUE,
    files: GLUE_FILES,
    samples: false,
    test_has_labels: false,
    unlabelled: None,
    submissions: &[(Split::Test, "RTE.tsv")],
};
pub(crate) const SST2: TaskSpec = TaskSpec {
    name: "sst-2",
    folder: "SST-2",
    labels: BINARY,
    class_names: &["negative", "positive"],
    pair: false,
    submissions: &[(Split::Test, "SST-2.tsv")],
    ..RTE
};
pub(crate) const MRPC: TaskSpec = TaskSpec {
    name: "mrpc",
    folder: "MRPC",
    labels: BINARY,
    class_names: &["not_equivalent", "equivalent"],
    metrics: &[Metric::F1, Metric::Accuracy],
    primary: Metric::F1,
    defaults: GLUE_SMALL,
    submissions: &[(Split::Test, "MRPC.tsv")],
    ..RTE
};
pub(crate) const COLA: TaskSpec = TaskSpec {
    name: "cola",
    folder: "CoLA",
    labels: BINARY,
    class_names: &["unacceptable", "acceptable"],
    pair: false,
    metrics: &[Metric::Matthews, Metric::Accuracy],
    primary: Metric::Matthews,
    submissions: &[(Split::Test, "CoLA.tsv")],
    ..RTE
};
pub(crate) const QNLI: TaskSpec = TaskSpec {
    name: "qnli",
    folder: "QNLI",
    samples: true,
    submissions: &[(Split::Test, "QNLI.tsv")],
    ..RTE
};
pub(crate) const QQP: TaskSpec = TaskSpec {
    name: "qqp",
    folder: "QQP",
    class_names: &["not_duplicate", "duplicate"],
    samples: true,
    defaults: GLUE,
    submissions: &[(Split::Test, "QQP.tsv")],
    ..MRPC
};
const MNLI_LABELS: &[&str] = &["contradiction", "entailment", "neutral"];
pub(crate) const MNLI: TaskSpec = TaskSpec {
    name: "mnli",
    folder: "MNLI",
    labels: MNLI_LABELS,
    class_names: MNLI_LABELS,
    files: &[
        (Split::Train, "train.tsv"),
        (Split::Dev, "dev_matched.tsv"),
        (Split::DevMismatched, "dev_mismatched.tsv"),
        (Split::Test, "test_matched.tsv"),
        (Split::TestMismatched, "test_mismatched.tsv"),
    ],
    samples: true,
    submissions: &[(Split::Test, "MNLI-m.tsv"), (Split::TestMismatched, "MNLI-mm.tsv")],
    ..RTE
};
pub(crate) const WNLI: TaskSpec = TaskSpec {
    name: "wnli",
    folder: "WNLI",
    labels: BINARY,
    class_names: &["not_entailment", "entailment"],
    defaults: GLUE_SMALL,
    submissions: &[(Split::Test, "WNLI.tsv")],
    ..RTE
};
pub(crate) const STSB: TaskSpec = TaskSpec {
    name: "sts-b",
    folder: "STS-B",
    kind: Kind::Regression { min: 0.0, max: 5.0 },
    labels: &[],
    class_names: &[],
    metrics: &[Metric::Pearson, Metric::Spearman],
    primary: Metric::Spearman,
    submissions: &[(Split::Test, "STS-B.tsv")],
    ..RTE
};
pub(crate) const SST5: TaskSpec = TaskSpec {
    name: "sst-5",
    folder: "minbert",
    labels: &["0", "1", "2", "3", "4"],
    class_names: &["very negative", "negative", "neutral", "positive", "very positive"],
    pair: false,
    defaults: Defaults { num_train_epochs: 10.0, train_batch_size: 64, learning_rate: 1e-5, ..GLUE },
    files: &[(Split::Train, "sst-train.txt"), (Split::Dev, "sst-dev.txt"), (Split::Test, "sst-test.txt")],
    test_has_labels: true,
    submissions: &[],
    ..RTE
};
pub(crate) const CFIMDB: TaskSpec = TaskSpec {
    name: "cfimdb",
    labels: BINARY,
    class_names: &["negative", "positive"],
    defaults: Defaults { max_seq_length: 512, train_batch_size: 8, ..SST5.defaults },
    files: &[
        (Split::Train, "cfimdb-train.txt"),
        (Split::Dev, "cfimdb-dev.txt"),
        (Split::Test, "cfimdb-test.txt"),
    ],
    test_has_labels: false,
    ..SST5
};
pub(crate) const SICK: TaskSpec = TaskSpec {
    name: "sick",
    folder: "SICK",
    labels: &["CONTRADICTION", "ENTAILMENT", "NEUTRAL"],
    class_names: MNLI_LABELS,
    files: &[
        (Split::Train, "SICK_train.txt"),
        (Split::Dev, "SICK_trial.txt"),
        (Split::Test, "SICK_test_annotated.txt"),
    ],
    test_has_labels: true,
    submissions: &[],
    ..RTE
};
pub(crate) const SICK_R: TaskSpec = TaskSpec {
    name: "sick-r",
    kind: Kind::Regression { min: 1.0, max: 5.0 },
    labels: &[],
    class_names: &[],
    metrics: &[Metric::Pearson, Metric::Spearman],
    primary: Metric::Pearson,
    ..SICK
};
pub(crate) const SNLI: TaskSpec = TaskSpec {
    name: "snli",
    folder: "SNLI",
    files: &[
        (Split::Train, "snli_1.0_train.txt"),
        (Split::Dev, "snli_1.0_dev.txt"),
        (Split::Test, "snli_1.0_test.txt"),
    ],
    test_has_labels: true,
    unlabelled: Some("-"),
    submissions: &[],
    ..MNLI
};
/// The Stanford Question Answering Dataset 1.1, where every question has an answer.
pub(crate) const SQUAD: TaskSpec = TaskSpec {
    name: "squad",
    folder: "SQuAD",
    kind: Kind::Spans { version_2: false },
    labels: &[],
    class_names: &[],
    metrics: &[Metric::F1, Metric::ExactMatch],
    primary: Metric::F1,
    defaults: Defaults {
        max_seq_length: 384,
        num_train_epochs: 2.0,
        train_batch_size: 12,
        learning_rate: 3e-5,
        frozen_learning_rate: 1e-3,
    },
    files: &[(Split::Train, "train-v1.1.json"), (Split::Dev, "dev-v1.1.json")],
    submissions: &[],
    ..RTE
};
/// SQuAD 2.0, where some questions have no answer.
pub(crate) const SQUAD2: TaskSpec = TaskSpec {
    name: "squad2",
    kind: Kind::Spans { version_2: true },
    files: &[(Split::Train, "train-v2.0.json"), (Split::Dev, "dev-v2.0.json")],
    ..SQUAD
};
/// Named entities in the CoNLL-2003 format.
pub(crate) const CONLL: TaskSpec = TaskSpec {
    name: "conll",
    folder: "CoNLL",
    kind: Kind::Tags,
    labels: &[],
    class_names: &[],
    pair: false,
    metrics: &[Metric::F1, Metric::Precision, Metric::Recall],
    primary: Metric::F1,
    files: &[
        (Split::Train, "train.txt"),
        (Split::Train, "eng.train"),
        (Split::Dev, "valid.txt"),
        (Split::Dev, "dev.txt"),
        (Split::Dev, "eng.testa"),
        (Split::Test, "test.txt"),
        (Split::Test, "eng.testb"),
    ],
    test_has_labels: true,
    submissions: &[],
    ..RTE
};
/// Situations With Adversarial Generations: choose the right one of four endings.
pub(crate) const SWAG: TaskSpec = TaskSpec {
    name: "swag",
    folder: "SWAG",
    labels: &["0", "1", "2", "3"],
    class_names: &["ending0", "ending1", "ending2", "ending3"],
    pair: false,
    choices: 4,
    defaults: Defaults { train_batch_size: 16, learning_rate: 2e-5, ..GLUE },
    files: &[(Split::Train, "train.csv"), (Split::Dev, "val.csv"), (Split::Test, "test.csv")],
    submissions: &[],
    ..RTE
};
/// A custom table, before its columns and labels are known.
pub(crate) const TABLE: TaskSpec = TaskSpec {
    name: "table",
    folder: "",
    labels: &[],
    class_names: &[],
    pair: false,
    metrics: &[Metric::Accuracy, Metric::MacroF1],
    files: &[],
    submissions: &[],
    ..RTE
};
