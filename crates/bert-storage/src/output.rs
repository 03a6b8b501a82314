//! The file that a user names as output. This module alone decides which files may be replaced.
//!
//! | the path is | effect |
//! |---|---|
//! | free | a new file, which appears when it is complete |
//! | a regular file | an error, or with [`Existing::Replace`] the file is replaced when the new one is complete |
//! | a link | as the path to which it leads; the link stays |
//! | a device, a pipe, a socket, `/dev/fd/N` | the bytes are written to it as they come |
//! | a folder, a URL | an error |

use std::fs::{self, File};
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use crate::atomic::AtomicFile;
use crate::error::{Class, Error, Result, is_absent};
use crate::staged::reject_url;
use crate::system::{Disk, folder_of};

/// Treatment of a regular file that has the name of an output.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Existing {
    /// The existing file stays; the output is rejected.
    Keep,
    /// The existing file is replaced when the output is complete.
    Replace,
}

/// A file that a user names as output, and the way in which it is written.
#[derive(Clone, Debug)]
pub struct OutputFile {
    given: PathBuf,
    existing: Existing,
    target: Target,
}

/// The destination of the bytes.
#[derive(Clone, Debug)]
enum Target {
    /// A regular file or a free name, without links in its last component.
    File(PathBuf),
    /// A device, a pipe or an open file of the process.
    Stream(PathBuf),
    /// A socket.
    Socket(PathBuf),
}

/// Temporary files of all outputs of this process. The file of a complete output has been renamed, so its path no
/// longer exists.
static TEMPORARIES: Mutex<Vec<PathBuf>> = Mutex::new(Vec::new());

/// Removes the temporary files of all unfinished outputs of this process. Programs call this when a signal ends them.
pub fn remove_unfinished_outputs() {
    for path in TEMPORARIES.lock().unwrap_or_else(PoisonError::into_inner).drain(..) {
        // This fails for a complete output, whose temporary file has been renamed.
        let _ = fs::remove_file(path);
    }
}

/// Maximum length of a chain of symbolic links, as in Linux.
const MAX_LINKS: usize = 40;

impl OutputFile {
    /// Decides how to write an output and checks that it can be written: creates the missing folders above it, and a
    /// temporary file for a moment. Programs call this before long work.
    ///
    /// # Errors
    /// Fails when a file of this name exists and may not be replaced, when the path cannot be an output, or when it
    /// cannot be written.
    pub fn new(path: &Path, existing: Existing) -> Result<Self> {
        reject_url(path)?;
        let output = Self { given: path.to_owned(), existing, target: decide(path, existing)? };
        if let Target::File(path) = &output.target {
            let folder = folder_of(path);
            fs::create_dir_all(folder).map_err(Error::io("create folder", folder))?;
            // The file is dropped without a commit, so it is removed again.
            AtomicFile::create(&Disk, path)?;
        }
        Ok(output)
    }

    /// Returns the path as the user gave it.
    pub fn path(&self) -> &Path {
        &self.given
    }

    /// Writes the whole output.
    ///
    /// # Errors
    /// Fails as [`OutputFile::begin`] and [`OutputWriter::commit`] do.
    pub fn write(&self, write: impl FnOnce(&mut dyn Write) -> io::Result<()>) -> Result<()> {
        let mut writer = self.begin()?;
        write(&mut writer).map_err(|source| writer.failed(source))?;
        writer.commit()
    }

    /// Begins to write the output.
    ///
    /// # Errors
    /// Fails when the file, device or socket cannot be opened.
    pub fn begin(&self) -> Result<OutputWriter<'_>> {
        let destination = match &self.target {
            Target::File(path) => {
                let file = AtomicFile::create(&Disk, path)?;
                let mut temporaries = TEMPORARIES.lock().unwrap_or_else(PoisonError::into_inner);
                temporaries.push(file.temporary().to_owned());
                Destination::File(Box::new(file))
            }
            Target::Stream(path) => Destination::Stream(BufWriter::new(open_stream(path)?)),
            Target::Socket(path) => Destination::Stream(BufWriter::new(connect(path)?)),
        };
        Ok(OutputWriter { output: self, destination })
    }
}

/// An output while it is written. If it is dropped before [`OutputWriter::commit`], a regular file stays as it was.
pub struct OutputWriter<'a> {
    output: &'a OutputFile,
    destination: Destination<'a>,
}

enum Destination<'a> {
    File(Box<AtomicFile<'a>>),
    Stream(BufWriter<Box<dyn Write + Send>>),
}

