//! Which files a command reads and writes, by what they are and not by their names. All are claimed before any is
//! touched, so that no output destroys an input and no two outputs meet (OF1).

use super::is_stdout;
use crate::printable;
use std::ffi::OsString;
use std::fmt;
use std::fs::{self, Metadata};
use std::path::{Path, PathBuf};

/// Links that are followed one after another at most, as the system does.
const LINKS_MAX: u32 = 40;

/// What tells a file from every other, whatever name it goes by.
#[derive(Debug, Clone, PartialEq, Eq)]
enum FileIdentity {
    /// One that is there.
    There(SystemNumbers),
    /// One that is not there yet: its folder, and the name that it will have.
    Coming(SystemNumbers, OsString),
}

/// What the system itself tells a file by.
#[derive(Debug, Clone, PartialEq, Eq)]
struct SystemNumbers {
    device: u64,
    inode: u64,
    /// Where the system has no such numbers, the name without links; empty elsewhere.
    path: PathBuf,
}

#[cfg(unix)]
fn numbers(_: &Path, there: &Metadata) -> Option<SystemNumbers> {
    use std::os::unix::fs::MetadataExt;
    Some(SystemNumbers {
        device: there.dev(),
        inode: there.ino(),
        path: PathBuf::new(),
    })
}

#[cfg(not(unix))]
fn numbers(path: &Path, _: &Metadata) -> Option<SystemNumbers> {
    Some(SystemNumbers {
        device: 0,
        inode: 0,
        path: fs::canonicalize(path).ok()?,
    })
}

#[cfg(unix)]
fn is_pipe(there: &Metadata) -> bool {
    std::os::unix::fs::FileTypeExt::is_fifo(&there.file_type())
}

#[cfg(not(unix))]
fn is_pipe(_: &Metadata) -> bool {
    false
}

impl FileIdentity {
    /// `None` for a device, which is written to and never replaced. A pipe is no file either, but what two outputs
    /// wrote into it would be neither. `None` also where the folder is not there, so that nothing can be written.
    fn of(path: &Path) -> Option<Self> {
        let mut path = path.to_owned();
        for _ in 0..LINKS_MAX {
            if let Ok(there) = fs::metadata(&path) {
                let is_file = there.is_file() || there.is_dir() || is_pipe(&there);
                return numbers(&path, &there).filter(|_| is_file).map(Self::There);
            }
            let folder = match path.parent() {
                Some(folder) if !folder.as_os_str().is_empty() => folder.to_owned(),
                _ => PathBuf::from("."),
            };
            match fs::read_link(&path) {
                // A link that leads nowhere yet.
                Ok(to) => path = folder.join(to),
                Err(_) => {
                    let name = path.file_name()?.to_owned();
                    let there = fs::metadata(&folder).ok()?;
                    return Some(Self::Coming(numbers(&folder, &there)?, name));
                }
            }
        }
        None
    }

    /// The file behind one of the standard streams, if a file is.
    #[cfg(unix)]
    fn of_stream(stream: impl std::os::fd::AsFd) -> Option<Self> {
        Self::behind(stream, Metadata::is_file)
    }

    /// The same, or the pipe behind it.
    #[cfg(unix)]
    fn of_output_stream(stream: impl std::os::fd::AsFd) -> Option<Self> {
        Self::behind(stream, |there| there.is_file() || is_pipe(there))
    }

    #[cfg(unix)]
    fn behind(stream: impl std::os::fd::AsFd, counts: fn(&Metadata) -> bool) -> Option<Self> {
        let file = fs::File::from(stream.as_fd().try_clone_to_owned().ok()?);
        let there = file.metadata().ok().filter(counts)?;
        numbers(Path::new(""), &there).map(Self::There)
    }
}

/// Why a file may not be what a command would make of it (OF1).
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ClaimError(String);

impl fmt::Display for ClaimError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// A file that a command has claimed.
#[derive(Debug)]
struct FileClaim {
    identity: FileIdentity,
    /// The option that names it, or what it is.
    called: String,
    path: String,
}

/// The files of one command, by what they are.
#[derive(Debug, Default)]
pub(crate) struct FileClaims {
    inputs: Vec<FileClaim>,
    /// Folders all of whose files are inputs, without links.
    folders: Vec<PathBuf>,
    outputs: Vec<FileClaim>,
    has_stdout: bool,
}

impl FileClaims {
    /// Of a command that has claimed nothing but its standard streams, where these are files. Names such as
    /// `/dev/stderr` lead to them, and a file that took the place of such a name would be in every program's way.
    pub(crate) fn new() -> Self {
        let mut claims = Self::default();
        #[cfg(unix)]
        claims.claim_streams([
            ("standard input", FileIdentity::of_stream(std::io::stdin())),
            (
                "standard output",
                FileIdentity::of_output_stream(std::io::stdout()),
            ),
            ("standard error", FileIdentity::of_stream(std::io::stderr())),
        ]);
        claims
    }

