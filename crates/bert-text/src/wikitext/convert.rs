//! Converts wikitext to plain text, in time and memory linear in its length.
//!
//! [`plain_text`] reads the source once. Links, templates and tables are frames on a stack; each frame stores where its
//! text begins in the output, so that the text can be removed when the frame ends. A frame that is never closed keeps
//! its text. References, comments, formulas and program code are skipped by a search for their end, which is repeated
//! at most once for each kind of tag if it fails. The rules follow MediaWiki's parser where they matter for prose.

use super::lines::tidy_lines;
use super::namespaces::Namespaces;
use super::tags::{self, Tag};
use super::templates;

/// Maximum number of open frames. An opening mark beyond it is skipped and opens no frame. MediaWiki allows 40
/// templates.
const MAX_DEPTH: usize = 200;
/// Number of parameters of a template whose positions are stored.
const MAX_PARAMETERS: usize = 8;
/// Maximum number of bytes that are searched for the end of a short construct: an entity, a tag, a switch.
const MAX_SHORT: usize = 500;

/// The kind of a frame, with the values that its end needs.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Kind {
    /// `{{name|...}}`, or `{{{parameter|default}}}`, with the number of its opening braces.
    Template(usize),
    /// `[[target|text]]`, with the end of the target in the source if the bar was seen.
    Link(Option<usize>),
    /// `[https://... text]`
    External,
    /// `{| ... |}`
    Table,
    /// `<table>...</table>`, and other elements without prose.
    Element(&'static str),
}

/// An open construct.
#[derive(Debug)]
struct Frame {
    kind: Kind,
    /// Offset in the source after the opening characters.
    source: usize,
    /// Length of the output before the construct.
    output: usize,
    /// For a template: the lengths of the output at its bars.
    bars: [usize; MAX_PARAMETERS],
    bar_count: usize,
}

/// State of a conversion.
struct Converter<'a> {
    source: &'a str,
    namespaces: &'a Namespaces,
    at: usize,
    out: String,
    frames: Vec<Frame>,
    /// Number of open templates and links, so that a closing bracket without an opening one costs nothing.
    open_templates: usize,
    open_links: usize,
    /// Tags whose closing tag does not occur in the rest of the source.
    unclosed: Vec<&'static str>,
}

/// Returns the text of a page as a reader sees it: one paragraph or list item per line. Templates, tables, references,
/// formulas, headings, images and categories are removed; links are replaced by their text.
#[must_use]
pub(crate) fn plain_text(source: &str, namespaces: &Namespaces) -> String {
    let mut converter = Converter {
        source,
        namespaces,
        at: 0,
        out: String::with_capacity(source.len() / 2),
        frames: Vec::new(),
        open_templates: 0,
        open_links: 0,
        unclosed: Vec::new(),
    };
    converter.run();
    tidy_lines(&converter.out)
}

impl<'a> Converter<'a> {
    fn run(&mut self) {
        let bytes = self.source.as_bytes();
        self.line_start();
        while self.at < bytes.len() {
            let rest = &bytes[self.at..];
            let plain = rest.iter().position(|&byte| is_special(byte)).unwrap_or(rest.len());
            self.out.push_str(&self.source[self.at..self.at + plain]);
            self.at += plain;
            if let Some(&byte) = bytes.get(self.at) {
                self.markup(byte);
            }
        }
        // A table that is never closed reaches to the end of the page; other frames keep their text.
        if let Some(table) = self.frames.iter().find(|frame| frame.kind == Kind::Table) {
            self.out.truncate(table.output);
        }
    }

    /// Handles the special character at the current position.
    fn markup(&mut self, byte: u8) {
        let rest = &self.source[self.at..];
        match byte {
            b'\n' => self.newline(),
            b'{' if rest.starts_with("{{") => self.open_braces(),
            b'}' if rest.starts_with("}}") => self.close_braces(),
            b'[' if rest.starts_with("[[") => self.open(Kind::Link(None), 2),
            b'[' => self.open_external(),
            b']' => self.close_bracket(),
            b'|' => self.bar(),
            b'\'' => self.quotes(),
            b'<' => self.less_than(),
            b'&' => self.entity(),
            b'_' if rest.starts_with("__") => self.switch(),
            b'-' if rest.starts_with("-{") => self.variant(),
            _ => self.literal(1),
        }
    }

