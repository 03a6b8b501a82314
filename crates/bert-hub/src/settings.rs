//! [`Settings`]: address, cache, token and time limit, from the variables that all programs for the Hub read.

use std::ffi::OsString;
use std::fmt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::error::Error;

/// Default address of the Hub.
const ENDPOINT: &str = "https://huggingface.co";
/// Maximum size in bytes of the file with the token.
const TOKEN_BYTES: u64 = 4096;

/// The address from which models and data sets are downloaded, the cache that stores them, the token and the time
/// limit.
#[derive(Clone)]
pub struct Settings {
    /// Address of the Hub or of a mirror, without a slash at the end.
    pub endpoint: String,
    /// Folder of the cache.
    pub cache: PathBuf,
    /// Token of the user.
    pub token: Option<String>,
    /// Whether nothing is downloaded.
    pub offline: bool,
    /// Maximum time that a server may be silent.
    pub timeout: Duration,
}

impl Settings {
    /// Reads the environment variables of this process, as [`Settings::from_variables`] does.
    ///
    /// # Errors
    /// Fails when an environment variable is invalid.
    pub fn from_environment() -> Result<Self, Error> {
        Self::from_variables(&|name| std::env::var_os(name))
    }

    /// Takes the settings from variables: `HF_ENDPOINT`; `HF_HUB_CACHE`, `HUGGINGFACE_HUB_CACHE` or `HF_HOME` (else
    /// `$XDG_CACHE_HOME/huggingface` or `~/.cache/huggingface`); `HF_TOKEN`, or the file `HF_TOKEN_PATH` or
    /// `HF_HOME/token`; `HF_HUB_OFFLINE`; `HF_HUB_DOWNLOAD_TIMEOUT` in seconds.
    ///
    /// # Errors
    /// Fails when a variable, or the token in a file, is invalid.
    pub fn from_variables(variable: &dyn Fn(&str) -> Option<OsString>) -> Result<Self, Error> {
        let set = |name| variable(name).filter(|value| !value.is_empty());
        let text = |name: &'static str| {
            let value = set(name).map(OsString::into_string).transpose();
            value.map_err(|_| Error::usage(format!("the environment variable {name} is not UTF-8")))
        };
        let user = set("HOME").or_else(|| set("USERPROFILE")).map(PathBuf::from);
        let folder = |name| {
            let path = PathBuf::from(set(name)?);
            Some(match (path.strip_prefix("~"), &user) {
                (Ok(rest), Some(user)) => user.join(rest),
                _ => path,
            })
        };
        let home = folder("HF_HOME").unwrap_or_else(|| {
            let caches = folder("XDG_CACHE_HOME").or_else(|| Some(user.as_ref()?.join(".cache")));
            caches.unwrap_or_else(std::env::temp_dir).join("huggingface")
        });
        let endpoint = text("HF_ENDPOINT")?.unwrap_or_else(|| ENDPOINT.to_string());
        Ok(Self {
            endpoint: checked_endpoint(&endpoint)?,
            cache: folder("HF_HUB_CACHE")
                .or_else(|| folder("HUGGINGFACE_HUB_CACHE"))
                .unwrap_or_else(|| home.join("hub")),
            token: match text("HF_TOKEN")? {
                Some(token) => checked_token(&token)?,
                None => token_of_file(&folder("HF_TOKEN_PATH").unwrap_or_else(|| home.join("token")))?,
            },
            offline: text("HF_HUB_OFFLINE")?
                .is_some_and(|value| ["1", "on", "yes", "true"].contains(&&*value.to_lowercase())),
            timeout: text("HF_HUB_DOWNLOAD_TIMEOUT")?
                .as_deref()
                .map_or(Ok(10), seconds)
                .map(Duration::from_secs)?,
        })
    }
}

impl fmt::Debug for Settings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let token = if self.token.is_some() { "secret" } else { "none" };
        let Self { endpoint, cache, offline, timeout, .. } = self;
        write!(f, "Settings {{ {endpoint}, {cache:?}, token: {token}, offline: {offline}, {timeout:?} }}")
    }
}

fn seconds(text: &str) -> Result<u64, Error> {
    let number = text.trim().parse().ok().filter(|number| (1..=3600).contains(number));
    number.ok_or_else(|| {
        Error::usage(format!(
            "the environment variable HF_HUB_DOWNLOAD_TIMEOUT is {text:?}: give seconds from 1 to 3600"
        ))
    })
}

