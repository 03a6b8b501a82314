//! Reads Thrift's compact protocol, as far as Parquet's footers and page headers need it ([`crate::parquet::open`]).
//!
//! [`Compact`] returns the fields of a struct one by one: numbers, list lengths, or nothing for a skipped field. It
//! reads at most a given number of bytes. A length greater than the number of bytes left is an error.

use std::io::{self, ErrorKind, Read};

/// Maximum nesting depth of structs and lists.
const DEPTH: usize = 32;

const STOP: u8 = 0;
const TRUE: u8 = 1;
const FALSE: u8 = 2;
const BYTE: u8 = 3;
const I16: u8 = 4;
const I32: u8 = 5;
const I64: u8 = 6;
const DOUBLE: u8 = 7;
const BINARY: u8 = 8;
const LIST: u8 = 9;
const SET: u8 = 10;
const MAP: u8 = 11;
const STRUCT: u8 = 12;
const UUID: u8 = 13;

/// A field of a struct, before its value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Field {
    pub(crate) id: i64,
    kind: u8,
}

/// Reader of consecutive values.
pub(crate) struct Compact<R> {
    input: R,
    limit: u64,
    left: u64,
}

impl<R: Read> Compact<R> {
    /// Creates a reader of at most `limit` bytes of an input.
    pub(crate) fn new(input: R, limit: u64) -> Self {
        Self { input, limit, left: limit }
    }

    /// Returns the number of bytes read.
    pub(crate) fn position(&self) -> u64 {
        self.limit - self.left
    }

    /// Calls `each` with every field of a struct; `each` must read or skip the field's value.
    pub(crate) fn fields(
        &mut self,
        mut each: impl FnMut(&mut Self, Field) -> io::Result<()>,
    ) -> io::Result<()> {
        let mut id = 0;
        while let Some(field) = self.field(&mut id)? {
            each(self, field)?;
        }
        Ok(())
    }

    /// Calls [`Compact::fields`] on a field that must be a struct.
    pub(crate) fn fields_of(
        &mut self,
        field: Field,
        each: impl FnMut(&mut Self, Field) -> io::Result<()>,
    ) -> io::Result<()> {
        match field.kind {
            STRUCT => self.fields(each),
            kind => Err(unexpected(field.id, kind, "struct")),
        }
    }

    fn field(&mut self, id: &mut i64) -> io::Result<Option<Field>> {
        let head = self.byte()?;
        let step = head >> 4;
        let kind = head & 0x0f;
        if kind == STOP {
            return Ok(None);
        }
        *id = if step == 0 { self.signed()? } else { *id + i64::from(step) };
        Ok(Some(Field { id: *id, kind }))
    }

    /// Returns the value of a field that must be a number.
    pub(crate) fn number(&mut self, field: Field) -> io::Result<i64> {
        match field.kind {
            I16 | I32 | I64 => self.signed(),
            kind => Err(unexpected(field.id, kind, "number")),
        }
    }

    /// Returns the value of a field that must be a boolean.
    pub(crate) fn truth(&self, field: Field) -> io::Result<bool> {
        match field.kind {
            TRUE => Ok(true),
            FALSE => Ok(false),
            kind => Err(unexpected(field.id, kind, "truth value")),
        }
    }

    /// Skips a field that must be a list; returns its length.
    pub(crate) fn list(&mut self, field: Field) -> io::Result<u64> {
        match field.kind {
            LIST => self.skip_list(DEPTH),
            kind => Err(unexpected(field.id, kind, "list")),
        }
    }

    /// Starts reading a field that must be a list of structs; returns its length. The caller must then read each struct
    /// with [`Compact::fields`].
    pub(crate) fn structs(&mut self, field: Field) -> io::Result<u64> {
        let (length, kind) = match field.kind {
            LIST => self.list_head()?,
            kind => return Err(unexpected(field.id, kind, "list")),
        };
        match kind {
            STRUCT => Ok(length),
            _ if length == 0 => Ok(0),
            kind => Err(wrong(format!("a list of type {kind} where structs are expected"))),
        }
    }

    /// Skips the value of a field.
    pub(crate) fn skip(&mut self, field: Field) -> io::Result<()> {
        self.skip_value(field.kind, DEPTH)
    }