    /// Copies bytes of the source, which end at a character boundary.
    fn literal(&mut self, bytes: usize) {
        self.out.push_str(&self.source[self.at..self.at + bytes]);
        self.at += bytes;
    }

    fn newline(&mut self) {
        self.literal(1);
        let is_blank = self.source[self.at..].starts_with('\n');
        // A link target and the text of an external link end with the line; the text of a link ends with the paragraph.
        while let Some(frame) = self.frames.last() {
            let ends = match frame.kind {
                Kind::Link(None) | Kind::External => true,
                Kind::Link(Some(bar)) => is_blank && !self.is_file(frame.source, bar),
                _ => false,
            };
            if !ends {
                break;
            }
            self.pop();
        }
        self.line_start();
    }

    /// Handles the markup at the beginning of a line: tables, and headings, before which a table ends.
    fn line_start(&mut self) {
        let rest = &self.source[self.at..];
        let indent = rest.len() - rest.trim_start_matches([' ', '\t', ':']).len();
        let line = &rest[indent..];
        if line.starts_with("{|") {
            self.at += indent;
            self.open(Kind::Table, 2);
        } else if line.starts_with("|}") && !line.starts_with("|}}") {
            if let Some(table) = self.frames.iter().rposition(|frame| frame.kind == Kind::Table) {
                self.at += indent + 2;
                self.close_dropped(table);
            }
        } else if rest.starts_with("==") && self.open_templates == 0 {
            let line = rest.lines().next().unwrap_or_default().trim_end();
            let first =
                self.frames.iter().position(|frame| matches!(frame.kind, Kind::Table | Kind::Element(_)));
            if let (Some(first), true) = (first, line.len() > 4 && line.ends_with("==")) {
                self.close_dropped(first);
                self.out.push('\n');
            }
        }
    }

    fn open(&mut self, kind: Kind, length: usize) {
        self.at += length;
        if self.frames.len() == MAX_DEPTH {
            return;
        }
        self.open_templates += usize::from(matches!(kind, Kind::Template(_)));
        self.open_links += usize::from(matches!(kind, Kind::Link(_)));
        let source = self.at;
        let output = self.out.len();
        self.frames.push(Frame { kind, source, output, bars: [0; MAX_PARAMETERS], bar_count: 0 });
    }

    fn pop(&mut self) -> Option<Frame> {
        let frame = self.frames.pop()?;
        self.open_templates -= usize::from(matches!(frame.kind, Kind::Template(_)));
        self.open_links -= usize::from(matches!(frame.kind, Kind::Link(_)));
        Some(frame)
    }

    /// Ends the frame at this index and the frames inside it.
    fn pop_to(&mut self, index: usize) -> Option<Frame> {
        let mut frame = None;
        while self.frames.len() > index {
            frame = self.pop();
        }
        frame
    }

    /// Ends a frame and removes its text.
    fn close_dropped(&mut self, index: usize) {
        if let Some(frame) = self.pop_to(index) {
            self.out.truncate(frame.output);
        }
    }

    fn open_braces(&mut self) {
        let mut braces = self.source.as_bytes()[self.at..].iter().take_while(|&&byte| byte == b'{').count();
        while braces >= 2 {
            let opened = if braces == 3 { 3 } else { 2 };
            self.open(Kind::Template(opened), opened);
            braces -= opened;
        }
        self.at += braces;
    }

    fn close_braces(&mut self) {
        let mut braces = self.source.as_bytes()[self.at..].iter().take_while(|&&byte| byte == b'}').count();
        while braces >= 2 && self.open_templates > 0 {
            let is_template = |frame: &Frame| matches!(frame.kind, Kind::Template(_));
            let Some(index) = self.frames.iter().rposition(is_template) else { break };
            let end = self.at;
            let Some(frame) = self.pop_to(index) else { break };
            let closed = match frame.kind {
                Kind::Template(3) if braces >= 3 => 3,
                _ => 2,
            };
            self.at += closed;
            braces -= closed;
            self.end_template(&frame, end);
        }
        // Braces that close nothing are markup.
        self.at += braces;
    }

    /// Replaces the text of a template by its visible words.
    fn end_template(&mut self, frame: &Frame, end: usize) {
        let inside = &self.source[frame.source..end];
        let name = inside.split(['|', '\n', '}', '{']).next().unwrap_or_default();
        let bars = &frame.bars[..frame.bar_count];
        let parameters: Vec<&str> = bars
            .iter()
            .enumerate()
            .map(|(number, &bar)| {
                let end = bars.get(number + 1).copied().unwrap_or(self.out.len());
                self.out.get(bar..end).unwrap_or_default()
            })
            .collect();
        let shown = templates::shown(name, &parameters);
        self.out.truncate(frame.output);
        self.out.push_str(&shown);
    }

