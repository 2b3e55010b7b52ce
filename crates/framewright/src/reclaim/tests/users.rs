//! A zone that is nearly full of users' movable frames, with clients that know what lies in each.

use super::*;

/// Users of single movable frames, each with something of its own in it.
#[derive(Default)]
pub(super) struct Users {
    held: RefCell<BTreeMap<u64, u64>>,
    next: Cell<u64>,
    /// How many frames the users have, whatever has become of their contents.
    count: Cell<u64>,
    pub(super) pinned: Cell<bool>,
    pub(super) moved: Cell<u64>,
}

impl Users {
    pub(super) fn add(&self, frame: Frame) {
        self.next.set(self.next.get() + 1);
        self.count.set(self.count.get() + 1);
        let before = self.held.borrow_mut().insert(frame.0, self.next.get());
        assert_eq!(before, None, "handed out twice");
    }

    pub(super) fn remove(&self, frame: Frame) {
        self.count.set(self.count.get() - 1);
        self.held.borrow_mut().remove(&frame.0).unwrap();
    }

    /// Everything that was put somewhere is somewhere, once (R2), and besides this many frames are live.
    pub(super) fn are_complete(&self, zone: &Zone<'_, SingleThread>, others: u64) {
        let held = self.held.borrow();
        let contents: std::collections::BTreeSet<_> = held.values().collect();
        let count = self.count.get();
        assert_eq!((held.len() as u64, contents.len() as u64), (count, count));
        assert_all_is_there(zone, count + others);
    }
}

impl Migrate for Users {
    fn migrate(&self, moves: &mut [Move]) {
        for a_move in moves {
            let mut held = self.held.borrow_mut();
            let Some(content) = held.remove(&a_move.from.0) else {
                continue;
            };
            let (at, state) = if self.pinned.get() {
                (a_move.from, MoveState::Pinned)
            } else {
                self.moved.set(self.moved.get() + 1);
                (a_move.to, MoveState::Moved)
            };
            held.insert(at.0, content);
            a_move.state = state;
        }
    }
}

/// 16 pageblocks of 512 frames: min 180, low 225, high 270. No caches of CPUs.
pub(super) fn layout() -> ZoneLayout {
    ZoneLayout::new(Frame(0), 8192)
}

/// Gives the users all frames but those that stay free: of the `id`th pageblock `free(id)`, one in each
/// this many.
pub(super) fn fill(zone: &Zone<'_, SingleThread>, users: &Users, free: impl Fn(u64) -> u64) {
    for frame in 0..8192 {
        let (id, slot) = (frame / 512, frame % 512);
        let free = free(id);
        let is_free = (slot + 1) * free / 512 > slot * free / 512;
        if !is_free {
            zone.alloc_at(Frame(frame), Order::ZERO, Movable).unwrap();
            users.add(Frame(frame));
        }
    }
}

/// Makes a zone with users, which `$fill` fills, and the arguments of a request in it.
macro_rules! crowd {
    ($zone:ident, $users:ident, $reclaim:ident, $clients:ident, $fill:expr, $config:expr) => {
        crowd!($zone, $users, $reclaim, $clients, $fill, $config, &[]);
    };
    ($zone:ident, $users:ident, $reclaim:ident, $clients:ident, $fill:expr, $config:expr, $shrink:expr) => {
        let $users = Users::default();
        let fill = |zone: &Zone<'_, SingleThread>| $fill(zone, &$users);
        machine!($zone, $reclaim, &uncached(), users::layout(), $config, fill);
        let $clients = Clients {
            shrink: $shrink,
            migrate: &[&$users],
        };
    };
}
pub(super) use crowd;
