//! Reads text whose lines break inside sentences, and joins the lines to paragraphs and documents.
//!
//! Blank lines end paragraphs. If the blocks between blank lines are long, each block is a document. The paragraphs of
//! a book are short blocks, so a file of short blocks is one document. Page numbers, page headers and form feeds of
//! text from PDF are left out, and a sentence continues across them.

use std::collections::{HashMap, HashSet};

use super::joiner::{Joiner, Words};
use super::line_breaks::{Line, LineBreaks};
use super::text::{Converter, Text};

/// Minimum median number of lines of blocks that are documents; paragraphs are shorter.
const LINES_OF_DOCUMENT: usize = 12;
/// Minimum number of times that a page header occurs between paragraphs or at a form feed.
const MIN_HEADS: usize = 3;
/// Maximum number of characters of a page header.
const MAX_HEAD: usize = 80;

/// Returns a line with zeros for its digits; page headers are compared in this form.
fn shape(line: &str) -> String {
    let line = line.trim_matches(|c: char| c.is_whitespace() || c == '\u{c}');
    line.chars().map(|c| if c.is_numeric() { '0' } else { c }).collect()
}

/// Returns whether a line is the number of a page, such as `12`, `- 12 -`, `xii`, `Page 12` or `12 of 300`.
fn is_page_number(line: &str) -> bool {
    let is_frame = |c: char| c.is_whitespace() || matches!(c, '-' | '\u{c}' | '\u{2013}' | '[' | ']' | '|');
    let line = line.trim_matches(is_frame).to_lowercase();
    let number = ["page", "pg.", "pg", "p."].iter().find_map(|name| line.strip_prefix(name)).unwrap_or(&line);
    let (number, all) = number.split_once(" of ").or(number.split_once('/')).unwrap_or((number, "1"));
    let is_number =
        |text: &str| matches!(text.len(), 1..=4) && text.bytes().all(|byte| byte.is_ascii_digit());
    let is_roman =
        |text: &str| matches!(text.len(), 1..=6) && text.bytes().all(|byte| b"ivxl".contains(&byte));
    (is_number(number.trim()) || is_roman(number.trim())) && is_number(all.trim())
}

/// Returns the shape of a line that may belong to the page; all page numbers have the same shape.
fn page_shape(line: &str) -> String {
    if is_page_number(line) { "0".to_owned() } else { shape(line) }
}

/// Returns the shapes of the lines that recur between paragraphs or at form feeds. At least a quarter of the
/// occurrences of such a line interrupt a sentence or are at a form feed. Headings of chapters and years of a chronicle
/// interrupt no sentence.
fn page_heads(lines: &[&str], breaks: &LineBreaks) -> HashSet<String> {
    let is_border =
        |line: Option<&&str>| line.is_none_or(|line| line.trim().is_empty() || line.starts_with('\u{c}'));
    let before = |at: usize| at.checked_sub(1).and_then(|at| lines.get(at));
    let is_text = |line: &&&str| !line.trim().is_empty() && !is_page_number(line);
    // Number of times that a line occurs, and number of times that it interrupts a sentence or is at a form feed.
    let mut counts: HashMap<String, [usize; 2]> = HashMap::new();
    let mut last = None;
    for (at, &line) in lines.iter().enumerate() {
        let shape = page_shape(line);
        // The footer of a page may have two lines.
        let after = lines[at + 1..].iter().take_while(|line| !line.trim_matches(' ').is_empty()).take(2);
        let is_feed = |line: &&&str| line.trim_matches(' ') == "\u{c}";
        let is_at_feed = line.starts_with('\u{c}')
            || before(at).as_ref().is_some_and(is_feed)
            || after.into_iter().any(|next| next.starts_with('\u{c}'));
        let is_alone = is_border(before(at)) && is_border(lines.get(at + 1));
        if (is_at_feed || is_alone) && !shape.is_empty() && shape.chars().count() <= MAX_HEAD {
            let next = lines[at + 1..].iter().find(is_text);
            let interrupts = last.zip(next).is_some_and(|(last, next)| {
                breaks.interrupted(Line::new(last), Line::new(next.trim_start_matches('\u{c}')))
            });
            let [times, interruptions] = counts.entry(shape).or_default();
            *times += 1;
            *interruptions += usize::from(is_at_feed || interrupts);
        } else if is_text(&&line) {
            last = Some(line);
        }
    }
    let is_head = |[times, interruptions]: [usize; 2]| times >= MIN_HEADS && 4 * interruptions >= times;
    counts.into_iter().filter(|(_, counts)| is_head(*counts)).map(|(shape, _)| shape).collect()
}

/// The paragraph that is being read.
pub(super) struct Paragraphs {
    joiner: Joiner,
    page_heads: HashSet<String>,
    blocks_are_documents: bool,
    after_blank: bool,
    /// Whether a page ended since the last line of text.
    after_page: bool,
}

