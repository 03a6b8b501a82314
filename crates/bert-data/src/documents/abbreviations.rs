//! Corrects the sentence ends that `sentencex` finds or misses at abbreviations.

/// Titles and other words after which a sentence always continues, for each language.
const TITLES: [(&str, &[&str]); 11] = [
    ("de", &["bzw", "ca", "dr", "prof", "hr", "fr", "st", "z.b", "d.h", "u.a", "usw.a"]),
    ("fr", &["m", "mm", "mme", "mlle", "dr", "pr", "me", "st", "ste", "mgr", "cf", "p.ex"]),
    ("es", &["sr", "sra", "srta", "dr", "dra", "d", "da", "prof", "ud", "uds", "av", "avda", "cf"]),
    ("it", &["sig", "sig.ra", "dott", "dott.ssa", "prof", "prof.ssa", "ing", "avv", "on", "cfr", "ecc.mo"]),
    ("pt", &["sr", "sra", "dr", "dra", "av", "prof", "profa", "exmo", "cf"]),
    ("nl", &["dhr", "mevr", "mw", "dr", "prof", "ir", "mr", "drs", "o.a", "bijv", "d.w.z", "resp"]),
    (
        "pl",
        &[
            "zob", "por", "tj", "tzn", "np", "m.in", "prof", "dr", "hab", "mgr", "inż", "ks", "św", "ul",
            "ur", "zm",
        ],
    ),
    ("ru", &["см", "ср", "т.е", "т.к", "напр", "проф", "акад", "ул", "им"]),
    ("sv", &["t.ex", "bl.a", "dvs", "d.v.s", "s.k", "dr", "prof", "ca"]),
    ("tr", &["dr", "prof", "doç", "sn", "bkz", "örn", "vb.gibi"]),
    ("cs", &["např", "tzv", "tj", "mj", "dr", "prof", "ing", "mgr", "sv"]),
];

/// Words after which a sentence continues if a number follows, in any of these languages.
const BEFORE_NUMBERS: [&str; 43] = [
    "p", "pp", "s", "n", "nr", "no", "num", "vol", "ch", "chap", "kap", "fig", "figs", "eq", "eqs", "tab",
    "tabl", "art", "pag", "pág", "p\u{e1}g", "str", "sec", "sect", "abb", "bd", "ur", "ok", "ca", "cca", "r",
    "rys", "obr", "рис", "табл", "стр", "гл", "ст", "núm", "cap", "approx", "afb", "par",
];

/// Words like "etc." that end a sentence if a capital follows. German has no entry: its nouns are capitalized, so a
/// capital does not show that a sentence begins.
const ENDS: [(&str, &[&str]); 5] = [
    ("pl", &["itd.", "itp."]),
    ("it", &["ecc."]),
    ("nl", &["enz."]),
    ("cs", &["atd.", "apod."]),
    ("sv", &["osv."]),
];

/// The abbreviations of one language.
pub(super) struct Abbreviations {
    titles: &'static [&'static str],
    ends: &'static [&'static str],
}

impl Abbreviations {
    /// Returns the abbreviations of a language, given by its code.
    pub(super) fn new(code: &str) -> Self {
        let base = code.split('-').next().unwrap_or_default();
        let titles =
            TITLES.iter().find(|(language, _)| *language == base).map_or(&[][..], |(_, titles)| titles);
        let ends = ENDS.iter().find(|(language, _)| *language == base).map_or(&[][..], |(_, ends)| ends);
        Self { titles, ends }
    }

    /// Iterates over the ends of sentences inside a text that are at abbreviations such as "etc.".
    pub(super) fn ends_inside<'t>(&self, text: &'t str) -> impl Iterator<Item = usize> + 't {
        let ends = self.ends;
        ends.iter().flat_map(move |end| {
            text.match_indices(end).filter_map(|(at, word)| {
                let rest = &text[at + word.len()..];
                let next = rest.trim_start();
                let begins = rest.len() > next.len() && next.starts_with(char::is_uppercase);
                let is_word = !text[..at].ends_with(char::is_alphabetic);
                (begins && is_word).then(|| text.len() - next.len())
            })
        })
    }

    /// Returns whether a sentence continues across a border that was found after `before`.
    pub(super) fn continue_across(&self, before: &str, after: &str) -> bool {
        // English is left to `sentencex`.
        let stem = before.trim_end().strip_suffix('.').filter(|_| !self.titles.is_empty());
        let Some(before) = stem else { return false };
        let start = before
            .rfind(|c: char| c.is_whitespace() || matches!(c, '(' | '[' | '\u{ab}' | '"'))
            .map_or(0, |at| at + before[at..].chars().next().map_or(1, char::len_utf8));
        let word = before[start..].to_lowercase();
        let next =
            after.trim_start_matches(|c: char| c.is_whitespace() || matches!(c, '(' | '[')).chars().next();
        let is = |known: &[&str]| known.contains(&word.as_str());
        match next {
            Some(c) if c.is_numeric() => is(&BEFORE_NUMBERS) || is(self.titles),
            // A single letter is a title only before a name.
            Some(c) if c.is_uppercase() => {
                is(self.titles)
                    && (word.chars().count() > 1
                        || start == 0
                        || before[..start].trim_end().ends_with(['.', ',', '!', '?']))
            }
            // Lower-cased text has no capitals at all, so a lower-case letter alone does not show that the sentence
            // continues.
            Some(c) if c.is_lowercase() => {
                let is_letter = word.chars().count() == 1 && word.chars().all(char::is_alphabetic);
                is(self.titles) || is_letter || word.contains('.')
            }
            Some(_) => false,
            None => false,
        }
    }
}
