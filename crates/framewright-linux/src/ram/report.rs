//! What the host gave of what was asked for. Huge pages are a wish, so a refusal is reported and is no error.

use super::RamError;
use rustix::io::Errno;
use std::fmt;

/// The outcome of an attempt to get huge pages.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum HugeAttempt {
    /// It was not made: not asked for, or not needed.
    #[default]
    NotMade,
    /// The host did it.
    Done,
    /// The host refused, wholly or in part; an errno.
    Refused(i32),
}

impl From<Result<(), Errno>> for HugeAttempt {
    fn from(result: Result<(), Errno>) -> Self {
        match result {
            Ok(()) => Self::Done,
            Err(errno) => Self::Refused(errno.raw_os_error()),
        }
    }
}

impl From<RamError> for HugeAttempt {
    fn from(error: RamError) -> Self {
        match error {
            RamError::File(errno) | RamError::Map(errno) => Self::Refused(errno),
            RamError::Empty | RamError::TooLong(_) => Self::NotMade,
        }
    }
}

impl fmt::Display for HugeAttempt {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NotMade => f.write_str("not tried"),
            Self::Done => f.write_str("done"),
            Self::Refused(errno) => {
                write!(f, "refused: {}", std::io::Error::from_raw_os_error(*errno))
            }
        }
    }
}

/// The kind of pages behind the memory file.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Backing {
    /// Ordinary shared memory; some of it may lie in huge pages.
    #[default]
    Memfd,
    /// The host's pool of reserved huge pages.
    Pool,
}

/// The memory that the host gave.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct RamReport {
    /// The kind of pages behind the file.
    pub backing: Backing,
    /// The length that was asked for.
    pub len_bytes: u64,
    /// How much of it is mapped by huge pages, as /proc/self/smaps said when the RAM was made;
    /// 0 where that could not be read.
    pub huge_bytes: u64,
    /// The attempt to use the host's pool of huge pages.
    pub pool: HugeAttempt,
    /// The attempt to collapse base pages into huge ones.
    pub collapse: HugeAttempt,
}

impl RamReport {
    pub(super) fn new(len_bytes: u64) -> Self {
        Self {
            backing: Backing::Memfd,
            len_bytes,
            huge_bytes: 0,
            pool: HugeAttempt::NotMade,
            collapse: HugeAttempt::NotMade,
        }
    }

    pub(super) fn pool_gave_all(&mut self) {
        self.backing = Backing::Pool;
        self.pool = HugeAttempt::Done;
        self.huge_bytes = self.len_bytes;
    }

    /// Sets the huge bytes to what the host reports of the mapping at `start`.
    pub(super) fn look_at(&mut self, start: usize, len_bytes: u64) {
        let smaps = std::fs::read_to_string("/proc/self/smaps").unwrap_or_default();
        self.huge_bytes = huge_bytes(&smaps, start).min(len_bytes);
    }
}

impl fmt::Display for RamReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let backing = match self.backing {
            Backing::Memfd => "a memfd",
            Backing::Pool => "a memfd from the pool of huge pages",
        };
        write!(
            f,
            "{} MiB in {backing}, {} MiB of it in huge pages (pool: {}; collapse: {})",
            self.len_bytes >> 20,
            self.huge_bytes >> 20,
            self.pool,
            self.collapse
        )
    }
}

/// The bytes mapped by huge pages in the mapping that starts at `start`, by the text of smaps.
fn huge_bytes(smaps: &str, start: usize) -> u64 {
    let head = format!("{start:x}-");
    let is_head = |line: &str| {
        let first = line.split(' ').next().unwrap_or("");
        first.contains('-') && !first.ends_with(':')
    };
    let of_mapping = smaps
        .lines()
        .skip_while(|line| !line.starts_with(&head))
        .skip(1)
        .take_while(|line| !is_head(line));
    let mut kib = 0;
    for line in of_mapping {
        let Some((name, value)) = line.split_once(':') else {
            continue;
        };
        // Those of shared memory, and those of files where the kernel counts memory files with
        // files.
        if matches!(name, "ShmemPmdMapped" | "FilePmdMapped") {
            let number = value.trim().trim_end_matches(" kB");
            kib += number.parse::<u64>().unwrap_or(0);
        }
    }
    kib << 10
}

#[cfg(test)]
mod tests {
    use super::*;

    const SMAPS: &str = "\
7f0000000000-7f0000400000 rw-s 00000000 00:01 7 /memfd:framewright (deleted)
Size:               4096 kB
ShmemPmdMapped:     2048 kB
FilePmdMapped:         0 kB
VmFlags: rd wr
7f0000400000-7f0000800000 rw-s 00000000 00:01 8 /memfd:a-b:c (deleted)
ShmemPmdMapped:     4096 kB
";

    #[test]
    fn huge_bytes_are_those_of_the_mapping_alone() {
        assert_eq!(huge_bytes(SMAPS, 0x7f00_0000_0000), 2 << 20);
        assert_eq!(huge_bytes(SMAPS, 0x7f00_0040_0000), 4 << 20);
        assert_eq!(huge_bytes(SMAPS, 0x7f00_0020_0000), 0);
        assert_eq!(huge_bytes("", 0), 0);
    }

    #[test]
    fn a_report_says_what_was_tried_and_what_came_of_it() {
        let mut report = RamReport::new(64 << 20);
        report.pool = Err(Errno::NOMEM).into();
        report.collapse = Ok(()).into();
        report.huge_bytes = 62 << 20;
        let text = report.to_string();
        assert!(text.starts_with("64 MiB in a memfd, 62 MiB of it in huge pages (pool: refused: "));
        assert!(text.ends_with("; collapse: done)"), "{text}");
        report.pool_gave_all();
        assert_eq!(report.huge_bytes, 64 << 20);
        assert!(report.to_string().contains("from the pool"));
    }
}
