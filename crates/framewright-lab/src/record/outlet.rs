//! Where a stream goes: a file that grows, or standard output.

use super::RecordError;
use crate::files::is_stdout;
use crate::printable;
use crate::report::create_beside;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::{CWD, RenameFlags, fstatvfs, renameat_with};
use rustix::io::Errno;
use std::fs::{self, File};
use std::io::{self, IsTerminal, Write};
use std::os::fd::AsFd;
use std::path::{Path, PathBuf};

/// What a pipe takes at once when it says that it takes something (`PIPE_BUF`).
const PIPE_BYTES: usize = 4096;

/// What takes a stream, without waiting.
pub(super) trait TakesStream {
    /// Takes some of the bytes, none where it has no room for the moment.
    ///
    /// # Errors
    /// What the system says; `BrokenPipe` where the reader is gone, `StorageFull` where a disk is full.
    fn take(&mut self, bytes: &[u8]) -> io::Result<usize>;

    /// How many bytes the disk still takes, where it is one.
    fn room_bytes(&self) -> Option<u64>;
}

/// A file or standard output.
#[derive(Debug)]
pub(super) struct StreamOutlet {
    file: File,
    is_file: bool,
    is_stdout: bool,
    /// Under which name the file was made, and which one it is to have. Dropping it removes it then.
    unnamed: Option<(PathBuf, PathBuf)>,
    replaces: bool,
}

impl StreamOutlet {
    /// Opens it. A file that is there stays as it is until [`Self::name`].
    pub(super) fn open(path: &Path, replaces: bool) -> Result<Self, RecordError> {
        if is_stdout(path) {
            if io::stdout().is_terminal() {
                return Err(RecordError::Options(
                    "--stream -: standard output is a terminal, expected a pipe or a file, as `| ssh HOST 'cat > run.stream.zst'`"
                        .into(),
                ));
            }
            let file = io::stdout().as_fd().try_clone_to_owned().map(File::from);
            let file = file.map_err(|e| RecordError::file(path, &e))?;
            let is_file = file.metadata().is_ok_and(|there| there.is_file());
            return Ok(Self {
                file,
                is_file,
                is_stdout: true,
                unnamed: None,
                replaces,
            });
        }
        let shown = printable::path(path);
        let bad = |what: &str| Err(RecordError::Options(format!("{shown}: {what}")));
        let folder = folder_of(path);
        if !folder.is_dir() {
            return bad(&format!("there is no folder {}", printable::path(folder)));
        }
        match fs::symlink_metadata(path) {
            Ok(there) if !(replaces && there.is_file()) => {
                return bad("is there already, expected a new name or --force");
            }
            _ => {}
        }
        let (file, made) = create_beside(path).map_err(|e| RecordError::file(path, &e))?;
        Ok(Self {
            file,
            is_file: true,
            is_stdout: false,
            unnamed: Some((made, path.to_owned())),
            replaces,
        })
    }

    /// Gives the file its name. From here on it stays, however the recorder ends: what is written is a recording.
    pub(super) fn name(&mut self) -> Result<(), RecordError> {
        let Some((made, path)) = &self.unnamed else {
            return Ok(());
        };
        let flags = match self.replaces {
            true => RenameFlags::empty(),
            false => RenameFlags::NOREPLACE,
        };
        let named = match renameat_with(CWD, made, CWD, path, flags) {
            // A file system that cannot: nothing was there a moment ago.
            Err(Errno::INVAL | Errno::NOSYS) => fs::rename(made, path),
            named => named.map_err(io::Error::from),
        };
        named.map_err(|e| RecordError::file(path, &e))?;
        self.unnamed = None;
        Ok(())
    }

    /// Lets the reader see the end, also where this process goes on.
    pub(super) fn close(self) {
        if self.is_stdout
            && let Ok(null) = File::options().write(true).open("/dev/null")
        {
            let _ = rustix::stdio::dup2_stdout(null);
        }
    }
}

impl TakesStream for StreamOutlet {
    fn take(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let mut bytes = bytes;
        if !self.is_file {
            let mut polled = [PollFd::new(&self.file, PollFlags::OUT)];
            match poll(&mut polled, Some(&Timespec::default())) {
                Ok(0) | Err(Errno::INTR) => return Ok(0),
                Ok(_) => {}
                Err(error) => return Err(error.into()),
            }
            bytes = &bytes[..bytes.len().min(PIPE_BYTES)];
        }
        match self.file.write(bytes) {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => Ok(0),
            // A pipe that another process has set so.
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => Ok(0),
            taken => taken,
        }
    }

    fn room_bytes(&self) -> Option<u64> {
        let disk = self.is_file.then(|| fstatvfs(&self.file).ok()).flatten()?;
        Some(disk.f_bavail.saturating_mul(disk.f_frsize))
    }
}

impl Drop for StreamOutlet {
    fn drop(&mut self) {
        if let Some((made, _)) = &self.unnamed {
            let _ = fs::remove_file(made);
        }
    }
}

/// The folder that a file is in.
pub(super) fn folder_of(path: &Path) -> &Path {
    let folder = path
        .parent()
        .filter(|folder| !folder.as_os_str().is_empty());
    folder.unwrap_or(Path::new("."))
}
