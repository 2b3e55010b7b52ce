//! What the machine says of itself.

use super::AbError;
use crate::measure::BLOCK_FRAMES;
use crate::trace::state::read_vmstat;
use crate::trace::{ReadFrameState, Snapshot};
use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

fn text(path: &str) -> Result<String, AbError> {
    fs::read_to_string(path).map_err(|e| AbError::file(Path::new(path), e))
}

/// A line of `/proc/meminfo`, in KiB.
fn meminfo_kib(name: &str) -> Result<u64, AbError> {
    let all = text("/proc/meminfo")?;
    let line = all.lines().find_map(|line| line.strip_prefix(name));
    let number = line.and_then(|line| line.strip_prefix(':'));
    let number = number.and_then(|rest| rest.trim().trim_end_matches(" kB").parse().ok());
    number.ok_or_else(|| AbError::new(format!("/proc/meminfo: no {name}")))
}

/// What can be had without swapping.
pub(super) fn available_mib() -> Result<u64, AbError> {
    Ok(meminfo_kib("MemAvailable")? >> 10)
}

/// All of it.
pub(super) fn machine_kib() -> Result<u64, AbError> {
    meminfo_kib("MemTotal")
}

/// The load average of the last minute.
pub(super) fn load_average() -> f64 {
    let all = text("/proc/loadavg").unwrap_or_default();
    let first = all.split_whitespace().next();
    first.and_then(|word| word.parse().ok()).unwrap_or(f64::NAN)
}

/// The kernel's release.
pub(super) fn kernel() -> String {
    let all = text("/proc/sys/kernel/osrelease").unwrap_or_default();
    all.trim().to_owned()
}

/// The kernel's counters.
pub(super) fn counters() -> Result<BTreeMap<String, u64>, AbError> {
    read_vmstat("/proc/vmstat", &text("/proc/vmstat")?).map_err(AbError::new)
}

/// Pageblocks with a frame that cannot move, and those of them that hold a movable one, too.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct MachineBlocks {
    pub(super) contaminated: u64,
    pub(super) mixed: u64,
}

impl MachineBlocks {
    pub(super) fn now() -> Result<Self, AbError> {
        let path = Path::new("/proc/kpageflags");
        let file = fs::File::open(path).map_err(|e| {
            AbError::file(
                path,
                format!("{e}; needs root and CONFIG_PROC_PAGE_MONITOR"),
            )
        })?;
        let snapshot = Snapshot::read(file).map_err(|e| AbError::file(path, e))?;
        Ok(Self::of(&snapshot))
    }

    fn of(snapshot: &Snapshot) -> Self {
        let mut counts = Self::default();
        for block in snapshot.frames().chunks(BLOCK_FRAMES as usize) {
            let fixed = |state: &&ReadFrameState| {
                matches!(state, ReadFrameState::Unmovable | ReadFrameState::Slab)
            };
            if block.iter().any(|state| fixed(&state)) {
                counts.contaminated += 1;
                counts.mixed += u64::from(block.contains(&ReadFrameState::Movable));
            }
        }
        counts
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blocks_are_mixed_where_both_kinds_lie_in_them() {
        use ReadFrameState::{Absent, Free, Movable, Slab, Unmovable};
        let block = |states: &[ReadFrameState]| {
            let mut block = vec![Free; BLOCK_FRAMES as usize];
            block[..states.len()].copy_from_slice(states);
            block
        };
        let blocks = [
            block(&[Movable, Unmovable]),
            block(&[Slab]),
            block(&[Movable, Absent]),
            block(&[Slab, Free, Movable]),
        ];
        let counts = MachineBlocks::of(&Snapshot::new(blocks.concat()));
        assert_eq!(
            counts,
            MachineBlocks {
                contaminated: 3,
                mixed: 2
            }
        );
    }
}
