//! What a command makes for a while: folders, and outputs that do not have their names yet. No end of the command
//! leaves it behind.
#![cfg_attr(not(target_os = "linux"), allow(dead_code))]

use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// What the names of such folders begin with.
const PREFIX: &str = "framewright-work-";

/// Tries to make one, where others remove what is left at the same moment.
const TRIES: u32 = 16;

/// What goes with this process, for the thread that ends it.
static LEFTOVERS: Mutex<Vec<PathBuf>> = Mutex::new(Vec::new());

/// A folder in the system's temporary one. Dropping it removes it; [`remove_all`] does on a signal; and what a
/// process that was killed has left goes when the next one makes a folder.
///
/// A lock on the folder tells one that is used from one that is left: the system lets go of it with the process.
#[derive(Debug)]
pub(crate) struct TempFolder {
    path: PathBuf,
    /// Holds the lock.
    _held: File,
}

impl TempFolder {
    /// Makes one, whose name says what it is for.
    ///
    /// # Errors
    /// If none can be made.
    pub(crate) fn make(purpose: &str) -> io::Result<Self> {
        let parent = std::env::temp_dir();
        remove_left(&parent);
        Self::make_in(&parent, purpose)
    }

    fn make_in(parent: &Path, purpose: &str) -> io::Result<Self> {
        for _ in 0..TRIES {
            let made = tempfile::Builder::new()
                .prefix(&format!("{PREFIX}{purpose}-"))
                .tempdir_in(parent)?;
            let held = File::open(made.path())?;
            // Another process may have taken it for one that is left: it has the lock, or the folder is gone.
            if held.try_lock().is_err() || !made.path().exists() {
                continue;
            }
            let path = made.keep();
            leftovers().push(path.clone());
            return Ok(Self { path, _held: held });
        }
        Err(io::Error::other("others remove what is made"))
    }

    /// Where it is.
    pub(crate) fn path(&self) -> &Path {
        &self.path
    }
}

impl Drop for TempFolder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.path);
        leftovers().retain(|path| *path != self.path);
    }
}

/// Files and folders that are to be gone when the process is. While a thread holds the guard no signal ends the process.
pub(super) fn leftovers() -> MutexGuard<'static, Vec<PathBuf>> {
    LEFTOVERS.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Removes what this process has made for a while. The process is about to end, though its threads still work.
pub(crate) fn remove_all() {
    let leftovers = leftovers();
    for path in leftovers.iter() {
        // A thread may make another file in a folder meanwhile.
        for _ in 0..TRIES {
            match fs::remove_file(path).or_else(|_| fs::remove_dir_all(path)) {
                Err(e) if e.kind() != io::ErrorKind::NotFound => {}
                _ => break,
            }
        }
    }
    // From here on no thread makes anything: it would wait for the guard.
    std::mem::forget(leftovers);
}

/// Removes what killed processes have left in `parent`, as far as this user may.
fn remove_left(parent: &Path) {
    for entry in fs::read_dir(parent).into_iter().flatten().flatten() {
        let is_ours = entry.file_name().to_string_lossy().starts_with(PREFIX);
        // A link is not followed.
        if !is_ours || !entry.file_type().is_ok_and(|kind| kind.is_dir()) {
            continue;
        }
        if let Ok(folder) = File::open(entry.path())
            && folder.try_lock().is_ok()
        {
            let _ = fs::remove_dir_all(entry.path());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_folder_is_gone_with_its_owner_and_one_that_is_left_with_the_next() {
        let parent = tempfile::tempdir().unwrap();
        let names = || fs::read_dir(parent.path()).unwrap().count();
        let folder = TempFolder::make_in(parent.path(), "test").unwrap();
        fs::write(folder.path().join("a"), b"1").unwrap();
        remove_left(parent.path());
        assert!(folder.path().join("a").exists(), "it is used");
        drop(folder);
        assert_eq!(names(), 0);
        let left = parent.path().join(format!("{PREFIX}test-killed"));
        fs::create_dir(&left).unwrap();
        fs::write(left.join("a"), b"1").unwrap();
        fs::write(parent.path().join("other"), b"1").unwrap();
        std::os::unix::fs::symlink(parent.path(), parent.path().join(format!("{PREFIX}link")))
            .unwrap();
        remove_left(parent.path());
        assert!(!left.exists());
        assert_eq!(names(), 2, "nothing else goes");
    }
}
