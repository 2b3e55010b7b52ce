//! Discardable memory: trees of entries by key, and a list of frames by last use.

use framewright::reserve::Key;
use std::borrow::Borrow;
use std::collections::BTreeSet;
use std::sync::atomic::{AtomicU64, Ordering::SeqCst};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

pub(super) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Trees of a pool.
pub(super) const BUCKETS: usize = 256;

/// The two clients.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum DmemClient {
    Clean = 0,
    Swap = 1,
}

/// The longest key, in words: a page's offset and a file's handle.
const KEY_WORDS: usize = 4;

/// A key's words: of a swapped-out page its offset; of a file's page the offset and the file.
fn words(client: DmemClient, key: &Key) -> ([u64; KEY_WORDS], usize) {
    let words = [key.index, key.object, 0, 0];
    (
        words,
        if client == DmemClient::Swap {
            1
        } else {
            KEY_WORDS
        },
    )
}

/// The golden ratio's bits, by which the kernel's `hash_long` multiplies.
const GOLDEN: u64 = 0x61c8_8646_80b5_83eb;

/// The bucket of a key: for swap its offset's remainder, so that neighbours are in neighbouring trees.
pub(super) fn bucket_of(client: DmemClient, key: &Key) -> usize {
    let hash = match client {
        DmemClient::Swap => key.index,
        DmemClient::Clean => (key.object ^ key.index).wrapping_mul(GOLDEN) >> 56,
    };
    hash as usize % BUCKETS
}

/// A page that is there: its key, on the heap, and its frame. Counted by its `Arc`: the tree has one reference.
#[derive(Debug)]
pub(super) struct DmemEntry {
    key: Box<[u64]>,
    frame: u32,
}

impl DmemEntry {
    pub(super) fn new(client: DmemClient, key: &Key, frame: usize) -> Self {
        let (words, len) = words(client, key);
        Self {
            key: words[..len].into(),
            frame: frame as u32,
        }
    }

    pub(super) const fn frame(&self) -> usize {
        self.frame as usize
    }

    /// The file; 0 of a swapped-out page.
    pub(super) fn object(&self) -> u64 {
        self.key.get(1).copied().unwrap_or(0)
    }
}

/// An entry in a tree, by its key.
#[derive(Debug)]
struct DmemNode(Arc<DmemEntry>);

impl PartialEq for DmemNode {
    fn eq(&self, other: &Self) -> bool {
        self.0.key == other.0.key
    }
}

impl Eq for DmemNode {}

impl PartialOrd for DmemNode {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for DmemNode {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        self.0.key.cmp(&other.0.key)
    }
}

impl Borrow<[u64]> for DmemNode {
    fn borrow(&self) -> &[u64] {
        &self.0.key
    }
}

/// The entries of one bucket.
#[derive(Debug, Default)]
pub(super) struct BucketTree(BTreeSet<DmemNode>);

impl BucketTree {
    /// The entry of `key`, with a reference for the caller.
    pub(super) fn find(&self, client: DmemClient, key: &Key) -> Option<Arc<DmemEntry>> {
        let (words, len) = words(client, key);
        self.0.get(&words[..len]).map(|node| Arc::clone(&node.0))
    }

    /// The entry with the key of that one.
    pub(super) fn find_like(&self, entry: &DmemEntry) -> Option<Arc<DmemEntry>> {
        self.0.get(&entry.key[..]).map(|node| Arc::clone(&node.0))
    }

    /// Puts a reference in.
    ///
    /// # Errors
    /// The entry that has the key.
    pub(super) fn insert(&mut self, entry: &Arc<DmemEntry>) -> Result<(), Arc<DmemEntry>> {
        if let Some(old) = self.find_like(entry) {
            return Err(old);
        }
        self.0.insert(DmemNode(Arc::clone(entry)));
        Ok(())
    }

    /// Takes the entry with that one's key out. The caller has a reference of its own, so that this one is
    /// not the last.
    pub(super) fn remove(&mut self, entry: &DmemEntry) {
        self.0.remove(&entry.key[..]);
    }

    pub(super) fn remove_where(
        &mut self,
        is_meant: impl Fn(&DmemEntry) -> bool,
    ) -> Vec<Arc<DmemEntry>> {
        let mut meant = Vec::new();
        self.0.retain(|node| {
            let goes = is_meant(&node.0);
            if goes {
                meant.push(Arc::clone(&node.0));
            }
            !goes
        });
        meant
    }
}

