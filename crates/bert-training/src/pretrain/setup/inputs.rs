//! Opens the inputs of a run and checks that they match: device, data, the model's configuration and memory.

use std::path::{Path, PathBuf};

use bert_data::{DataSet, Manifest, Nsp, ResolvedConfig};
use bert_inference::checkpoint::LoaderPosition;
use bert_inference::device_rates::product_rate;
use bert_inference::{ModelDescription, ModelFiles, RequiredHeads, StopFlag, load_pretraining};
use bert_model::{Architecture, BertConfig, BertForPreTraining, LoadPolicy};
use burn::tensor::Device;

use crate::data_loader::{DataLoader, data_tokenizer};
use crate::error::Error;
use crate::evaluation::{Evaluation, EvaluationBatches, PartEvaluation, evaluate_in};
use crate::group::Group;
use crate::initialization::FreshWeights;
use crate::optimizer::Optimizer;
use crate::pretrain::config::{EvalPart, PretrainConfig};
use crate::pretrain::events::PretrainEvent;
use crate::pretrain::setup::estimate::EstimatedRun;
use crate::pretrain::setup::starting_point::StartingPoint;
use crate::pretrain::work::Work;
use crate::step::device_check::{CheckShape, DeviceCheck, check_before_first_step};

/// The inputs of a run, opened and checked for consistency. The bigrams of the text are not counted yet, and no weights
/// are created.
pub(crate) struct RunInputs<'a> {
    pub(crate) config: &'a PretrainConfig,
    /// The device, with autodiff.
    pub(crate) device: Device,
    /// The data sets with their weights.
    pub(crate) sets: Vec<(DataSet, f64)>,
    /// The held-out data sets; several for a mixture.
    pub(crate) eval_sets: Vec<EvaluatedSet>,
    pub(crate) start: StartingPoint,
    /// Name of the computer of each rank.
    pub(crate) hosts: Vec<String>,
    /// Estimated memory of a step in bytes.
    pub(crate) memory: u64,
    /// The floating-point operations of a sequence, and the rate of the device.
    pub(crate) work: Work,
}

/// A held-out data set.
pub(crate) struct EvaluatedSet {
    pub(crate) folder: PathBuf,
    /// The share of the data set in the mean.
    pub(crate) share: f64,
    pub(crate) loader: DataLoader,
}

/// Returns the floating-point operations of a sequence of maximum length. With `--recompute` the layers run
/// forward twice.
fn flops_per_sequence(config: &PretrainConfig, model: &BertConfig, rules: &ResolvedConfig) -> f64 {
    let length = rules.max_seq_length;
    let targets = (length as f64 * rules.masked_lm_prob).ceil() as usize;
    let targets = targets.min(rules.max_predictions_per_seq).max(1);
    let again = if config.recompute { model.layer_flops(length, targets) } else { 0.0 };
    model.flops_per_sequence(length, targets) + again
}

/// Opens the held-out data of a run.
fn open_eval_sets(config: &PretrainConfig) -> Result<Vec<EvaluatedSet>, Error> {
    let single = config.eval_data.iter().map(|folder| EvalPart { folder: folder.clone(), share: 1.0 });
    let parts = if config.eval_parts.is_empty() { single.collect() } else { config.eval_parts.clone() };
    let open = |EvalPart { folder, share }: EvalPart| {
        let loader = DataLoader::new(config.open_data(&folder)?, config.seed)?;
        Ok(EvaluatedSet { folder, share, loader })
    };
    parts.into_iter().map(open).collect()
}

