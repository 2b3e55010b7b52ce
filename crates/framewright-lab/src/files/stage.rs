//! The exchange of several files' names in one go, or in steps that can be undone where the system has no exchange.
//! Recordings and outputs both stand on it.

use super::temp::leftovers;
use crate::report::{WriteError, create_beside};
use std::fs;
use std::io::{self, Write};
use std::path::{Path, PathBuf};

/// Files that belong together, as those of a recording, written beside their final names and then given them all at once:
/// in the end either all of them are there, or all that was there before. Dropping it removes what
/// was not kept.
#[derive(Debug)]
pub(crate) struct Stage {
    files: Vec<StagedFile>,
    /// Folders that were made for the files.
    folders: Vec<PathBuf>,
}

/// A file and how far it has come.
#[derive(Debug)]
struct StagedFile {
    /// The name under which it was made.
    made: PathBuf,
    /// Where it was written. Once it has its name, the old file of that name is here, if there was one.
    staged: PathBuf,
    path: PathBuf,
    state: StageState,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum StageState {
    /// Under the staged name; the final one is as it was.
    Staged,
    /// Under its own name, which was free.
    Named,
    /// Under its own name; the old file is under the staged one.
    Swapped,
}

impl Stage {
    pub(crate) fn new() -> Self {
        Self {
            files: Vec::new(),
            folders: Vec::new(),
        }
    }

    /// Makes `folder` and what is above it, as far as it is not there.
    pub(crate) fn folder(&mut self, folder: &Path) -> Result<(), WriteError> {
        let missing: Vec<&Path> = folder
            .ancestors()
            .take_while(|path| !path.as_os_str().is_empty() && !path.exists())
            .collect();
        for path in missing.into_iter().rev() {
            fs::create_dir(path).map_err(|e| WriteError::new(path, e))?;
            self.folders.push(path.to_owned());
        }
        Ok(())
    }

    /// Writes `bytes` for `path`, under another name for the time being (W2).
    pub(crate) fn write(&mut self, path: &Path, bytes: &[u8]) -> Result<(), WriteError> {
        let error = |cause: io::Error| WriteError::new(path, cause);
        // A device or a pipe would be replaced, not written to.
        if fs::metadata(path).is_ok_and(|there| !there.is_file() && !there.is_dir()) {
            let cause = io::Error::other("not a file, expected a name that a file can have");
            return Err(error(cause));
        }
        let (mut file, staged) = {
            let mut leftovers = leftovers();
            let made = create_beside(path).map_err(error)?;
            leftovers.push(made.1.clone());
            made
        };
        self.files.push(StagedFile {
            made: staged.clone(),
            staged,
            path: path.to_owned(),
            state: StageState::Staged,
        });
        file.write_all(bytes).map_err(error)
    }

    /// Gives all files their names, the first one last: where that is the new one, all are. On an
    /// error those that were there have their names again (W1).
    pub(crate) fn keep(mut self) -> Result<(), WriteError> {
        // A signal waits until all have their names.
        let mut leftovers = leftovers();
        for nth in (0..self.files.len()).rev() {
            let (first, named) = self.files.split_at_mut(nth + 1);
            let file = &mut first[nth];
            // Names that differ here may be one to the file system, as `out` and `OUT` are to some.
            if named.iter().any(|other| other.is_at(&file.path)) {
                let cause = "another output has this name already, expected two names that the file system tells apart";
                return Err(WriteError::new(&file.path, io::Error::other(cause)));
            }
            file.name().map_err(|e| WriteError::new(&file.path, e))?;
        }
        for file in self.files.drain(..) {
            leftovers.retain(|path| *path != file.made);
            if file.state == StageState::Swapped {
                let _ = fs::remove_file(&file.staged);
            }
        }
        self.folders.clear();
        Ok(())
    }
}

impl StagedFile {
    /// Whether this file, which has its name, is what `path` leads to.
    fn is_at(&self, path: &Path) -> bool {
        is_one_file(&self.path, path)
    }

