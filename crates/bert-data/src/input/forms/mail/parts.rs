//! Headers of mails and their parts, and the encodings of their text (RFC 2045).

use std::borrow::Cow;

/// Returns the name and the value of a line of a header.
pub(crate) fn header(line: &str) -> Option<(&str, &str)> {
    let (name, value) = line.split_once(':')?;
    let is_name = name.len() > 1
        && name.len() < 64
        && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-');
    (is_name && (value.is_empty() || value.starts_with([' ', '\t']))).then_some((name, value.trim()))
}

/// The encoding of the text of a mail.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) enum Encoding {
    #[default]
    Plain,
    QuotedPrintable,
    /// An encoding that is not read, such as base64.
    Other,
}

/// The character set of the text of a mail.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) enum Charset {
    #[default]
    Utf8,
    /// ISO 8859-1 and the sets that differ from it in few characters.
    Latin1,
    /// A character set that is read if the text is ASCII.
    Other,
}

/// The properties of the text of a mail or a part, from its header.
#[derive(Clone, Debug)]
pub(super) struct Header {
    pub(super) is_text: bool,
    pub(super) encoding: Encoding,
    pub(super) charset: Charset,
    pub(super) boundary: Option<String>,
}

impl Default for Header {
    fn default() -> Self {
        Self { is_text: true, encoding: Encoding::Plain, charset: Charset::Utf8, boundary: None }
    }
}

impl Header {
    /// Adds a complete line of the header.
    pub(super) fn add(&mut self, line: &str) {
        let Some((name, value)) = header(line) else { return };
        let lower = value.to_ascii_lowercase();
        if name.eq_ignore_ascii_case("content-type") {
            self.is_text = lower.starts_with("text/plain");
            self.boundary = parameter(value, "boundary").filter(|_| lower.starts_with("multipart/"));
            let charset = parameter(&lower, "charset").unwrap_or_default();
            self.charset = match charset.as_str() {
                "" | "utf-8" | "us-ascii" | "ascii" | "utf8" => Charset::Utf8,
                "iso-8859-1" | "iso-8859-15" | "windows-1252" => Charset::Latin1,
                _ => Charset::Other,
            };
        } else if name.eq_ignore_ascii_case("content-transfer-encoding") {
            self.encoding = match lower.as_str() {
                "quoted-printable" => Encoding::QuotedPrintable,
                "" | "7bit" | "8bit" | "binary" => Encoding::Plain,
                _ => Encoding::Other,
            };
        }
    }
}

/// Returns the value of a parameter such as `charset="utf-8"`.
fn parameter(value: &str, name: &str) -> Option<String> {
    value.split(';').find_map(|part| {
        let (found, value) = part.split_once('=')?;
        found.trim().eq_ignore_ascii_case(name).then(|| value.trim().trim_matches('"').to_owned())
    })
}

/// Returns the text of a body, or `None` if its encoding or character set is not read.
pub(super) fn decoded(body: &[u8], encoding: Encoding, charset: Charset) -> Option<String> {
    let bytes: Cow<'_, [u8]> = match encoding {
        Encoding::Plain => body.into(),
        Encoding::QuotedPrintable => unquoted(body).into(),
        Encoding::Other => return None,
    };
    match charset {
        Charset::Latin1 if str::from_utf8(&bytes).is_err() => {
            Some(bytes.iter().map(|&byte| char::from(byte)).collect())
        }
        Charset::Other if !bytes.is_ascii() => None,
        _ => Some(String::from_utf8_lossy(&bytes).into_owned()),
    }
}

/// Decodes quoted-printable: `=C3` is a byte, and `=` at the end of a line joins it with the next one.
fn unquoted(body: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(body.len());
    let mut rest = body;
    while let [byte, after @ ..] = rest {
        let digits = after.get(..2).and_then(|digits| str::from_utf8(digits).ok());
        let code = digits.and_then(|digits| u8::from_str_radix(digits, 16).ok());
        rest = match (byte, after, code) {
            (b'=', [b'\n', next @ ..], _) => next,
            (b'=', [_, _, next @ ..], Some(code)) => {
                out.push(code);
                next
            }
            _ => {
                out.push(*byte);
                after
            }
        };
    }
    out
}