/// A pool: its trees.
#[derive(Debug)]
pub(super) struct DmemPool {
    client: DmemClient,
    /// Goes up by one when it is opened, when it is closed, and when it has no page left, which come in this order.
    turns: AtomicU64,
    buckets: Vec<Mutex<BucketTree>>,
}

impl DmemPool {
    pub(super) fn new(client: DmemClient) -> Self {
        Self {
            client,
            turns: AtomicU64::new(0),
            buckets: (0..BUCKETS).map(|_| Mutex::default()).collect(),
        }
    }

    pub(super) const fn client(&self) -> DmemClient {
        self.client
    }

    pub(super) fn is_open(&self) -> bool {
        self.open_turn().is_some()
    }

    /// A number of this opening, which no later one has; none while it is not open.
    pub(super) fn open_turn(&self) -> Option<u64> {
        let turn = self.turns.load(SeqCst);
        (turn % 3 == 1).then_some(turn)
    }

    /// Whether it was neither open nor being emptied.
    pub(super) fn open(&self) -> bool {
        self.turns_from(0)
    }

    /// Whether it was open. It is being emptied from then on.
    pub(super) fn close(&self) -> bool {
        self.turns_from(1)
    }

    /// It is empty, and can be opened again.
    pub(super) fn emptied(&self) {
        self.turns_from(2);
    }

    /// Makes the next turn if the present one is of that kind; whether it was.
    fn turns_from(&self, kind: u64) -> bool {
        let next = |turn| (turn % 3 == kind).then_some(turn + 1);
        self.turns.fetch_update(SeqCst, SeqCst, next).is_ok()
    }

    pub(super) fn bucket(&self, nth: usize) -> &Mutex<BucketTree> {
        &self.buckets[nth]
    }

    pub(super) fn buckets(&self) -> &[Mutex<BucketTree>] {
        &self.buckets
    }

    /// Pages in it.
    #[cfg(test)]
    pub(super) fn len(&self) -> usize {
        self.buckets.iter().map(|tree| lock(tree).0.len()).sum()
    }
}

/// No frame.
const NONE: u32 = u32::MAX;

#[derive(Debug, Clone)]
struct LruLink {
    prev: u32,
    next: u32,
    entry: Weak<DmemEntry>,
}

/// A client's pages by last use, the latest first. The links have a place for every frame.
#[derive(Debug)]
pub(super) struct DmemLru {
    links: Vec<LruLink>,
    first: u32,
    last: u32,
}

impl DmemLru {
    pub(super) fn new(frames: usize) -> Self {
        let none = LruLink {
            prev: NONE,
            next: NONE,
            entry: Weak::new(),
        };
        Self {
            links: vec![none; frames],
            first: NONE,
            last: NONE,
        }
    }

    pub(super) fn push_front(&mut self, frame: usize, entry: &Arc<DmemEntry>) {
        self.links[frame].entry = Arc::downgrade(entry);
        self.link_first(frame);
    }

    fn link_first(&mut self, frame: usize) {
        let link = &mut self.links[frame];
        link.prev = NONE;
        link.next = self.first;
        match self.links.get_mut(self.first as usize) {
            Some(next) => next.prev = frame as u32,
            None => self.last = frame as u32,
        }
        self.first = frame as u32;
    }

    /// Takes a frame that is on the list off it.
    pub(super) fn unlink(&mut self, frame: usize) {
        self.unlink_only(frame);
        self.links[frame].entry = Weak::new();
    }

    fn unlink_only(&mut self, frame: usize) {
        let LruLink { prev, next, .. } = self.links[frame];
        match self.links.get_mut(prev as usize) {
            Some(prev) => prev.next = next,
            None => self.first = next,
        }
        match self.links.get_mut(next as usize) {
            Some(next) => next.prev = prev,
            None => self.last = prev,
        }
    }

    pub(super) fn move_to_front(&mut self, frame: usize) {
        if self.first != frame as u32 {
            self.unlink_only(frame);
            self.link_first(frame);
        }
    }

    pub(super) fn last(&self) -> Option<usize> {
        (self.last != NONE).then_some(self.last as usize)
    }

    /// A reference to the entry of a frame that is on the list, unless its last one was just dropped.
    pub(super) fn entry(&self, frame: usize) -> Option<Arc<DmemEntry>> {
        self.links[frame].entry.upgrade()
    }
}
