//! Tests a step of several ranks against a step of one process, with parameters of several chunks.

use std::time::Duration;

use bert_inference::StopFlag;
use bert_inference::host_tensors::values;
use bert_kernels::adamw::CHUNK;
use bert_kernels::{Compute, Kernels};
use bert_random::{Domain, Random, Stream};
use bert_storage::Class;
use bert_testing::transports::ThreadTransport;
use burn::module::{Module, Param};
use burn::tensor::{Device, Tensor, TensorData};

use crate::error::{Error, mismatch};
use crate::group::{BatchTotals, Group, digest};
use crate::optimizer::{Optimizer, OptimizerConfig};
use crate::step::{MicroBatchLoss, StepReport, StepSettings};

#[derive(Module, Debug)]
struct Four {
    large: Param<Tensor<1>>,
    table: Param<Tensor<2>>,
    bias: Param<Tensor<1>>,
    unused: Param<Tensor<1>>,
}

/// Lengths of the parameters: two have several chunks, the last one incomplete, and two are shorter than a chunk.
const SHAPES: [usize; 4] = [5 * CHUNK + 77, 2 * CHUNK + 10, 3, 40];

fn numbers(address: &[u64], count: usize) -> Vec<f32> {
    let mut random = Stream::new(1, Domain::Test, address);
    let value = |_| match random.below(10) {
        0 => -0.0,
        _ => (random.below(1_000_000) as f32 - 5e5) * 10f32.powi(random.below(8) as i32 - 8),
    };
    (0..count).map(value).collect()
}

fn vector(values: Vec<f32>, device: &Device) -> Tensor<1> {
    let length = values.len();
    Tensor::from_data(TensorData::new(values, [length]), device)
}

/// The bits of the weights, the moments and the reports after some steps.
#[derive(Debug, PartialEq)]
struct Outcome {
    reports: Vec<StepReport>,
    weights: Vec<Vec<u32>>,
    moments: Vec<(String, Vec<u32>)>,
    digest: blake3::Hash,
}

fn bits(values: Vec<f32>) -> Vec<u32> {
    values.into_iter().map(f32::to_bits).collect()
}

/// Takes `count` steps of `all` micro-batches on one rank. The gradient of a parameter in a micro-batch is a vector of
/// random numbers; some micro-batches have no gradient for some parameters.
fn steps(group: &mut Group, all: usize, compute: Compute, count: u64) -> Option<Outcome> {
    let device = Device::flex().autodiff();
    let start = |index: u64, n: usize| vector(numbers(&[9, index], n), &device);
    let mut model = Four {
        large: Param::from_tensor(start(0, SHAPES[0])),
        table: Param::from_tensor(start(1, SHAPES[1]).reshape([2, SHAPES[1] / 2])),
        bias: Param::from_tensor(start(2, SHAPES[2])),
        unused: Param::from_tensor(start(3, SHAPES[3])),
    };
    let config = OptimizerConfig { bias_correction: true, ..OptimizerConfig::default() };
    let mut optimizer =
        Optimizer::new(config, &model).with_compute(compute).sharded(group.rank(), group.ranks());
    let mut reports = Vec::new();
    for step in 0..count {
        let micro_batches: Vec<u64> = group.micro_batches(all).map(|micro| micro as u64).collect();
        let loss = |model: &Four, micro: &u64, _| {
            let gradient =
                |index: usize| vector(numbers(&[step, *micro, index as u64], SHAPES[index]), &device);
            let mut total = (model.large.val() * gradient(0)).sum();
            // Every third micro-batch has no gradient of the table, and only the last one has a gradient of the bias.
            if micro % 3 != 1 {
                total = total + (model.table.val().reshape([-1]) * gradient(1)).sum();
            }
            if *micro == all as u64 - 1 {
                total = total + (model.bias.val() * gradient(2)).sum();
            }
            MicroBatchLoss::new(total.clone(), vec![total * 0.5])
        };
        let settings = StepSettings { seed: 1, step, learning_rate: 1e-2 };
        let (updated, report) =
            group.train_step(model, &mut optimizer, &micro_batches, loss, settings).unwrap();
        model = updated;
        reports.push(report.unwrap());
    }
    let weights = [model.large.val(), model.table.val().reshape([-1]), model.bias.val(), model.unused.val()];
    let digest = digest(&model);
    let moments = group.gather_states(&optimizer).unwrap()?;
    let moments = moments.to_named_tensors().into_iter().map(|(name, (_, values))| (name, bits(values)));
    let weights = weights.map(|weights| bits(values(weights.inner()))).to_vec();
    Some(Outcome { reports, weights, moments: moments.collect(), digest })
}

/// Runs a function on each rank of a group of threads.
fn on_ranks<T: Send + 'static>(
    ranks: usize,
    run: impl Fn(&mut Group) -> T + Clone + Send + 'static,
) -> Vec<T> {
    on_ranks_with_timeout(Duration::from_secs(60), ranks, run)
}

/// Runs a function on each rank like [`on_ranks`], with a timeout of the group.
fn on_ranks_with_timeout<T: Send + 'static>(
    timeout: Duration,
    ranks: usize,
    run: impl Fn(&mut Group) -> T + Clone + Send + 'static,
) -> Vec<T> {
    let threads = ThreadTransport::group(ranks).into_iter().map(|transport| {
        let run = run.clone();
        let mut group = Group::new(Box::new(transport), timeout, |_| {});
        std::thread::spawn(move || run(&mut group))
    });
    let threads: Vec<_> = threads.collect();
    threads.into_iter().map(|thread| thread.join().unwrap()).collect()
}

