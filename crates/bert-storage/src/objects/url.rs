//! Distinguishes URLs from paths, converts `file://` URLs to paths, and prints URLs without passwords.

use std::borrow::Cow;
use std::path::{Path, PathBuf};

use percent_encoding::percent_decode_str;

/// Query parameters that are secrets.
const SECRETS: [&str; 6] = ["sig=", "signature=", "token=", "secret=", "password=", "credential="];

/// Returns whether a path is a URL of something that is not on a local disk.
///
/// Any scheme counts, even one without a store: nobody means a folder `hdfs:` in the current folder.
pub fn is_url(path: &Path) -> bool {
    scheme(&path.to_string_lossy()).is_some_and(|scheme| scheme != "file")
}

/// Returns the scheme of a URL in lower case. A single letter is a drive, not a scheme.
fn scheme(text: &str) -> Option<String> {
    let (scheme, _) = text.split_once("://")?;
    let is_scheme = scheme.len() > 1
        && scheme.starts_with(|first: char| first.is_ascii_alphabetic())
        && scheme.chars().all(|char| char.is_ascii_alphanumeric() || "+-.".contains(char));
    is_scheme.then(|| scheme.to_ascii_lowercase())
}

/// Returns a URL with its scheme in lower case; returns any other path unchanged.
#[must_use]
pub fn with_lower_scheme(url: &Path) -> PathBuf {
    let lower =
        url.to_str().and_then(|text| Some(format!("{}{}", scheme(text)?, &text[text.find("://")?..])));
    lower.map_or_else(|| url.to_owned(), PathBuf::from)
}

/// Converts a `file://` URL to a path and decodes escapes such as `%20`; returns any other path unchanged.
pub fn on_disk(path: &Path) -> Cow<'_, Path> {
    let text = path.to_string_lossy();
    let Some(rest) = text.get(..6).filter(|start| start.eq_ignore_ascii_case("file:/")).map(|_| &text[5..])
    else {
        return Cow::Borrowed(path);
    };
    let path = match rest.strip_prefix("//") {
        Some(rest) => rest.strip_prefix("localhost/").map_or(rest, |_| &rest["localhost".len()..]),
        None => rest,
    };
    Cow::Owned(path_of(percent_decode_str(path).collect()))
}

#[cfg(unix)]
fn path_of(bytes: Vec<u8>) -> PathBuf {
    let name: std::ffi::OsString = std::os::unix::ffi::OsStringExt::from_vec(bytes);
    name.into()
}

#[cfg(not(unix))]
fn path_of(bytes: Vec<u8>) -> PathBuf {
    String::from_utf8_lossy(&bytes).into_owned().into()
}

/// Returns a path for display: a URL without its password and signature.
pub fn shown(path: &Path) -> String {
    without_secrets(&path.to_string_lossy())
}

/// Returns whether a URL contains a password, a token or a signature.
pub fn has_secrets(url: &Path) -> bool {
    let url = url.to_string_lossy();
    without_secrets(&url) != url
}

/// Returns a text without the passwords and signatures in its URLs.
pub(crate) fn without_secrets(text: &str) -> String {
    let Some(at) = text.find("://") else { return text.to_owned() };
    let (before, rest) = text.split_at(at + 3);
    let is_web =
        before.to_ascii_lowercase().ends_with("http://") || before.to_ascii_lowercase().ends_with("https://");
    let end = rest.find(|char: char| char.is_whitespace() || "\"'<>()".contains(char)).unwrap_or(rest.len());
    let (url, after) = rest.split_at(end);
    format!("{before}{}{}", url_without_secrets(url, is_web), without_secrets(after))
}

/// Applies [`without_secrets`] to the part of a URL after `SCHEME://`.
fn url_without_secrets(url: &str, is_web: bool) -> String {
    let host = url.split(['/', '?', '#']).next().unwrap_or_default();
    // A password may contain a slash; a port number does not.
    let is_cut =
        host.split_once(':').is_some_and(|(_, port)| !port.bytes().all(|byte| byte.is_ascii_digit()));
    let user = if is_cut && !host.contains('@') {
        url.rfind('@')
    } else {
        host.rfind('@').filter(|&at| is_web || host[..at].contains(':'))
    };
    let (hidden, url) = user.map_or(("", url), |at| ("***", &url[at..]));
    match url.split_once('?') {
        Some((path, query)) if is_secret(query, is_web) => format!("{hidden}{path}?***"),
        _ => format!("{hidden}{url}"),
    }
}

fn is_secret(query: &str, is_web: bool) -> bool {
    let query = query.to_ascii_lowercase();
    (is_web && query.contains('=')) || SECRETS.iter().any(|secret| query.contains(secret))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn any_scheme_is_a_url_but_file() {
        for url in ["s3://b/k", "S3://b/k", "hdfs://n/x", "http://h", "git+ssh://h/x"] {
            assert!(is_url(Path::new(url)), "{url}");
        }
        for path in ["file:///a", "FILE:///a", "C://a", "a/b://c", "://", "1s3://b", "a"] {
            assert!(!is_url(Path::new(path)), "{path}");
        }
        assert_eq!(with_lower_scheme(Path::new("S3://B/k")), Path::new("s3://B/k"));
        assert_eq!(with_lower_scheme(Path::new("A/k")), Path::new("A/k"));
    }

    #[test]
    fn urls_of_files_are_paths() {
        for (url, path) in [
            ("file:///a/b", "/a/b"),
            ("FILE:///a", "/a"),
            ("file:/a", "/a"),
            ("file://localhost/a", "/a"),
            ("file:///a%20b/%C3%A4%zz%2", "/a b/\u{e4}%zz%2"),
            ("file://a/b", "a/b"),
            ("file:a", "file:a"),
            ("/a%20b", "/a%20b"),
        ] {
            assert_eq!(on_disk(Path::new(url)), Path::new(path), "{url}");
        }
    }

    #[test]
    fn secrets_are_not_printed() {
        for (url, printed) in [
            ("https://user:SECRET@host/x.txt", "https://***@host/x.txt"),
            ("https://user:SEC/RET@host/x.txt", "https://***@host/x.txt"),
            ("https://TOKEN@host:80/x", "https://***@host:80/x"),
            ("s3://KEY:SECRET@bucket/x", "s3://***@bucket/x"),
            ("https://host/x?X-Amz-Signature=SECRET&a=b", "https://host/x?***"),
            ("az://c/x?sv=1&sig=SECRET", "az://c/x?***"),
            (
                "cannot send (http://u:SECRET@h/a?k=SECRET) to \"http://v:SECRET@h\"",
                "cannot send (http://***@h/a?***) to \"http://***@h\"",
            ),
        ] {
            assert_eq!(shown(Path::new(url)), printed);
        }
        for url in [
            "abfss://container@account/x",
            "https://host:8080/a@b",
            "s3://b/year=202?/month=1/*.txt",
            "/a@b?c=d",
            "https://host/what?",
        ] {
            assert_eq!(shown(Path::new(url)), url);
            assert!(!has_secrets(Path::new(url)));
        }
    }
}