impl Paragraphs {
    /// Returns the converter of a file that begins with these lines. The words of these lines are known before the
    /// conversion begins.
    pub(super) fn new(lines: &[&str]) -> Self {
        let mut sizes: Vec<usize> = lines
            .split(|line| line.trim().is_empty())
            .map(|block| block.iter().filter(|line| !is_page_number(line)).count())
            .filter(|&size| size > 1)
            .collect();
        sizes.sort_unstable();
        let median = sizes.get(sizes.len() / 2).copied().unwrap_or_default();
        let breaks = LineBreaks::measure(lines.iter().copied());
        let mut words = Words::default();
        lines.iter().for_each(|line| words.add(line));
        Self {
            page_heads: page_heads(lines, &breaks),
            joiner: Joiner::new(breaks, words),
            blocks_are_documents: sizes.len() > 1 && median >= LINES_OF_DOCUMENT,
            after_blank: false,
            after_page: false,
        }
    }

    /// Returns the converter of a file in which blank lines never end documents.
    pub(super) fn inside_documents(lines: &[&str]) -> Self {
        Self { blocks_are_documents: false, ..Self::new(lines) }
    }

    /// Ends the open paragraph.
    pub(super) fn end_paragraph(&mut self, out: &mut Text) {
        self.joiner.end(&mut |paragraph| out.push(paragraph));
    }

    /// Returns whether a line belongs to the page and not to the text.
    fn is_page_part(&self, line: &str) -> bool {
        let is_head = line.chars().count() <= MAX_HEAD + 20 && self.page_heads.contains(&page_shape(line));
        is_head
            && (!is_page_number(line)
                || self.after_blank
                || self.after_page
                || !line.trim().starts_with(|c: char| c.is_ascii_digit()))
    }
}

impl Converter for Paragraphs {
    fn line(&mut self, line: &str, out: &mut Text) {
        self.after_page |= line.starts_with('\u{c}');
        if Line::new(line).text.is_empty() {
            self.after_blank = true;
            return;
        }
        if self.is_page_part(line) {
            self.after_page = true;
            out.counts.left_out += 1;
            out.counts.left_out_line.get_or_insert_with(|| line.trim().to_owned());
            return;
        }
        let is_far = std::mem::take(&mut self.after_blank) || self.after_page;
        let goes_on = std::mem::take(&mut self.after_page) && self.joiner.is_open();
        if is_far && !goes_on {
            self.end_paragraph(out);
            if self.blocks_are_documents {
                out.end_document();
            }
        }
        self.joiner.add(line.trim_matches('\u{c}'), is_far, &mut |paragraph| out.push(paragraph));
    }

    fn end(&mut self, out: &mut Text) {
        self.end_paragraph(out);
        out.counts.joined = self.joiner.joined;
        out.counts.example = self.joiner.breaks.example.clone();
        out.counts.is_one_document = !self.blocks_are_documents;
    }
}

#[cfg(test)]
mod tests {
    use crate::forms::converted;

    const PARAGRAPH: &str = "The miller opened the sluice before dawn, because the\nriver had risen during the night and nobody knew how\nlong the old gate would hold. Water ran over the\nmeadow.";

    #[test]
    fn a_book_is_one_document() {
        let book = format!("THE FLOOD\n\n{}", format!("{PARAGRAPH}\n\n").repeat(6));
        let text = format!("THE FLOOD\n{}", format!("{}\n", PARAGRAPH.replace('\n', " ")).repeat(6));
        assert_eq!(converted(&book), text);
    }

    #[test]
    fn long_blocks_are_documents() {
        let article = format!("{PARAGRAPH}\n").repeat(4);
        let out = converted(&format!("{article}\n{article}\n{article}"));
        assert_eq!(out.matches("\n\n").count(), 2, "{out}");
    }

    #[test]
    fn sentences_go_on_across_pages() {
        let page = |number: usize| format!("\n                 {number}\n\u{c}      A Book of Floods\n\n");
        let (first, second) = PARAGRAPH.split_at(PARAGRAPH.find("river had").unwrap());
        let names = ["miller", "baker", "tanner", "weaver"];
        let named = |text: &str, name: &str| text.replace("miller", name);
        let pages = names
            .iter()
            .zip(1..)
            .map(|(name, number)| format!("{}{}{second}\n\n", named(first, name), page(number)));
        let text: String =
            names.iter().map(|name| named(&format!("{}\n", PARAGRAPH.replace('\n', " ")), name)).collect();
        assert_eq!(converted(&pages.collect::<String>()), text);
    }

