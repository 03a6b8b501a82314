//! Tests that runs of several ranks have the bits of a run of one process: with every layout and option, across resumes
//! with other numbers of ranks, and that faults end all ranks with one exit code.

use std::fs;
use std::path::Path;
use std::time::Duration;

use bert_collectives::Transport;
use bert_data::Nsp;
use bert_inference::StopFlag;
use bert_inference::checkpoint::CheckpointFolder;
use bert_testing::disks::Faulty;
use bert_testing::transports::{Fault, FaultyTransport, ThreadTransport};
use bert_training::{Error, Group, PretrainConfig, PretrainEvent, pretrain_in};

use crate::matrix::{LAYOUTS, lay_out};
use crate::world::{World, run_to_end, run_until, stopped_step};

/// Twelve micro-batches of one sequence.
const FLAGS: [&str; 8] = [
    "--batch-size",
    "12",
    "--gradient-accumulation-steps",
    "12",
    "--eval-instances",
    "100",
    "--average-last",
    "2",
];
const TIMEOUT: Duration = Duration::from_secs(20);

type Outcomes = Vec<Result<u64, Error>>;

/// Runs one rank on each transport; `on_step` receives the rank, the step and the rank's stop flag.
fn run_on(
    transports: Vec<Box<dyn Transport>>,
    configs: &[PretrainConfig],
    resume: bool,
    timeout: Duration,
    on_step: impl Fn(usize, u64, &StopFlag) + Sync,
) -> Outcomes {
    std::thread::scope(|scope| {
        let ranks = transports.into_iter().enumerate().map(|(rank, transport)| {
            let on_step = &on_step;
            scope.spawn(move || {
                let mut group = Group::new(transport, timeout, |_| {});
                let stop = StopFlag::new();
                let config = &configs[rank % configs.len()];
                let result =
                    pretrain_in(&Faulty::never(), config, &mut group, resume.into(), &stop, &mut |event| {
                        if let PretrainEvent::Step { metrics, .. } = event {
                            on_step(rank, metrics.step, &stop);
                        }
                    });
                result.map(|outcome| outcome.steps)
            })
        });
        let ranks: Vec<_> = ranks.collect();
        ranks.into_iter().map(|rank| rank.join().unwrap()).collect()
    })
}

fn threads(ranks: usize) -> Vec<Box<dyn Transport>> {
    ThreadTransport::group(ranks).into_iter().map(|rank| Box::new(rank) as Box<dyn Transport>).collect()
}

fn run_ranks(config: &PretrainConfig, ranks: usize, resume: bool) {
    for outcome in run_on(threads(ranks), std::slice::from_ref(config), resume, TIMEOUT, |_, _, _| {}) {
        assert_eq!(outcome.unwrap(), config.steps.unwrap());
    }
}

/// Stops a run of several ranks after a step, by a signal at the last rank.
fn stop_ranks(config: &PretrainConfig, ranks: usize, resume: bool, at: u64) {
    let request = |rank, step, stop: &StopFlag| {
        if rank == ranks - 1 && step == at {
            stop.request(15);
        }
    };
    for outcome in run_on(threads(ranks), std::slice::from_ref(config), resume, TIMEOUT, request) {
        assert_eq!(stopped_step(&outcome.unwrap_err()), at);
    }
}

/// Compares the logs and the last checkpoint of two runs of `steps` steps.
fn assert_same(world: &World, a: &str, b: &str, steps: u64, what: &str) {
    let checkpoint = format!("checkpoints/step-{steps:08}");
    let in_checkpoint =
        ["model.safetensors", "optimizer.safetensors", "trainer_state.json", "COMMITTED.json"];
    let names = in_checkpoint.map(|name| format!("{checkpoint}/{name}")).into_iter();
    for name in names.chain(["metrics.jsonl", "evaluations.jsonl"].map(String::from)) {
        let read = |run: &str| fs::read(world.at(run).join(&name)).unwrap();
        assert!(read(a) == read(b), "{what}: {name} differs");
    }
    let average = Path::new("average/model.safetensors");
    let read = |run: &str| fs::read(world.at(run).join(average)).ok();
    assert!(read(a) == read(b), "{what}: the average differs");
}

fn check_ranks(world: &World, name: &str, ranks: &[usize], config: impl Fn(&str) -> PretrainConfig) {
    let whole = config(&format!("{name}-1"));
    run_to_end(&whole, false);
    for &ranks in ranks {
        let run = format!("{name}-{ranks}");
        run_ranks(&config(&run), ranks, false);
        let what = format!("{name}, {ranks} ranks");
        assert_same(world, &format!("{name}-1"), &run, whole.steps.unwrap(), &what);
    }
}

#[test]
fn layouts_have_the_bits_of_one_process() {
    let world = World::new(0.1);
    for layout in LAYOUTS {
        world.build(&format!("data-{layout}"), |data| lay_out(layout, data));
        check_ranks(&world, layout, &[2, 3, 4, 6, 12], |run| {
            let config = world.config(run, &[&FLAGS[..], &["--keep-best"]].concat());
            PretrainConfig { data: world.at(&format!("data-{layout}")).into(), ..config }
        });
    }
}

