//! Joins the lines of paragraphs, and words that are divided at the ends of lines.

use std::collections::HashSet;

use super::line_breaks::{Line, LineBreaks, is_cjk};
use crate::forms::line_breaks::ends_sentence;
use crate::reading::LineBreaks as Setting;

/// The words of a text, against which a word that is divided at the end of a line is checked.
#[derive(Clone, Debug, Default)]
pub(crate) struct Words(HashSet<u64>);

/// Maximum number of words that are kept.
const MAX_WORDS: usize = 1 << 18;

impl Words {
    /// Adds the words of a line; the parts of a divided word do not count.
    pub(crate) fn add(&mut self, line: &str) {
        if self.0.len() < MAX_WORDS {
            let words = line.trim().trim_end_matches(|c: char| c == '-' || c.is_alphanumeric());
            self.0.extend(words.split_whitespace().map(|word| hash(word, "")));
        }
    }

    fn knows(&self, first: &str, second: &str) -> bool {
        self.0.contains(&hash(first, second))
    }
}

/// Returns the hash of a word in two parts, without punctuation around it and in lower-case letters.
fn hash(first: &str, second: &str) -> u64 {
    let word = format!("{first}{second}").to_lowercase();
    twox_hash::XxHash3_64::oneshot(word.trim_matches(|c: char| !c.is_alphanumeric()).as_bytes())
}

/// Joiner of the lines of paragraphs.
#[derive(Clone, Debug, Default)]
pub(crate) struct Joiner {
    pub(crate) breaks: LineBreaks,
    words: Words,
    /// The last line of the open paragraph, with its indentation.
    last: String,
    /// The open paragraph.
    paragraph: String,
    /// Whether the open paragraph is an item of a list.
    is_item: bool,
    /// Number of lines that were joined to the line before.
    pub(crate) joined: u64,
}

/// Length in bytes from which a paragraph ends at the next end of a sentence.
const LONG: usize = 16 << 10;
/// Length in bytes at which a paragraph ends anywhere.
const TOO_LONG: usize = 1 << 20;

impl Joiner {
    /// Returns a joiner of lines with these breaks.
    pub(crate) fn new(breaks: LineBreaks, words: Words) -> Self {
        Self { breaks, words, ..Self::default() }
    }

    /// Adds a line that is not blank; calls `on_paragraph` with the paragraph that ends before it. With `far`,
    /// something else was between the lines, such as the end of a page; they are then joined only if a sentence
    /// continues.
    pub(crate) fn add(&mut self, line: &str, far: bool, on_paragraph: &mut impl FnMut(&str)) {
        self.words.add(line);
        let next = Line::new(line);
        let goes_on = !self.paragraph.is_empty() && {
            let last = Line::new(&self.last);
            if far {
                last.is_open() && !next.is_item() && (next.begins_small() || !next.has_case())
            } else {
                self.breaks.continues(last, next, self.is_item)
            }
        };
        let is_long =
            self.paragraph.len() > LONG && (ends_sentence(&self.last) || self.paragraph.len() > TOO_LONG);
        if goes_on && !is_long {
            self.joined += 1;
            self.append(next.text);
        } else {
            self.end(on_paragraph);
            self.paragraph.push_str(next.text);
            self.is_item = next.is_item();
        }
        self.last.clear();
        self.last.push_str(line);
    }

    /// Appends the text of a line to the open paragraph.
    fn append(&mut self, next: &str) {
        let before = self.paragraph.chars().next_back();
        let after = next.chars().next();
        let hyphen = before.filter(|c| matches!(c, '-' | '\u{2010}' | '\u{ad}'));
        if let Some(hyphen) = hyphen
            && let Some(kept) = self.paragraph.strip_suffix(hyphen)
            && kept.ends_with(char::is_alphanumeric)
        {
            let first = &kept[kept.rfind(char::is_whitespace).map_or(0, |at| at + 1)..];
            let second = next.split_whitespace().next().unwrap_or_default();
            if hyphen == '\u{ad}' || self.words.knows(first, second) {
                self.paragraph.truncate(kept.len());
            }
        } else if !(before.is_some_and(is_cjk) && after.is_some_and(is_cjk)) {
            self.paragraph.push(' ');
        }
        self.paragraph.push_str(next);
    }

    /// Ends the open paragraph.
    pub(crate) fn end(&mut self, on_paragraph: &mut impl FnMut(&str)) {
        if !self.paragraph.is_empty() {
            on_paragraph(&self.paragraph);
            self.paragraph.clear();
        }
    }

    /// Returns whether the sentence of the last line continues.
    pub(crate) fn is_open(&self) -> bool {
        !self.paragraph.is_empty() && Line::new(&self.last).is_open()
    }
}

/// The paragraphs of a text whose lines were joined.
#[derive(Clone, Debug)]
pub struct Joined {
    /// The paragraphs.
    pub paragraphs: Vec<String>,
    /// An example of a break inside a sentence: the lines before and after it.
    pub example: Option<[String; 2]>,
}

