use super::RecordError;
use std::fs;
use std::path::{Path, PathBuf};

/// The files of one recording, written beside their final names and then renamed all at once:
/// either all of them are there in the end, or none. Dropping it removes what was not kept.
#[derive(Debug)]
pub(super) struct Stage {
    files: Vec<(PathBuf, PathBuf)>,
    /// Folders that were made for the files.
    folders: Vec<PathBuf>,
}

impl Stage {
    pub(super) fn new() -> Self {
        Self {
            files: Vec::new(),
            folders: Vec::new(),
        }
    }

    /// Makes `folder` and what is above it, as far as it is not there.
    pub(super) fn folder(&mut self, folder: &Path) -> Result<(), RecordError> {
        let missing: Vec<&Path> = folder
            .ancestors()
            .take_while(|path| !path.as_os_str().is_empty() && !path.exists())
            .collect();
        for path in missing.into_iter().rev() {
            fs::create_dir(path).map_err(|e| RecordError::file(path, &e))?;
            self.folders.push(path.to_owned());
        }
        Ok(())
    }

    /// Writes `bytes` for `path`, under another name for the time being.
    pub(super) fn write(&mut self, path: &Path, bytes: &[u8]) -> Result<(), RecordError> {
        // A device or a pipe would be replaced, not written to.
        if fs::metadata(path).is_ok_and(|there| !there.is_file() && !there.is_dir()) {
            let cause = std::io::Error::other("not a file, expected a name that a file can have");
            return Err(RecordError::file(path, &cause));
        }
        let mut name = std::ffi::OsString::from(".");
        name.push(path.file_name().unwrap_or_default());
        name.push(format!(".{}.part", std::process::id()));
        let staged = path.with_file_name(name);
        self.files.push((staged.clone(), path.to_owned()));
        fs::write(&staged, bytes).map_err(|e| RecordError::file(path, &e))
    }

    /// Gives all files their names, the first one written last: whoever sees it sees all.
    pub(super) fn keep(mut self) -> Result<(), RecordError> {
        for (done, (staged, path)) in self.files.iter().enumerate().rev() {
            if let Err(error) = fs::rename(staged, path) {
                for (_, path) in &self.files[done + 1..] {
                    let _ = fs::remove_file(path);
                }
                return Err(RecordError::file(path, &error));
            }
        }
        self.files.clear();
        self.folders.clear();
        Ok(())
    }
}

impl Drop for Stage {
    fn drop(&mut self) {
        for (staged, _) in &self.files {
            let _ = fs::remove_file(staged);
        }
        // Only those that are empty again go.
        for folder in self.folders.iter().rev() {
            let _ = fs::remove_dir(folder);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn either_all_files_are_there_in_the_end_or_none() {
        let dir = tempfile::tempdir().unwrap();
        let names = |dir: &Path| {
            let mut names: Vec<_> = fs::read_dir(dir)
                .unwrap()
                .map(|entry| entry.unwrap().file_name().into_string().unwrap())
                .collect();
            names.sort();
            names
        };
        let write_two = || {
            let mut stage = Stage::new();
            stage.write(&dir.path().join("a"), b"1").unwrap();
            stage.folder(&dir.path().join("s/t")).unwrap();
            stage.write(&dir.path().join("s/t/b"), b"2").unwrap();
            stage
        };
        drop(write_two());
        assert_eq!(names(dir.path()), Vec::<String>::new());
        // The first cannot take its name: the second loses its own again.
        fs::create_dir(dir.path().join("a")).unwrap();
        assert!(write_two().keep().is_err());
        assert_eq!(names(dir.path()), ["a"]);
        fs::remove_dir(dir.path().join("a")).unwrap();
        write_two().keep().unwrap();
        assert_eq!(names(dir.path()), ["a", "s"]);
        assert_eq!(fs::read(dir.path().join("s/t/b")).unwrap(), b"2");
    }
}
