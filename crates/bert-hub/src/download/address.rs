//! Parts and escapes of URLs.

/// Returns a URL without its query, which may contain a secret.
pub(super) fn without_query(url: &str) -> String {
    url.split('?').next().unwrap_or_default().to_string()
}

/// Returns the scheme, the host and the port of a URL, as `SCHEME://HOST:PORT`.
pub(super) fn origin(url: &str) -> &str {
    let host = url.find("://").map_or(0, |at| at + 3);
    url[host..].find(['/', '?', '#']).map_or(url, |end| &url[..host + end])
}

/// Returns a path with escapes for the characters that have a meaning in a URL.
pub(super) fn escaped(path: &str) -> String {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.~/=+,@".contains(&byte);
    let escape = |byte| if plain(byte) { char::from(byte).to_string() } else { format!("%{byte:02X}") };
    path.bytes().map(escape).collect()
}

/// Returns the URL of the next page from the header `Link` of a response.
pub(super) fn next_page(link: &str) -> Option<&str> {
    link.split('<').find(|part| part.contains("rel=\"next\""))?.split('>').next()
}

/// Returns the URL to which a redirect leads.
pub(super) fn joined(base: &str, to: &str) -> String {
    let folder =
        || without_query(base).rsplit_once('/').map_or(String::new(), |(folder, _)| format!("{folder}/"));
    match to {
        _ if to.starts_with("http://") || to.starts_with("https://") => to.to_string(),
        _ if to.starts_with("//") => format!("{}:{to}", base.split(':').next().unwrap_or_default()),
        _ if to.starts_with('/') => format!("{}{to}", origin(base)),
        _ => folder() + to,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn redirects_are_relative_or_absolute() {
        let base = "https://hub.test:8/a/b?query=1/2";
        let cases = [
            ("https://cdn.test/x?s=1", "https://cdn.test/x?s=1"),
            ("//cdn.test/x", "https://cdn.test/x"),
            ("/x/y", "https://hub.test:8/x/y"),
            ("x", "https://hub.test:8/a/x"),
        ];
        for (to, expected) in cases {
            assert_eq!(joined(base, to), expected);
        }
        assert_ne!(origin("https://hub.test@other.test/x"), origin("https://hub.test/x"));
        assert_eq!(origin("https://hub.test?x"), "https://hub.test");
    }

    #[test]
    fn the_next_page_is_found_in_the_header() {
        let header =
            "<https://hub.test/a?b=1,2>; rel=\"prev\", <https://hub.test/a?cursor=x%3D>; rel=\"next\"";
        assert_eq!(next_page(header), Some("https://hub.test/a?cursor=x%3D"));
        assert_eq!(next_page("<https://hub.test/a>; rel=\"prev\""), None);
        assert_eq!(escaped("a b/\u{e9}#%=1.csv"), "a%20b/%C3%A9%23%25=1.csv");
    }
}