    fn skip_value(&mut self, kind: u8, depth: usize) -> io::Result<()> {
        let Some(depth) = depth.checked_sub(1) else {
            return Err(wrong("structs or lists are nested too deeply".to_owned()));
        };
        match kind {
            // The type of a boolean is its value, so no bytes follow.
            TRUE | FALSE => Ok(()),
            BYTE => self.pass(1),
            I16 | I32 | I64 => self.unsigned().map(drop),
            DOUBLE => self.pass(8),
            UUID => self.pass(16),
            BINARY => {
                let length = self.unsigned()?;
                self.pass(length)
            }
            LIST | SET => self.skip_list(depth).map(drop),
            MAP => self.skip_map(depth),
            STRUCT => {
                let mut id = 0;
                while let Some(field) = self.field(&mut id)? {
                    self.skip_value(field.kind, depth)?;
                }
                Ok(())
            }
            _ => Err(wrong(format!("unknown type {kind}"))),
        }
    }

    fn skip_list(&mut self, depth: usize) -> io::Result<u64> {
        let (length, kind) = self.list_head()?;
        self.skip_values(&[kind], length, depth)?;
        Ok(length)
    }

    /// Returns the length of a list and the type of its items. Each item takes at least one byte, so the length cannot
    /// exceed the number of bytes left.
    fn list_head(&mut self) -> io::Result<(u64, u8)> {
        let head = self.byte()?;
        let length = match head >> 4 {
            15 => self.unsigned()?,
            short => u64::from(short),
        };
        self.bounded(length)?;
        Ok((length, head & 0x0f))
    }

    fn bounded(&self, length: u64) -> io::Result<()> {
        if length > self.left {
            return Err(wrong(format!("a list of {length} items, but {} bytes are left", self.left)));
        }
        Ok(())
    }

    fn skip_map(&mut self, depth: usize) -> io::Result<()> {
        match self.unsigned()? {
            0 => Ok(()),
            length => {
                let kinds = self.byte()?;
                self.skip_values(&[kinds >> 4, kinds & 0x0f], length, depth)
            }
        }
    }

    /// Skips `length` groups of values of these types.
    fn skip_values(&mut self, kinds: &[u8], length: u64, depth: usize) -> io::Result<()> {
        self.bounded(length)?;
        // The `parquet` crate would read booleans without consuming a byte.
        if length > 0 && kinds.iter().any(|kind| matches!(*kind, TRUE | FALSE)) {
            return Err(wrong("a list of truth values".to_owned()));
        }
        for _ in 0..length {
            kinds.iter().try_for_each(|&kind| self.skip_value(kind, depth))?;
        }
        Ok(())
    }

    fn signed(&mut self) -> io::Result<i64> {
        let zigzag = self.unsigned()?;
        Ok((zigzag >> 1) as i64 ^ -((zigzag & 1) as i64))
    }

    fn unsigned(&mut self) -> io::Result<u64> {
        let mut number = 0;
        for shift in (0..64).step_by(7) {
            let byte = self.byte()?;
            number |= u64::from(byte & 0x7f) << shift;
            if byte & 0x80 == 0 {
                return Ok(number);
            }
        }
        Err(wrong("a number of more than 64 bits".to_owned()))
    }

    fn byte(&mut self) -> io::Result<u8> {
        let mut byte = [0];
        self.take(1)?;
        self.input.read_exact(&mut byte)?;
        Ok(byte[0])
    }

    fn pass(&mut self, bytes: u64) -> io::Result<()> {
        self.take(bytes)?;
        let passed = io::copy(&mut self.input.by_ref().take(bytes), &mut io::sink())?;
        if passed == bytes { Ok(()) } else { Err(ErrorKind::UnexpectedEof.into()) }
    }

    fn take(&mut self, bytes: u64) -> io::Result<()> {
        self.left = self
            .left
            .checked_sub(bytes)
            .ok_or_else(|| wrong(format!("it ends after {} bytes", self.limit)))?;
        Ok(())
    }
}

fn unexpected(id: i64, kind: u8, wanted: &str) -> io::Error {
    wrong(format!("field {id} of type {kind} where a {wanted} is expected"))
}

