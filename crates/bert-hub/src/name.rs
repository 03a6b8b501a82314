//! Names of models ([`ModelName`]) and of data-set files ([`DataName`]) on the Hub, with an optional revision.

use std::fmt;

use crate::error::{Error, content};

/// Scheme of the names of files on the Hub.
const SCHEME: &str = "hf://";
/// Beginnings of git references that consist of three parts.
const REFERENCES: [&str; 2] = ["refs/convert/", "refs/pr/"];

/// A repository, a revision of it, and the requested path in it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Name {
    /// Whether it is a data set, not a model.
    pub(crate) is_data: bool,
    pub(crate) id: String,
    revision: Option<String>,
    /// Path or pattern of files of a data set; empty for a model.
    pub(crate) path: String,
}

impl Name {
    /// Returns the revision, `main` by default.
    pub(crate) fn revision(&self) -> &str {
        self.revision.as_deref().unwrap_or("main")
    }

    /// Returns the commit, if the revision is one.
    pub(crate) fn commit(&self) -> Option<&str> {
        self.revision.as_deref().filter(|name| is_commit(name))
    }

    /// Returns the part of the path before the first wildcard, or `None` if the path is not a pattern.
    pub(crate) fn before_pattern(&self) -> Option<&str> {
        self.path.find(['*', '?', '[']).map(|at| &self.path[..at])
    }

    /// Returns the deepest folder of the repository that contains all matches of the path.
    pub(crate) fn folder(&self) -> &str {
        self.before_pattern().unwrap_or(&self.path).rsplit_once('/').map_or("", |(folder, _)| folder)
    }

    /// Returns the error for a repository that cannot be used.
    pub(crate) fn refused(&self, reason: impl fmt::Display) -> Error {
        Error::new(content(self.is_data), format!("{self}: {reason}"))
    }

    /// Returns the name with this commit as its revision.
    pub(crate) fn at(&self, commit: &str) -> Self {
        Self { revision: Some(commit.to_string()), ..self.clone() }
    }
}

impl fmt::Display for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { is_data, id, revision, path } = self;
        let revision = revision.as_ref().map(|name| format!("@{name}")).unwrap_or_default();
        if *is_data {
            write!(f, "{SCHEME}datasets/{id}{}/{path}", revision.replace('/', "%2F"))
        } else {
            write!(f, "{id}{revision}")
        }
    }
}

/// The name of a model: `OWNER/MODEL`, or `MODEL` for the oldest ones, optionally followed by `@` and a branch, a tag
/// or a commit.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ModelName(pub(crate) Name);

impl ModelName {
    /// Reads a name; returns `None` if the text has a different form. A relative path of two parts has the form of a
    /// name.
    pub fn parse(text: &str) -> Option<Self> {
        let (id, revision) = text.split_once('@').map_or((text, None), |(id, rev)| (id, Some(rev)));
        let is_good = is_id(id) && revision.is_none_or(is_revision);
        let revision = revision.map(str::to_string);
        is_good.then(|| Self(Name { is_data: false, id: id.to_string(), revision, path: String::new() }))
    }

    /// Returns the name without the revision.
    pub fn id(&self) -> &str {
        &self.0.id
    }

    /// Returns the revision, `main` by default.
    pub fn revision(&self) -> &str {
        self.0.revision()
    }

    /// Returns the commit, if the revision is one. The files of a commit never change.
    pub fn commit(&self) -> Option<&str> {
        self.0.commit()
    }
}

impl fmt::Display for ModelName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// Files of a data set: `hf://datasets/OWNER/NAME[@REVISION][/PATH]`, as in pandas, DuckDB and `huggingface_hub`. `PATH` is a
/// file, a folder, or a pattern with `*`, `?`, `[...]` and `**`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DataName(pub(crate) Name);

impl DataName {
    /// Returns whether a text begins like a name of files on the Hub.
    pub fn begins(text: &str) -> bool {
        text.get(..SCHEME.len()).is_some_and(|start| start.eq_ignore_ascii_case(SCHEME))
    }

    /// Returns whether the name has no path, so that it means all files of the data set, including the card.
    pub fn is_whole(&self) -> bool {
        self.0.path.is_empty()
    }