    /// Claims the standard streams by what they are: the first is read, the others are written.
    #[cfg(unix)]
    fn claim_streams(&mut self, streams: [(&str, Option<FileIdentity>); 3]) {
        for (nth, (name, identity)) in streams.into_iter().enumerate() {
            let claim = identity.map(|identity| FileClaim {
                identity,
                called: name.into(),
                path: name.into(),
            });
            let claims = match nth {
                0 => &mut self.inputs,
                _ => &mut self.outputs,
            };
            claims.extend(claim);
        }
    }

    /// The command reads `path`, or standard input for `-`. Whether a file is there is not asked here.
    pub(crate) fn reads(&mut self, path: &Path) -> Result<(), ClaimError> {
        let (identity, shown) = if path.as_os_str() == "-" {
            #[cfg(unix)]
            let identity = FileIdentity::of_stream(std::io::stdin());
            #[cfg(not(unix))]
            let identity = None;
            (identity, "standard input".to_owned())
        } else {
            (FileIdentity::of(path), printable::path(path))
        };
        let Some(identity) = identity else {
            return Ok(());
        };
        if let Some(output) = self.outputs.iter().find(|o| o.identity == identity) {
            return Err(is_input(output, &shown));
        }
        self.inputs.push(FileClaim {
            identity,
            called: String::new(),
            path: shown,
        });
        Ok(())
    }

    /// The command reads what is in that folder.
    pub(crate) fn reads_folder(&mut self, folder: &Path) {
        self.folders.extend(fs::canonicalize(folder));
    }

    /// The command writes `path`, which the option `called` names.
    ///
    /// # Errors
    /// If it is an input or another output.
    pub(crate) fn writes(&mut self, called: &str, path: &Path) -> Result<(), ClaimError> {
        if is_stdout(path) {
            if std::mem::replace(&mut self.has_stdout, true) {
                return Err(ClaimError(format!(
                    "{called} - and another option both want standard output, expected one of them"
                )));
            }
            return Ok(());
        }
        let Some(identity) = FileIdentity::of(path) else {
            return Ok(());
        };
        let claim = FileClaim {
            identity,
            called: called.to_owned(),
            path: printable::path(path),
        };
        let is_same = |other: &&FileClaim| other.identity == claim.identity;
        if let Some(input) = self.inputs.iter().find(is_same) {
            return Err(is_input(&claim, &input.path));
        }
        if let Some(other) = self.outputs.iter().find(is_same) {
            return Err(ClaimError(format!(
                "{}: {called} and {} want the same file, expected two",
                claim.path, other.called
            )));
        }
        if matches!(claim.identity, FileIdentity::There(_))
            && let Ok(full) = fs::canonicalize(path)
            && let Some(folder) = self.folders.iter().find(|folder| full.starts_with(folder))
        {
            return Err(is_input(&claim, &printable::path(folder)));
        }
        self.outputs.push(claim);
        Ok(())
    }
}

fn is_input(output: &FileClaim, input: &str) -> ClaimError {
    ClaimError(format!(
        "{}: {} would replace what is read from {input}, expected another name",
        output.path, output.called
    ))
}

#[cfg(all(test, unix))]
mod tests {
    use super::*;
    use std::os::unix::fs::symlink;

    fn refused(reads: &Path, writes: &Path) -> Option<String> {
        let mut claims = FileClaims::default();
        claims.reads(reads).unwrap();
        claims.writes("--html", writes).err().map(|e| e.to_string())
    }

    #[test]
    fn of1_an_input_is_no_output_under_whatever_name() {
        let dir = tempfile::tempdir().unwrap();
        let at = |name: &str| dir.path().join(name);
        fs::write(at("t.pft.zst"), b"trace").unwrap();
        fs::write(at("other"), b"").unwrap();
        symlink("t.pft.zst", at("soft")).unwrap();
        symlink("soft", at("softer")).unwrap();
        fs::hard_link(at("t.pft.zst"), at("hard")).unwrap();
        fs::create_dir(at("sub")).unwrap();
        symlink(dir.path(), at("sub/up")).unwrap();
        for name in [
            "t.pft.zst",
            "soft",
            "softer",
            "hard",
            "sub/../t.pft.zst",
            "sub/up/hard",
        ] {
            let said = refused(&at("t.pft.zst"), &at(name)).unwrap();
            assert!(
                said.contains("--html would replace what is read from"),
                "{said}"
            );
            assert!(refused(&at(name), &at("t.pft.zst")).is_some(), "{name}");
        }
        assert_eq!(refused(&at("t.pft.zst"), &at("other")), None);
        assert_eq!(refused(&at("t.pft.zst"), &at("new")), None);
        assert_eq!(refused(&at("t.pft.zst"), Path::new("/dev/null")), None);
    }

