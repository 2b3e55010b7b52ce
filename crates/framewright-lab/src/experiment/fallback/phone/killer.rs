//! Android's lowmemorykiller: a shrinker that frees nothing itself, and chooses a rank that must die.

use super::super::params;
use super::store::{BlockKind, PhoneStore};
use framewright::reclaim::{Holding, Shrunk};
use std::cell::Cell;

/// What the killer knows of processes, and what it has asked for.
///
/// Its victim dies a moment later, when the request that reclaims is over: it has to run in order to
/// exit. Until then nobody else is chosen.
#[derive(Debug)]
pub(super) struct PhoneKiller {
    /// Rank and limit, the highest rank last.
    limits: Vec<(u16, u64)>,
    present: u64,
    /// The highest rank that somebody has: nobody can be killed who is not there.
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

    /// Who could be killed has changed.
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

    /// Somebody to kill now, and how much he may have.
    pub(super) fn holding(&self, store: &PhoneStore) -> Holding {
        match self.victim(store) {
            Some(_) => Holding {
                frames: store.frames_of(BlockKind::Anon),
                heat: HEAT,
            },
            None => Holding::default(),
        }
    }

    fn victim(&self, store: &PhoneStore) -> Option<u16> {
        let adj = self.rank(store)?;
        let is_there = self.highest.get().is_some_and(|highest| highest >= adj);
        (is_there && self.wanted.get().is_none()).then_some(adj)
    }

    /// Chooses.
    pub(super) fn shrink(&self, store: &PhoneStore) -> Shrunk {
        if let Some(adj) = self.victim(store) {
            self.wanted.set(Some(adj));
        }
        Shrunk::default()
    }
}

/// How hot processes are: somebody will start them again. Not hotter, so that the killer is asked in
/// every round, as a shrinker of Linux is.
const HEAT: u8 = 192;
