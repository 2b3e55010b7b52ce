//! Android's lowmemorykiller: a shrinker that frees nothing itself, and chooses a rank that must die.

use super::super::params;
use super::store::{BlockKind, PhoneStore};
use framewright::reclaim::Shrunk;
use std::cell::Cell;

/// What the killer knows of processes, and what it has asked for.
///
/// The killer only names a rank. The phone ends a process of that rank when the kernel has returned
/// from the request, because a process has to run in order to exit. Until then the killer names no other.
#[derive(Debug)]
pub(super) struct PhoneKiller {
    /// Rank and limit, the highest rank last.
    limits: Vec<(u16, u64)>,
    present: u64,
    /// The highest rank of the applications that are alive: the killer names no rank above it.
    highest: Cell<Option<u16>>,
    /// The least rank whose processes shall die.
    wanted: Cell<Option<u16>>,
}

impl PhoneKiller {
    pub(super) fn new(params: &params::KillerParams, present: u64) -> Self {
        let ranks = params.adj.iter().copied();
        Self {
            limits: ranks.zip(params.minfree_frames.iter().copied()).collect(),
            present,
            highest: Cell::new(None),
            wanted: Cell::new(None),
        }
    }

    /// The phone has ranked its applications anew; `adj` is the highest rank of those that are alive.
    pub(super) fn set_highest(&self, adj: Option<u16>) {
        self.highest.set(adj);
    }

    /// The least rank that shall die now, once.
    pub(super) fn take_wanted(&self) -> Option<u16> {
        self.wanted.take()
    }

    /// The least rank whose limit both free frames and frames of files are below.
    fn rank(&self, store: &PhoneStore) -> Option<u16> {
        let files = store.frames_of(BlockKind::File);
        let free = self.present - store.frames_held();
        let below = |&&(_, limit): &&(u16, u64)| free < limit && files < limit;
        let found = self.limits.iter().find(below);
        found.map(|&(adj, _)| adj)
    }

    /// The most frames that a kill could free now; nothing if the killer would name no rank.
    pub(super) fn holding(&self, store: &PhoneStore) -> u64 {
        self.victim(store)
            .map_or(0, |_| store.frames_of(BlockKind::Anon))
    }

    fn victim(&self, store: &PhoneStore) -> Option<u16> {
        let adj = self.rank(store)?;
        let is_there = self.highest.get().is_some_and(|highest| highest >= adj);
        (is_there && self.wanted.get().is_none()).then_some(adj)
    }

    /// Names a rank whose processes shall die, if it may. Frees nothing itself.
    pub(super) fn shrink(&self, store: &PhoneStore) -> Shrunk {
        if let Some(adj) = self.victim(store) {
            self.wanted.set(Some(adj));
        }
        Shrunk::default()
    }
}

/// How hot processes are: the user will start them again. Not hotter, so that reclaim asks the killer
/// in every round, as Linux asks each shrinker.
pub(super) const HEAT: u8 = 192;
