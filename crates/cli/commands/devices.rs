//! `bert devices` lists the devices of this machine, measures them and checks them against the CPU.

use std::collections::BTreeMap;

use bert_inference::memory::bytes_in_words;
use bert_inference::{DEVICE_HELP, DeviceInfo, DeviceName, KernelChoice, PrecisionChoice};
use bert_kernels::Compute;
use bert_model::{BertConfig, Preset};
use bert_storage::{Class, with_flags};
use bert_training::device_check::{CheckShape, check_device};
use bert_training::device_selection::select_device;
use clap::Args as ClapArgs;
use serde::Serialize;

use crate::commands::at_least;
use crate::output::progress::print_warning;
use crate::output::table::{Column, FormatArgs, Table, print_table};
use crate::process::threads::ThreadArgs;

/// List the devices of this machine with measured rates.
///
/// With --check, a micro-batch is computed on each GPU and compared with the CPU: loss, gradients and an update of every
/// parameter. pretrain and finetune do this before their first step.
#[derive(ClapArgs, Debug)]
pub struct Args {
    /// Only this device.
    #[arg(long, value_name = "DEVICE", help = DEVICE_HELP)]
    device: Option<DeviceName>,

    /// Compare each GPU with the CPU; the exit code is 5 if one of them differs.
    #[arg(long)]
    check: bool,

    /// Size of the model of the check, of which two layers are computed.
    #[arg(long, value_name = "SIZE", default_value = "tiny", requires = "check")]
    model: Preset,

    /// Sequences of the micro-batch of the check.
    #[arg(long, value_name = "N", default_value_t = 8, value_parser = at_least(1), requires = "check")]
    batch_size: usize,

    /// Tokens of each sequence of the check.
    #[arg(long, value_name = "N", default_value_t = 128, value_parser = at_least(2), requires = "check")]
    max_seq_length: usize,

    /// Precision of products in the check [default: bf16 on CUDA, f32 elsewhere].
    #[arg(long, value_enum, requires = "check")]
    precision: Option<PrecisionChoice>,

    #[command(flatten)]
    threads: ThreadArgs,

    #[command(flatten)]
    format: FormatArgs,
}

/// Vocabulary size of the model of the check, the size of BERT's vocabulary.
const WORDS: usize = 30_522;
/// Number of masked tokens in each sequence of the check.
const PREDICTIONS: usize = 20;

/// A device of this machine.
#[derive(Serialize)]
struct ListedDevice {
    #[serde(flatten)]
    info: DeviceInfo,
    /// The result of --check as text.
    #[serde(skip_serializing_if = "Option::is_none")]
    check: Option<String>,
}

/// Runs the command.
pub fn run(args: &Args) -> anyhow::Result<()> {
    args.threads.start_pool();
    let all = match args.device {
        Some(DeviceName::Auto) => {
            select_device(DeviceName::Auto)?.map(|selected| selected.device).into_iter().collect()
        }
        Some(device) => vec![device],
        None => DeviceName::available(),
    };
    let mut devices = Vec::new();
    let mut wrong = None;
    for device in all {
        let info = match DeviceInfo::measure(device) {
            Ok(info) => info,
            // A listed device may still have no driver.
            Err(error) if args.device.is_none() => {
                print_warning(error);
                continue;
            }
            Err(error) => return Err(error.into()),
        };
        let check = if args.check { Some(checked(args, device, &mut wrong)?) } else { None };
        devices.push(ListedDevice { info, check });
    }
    let value = BTreeMap::from([("devices", &devices)]);
    print_table(args.format, &value, table(&devices), |_| text(&devices))?;
    wrong.map_or(Ok(()), |error| Err(error.into()))
}

/// Checks a device and returns the result as text. Stores the first numerical error in `wrong`.
fn checked(
    args: &Args,
    device: DeviceName,
    wrong: &mut Option<bert_training::Error>,
) -> anyhow::Result<String> {
    if matches!(device, DeviceName::Flex) {
        return Ok("the reference".to_string());
    }
    let precision = PrecisionChoice::or_default(args.precision, device);
    precision.check(device, KernelChoice::Fused)?;
    let compute: Compute = precision.with(KernelChoice::Fused);
    let model = BertConfig { compute, ..BertConfig::preset(args.model, WORDS) };
    let predictions = PREDICTIONS.min(args.max_seq_length);
    let shape = CheckShape { rows: args.batch_size, length: args.max_seq_length, predictions };
    Ok(match check_device(device, &device.open()?, &model, shape) {
        Ok(check) => check.to_string(),
        Err(error) if error.class() == Class::Numerical => {
            let text = with_flags(&error.to_string());
            wrong.get_or_insert(error);
            text
        }
        Err(error) => return Err(error.into()),
    })
}

/// Formats a number of operations or bytes per second in units of 10^9.
fn giga(rate: f64) -> String {
    let giga = rate / 1e9;
    if giga < 100.0 { format!("{giga:.1}") } else { format!("{giga:.0}") }
}

/// Formats a number of bytes; "-" if it is unknown.
fn bytes(bytes: Option<u64>) -> String {
    bytes.map_or_else(|| "-".to_string(), bytes_in_words)
}

impl ListedDevice {
    fn launch(&self) -> String {
        format!("{:.1}", self.info.rates.launch_seconds * 1e6)
    }
}

/// Returns the properties and rates of the devices as text.
fn text(devices: &[ListedDevice]) -> String {
    let line = |listed: &ListedDevice| {
        let info = &listed.info;
        let lines = [
            Some(("backend", info.backend.clone())),
            Some(("memory", bytes(info.memory))),
            info.largest_buffer.map(|largest| ("buffer", format!("up to {}", bytes_in_words(largest)))),
            Some(("units", info.units.map_or("-".to_string(), |units| units.to_string()))),
            Some(("products", format!("{} GFLOP/s in f32", giga(info.rates.f32_flops)))),
            info.rates.bf16_flops.map(|rate| ("", format!("{} GFLOP/s in bf16", giga(rate)))),
            Some(("bandwidth", format!("{} GB/s", giga(info.rates.memory_bytes)))),
            Some(("launch", format!("{} us", listed.launch()))),
            listed.check.clone().map(|check| ("check", check)),
        ];
        let lines = lines.into_iter().flatten().map(|(name, value)| format!("\n  {name:<10} {value}"));
        format!("{}: {}{}", info.device, info.name, lines.collect::<String>())
    };
    devices.iter().map(line).collect::<Vec<_>>().join("\n")
}

/// Returns a table with a row for each device.
fn table(devices: &[ListedDevice]) -> Table {
    let numbers = ["units", "f32 (GFLOP/s)", "bf16 (GFLOP/s)", "bandwidth (GB/s)", "launch (us)"];
    let texts = ["device", "name", "backend", "memory", "largest buffer"];
    let columns = texts.into_iter().map(Column::text).chain(numbers.into_iter().map(Column::number));
    let row = |listed: &ListedDevice| {
        let DeviceInfo { device, name, backend, memory, largest_buffer, units, rates } = &listed.info;
        vec![
            device.to_string(),
            name.clone(),
            backend.clone(),
            bytes(*memory),
            bytes(*largest_buffer),
            units.map_or("-".to_string(), |units| units.to_string()),
            giga(rates.f32_flops),
            rates.bf16_flops.map_or("-".to_string(), giga),
            giga(rates.memory_bytes),
            listed.launch(),
            listed.check.clone().unwrap_or_else(|| "-".to_string()),
        ]
    };
    Table {
        columns: columns.chain([Column::text("check")]).collect(),
        rows: devices.iter().map(row).collect(),
        ..Table::default()
    }
}