    fn name(&mut self) -> io::Result<()> {
        if fs::symlink_metadata(&self.path).is_ok_and(|there| there.is_dir()) {
            return Err(io::ErrorKind::IsADirectory.into());
        }
        self.state = match self.exchange()? {
            Some(state) => state,
            // A file system that cannot: the old one is set aside, and stays until all are new.
            None => self.name_in_steps()?,
        };
        Ok(())
    }

    /// Names it in one step, where the file system can.
    #[cfg(target_os = "linux")]
    fn exchange(&self) -> io::Result<Option<StageState>> {
        use rustix::fs::{CWD, RenameFlags, renameat_with};
        use rustix::io::Errno;
        let (staged, path) = (&self.staged, &self.path);
        let rename = |flags| renameat_with(CWD, staged, CWD, path, flags);
        match rename(RenameFlags::EXCHANGE) {
            Ok(()) => Ok(Some(StageState::Swapped)),
            Err(Errno::NOENT) => match rename(RenameFlags::NOREPLACE) {
                Ok(()) => Ok(Some(StageState::Named)),
                Err(errno) => Err(errno.into()),
            },
            Err(Errno::INVAL | Errno::NOSYS) => Ok(None),
            Err(errno) => Err(errno.into()),
        }
    }

    #[cfg(not(target_os = "linux"))]
    fn exchange(&self) -> io::Result<Option<StageState>> {
        Ok(None)
    }

    fn name_in_steps(&mut self) -> io::Result<StageState> {
        if fs::symlink_metadata(&self.path).is_err() {
            fs::rename(&self.staged, &self.path)?;
            return Ok(StageState::Named);
        }
        let (file, aside) = create_beside(&self.path)?;
        drop(file);
        fs::rename(&self.path, &aside)?;
        if let Err(error) = fs::rename(&self.staged, &self.path) {
            let _ = fs::rename(&aside, &self.path);
            return Err(error);
        }
        self.staged = aside;
        Ok(StageState::Swapped)
    }

