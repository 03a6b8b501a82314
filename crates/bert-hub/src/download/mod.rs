//! Downloads the needed files of a repository into the cache.

mod address;
mod cache_writer;
mod client;
mod listing;

use std::fs::{self, File, OpenOptions, TryLockError};
use std::io::{Seek, Write};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use bert_storage::Class;
use sha1::Sha1;
use sha2::{Digest, Sha256};

use crate::cache::Cache;
use crate::download::cache_writer::create_parent;
use crate::download::client::{Answer, Client, Failure, RemoteFile, TRIES, Version, temporary};
use crate::download::listing::files_of_name;
use crate::error::Error;
use crate::event::Event;
use crate::files::needed_files;
use crate::name::Name;
use crate::settings::Settings;

/// Minimum number of bytes that an attempt must receive to count as progress.
const PROGRESS_BYTES: u64 = 1 << 20;
/// Number of timeouts after which a lock counts as abandoned if the locked file does not grow.
const LOCK_TIMEOUTS: u32 = 60;
/// Time between two checks of a lock.
const LOCK_PAUSE: Duration = Duration::from_millis(100);

/// Downloads the needed files of a version that are not in the cache, and returns its commit. The commit of the version
/// is requested at most `tries` times.
pub(crate) fn download(
    settings: &Settings,
    name: &Name,
    tries: u32,
    on_event: &mut dyn FnMut(Event),
) -> Result<String, Error> {
    let client = Client::new(settings, name);
    let cache = Cache::new(&settings.cache, name);
    let Version { commit, files } =
        client.repeat(tries, on_event, |_| client.version().map_err(|failure| (failure, false)))?;
    if !cache.is_complete(&commit) {
        let size =
            |file: &str| fs::metadata(cache.snapshot(&commit).join(file)).ok().map(|found| found.len());
        let needed: Vec<String>;
        let missing: Vec<RemoteFile>;
        if name.is_data {
            let files = files_of_name(&client, name, &commit, on_event)?;
            needed = files.iter().map(|file| file.name.clone()).collect();
            missing = files.into_iter().filter(|file| size(&file.name) != Some(file.size)).collect();
        } else {
            let names: Vec<&str> = files.iter().map(String::as_str).collect();
            let found = needed_files(&names).map_err(|reason| name.refused(reason))?;
            needed = found.into_iter().map(str::to_string).collect();
            let describe = |file: &String| {
                client.repeat(TRIES, on_event, |_| {
                    client.describe(&commit, file).map_err(|failure| (failure, false))
                })
            };
            missing =
                needed.iter().filter(|file| size(file).is_none()).map(describe).collect::<Result<_, _>>()?;
        }
        let total = missing.iter().fold(0, |sum: u64, file| sum.saturating_add(file.size));
        let mut download =
            Download { settings, name, client, cache: &cache, commit: &commit, total, before: 0 };
        for file in &missing {
            download.fetch(file, on_event)?;
        }
        cache.record_complete(&commit, &needed)?;
    }
    // The commit is recorded only now, so that an earlier version stays usable until this one is complete.
    cache.record_commit(&commit)?;
    Ok(commit)
}

/// The download of the files of a commit.
struct Download<'a> {
    settings: &'a Settings,
    name: &'a Name,
    client: Client<'a>,
    cache: &'a Cache<'a>,
    commit: &'a str,
    /// Size of all files to download in bytes.
    total: u64,
    /// Size of the files downloaded so far in bytes.
    before: u64,
}

