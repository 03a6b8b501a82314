//! The tokenizers of BLEU, as in sacreBLEU.
//!
//! Computes BLEU (Papineni et al., 2002) like sacreBLEU (Post, 2018): with n-grams up to 4 and exponential smoothing of
//! precisions that are 0.

use bert_tokenization::is_python_space;

use super::ngrams::{matches, ngrams, split_like_python};

/// A tokenizer of sacreBLEU. BLEU counts n-grams of its tokens.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum BleuTokenizer {
    /// `13a` of mteval-v13a.pl, the default: punctuation becomes separate tokens, except periods and commas inside
    /// numbers, and hyphens that do not follow a digit.
    #[default]
    V13a,
    /// `zh`: every Chinese character is a token, and other text is split as in `13a`. Japanese kana are not split.
    Zh,
    /// `char`: every character is a token, for languages without spaces between words.
    Char,
}

impl BleuTokenizer {
    /// All tokenizers.
    pub const ALL: [Self; 3] = [Self::V13a, Self::Zh, Self::Char];

    /// Returns the name of the tokenizer in sacreBLEU's `--tokenize`.
    pub fn name(self) -> &'static str {
        match self {
            Self::V13a => "13a",
            Self::Zh => "zh",
            Self::Char => "char",
        }
    }

    /// Returns the tokens of a line.
    pub fn tokenize(self, line: &str) -> Vec<String> {
        let line = line.trim_end();
        match self {
            Self::V13a => split_punctuation(&format!(" {} ", without_markup(line))),
            Self::Zh => {
                split_punctuation(&line.trim().chars().map(|c| spaced(c, is_chinese(c))).collect::<String>())
            }
            Self::Char => line.chars().filter(|&c| !is_python_space(c)).map(String::from).collect(),
        }
    }
}

/// Returns a line without the markup that `13a` removes.
fn without_markup(line: &str) -> String {
    let mut line = line.replace("<skipped>", "").replace("-\n", "").replace('\n', " ");
    if line.contains('&') {
        for (entity, character) in [("&quot;", "\""), ("&amp;", "&"), ("&lt;", "<"), ("&gt;", ">")] {
            line = line.replace(entity, character);
        }
    }
    line
}

/// Splits a line at spaces, and separates its punctuation.
fn split_punctuation(line: &str) -> Vec<String> {
    let separated: String = line.chars().map(|c| spaced(c, is_separate(c))).collect();
    let is_point = |c: char| c == '.' || c == ',';
    let is_digit = |c: char| c.is_ascii_digit();
    // Each rule looks at two characters, and continues after both where it applies.
    let text = replace_pairs(&separated, |a, b| (!is_digit(a) && is_point(b)).then(|| format!("{a} {b} ")));
    let text = replace_pairs(&text, |a, b| (is_point(a) && !is_digit(b)).then(|| format!(" {a} {b}")));
    let text = replace_pairs(&text, |a, b| (is_digit(a) && b == '-').then(|| format!("{a} {b} ")));
    split_like_python(&text).map(String::from).collect()
}

/// Returns a character, with a space on each side if it is a token.
fn spaced(c: char, is_token: bool) -> String {
    if is_token { format!(" {c} ") } else { c.to_string() }
}

/// Returns whether sacreBLEU's `zh` makes a character a token. sacreBLEU writes the ranges from U+20000 and from
/// U+2F800 as `\u` with five hexadecimal digits, of which Python reads four. So the first range begins after U+2000,
/// and the characters beyond U+FFFF are missing.
fn is_chinese(c: char) -> bool {
    matches!(
        c,
        '\u{2001}'..='\u{2a6d}'
            | '\u{2e80}'..='\u{2fdf}'
            | '\u{2ff0}'..='\u{303f}'
            | '\u{3100}'..='\u{312f}'
            | '\u{31a0}'..='\u{31bf}'
            | '\u{31c0}'..='\u{31ef}'
            | '\u{3200}'..='\u{33ff}'
            | '\u{3400}'..='\u{4db5}'
            | '\u{4e00}'..='\u{9fbb}'
            | '\u{f900}'..='\u{fa2d}'
            | '\u{fa30}'..='\u{fa6a}'
            | '\u{fa70}'..='\u{fad9}'
            | '\u{fe10}'..='\u{fe1f}'
            | '\u{fe30}'..='\u{fe4f}'
            | '\u{ff00}'..='\u{ffef}'
    )
}

/// Returns whether a character is always a token of its own: ASCII punctuation except `'`, `,`, `-` and `.`.
fn is_separate(c: char) -> bool {
    c.is_ascii_punctuation() && !matches!(c, '\'' | ',' | '-' | '.')
}

fn replace_pairs(text: &str, rule: impl Fn(char, char) -> Option<String>) -> String {
    let mut out = String::with_capacity(text.len());
    let mut rest = text.chars();
    while let Some(first) = rest.next() {
        match rest.clone().next().and_then(|second| rule(first, second)) {
            Some(replaced) => {
                out.push_str(&replaced);
                rest.next();
            }
            None => out.push(first),
        }
    }
    out
}

const ORDER: usize = 4;

/// Returns the length of the hypothesis, the length of the closest reference, the number of matches of each order, and
/// the number of n-grams of each order.
pub(super) fn counts(tokenizer: BleuTokenizer, hypothesis: &str, references: &[&str]) -> Vec<u64> {
    let hypothesis = tokenizer.tokenize(hypothesis);
    let references: Vec<Vec<String>> =
        references.iter().map(|reference| tokenizer.tokenize(reference)).collect();
    let length = hypothesis.len();
    let closest = references.iter().map(Vec::len).min_by_key(|&other| (other.abs_diff(length), other));
    let mut counts = vec![length as u64, closest.expect("a sentence has a reference") as u64];
    for n in 1..=ORDER {
        let mut all = ngrams(&references[0], n);
        for reference in &references[1..] {
            for (ngram, count) in ngrams(reference, n) {
                all.entry(ngram).and_modify(|most| *most = count.max(*most)).or_insert(count);
            }
        }
        counts.push(matches(&ngrams(&hypothesis, n), &all));
    }
    counts.extend((1..=ORDER).map(|n| (length + 1).saturating_sub(n) as u64));
    counts
}

/// Returns BLEU of summed counts.
pub(super) fn score(counts: &[u64]) -> f64 {
    let length = counts[0] as f64;
    let reference_length = counts[1] as f64;
    let (correct, total) = counts[2..].split_at(ORDER);
    if correct.iter().all(|&count| count == 0) || total.contains(&0) {
        return 0.0;
    }
    let brevity_penalty =
        if length < reference_length { (1.0 - reference_length / length).exp() } else { 1.0 };
    let mut smoothing = 1.0;
    let mut log_sum = 0.0;
    for (&correct, &total) in correct.iter().zip(total) {
        let precision = match correct {
            0 => {
                smoothing *= 2.0;
                100.0 / (smoothing * total as f64)
            }
            _ => 100.0 * correct as f64 / total as f64,
        };
        log_sum += precision.ln();
    }
    brevity_penalty * (log_sum / ORDER as f64).exp()
}
