//! Table rows and names in Markdown.

use std::borrow::Borrow;

use maud::html;

/// Returns the rows of a table, one per line.
pub fn rows<S: Borrow<str>, const N: usize>(rows: impl IntoIterator<Item = [S; N]>) -> String {
    rows.into_iter().map(|cells| format!("| {} |\n", cells.join(" | "))).collect()
}

/// Returns a text in which the characters that have a meaning in Markdown or HTML are escaped, and control characters
/// are replaced by spaces.
#[must_use]
pub fn plain(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in html! { (text) }.into_string().chars() {
        if "|`*[]\\#_".contains(c) {
            out.push('\\');
        }
        out.push(if c.is_control() { ' ' } else { c });
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn special_characters_are_escaped() {
        assert_eq!(plain("a|b\n<c> & `d`"), "a\\|b &lt;c&gt; &amp; \\`d\\`");
        assert_eq!(rows([["a", "1"], ["b", "2"]]), "| a | 1 |\n| b | 2 |\n");
    }
}
