//! Reads the pages of a dump: the XML that MediaWiki exports (schema export-0.3 to 0.11).

use std::collections::HashSet;
use std::io::{self, BufRead, BufReader, Read, Take};
use std::sync::Arc;

use quick_xml::Reader;
use quick_xml::events::{BytesStart, Event};

use bert_storage::catch_panic;

use crate::blocks::{NextRow, RowFile, RowSource};
use crate::bytes::decompress::Source;
use crate::error::{Error, Result};
use crate::wikitext::Wiki;
use crate::{DumpPages, Format, MAX_LINE_BYTES};

/// Maximum length of a title, a name or a number.
const MAX_NAME: usize = 4096;
/// Maximum number of names of namespaces.
const MAX_NAMESPACES: usize = 1000;
/// Number of bytes that the buffer of the parser reads ahead.
const AHEAD: usize = 1 << 16;
/// Maximum number of bytes that the parser reads for one part of a dump, such as a tag, a comment or a text.
const LIMIT: u64 = (MAX_LINE_BYTES + AHEAD) as u64;

/// The elements whose text is read.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Field {
    None,
    Namespace,
    Title,
    NamespaceNumber,
    Model,
    Text,
}

/// The page that is being read. A page with several revisions has the text of the last one.
#[derive(Debug, Default)]
struct Page {
    title: String,
    namespace: String,
    model: String,
    text: Vec<u8>,
    is_redirect: bool,
}

/// Reader of the articles of a dump.
pub(super) struct Dump {
    xml: Reader<BufReader<Take<Box<dyn BufRead + Send>>>>,
    buffer: Vec<u8>,
    page: Page,
    field: Field,
    /// Number and name of the namespace in the header that is being read.
    key: String,
    name: String,
    /// Names of all namespaces except the namespace of articles, for dumps without the numbers of namespaces.
    other_namespaces: HashSet<String>,
    wiki: Arc<Wiki>,
    /// The languages of all headers so far.
    languages: Vec<String>,
    pages: DumpPages,
    /// Number of pages so far.
    count: u64,
    is_complete: bool,
}

impl Dump {
    pub(super) fn new(source: &mut Source) -> Self {
        let text = source.take_decoded();
        let mut xml = Reader::from_reader(BufReader::with_capacity(AHEAD, text.take(LIMIT)));
        // Page texts define no entities, so a lone ampersand is text.
        xml.config_mut().allow_dangling_amp = true;
        Self {
            xml,
            buffer: Vec::new(),
            page: Page::default(),
            field: Field::None,
            key: String::new(),
            name: String::new(),
            other_namespaces: HashSet::new(),
            wiki: Arc::default(),
            languages: Vec::new(),
            pages: DumpPages::default(),
            count: 0,
            is_complete: false,
        }
    }

    /// Appends the wikitext of the next article, if there is one.
    ///
    /// # Errors
    /// Fails when the dump cannot be read or is not well-formed XML, when it ends before its closing tag, or when a
    /// page is longer than the limit. If it cannot be read, the cause is [`quick_xml::Error::Io`].
    fn next_page(&mut self, into: &mut Vec<u8>) -> Result<NextRow> {
        let mut buffer = std::mem::take(&mut self.buffer);
        let found = loop {
            self.xml.get_mut().get_mut().set_limit(LIMIT);
            buffer.clear();
            let event = self.xml.read_event_into(&mut buffer);
            // The parser takes the limit for the end of the file.
            if self.xml.get_ref().get_ref().limit() == 0 {
                return Err(self.too_long());
            }
            match event.map_err(|error| not_xml(self.count, error))? {
                Event::Eof if self.is_complete => break NextRow::End,
                Event::Eof => {
                    return Err(Error::data(format!(
                        "the dump ends after page {} without </mediawiki>: it is incomplete; download it again, or \
                         cut it behind a </page> and append </mediawiki>",
                        self.count
                    )));
                }
                Event::Start(element) => {
                    let begins_dump = element.name().as_ref() == b"mediawiki" && self.count > 0;
                    self.start(&element);
                    if begins_dump {
                        self.buffer = buffer;
                        return Ok(NextRow::NewBlock);
                    }
                }
                Event::Empty(element) => self.empty(&element),
                Event::End(element) => {
                    let is_article = element.name().as_ref() == b"page" && self.end_page();
                    self.end(element.name().as_ref());
                    if is_article {
                        into.extend_from_slice(&self.page.text);
                        break NextRow::Row;
                    }
                }
                Event::Text(text) => self.append(&text)?,
                Event::CData(text) => self.append(&text)?,
                Event::GeneralRef(entity) => match entity.resolve_char_ref() {
                    Ok(Some(c)) => self.append(c.encode_utf8(&mut [0; 4]).as_bytes())?,
                    _ => self.append_entity(&entity)?,
                },
                _ => {}
            }
        };
        self.buffer = buffer;
        Ok(found)
    }

    fn too_long(&self) -> Error {
        let place = format!("the page after page {} of the dump", self.count);
        Error::data(format!("{place} is longer than {MAX_LINE_BYTES} bytes, which no article is"))
    }

    fn start(&mut self, element: &BytesStart<'_>) {
        self.field = match element.name().as_ref() {
            b"mediawiki" => {
                // Dumps may be joined: each has its own end, language and namespaces.
                self.is_complete = false;
                self.wiki = Arc::default();
                self.other_namespaces.clear();
                if let Some(language) = attribute(element, b"xml:lang") {
                    if !self.languages.contains(&language) {
                        self.languages.push(language.clone());
                    }
                    Arc::make_mut(&mut self.wiki).language = language;
                }
                Field::None
            }
            b"namespace" => {
                self.key = attribute(element, b"key").unwrap_or_default();
                self.name.clear();
                Field::Namespace
            }
            b"page" => {
                self.page = Page { text: std::mem::take(&mut self.page.text), ..Page::default() };
                self.page.text.clear();
                Field::None
            }
            b"title" => Field::Title,
            b"ns" => Field::NamespaceNumber,
            b"model" => {
                self.page.model.clear();
                Field::Model
            }
            b"text" => {
                self.page.text.clear();
                Field::Text
            }
            _ => Field::None,
        };
        self.empty(element);
    }