impl Download<'_> {
    /// Downloads a file and links it into the folder of the commit.
    fn fetch(&mut self, file: &RemoteFile, on_event: &mut dyn FnMut(Event)) -> Result<(), Error> {
        let blob = self.cache.blob(&file.digest);
        let mut part = blob.with_added_extension("incomplete");
        create_parent(&blob)?;
        let lock = lock(&self.cache.lock(&file.digest), &part, self.settings.timeout, on_event)?;
        if lock.is_none() {
            part = blob.with_added_extension(format!("{}.incomplete", std::process::id()));
        }
        // Another process may have downloaded it in the meantime.
        if !fs::metadata(&blob).is_ok_and(|found| found.len() == file.size) {
            self.fetch_part(file, &part, on_event)?;
            fs::rename(&part, &blob).map_err(Error::io("rename", &part))?;
        }
        self.before += file.size;
        on_event(Event::Progress { done: self.before, total: self.total });
        self.cache.link(self.commit, &file.name, &file.digest)
    }

    /// Downloads a file, or the rest of it, to a path. If a file that continues an earlier download turns out to be
    /// damaged, all of it is downloaded again.
    fn fetch_part(
        &self,
        file: &RemoteFile,
        path: &Path,
        on_event: &mut dyn FnMut(Event),
    ) -> Result<(), Error> {
        let mut part = OpenOptions::new()
            .read(true)
            .append(true)
            .create(true)
            .open(path)
            .map_err(Error::io("open", path))?;
        let length = |part: &File| part.metadata().map(|data| data.len()).map_err(Error::io("read", path));
        let mut is_whole = false;
        loop {
            // An earlier attempt that wrote more than the whole file cannot be continued.
            if length(&part)? > file.size {
                part.set_len(0).map_err(Error::io("write", path))?;
            }
            is_whole |= length(&part)? == 0;
            while length(&part)? < file.size {
                self.client.repeat(TRIES, on_event, |on_event| {
                    let from = length(&part).map_err(|error| (error.into(), false))?;
                    let got = self.append(file, from, &mut part, path, on_event);
                    let grown = length(&part).map_or(0, |now| now.saturating_sub(from));
                    got.map_err(|failure| (failure, grown >= PROGRESS_BYTES))
                })?;
            }
            let found = digest(&mut part, file).map_err(Error::io("read", path))?;
            if found == file.digest {
                return part.sync_all().map_err(Error::io("write", path));
            }
            part.set_len(0).map_err(Error::io("write", path))?;
            if is_whole {
                return Err(self.name.refused(format!(
                    "{} is damaged: its digest is {found}, and the Hub states {}; nothing was kept",
                    file.name, file.digest
                )));
            }
        }
    }

    /// Appends the bytes of a file from a position to `part`.
    fn append(
        &self,
        file: &RemoteFile,
        mut from: u64,
        part: &mut File,
        path: &Path,
        on_event: &mut dyn FnMut(Event),
    ) -> Result<(), Failure> {
        let mut answer = self.client.get(self.commit, &file.name, from)?;
        if from > 0 && !continues(&answer, from) {
            // The server has sent the file from its beginning, or no part of it.
            part.set_len(0).map_err(Error::io("write", path))?;
            from = 0;
            if answer.status.as_u16() != 200 {
                return Err(temporary(
                    &answer.url,
                    "it cannot continue the file; the download starts from its beginning",
                ));
            }
        }
        let mut at = from;
        self.client.read(&mut answer, file.size - from, &mut |bytes| {
            part.write_all(bytes).map_err(Error::io("write", path))?;
            at += bytes.len() as u64;
            on_event(Event::Progress { done: self.before + at, total: self.total });
            Ok(())
        })?;
        if at < file.size {
            let reason = format!("it ended the file after {at} of {} bytes", file.size);
            return Err(temporary(&answer.url, &reason));
        }
        Ok(())
    }
}

/// Returns whether a response contains the bytes of a file from the offset `from` on.
fn continues(answer: &Answer, from: u64) -> bool {
    let range = answer.headers.get("content-range").and_then(|range| range.to_str().ok());
    answer.status.as_u16() == 206 && range.is_some_and(|range| range.starts_with(&format!("bytes {from}-")))
}

/// Returns the digest of a file in the form in which the Hub states it: SHA-256, or SHA-1 as git computes it.
fn digest(part: &mut File, file: &RemoteFile) -> std::io::Result<String> {
    part.rewind()?;
    if file.digest.len() == 64 {
        hashed(Sha256::new(), part)
    } else {
        hashed(Sha1::new_with_prefix(format!("blob {}\0", file.size)), part)
    }
}

fn hashed<D: Digest + Write>(mut hash: D, file: &mut File) -> std::io::Result<String> {
    std::io::copy(file, &mut hash)?;
    Ok(hash.finalize().iter().map(|byte| format!("{byte:02x}")).collect())
}

/// Waits for the lock of a file and returns it, or `None` if the file system has no locks. `huggingface_hub` of Python
/// uses the same lock.
fn lock(
    path: &PathBuf,
    part: &Path,
    timeout: Duration,
    on_event: &mut dyn FnMut(Event),
) -> Result<Option<File>, Error> {
    create_parent(path)?;
    let file = OpenOptions::new()
        .write(true)
        .create(true)
        .truncate(false)
        .open(path)
        .map_err(Error::io("open", path))?;
    let length = || fs::metadata(part).map_or(0, |found| found.len());
    let mut known = length();
    let mut since = Instant::now();
    let mut is_waiting = false;
    loop {
        match file.try_lock() {
            Ok(()) => return Ok(Some(file)),
            Err(TryLockError::Error(error)) if error.kind() == std::io::ErrorKind::Interrupted => continue,
            Err(TryLockError::Error(_)) => return Ok(None),
            Err(TryLockError::WouldBlock) => {}
        }
        if !std::mem::replace(&mut is_waiting, true) {
            on_event(Event::Note("waiting for another process that downloads the same file".into()));
        }
        if length() != known {
            known = length();
            since = Instant::now();
        }
        if since.elapsed() > timeout * LOCK_TIMEOUTS {
            return Err(Error::new(
                Class::Later,
                format!(
                    "another process has locked {} and downloads nothing; end it, or set HF_HOME to another folder",
                    (path.clone()).display()
                ),
            ));
        }
        std::thread::sleep(LOCK_PAUSE);
    }
}
