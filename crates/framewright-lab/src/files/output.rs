//! The outputs of one command. They have a stage in common, so that a command that fails leaves all of them as they
//! were (OF2).

use super::Stage;
use super::stdout::is_stdout;
use crate::report::{WriteError, write_whole};
use std::fs;
use std::path::{Path, PathBuf};

/// The outputs of a command, which get their names all at once (OF2). Dropping it leaves what was there before.
#[derive(Debug)]
pub(crate) struct OutputSet {
    stage: Stage,
    /// For standard output and for what is no file, which cannot be taken back.
    written_to: Vec<(PathBuf, Vec<u8>)>,
}

impl OutputSet {
    pub(crate) fn new() -> Self {
        Self {
            stage: Stage::new(),
            written_to: Vec::new(),
        }
    }

    /// What is to stand at `path` in the end; `-` is standard output.
    ///
    /// # Errors
    /// If it cannot be written beside `path`.
    pub(crate) fn write(&mut self, path: &Path, bytes: Vec<u8>) -> Result<(), WriteError> {
        let is_no_file = || fs::metadata(path).is_ok_and(|at| !at.is_file() && !at.is_dir());
        if is_stdout(path) || is_no_file() {
            self.written_to.push((path.to_owned(), bytes));
            return Ok(());
        }
        self.stage.write(path, &bytes)
    }

    /// Writes what cannot be taken back, and then gives all files their names.
    ///
    /// # Errors
    /// If something cannot be written or named; no file has its name then.
    pub(crate) fn keep(self) -> Result<(), WriteError> {
        for (path, bytes) in &self.written_to {
            write_whole(path, bytes)?;
        }
        self.stage.keep()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of2_all_outputs_have_their_names_or_none() {
        let dir = tempfile::tempdir().unwrap();
        let (good, bad) = (dir.path().join("a.json"), dir.path().join("folder"));
        fs::create_dir(&bad).unwrap();
        fs::write(&good, b"old").unwrap();
        let mut outputs = OutputSet::new();
        outputs.write(&good, b"new".to_vec()).unwrap();
        outputs.write(&bad, b"new".to_vec()).unwrap();
        let error = outputs.keep().unwrap_err().to_string();
        assert!(error.contains("folder: cannot write: "), "{error}");
        assert_eq!(fs::read(&good).unwrap(), b"old");
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 2);
        let mut outputs = OutputSet::new();
        outputs.write(&good, b"new".to_vec()).unwrap();
        outputs
            .write("/dev/null".as_ref(), b"new".to_vec())
            .unwrap();
        assert_eq!(fs::read(&good).unwrap(), b"old", "not before the end");
        outputs.keep().unwrap();
        assert_eq!(fs::read(&good).unwrap(), b"new");
    }
}