/// Returns the paragraphs of a text whose lines break inside sentences, or `None` if they do not or if the text has
/// only one line. `setting` is the meaning of line breaks; they are measured if it is `Auto`.
pub fn joined_paragraphs(text: &str, setting: Setting) -> Option<Joined> {
    if !text.trim_end().contains('\n') || matches!(setting, Setting::Sentence | Setting::Paragraph) {
        return None;
    }
    let breaks = LineBreaks::measure(text.lines());
    if setting == Setting::Auto && !breaks.are_inside_sentences_of_row() {
        return None;
    }
    let mut words = Words::default();
    text.lines().for_each(|line| words.add(line));
    let mut joiner = Joiner::new(breaks, words);
    let mut paragraphs = Vec::new();
    let mut push = |paragraph: &str| paragraphs.push(paragraph.to_owned());
    for line in text.lines() {
        if line.trim().is_empty() {
            joiner.end(&mut push);
        } else {
            joiner.add(line, false, &mut push);
        }
    }
    joiner.end(&mut push);
    let example = joiner.breaks.example.take();
    Some(Joined { paragraphs, example })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns text in lines of at most `width` characters.
    pub(super) fn wrapped(text: &str, width: usize) -> String {
        let mut out = String::new();
        let mut length = 0;
        for word in text.split_whitespace() {
            let chars = word.chars().count();
            if length > 0 && length + 1 + chars > width {
                out.push('\n');
                length = 0;
            } else if length > 0 {
                out.push(' ');
                length += 1;
            }
            out.push_str(word);
            length += chars;
        }
        out
    }

    const ENGLISH: &str = "The miller opened the sluice before dawn, because the river had risen during the night and nobody \
        knew how long the old gate would hold. Water ran over the meadow. By noon the road to Harwick was closed, and the \
        children of the village stood on the bridge and counted the planks that came down the stream.";
    const GERMAN: &str = "Der Müller öffnete das Wehr vor Sonnenaufgang, weil der Fluss in der Nacht gestiegen war und \
        niemand wusste, wie lange das alte Tor dem Wasser standhalten würde. Das Wasser lief über die Wiese. Am Mittag war \
        die Straße nach Neustadt gesperrt, und die Kinder des Dorfes zählten auf der Brücke die Bretter im Strom.";
    const HINDI: &str = "नदी रात भर में बहुत ऊपर आ गई थी और गाँव के लोग सुबह से पहले ही पुल पर इकट्ठे हो गए थे। पानी खेतों में फैल गया। दोपहर तक \
        शहर जाने वाली सड़क बंद हो गई और बच्चे पुल पर खड़े होकर बहते हुए लकड़ी के तख्ते गिनते रहे।";

    #[test]
    fn wrapped_text_of_any_width_is_joined() {
        for (text, widths) in [(ENGLISH, 50..81), (GERMAN, 50..81), (HINDI, 40..81)] {
            for width in widths.step_by(10) {
                let lines = wrapped(text, width);
                let paragraphs = joined_paragraphs(&lines, Setting::Auto)
                    .map(|joined| joined.paragraphs)
                    .unwrap_or_default();
                assert_eq!(
                    paragraphs,
                    [text.split_whitespace().collect::<Vec<_>>().join(" ")],
                    "{width}: {lines}"
                );
            }
        }
    }

    #[test]
    fn divided_words_are_joined_if_they_occur() {
        let text = "The teacher of the village was asked to read the letter a-\nloud, and the tea-\ncher read the well-\nknown letter of the mayor.\nIt was long.";
        let joined = joined_paragraphs(text, Setting::Wrapped).unwrap().paragraphs.concat();
        assert!(
            joined.contains("the teacher read the well-known letter") && joined.contains("a-loud"),
            "{joined}"
        );
    }

    #[test]
    fn headings_lists_and_indented_paragraphs_stay_apart() {
        let text = format!(
            "THE FLOOD\n{}\n    The second paragraph begins with an indentation, as in old books, and it\nis short.\n- one item of a list\n- another item",
            wrapped(ENGLISH, 60)
        );
        let paragraphs = joined_paragraphs(&text, Setting::Auto).unwrap().paragraphs;
        assert_eq!(paragraphs.len(), 5, "{paragraphs:#?}");
        assert_eq!(paragraphs[0], "THE FLOOD");
        assert!(paragraphs[2].starts_with("The second") && paragraphs[2].ends_with("it is short."));
        assert_eq!(paragraphs[4], "- another item");
    }

    #[test]
    fn ideographs_are_joined_without_blanks() {
        let text = "清晨的河水在一夜之间涨得很高，村里的人们都站在桥上看着水流，\n孩子们数着从上游漂下来的木板，老人说这样的大水几十年没有见过\n了。到了中午，通往城里的路也被水淹没了，谁也过不去，大家只\n好等水退下去。";
        let paragraphs = joined_paragraphs(text, Setting::Auto).unwrap().paragraphs;
        assert_eq!(paragraphs, [text.replace('\n', "")]);
    }
}
