//! The kernel's work in pairs of begin and end, and which request waited for it. It shares nothing with the frames:
//! a lost end costs a wait, and no object.

use crate::trace::{KernelWork, TracedWork, WorkEvent, WorkKind};
use framewright::Order;
use std::collections::HashMap;

/// Follows what the kernel does about memory: pairs beginnings with ends, and tells which request waited.
///
/// A request is a task's from its first wait to the event of its allocation. In between the task may allocate for what
/// it reclaims: that event comes while a wait is open, or has another order.
#[derive(Debug, Default)]
pub(super) struct WorkFollower {
    pub(super) work: KernelWork,
    waiting: HashMap<u32, WaitingTask>,
    /// Whether what is traced was said, and is not to be learned from the events.
    is_told: bool,
}

/// A request that has waited, or waits.
#[derive(Debug, Default)]
struct WaitingTask {
    order: Option<Order>,
    /// When it began to reclaim.
    reclaims_since: Option<u64>,
    /// When the compaction of a zone began.
    compacts_since: Option<u64>,
    /// Whether that compaction is for a request.
    is_direct: bool,
    has_reclaimed: bool,
    has_compacted: bool,
}

/// A task and its request, in a map that has as much room again.
const TASK_BYTES: u64 = 2 * (size_of::<WaitingTask>() as u64 + 16);

impl WorkFollower {
    pub(super) fn held_bytes(&self) -> u64 {
        let events = 2 * size_of::<WorkEvent>() as u64;
        self.work.events.len() as u64 * events + self.waiting.len() as u64 * TASK_BYTES
    }

    pub(super) fn trace_only(&mut self, traced: TracedWork) {
        self.work.traced = traced;
        self.is_told = true;
    }

    /// What happened before the operation `at`.
    fn note(&mut self, at: u32, kind: WorkKind) {
        if !self.is_told {
            self.work.traced.add(kind);
        } else if !self.work.traced.has(kind) {
            // Beginnings without ends, or the other way round.
            return;
        }
        self.work.events.push(WorkEvent { at, kind });
    }

    pub(super) fn woke(&mut self, at: u32, node: u16, order: Order) {
        self.note(at, WorkKind::Woke { node, order });
    }

    pub(super) fn slept(&mut self, at: u32, node: u16) {
        self.note(at, WorkKind::Slept { node });
    }

    pub(super) fn reclaim_begins(&mut self, pid: u32, order: Order, now_ns: u64) {
        let task = self.request(pid, order);
        task.reclaims_since = Some(now_ns);
    }

    /// False if the task was not reclaiming.
    pub(super) fn reclaim_ends(&mut self, at: u32, pid: u32, frames: u64, now_ns: u64) -> bool {
        let Some(task) = self.waiting.get_mut(&pid) else {
            return false;
        };
        let (Some(since), Some(order)) = (task.reclaims_since.take(), task.order) else {
            return false;
        };
        let kind = WorkKind::Reclaimed {
            order,
            ns: now_ns.saturating_sub(since),
            frames,
            is_again: std::mem::replace(&mut task.has_reclaimed, true),
        };
        self.note(at, kind);
        true
    }

    /// The request compacts next: each zone in turn.
    pub(super) fn compacts(&mut self, pid: u32, order: Order) {
        self.request(pid, order).is_direct = true;
    }

    pub(super) fn compaction_begins(&mut self, pid: u32, now_ns: u64) {
        self.waiting.entry(pid).or_default().compacts_since = Some(now_ns);
    }

    pub(super) fn compaction_ends(&mut self, at: u32, pid: u32, now_ns: u64) {
        let Some(task) = self.waiting.get_mut(&pid) else {
            return;
        };
        let Some(since) = task.compacts_since.take() else {
            return;
        };
        let ns = now_ns.saturating_sub(since);
        let kind = match (task.is_direct, task.order) {
            (true, Some(order)) => WorkKind::Compacted {
                order,
                ns,
                is_again: std::mem::replace(&mut task.has_compacted, true),
            },
            _ => {
                self.waiting.remove(&pid);
                WorkKind::BackgroundCompacted { ns }
            }
        };
        self.note(at, kind);
    }

    /// A request of the task itself was served, or failed.
    pub(super) fn requested(&mut self, pid: u32, order: Order) {
        let is_its_own = |task: &WaitingTask| {
            task.reclaims_since.is_none()
                && task.compacts_since.is_none()
                && task.order == Some(order)
        };
        if self.waiting.get(&pid).is_some_and(is_its_own) {
            self.waiting.remove(&pid);
        }
    }

    /// Events were lost: what was known of every task is void.
    pub(super) fn forget(&mut self) {
        self.waiting.clear();
    }

    /// The task's request; another one than before if it has another order.
    fn request(&mut self, pid: u32, order: Order) -> &mut WaitingTask {
        let task = self.waiting.entry(pid).or_default();
        if task.order != Some(order) {
            *task = WaitingTask {
                order: Some(order),
                ..WaitingTask::default()
            };
        }
        task
    }
}
