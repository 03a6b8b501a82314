//! Opens a run in a process group. Rank 0 opens the run's folder and makes or loads the weights; the other ranks get
//! the weights, their part of the optimizer's state and the position in the run from rank 0.

use std::path::Path;

use bert_inference::StopFlag;
use bert_inference::checkpoint::{STATE, SkippedSteps, TrainerState, read_optimizer};
use bert_inference::environment::{Invocation, environment_of_run};
use bert_inference::json_file::read_record;
use bert_model::BertForPreTraining;
use bert_storage::FileSystem;
use serde_json::{Value, json};

use crate::error::{Error, ranks_differ};
use crate::group::Group;
use crate::initialization::FreshWeights;
use crate::optimizer::Optimizer;
use crate::pretrain::config::PretrainConfig;
use crate::pretrain::events::PretrainEvent;
use crate::pretrain::run::{ResumePoint, Run, RunFiles};
use crate::pretrain::run_folder::{RunFolder, held_out_sets, identity};
use crate::pretrain::run_settings::RunSettings;
use crate::pretrain::setup::inputs::RunInputs;
use crate::run_dir::identity::{differences, with_settings};

/// An open run with its model and optimizer.
pub(crate) struct OpenRun<'a> {
    pub(crate) run: Run<'a>,
    pub(crate) model: BertForPreTraining,
    pub(crate) optimizer: Optimizer,
}

/// The run as rank 0 opens it.
struct FirstRank<'a> {
    files: RunFiles<'a>,
    model: BertForPreTraining,
    /// The state of all parameters.
    optimizer: Optimizer,
    point: ResumePoint,
}

/// The arguments of [`open_run`].
#[derive(Clone, Copy)]
pub(crate) struct RunStart<'a, 'b> {
    /// The file system of the run's folder.
    pub(crate) files: &'a dyn FileSystem,
    pub(crate) settings: &'a RunSettings,
    /// The weights of a new model.
    pub(crate) fresh: Option<&'b FreshWeights>,
}

/// Starts or continues a run.
///
/// # Errors
/// Fails when a rank cannot open its inputs, when rank 0 cannot open the run's folder, when the ranks have different
/// settings or data, or when a rank is lost.
pub(crate) fn open_run<'a>(
    start: RunStart<'a, '_>,
    group: &'a mut Group,
    stop: &StopFlag,
    on_event: &mut dyn FnMut(PretrainEvent),
) -> Result<OpenRun<'a>, Error> {
    let config = &start.settings.config;
    let inputs = open_inputs(config, group, on_event);
    let inputs = group.agree(inputs)?;
    compare_ranks(group, &inputs)?;
    let first = group.first_works(stop, |show_life| {
        let on_event = &mut |event| {
            show_life();
            on_event(event);
        };
        FirstRank::open(start, &inputs, stop, on_event)
    });
    let (files_of_run, model, whole, point) = match group.agree(first)? {
        Some(FirstRank { files, model, optimizer, point }) => {
            (Some(files), model, Some(optimizer), Some(point))
        }
        None => (None, inputs.untrained_model(), None, None),
    };
    let point = group.value_of_first(point)?;
    group.continue_after(point.step);
    let model = group.broadcast_weights(model)?;
    let optimizer = inputs.optimizer(&model).sharded(group.rank(), group.ranks());
    let optimizer = group.scatter_states(whole, optimizer, &inputs.device.clone().inner())?;
    let run = Run::new(inputs, group, files_of_run, point, stop)?;
    on_event(PretrainEvent::Started {
        step: run.step,
        steps: config.total_steps(),
        parameters: run.inputs.model_config().pretraining_parameter_count(),
        batch_size: config.batch_size,
        memory: run.inputs.memory,
        work: run.inputs.work,
    });
    Ok(OpenRun { run, model, optimizer })
}

/// Checks the configuration and opens the inputs of this rank.
pub(crate) fn open_inputs<'a>(
    config: &'a PretrainConfig,
    group: &Group,
    on_event: &mut dyn FnMut(PretrainEvent),
) -> Result<RunInputs<'a>, Error> {
    config.validate()?;
    let inputs = RunInputs::open(config, group, on_event)?;
    if let Some(check) = inputs.check_device()? {
        on_event(PretrainEvent::DeviceChecked(config.compute.device, check));
    }
    let tokens = config.largest_micro_batch() * inputs.manifest().config.max_seq_length;
    let precision = config.precision();
    if let Some(slow) = precision.warning(config.compute.device, inputs.model_config(), tokens) {
        on_event(PretrainEvent::Warning(slow));
    }
    Ok(inputs)
}

/// Checks that all ranks have the same program, settings and data as rank 0.
///
/// # Errors
/// Fails when a rank differs from rank 0, or when a rank is lost; on the rank that differs, the error lists the
/// differences.
fn compare_ranks(group: &mut Group, inputs: &RunInputs<'_>) -> Result<(), Error> {
    if group.is_alone() {
        return Ok(());
    }
    let own = description(inputs);
    let first = group.value_of_first(group.is_first().then(|| own.clone()))?;
    let changed = with_settings(&differences(&first, &own), inputs.config);
    let name = |text: String| format!("{text} on {}", group.own_name());
    let own = if changed.is_empty() {
        Ok(())
    } else {
        Err(ranks_differ(&changed.into_iter().map(name).collect::<Vec<_>>()))
    };
    group.agree(own)
}

