//! A file of whole lines that outlives its command: what was done is read back and not done again (OF3). The lock
//! and the torn last line are handled here, and no user sees either.

use super::temp::leftovers;
use crate::printable;
use std::fmt;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};

/// A file of lines that grows while a command works, so that what was done is not done again. It has one writer at a
/// time, and ends with a whole line (OF3).
#[derive(Debug)]
pub(crate) struct RowFile {
    path: PathBuf,
    file: File,
    /// Whether it was not there before.
    is_new: bool,
}

impl Drop for RowFile {
    fn drop(&mut self) {
        // Nothing came of it: what was not there before is not there now.
        let is_empty = self.file.metadata().is_ok_and(|there| there.len() == 0);
        if self.is_new && is_empty && is_named(&self.file, &self.path) {
            let _ = fs::remove_file(&self.path);
        }
    }
}

/// The file for reading and adding, and whether it was made.
fn opened(path: &Path) -> io::Result<(File, bool)> {
    let mut options = OpenOptions::new();
    options.read(true).append(true);
    match options.clone().create_new(true).open(path) {
        Ok(file) => Ok((file, true)),
        // A link that leads nowhere yet is there, too.
        Err(_) => Ok((options.create(true).open(path)?, false)),
    }
}

/// The file, locked; `None` where it has lost its name meanwhile: the command that held the lock has put its finished
/// rows in its place, and a lock on what was there before locks nothing.
fn locked(file: File, path: &Path) -> Result<Option<File>, &'static str> {
    if file.try_lock().is_err() {
        return Err("another command adds rows to it, expected a file for each");
    }
    Ok(is_named(&file, path).then_some(file))
}

/// Whether that is the file of this name now.
#[cfg(unix)]
fn is_named(file: &File, path: &Path) -> bool {
    use std::os::unix::fs::MetadataExt;
    let numbers = |there: fs::Metadata| (there.dev(), there.ino());
    let own = file.metadata().map(numbers);
    own.is_ok_and(|own| fs::metadata(path).is_ok_and(|there| numbers(there) == own))
}

/// Where a file that is open keeps its name.
#[cfg(not(unix))]
fn is_named(_: &File, _: &Path) -> bool {
    true
}

/// Why such a file cannot be read or written.
#[derive(Debug)]
pub(crate) struct RowFileError(String);

impl fmt::Display for RowFileError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl RowFile {
    /// Opens the file, or makes it, and reads its lines. The last value is a torn line, which has no end: it is still
    /// there until the caller, which knows what it was, [cuts](Self::cut) it off.
    ///
    /// # Errors
    /// If it is no file of text, cannot be read or written, or another process writes it.
    pub(crate) fn open(path: &Path) -> Result<(Self, Vec<String>, Vec<u8>), RowFileError> {
        let bad =
            |what: &dyn fmt::Display| RowFileError(format!("{}: {what}", printable::path(path)));
        if fs::metadata(path).is_ok_and(|there| !there.is_file()) {
            return Err(bad(&"not a file, expected one that rows can be added to"));
        }
        let not_written = |e: io::Error| bad(&format!("cannot write: {e}"));
        let (mut file, is_new) = loop {
            let (file, is_new) = opened(path).map_err(not_written)?;
            if let Some(file) = locked(file, path).map_err(|says| bad(&says))? {
                break (file, is_new);
            }
        };
        let mut bytes = Vec::new();
        file.read_to_end(&mut bytes).map_err(|e| bad(&e))?;
        let whole = bytes
            .iter()
            .rposition(|&byte| byte == b'\n')
            .map_or(0, |at| at + 1);
        let torn = bytes.split_off(whole);
        let text =
            String::from_utf8(bytes).map_err(|_| bad(&"is no text, expected rows of JSON"))?;
        let lines = text.lines().map(str::to_owned).collect();
        let path = path.to_owned();
        Ok((Self { path, file, is_new }, lines, torn))
    }

    /// Cuts a torn line of this many bytes off.
    ///
    /// # Errors
    /// If the file cannot be written.
    pub(crate) fn cut(&mut self, torn_bytes: usize) -> Result<(), RowFileError> {
        let len = self.file.metadata().map(|there| there.len());
        let cut = len.and_then(|len| self.file.set_len(len.saturating_sub(torn_bytes as u64)));
        cut.map_err(|error| self.not_written(&error))
    }

    /// Adds a line behind whole ones (OF3).
    ///
    /// # Errors
    /// If it cannot be written; a part of it that was written is taken back.
    pub(crate) fn add(&mut self, line: &str) -> Result<(), RowFileError> {
        // A signal waits until the line is whole.
        let _held = leftovers();
        let len = self.file.metadata().map(|there| there.len());
        let bytes = format!("{line}\n");
        self.file.write_all(bytes.as_bytes()).map_err(|error| {
            if let Ok(len) = len {
                let _ = self.file.set_len(len);
            }
            self.not_written(&error)
        })
    }

    fn not_written(&self, error: &io::Error) -> RowFileError {
        let path = printable::path(&self.path);
        RowFileError(format!("{path}: cannot write: {error}"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of3_a_torn_line_is_cut_off_and_lines_are_added_behind_the_whole_ones() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("rows");
        fs::write(&path, b"one\ntwo\nthr").unwrap();
        let (mut rows, lines, torn) = RowFile::open(&path).unwrap();
        assert_eq!(lines, ["one", "two"]);
        assert_eq!(torn, b"thr");
        assert_eq!(fs::read(&path).unwrap(), b"one\ntwo\nthr", "not cut yet");
        rows.cut(torn.len()).unwrap();
        let again = RowFile::open(&path).unwrap_err().to_string();
        assert!(again.contains("another command adds rows to it"), "{again}");
        rows.add("three").unwrap();
        drop(rows);
        assert_eq!(fs::read(&path).unwrap(), b"one\ntwo\nthree\n");
        assert_eq!(
            RowFile::open(&folder.path().join("new")).unwrap().1.len(),
            0
        );
        assert!(RowFile::open(folder.path()).is_err());
        let new = folder.path().join("new");
        assert!(!new.exists(), "nothing came of it");
        RowFile::open(&new).unwrap().0.add("one").unwrap();
        assert_eq!(fs::read(&new).unwrap(), b"one\n");
        fs::write(&path, b"\xff\n").unwrap();
        let error = RowFile::open(&path).unwrap_err().to_string();
        assert!(error.contains("rows: is no text"), "{error}");
    }

    #[test]
    #[cfg(unix)]
    fn of3_a_file_whose_name_another_one_has_by_now_is_not_the_one_that_is_locked() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("rows");
        // Opened while another command still has the lock, and locked when that one has ended.
        let (before, is_new) = opened(&path).unwrap();
        assert!(is_new);
        fs::write(folder.path().join("finished"), b"one\n").unwrap();
        fs::rename(folder.path().join("finished"), &path).unwrap();
        assert!(locked(before, &path).unwrap().is_none());
        let (rows, lines, _) = RowFile::open(&path).unwrap();
        assert_eq!(lines, ["one"]);
        assert!(locked(opened(&path).unwrap().0, &path).is_err(), "held");
        drop(rows);
        assert!(locked(opened(&path).unwrap().0, &path).unwrap().is_some());
    }
}