impl OutputWriter<'_> {
    /// Completes the output. A regular file appears under its name, with the permissions of the file that it replaces.
    ///
    /// # Errors
    /// Fails when another program has created a file of this name in the meantime and it may not be replaced, or when
    /// the output cannot be written; the class of the first error is [`Class::Exists`].
    pub fn commit(self) -> Result<()> {
        let Self { output, destination } = self;
        match destination {
            Destination::Stream(mut out) => out.flush().map_err(Error::io("write", &output.given)),
            Destination::File(file) => {
                let Target::File(path) = decide(&output.given, output.existing)? else {
                    return Err(exists(&output.given));
                };
                if let Ok(old) = fs::metadata(&path) {
                    // If this fails, the output keeps the permissions of a new file, which is harmless.
                    let _ = fs::set_permissions(file.temporary(), old.permissions());
                }
                file.commit().map(drop)
            }
        }
    }

    /// Returns the error of a failed write.
    pub fn failed(&self, source: io::Error) -> Error {
        Error::io("write", &self.output.given)(source)
    }
}

impl Write for OutputWriter<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let written = match &mut self.destination {
            Destination::File(file) => file.write(bytes),
            Destination::Stream(out) => out.write(bytes),
        };
        written.map_err(|error| self.failed(error).carry())
    }

    fn flush(&mut self) -> io::Result<()> {
        let flushed = match &mut self.destination {
            Destination::File(file) => file.flush(),
            Destination::Stream(out) => out.flush(),
        };
        flushed.map_err(|error| self.failed(error).carry())
    }
}

fn exists(path: &Path) -> Error {
    Error::new(Class::Exists, "this file exists").at(path)
}

/// Decides where the bytes of an output go. Changes nothing.
fn decide(given: &Path, existing: Existing) -> Result<Target> {
    let refused = |text| Err(Error::failed(text).at(given));
    let mut path = given.to_owned();
    let mut links = 0;
    while !is_open_file(&path) && fs::symlink_metadata(&path).is_ok_and(|found| found.is_symlink()) {
        let next = fs::read_link(&path).map_err(Error::io("read link", given))?;
        path = folder_of(&path).join(next);
        links += 1;
        if links > MAX_LINKS {
            return refused("too many links");
        }
    }
    let found = match fs::metadata(&path) {
        Ok(found) => found,
        Err(error) if is_absent(&error) => {
            return if path.file_name().is_some() {
                Ok(Target::File(path))
            } else {
                refused("this is not the name of a file")
            };
        }
        Err(source) => return Err(Error::io("read", given)(source)),
    };
    if found.is_dir() {
        return refused("this is a folder; name a file in it");
    }
    if is_socket(&found) {
        return Ok(Target::Socket(path));
    }
    if is_open_file(&path) || !found.is_file() {
        return Ok(Target::Stream(path));
    }
    if existing == Existing::Keep {
        return Err(exists(given));
    }
    Ok(Target::File(path))
}

/// Returns whether a path is an open file of a process: `/proc/self/fd/N`, to which `/dev/stdout` and `/dev/fd/N` lead.
/// The link at this path has the name of the open file, but a new file of that name would be another file.
fn is_open_file(path: &Path) -> bool {
    let folder = fs::canonicalize(folder_of(path));
    folder.is_ok_and(|folder| folder.starts_with("/proc") || folder.starts_with("/dev/fd"))
}

/// Opens a device, a pipe or an open file of the process. New bytes are appended to the existing ones.
fn open_stream(path: &Path) -> Result<Box<dyn Write + Send>> {
    let file = File::options().append(true).open(path).map_err(Error::io("open", path))?;
    Ok(Box::new(file))
}

#[cfg(unix)]
fn is_socket(found: &fs::Metadata) -> bool {
    std::os::unix::fs::FileTypeExt::is_socket(&found.file_type())
}

#[cfg(unix)]
fn connect(path: &Path) -> Result<Box<dyn Write + Send>> {
    let socket = std::os::unix::net::UnixStream::connect(path).map_err(Error::io("connect to", path))?;
    Ok(Box::new(socket))
}

#[cfg(not(unix))]
fn is_socket(_: &fs::Metadata) -> bool {
    false
}

#[cfg(not(unix))]
fn connect(path: &Path) -> Result<Box<dyn Write + Send>> {
    open_stream(path)
}

