//! Reads SubRip and WebVTT subtitles: the text of the cues, joined to sentences.

use super::text::{Converter, Text};
use crate::forms::line_breaks::ends_sentence;

/// Length in bytes at which a sentence that does not end is cut.
const LONG: usize = 1000;

/// The cues of one film, which is one document.
#[derive(Default)]
pub(super) struct Cues {
    /// Whether the lines up to the next blank line are not text: a header, a note, a style.
    skips: bool,
    /// Whether the lines up to the next blank line belong to a cue.
    in_cue: bool,
    /// A line that is the number or the name of a cue if a time code follows.
    pending: Option<String>,
    /// The text since the last end of a sentence.
    open: String,
    /// The last line; subtitles that scroll repeat it.
    last: String,
}

/// Returns whether a line is the time code of a cue, such as `00:00:44,120 --> 00:00:48,080`.
pub(super) fn is_time(line: &str) -> bool {
    let is_code = |code: &str| {
        code.contains(':') && code.chars().all(|c| c.is_ascii_digit() || matches!(c, ':' | ',' | '.'))
    };
    line.split_once("-->").is_some_and(|(from, to)| {
        let mut words = to.split_whitespace();
        // Settings such as `align:start` follow, but no text.
        is_code(from.trim())
            && is_code(words.next().unwrap_or_default())
            && words.all(|word| word.contains(':'))
    })
}

/// Returns the text of a line without tags such as `<i>` and `{\an8}`.
fn without_tags(line: &str) -> String {
    let mut text = String::new();
    let mut rest = line;
    while let Some(at) = rest.find(['<', '{']) {
        let is_tag = rest[at..].starts_with("{\\")
            || rest[at + 1..].starts_with(|c: char| c.is_alphanumeric() || c == '/');
        let close = if rest[at..].starts_with('<') { '>' } else { '}' };
        let end = rest[at..].find(close).filter(|_| is_tag);
        text.push_str(&rest[..at]);
        match end {
            Some(end) => rest = &rest[at + end + 1..],
            None => {
                text.push_str(&rest[at..=at]);
                rest = &rest[at + 1..];
            }
        }
    }
    text + rest
}

impl Cues {
    fn flush(&mut self, out: &mut Text) {
        out.push(&self.open);
        self.open.clear();
    }

    fn text(&mut self, line: &str, out: &mut Text) {
        let line = without_tags(line);
        let (line, is_turn) = match line.trim().strip_prefix(['-', '\u{2013}', '\u{2014}']) {
            Some(rest) => (rest.trim().to_owned(), true),
            None => (line.trim().to_owned(), false),
        };
        if line.is_empty() || line == self.last {
            return;
        }
        if is_turn || self.open.len() > LONG || ends_sentence(&self.open) {
            self.flush(out);
        }
        if !self.open.is_empty() {
            self.open.push(' ');
        }
        self.open.push_str(&line);
        self.last = line;
    }
}

/// Returns whether a line begins a block of WebVTT that is not a cue.
fn begins_block(line: &str) -> bool {
    ["WEBVTT", "NOTE", "STYLE", "REGION"].iter().any(|name| {
        line.strip_prefix(name).is_some_and(|rest| rest.is_empty() || rest.starts_with([' ', '\t']))
    })
}

impl Converter for Cues {
    fn line(&mut self, line: &str, out: &mut Text) {
        let line = line.trim();
        if is_time(line) {
            (self.pending, self.skips, self.in_cue) = (None, false, true);
            return;
        }
        if let Some(pending) = self.pending.take() {
            self.text(&pending, out);
        }
        if line.is_empty() {
            (self.skips, self.in_cue) = (false, false);
        } else if !self.in_cue && (self.skips || begins_block(line)) {
            self.skips = true;
        } else if self.in_cue && !line.bytes().all(|byte| byte.is_ascii_digit()) {
            self.text(line, out);
        } else {
            self.pending = Some(line.to_owned());
        }
    }

    fn end(&mut self, out: &mut Text) {
        if let Some(pending) = self.pending.take() {
            self.text(&pending, out);
        }
        self.flush(out);
        out.counts.is_one_document = true;
    }
}

#[cfg(test)]
mod tests {
    use crate::forms::converted;

    #[test]
    fn cues_become_sentences() {
        let srt = "1\n00:00:00,120 --> 00:00:04,080\n<i>The village was crossed by a gardener</i> on\na cold morning.\n\n2\n\
            00:00:04,120 --> 00:00:08,080\n{\\an8}In spring he built\n\n3\n00:00:08,120 --> 00:00:12,080\nthe station.\n\n4\n\
            00:00:12,500 --> 00:00:14,000\n- Why?\n- In 1984\n1984\n";
        let text = "The village was crossed by a gardener on a cold morning.\nIn spring he built the station.\nWhy?\nIn 1984 1984\n";
        assert_eq!(converted(srt), text);
    }

    #[test]
    fn headers_and_notes_of_webvtt_are_left_out() {
        let vtt = "WEBVTT - A film\nKind: captions\n\nSTYLE\n::cue { color: red }\n\nNOTE a remark\nof two lines\n\nintro\n\
            00:00.000 --> 00:02.000 align:start\n<v Ann>The mill is old.\n\n00:02.000 --> 00:04.000\nThe mill is old.\nIt burnt.\n";
        assert_eq!(converted(vtt), "The mill is old.\nIt burnt.\n");
    }
}
