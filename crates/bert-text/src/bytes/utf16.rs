//! Decodes UTF-16, the encoding of some exports.

use std::io::{self, BufRead, Read};

use encoding_rs::{Decoder, Encoding, UTF_16BE, UTF_16LE};

/// Returns the encoding that the byte-order mark of a file indicates, or `None` if the file is not UTF-16.
pub(crate) fn detect(head: &[u8]) -> Option<&'static Encoding> {
    match head {
        [0xff, 0xfe, 0, 0, ..] => None,
        [0xff, 0xfe, ..] => Some(UTF_16LE),
        [0xfe, 0xff, ..] => Some(UTF_16BE),
        _ => None,
    }
}

/// Returns the name that `iconv` gives to the encoding of a text with these first bytes, or `None` if the text is
/// not UTF-16. Without a byte-order mark, the first letters have a zero byte before or after them.
pub(crate) fn name(head: &[u8]) -> Option<&'static str> {
    if detect(head).is_some() {
        return Some("UTF-16");
    }
    let units = head.as_chunks::<2>().0.iter().take(4);
    let are_all = |is: fn(&[u8; 2]) -> bool| units.len() == 4 && units.clone().all(is);
    if are_all(|&[low, high]| low != 0 && high == 0) {
        Some("UTF-16LE")
    } else if are_all(|&[high, low]| high == 0 && low != 0) {
        Some("UTF-16BE")
    } else {
        None
    }
}

/// Reader that converts UTF-16 to UTF-8; halves of surrogate pairs become U+FFFD.
pub(crate) struct Utf16<R> {
    inner: R,
    decoder: Decoder,
    text: io::Cursor<Vec<u8>>,
    ended: bool,
}

impl<R: Read> Utf16<R> {
    pub(crate) fn new(inner: R, encoding: &'static Encoding) -> Self {
        let decoder = encoding.new_decoder_without_bom_handling();
        Self { inner, decoder, text: io::Cursor::default(), ended: false }
    }
}

impl<R: Read> Read for Utf16<R> {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        while self.text.fill_buf()?.is_empty() && !self.ended {
            let mut bytes = [0; 1 << 14];
            let length = self.inner.read(&mut bytes)?;
            self.ended = length == 0;
            // Two bytes become at most three, so the text has room for all of them, and the result of the decoder can
            // be ignored.
            let mut text = String::with_capacity(2 * bytes.len());
            let _ = self.decoder.decode_to_string(&bytes[..length], &mut text, self.ended);
            self.text = io::Cursor::new(text.into_bytes());
        }
        self.text.read(into)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Reader that returns one byte at a time.
    struct Bytes<'a>(&'a [u8]);

    impl Read for Bytes<'_> {
        fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
            self.0.read(&mut into[..1])
        }
    }

    #[test]
    fn reads_both_byte_orders_from_any_piece() {
        let text = "Мелница 🏭 mill";
        let little: Vec<u8> = text.encode_utf16().flat_map(u16::to_le_bytes).collect();
        let big: Vec<u8> = text.encode_utf16().flat_map(u16::to_be_bytes).collect();
        for (bytes, encoding) in [(&little, UTF_16LE), (&big, UTF_16BE)] {
            for mut reader in [
                Box::new(Utf16::new(bytes.as_slice(), encoding)) as Box<dyn Read>,
                Box::new(Utf16::new(Bytes(bytes), encoding)),
            ] {
                let mut read = String::new();
                reader.read_to_string(&mut read).unwrap();
                assert_eq!(read, text);
            }
        }
    }

    #[test]
    fn encoding_of_a_text_is_named() {
        let little: Vec<u8> = "text,label".encode_utf16().flat_map(u16::to_le_bytes).collect();
        let big: Vec<u8> = "text,label".encode_utf16().flat_map(u16::to_be_bytes).collect();
        assert_eq!([&little, &big].map(|head| name(head)), [Some("UTF-16LE"), Some("UTF-16BE")]);
        assert_eq!(name(b"\xff\xfet\0"), Some("UTF-16"));
        assert_eq!([&b"text,label"[..], b"a\0", b""].map(name), [None; 3]);
    }

    #[test]
    fn half_characters_are_replaced() {
        for (bytes, text) in [
            (&b"a\0\x3c\xd8"[..], "a\u{fffd}"),
            (b"a\0\x3c", "a\u{fffd}"),
            (b"a\0\x3c\xd8\xed", "a\u{fffd}"),
            (b"\xed\xdfa\0", "\u{fffd}a"),
            (b"\x3c\xd8a\0", "\u{fffd}a"),
            (b"\x3c\xd8\x3c\xd8\xed\xdf", "\u{fffd}\u{1f3ed}"),
        ] {
            for mut reader in [
                Box::new(Utf16::new(bytes, UTF_16LE)) as Box<dyn Read>,
                Box::new(Utf16::new(Bytes(bytes), UTF_16LE)),
            ] {
                let mut read = String::new();
                reader.read_to_string(&mut read).unwrap();
                assert_eq!(read, text, "{bytes:?}");
            }
        }
    }
}
