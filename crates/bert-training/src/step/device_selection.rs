//! `--device auto`: measures a product on every device and selects the fastest one that passes the check.

use bert_inference::DeviceName;
use bert_inference::device_rates::product_rate;
use bert_kernels::Precision;
use bert_model::{BertConfig, Preset};

use crate::error::Error;
use crate::step::device_check::{CheckShape, check_device};

/// The shape of the check: a small batch of BERT-tiny.
const SHAPE: CheckShape = CheckShape { rows: 8, length: 128, predictions: 20 };
/// Vocabulary size of the check's model.
const WORDS: usize = 1000;

/// The device that `--device auto` selects.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SelectedDevice {
    /// The name of the device.
    pub device: DeviceName,
    /// The reason: the rates of all devices, and the errors of the devices that failed.
    pub reason: String,
}

/// Returns the fastest device of this machine that passes the check, for [`DeviceName::Auto`]; `None` for the name of a
/// device. The CPU is the reference of the check, so it always passes.
///
/// # Errors
/// Fails when no device can be opened.
pub fn select_device(name: DeviceName) -> Result<Option<SelectedDevice>, Error> {
    if name != DeviceName::Auto {
        return Ok(None);
    }
    let measured = DeviceName::available().into_iter().map(|name| (name, rate(name))).collect();
    select(measured, check).map(Some)
}

/// Returns the measured rate of products in f32.
fn rate(name: DeviceName) -> Result<f64, Error> {
    Ok(product_rate(&name.open()?, Precision::F32))
}

/// Checks a device with BERT-tiny.
fn check(name: DeviceName) -> Result<(), Error> {
    let model = BertConfig::preset(Preset::Tiny, WORDS);
    check_device(name, &name.open()?, &model, SHAPE).map(drop)
}

/// Returns the fastest device that passes, with the reason.
fn select(
    devices: Vec<(DeviceName, Result<f64, Error>)>,
    check: impl Fn(DeviceName) -> Result<(), Error>,
) -> Result<SelectedDevice, Error> {
    let mut failures = Vec::new();
    let mut measured = Vec::new();
    for (name, rate) in devices {
        match rate {
            Ok(rate) => measured.push((name, rate)),
            Err(error) => failures.push(error.to_string()),
        }
    }
    measured.sort_by(|(_, a), (_, b)| b.total_cmp(a));
    let rates: Vec<String> =
        measured.iter().map(|(name, rate)| format!("{name} {:.0} GFLOP/s", rate / 1e9)).collect();
    for (name, _) in &measured {
        let passed = if name.is_cpu() { Ok(()) } else { check(*name) };
        match passed {
            Ok(()) => {
                let reason = std::iter::once(rates.join(", ")).chain(failures).collect::<Vec<_>>();
                return Ok(SelectedDevice { device: *name, reason: reason.join("; ") });
            }
            Err(error) => failures.push(error.to_string()),
        }
    }
    Err(Error::failed(format!(
        "this build has no {} backend: build it with `cargo build --release --features flex`",
        failures.join("; ")
    )))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn wrong(name: DeviceName) -> Error {
        let tensor = "bert.pooler.dense.weight".to_string();
        Error::new(
            bert_storage::Class::Numerical,
            format!(
                "{name} computes wrong values: {tensor} differs from the CPU's by {:.1e} of its norm, and the \
                 maximum is {:.0e}; update the driver, or use another `.device` (`bert devices --check` repeats this \
                 check)",
                0.5, 1e-4
            ),
        )
    }

    #[test]
    fn fastest_device_that_passes_is_selected() {
        let devices = || {
            vec![
                (DeviceName::Flex, Ok(1e11)),
                (DeviceName::Cuda(0), Ok(5e13)),
                (DeviceName::Wgpu(0), Ok(2e13)),
            ]
        };
        let selected = select(devices(), |_| Ok(())).unwrap();
        assert_eq!(selected.device, DeviceName::Cuda(0));
        assert_eq!(selected.reason, "cuda:0 50000 GFLOP/s, wgpu:0 20000 GFLOP/s, flex 100 GFLOP/s");
        let bad = |bad: &'static [DeviceName]| {
            move |name: DeviceName| if bad.contains(&name) { Err(wrong(name)) } else { Ok(()) }
        };
        let selected = select(devices(), bad(&[DeviceName::Cuda(0)])).unwrap();
        assert_eq!(selected.device, DeviceName::Wgpu(0));
        assert!(selected.reason.contains("cuda:0") && selected.reason.contains("pooler"), "{selected:?}");
        let selected = select(devices(), bad(&[DeviceName::Cuda(0), DeviceName::Wgpu(0)])).unwrap();
        assert_eq!(selected.device, DeviceName::Flex);
    }

    #[test]
    fn device_that_cannot_be_opened_is_skipped() {
        let missing = Error::failed(
            "this build has no cuda:0 backend: build it with `cargo build --release --features cuda`",
        );
        let devices = vec![(DeviceName::Cuda(0), Err(missing)), (DeviceName::Flex, Ok(1e11))];
        let selected = select(devices, |name| Err(wrong(name))).unwrap();
        assert_eq!(selected.device, DeviceName::Flex);
        assert!(selected.reason.starts_with("flex 100 GFLOP/s; ") && selected.reason.contains("cuda"));
    }
}
