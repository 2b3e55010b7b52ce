//! One file written whole or not at all: beside its name first, then under it. A device or a pipe is written to and
//! never replaced.

use crate::files::is_stdout;
use crate::printable;
use std::fmt;
use std::fs;
use std::hash::{BuildHasher, Hasher};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

/// Why an output file could not be written; what stood there before still stands there.
#[derive(Debug)]
pub struct WriteError {
    path: PathBuf,
    cause: io::Error,
}

impl WriteError {
    pub(crate) fn new(path: &Path, cause: io::Error) -> Self {
        Self {
            path: path.to_owned(),
            cause,
        }
    }
}

impl fmt::Display for WriteError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{}: cannot write: {}",
            printable::path(&self.path),
            self.cause
        )
    }
}

impl std::error::Error for WriteError {}

/// Whether there is a place for an output at `path`. A command asks before it works for minutes, so
/// that its user learns of a fault at once. Writing may still fail later.
///
/// # Errors
/// If its folder is not there or may not be written into, or a folder has its name.
pub fn has_place(path: &Path) -> Result<(), WriteError> {
    let error = |cause| WriteError::new(path, cause);
    if is_stdout(path) {
        return Ok(());
    }
    if path.is_dir() {
        return Err(error(io::ErrorKind::IsADirectory.into()));
    }
    if path.file_name().is_none() {
        return Err(error(no_name()));
    }
    let folder = path
        .parent()
        .filter(|folder| !folder.as_os_str().is_empty());
    let there = fs::metadata(folder.unwrap_or(".".as_ref())).map_err(error)?;
    if !there.is_dir() {
        return Err(error(io::ErrorKind::NotADirectory.into()));
    }
    // Into a device or a pipe, or beside what is there.
    let is_file = fs::metadata(path).map_or(true, |there| there.is_file());
    let into = if is_file {
        folder.unwrap_or(".".as_ref())
    } else {
        path
    };
    may_write(into).map_err(error)
}

/// Whether this process may write into that folder or file, as far as the system says without trying.
#[cfg(target_os = "linux")]
fn may_write(path: &Path) -> io::Result<()> {
    Ok(rustix::fs::access(path, rustix::fs::Access::WRITE_OK)?)
}

#[cfg(not(target_os = "linux"))]
fn may_write(_path: &Path) -> io::Result<()> {
    Ok(())
}

/// Writes `bytes` to `path` whole or not at all: into a file beside it, which then takes its
/// name. `-` is standard output; what is there and is no file (a device, a pipe) is written to and
/// never replaced.
///
/// # Errors
/// If the file cannot be written or take its name; the file beside it is removed.
pub fn write_whole(path: &Path, bytes: &[u8]) -> Result<(), WriteError> {
    let error = |cause| WriteError::new(path, cause);
    if is_stdout(path) {
        let mut out = io::stdout().lock();
        let written = out.write_all(bytes).and_then(|()| out.flush());
        return match written {
            // The reader has closed the pipe because it has enough, as `head` does.
            Err(e) if e.kind() == io::ErrorKind::BrokenPipe => Ok(()),
            other => other.map_err(error),
        };
    }
    if fs::metadata(path).is_ok_and(|there| !there.is_file() && !there.is_dir()) {
        let mut out = fs::OpenOptions::new()
            .write(true)
            .open(path)
            .map_err(error)?;
        return out.write_all(bytes).map_err(error);
    }
    let (mut file, beside) = create_beside(path).map_err(error)?;
    let written = file
        .write_all(bytes)
        .and_then(|()| fs::rename(&beside, path));
    written.map_err(|cause| {
        // The first error is the one to tell.
        let _ = fs::remove_file(&beside);
        error(cause)
    })
}

