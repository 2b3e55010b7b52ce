//! Which task is inside a compaction or a migration. It is kept by task, because a free means something else there
//! and events of all tasks are mixed.

use framewright::Order;
use std::collections::{HashMap, HashSet};

/// Which tasks are inside a compaction or inside `migrate_pages()`.
///
/// A task that migrates frees the frames that it has emptied. Where it allocated the new frame
/// itself (memory policies, contiguous ranges), that allocation is in the trace, and the free is
/// an ordinary one; where compaction gave it a frame that it had isolated, there is none, and the
/// free is a move.
#[derive(Debug, Default)]
pub(super) struct Tasks {
    open: HashMap<u32, Task>,
}

#[derive(Debug, Default)]
struct Task {
    compacting: bool,
    passage: Option<Passage>,
}

/// One run through `migrate_pages()`.
#[derive(Debug, Default)]
struct Passage {
    /// Objects that the task allocated since it began.
    allocs: HashSet<u32>,
    /// How many of them, per order, no emptied block was freed for yet.
    waiting: [u32; super::ORDERS],
}

impl Tasks {
    pub(super) fn migrate_start(&mut self, pid: u32) {
        self.open.entry(pid).or_default().passage = Some(Passage::default());
    }

    /// False if the task was not migrating.
    pub(super) fn migrate_end(&mut self, pid: u32) -> bool {
        self.close(pid, |task| task.passage.take().is_some())
    }

    pub(super) fn compaction_begin(&mut self, pid: u32) {
        self.open.entry(pid).or_default().compacting = true;
    }

    /// False if the task was not compacting.
    pub(super) fn compaction_end(&mut self, pid: u32) -> bool {
        self.close(pid, |task| std::mem::take(&mut task.compacting))
    }

    fn close(&mut self, pid: u32, end: impl FnOnce(&mut Task) -> bool) -> bool {
        let Some(task) = self.open.get_mut(&pid) else {
            return false;
        };
        let was_open = end(task);
        if !task.compacting && task.passage.is_none() {
            self.open.remove(&pid);
        }
        was_open
    }

    /// Events were lost. The end of a migration or compaction may be among them, so what was known of
    /// every task is void.
    pub(super) fn forget(&mut self) {
        self.open.clear();
    }

    /// The task got `object` from the allocator.
    pub(super) fn allocated(&mut self, pid: u32, object: u32, order: Order) {
        if self.open.is_empty() {
            return;
        }
        if let Some(passage) = self.passage(pid) {
            passage.allocs.insert(object);
            passage.waiting[order.index()] += 1;
        }
    }

    /// Whether the task is inside a compaction, but not inside `migrate_pages()`: there it gives
    /// back the frames it isolated and did not use.
    pub(super) fn gives_back_isolated(&self, pid: u32) -> bool {
        !self.open.is_empty()
            && self
                .open
                .get(&pid)
                .is_some_and(|task| task.compacting && task.passage.is_none())
    }

    /// Whether the task is inside `migrate_pages()`.
    pub(super) fn is_migrating(&self, pid: u32) -> bool {
        !self.open.is_empty()
            && self
                .open
                .get(&pid)
                .is_some_and(|task| task.passage.is_some())
    }

    /// Whether a free of `object`'s frames by the migrating task empties a frame in favour of
    /// one that compaction isolated; uses up the allocation it would otherwise belong to.
    pub(super) fn is_move(&mut self, pid: u32, object: u32, order: Order) -> bool {
        let Some(passage) = self.passage(pid) else {
            return false;
        };
        let waiting = &mut passage.waiting[order.index()];
        let own = passage.allocs.contains(&object);
        if own || *waiting > 0 {
            *waiting = waiting.saturating_sub(1);
            return false;
        }
        true
    }

    fn passage(&mut self, pid: u32) -> Option<&mut Passage> {
        self.open.get_mut(&pid)?.passage.as_mut()
    }
}
