//! Splits lines of running text into sentences, in time linear in the length of the line.
//!
//! The sentence rules come from `sentencex`. It searches its input back and forth for closing quotes and word starts,
//! so a line of megabytes would take hours. A longer line is therefore passed to it in chunks; each chunk except the
//! first begins at a sentence boundary. Lines of at most [`CHUNK`] bytes are passed whole.

use sentencex::languages::Language;

use bert_text::line_breaks::is_script_end;

use crate::config::language::{DEFAULT_LANGUAGE, language_code};
use crate::documents::abbreviations::Abbreviations;

/// Maximum number of bytes per chunk.
const CHUNK: usize = 16 << 10;
/// Number of bytes at the end of a chunk that are searched for white space at which the chunk can be cut.
const CUT_WINDOW: usize = 1 << 10;

/// A sentence splitter for one language.
pub(crate) struct SentenceSplitter {
    rules: Box<dyn Language>,
    abbreviations: Abbreviations,
}

impl SentenceSplitter {
    /// Returns the splitter for a language, given by its ISO 639 code.
    pub(crate) fn new(language: &str) -> Self {
        let code = language_code(language).unwrap_or_else(|| DEFAULT_LANGUAGE.to_owned());
        Self { rules: sentencex::language_factory(&code), abbreviations: Abbreviations::new(&code) }
    }

    /// Calls `on_sentence` with each sentence of a line, in order. The concatenated sentences equal the line.
    pub(crate) fn for_each<'t>(&self, line: &'t str, on_sentence: &mut impl FnMut(&'t str)) {
        // Start of the open sentence, and start of the unprocessed text.
        let mut open = 0;
        let mut unread = 0;
        while line.len() - unread > CHUNK {
            let chunk = &line[unread..cut(line, unread + CHUNK)];
            let ends = self.ends(chunk);
            let accepted = accepted_end(&ends, chunk.len());
            for end in ends.into_iter().take_while(|&end| Some(end) <= accepted) {
                on_sentence(&line[open..unread + end]);
                open = unread + end;
            }
            // A sentence that fills most of a chunk continues in the next chunk, so every round advances by at least a
            // quarter.
            let far = accepted.filter(|&end| end >= chunk.len() / 4);
            unread += far.unwrap_or(chunk.len());
        }
        for end in self.ends(&line[unread..]) {
            on_sentence(&line[open..unread + end]);
            open = unread + end;
        }
        if open < line.len() {
            on_sentence(&line[open..]);
        }
    }

    /// Returns the ends of the sentences in a text, except the last one, which may be incomplete.
    fn ends(&self, text: &str) -> Vec<usize> {
        let mut ends = Vec::new();
        let mut start = 0;
        for sentence in self.rules.segment(text) {
            ends.extend(script_ends(sentence).map(|end| start + end));
            ends.extend(self.abbreviations.ends_inside(sentence).map(|end| start + end));
            start += sentence.len();
            ends.push(start);
        }
        ends.pop();
        ends.sort_unstable();
        ends.dedup();
        let mut start = 0;
        ends.retain(|&end| {
            let is_end = !is_list_number(&text[start..end])
                && !self.abbreviations.continue_across(&text[..end], &text[end..]);
            start = if is_end { end } else { start };
            is_end
        });
        ends
    }
}

/// Returns whether a text is the number of a list item, such as `12.` or `a)`. Such a number belongs to the sentence
/// after it.
fn is_list_number(text: &str) -> bool {
    let text = text.trim();
    let number = text.trim_end_matches(['.', ')']);
    let is_letter = number.len() == 1 && number.bytes().all(|byte| byte.is_ascii_alphabetic());
    let is_number = matches!(number.len(), 1..=3) && number.bytes().all(|byte| byte.is_ascii_digit());
    number.len() < text.len() && (is_letter || is_number)
}

/// Iterates over the ends of sentences inside a text in scripts for which `sentencex` has no rules, such as Khmer and
/// Tibetan.
fn script_ends(sentence: &str) -> impl Iterator<Item = usize> {
    let mut chars = sentence.char_indices().peekable();
    std::iter::from_fn(move || {
        while let Some((at, c)) = chars.next() {
            if !is_script_end(c) {
                continue;
            }
            let mut end = at + c.len_utf8();
            while let Some((at, c)) = chars.next_if(|(_, c)| is_script_end(*c) || c.is_whitespace()) {
                end = at + c.len_utf8();
            }
            return Some(end);
        }
        None
    })
}

/// Returns the last sentence end to accept from a chunk: one that is followed by at least a quarter of the chunk, so
/// that an open quote may still be closed; if there is none, the last one.
fn accepted_end(ends: &[usize], length: usize) -> Option<usize> {
    let before = ends.iter().rev().find(|&&end| end <= length - length / 4);
    before.filter(|&&end| end >= length / 4).or(ends.last()).copied()
}

/// Returns the offset at which to cut a text, at `max` or slightly before it.
fn cut(text: &str, max: usize) -> usize {
    let max = text.floor_char_boundary(max);
    let last = text.floor_char_boundary(max - CUT_WINDOW);
    text[last..max].rfind(char::is_whitespace).filter(|&at| at > 0).map_or(max, |at| last + at)
}

#[cfg(test)]
mod tests {
    use std::time::Instant;

    use super::*;

