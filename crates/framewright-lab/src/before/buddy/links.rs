//! Lists over frame numbers, without a rule: which frame belongs to which list is decided in `frames`. The kernel
//! of 2014 in `before::kernel310` uses them too.

/// Links are 32 bits wide, and lists need numbers too: 2^16 CPUs with 14 lists each, and the free
/// lists, stay below 2^20.
pub(in crate::before) const MAX_FRAMES: u64 = (1 << 32) - (1 << 20);

#[derive(Debug, Clone, Copy)]
struct BuddyLink {
    next: u32,
    prev: u32,
}

/// Which end of a list.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::before) enum ListEnd {
    Head,
    Tail,
}

/// Doubly linked lists over the frames' numbers; a frame is on at most one.
///
/// One link a frame, then one sentinel a list: the lists are circular, so that taking a frame out
/// needs no list. A list's name is its sentinel's number.
#[derive(Debug)]
pub(in crate::before) struct Links(Vec<BuddyLink>);

impl Links {
    pub(in crate::before) fn new(frames: usize, lists: usize) -> Self {
        let mut links = vec![BuddyLink { next: 0, prev: 0 }; frames];
        for list in frames..frames + lists {
            let own = list as u32;
            links.push(BuddyLink {
                next: own,
                prev: own,
            });
        }
        Self(links)
    }

    #[inline]
    pub(in crate::before) fn push(&mut self, list: u32, frame: u32, end: ListEnd) {
        let sentinel = self.0[list as usize];
        let (prev, next) = match end {
            ListEnd::Head => (list, sentinel.next),
            ListEnd::Tail => (sentinel.prev, list),
        };
        self.0[frame as usize] = BuddyLink { next, prev };
        self.0[prev as usize].next = frame;
        self.0[next as usize].prev = frame;
    }

    #[inline]
    pub(in crate::before) fn unlink(&mut self, frame: u32) {
        let BuddyLink { next, prev } = self.0[frame as usize];
        self.0[prev as usize].next = next;
        self.0[next as usize].prev = prev;
    }

    /// The frame at one end of a list, or `None` if the list is empty: a sentinel alone.
    #[inline]
    pub(in crate::before) fn end_of(&self, list: u32, end: ListEnd) -> Option<u32> {
        let link = self.0[list as usize];
        let frame = match end {
            ListEnd::Head => link.next,
            ListEnd::Tail => link.prev,
        };
        (frame != list).then_some(frame)
    }

    /// Walks a list from its head.
    pub(in crate::before) fn walk(&self, list: u32) -> impl Iterator<Item = u32> {
        let mut at = list;
        core::iter::from_fn(move || {
            at = self.0[at as usize].next;
            (at != list).then_some(at)
        })
    }
}
