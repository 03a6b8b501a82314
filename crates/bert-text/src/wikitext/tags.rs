//! Tags, entities and URLs of wikitext.

use std::borrow::Cow;
use std::sync::LazyLock;

/// The treatment of an element.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Content {
    /// The tag is removed; the content is text.
    Text,
    /// The tag begins a line; the content is text.
    Line,
    /// The element is skipped up to its closing tag; its content is not parsed.
    Skipped,
    /// The content is copied as it is.
    Literal,
    /// The element is removed; it may contain elements of its kind.
    Dropped,
}

impl Content {
    /// Returns the treatment that has this name in the list of elements.
    fn from_name(name: &str) -> Self {
        match name {
            "line" => Self::Line,
            "skipped" => Self::Skipped,
            "literal" => Self::Literal,
            "dropped" => Self::Dropped,
            _ => Self::Text,
        }
    }
}

/// A tag at the start of a text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Tag {
    pub(super) name: &'static str,
    pub(super) content: Content,
    /// Whether it is a closing tag.
    pub(super) is_end: bool,
    /// Whether it is an element without content, such as `<br />`.
    pub(super) is_empty: bool,
    /// The length of the tag in bytes.
    pub(super) length: usize,
}

/// The elements of HTML and of MediaWiki's extensions, one per line with its treatment. Other names are text.
static ELEMENTS: LazyLock<Vec<(&str, Content)>> = LazyLock::new(|| {
    let lines = include_str!("elements.txt").lines().filter_map(|line| line.split_once(' '));
    lines.map(|(name, treatment)| (name, Content::from_name(treatment))).collect()
});

/// Returns the tag at the start of a text, or `None` if the name of the tag is unknown or `>` is missing.
pub(super) fn tag(text: &str) -> Option<Tag> {
    let inside = text.strip_prefix('<')?;
    let (is_end, inside) = match inside.strip_prefix('/') {
        Some(rest) => (true, rest.trim_start_matches(' ')),
        None => (false, inside),
    };
    let letters = inside.bytes().take_while(u8::is_ascii_alphanumeric).count();
    let (content, name) = element(&inside[..letters])?;
    let rest = &inside[letters..];
    if !rest.starts_with(['>', '/', ' ', '\t', '\n']) {
        return None;
    }
    // In `<br</p>`, the first tag has no `>`.
    let end = rest.find(['>', '<']).filter(|&end| rest.as_bytes()[end] == b'>')?;
    let is_empty = rest[..end].ends_with('/') && !is_end;
    Some(Tag { name, content, is_end, is_empty, length: text.len() - rest.len() + end + 1 })
}

/// Returns the treatment of the element of this name, and its name in lower case.
fn element(name: &str) -> Option<(Content, &'static str)> {
    let &(name, content) = ELEMENTS.iter().find(|(known, _)| known.eq_ignore_ascii_case(name))?;
    Some((content, name))
}

/// Returns the start and the end of the first closing tag of this name.
pub(super) fn find_end(text: &str, name: &str) -> Option<(usize, usize)> {
    let mut from = 0;
    loop {
        let at = from + text[from..].find("</")?;
        let rest = text[at + 2..].trim_start_matches(' ');
        let is_it = rest.get(..name.len()).is_some_and(|found| found.eq_ignore_ascii_case(name));
        if is_it {
            let rest = rest[name.len()..].trim_start();
            if let Some(after) = rest.strip_prefix('>') {
                return Some((at, text.len() - after.len()));
            }
        }
        from = at + 2;
    }
}

/// Returns the text of the entity at the start of a text, and the entity's length.
pub(super) fn entity(text: &str) -> Option<(Cow<'static, str>, usize)> {
    let end = text.find(';')?;
    let name = &text[1..end];
    let length = end + 1;
    if let Some(number) = name.strip_prefix('#') {
        let number = match number.strip_prefix(['x', 'X']) {
            Some(digits) => u32::from_str_radix(digits, 16).ok()?,
            None => number.parse().ok()?,
        };
        let c = char::from_u32(number).filter(|&c| c != '\0')?;
        return Some((c.to_string().into(), length));
    }
    quick_xml::escape::resolve_html5_entity(name).map(|text| (text.into(), length))
}

/// Returns whether a text begins with a URL that MediaWiki links.
pub(super) fn begins_url(text: &str) -> bool {
    let mut known = include_str!("url_schemes.txt").lines();
    known.any(|scheme| text.get(..scheme.len()).is_some_and(|start| start.eq_ignore_ascii_case(scheme)))
}