    fn sentences<'t>(language: &str, text: &'t str) -> Vec<&'t str> {
        let mut sentences = Vec::new();
        SentenceSplitter::new(language).for_each(text, &mut |sentence| sentences.push(sentence));
        sentences
    }

    /// Returns a line of ordinary text: names, abbreviations, numbers, quotes, lists.
    fn ordinary(bytes: usize) -> String {
        let some = [
            "The mill was built in 1891 by Dr. A. Smith of St. Ives. ",
            "\"Is it far?\" he asked. She said: \"It is. Take the 3.15 train.\" ",
            "Costs rose by 2.5 percent (see p. 12; cf. Fig. 3). ",
            "It rained all day! Nobody came... until noon. ",
        ];
        (0..)
            .map(|n| some[n * n % 7 % 4])
            .scan(0, |length, text| {
                *length += text.len();
                (*length <= bytes).then_some(text)
            })
            .collect()
    }

    #[test]
    fn long_lines_give_the_sentences_of_whole_lines() {
        for bytes in [0, 100, CHUNK, CHUNK + 40, 100_000] {
            let text = ordinary(bytes);
            assert_eq!(sentences("en", &text), sentencex::language_factory("en").segment(&text), "{bytes}");
        }
        let folder = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../corpora/almanac/train");
        for name in ["culture.txt", "nature.txt", "science.txt"] {
            let text = std::fs::read_to_string(folder.join(name)).unwrap().replace('\n', " ");
            assert!(text.len() > 3 * CHUNK);
            assert!(sentences("en", &text) == sentencex::language_factory("en").segment(&text), "{name}");
        }
        let polish = "Rzekł: „Dobrze. Idziemy.” I poszli. ".repeat(2000);
        assert_eq!(sentences("pl", &polish), sentencex::language_factory("pl").segment(&polish));
    }

    #[test]
    fn scripts_without_rules_have_ends() {
        let khmer = "ក្នុងភូមិ ទន្លេហូរ។ ទៅភូមិនេះ។នៅទីក្រុង";
        assert_eq!(sentences("en", khmer), ["ក្នុងភូមិ ទន្លេហូរ។ ", "ទៅភូមិនេះ។", "នៅទីក្រុង"]);
        assert_eq!(sentences("bo", "བོད་ཡིག། བོད་སྐད།"), ["བོད་ཡིག། ", "བོད་སྐད།"]);
    }

    #[test]
    fn abbreviations_do_not_end_sentences() {
        for (language, text, count) in [
            ("fr", "M. Petit est là. Le Dr. Martin aussi.", 2),
            ("pl", "Zob. s. 12, tj. tabl. 3 itd. To wszystko.", 2),
            ("pl", "Prof. dr hab. Jan Nowak ur. 3 maja 1950 r. w Warszawie. Mieszka tam.", 2),
            ("it", "Cfr. pag. 12 e art. 3. E tutto.", 2),
            ("it", "Il sig. Rossi abita in via Roma n. 5. Sono felici.", 2),
            ("pt", "O Sr. Silva mora na Av. Paulista, n. 5. Ele é feliz.", 2),
            ("nl", "Dhr. Jansen en mevr. de Vries wonen o.a. in Den Haag. Zij zijn blij.", 2),
            ("ru", "См. рис. 3 и табл. 4. Шёл дождь.", 2),
            ("sv", "Se t.ex. kap. 3. Det regnade.", 2),
            ("fr", "Il en reste n. Elle part.", 2),
        ] {
            assert_eq!(sentences(language, text).len(), count, "{language}: {:?}", sentences(language, text));
        }
    }

    #[test]
    fn numbers_of_list_items_are_no_sentences() {
        assert_eq!(
            sentences("en", "1. Open the gate. 2. Let the water in. a) Close it."),
            ["1. Open the gate. ", "2. Let the water in. ", "a) Close it."]
        );
        assert_eq!(
            sentences("de", "1. Das Tor öffnen. Dann warten."),
            ["1. Das Tor öffnen. ", "Dann warten."]
        );
    }

    #[test]
    fn no_byte_of_a_line_is_lost() {
        let blob = "x".repeat(100_000);
        assert_eq!(sentences("en", &blob), [&blob], "a sentence may be longer than a chunk");
        for unit in ["é", "“a ", "(a. B) ", "A. ", "„Ja. ", "。", "\"", "it is. It was "] {
            let text = unit.repeat(150_000 / unit.len());
            for language in ["en", "zh", "de", "xx"] {
                let found = sentences(language, &text);
                assert!(found.concat() == text && !found.contains(&""), "{language}: {unit}");
            }
        }
    }

    /// Eight times the text takes less than 24 times as long; a quadratic algorithm would take 64 times as long.
    #[test]
    fn time_grows_with_the_length_of_a_line() {
        for (language, unit) in [
            ("zh", "磨坊在河上它很古老"),
            ("pl", "Rzekł: „Dobrze” i „nie” tak. "),
            ("en", "“a "),
            ("en", "The mill (of \"Mr. Mill (etc.)\") is \"in (the\" lake). "),
        ] {
            let time = |bytes: usize| {
                let text = unit.repeat(bytes / unit.len());
                let one = |_| {
                    let start = Instant::now();
                    sentences(language, &text);
                    start.elapsed().as_secs_f64()
                };
                (0..3).map(one).fold(f64::MAX, f64::min)
            };
            let short = time(60_000);
            let long = time(480_000);
            assert!(long < 24.0 * short + 0.05, "{unit}: {short} s and {long} s");
        }
    }
}
