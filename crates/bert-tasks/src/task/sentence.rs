//! Defines a sentence whose words have tags, and the parts of a tag.

/// A sentence with the tags of its words.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Sentence {
    /// The words.
    pub words: Vec<String>,
    /// One tag per word; empty if the file has no valid tags.
    pub tags: Vec<String>,
    /// Line number of the first word.
    pub line: u64,
    /// Number of the document, if the file has several.
    pub document: Option<u64>,
}

/// Returns the distinct tags of some sentences: `O` first, the others in byte order.
pub fn tags_of(sentences: &[Sentence]) -> Vec<String> {
    let all: std::collections::BTreeSet<&String> =
        sentences.iter().flat_map(|sentence| &sentence.tags).collect();
    let outside = ["O".to_string()];
    let others = all.into_iter().filter(|tag| *tag != "O").cloned();
    outside.into_iter().chain(others).collect()
}

/// Returns whether a tag belongs to a supported scheme.
pub fn is_entity_tag(tag: &str) -> bool {
    tag == "O" || matches!(split_tag(tag).position, "B" | "I" | "E" | "S")
}

/// The parts of a tag such as `B-PER`.
#[derive(Clone, Copy)]
pub(crate) struct Tag<'a> {
    /// Position in an entity, as an IOBES letter.
    pub(crate) position: &'a str,
    /// Entity type; `_` in data sets with only one type, empty outside entities.
    pub(crate) kind: &'a str,
}

pub(crate) fn split_tag(tag: &str) -> Tag<'_> {
    let (position, kind) = tag.split_once('-').unwrap_or((tag, "_"));
    match position {
        "O" => Tag { position, kind: "" },
        "L" => Tag { position: "E", kind },
        "U" | "W" => Tag { position: "S", kind },
        "M" => Tag { position: "I", kind },
        _ => Tag { position, kind },
    }
}