/// Returns the error for invalid bytes.
pub(crate) fn wrong(what: String) -> io::Error {
    io::Error::new(ErrorKind::InvalidData, what)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// `1: 300`, `2: [1, 2]`, `5: { 1: "ab", 2: true }`, `6: { 1: 2 }` as a map, `20: 8 bytes`.
    const STRUCT_OF_FIVE: [u8; 29] = [
        0x15, 0xd8, 0x04, 0x19, 0x25, 2, 4, 0x3c, 0x18, 2, b'a', b'b', 0x11, 0, 0x1b, 1, 0x55, 2, 4, 0x07,
        40, 1, 2, 3, 4, 5, 6, 7, 8,
    ];

    fn seen(bytes: &[u8]) -> io::Result<(Vec<i64>, u64)> {
        let mut compact = Compact::new(bytes, bytes.len() as u64);
        let mut ids = Vec::new();
        compact.fields(|compact, field| {
            ids.push(field.id);
            match field.id {
                1 => assert_eq!(compact.number(field)?, 300),
                2 => assert_eq!(compact.list(field)?, 2),
                _ => compact.skip(field)?,
            }
            Ok(())
        })?;
        Ok((ids, compact.position()))
    }

    #[test]
    fn fields_are_read_or_passed_over() {
        let bytes = [&STRUCT_OF_FIVE[..], &[0, 77]].concat();
        assert_eq!(seen(&bytes).unwrap(), (vec![1, 2, 5, 6, 20], 30));
        for cut in 0..30 {
            assert!(seen(&bytes[..cut]).is_err(), "cut off after {cut} bytes");
        }
    }

    #[test]
    fn lengths_beyond_the_input_are_rejected() {
        let message = |bytes: &[u8]| {
            let mut compact = Compact::new(bytes, bytes.len() as u64);
            compact.fields(|compact, field| compact.skip(field)).unwrap_err().to_string()
        };
        assert_eq!(
            message(&[0x19, 0xf1, 0xff, 0xff, 0xff, 0xff, 0x0f, 0]),
            "a list of 4294967295 items, but 1 bytes are left"
        );
        assert_eq!(
            message(&[0x1b, 0xff, 0xff, 0x7f, 0x11, 0]),
            "a list of 2097151 items, but 1 bytes are left"
        );
        assert_eq!(message(&[0x18, 9, 0]), "it ends after 3 bytes");
        assert_eq!(message(&[0x19, 0x23, 1, 1]), "it ends after 4 bytes", "the list itself fits");
        assert_eq!(message(&[0x1e, 0]), "unknown type 14");
        assert_eq!(
            message(&[0x16, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 1]),
            "a number of more than 64 bits"
        );
        assert_eq!(message(&[0x1c; 100]), "structs or lists are nested too deeply");
        assert_eq!(message(&[0x19; 100]), "structs or lists are nested too deeply");
    }

    #[test]
    fn other_types_are_rejected() {
        let mut compact = Compact::new(&[0x18, 0][..], 2);
        let message =
            compact.fields(|compact, field| compact.number(field).map(drop)).unwrap_err().to_string();
        assert_eq!(message, "field 1 of type 8 where a number is expected");
        let mut compact = Compact::new(&[0x15, 0][..], 2);
        let message = compact.fields(|compact, field| compact.list(field).map(drop)).unwrap_err().to_string();
        assert_eq!(message, "field 1 of type 5 where a list is expected");
        let structs = |bytes: &[u8]| {
            let mut compact = Compact::new(bytes, bytes.len() as u64);
            let mut found = 0;
            let read = compact.fields(|compact, field| {
                found = compact.structs(field)?;
                (0..found).try_for_each(|_| compact.fields(|compact, field| compact.skip(field)))
            });
            read.map(|()| found).map_err(|error| error.to_string())
        };
        assert_eq!(structs(&[0x19, 0x2c, 0x15, 2, 0, 0, 0]), Ok(2));
        assert_eq!(structs(&[0x19, 0x05, 0]), Ok(0));
        assert_eq!(structs(&[0x19, 0x15, 2, 0]).unwrap_err(), "a list of type 5 where structs are expected");
        assert_eq!(structs(&[0x15, 2, 0]).unwrap_err(), "field 1 of type 5 where a list is expected");
        assert_eq!(structs(&[0x19, 0x3c, 0]).unwrap_err(), "a list of 3 items, but 1 bytes are left");
    }
}