    fn empty(&mut self, element: &BytesStart<'_>) {
        self.page.is_redirect |= element.name().as_ref() == b"redirect";
    }

    fn end(&mut self, name: &[u8]) {
        if self.field == Field::Namespace && self.other_namespaces.len() < MAX_NAMESPACES {
            Arc::make_mut(&mut self.wiki).namespaces.add(&self.key, &self.name);
            if self.key != "0" && !self.name.is_empty() {
                self.other_namespaces.insert(std::mem::take(&mut self.name));
            }
        }
        self.field = Field::None;
        self.is_complete |= name == b"mediawiki";
    }

    /// Counts a page; returns whether it is an article.
    fn end_page(&mut self) -> bool {
        self.count += 1;
        let page = &self.page;
        let prefix = page.title.split_once(':').map_or("", |(prefix, _)| prefix);
        let is_other = match page.namespace.trim() {
            "" => self.other_namespaces.contains(prefix),
            number => number != "0",
        };
        let start = page.text.trim_ascii_start();
        let is_redirect =
            page.is_redirect || start.get(..9).is_some_and(|word| word.eq_ignore_ascii_case(b"#redirect"));
        if is_other || !matches!(page.model.trim(), "" | "wikitext") {
            self.pages.other_pages += 1;
        } else if is_redirect {
            self.pages.redirects += 1;
        } else {
            return true;
        }
        false
    }

    /// Appends text to the open field.
    fn append(&mut self, text: &[u8]) -> Result<()> {
        let field = match self.field {
            Field::None => return Ok(()),
            Field::Text => {
                if self.page.text.len() + text.len() > MAX_LINE_BYTES {
                    return Err(self.too_long());
                }
                self.page.text.extend_from_slice(text);
                return Ok(());
            }
            Field::Namespace => &mut self.name,
            Field::Title => &mut self.page.title,
            Field::NamespaceNumber => &mut self.page.namespace,
            Field::Model => &mut self.page.model,
        };
        if field.len() + text.len() <= MAX_NAME {
            field.push_str(&String::from_utf8_lossy(text));
        }
        Ok(())
    }

    /// Appends the character of one of XML's five entities; any other entity is appended as text.
    fn append_entity(&mut self, name: &[u8]) -> Result<()> {
        match str::from_utf8(name).ok().and_then(quick_xml::escape::resolve_xml_entity) {
            Some(text) => self.append(text.as_bytes()),
            None => self.append(&[b"&", name, b";"].concat()),
        }
    }
}

impl RowSource for Dump {
    fn next_row(&mut self, file: &RowFile, into: &mut Vec<u8>) -> Result<NextRow> {
        let count = self.count;
        let found = catch_panic(|| self.next_page(into)).unwrap_or_else(|panic| {
            Err(not_xml(count, quick_xml::Error::Io(Arc::new(io::Error::other(panic)))))
        });
        found.map_err(|problem| match problem.cause() {
            // The parser passes on the error of damaged compressed data.
            Some(quick_xml::Error::Io(cause)) => {
                file.damaged(io::Error::new(cause.kind(), cause.to_string()))
            }
            _ => problem.at(&file.path),
        })
    }

    fn format(&self) -> Format {
        Format::WikiDump
    }

    fn wiki(&self) -> Option<Arc<Wiki>> {
        Some(self.wiki.clone())
    }

    fn pages(&self) -> Option<DumpPages> {
        Some(DumpPages { language: self.languages.join(", "), ..self.pages.clone() })
    }
}

/// Returns the value of an attribute, or `None` if it is missing or longer than 64 bytes.
fn attribute(element: &BytesStart<'_>, name: &[u8]) -> Option<String> {
    let attribute = element.try_get_attribute(name).ok()??;
    let value = String::from_utf8_lossy(&attribute.value).trim().to_owned();
    (value.len() <= 64).then_some(value)
}

/// Returns the error for a dump that is not XML after a page.
fn not_xml(page: u64, cause: quick_xml::Error) -> Error {
    let advice = "download it again and compare its checksum";
    Error::data(format!("after page {page} of the dump: not well-formed XML; {advice}")).because(cause)
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;

    /// Returns the error for a dump that begins with this text, which is followed by a repeated byte.
    fn error_of(start: &str, byte: u8, count: u64) -> String {
        let rest = BufReader::new(io::repeat(byte).take(count));
        let text = io::Cursor::new(start.to_owned().into_bytes()).chain(rest);
        let mut file = RowFile::new(Path::new("wiki.xml"), Source::from_text(Box::new(text)));
        let mut dump = Dump::new(&mut file.source);
        dump.next_row(&file, &mut Vec::new()).map(drop).unwrap_err().to_string()
    }

    #[test]
    fn parts_of_a_dump_have_a_maximum_length() {
        let long = MAX_LINE_BYTES as u64 + (1 << 20);
        let expected =
            "wiki.xml: the page after page 0 of the dump is longer than 67108864 bytes, which no article is";
        for start in ["<mediawiki><!-- ", "<mediawiki><", "<mediawiki><page><text>", "<mediawiki a='"] {
            assert_eq!(error_of(start, b'a', long), expected, "{start}");
        }
        let short = error_of("<mediawiki><!-- ", b'a', 1 << 20);
        assert!(short.contains("not well-formed XML"), "{short}");
    }
}
