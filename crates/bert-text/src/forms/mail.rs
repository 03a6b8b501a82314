//! Reads mails, one file each or many in a mailbox: the text of each is a document, without header, quotations and
//! signature.

use mail_parser::{MessageParser, PartType};

use super::joiner::joined_paragraphs;
use super::text::{Converter, Text};
use crate::reading::LineBreaks;

/// Maximum number of bytes of a mail with its attachments; the rest is left out.
const MAX_MAIL: usize = 64 << 20;

/// The mail that is being read.
pub(super) struct Mails {
    breaks: LineBreaks,
    bytes: Vec<u8>,
    after_blank: bool,
    /// Whether the file is a mailbox; `None` before its first line that is not blank.
    is_box: Option<bool>,
}

impl Mails {
    /// Returns the converter of mails with this meaning of line breaks.
    pub(super) fn new(breaks: LineBreaks) -> Self {
        Self { breaks, bytes: Vec::new(), after_blank: false, is_box: None }
    }

    /// Appends the text of the mail as a document.
    fn end_mail(&mut self, out: &mut Text) {
        let bytes = std::mem::take(&mut self.bytes);
        if bytes.is_empty() {
            return;
        }
        let own = plain_text(&bytes).map(|text| own_lines(&text)).unwrap_or_default();
        match joined_paragraphs(&own, self.breaks) {
            Some(joined) => joined.paragraphs.iter().for_each(|paragraph| out.push(paragraph)),
            None => own.lines().for_each(|line| out.push(line)),
        }
        out.counts.left_out += u64::from(own.trim().is_empty());
        out.end_document();
    }
}

/// Returns the parts of a mail that are plain text, decoded. Text that is not UTF-8 and names no character set is Latin-1.
fn plain_text(mail: &[u8]) -> Option<String> {
    let parsed = MessageParser::default().parse(mail)?;
    let texts = parsed.text_bodies().filter_map(|part| match &part.body {
        PartType::Text(text) => Some(text.as_ref()),
        _ => None,
    });
    let text = texts.collect::<Vec<_>>().join("\n\n");
    if text.contains(char::REPLACEMENT_CHARACTER) && str::from_utf8(mail).is_err() {
        return plain_text(mail.iter().map(|&byte| char::from(byte)).collect::<String>().as_bytes());
    }
    Some(text)
}

/// Maximum number of lines of a signature.
const SIGNATURE: usize = 10;

/// Returns the lines of a mail without quotations, the lines that introduce them, and the signature.
fn own_lines(text: &str) -> String {
    let lines: Vec<&str> = text.lines().collect();
    let is_quoted = |line: &str| line.trim_start().starts_with('>');
    let mut own = String::new();
    for (at, &line) in lines.iter().enumerate() {
        let rest = &lines[at + 1..];
        let is_paragraph = rest.len() <= SIGNATURE && !rest.iter().any(|line| line.trim().is_empty());
        let is_signature = line == "-- " || line == "--" && is_paragraph;
        if is_signature || line.starts_with("-----BEGIN PGP SIGNATURE") {
            break;
        }
        let next = rest.iter().find(|line| !line.trim().is_empty());
        let introduces = line.trim_end().ends_with("wrote:") && next.is_some_and(|next| is_quoted(next));
        if !is_quoted(line) && !introduces {
            own.push_str(line);
            own.push('\n');
        }
    }
    own
}

impl Converter for Mails {
    fn line(&mut self, line: &str, out: &mut Text) {
        self.raw_line(line.as_bytes(), out);
    }

    fn raw_line(&mut self, line: &[u8], out: &mut Text) -> bool {
        let from = str::from_utf8(line).ok().filter(|line| is_mailbox_line(line));
        if self.is_box.is_none() && !line.trim_ascii().is_empty() {
            self.is_box = Some(from.is_some());
        }
        // Some programs write no blank line before the next mail.
        let begins =
            |line: &str| self.bytes.is_empty() || self.after_blank || has_date(line) && has_weekday(line);
        if self.is_box == Some(true) && from.is_some_and(begins) {
            self.end_mail(out);
            return true;
        }
        self.after_blank = line.is_empty();
        // In a mailbox, `>` marks a line of text that begins like a mail.
        let line = line.strip_prefix(b">").filter(|rest| rest.starts_with(b"From ")).unwrap_or(line);
        if self.bytes.len() + line.len() < MAX_MAIL {
            self.bytes.extend_from_slice(line);
            self.bytes.push(b'\n');
        }
        true
    }

    fn end(&mut self, out: &mut Text) {
        self.end_mail(out);
    }
}