impl<'a> RunInputs<'a> {
    /// Opens the device, the data and the model's configuration for a rank of `group`.
    ///
    /// # Errors
    /// Fails when the device, the data or the configuration cannot be opened or does not match the others, or when a
    /// training step needs more memory than the process can get.
    pub(crate) fn open(
        config: &'a PretrainConfig,
        group: &Group,
        on_event: &mut dyn FnMut(PretrainEvent),
    ) -> Result<Self, Error> {
        let device = group.device_of_this_rank(config.compute.device)?.open()?.autodiff();
        let sets = config.open_all_data()?;
        let loader = DataLoader::mixed(sets.clone(), config.seed)?;
        let eval_sets = open_eval_sets(config)?;
        let start = StartingPoint::resolve(config, &loader, on_event)?;
        for set in &eval_sets {
            set.loader.check_fits(&start.config, Some(&data_tokenizer(loader.data())))?;
        }
        let work = Work {
            flops_per_sequence: flops_per_sequence(config, &start.config, &loader.data().manifest().config),
            product_flops: (!config.compute.device.is_cpu())
                .then(|| product_rate(&device.clone().inner(), start.config.compute.precision)),
        };
        let run = EstimatedRun { config, model: &start.config, sets: &sets, group };
        let memory = run.check_memory(&device, on_event)?;
        Ok(Self { config, device, sets, eval_sets, start, hosts: group.hosts(), memory, work })
    }

    /// Compares a micro-batch of the run's shape on a GPU with the CPU; `None` on the CPU.
    ///
    /// # Errors
    /// Fails when the values of the device differ from the CPU's, or when this build lacks the backend `flex`.
    pub(crate) fn check_device(&self) -> Result<Option<DeviceCheck>, Error> {
        let rules = &self.manifest().config;
        let shape = CheckShape {
            rows: self.config.largest_micro_batch(),
            length: rules.max_seq_length,
            predictions: rules.max_predictions_per_seq,
        };
        check_before_first_step(self.config.compute.device, &self.device, self.model_config(), shape)
    }

    /// Returns the model's configuration.
    pub(crate) fn model_config(&self) -> &BertConfig {
        &self.start.config
    }

    /// Returns the description of the trained model, which continues the training of the model in `base`. All positions
    /// of a base model from another program count as trained.
    ///
    /// # Errors
    /// Fails when the files of `base` cannot be read.
    pub(crate) fn description(&self, base: Option<&Path>) -> Result<ModelDescription, Error> {
        let length = self.manifest().config.max_seq_length;
        let base = base.map(ModelFiles::find).transpose()?.map(|files| files.description);
        Ok(ModelDescription {
            max_seq_length: base.as_ref().and_then(|base| base.max_seq_length).max(Some(length)),
            trained_positions: match base {
                Some(base) => base.trained_positions.map(|trained| trained.max(length)),
                None => Some(length),
            },
            precision: Some(self.config.precision()),
            kernels: Some(self.config.compute.kernels),
            ..ModelDescription::default()
        })
    }

    /// Returns the training data; the first of several data sets.
    pub(crate) fn data(&self) -> &DataSet {
        &self.sets[0].0
    }

    /// Returns the manifest of the training data; the first of several data sets.
    pub(crate) fn manifest(&self) -> &Manifest {
        self.data().manifest()
    }

    /// Returns whether the next-sentence labels are meaningful.
    pub(crate) fn has_next_sentence(&self) -> bool {
        self.manifest().config.nsp != Nsp::Off
    }

    /// Returns a loader of the training data that starts at a position.
    pub(crate) fn loader(&self, position: Option<LoaderPosition>) -> Result<DataLoader, Error> {
        let loader = DataLoader::mixed(self.sets.clone(), self.config.seed)?;
        let loader = loader.with_length_buckets(self.config.length_buckets, self.config.batch_size);
        Ok(loader.starting_at(position))
    }

    /// Returns an optimizer for a model, with moments at zero.
    pub(crate) fn optimizer(&self, model: &BertForPreTraining) -> Optimizer {
        Optimizer::new(self.config.optimizer(), model).with_compute(self.model_config().compute)
    }

    /// Returns an untrained model, whose weights the caller replaces.
    pub(crate) fn untrained_model(&self) -> BertForPreTraining {
        BertForPreTraining::new(self.model_config(), self.config.seed, &self.device)
    }

    /// Returns whether the weights of `step` are evaluated.
    pub(crate) fn evaluation_is_due(&self, step: u64) -> bool {
        let regular =
            step.is_multiple_of(self.config.evaluation_interval()) || step == self.config.total_steps();
        !self.eval_sets.is_empty() && regular
    }

