//! A message between two ranks: 64-bit words with a checksum.

use twox_hash::XxHash3_64;

/// Words with a checksum, in one buffer that is sent and received as bytes.
#[derive(Debug, Default)]
pub(super) struct Message {
    /// The content, then its checksum.
    words: Vec<u64>,
}

impl Message {
    /// Creates a message of zeros.
    pub(super) fn new(words: usize) -> Self {
        Self { words: vec![0; words + 1] }
    }

    /// Changes the number of words; the content is then unspecified.
    pub(super) fn resize(&mut self, words: usize) {
        self.words.resize(words + 1, 0);
    }

    pub(super) fn content(&self) -> &[u64] {
        &self.words[..self.words.len() - 1]
    }

    pub(super) fn content_mut(&mut self) -> &mut [u64] {
        let end = self.words.len() - 1;
        &mut self.words[..end]
    }

    /// Returns the content from word `from` on, as two f32 numbers per word.
    pub(super) fn floats(&self, from: usize) -> &[f32] {
        bytemuck::cast_slice(&self.content()[from..])
    }

    /// Returns the content from word `from` on, as two f32 numbers per word, for writing.
    pub(super) fn floats_mut(&mut self, from: usize) -> &mut [f32] {
        bytemuck::cast_slice_mut(&mut self.content_mut()[from..])
    }

    /// Sets the checksum.
    pub(super) fn seal(&mut self) {
        let checksum = self.checksum();
        *self.words.last_mut().expect("a checksum") = checksum;
    }

    /// Returns whether the checksum matches.
    pub(super) fn is_intact(&self) -> bool {
        self.words.last() == Some(&self.checksum())
    }

    fn checksum(&self) -> u64 {
        XxHash3_64::oneshot(bytemuck::cast_slice(self.content()))
    }

    pub(super) fn bytes(&self) -> &[u8] {
        bytemuck::cast_slice(&self.words)
    }

    pub(super) fn bytes_mut(&mut self) -> &mut [u8] {
        bytemuck::cast_slice_mut(&mut self.words)
    }
}

/// Returns the number of words that hold this number of 32-bit floats.
pub(super) fn words_of_floats(floats: usize) -> usize {
    floats.div_ceil(2)
}
