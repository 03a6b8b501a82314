//! Reads mails, one file each or many in a mailbox: the text of each is a document, without header, quotations and
//! signature.

pub(super) mod parts;

use super::joiner::joined_paragraphs;
use super::text::{Converter, Text};
use parts::{Charset, Encoding, Header, decoded};

/// Maximum number of bytes of the text of a mail; the rest is left out.
const MAX_BODY: usize = 4 << 20;

/// The part of a mail that is being read.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
enum Place {
    #[default]
    Header,
    /// Lines of text.
    Body,
    /// Lines of a part that is not text, or of one in another encoding.
    Other,
}

/// The mail that is being read.
#[derive(Default)]
pub(super) struct Mails {
    place: Place,
    header: Header,
    /// The last header line, which may be continued.
    last: String,
    boundary: Option<String>,
    encoding: Encoding,
    charset: Charset,
    body: Vec<u8>,
    after_blank: bool,
    is_begun: bool,
    has_text: bool,
}

impl Mails {
    /// Ends the header of a mail or of a part.
    fn end_header(&mut self) {
        let last = std::mem::take(&mut self.last);
        self.header.add(&last);
        let header = std::mem::take(&mut self.header);
        if let Some(boundary) = header.boundary {
            self.boundary = Some(boundary);
            self.place = Place::Other;
        } else if header.is_text && !self.has_text {
            self.encoding = header.encoding;
            self.charset = header.charset;
            self.place = Place::Body;
            self.has_text = true;
        } else {
            self.place = Place::Other;
        }
    }

    /// Appends the text of the mail as a document.
    fn end_mail(&mut self, out: &mut Text) {
        let mail = std::mem::take(self);
        let Some(text) = decoded(&mail.body, mail.encoding, mail.charset) else {
            out.counts.left_out += 1;
            return;
        };
        let own = own_lines(&text);
        let joined = joined_paragraphs(&own, false);
        let lines: Vec<&str> = match &joined {
            Some(joined) => joined.paragraphs.iter().map(String::as_str).collect(),
            None => own.lines().collect(),
        };
        out.counts.left_out += u64::from(mail.is_begun && lines.is_empty());
        lines.iter().for_each(|line| out.push(line));
        out.end_document();
    }

    fn body_line(&mut self, line: &str) {
        if self.body.len() < MAX_BODY {
            self.body.extend_from_slice(line.as_bytes());
            self.body.push(b'\n');
        }
    }
}

/// Returns the lines of a mail without quotations, the lines that introduce them, and the signature.
fn own_lines(text: &str) -> String {
    let lines: Vec<&str> = text.lines().collect();
    let is_quoted = |line: &str| line.trim_start().starts_with('>');
    let mut own = String::new();
    for (at, &line) in lines.iter().enumerate() {
        if line == "-- " || line == "--" || line.starts_with("-----BEGIN PGP SIGNATURE") {
            break;
        }
        let rest = &lines[at + 1..];
        let next = rest.iter().find(|line| !line.trim().is_empty());
        let introduces = line.trim_end().ends_with(':') && next.is_some_and(|next| is_quoted(next));
        if !is_quoted(line) && !introduces {
            own.push_str(line);
            own.push('\n');
        }
    }
    own
}

impl Converter for Mails {
    fn line(&mut self, line: &str, out: &mut Text) {
        let begins = line.starts_with("From ") && line.split_whitespace().count() >= 3;
        if begins && (self.after_blank || !self.is_begun) {
            if self.is_begun {
                self.end_mail(out);
            }
            self.is_begun = true;
            return;
        }
        self.is_begun = true;
        self.after_blank = line.is_empty();
        let border = self
            .boundary
            .as_ref()
            .and_then(|boundary| line.strip_prefix("--")?.strip_prefix(boundary.as_str()));
        if let Some(rest) = border {
            self.place = if rest.starts_with("--") { Place::Other } else { Place::Header };
            self.header = Header::default();
            return;
        }
        match self.place {
            Place::Header if line.is_empty() => self.end_header(),
            Place::Header if line.starts_with([' ', '\t']) => self.last.push_str(line),
            Place::Header => {
                let last = std::mem::replace(&mut self.last, line.to_owned());
                self.header.add(&last);
            }
            // Mailboxes mark a line of text that begins like a mail.
            Place::Body => self
                .body_line(line.strip_prefix('>').filter(|rest| rest.starts_with("From ")).unwrap_or(line)),
            Place::Other => {}
        }
    }

    fn end(&mut self, out: &mut Text) {
        if self.is_begun {
            self.end_mail(out);
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::input::forms::converted;

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
    fn the_first_plain_part_of_a_mail_is_read() {
        let mail = "Received: by host\nFrom: Ann\nSubject: Hi\nDate: Mon\nContent-Type: multipart/alternative; boundary=\"b1\"\n\npreamble\n--b1\n\
            Content-Type: text/plain; charset=\"utf-8\"\n\nIt rained.\n--b1\nContent-Type: text/html\n\n<p>It rained.</p>\n--b1--\n";
        assert_eq!(converted(mail), "It rained.\n\n");
    }
}