/// Describes everything that must be equal on all ranks. Processors may differ.
fn description(inputs: &RunInputs<'_>) -> Value {
    let config = inputs.config;
    let environment = environment_of_run();
    let eval = held_out_sets(&inputs.eval_sets, config.eval_instances);
    json!({
        "program": environment["program"],
        "commit": environment["commit"],
        "kernels_version": environment["kernels"],
        "run": identity(config, &inputs.start, &inputs.sets),
        "held_out": eval,
        "recompute": config.recompute,
        "eval_every": config.eval_every,
        "save_every": config.save_every,
        "max_skipped_steps": config.max_skipped_steps,
        "average_last": config.average_last,
    })
}

impl<'a> FirstRank<'a> {
    /// Opens the run's folder, and makes or loads the weights and the moments.
    fn open(
        start: RunStart<'a, '_>,
        inputs: &RunInputs<'a>,
        stop: &StopFlag,
        on_event: &mut dyn FnMut(PretrainEvent),
    ) -> Result<Self, Error> {
        let RunStart { files, settings, fresh } = start;
        // Load the weights before the run's folder is created, so that unusable weights leave nothing behind. A resumed
        // run usually finds its weights in that folder.
        let initial = (!settings.resume).then(|| inputs.model(None, fresh, stop, on_event)).transpose()?;
        let states = inputs.config.optimizer().update_rule().states();
        let initial_moments =
            inputs.start.moments.as_deref().map(|path| read_optimizer(path, states)).transpose()?;
        let folder = open_folder(files, inputs, settings, on_event)?;
        let found = folder.checkpoints().newest_good(&mut |error| {
            on_event(PretrainEvent::Warning(format!("{error}; an older checkpoint is used instead")));
        })?;
        let model = match initial {
            Some(initial) if found.is_none() => initial,
            _ => inputs.model(found.as_ref().map(|found| found.path.as_path()), fresh, stop, on_event)?,
        };
        let mut optimizer = inputs.optimizer(&model);
        let device = inputs.device.clone().inner();
        match (&found, initial_moments) {
            (Some(found), _) => optimizer.restore_from(found, &device)?,
            (None, Some(moments)) => {
                // The moments contain earlier updates, so the bias correction continues to count from these updates.
                let folder = inputs.start.moments.as_deref().unwrap_or(Path::new(""));
                let TrainerState { updates, fewer_updates, .. } = read_record(&folder.join(STATE))?;
                optimizer.restore(updates, &fewer_updates, moments, &device)?;
            }
            (None, None) => {}
        }
        folder.checkpoints().remove_leftovers()?;
        if let Some(found) = &found {
            folder.checkpoints().prune(found.state.step, inputs.config.retention())?;
        }
        let state = found.as_ref().map(|found| &found.state);
        let files = RunFiles::open(folder, inputs, state.map(|state| state.step), found.as_ref())?;
        if inputs.config.keep_best {
            // Reject damaged scores before the first step, not at the first evaluation.
            files.best().evaluation()?;
        }
        let mut point = ResumePoint {
            step: state.map_or(0, |state| state.step),
            skipped: state.map_or_else(SkippedSteps::default, |state| state.skipped),
            position: state.and_then(|state| state.loader_position),
            evaluation_pending: false,
        };
        point.evaluation_pending =
            inputs.evaluation_is_due(point.step) && files.lacks_evaluation(point.step)?;
        Ok(Self { files, model, optimizer, point })
    }
}

/// Opens the folder of a run; warns if its held-out data or the environment has changed.
fn open_folder<'a>(
    files: &'a dyn FileSystem,
    inputs: &RunInputs<'a>,
    settings: &RunSettings,
    on_event: &mut dyn FnMut(PretrainEvent),
) -> Result<RunFolder<'a>, Error> {
    let config = inputs.config;
    let identity = identity(config, &inputs.start, &inputs.sets);
    let held_out = held_out_sets(&inputs.eval_sets, config.eval_instances);
    let RunSettings { defaults, shared_text, resume, .. } = settings;
    let start = Invocation::now(inputs.hosts.clone());
    let run = json!({
        "identity": identity,
        "start": start,
        "work": inputs.work,
        "config": config,
        "defaults": defaults,
        "shared_text": shared_text,
    });
    let folder = RunFolder::open(files, config, run, held_out, *resume)?;
    if !folder.held_out_changes.is_empty() {
        on_event(PretrainEvent::Warning(format!(
            "the held-out data differs from the data of the earlier evaluations: {}. Their results cannot be compared",
            folder.held_out_changes.join("; ")
        )));
    }
    let environment_changes = &folder.run.environment_changes;
    if !environment_changes.is_empty() {
        on_event(PretrainEvent::Warning(format!(
            "this run began on another machine or with another program: {}. It continues, but its result may differ \
             in the last bits",
            environment_changes.join("; ")
        )));
    }
    Ok(folder)
}