/// Returns whether a line begins a mail in a mailbox: `From`, a sender, and a date or nothing.
fn is_mailbox_line(line: &str) -> bool {
    let mut words = line.split_whitespace().skip(1);
    let sender = words.next();
    line.starts_with("From ")
        && (has_date(line) || sender.is_some_and(|sender| sender.contains('@')) && words.next().is_none())
}

/// Returns whether a line has the short name of a day of the week, as the dates of mailboxes have.
fn has_weekday(line: &str) -> bool {
    line.split_whitespace().any(|word| ["Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun"].contains(&word))
}

/// Returns whether a line has a time such as `10:00:00` and a year.
fn has_date(line: &str) -> bool {
    let are_digits =
        |text: &str, count| text.len() == count && text.bytes().all(|byte| byte.is_ascii_digit());
    let is_time = |word: &str| {
        let parts: Vec<&str> = word.split(':').collect();
        matches!(parts.len(), 2 | 3) && parts[1..].iter().all(|part| are_digits(part, 2))
    };
    line.split_whitespace().any(is_time) && line.split_whitespace().any(|word| are_digits(word, 4))
}

/// Names of header fields. Without the address of a sender and without a date with a time, lines are recognized as a
/// header only if they have one of these fields.
const FIELDS: [&str; 4] = ["message-id", "received", "mime-version", "content-type"];

/// Returns whether the first lines of a file are the header of a mail, in a mailbox or alone.
pub(super) fn are_mails(lines: &[&str]) -> bool {
    let lines = &lines[lines.iter().take_while(|line| line.trim().is_empty()).count()..];
    let is_box = lines.first().is_some_and(|line| is_mailbox_line(line));
    let header = lines[usize::from(is_box)..].iter().take_while(|line| !line.trim().is_empty());
    let mut names = Vec::new();
    let mut is_sent = is_box;
    for line in header {
        match field(line) {
            Some(name) => {
                is_sent |= name.eq_ignore_ascii_case("from") && line.contains('@');
                is_sent |= name.eq_ignore_ascii_case("date") && has_date(line);
                names.push(name.to_ascii_lowercase());
            }
            // A long field continues in indented lines.
            None if line.starts_with([' ', '\t']) && !names.is_empty() => {}
            None => return false,
        }
    }
    names.iter().any(|name| name == "from")
        && (is_sent || names.iter().any(|name| FIELDS.contains(&name.as_str())))
}

/// Returns the name of the field that a line of a header begins.
fn field(line: &str) -> Option<&str> {
    let (name, value) = line.split_once(':')?;
    let is_name = name.len() > 1
        && name.len() < 64
        && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-');
    (is_name && (value.is_empty() || value.starts_with([' ', '\t']))).then_some(name)
}

#[cfg(test)]
mod tests {
    use crate::forms::converted;

    #[test]
    fn mails_are_documents_without_headers_and_quotations() {
        let mails = "From ann@mill.example Mon Jan  5 10:00:00 2026\nFrom: Ann <ann@mill.example>\nSubject: The mill\nDate: Mon, 5 Jan 2026\n\
            Message-ID: <1@mill.example>\n\nDear Ben,\n\nthe mill at the old bridge burnt in the night, and the whole\nvillage came to help.\n\n>From here one sees it.\n-- \nAnn\n\n\
            From ben@mill.example Mon Jan  5 11:00:00 2026\nFrom: Ben\nDate: Mon\nSubject: Re:\nContent-Type: text/plain;\n charset=utf-8\n\
            Content-Transfer-Encoding: quoted-printable\n\nOn Monday Ann wrote:\n> the mill at the old bridge burnt\n\nGr=C3=BC=C3=9Fe! It was a long=\n night.\n";
        let text = "Dear Ben,\nthe mill at the old bridge burnt in the night, and the whole village came to help.\nFrom here one sees it.\n\nGrüße! It was a long night.\n\n";
        assert_eq!(converted(mails), text);
    }

    #[test]
    fn lines_of_text_that_begin_with_from_end_no_mail() {
        let mail = "Received: by host\nFrom: Ann\nSubject: Hours\nDate: Mon\n\nThe mill has new hours.\n\nFrom 9:00 to 17:00 in 2026 it is open.\n\
            It is closed on Sundays.\n";
        let text =
            "The mill has new hours.\nFrom 9:00 to 17:00 in 2026 it is open.\nIt is closed on Sundays.\n\n";
        assert_eq!(converted(mail), text);
        let in_box = format!(
            "From ann@mill.example Mon Jan  5 10:00:00 2026\n{}",
            mail.replace("\n\nFrom 9", "\nFrom 9")
        );
        assert_eq!(converted(&in_box), text);
    }