    #[test]
    fn headers_after_a_lone_form_feed_are_left_out() {
        let names = ["miller", "baker", "tanner", "weaver"];
        let page = |(name, number): (&&str, usize)| {
            format!(
                "{}\n\n\n\nAnn            Floods          [Page {number}]\n\u{c}\nRFC 1234       The Mill        January 2026\n\n\n",
                PARAGRAPH.replace("miller", name)
            )
        };
        let out = converted(&names.iter().zip(1..).map(page).collect::<String>());
        let text: String =
            names.iter().map(|name| PARAGRAPH.replace('\n', " ").replace("miller", name) + "\n").collect();
        assert_eq!(out, text);
    }

    #[test]
    fn chinese_lines_are_joined_after_any_first_character() {
        let line = "大水之后老人和孩子们一起修好了河边的旧磨坊因为那天夜里没有人知道水会涨得那么高所以大家都站在桥上看着水流过草地和花园直到天亮没有人说话也没有人离开只有狗在叫";
        let paragraph: String = line
            .chars()
            .collect::<Vec<_>>()
            .chunks(28)
            .map(|line| line.iter().collect::<String>() + "\n")
            .collect();
        let paragraph = paragraph.trim_end().to_owned() + "结束了。\n\n";
        for first in ["“你好！”他说。\n\n", "2020年的大水\n\n", "CHAPTER 1\n\n"] {
            let out = converted(&format!("{first}{}", paragraph.repeat(8)));
            assert_eq!(out, format!("{}\n{}", first.trim(), format!("{line}结束了。\n").repeat(8)));
        }
    }

    #[test]
    fn headings_of_chapters_stay() {
        for heading in ["# The flood, part", "Chapter", "CHAPTER No."] {
            let book: String = (1..6)
                .map(|number| format!("{heading} {number}\n\n{PARAGRAPH}\n\n{PARAGRAPH}\n\n"))
                .collect();
            let out = converted(&book);
            assert_eq!(out.matches(heading).count(), 5, "{out}");
        }
    }

    #[test]
    fn quoted_lines_are_joined_without_their_marks() {
        let quoted: String = PARAGRAPH.lines().map(|line| format!("> {line}\n")).collect();
        let text = PARAGRAPH.replace('\n', " ");
        let out = converted(&format!("{PARAGRAPH}\n\nAnn wrote:\n{quoted}\n{quoted}\n{PARAGRAPH}\n"));
        assert_eq!(out, format!("{text}\nAnn wrote:\n{text}\n{text}\n{text}\n"));
    }

    #[test]
    fn years_and_chapters_after_open_lines_stay() {
        let chapter = |heading: String| {
            format!("{heading}\n\n{PARAGRAPH}\n\n{PARAGRAPH}\n\nThe river ran,\nthe mill was old\n\n")
        };
        for name in ["CHAPTER ", "LETTER ", ""] {
            let book: String = (1700..1712).map(|number| chapter(format!("{name}{number}"))).collect();
            let out = converted(&book);
            assert!((1700..1712).all(|number| out.contains(&format!("{name}{number}\n"))), "{out}");
        }
    }

    const NAMES: [&str; 6] = ["stream", "water", "brook", "lake", "pond", "sea"];

    #[test]
    fn feet_of_pages_are_left_out() {
        let (first, second) = PARAGRAPH.split_at(PARAGRAPH.find("river had").unwrap());
        for foot in [
            "\n\nThe mill, 2011\n{}\n\u{c}",
            "\n\n{}\nwww.mill.example\n\u{c}",
            "\n\nPage {} of 15\n\u{c}",
            "\n\n{}/15\n\u{c}",
            "\n- {} -\n\u{c}",
            "\n[Pg {}]\n\u{c}",
        ] {
            let foot_of = |number: usize| foot.replace("{}", &number.to_string());
            let page = |number: usize| {
                let second = second.replace("river", NAMES[number]);
                format!("{first}{}{second}\n\n{PARAGRAPH}\n\n", foot_of(number))
            };
            let whole = PARAGRAPH.replace('\n', " ");
            let pages: String = (1..6).map(page).collect();
            let text: String = (1..6)
                .map(|number| format!("{}\n{whole}\n", whole.replace("river", NAMES[number])))
                .collect();
            assert_eq!(converted(&pages), text, "{foot}");
        }
    }

    #[test]
    fn numbers_at_the_start_of_lines_begin_no_items() {
        let dated = "The miller was an old man, and his daughter came home on May\n3. The village was glad to see her again.";
        let quoted = "> A quoted line of text.\n>\n> Another line of text.\n";
        let out = converted(&format!("{PARAGRAPH}\n\n{PARAGRAPH}\n\n{PARAGRAPH}\n\n{dated}\n\n{quoted}"));
        assert!(out.contains("home on May 3. The village"), "{out}");
        assert!(out.ends_with("A quoted line of text.\nAnother line of text.\n"), "{out}");
    }
}