    fn bar(&mut self) {
        let at = self.at;
        let output = self.out.len();
        match self.frames.last_mut() {
            Some(Frame { kind: Kind::Link(bar @ None), output: start, .. }) => {
                *bar = Some(at);
                let start = *start;
                self.out.truncate(start);
                self.at += 1;
            }
            // A bar begins the next parameter of a template.
            Some(Frame { kind: Kind::Template(_), bars, bar_count, .. }) => {
                if *bar_count < MAX_PARAMETERS {
                    bars[*bar_count] = output;
                    *bar_count += 1;
                }
                self.at += 1;
            }
            _ => self.literal(1),
        }
    }

    fn close_bracket(&mut self) {
        let is_double = self.source[self.at..].starts_with("]]");
        match self.frames.last() {
            Some(Frame { kind: Kind::External, .. }) => {
                self.pop();
                self.at += 1;
            }
            _ if is_double && self.open_links > 0 => {
                // Templates around the link end it: `{{a|[[b}} c]]`.
                let is_link = |frame: &Frame| matches!(frame.kind, Kind::Link(_));
                let is_limit = |frame: &Frame| matches!(frame.kind, Kind::Template(_) | Kind::Table);
                let found = self.frames.iter().rposition(|frame| is_link(frame) || is_limit(frame));
                match found.filter(|&index| is_link(&self.frames[index])) {
                    Some(index) => self.end_link(index),
                    None => self.at += 2,
                }
            }
            _ if is_double => self.at += 2,
            _ => self.literal(1),
        }
    }

    fn end_link(&mut self, index: usize) {
        let end = self.at;
        self.at += 2;
        let Some(frame) = self.pop_to(index) else { return };
        let Kind::Link(bar) = frame.kind else { return };
        let target = &self.source[frame.source..bar.unwrap_or(end).min(end)];
        if self.namespaces.hides(target, bar.is_some()) {
            self.out.truncate(frame.output);
        } else if bar.is_none() && self.out[frame.output..].starts_with(':') {
            // The text of the target is already in the output; a leading colon is markup.
            self.out.remove(frame.output);
        }
    }

    /// Returns whether the link that begins at an offset of the source names a file.
    fn is_file(&self, start: usize, end: usize) -> bool {
        self.namespaces.hides(&self.source[start..end], true)
    }

    fn open_external(&mut self) {
        let inside = &self.source[self.at + 1..];
        if !tags::begins_url(inside) {
            return self.literal(1);
        }
        let url = inside.find(|c: char| c.is_whitespace() || matches!(c, ']' | '[' | '<' | '"' | '{'));
        let url = url.unwrap_or(inside.len());
        self.open(Kind::External, 1 + url);
    }

    /// Removes the quotes of bold and italic text; four are an apostrophe and bold.
    fn quotes(&mut self) {
        let run = self.source.as_bytes()[self.at..].iter().take_while(|&&byte| byte == b'\'').count();
        let kept = match run {
            1 | 4 => 1,
            2 | 3 | 5 => 0,
            _ => run - 5,
        };
        self.out.extend(std::iter::repeat_n('\'', kept));
        self.at += run;
    }

    fn less_than(&mut self) {
        let rest = &self.source[self.at..];
        if rest.starts_with("<!--") {
            // An unclosed comment hides the rest of the page.
            self.at += rest.find("-->").map_or(rest.len(), |end| end + 3);
            // A line with comments only is removed with its end.
            if (self.out.is_empty() || self.out.ends_with('\n')) && self.source[self.at..].starts_with('\n') {
                self.at += 1;
                self.line_start();
            }
            return;
        }
        let Some(tag) = tags::tag(&rest[..rest.floor_char_boundary(MAX_SHORT)]) else {
            return self.literal(1);
        };
        self.at += tag.length;
        match tag.content {
            tags::Content::Skipped if !tag.is_end && !tag.is_empty => self.skip_element(tag.name),
            tags::Content::Literal if !tag.is_end && !tag.is_empty => self.copy_element(tag.name),
            tags::Content::Dropped => self.drop_element(&tag),
            tags::Content::Line => self.out.push('\n'),
            // 10<sup>8</sup> is 10^8, not 108.
            _ if tag.name == "sup" && !tag.is_end && is_exponent(&self.out, &self.source[self.at..]) => {
                self.out.push('^')
            }
            _ => {}
        }
    }