/// Makes a file beside `path`, for what is to have that name later, and says its name.
///
/// The name cannot be known before, and what is there already is never opened: a link that was laid
/// there is not followed. Where the folder is another user's, that user can still take the file away.
///
/// # Errors
/// If `path` is no file's name or no file can be made there.
pub(crate) fn create_beside(path: &Path) -> io::Result<(fs::File, PathBuf)> {
    let name = path.file_name().ok_or_else(no_name)?;
    for _ in 0..16 {
        // The keys of the standard library's hash maps: 128 bits from the system's generator, once a
        // thread, and another hash each time.
        let random = std::hash::RandomState::new().build_hasher().finish();
        let mut beside = std::ffi::OsString::from(".");
        beside.push(name);
        beside.push(format!(".{random:016x}.part"));
        let beside = path.with_file_name(beside);
        match fs::File::create_new(&beside) {
            Err(e) if e.kind() == io::ErrorKind::AlreadyExists => {}
            made => return made.map(|file| (file, beside)),
        }
    }
    Err(io::ErrorKind::AlreadyExists.into())
}

fn no_name() -> io::Error {
    io::Error::new(io::ErrorKind::InvalidInput, "not a file's name")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_is_written_whole_or_not_at_all() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("a.json");
        write_whole(&path, b"one").unwrap();
        write_whole(&path, b"two").unwrap();
        assert_eq!(fs::read(&path).unwrap(), b"two");
        // A folder cannot be replaced by a file: nothing stays behind.
        let folder = dir.path().join("folder");
        fs::create_dir_all(folder.join("inside")).unwrap();
        let error = write_whole(&folder, b"three").unwrap_err().to_string();
        assert!(error.contains("folder: cannot write: "), "{error}");
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 2);
        assert!(write_whole(&dir.path().join("none/b"), b"").is_err());
    }

    #[test]
    fn a_place_is_missed_before_the_work() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("a.json");
        let no_place = |path: &Path| has_place(path).unwrap_err().to_string();
        has_place(&file).unwrap();
        assert!(!file.exists(), "nothing is made by asking");
        write_whole(&file, b"one").unwrap();
        for here in [file.as_path(), "a.json".as_ref(), "-".as_ref()] {
            has_place(here).unwrap();
        }
        for none in [
            dir.path(),
            &dir.path().join("none/b"),
            &file.join("c"),
            "".as_ref(),
        ] {
            let text = no_place(none);
            assert!(text.contains(": cannot write: "), "{text}");
        }
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn a_folder_that_may_not_be_written_into_is_no_place() {
        use std::os::unix::fs::PermissionsExt;
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("a.html");
        fs::set_permissions(dir.path(), fs::Permissions::from_mode(0o555)).unwrap();
        if fs::write(&file, b"").is_ok() {
            println!("skipped: this user may write into any folder");
        } else {
            let error = has_place(&file).unwrap_err().to_string();
            assert!(error.contains("a.html: cannot write: "), "{error}");
        }
        has_place("/dev/null".as_ref()).unwrap();
    }

    #[cfg(unix)]
    #[test]
    fn w2_a_link_under_the_name_that_was_used_is_not_followed() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("a.json");
        let victim = dir.path().join("victim");
        fs::write(&victim, b"mine").unwrap();
        let laid = dir
            .path()
            .join(format!("a.json.{}.part", std::process::id()));
        std::os::unix::fs::symlink(&victim, laid).unwrap();
        write_whole(&path, b"one").unwrap();
        assert_eq!(fs::read(&victim).unwrap(), b"mine");
        let names = || create_beside(&path).unwrap().1;
        assert_ne!(names(), names());
    }

    #[cfg(unix)]
    #[test]
    fn what_is_no_file_is_never_replaced() {
        use std::os::unix::fs::FileTypeExt;
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("socket");
        let _listener = std::os::unix::net::UnixListener::bind(&path).unwrap();
        assert!(write_whole(&path, b"one").is_err());
        assert!(fs::metadata(&path).unwrap().file_type().is_socket());
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 1);
    }
}
