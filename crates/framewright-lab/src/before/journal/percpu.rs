//! The free blocks that one CPU keeps. A seat alone moves blocks in and out; the allocator counts them.

use super::COSTLY_ORDER;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// One CPU's free blocks, by mobility and of orders 0 to 3.
pub(super) type CpuLists = [[Vec<u32>; COSTLY_ORDER + 1]; 2];

/// One CPU's free blocks of orders 0 to 3. The lock stands for interrupts being off, so it is not
/// counted. Only this CPU takes it, except when a request drains all CPUs.
#[derive(Debug, Default)]
pub(super) struct JournalPerCpu {
    pub(super) lists: Mutex<CpuLists>,
}

impl JournalPerCpu {
    pub(super) fn lock(&self) -> MutexGuard<'_, CpuLists> {
        self.lists.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn frames(&self) -> u64 {
        let lists = self.lock();
        let each = lists.iter().flat_map(|kind| kind.iter().enumerate());
        each.map(|(order, list)| (list.len() as u64) << order).sum()
    }
}
