//! [`ModelName`]: the name of a model on the Hub, and a version of it.

use std::fmt;

/// The name of a model: `OWNER/MODEL`, or `MODEL` for the oldest ones, and after an `@` a branch, a tag or a commit.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ModelName {
    id: String,
    revision: Option<String>,
}

impl ModelName {
    /// Reads a name; returns `None` if the text has another form. A relative path of two parts has the form of a name.
    pub fn parse(text: &str) -> Option<Self> {
        let (id, revision) = text.split_once('@').map_or((text, None), |(id, rev)| (id, Some(rev)));
        let is_good = id.split('/').count() <= 2
            && id.split('/').all(|part| is_part(part) && part.starts_with(|c: char| c.is_ascii_alphanumeric()))
            // Separates the parts in the names of folders.
            && !id.contains("--")
            && id.len() <= 96
            && revision.is_none_or(|name| name.len() <= 200 && name.split('/').all(is_part));
        is_good.then(|| Self { id: id.to_string(), revision: revision.map(str::to_string) })
    }

    /// Returns the name without the version.
    pub fn id(&self) -> &str {
        &self.id
    }

    /// Returns the version, `main` by default.
    pub fn revision(&self) -> &str {
        self.revision.as_deref().unwrap_or("main")
    }

    /// Returns the commit, if the version is one. The files of a commit never change.
    pub fn commit(&self) -> Option<&str> {
        self.revision.as_deref().filter(|name| is_commit(name))
    }

    /// Returns this model at a commit.
    pub(crate) fn at(&self, commit: &str) -> Self {
        Self { id: self.id.clone(), revision: Some(commit.to_string()) }
    }
}

impl fmt::Display for ModelName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.id)?;
        self.revision.as_ref().map_or(Ok(()), |name| write!(f, "@{name}"))
    }
}

/// Returns whether a text is the SHA-1 digest of a commit.
pub(crate) fn is_commit(text: &str) -> bool {
    text.len() == 40 && is_hex(text)
}

/// Returns whether a text consists of lower-case hexadecimal digits.
pub(crate) fn is_hex(text: &str) -> bool {
    text.bytes().all(|byte| byte.is_ascii_digit() || (b'a'..=b'f').contains(&byte))
}

/// Returns whether a text is one part of a name: a plain name of a folder that needs no escapes in an address.
fn is_part(text: &str) -> bool {
    let allowed = |c: char| c.is_ascii_alphanumeric() || "-_.".contains(c);
    !text.is_empty() && text.chars().all(allowed) && !text.contains("..") && text != "."
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_have_an_owner_and_a_revision() {
        let name = ModelName::parse("google-bert/bert-base-uncased@refs/pr/1").unwrap();
        assert_eq!((name.id(), name.revision()), ("google-bert/bert-base-uncased", "refs/pr/1"));
        let plain = ModelName::parse("bert-base-uncased").unwrap();
        assert_eq!((plain.id(), plain.revision(), plain.commit()), ("bert-base-uncased", "main", None));
        let commit = "0123456789abcdef0123456789abcdef01234567";
        let pinned = plain.at(commit);
        assert_eq!(pinned.to_string(), format!("bert-base-uncased@{commit}"));
        assert_eq!(ModelName::parse(&pinned.to_string()).unwrap().commit(), Some(commit));
    }

    #[test]
    fn paths_are_not_names() {
        let paths = [
            "./run",
            "../run",
            "/a/b",
            "a/b/c",
            "a b/c",
            "",
            "a/",
            "~/bert",
            "a/..",
            "a--b/c",
            "a/b@",
            "a/b@x/../y",
        ];
        for path in paths {
            assert_eq!(ModelName::parse(path), None, "{path}");
        }
    }
}
