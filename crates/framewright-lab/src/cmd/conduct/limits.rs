//! What commands that replay may take of this machine, and lists of values as their options give them.

use crate::size::read_mib;
use crate::trace::MemoryLimit;

/// How much of this machine replays may take.
#[derive(Debug, Clone, Copy, Default, clap::Args)]
pub struct ReplayLimits {
    /// How much of this machine's memory a trace may take: while it is read, and for each replay of it
    /// as 8GiB, or a number of MiB [default: 4GiB (1GiB where addresses have 32 bits), and for a replay no more than 512MiB and 1KiB for each operation]
    #[arg(long, value_name = "SIZE", value_parser = read_mib)]
    pub memory_limit: Option<u64>,

    /// Replays that run at once [default: the number of CPUs]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..))]
    pub jobs: Option<u16>,
}

impl ReplayLimits {
    pub(in crate::cmd) fn memory(&self) -> MemoryLimit {
        self.memory_limit
            .map_or(MemoryLimit::default(), |mib| MemoryLimit::bytes(mib << 20))
    }

    pub(in crate::cmd) fn threads(&self) -> usize {
        let all = || std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
        self.jobs.map_or_else(all, usize::from)
    }
}

/// The values without those that were there before.
pub(in crate::cmd) fn distinct<T: PartialEq + Copy>(values: &[T]) -> Vec<T> {
    let mut distinct = Vec::new();
    for &value in values {
        if !distinct.contains(&value) {
            distinct.push(value);
        }
    }
    distinct
}