    #[test]
    fn the_first_plain_part_of_a_mail_is_read() {
        let mail = "Received: by host\nFrom: Ann\nSubject: Hi\nDate: Mon\nContent-Type: multipart/alternative; boundary=\"b1\"\n\npreamble\n--b1\n\
            Content-Type: text/plain; charset=\"utf-8\"\n\nIt rained.\n--b1\nContent-Type: text/html\n\n<p>It rained.</p>\n--b1--\n";
        assert_eq!(converted(mail), "It rained.\n\n");
    }

    #[test]
    fn texts_in_any_transfer_encoding_are_read() {
        let mails = "From ann@mill.example Mon Jan  5 10:00:00 2026\nFrom: Ann\nSubject: =?utf-8?b?R3LDvMOfZQ==?=\nMIME-Version: 1.0\n\
            Content-Type: text/plain; charset=utf-8\nContent-Transfer-Encoding: base64\n\nRGllIE3DvGhsZSBicmFubnRlLgpFcyBy\nZWduZXRlLgo=\n\n\
            From ben@mill.example Mon Jan  5 11:00:00 2026\nFrom: Ben\nTo: Ann\n\nIt rained too.\n\n\
            From cat@mill.example Mon Jan  5 12:00:00 2026\nFrom: Cat\nContent-Type: text/html\n\n<p>It rained.</p>\n";
        assert_eq!(converted(mails), "Die Mühle brannte.\nEs regnete.\n\nIt rained too.\n\n");
    }

    #[test]
    fn lines_of_other_character_sets_are_decoded() {
        for charset in ["", "Content-Type: text/plain; charset=iso-8859-1\n"] {
            let mut mail = format!("From: ann@mill\nDate: Mon\n{charset}\nGr").into_bytes();
            mail.extend_from_slice(b"\xfc\xdfe aus der M\xfchle.\n");
            let mut out = String::new();
            let text = Box::new(std::io::Cursor::new(mail));
            let (mut reader, _) = crate::forms::Converted::new(
                crate::Format::Mail,
                &[],
                super::LineBreaks::Auto,
                text,
                1 << 20,
            );
            std::io::Read::read_to_string(&mut reader, &mut out).unwrap();
            assert_eq!(out, "Grüße aus der Mühle.\n\n");
        }
        for (charset, encoded) in
            [("gb2312", "y66ztcSlt7s="), ("koi8-r", "7dXLwQ=="), ("shift_jis", "kIWO1A==")]
        {
            let mail = format!(
                "From: ann@mill\nContent-Type: text/plain; charset={charset}\nContent-Transfer-Encoding: base64\n\n{encoded}\n"
            );
            let text = match charset {
                "gb2312" => "水车磨坊",
                "koi8-r" => "Мука",
                _ => "水車",
            };
            assert_eq!(converted(&mail).trim(), text, "{charset}");
        }
    }

    #[test]
    fn lines_that_begin_like_mails_stay() {
        let mails = "From ann@mill Mon Jan  5 10:00:00 2026\nFrom: Ann\n\nFrom the river the road goes to the mill.\n\n\
            From here it is long.\nFrom ben@mill Mon Jan  5 11:00:00 2026\nFrom: Ben\n\nOne part.\n--\nAnother part.\n"
            .to_owned()
            + &"It rained.\n".repeat(12);
        let text = converted(&mails);
        let first =
            "From the river the road goes to the mill.\nFrom here it is long.\n\nOne part.\n--\nAnother";
        assert!(text.starts_with(first), "{text}");
        assert_eq!(text.matches("\n\n").count(), 2, "{text}");
    }

    #[test]
    fn headers_are_known_by_all_their_lines() {
        for mail in [
            "From: ann@mill.example\nSubject: Hi\n\nIt rained.",
            "From ann@mill.example\nFrom: Ann\n\nIt rained.",
            "From ann@mill Mon Jan  5 10:00:00 2026\nFrom: Ann\nTo: Ben\n\nIt rained.",
            "Received: by a host\n with a name\nFrom: Ann\n\nIt rained.",
        ] {
            assert!(super::are_mails(&mail.lines().collect::<Vec<_>>()), "{mail}");
        }
        for text in [
            "From: the mill\nthe river runs to the sea.\n",
            "Ann: It rained.\nBen: It did.\nFrom: where?\n",
            "From here one sees it.\nSubject: none\n",
            "From: Ann\n\nSubject: none\n",
            "From: The mill\nTo: Ann\nSubject: The flood\nDate: 3 May\n\nIt rained.\n",
        ] {
            assert!(!super::are_mails(&text.lines().collect::<Vec<_>>()), "{text}");
        }
    }
}