#[cfg(all(test, unix))]
mod tests {
    use std::io::Read;
    use std::os::unix::fs::{FileTypeExt, PermissionsExt, symlink};
    use std::os::unix::net::UnixListener;

    use super::*;

    fn put(path: &Path, existing: Existing) -> Result<()> {
        OutputFile::new(path, existing)?.write(|out| out.write_all(b"new"))
    }

    fn problem(path: &Path, existing: Existing) -> String {
        let error = put(path, existing).unwrap_err();
        assert_eq!(error.path(), Some(path));
        error.text().to_string()
    }

    #[test]
    fn regular_files_are_replaced_only_on_request() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("deep/file");
        put(&path, Existing::Keep).unwrap();
        fs::write(&path, "old").unwrap();
        fs::set_permissions(&path, PermissionsExt::from_mode(0o640)).unwrap();
        assert_eq!(problem(&path, Existing::Keep), "this file exists");
        assert_eq!(fs::read_to_string(&path).unwrap(), "old");
        put(&path, Existing::Replace).unwrap();
        assert_eq!(fs::read_to_string(&path).unwrap(), "new");
        assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o640);
        assert_eq!(fs::read_dir(folder.path().join("deep")).unwrap().count(), 1);
    }

    #[test]
    fn files_that_appear_meanwhile_are_kept() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("file");
        let output = OutputFile::new(&path, Existing::Keep).unwrap();
        let result = output.write(|out| {
            fs::write(&path, "of another program")?;
            out.write_all(b"new")
        });
        assert_eq!(result.unwrap_err().class(), Class::Exists);
        assert_eq!(fs::read_to_string(&path).unwrap(), "of another program");
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1);
    }

    #[test]
    fn links_are_followed_and_stay() {
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name);
        fs::create_dir(at("real")).unwrap();
        symlink("real/file", at("second")).unwrap();
        symlink("second", at("first")).unwrap();
        put(&at("first"), Existing::Keep).unwrap();
        assert_eq!(problem(&at("first"), Existing::Keep), "this file exists");
        put(&at("first"), Existing::Replace).unwrap();
        assert_eq!(fs::read_to_string(at("real/file")).unwrap(), "new");
        assert!(["first", "second"].iter().all(|name| fs::symlink_metadata(at(name)).unwrap().is_symlink()));
        symlink("loop", at("loop")).unwrap();
        assert_eq!(problem(&at("loop"), Existing::Replace), "too many links");
        symlink("real", at("folder")).unwrap();
        assert_eq!(problem(&at("folder"), Existing::Replace), "this is a folder; name a file in it");
        assert_eq!(problem(Path::new(""), Existing::Replace), "this is not the name of a file");
    }

    #[test]
    fn pipes_devices_and_sockets_are_written_to() {
        let folder = tempfile::tempdir().unwrap();
        let pipe = folder.path().join("pipe");
        assert!(std::process::Command::new("mkfifo").arg(&pipe).status().unwrap().success());
        let reader = std::thread::spawn({
            let pipe = pipe.clone();
            move || fs::read_to_string(pipe).unwrap()
        });
        put(&pipe, Existing::Keep).unwrap();
        assert_eq!(reader.join().unwrap(), "new");
        assert!(fs::symlink_metadata(&pipe).unwrap().file_type().is_fifo());

        let socket = folder.path().join("socket");
        let listener = UnixListener::bind(&socket).unwrap();
        put(&socket, Existing::Replace).unwrap();
        let mut received = String::new();
        listener.accept().unwrap().0.read_to_string(&mut received).unwrap();
        assert_eq!(received, "new");
        assert!(fs::symlink_metadata(&socket).unwrap().file_type().is_socket());

        let open = File::create(folder.path().join("open")).unwrap();
        let descriptor = format!("/proc/self/fd/{}", std::os::fd::AsRawFd::as_raw_fd(&open));
        if cfg!(target_os = "linux") {
            symlink(&descriptor, folder.path().join("link")).unwrap();
            put(&folder.path().join("link"), Existing::Replace).unwrap();
            put(Path::new(&descriptor), Existing::Keep).unwrap();
            assert_eq!(fs::read_to_string(folder.path().join("open")).unwrap(), "newnew");
            let full = put(Path::new("/dev/full"), Existing::Replace).unwrap_err();
            assert!(full.to_string().contains("/dev/full"), "{full}");
            assert!(fs::symlink_metadata("/dev/full").unwrap().file_type().is_char_device());
        }
    }
}
