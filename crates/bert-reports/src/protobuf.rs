//! Writes messages as protocol buffers, for ONNX (`onnx/onnx.proto`) and for the event files of TensorBoard.

/// A message that is written field by field.
#[derive(Clone, Debug, Default)]
pub struct Message(Vec<u8>);

impl Message {
    /// Adds an integer.
    #[must_use]
    pub fn int(mut self, field: u32, value: i64) -> Self {
        self.varint(u64::from(field) << 3);
        self.varint(value as u64);
        self
    }

    /// Adds a float.
    #[must_use]
    pub fn float(mut self, field: u32, value: f32) -> Self {
        self.varint(u64::from(field) << 3 | 5);
        self.0.extend(value.to_le_bytes());
        self
    }

    /// Adds a double.
    #[must_use]
    pub fn double(mut self, field: u32, value: f64) -> Self {
        self.varint(u64::from(field) << 3 | 1);
        self.0.extend(value.to_le_bytes());
        self
    }

    /// Adds bytes, a text or a message.
    #[must_use]
    pub fn bytes(mut self, field: u32, value: impl AsRef<[u8]>) -> Self {
        let value = value.as_ref();
        self.varint(u64::from(field) << 3 | 2);
        self.varint(value.len() as u64);
        self.0.extend_from_slice(value);
        self
    }

    /// Adds several texts or messages, each as a field of its own.
    #[must_use]
    pub fn each<T: AsRef<[u8]>>(self, field: u32, values: impl IntoIterator<Item = T>) -> Self {
        values.into_iter().fold(self, |message, value| message.bytes(field, value))
    }

    /// Adds several integers, each as a field of its own.
    #[must_use]
    pub fn ints(self, field: u32, values: impl IntoIterator<Item = i64>) -> Self {
        values.into_iter().fold(self, |message, value| message.int(field, value))
    }

    /// Returns the bytes.
    pub fn into_bytes(self) -> Vec<u8> {
        self.0
    }

    fn varint(&mut self, mut value: u64) {
        while value >= 0x80 {
            self.0.push(value as u8 | 0x80);
            value >>= 7;
        }
        self.0.push(value as u8);
    }
}

impl AsRef<[u8]> for Message {
    fn as_ref(&self) -> &[u8] {
        &self.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_have_the_published_encoding() {
        // The examples of the documentation of protocol buffers: `a: 150`, and `b: "testing"`.
        assert_eq!(Message::default().int(1, 150).into_bytes(), [0x08, 0x96, 0x01]);
        assert_eq!(Message::default().bytes(2, "testing").into_bytes(), b"\x12\x07testing");
        assert_eq!(Message::default().float(2, 1.0).into_bytes(), [0x15, 0, 0, 0x80, 0x3f]);
        assert_eq!(Message::default().double(2, 1.0).into_bytes(), [0x11, 0, 0, 0, 0, 0, 0, 0xf0, 0x3f]);
        let inner = Message::default().int(1, 150);
        assert_eq!(Message::default().bytes(3, inner).into_bytes(), [0x1a, 0x03, 0x08, 0x96, 0x01]);
        assert_eq!(Message::default().int(1, -1).into_bytes().len(), 11);
    }
}
