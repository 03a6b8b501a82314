//! Writes event files of TensorBoard: scalars, histograms and texts.
//!
//! A file is a sequence of TFRecords, each with a serialized `tensorflow.Event` (`event.proto`, `summary.proto`).

use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::path::Path;
use std::time::{SystemTime, UNIX_EPOCH};

use bert_reports::Message;
use bert_training::histograms::Histogram;

/// An open event file.
pub(super) struct EventFile {
    out: BufWriter<File>,
}

impl EventFile {
    /// Creates a file in a folder, which is one run of TensorBoard. TensorBoard then discards the events of earlier
    /// files in the folder from step `first` on, so that a resumed run replaces the events that a killed run has
    /// written. Independent series need a folder each.
    pub(super) fn create(folder: &Path, first: u64) -> io::Result<Self> {
        std::fs::create_dir_all(folder)?;
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let name = format!(
            "events.out.tfevents.{}.bert.{}.{}",
            now.as_secs(),
            std::process::id(),
            now.subsec_nanos()
        );
        let mut file = Self { out: BufWriter::new(File::create_new(folder.join(name))?) };
        file.record(&event(0).bytes(3, b"brain.Event:2"))?;
        // A SessionLog with the status START, after which TensorBoard discards the later events of earlier files.
        file.record(&event(first).bytes(7, Message::default().int(1, 1)))?;
        Ok(file)
    }

    /// Appends scalars of a step, and flushes the file.
    pub(super) fn scalars(&mut self, step: u64, values: &[(String, f64)]) -> io::Result<()> {
        let scalar = |summary: Message, (tag, value): &(String, f64)| {
            summary.bytes(1, Message::default().bytes(1, tag.as_bytes()).float(2, *value as f32))
        };
        let summary = values.iter().fold(Message::default(), scalar);
        self.record(&event(step).bytes(5, summary))?;
        self.out.flush()
    }

    /// Appends the histograms of a step, and flushes the file.
    pub(super) fn histograms(&mut self, step: u64, histograms: &[Histogram]) -> io::Result<()> {
        let packed = |values: &mut dyn Iterator<Item = f64>| -> Vec<u8> {
            values.flat_map(f64::to_le_bytes).collect()
        };
        for histogram in histograms {
            let counts = packed(&mut histogram.counts.iter().map(|&count| count as f64));
            let content = Message::default()
                .double(1, histogram.min)
                .double(2, histogram.max)
                .double(3, histogram.count as f64)
                .double(4, histogram.sum)
                .double(5, histogram.sum_of_squares)
                .bytes(6, packed(&mut histogram.limits.iter().copied()))
                .bytes(7, counts);
            let value = Message::default().bytes(1, histogram.name.as_bytes()).bytes(5, content);
            self.record(&event(step).bytes(5, Message::default().bytes(1, value)))?;
        }
        self.out.flush()
    }

    /// Appends a text in Markdown.
    pub(super) fn text(&mut self, tag: &str, text: &str) -> io::Result<()> {
        // A tensor of one string, for the plugin "text".
        const DT_STRING: i64 = 7;
        let shape = Message::default().bytes(2, Message::default().int(1, 1));
        let tensor = Message::default().int(1, DT_STRING).bytes(2, shape).bytes(8, text.as_bytes());
        let plugin = Message::default().bytes(1, Message::default().bytes(1, b"text"));
        let value = Message::default().bytes(1, tag.as_bytes()).bytes(8, tensor).bytes(9, plugin);
        self.record(&event(0).bytes(5, Message::default().bytes(1, value)))?;
        self.out.flush()
    }

    /// Appends a TFRecord: length, checksum of the length, data, checksum of the data.
    fn record(&mut self, event: &Message) -> io::Result<()> {
        let length = (event.as_ref().len() as u64).to_le_bytes();
        for part in [&length[..], event.as_ref()] {
            self.out.write_all(part)?;
            self.out.write_all(&masked_crc(part).to_le_bytes())?;
        }
        Ok(())
    }
}

/// Returns the start of an event: the time and the step.
fn event(step: u64) -> Message {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    Message::default().double(1, now.as_secs_f64()).int(2, step as i64)
}

/// Returns the checksum of TFRecords: a CRC-32C, rotated and shifted.
fn masked_crc(data: &[u8]) -> u32 {
    crc32c::crc32c(data).rotate_right(15).wrapping_add(0xa282_ead8)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn checksum_is_that_of_tensorflow() {
        // masked_crc32c of tensorboard 2.20 (compat/tensorflow_stub/pywrap_tensorflow.py), for b"123456789".
        assert_eq!(crc32c::crc32c(b"123456789"), 0xe306_9283);
        assert_eq!(masked_crc(b"123456789"), 0xe306_9283_u32.rotate_right(15).wrapping_add(0xa282_ead8));
    }

    #[test]
    fn file_has_records_with_lengths_and_checksums() {
        let folder = tempfile::tempdir().unwrap();
        let mut file = EventFile::create(folder.path(), 1).unwrap();
        file.scalars(3, &[("train/loss".into(), 2.5)]).unwrap();
        let path = std::fs::read_dir(folder.path()).unwrap().next().unwrap().unwrap().path();
        let mut bytes = &std::fs::read(path).unwrap()[..];
        let mut last = Vec::new();
        while !bytes.is_empty() {
            let length = u64::from_le_bytes(bytes[..8].try_into().unwrap()) as usize;
            assert_eq!(bytes[8..12], masked_crc(&bytes[..8]).to_le_bytes());
            last = bytes[12..12 + length].to_vec();
            assert_eq!(bytes[12 + length..16 + length], masked_crc(&last).to_le_bytes());
            bytes = &bytes[16 + length..];
        }
        let value = b"\x0a\x0atrain/loss\x15\x00\x00\x20\x40";
        assert!(last.ends_with(value), "{last:?}");
        assert_eq!(last[9..11], [0x10, 3], "the step");
    }
}