/// Returns an address without the slash at its end. An address with a user name or a password is rejected, because
/// error messages would show it.
fn checked_endpoint(text: &str) -> Result<String, Error> {
    let text = text.trim().trim_end_matches('/');
    let host = text.strip_prefix("https://").or_else(|| text.strip_prefix("http://"));
    let is_good = |host: &str| {
        !host.is_empty()
            && host.bytes().all(|byte| byte.is_ascii_graphic())
            && !host.contains(['@', '?', '#'])
    };
    if host.is_some_and(is_good) {
        return Ok(text.to_string());
    }
    let example = "https://huggingface.co, without user name and query";
    Err(Error::usage(format!("the environment variable HF_ENDPOINT is not an address such as {example}")))
}

fn token_of_file(path: &Path) -> Result<Option<String>, Error> {
    // A pipe or a device is not opened, because reading it could block.
    let Some(_) = std::fs::metadata(path).ok().filter(|file| file.is_file() && file.len() <= TOKEN_BYTES)
    else {
        return Ok(None);
    };
    // A token file that this user may not read is ignored, because public files need no token.
    std::fs::read_to_string(path).map_or(Ok(None), |text| checked_token(&text))
}

/// Returns a token without white space at its ends, or `None` if it is empty.
fn checked_token(text: &str) -> Result<Option<String>, Error> {
    let token = text.trim();
    if !token.bytes().all(|byte| byte.is_ascii_graphic()) {
        let text = "the environment variable HF_TOKEN (or the file with the token) has characters that a token cannot have";
        return Err(Error::usage(text));
    }
    Ok((!token.is_empty()).then(|| token.to_string()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn settings(variables: &[(&str, &str)]) -> Result<Settings, Error> {
        Settings::from_variables(&|name| {
            variables.iter().find(|(known, _)| *known == name).map(|(_, value)| value.into())
        })
    }

    #[test]
    fn the_cache_follows_the_usual_variables() {
        let cache = |variables: &[(&str, &str)]| settings(variables).unwrap().cache;
        assert_eq!(cache(&[("HOME", "/u")]), Path::new("/u/.cache/huggingface/hub"));
        assert_eq!(cache(&[("HOME", "/u"), ("XDG_CACHE_HOME", "/c")]), Path::new("/c/huggingface/hub"));
        assert_eq!(cache(&[("HOME", "/u"), ("HF_HOME", "~/hf")]), Path::new("/u/hf/hub"));
        let both = [("HF_HOME", "/hf"), ("HUGGINGFACE_HUB_CACHE", "/old"), ("HF_HUB_CACHE", "/new")];
        assert_eq!(cache(&both[..2]), Path::new("/old"));
        assert_eq!(cache(&both), Path::new("/new"));
    }

    #[test]
    fn the_token_comes_from_variable_or_file() {
        let home = tempfile::tempdir().unwrap();
        let path = home.path().join("elsewhere");
        std::fs::write(home.path().join("token"), " hf_home\n").unwrap();
        std::fs::write(&path, "hf_file").unwrap();
        let home = ("HF_HOME", home.path().to_str().unwrap());
        let file = ("HF_TOKEN_PATH", path.to_str().unwrap());
        let token = |variables: &[(&str, &str)]| settings(variables).unwrap().token;
        assert_eq!(token(&[home]).as_deref(), Some("hf_home"));
        assert_eq!(token(&[home, file]).as_deref(), Some("hf_file"));
        assert_eq!(token(&[home, file, ("HF_TOKEN", "hf_own")]).as_deref(), Some("hf_own"));
        assert_eq!(token(&[]), None);
        let debug = format!("{:?}", settings(&[home]).unwrap());
        assert!(!debug.contains("hf_home"), "{debug}");
    }

    #[test]
    fn wrong_values_are_refused_by_name() {
        let wrong = [
            ("HF_ENDPOINT", "huggingface.co"),
            ("HF_ENDPOINT", "https://"),
            ("HF_ENDPOINT", "https://name:hidden@mirror"),
            ("HF_TOKEN", "hid den"),
            ("HF_TOKEN", "hid\r\nden"),
            ("HF_HUB_DOWNLOAD_TIMEOUT", "0"),
            ("HF_HUB_DOWNLOAD_TIMEOUT", "18446744073709551615"),
        ];
        for (name, value) in wrong {
            let error = settings(&[(name, value)]).unwrap_err();
            assert_eq!(error.exit_code(), 2);
            let message = error.to_string();
            assert!(message.contains(name) && !message.contains("hid"), "{message}");
        }
        let offline = |value| settings(&[("HF_HUB_OFFLINE", value)]).unwrap().offline;
        assert!(offline("1") && offline("YES") && !offline("0") && !offline(""));
    }
}
