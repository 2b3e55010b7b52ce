//! The bound on what a trace may take of this machine. Readers ask before they take, because a length in a file is
//! not to be trusted.

use std::fmt;

/// How much memory a trace may take: to be read, to be reduced, to be replayed.
///
/// A limit is asked before memory is taken, with what would be held; it never changes what is read.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct MemoryLimit {
    asked: Option<u64>,
}

impl MemoryLimit {
    /// Unless asked for otherwise: a hundred million operations with their objects and frames. A quarter of that where
    /// addresses have 32 bits.
    pub const USUAL_BYTES: u64 = if usize::BITS < 64 { 1 << 30 } else { 4 << 30 };

    /// More can no program hold, whatever is asked for: with addresses of 32 bits 2 GiB. So no length within the limit is cut.
    const HELD_MAX: u64 = usize::MAX as u64 / 2;

    /// What any trace's machine may take, however short the trace is: 64 GiB of frames at the
    /// 16 bytes that a replay holds for each, twice over.
    pub const MACHINE_BYTES: u64 = 512 << 20;

    /// What a machine may take besides for each operation and each initial object. An event names
    /// at most one chunk of 1,024 frames that no other event has named.
    pub const MACHINE_BYTES_PER_RECORD: u64 = 1 << 10;

    /// A limit of this many bytes for everything, machines of any size included.
    #[must_use]
    pub const fn bytes(len_bytes: u64) -> Self {
        Self {
            asked: Some(len_bytes),
        }
    }

    /// The most that may be held at one time.
    #[must_use]
    pub fn len_bytes(self) -> u64 {
        self.asked.unwrap_or(Self::USUAL_BYTES).min(Self::HELD_MAX)
    }

    /// The most that one replay's machine may take, for a trace of this many operations and initial
    /// objects: in proportion to what is there, unless a limit was asked for.
    #[must_use]
    pub fn machine_bytes(self, records: u64) -> u64 {
        let more = records.saturating_mul(Self::MACHINE_BYTES_PER_RECORD);
        let usual = Self::MACHINE_BYTES.saturating_add(more);
        let bytes = self.asked.unwrap_or(usual.min(Self::USUAL_BYTES));
        bytes.min(Self::HELD_MAX)
    }

    /// Whether so much may be held.
    ///
    /// # Errors
    /// [`TooMuchMemory`], with both numbers.
    pub fn check(self, needed_bytes: u64) -> Result<(), TooMuchMemory> {
        TooMuchMemory::check(needed_bytes, self.len_bytes())
    }
}

/// What a trace would take is above the limit. Says how to allow it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TooMuchMemory {
    needed_bytes: u64,
    limit_bytes: u64,
}

impl TooMuchMemory {
    /// Refuses what is above the limit.
    ///
    /// # Errors
    /// Itself, with both numbers.
    pub fn check(needed_bytes: u64, limit_bytes: u64) -> Result<(), Self> {
        match needed_bytes > limit_bytes {
            true => Err(Self {
                needed_bytes,
                limit_bytes,
            }),
            false => Ok(()),
        }
    }
}

impl fmt::Display for TooMuchMemory {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let needed = self.needed_bytes.div_ceil(1 << 20);
        let limit = self.limit_bytes >> 20;
        write!(
            f,
            "takes {needed} MiB of memory, expected at most {limit} MiB; "
        )?;
        match self.needed_bytes > MemoryLimit::HELD_MAX {
            true => write!(
                f,
                "with addresses of {} bits no program holds more than {} MiB",
                usize::BITS,
                MemoryLimit::HELD_MAX >> 20
            ),
            false => write!(f, "`--memory-limit {needed}` allows it"),
        }
    }
}

impl std::error::Error for TooMuchMemory {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_machine_may_take_what_its_trace_is_long_enough_for() {
        let usual = MemoryLimit::default();
        assert_eq!(usual.machine_bytes(0), 512 << 20);
        assert_eq!(usual.machine_bytes(1 << 20), (512 << 20) + (1 << 30));
        assert_eq!(usual.machine_bytes(u64::MAX), 4 << 30);
        assert_eq!(MemoryLimit::bytes(7).machine_bytes(0), 7);
        assert_eq!(usual.check(4 << 30), Ok(()));
        assert_eq!(
            usual.check((4 << 30) + 1).unwrap_err().to_string(),
            "takes 4097 MiB of memory, expected at most 4096 MiB; `--memory-limit 4097` allows it"
        );
    }

    #[test]
    fn no_limit_allows_more_than_addresses_name() {
        let most = isize::MAX.unsigned_abs() as u64;
        let all = MemoryLimit::bytes(u64::MAX);
        assert_eq!((all.len_bytes(), all.machine_bytes(0)), (most, most));
        let refused = all.check(most + 1).unwrap_err().to_string();
        assert!(refused.contains("no program holds more"), "{refused}");
    }
}