#[test]
fn options_have_the_bits_of_one_process() {
    let world = World::new(0.1);
    world.build("no-pairs", |data| data.nsp = Nsp::Off);
    let bf16 = ["--precision", "bf16"];
    let mut options: Vec<(&str, &[&str])> = vec![
        ("buckets", &["--length-buckets", "4"]),
        ("recompute", &["--recompute"]),
        ("plain", &["--kernels", "plain"]),
        ("corrected", &["--adam-bias-correction", "true"]),
        ("uneven", &["--batch-size", "19"]),
        ("lamb", &["--optimizer", "lamb", "--schedule", "poly", "--warmup-ratio", "0.2"]),
        ("eight", &["--gradient-accumulation-steps", "8", "--batch-size", "8"]),
    ];
    if bert_kernels::has_bf16_instructions() {
        options.push(("bf16", &bf16));
    }
    for (name, flags) in options {
        let ranks: &[usize] = if name == "eight" { &[2, 8] } else { &[3, 4] };
        check_ranks(&world, name, ranks, |run| world.config(run, &[&FLAGS[..], flags].concat()));
    }
    check_ranks(&world, "no-pairs-run", &[2, 12], |run| PretrainConfig {
        data: world.at("no-pairs").into(),
        ..world.config(run, &FLAGS)
    });
}

/// Some losses of this run overflow; the updates of these steps are skipped on all ranks.
#[test]
fn skipped_steps_are_the_same_on_all_ranks() {
    let world = World::new(0.1);
    let flags = ["--learning-rate", "1e38", "--max-skipped-steps", "100", "--warmup-steps", "3"];
    let config = |run: &str| world.config(run, &[&FLAGS[..6], &flags, &["--save-every", "2"]].concat());
    let whole = config("one");
    let ended = |run: &PretrainConfig, ranks: usize| {
        let outcomes = run_on(threads(ranks), std::slice::from_ref(run), false, TIMEOUT, |_, _, _| {});
        outcomes.iter().map(|outcome| outcome.as_ref().map_err(Error::exit_code).copied()).collect::<Vec<_>>()
    };
    let one = ended(&whole, 1);
    assert_eq!(ended(&config("three"), 3), vec![one[0]; 3]);
    let read = |run: &str| fs::read_to_string(world.at(run).join("metrics.jsonl")).unwrap();
    assert_eq!(read("one"), read("three"));
    assert!(read("one").contains("\"skipped\":true"), "{}", read("one"));
}

#[test]
fn run_moves_between_numbers_of_ranks() {
    let world = World::new(0.1);
    run_to_end(&world.config("whole", &FLAGS), false);
    for (before, after, stop) in [(1, 4, 1), (4, 1, 3), (2, 3, 5), (6, 2, 8), (3, 12, 9)] {
        let run = format!("moved-{before}-{after}");
        let config = world.config(&run, &FLAGS);
        match before {
            1 => run_until(&config, false, stop),
            _ => stop_ranks(&config, before, false, stop),
        }
        run_ranks(&config, after, true);
        let what = format!("{before} ranks, then {after} after step {stop}");
        assert_same(&world, "whole", &run, 10, &what);
    }
}

#[test]
fn counted_initialization_is_shared() {
    let world = World::new(0.1);
    let flags = [&FLAGS[..6], &["--model", "tiny", "--initialization", "bigram", "--steps", "2"]].concat();
    check_ranks(&world, "bigram", &[2], |run| world.config(run, &flags));
}

#[test]
fn kept_moments_are_divided() {
    let world = World::new(0.1);
    run_to_end(&world.config("first", &FLAGS), false);
    check_ranks(&world, "second", &[3], |run| PretrainConfig {
        model: None,
        init_checkpoint: Some(world.at("first")),
        keep_moments: true,
        ..world.config(run, &[&FLAGS[..], &["--adam-bias-correction", "true"]].concat())
    });
}

/// Every kind of fault in operations of one rank ends all ranks, and the run then continues to the same bytes.
#[test]
fn faults_of_the_transport_end_all_ranks() {
    let world = World::new(0.1);
    let flags = [&FLAGS[..4], &["--steps", "2", "--save-every", "1", "--eval-instances", "12"]].concat();
    let config = world.config("whole", &flags);
    run_to_end(&config, false);
    let long = Duration::from_millis(700);
    for (fault, step) in [(Fault::Fail, 1), (Fault::Flip, 1), (Fault::Delay(long), 7)] {
        let mut ended = 0;
        for at in (0..).step_by(step) {
            let run = format!("fault-{fault:?}-{at}").replace(|c: char| !c.is_alphanumeric() && c != '-', "");
            let config = world.config(&run, &flags);
            let mut transports = threads(3);
            let faulty = transports.remove(at as usize % 3);
            transports.insert(at as usize % 3, Box::new(FaultyTransport::new(faulty, at, fault)));
            let timeout = Duration::from_millis(if step == 1 { 10_000 } else { 150 });
            let outcomes = run_on(transports, std::slice::from_ref(&config), false, timeout, |_, _, _| {});
            if outcomes.iter().all(Result::is_ok) {
                break;
            }
            ended += 1;
            for outcome in &outcomes {
                if let Err(error) = outcome {
                    assert_eq!(error.exit_code(), 75, "{fault:?} in operation {at}: {error}");
                }
            }
            let checkpoints = CheckpointFolder::in_run(&config.output);
            checkpoints.newest_good(&mut |error| panic!("{fault:?} in operation {at}: {error}")).unwrap();
            run_ranks(&config, 3, config.output.exists());
            assert_same(&world, "whole", &run, 2, &format!("{fault:?} in operation {at}"));
        }
        assert!(ended > 2, "{fault:?}: {ended}");
    }
}

