//! The namespaces of a wiki, which decide whether a link is text.

use std::collections::HashSet;
use std::sync::LazyLock;

/// Names, in lower case, of the namespaces of files and categories in large Wikipedias. A dump of another language may
/// use these names too.
static HIDDEN: LazyLock<HashSet<&str>> =
    LazyLock::new(|| include_str!("hidden_namespaces.txt").lines().collect());

/// The namespaces of one wiki.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Namespaces {
    /// Local names of the namespaces of files and categories, in lower case.
    hidden: Vec<String>,
}

impl Namespaces {
    /// Adds the local name of a namespace by its number.
    pub(crate) fn add(&mut self, key: &str, name: &str) {
        // These are the numbers of Media, File and Category.
        if matches!(key, "-2" | "6" | "14") && self.hidden.len() < 16 && name.len() < 200 {
            self.hidden.push(name.trim().to_lowercase());
        }
    }

    /// Returns whether a link to this target is not text: a file, a category, or the same article in another language.
    pub(super) fn hides(&self, target: &str, has_text: bool) -> bool {
        // No name of a namespace is longer than 200 bytes.
        let start = &target[..target.floor_char_boundary(200)];
        let Some((prefix, rest)) = start.split_once(':') else { return false };
        let name = prefix.trim().to_lowercase().replace('_', " ");
        if name.is_empty() {
            return false;
        }
        let is_hidden = HIDDEN.contains(name.as_str()) || self.hidden.contains(&name);
        // Titles begin with a capital; `[[re:publica]]` is the name of an article.
        let is_language = is_language_code(prefix.trim_start())
            && rest.starts_with(|c: char| c != ' ' && !c.is_lowercase());
        is_hidden || (is_language && !has_text)
    }
}

/// Returns whether a prefix of a link is the code of a Wikipedia: two or three letters, with or without parts after
/// hyphens, or `simple`.
fn is_language_code(prefix: &str) -> bool {
    let letters = prefix.bytes().all(|byte| byte.is_ascii_lowercase() || byte == b'-');
    let first = prefix.split('-').next().unwrap_or_default().len();
    letters && ((2..=3).contains(&first) && prefix.len() <= 12 || prefix == "simple")
}