    /// The old file has its name again, and the new one is gone.
    fn undo(&self) {
        let _ = match self.state {
            StageState::Staged => fs::remove_file(&self.staged),
            StageState::Named => fs::remove_file(&self.path),
            StageState::Swapped => fs::rename(&self.staged, &self.path),
        };
    }
}

impl Drop for Stage {
    fn drop(&mut self) {
        let mut leftovers = leftovers();
        for file in &self.files {
            leftovers.retain(|path| *path != file.made);
            file.undo();
        }
        // Only those that are empty again go.
        for folder in self.folders.iter().rev() {
            let _ = fs::remove_dir(folder);
        }
    }
}

#[cfg(unix)]
fn is_one_file(a: &Path, b: &Path) -> bool {
    use std::os::unix::fs::MetadataExt;
    let numbers = |path| {
        let there = fs::symlink_metadata(path).ok()?;
        Some((there.dev(), there.ino()))
    };
    numbers(a).is_some_and(|a| numbers(b) == Some(a))
}

#[cfg(not(unix))]
fn is_one_file(a: &Path, b: &Path) -> bool {
    let whole = |path| fs::canonicalize(path).ok();
    whole(a).is_some_and(|a| whole(b) == Some(a))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(dir: &Path) -> Vec<String> {
        let mut names: Vec<_> = fs::read_dir(dir)
            .unwrap()
            .map(|entry| entry.unwrap().file_name().into_string().unwrap())
            .collect();
        names.sort();
        names
    }

    fn write_two(dir: &Path) -> Stage {
        let mut stage = Stage::new();
        stage.write(&dir.join("a"), b"1").unwrap();
        stage.folder(&dir.join("s/t")).unwrap();
        stage.write(&dir.join("s/t/b"), b"2").unwrap();
        stage
    }

    #[test]
    fn either_all_files_are_there_in_the_end_or_none() {
        let dir = tempfile::tempdir().unwrap();
        let dir = dir.path();
        drop(write_two(dir));
        assert_eq!(names(dir), Vec::<String>::new());
        // The first cannot take its name: the second loses its own again.
        fs::create_dir(dir.join("a")).unwrap();
        assert!(write_two(dir).keep().is_err());
        assert_eq!(names(dir), ["a"]);
        fs::remove_dir(dir.join("a")).unwrap();
        write_two(dir).keep().unwrap();
        assert_eq!(names(dir), ["a", "s"]);
        assert_eq!(fs::read(dir.join("s/t/b")).unwrap(), b"2");
    }

    #[test]
    fn w1_old_files_stand_until_all_new_ones_have_their_names() {
        let dir = tempfile::tempdir().unwrap();
        let dir = dir.path();
        fs::create_dir_all(dir.join("s/t")).unwrap();
        fs::write(dir.join("s/t/b"), b"old").unwrap();
        let old = || fs::read(dir.join("s/t/b")).unwrap();
        // `s/t/b` has its new name first, and the folder `a` lets the other one fail.
        fs::create_dir(dir.join("a")).unwrap();
        assert!(write_two(dir).keep().is_err());
        assert_eq!(
            (old(), names(&dir.join("s/t"))),
            (b"old".to_vec(), vec!["b".to_owned()])
        );
        drop(write_two(dir));
        assert_eq!(old(), b"old");
        fs::remove_dir(dir.join("a")).unwrap();
        fs::write(dir.join("a"), b"old").unwrap();
        write_two(dir).keep().unwrap();
        assert_eq!(
            (fs::read(dir.join("a")).unwrap(), old()),
            (b"1".to_vec(), b"2".to_vec())
        );
        assert_eq!(
            (names(dir), names(&dir.join("s/t"))),
            (vec!["a".to_owned(), "s".to_owned()], vec!["b".to_owned()])
        );
    }

    #[test]
    fn of2_no_output_takes_another_s_place_where_the_file_system_has_one_name_for_both() {
        let dir = tempfile::tempdir().unwrap();
        let dir = dir.path();
        for old in [None, Some(b"old")] {
            if let Some(old) = old {
                fs::write(dir.join("out"), old).unwrap();
            }
            let mut stage = Stage::new();
            // What a system without large and small letters makes of `out` and `OUT`.
            stage.write(&dir.join("out"), b"1").unwrap();
            stage.write(&dir.join("out"), b"2").unwrap();
            let error = stage.keep().unwrap_err().to_string();
            assert!(
                error.contains("another output has this name already"),
                "{error}"
            );
            assert_eq!(
                fs::read(dir.join("out")).ok().as_deref(),
                old.map(|old| &old[..])
            );
            assert_eq!(names(dir).len(), usize::from(old.is_some()));
        }
    }

    #[test]
    fn w1_holds_in_steps_too() {
        let dir = tempfile::tempdir().unwrap();
        let dir = dir.path();
        fs::write(dir.join("a"), b"old").unwrap();
        let mut stage = Stage::new();
        stage.write(&dir.join("a"), b"new").unwrap();
        stage.write(&dir.join("b"), b"new").unwrap();
        for file in &mut stage.files {
            file.state = file.name_in_steps().unwrap();
        }
        let states: Vec<StageState> = stage.files.iter().map(|file| file.state).collect();
        assert_eq!(states, [StageState::Swapped, StageState::Named]);
        assert_eq!(fs::read(dir.join("a")).unwrap(), b"new");
        drop(stage);
        assert_eq!(fs::read(dir.join("a")).unwrap(), b"old");
        assert_eq!(names(dir), ["a"]);
    }

    #[test]
    fn w2_a_link_that_was_laid_before_is_neither_followed_nor_written_to() {
        let dir = tempfile::tempdir().unwrap();
        let dir = dir.path();
        fs::write(dir.join("victim"), b"mine").unwrap();
        for name in ["a", &format!(".a.{}.part", std::process::id())] {
            std::os::unix::fs::symlink(dir.join("victim"), dir.join(name)).unwrap();
        }
        write_two(dir).keep().unwrap();
        assert_eq!(fs::read(dir.join("victim")).unwrap(), b"mine");
        assert!(fs::symlink_metadata(dir.join("a")).unwrap().is_file());
        assert_eq!(fs::read(dir.join("a")).unwrap(), b"1");
    }
}