#[test]
fn error_of_one_rank_ends_all() {
    let world = World::new(0.1);
    world.build("damaged", |_| {});
    let shard = fs::read_dir(world.at("damaged")).unwrap().map(|entry| entry.unwrap().path());
    for path in shard.filter(|path| path.extension().is_some_and(|end| end == "parquet")) {
        let mut bytes = fs::read(&path).unwrap();
        let middle = bytes.len() / 2;
        bytes[middle] ^= 1;
        fs::write(&path, bytes).unwrap();
    }
    let good = world.config("run", &FLAGS);
    let bad = PretrainConfig { data: world.at("damaged").into(), ..good.clone() };
    let configs = [good.clone(), good.clone(), bad, good];
    let outcomes = run_on(threads(4), &configs, false, TIMEOUT, |_, _, _| {});
    for (rank, outcome) in outcomes.into_iter().enumerate() {
        let error = outcome.unwrap_err();
        assert_eq!(error.exit_code(), 3, "rank {rank}: {error}");
        assert!(rank == 2 || error.to_string().contains("rank 2"), "rank {rank}: {error}");
    }
}

#[test]
fn different_settings_are_named() {
    let world = World::new(0.1);
    world.build("other", |data| data.random_seed = 7);
    let good = world.config("run", &FLAGS);
    let seed = PretrainConfig { seed: 7, ..good.clone() };
    let data = PretrainConfig { data: world.at("other").into(), ..good.clone() };
    for (other, text) in [(seed, "`.seed` was 12345, now 7"), (data, "`.data` was")] {
        let outcomes = run_on(threads(2), &[good.clone(), other], false, TIMEOUT, |_, _, _| {});
        for outcome in outcomes {
            let error = outcome.unwrap_err();
            assert_eq!(error.exit_code(), 4, "{error}");
            assert!(error.to_string().contains(text), "{error}");
        }
    }
    let outcomes = run_on(threads(5), &[good], false, TIMEOUT, |_, _, _| {});
    for outcome in outcomes {
        let error = outcome.unwrap_err();
        assert_eq!(error.exit_code(), 2, "{error}");
        assert!(error.to_string().contains("1, 2, 3, 4, 6, 12 ranks"), "{error}");
    }
}

#[test]
fn signal_at_any_rank_stops_all() {
    let world = World::new(0.1);
    run_to_end(&world.config("whole", &FLAGS), false);
    let config = world.config("stopped", &FLAGS);
    stop_ranks(&config, 4, false, 5);
    let checkpoints = CheckpointFolder::in_run(&config.output);
    assert_eq!(checkpoints.steps().unwrap(), [3, 5]);
    run_ranks(&config, 4, true);
    assert_same(&world, "whole", "stopped", 10, "stopped after step 5");
}

#[test]
fn checkpoint_request_at_any_rank() {
    let world = World::new(0.1);
    let config = world.config("run", &[&FLAGS[..6], &["--save-every", "100"]].concat());
    let request = |rank, step, stop: &StopFlag| {
        if rank == 1 && step == 4 {
            stop.request_checkpoint();
        }
    };
    for outcome in run_on(threads(2), std::slice::from_ref(&config), false, TIMEOUT, request) {
        assert_eq!(outcome.unwrap(), 10);
    }
    assert_eq!(CheckpointFolder::in_run(&config.output).steps().unwrap(), [4, 10]);
}

#[test]
fn budget_is_measured_by_rank_0() {
    let world = World::new(0.1);
    let mut config = world.config("run", &FLAGS[..6]);
    (config.steps, config.budget) = (None, Some("2s".parse().unwrap()));
    let outcomes = run_on(threads(2), &[config], false, TIMEOUT, |_, _, _| {});
    let steps: Vec<u64> = outcomes.into_iter().map(Result::unwrap).collect();
    assert!(steps[0] > 0 && steps[0] == steps[1], "{steps:?}");
}

/// Takes two minutes on two cores.
#[test]
#[ignore = "1,000 steps on 8 ranks"]
fn eight_ranks_keep_the_bits_for_1000_steps() {
    let world = World::new(0.1);
    let flags = ["--model", "tiny", "--steps", "1000", "--save-every", "250", "--batch-size", "8"];
    let flags = [&flags[..], &["--gradient-accumulation-steps", "8", "--eval-instances", "40"]].concat();
    check_ranks(&world, "thousand", &[8], |run| world.config(run, &flags));
}
