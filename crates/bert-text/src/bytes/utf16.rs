//! Decodes UTF-16, the encoding of some exports.

use std::io::{self, Read};

/// The order of the bytes of a unit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Order {
    Little,
    Big,
}

impl Order {
    /// Returns the order that the byte-order mark of a file indicates, or `None` if the file is not UTF-16.
    pub(crate) fn detect(head: &[u8]) -> Option<Self> {
        match head {
            [0xff, 0xfe, 0, 0, ..] => None,
            [0xff, 0xfe, ..] => Some(Self::Little),
            [0xfe, 0xff, ..] => Some(Self::Big),
            _ => None,
        }
    }

    /// Returns the name that `iconv` gives to the encoding of a text with these first bytes, or `None` if the text is
    /// not UTF-16. Without a byte-order mark, the first letters have a zero byte before or after them.
    pub(crate) fn encoding(head: &[u8]) -> Option<&'static str> {
        if Self::detect(head).is_some() {
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

    fn unit(self, bytes: [u8; 2]) -> u16 {
        match self {
            Self::Little => u16::from_le_bytes(bytes),
            Self::Big => u16::from_be_bytes(bytes),
        }
    }
}

/// Returns the text of whole units; halves of surrogate pairs become U+FFFD.
pub(crate) fn decode(bytes: &[u8], order: Order) -> String {
    let units = bytes.as_chunks().0.iter().map(|&unit| order.unit(unit));
    char::decode_utf16(units).map(|c| c.unwrap_or(char::REPLACEMENT_CHARACTER)).collect()
}

/// Reader that converts UTF-16 to UTF-8.
pub(crate) struct Utf16<R> {
    inner: R,
    order: Order,
    /// Bytes that are not decoded yet: less than a unit, or the first half of a pair.
    rest: Vec<u8>,
    text: io::Cursor<Vec<u8>>,
}

impl<R: Read> Utf16<R> {
    pub(crate) fn new(inner: R, order: Order) -> Self {
        Self { inner, order, rest: Vec::new(), text: io::Cursor::default() }
    }
}

impl<R: Read> Read for Utf16<R> {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        loop {
            let length = self.text.read(into)?;
            if length > 0 || into.is_empty() {
                return Ok(length);
            }
            let mut bytes = std::mem::take(&mut self.rest);
            let before = bytes.len();
            bytes.resize(before + (1 << 14), 0);
            let length = self.inner.read(&mut bytes[before..])?;
            bytes.truncate(before + length);
            if length == 0 {
                if bytes.is_empty() {
                    return Ok(0);
                }
                // The file ends with half of a unit or of a pair.
                self.text = io::Cursor::new("\u{fffd}".as_bytes().to_vec());
                continue;
            }
            let mut whole = bytes.len() & !1;
            let is_high = |unit: &[u8]| (0xd800..0xdc00).contains(&self.order.unit([unit[0], unit[1]]));
            if whole >= 2 && is_high(&bytes[whole - 2..whole]) {
                whole -= 2;
            }
            self.rest = bytes[whole..].to_vec();
            self.text = io::Cursor::new(decode(&bytes[..whole], self.order).into_bytes());
        }
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
        for (bytes, order) in [(&little, Order::Little), (&big, Order::Big)] {
            assert_eq!(decode(bytes, order), text);
            for mut reader in [
                Box::new(Utf16::new(bytes.as_slice(), order)) as Box<dyn Read>,
                Box::new(Utf16::new(Bytes(bytes), order)),
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
        assert_eq!([&little, &big].map(|head| Order::encoding(head)), [Some("UTF-16LE"), Some("UTF-16BE")]);
        assert_eq!(Order::encoding(b"\xff\xfet\0"), Some("UTF-16"));
        assert_eq!([&b"text,label"[..], b"a\0", b""].map(Order::encoding), [None; 3]);
    }

    #[test]
    fn half_characters_are_replaced() {
        let bytes = [b'a', 0, 0x3c, 0xd8];
        let mut read = String::new();
        Utf16::new(&bytes[..], Order::Little).read_to_string(&mut read).unwrap();
        assert_eq!(read, "a\u{fffd}");
        read.clear();
        Utf16::new(&bytes[..3], Order::Little).read_to_string(&mut read).unwrap();
        assert_eq!(read, "a\u{fffd}");
    }
}