    /// Returns the end of the content of an element, and the end of its closing tag.
    fn element_end(&mut self, name: &'static str) -> Option<(usize, usize)> {
        if self.unclosed.contains(&name) {
            return None;
        }
        let found = tags::find_end(&self.source[self.at..], name);
        match found {
            Some((content, end)) => Some((self.at + content, self.at + end)),
            None => {
                self.unclosed.push(name);
                None
            }
        }
    }

    /// Skips an element with its content; without a closing tag, only its tag.
    fn skip_element(&mut self, name: &'static str) {
        if let Some((_, end)) = self.element_end(name) {
            self.at = end;
        }
    }

    /// Copies the content of `<nowiki>`.
    fn copy_element(&mut self, name: &'static str) {
        let Some((content, end)) = self.element_end(name) else { return };
        while let Some(entity) = self.source[self.at..content].find('&') {
            self.literal(entity);
            self.entity();
        }
        if self.at < content {
            self.literal(content - self.at);
        }
        self.at = end;
    }

    fn drop_element(&mut self, tag: &Tag) {
        if tag.is_end {
            let is_it = |frame: &Frame| frame.kind == Kind::Element(tag.name);
            if let Some(index) = self.frames.iter().rposition(is_it) {
                self.close_dropped(index);
                self.out.push('\n');
            }
        } else if !tag.is_empty {
            self.open(Kind::Element(tag.name), 0);
        }
    }

    fn entity(&mut self) {
        let rest = &self.source[self.at..];
        match tags::entity(&rest[..rest.floor_char_boundary(40)]) {
            Some((text, length)) => {
                self.out.push_str(&text);
                self.at += length;
            }
            None => self.literal(1),
        }
    }

    /// Removes a behaviour switch, such as `__NOTOC__`, in any alphabet.
    fn switch(&mut self) {
        let rest = &self.source[self.at + 2..];
        let rest = &rest[..rest.floor_char_boundary(80)];
        let is_inside_word = self.out.ends_with(|c: char| c.is_alphanumeric() || c == '_');
        let end = rest.find("__").filter(|&end| {
            let is_capital = |c: char| c == '_' || (c.is_alphabetic() && !c.is_lowercase());
            end > 2 && !is_inside_word && rest[..end].chars().all(is_capital)
        });
        match end {
            Some(end) => self.at += end + 4,
            None => self.literal(2),
        }
    }

    /// Replaces `-{zh-hans:a; zh-hant:b}-` by its first variant, and `-{a}-` by its text.
    fn variant(&mut self) {
        let rest = &self.source[self.at + 2..];
        let short = &rest[..rest.floor_char_boundary(MAX_SHORT)];
        let Some(end) = short.find("}-").filter(|&end| !short[..end].contains('\n')) else {
            return self.literal(1);
        };
        let (flags, inside) = short[..end].rsplit_once('|').unwrap_or(("", &short[..end]));
        // Titles and rules that are only declared are not shown.
        if !flags.contains(['T', 'H', '-']) {
            let first = inside.split(';').find(|variant| !variant.trim().is_empty()).unwrap_or_default();
            let text = first.split_once(':').map_or(first, |(_, text)| text);
            self.out.push_str(text.trim());
        }
        self.at += 2 + end + 2;
    }
}

/// Returns whether a byte may begin markup.
fn is_special(byte: u8) -> bool {
    matches!(byte, b'\n' | b'{' | b'}' | b'[' | b']' | b'|' | b'\'' | b'<' | b'&' | b'_' | b'-')
}

/// Returns whether raised text after a base is an exponent: a number, with or without a sign.
fn is_exponent(base: &str, raised: &str) -> bool {
    let digits = raised.trim_start().trim_start_matches(['-', '+', '\u{2212}', '\u{2013}']);
    let digits = digits.strip_prefix("&minus;").unwrap_or(digits);
    base.ends_with(|c: char| c.is_alphanumeric() || c == ')')
        && digits.starts_with(|c: char| c.is_ascii_digit())
}

#[cfg(test)]
#[path = "convert_tests.rs"]
mod tests;