    #[test]
    fn of1_two_outputs_are_two_files_also_where_neither_exists() {
        let dir = tempfile::tempdir().unwrap();
        let at = |name: &str| dir.path().join(name);
        fs::create_dir(at("sub")).unwrap();
        symlink(dir.path(), at("sub/up")).unwrap();
        symlink("new", at("dangling")).unwrap();
        let both = |a: &str, b: &str| {
            let mut claims = FileClaims::default();
            claims.writes("--json", &at(a)).unwrap();
            claims.writes("--html", &at(b)).err().map(|e| e.to_string())
        };
        for name in [
            "new",
            "sub/../new",
            "sub/up/new",
            "dangling",
            "sub/up/dangling",
        ] {
            let said = both("new", name).unwrap();
            assert!(
                said.contains("--html and --json want the same file, expected two"),
                "{said}"
            );
            assert!(both(name, "new").is_some(), "{name}");
        }
        assert_eq!(both("new", "newer"), None);
        assert_eq!(both("new", "sub/new"), None);
        let mut claims = FileClaims::default();
        claims.writes("--json", "-".as_ref()).unwrap();
        let said = claims.writes("--csv", "/dev/stdout".as_ref()).unwrap_err();
        assert!(said.to_string().contains("both want standard output"));
        // A device is written to by as many as want to.
        claims.writes("--html", "/dev/null".as_ref()).unwrap();
        claims.writes("--html", "/dev/null".as_ref()).unwrap();
    }

    #[test]
    fn of1_a_file_behind_a_standard_stream_is_no_output_under_whatever_name() {
        let dir = tempfile::tempdir().unwrap();
        let streams = ["in", "out", "err"].map(|name| {
            let path = dir.path().join(name);
            fs::write(&path, b"").unwrap();
            symlink(&path, dir.path().join(format!("dev-{name}"))).unwrap();
            FileIdentity::of_stream(fs::File::open(&path).unwrap())
        });
        let [stdin, stdout, stderr] = streams;
        let mut claims = FileClaims::default();
        claims.claim_streams([("in", stdin), ("out", stdout), ("err", stderr)]);
        for (name, says) in [
            ("in", "would replace what is read from in"),
            ("out", "--json and out want the same file"),
            ("err", "--json and err want the same file"),
        ] {
            for path in [name.to_owned(), format!("dev-{name}")] {
                let said = claims.writes("--json", &dir.path().join(path));
                let said = said.unwrap_err().to_string();
                assert!(said.contains(says), "{said}");
            }
        }
        claims.writes("--json", &dir.path().join("new")).unwrap();
        // A trace may come from there.
        claims.reads(&dir.path().join("in")).unwrap();
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn of1_two_outputs_are_two_pipes_also_where_one_is_standard_output() {
        use std::os::fd::AsRawFd;
        let (reader, writer) = std::io::pipe().unwrap();
        let named = |fd: i32| PathBuf::from(format!("/proc/self/fd/{fd}"));
        let (one, again) = (named(writer.as_raw_fd()), named(reader.as_raw_fd()));
        let mut claims = FileClaims::default();
        claims.writes("--json", &one).unwrap();
        let said = claims.writes("--csv", &again).unwrap_err().to_string();
        assert!(
            said.contains("--csv and --json want the same file"),
            "{said}"
        );
        let stdout = FileIdentity::of_output_stream(&writer);
        let mut claims = FileClaims::default();
        claims.claim_streams([("in", None), ("standard output", stdout), ("err", None)]);
        let said = claims.writes("--json", &one).unwrap_err().to_string();
        assert!(
            said.contains("--json and standard output want the same file"),
            "{said}"
        );
        assert_eq!(FileIdentity::of_stream(&writer), None);
        let (_other, writer) = std::io::pipe().unwrap();
        claims.writes("--json", &named(writer.as_raw_fd())).unwrap();
    }

    #[test]
    fn of1_what_is_in_a_folder_that_is_read_is_an_input() {
        let dir = tempfile::tempdir().unwrap();
        fs::write(dir.path().join("a.c"), b"").unwrap();
        let mut claims = FileClaims::default();
        claims.reads_folder(dir.path());
        assert!(claims.writes("--json", &dir.path().join("a.c")).is_err());
        claims.writes("--json", &dir.path().join("new")).unwrap();
    }
}