#[test]
fn ranks_take_the_step_of_one_process() {
    let plain = Compute { kernels: Kernels::Plain, ..Compute::default() };
    for compute in [Compute::default(), plain] {
        let expected = steps(&mut Group::alone(), 12, compute, 3).unwrap();
        assert_eq!(expected.moments.len(), 6, "the unused parameter has no moments");
        for ranks in [2, 3, 4, 6, 12] {
            let found = on_ranks(ranks, move |group| steps(group, 12, compute, 3));
            let found: Vec<_> = found.into_iter().flatten().collect();
            assert!(found.len() == 1 && found[0] == expected, "{ranks} ranks, {compute:?}");
        }
    }
}

/// Each step moves the gradients to the owners and the weights back: W ranks together send 2 (W - 1) times the bytes of
/// the parameters, if a rank's micro-batches are one node of the tree. A checkpoint moves the moments of the other
/// ranks to rank 0.
#[test]
fn traffic_equals_a_ring_all_reduce() {
    const STEPS: u64 = 5;
    let parameters = SHAPES.iter().sum::<usize>() as f64;
    for ranks in [2, 4, 8] {
        let sent = |count| {
            let sent = on_ranks(ranks, move |group| {
                steps(group, 16, Compute::default(), count);
                group.traffic().sent
            });
            sent.iter().sum::<u64>() as f64
        };
        let others = (ranks - 1) as f64;
        let step = (sent(1 + STEPS) - sent(1)) / STEPS as f64;
        let ring = 2.0 * others * 4.0 * parameters;
        assert!((1.0..1.01).contains(&(step / ring)), "{ranks} ranks: {step} bytes of a step, {ring}");
        let checkpoint = sent(1) - step;
        let moments = 8.0 * parameters * others / ranks as f64;
        // A chunk has one owner, so rank 0 may own up to one chunk more or less than its share.
        let chunk = 8.0 * CHUNK as f64;
        assert!((checkpoint - moments).abs() < 1.01 * chunk, "{ranks} ranks: {checkpoint} bytes, {moments}");
    }
}

#[test]
fn flipped_weight_names_the_rank() {
    let errors = on_ranks(3, |group| {
        let device = Device::flex().autodiff();
        let mut values = numbers(&[1], 40);
        if group.rank() == 1 {
            values[7] = f32::from_bits(values[7].to_bits() ^ 1);
        }
        let zeros = || Param::from_tensor(Tensor::<1>::zeros([1], &device));
        let model = Four {
            large: Param::from_tensor(vector(values, &device)),
            table: Param::from_tensor(Tensor::zeros([1, 1], &device)),
            bias: zeros(),
            unused: zeros(),
        };
        group.start_step(BatchTotals::default(), || digest(&model)).unwrap_err()
    });
    for error in errors {
        assert_eq!(error.exit_code(), 5, "{error}");
        assert!(error.text().starts_with("after step 0: the weights of rank 1 "), "{error}");
    }
}

#[test]
fn held_error_reaches_every_rank() {
    let errors = on_ranks(3, |group| {
        let own = if group.rank() == 2 { Err(Error::model("the optimizer state has a")) } else { Ok(7u64) };
        let held = group.hold(own).unwrap();
        assert_eq!(held, if group.rank() == 2 { 0 } else { 7 });
        assert_eq!(group.holds_error(), group.rank() == 2);
        // A rank keeps its first error and drops later ones.
        assert_eq!(group.hold(Err::<u64, Error>(mismatch(vec![]))).unwrap(), 0);
        group.agree(Ok(())).unwrap_err()
    });
    for (rank, error) in errors.into_iter().enumerate() {
        match error.class() {
            Class::Elsewhere(_) => assert!(error.text().starts_with("rank 0 "), "{error}"),
            _ => assert_eq!(rank, 0, "the error of the first rank"),
        }
    }
    // A single process gets its error at once.
    assert!(Group::alone().hold(Err::<(), Error>(mismatch(vec![]))).is_err());
}

/// Works on rank 0 for at most three seconds, and ends when a stop is requested.
fn long_work(group: &mut Group, stop: &StopFlag) -> Result<Option<u64>, Error> {
    group.first_works(stop, |show_life| {
        for _ in 0..300 {
            std::thread::sleep(Duration::from_millis(10));
            show_life();
            stop.check()?;
        }
        Ok(7)
    })
}

#[test]
fn long_work_of_rank_0_keeps_the_group() {
    let found = on_ranks_with_timeout(Duration::from_millis(200), 3, |group| {
        long_work(group, &StopFlag::new()).unwrap()
    });
    assert_eq!(found, [Some(7), None, None]);
}

#[test]
fn stop_of_another_rank_ends_the_work() {
    let started = std::time::Instant::now();
    let found = on_ranks_with_timeout(Duration::from_millis(200), 3, |group| {
        let stop = StopFlag::new();
        if group.rank() == 2 {
            stop.request(15);
        }
        let worked = long_work(group, &stop);
        group.agree(worked).unwrap_err().exit_code()
    });
    assert_eq!(found, [143, 143, 143]);
    assert!(started.elapsed() < Duration::from_secs(2));
}

#[test]
fn possible_numbers_of_ranks_are_named() {
    let errors = on_ranks_with_timeout(Duration::from_millis(100), 4, |group| {
        group.share_micro_batches(8).unwrap();
        group.continue_after(5);
        // Rank 3 leaves the group.
        if group.rank() == 3 { None } else { group.agree(Ok(())).err().map(|error| error.to_string()) }
    });
    let text = errors[0].as_deref().unwrap();
    assert!(text.ends_with("continue with `.resume` on the same number of ranks, or on 2, 1"), "{text}");
}