    /// Reads a name. A slash in the revision is written `%2F`; `~parquet` means `refs/convert/parquet`.
    ///
    /// # Errors
    /// Fails when the text differs from the form `hf://datasets/OWNER/NAME[@REVISION][/PATH]`.
    pub fn parse(text: &str) -> Result<Self, Error> {
        let invalid = |reason| {
            Error::usage(format!(
                "{text}: {reason}; files of a data set are named hf://datasets/OWNER/NAME[@REVISION]/PATH"
            ))
        };
        let rest = text.get(SCHEME.len()..).filter(|_| Self::begins(text)).unwrap_or_default();
        let rest = match rest.split_once('/') {
            Some(("datasets", rest)) => rest,
            Some(("spaces", _)) => return Err(invalid("a space has no data sets")),
            _ => return Err(invalid("without datasets/ it names a model, which is given as OWNER/MODEL")),
        };
        let end = rest.match_indices('/').nth(1).map_or(rest.len(), |(at, _)| at);
        let end = rest[..end].find('@').unwrap_or(end);
        let id = &rest[..end];
        if !is_id(id) || !id.contains('/') {
            return Err(invalid(
                "OWNER and NAME are missing, or have characters that the Hub does not allow",
            ));
        }
        let rest = &rest[end..];
        let (revision, path) = match rest.strip_prefix('@') {
            Some(rest) => split_revision(rest),
            None => (None, rest),
        };
        if !revision.as_deref().is_none_or(is_revision) {
            return Err(invalid(
                "the revision after @ is not a branch, tag or commit; a / in it is written %2F",
            ));
        }
        let path = path.trim_matches('/');
        let is_plain = |part: &str| !["", ".", ".."].contains(&part) && !part.contains('\\');
        if !(path.is_empty() || path.split('/').all(is_plain)) || path.contains(char::is_control) {
            return Err(invalid("its path has an empty part, . or .., a backslash or a control character"));
        }
        Ok(Self(Name { is_data: true, id: id.to_string(), revision, path: path.to_string() }))
    }
}

impl fmt::Display for DataName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// Splits a text into a revision and the path after it.
fn split_revision(text: &str) -> (Option<String>, &str) {
    let parts = if REFERENCES.iter().any(|start| text.starts_with(start)) { 2 } else { 0 };
    let end = text.match_indices('/').nth(parts).map_or(text.len(), |(at, _)| at);
    let revision = text[..end].replace("%2F", "/").replace("%2f", "/");
    let revision = match revision.strip_prefix('~') {
        Some(name) => format!("refs/convert/{name}"),
        None => revision,
    };
    (Some(revision), &text[end..])
}

fn is_id(id: &str) -> bool {
    let is_good = |part: &str| is_part(part) && part.starts_with(|c: char| c.is_ascii_alphanumeric());
    // Two hyphens separate the parts in the folder names of the cache.
    id.len() <= 96 && id.split('/').count() <= 2 && id.split('/').all(is_good) && !id.contains("--")
}

fn is_revision(name: &str) -> bool {
    name.len() <= 200 && name.split('/').all(is_part)
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
        let pinned = ModelName(plain.0.at(commit));
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

    #[test]
    fn files_of_data_sets_have_a_revision_and_a_path() {
        let cases = [
            ("hf://datasets/o/n/a b.csv", "main", "a b.csv", "hf://datasets/o/n/a b.csv"),
            ("HF://datasets/o/n@v1/x/*.parquet", "v1", "x/*.parquet", "hf://datasets/o/n@v1/x/*.parquet"),
            ("hf://datasets/o/n@refs%2Fpr%2F1/x/", "refs/pr/1", "x", "hf://datasets/o/n@refs%2Fpr%2F1/x"),
            (
                "hf://datasets/o/n@refs/convert/parquet/default/train",
                "refs/convert/parquet",
                "default/train",
                "hf://datasets/o/n@refs%2Fconvert%2Fparquet/default/train",
            ),
            (
                "hf://datasets/o/n@~parquet/a@b",
                "refs/convert/parquet",
                "a@b",
                "hf://datasets/o/n@refs%2Fconvert%2Fparquet/a@b",
            ),
            ("hf://datasets/o/n/a@b/c", "main", "a@b/c", "hf://datasets/o/n/a@b/c"),
        ];
        for (text, revision, path, shown) in cases {
            let name = DataName::parse(text).unwrap();
            assert_eq!((&*name.0.id, name.0.revision(), &*name.0.path), ("o/n", revision, path));
            assert_eq!(name.to_string(), shown);
            assert_eq!(DataName::parse(shown).unwrap(), name);
        }
    }

    #[test]
    fn other_names_are_refused_with_the_reason() {
        let cases = [
            ("hf://owner/name", "names a model"),
            ("hf://owner/name/model.safetensors", "names a model"),
            ("hf://spaces/o/n/x", "a space"),
            ("hf://datasets/o", "OWNER and NAME"),
            ("hf://datasets/o@main/x", "OWNER and NAME"),
            ("hf://datasets//n/x", "OWNER and NAME"),
            ("hf://datasets/o/n@/x", "revision"),
            ("hf://datasets/o/n@a b/x", "revision"),
            ("hf://datasets/o/n/../x", ".."),
            ("hf://datasets/o/n/x//y", "empty part"),
            ("hf://datasets/o/n/x\\..\\y", "backslash"),
        ];
        for (text, part) in cases {
            let error = DataName::parse(text).unwrap_err();
            assert!(error.to_string().contains(part) && error.exit_code() == 2, "{error}");
        }
    }
}