    /// Evaluates a model (without autodiff) on the held-out data, with all ranks; `None` without held-out data.
    ///
    /// # Errors
    /// Fails when a rank has an error or is lost, or when a stop is requested.
    pub(crate) fn evaluate(
        &mut self,
        group: &mut Group,
        model: &BertForPreTraining,
        stop: &StopFlag,
    ) -> Result<Option<Evaluation>, Error> {
        let has_next_sentence = self.has_next_sentence();
        // An evaluation with this batch size fits into the memory of a training step.
        let batches =
            EvaluationBatches { size: self.config.largest_micro_batch(), limit: self.config.eval_instances };
        let mut parts = Vec::new();
        for EvaluatedSet { folder, share, loader } in &mut self.eval_sets {
            let evaluation = evaluate_in(group, model, loader, batches, stop)?;
            let evaluation = if has_next_sentence { evaluation } else { evaluation.without_next_sentence() };
            parts.push(PartEvaluation { data: folder.clone(), share: *share, evaluation });
        }
        Ok(Evaluation::mean_of(parts))
    }
}

impl RunInputs<'_> {
    /// Returns the weights of a checkpoint of the run, or, without one, the initial weights, which come from
    /// `--init-checkpoint`, `fresh` or [`Self::fresh_weights`].
    ///
    /// # Errors
    /// Fails when the weights cannot be read or do not match the configuration. Also fails as [`Self::fresh_weights`]
    /// does.
    pub(crate) fn model(
        &self,
        checkpoint: Option<&Path>,
        fresh: Option<&FreshWeights>,
        stop: &StopFlag,
        on_event: &mut dyn FnMut(PretrainEvent),
    ) -> Result<BertForPreTraining, Error> {
        if let Some(path) = checkpoint.or(self.start.folder.as_deref()) {
            return self.load_model(path, on_event);
        }
        let counted;
        let fresh = match fresh {
            Some(fresh) => fresh,
            None => {
                counted = self.fresh_weights(stop, on_event)?;
                &counted
            }
        };
        let model = self.model_config();
        let seed = self.config.seed;
        BertForPreTraining::initialized(model, fresh.initialization(), seed, &self.device)
    }

    fn load_model(
        &self,
        path: &Path,
        on_event: &mut dyn FnMut(PretrainEvent),
    ) -> Result<BertForPreTraining, Error> {
        let policy = match (self.config.fresh_heads, self.manifest().config.nsp) {
            (true, _) => LoadPolicy::FreshHeads,
            (false, Nsp::Off) => LoadPolicy::MaskedLm,
            (false, _) => LoadPolicy::Exact,
        };
        let hint = "`.fresh_heads` initializes missing heads at random; data made with `.nsp off` needs no pooler and \
                    no next-sentence head";
        let model = self.model_config();
        let seed = self.config.seed;
        let required = RequiredHeads { policy, hint };
        let (model, fresh) = load_pretraining(model, path, required, seed, &self.device)?;
        if !fresh.is_empty() {
            on_event(PretrainEvent::Warning(format!(
                "not in the checkpoint, so initialized at random: {fresh:?}"
            )));
        }
        Ok(model)
    }

    /// Returns the initial weights of a run without a checkpoint, and counts the bigrams of the text if they need the
    /// counts.
    ///
    /// # Errors
    /// Fails when a stop is requested, when a shard cannot be read or does not match the manifest, when the text has no
    /// words, or when the model's heads are too few or too narrow for the initialization.
    pub(crate) fn fresh_weights(
        &self,
        stop: &StopFlag,
        on_event: &mut dyn FnMut(PretrainEvent),
    ) -> Result<FreshWeights, Error> {
        let choice = self.config.initialization().unwrap_or_default();
        choice.weights(&self.sets, self.model_config(), self.config.seed, stop, &mut |event| {
            on_event(PretrainEvent::Counting(event));
        })
    }
}
