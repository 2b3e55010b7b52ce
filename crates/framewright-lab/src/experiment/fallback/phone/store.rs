//! The holder of each frame: a table by frame, with lists through it.

use super::super::params::PhoneMachine;

/// No frame, no list.
pub(super) const NONE: u32 = u32::MAX;

/// What a block holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[repr(u8)]
pub(super) enum BlockKind {
    /// Nothing of the phone's.
    #[default]
    Nothing,
    /// Memory of a process: movable, and there is no swap device to reclaim it to.
    Anon,
    /// A page of a file: movable, and reclaimed.
    File,
    /// A thread's stack in the kernel.
    Stack,
    /// Kernel objects that nothing can move or reclaim.
    Slab,
    /// Kernel objects that a shrinker can free.
    Cached,
    /// A piece of a graphics or ion buffer.
    Graphics,
}

/// The number of kinds.
pub(super) const KINDS: usize = 7;

impl BlockKind {
    /// Whether its contents can be moved.
    pub(super) const fn is_movable(self) -> bool {
        matches!(self, Self::Anon | Self::File)
    }
}

/// A block of the phone's, at its first frame.
#[derive(Debug, Clone, Copy)]
struct PhoneBlock {
    next: u32,
    prev: u32,
    list: u32,
    /// The page of a file; nothing of other kinds.
    owner: u32,
    kind: BlockKind,
    order: u8,
    pinned: bool,
    referenced: bool,
}

const NOTHING: PhoneBlock = PhoneBlock {
    next: NONE,
    prev: NONE,
    list: NONE,
    owner: NONE,
    kind: BlockKind::Nothing,
    order: 0,
    pinned: false,
    referenced: false,
};

/// What is new in the store.
#[derive(Debug, Clone, Copy)]
pub(super) struct StoreEntry {
    pub(super) kind: BlockKind,
    pub(super) order: u8,
    /// The list that it goes to the head of.
    pub(super) list: u32,
    /// The page of a file.
    pub(super) owner: u32,
    /// Whether it can be moved, if its kind can be.
    pub(super) pinned: bool,
}

/// A list of blocks, newest first.
#[derive(Debug, Clone, Copy)]
pub(super) struct BlockList {
    pub(super) head: u32,
    pub(super) tail: u32,
    pub(super) blocks: u32,
    pub(super) frames: u32,
}

const EMPTY: BlockList = BlockList {
    head: NONE,
    tail: NONE,
    blocks: 0,
    frames: 0,
};

/// Every block that the phone holds, on one list each.
///
/// 20 bytes a frame, no allocation a block; each step is a few array accesses.
#[derive(Debug)]
pub(super) struct PhoneStore {
    blocks: Vec<PhoneBlock>,
    lists: Vec<BlockList>,
    /// Lists that were dropped: the next new list is one of these.
    spare: Vec<u32>,
    pageblock_order: u8,
    /// Frames held by pageblock: movable, others.
    held: Vec<[u16; 2]>,
    frames: [u64; KINDS],
}

impl PhoneStore {
    pub(super) fn new(machine: &PhoneMachine) -> Self {
        let frames = machine.frames() as usize;
        Self {
            blocks: vec![NOTHING; frames],
            lists: Vec::new(),
            spare: Vec::new(),
            pageblock_order: machine.pageblock_order,
            held: vec![[0; 2]; frames.div_ceil(1 << machine.pageblock_order)],
            frames: [0; KINDS],
        }
    }

    /// Frames held of a kind.
    pub(super) fn frames_of(&self, kind: BlockKind) -> u64 {
        self.frames[kind as usize]
    }

    /// Frames held of all kinds.
    pub(super) fn frames_held(&self) -> u64 {
        self.frames.iter().sum()
    }

    /// Pageblocks in which movable and other frames are held, both.
    pub(super) fn mixed_pageblocks(&self) -> u64 {
        let mixed = |held: &&[u16; 2]| held[0] > 0 && held[1] > 0;
        self.held.iter().filter(mixed).count() as u64
    }

    /// Pageblocks in which frames are held that cannot be moved.
    pub(super) fn contaminated_pageblocks(&self) -> u64 {
        self.held.iter().filter(|held| held[1] > 0).count() as u64
    }

    /// An empty list.
    pub(super) fn new_list(&mut self) -> u32 {
        if let Some(list) = self.spare.pop() {
            return list;
        }
        self.lists.push(EMPTY);
        self.lists.len() as u32 - 1
    }

    /// Gives an empty list back.
    pub(super) fn drop_list(&mut self, list: u32) {
        debug_assert_eq!(self.lists[list as usize].blocks, 0);
        self.spare.push(list);
    }

    pub(super) fn list(&self, list: u32) -> BlockList {
        self.lists[list as usize]
    }

    /// The kind of block that begins there.
    pub(super) fn kind(&self, frame: u32) -> BlockKind {
        let block = self.blocks.get(frame as usize);
        block.map_or(BlockKind::Nothing, |block| block.kind)
    }

    pub(super) fn order(&self, frame: u32) -> u8 {
        self.blocks[frame as usize].order
    }

    pub(super) fn list_of(&self, frame: u32) -> u32 {
        self.blocks[frame as usize].list
    }

    pub(super) fn owner(&self, frame: u32) -> u32 {
        self.blocks[frame as usize].owner
    }

    pub(super) fn is_pinned(&self, frame: u32) -> bool {
        self.blocks[frame as usize].pinned
    }

    pub(super) fn is_referenced(&self, frame: u32) -> bool {
        self.blocks[frame as usize].referenced
    }

    pub(super) fn set_referenced(&mut self, frame: u32, referenced: bool) {
        self.blocks[frame as usize].referenced = referenced;
    }

    /// A block that was allocated.
    ///
    /// # Panics
    /// If one is held there: a kernel that hands out a block twice must not go on.
    pub(super) fn insert(&mut self, frame: u32, entry: StoreEntry) {
        let block = &mut self.blocks[frame as usize];
        assert!(
            block.kind == BlockKind::Nothing,
            "frame {frame} was handed out twice"
        );
        *block = PhoneBlock {
            owner: entry.owner,
            kind: entry.kind,
            order: entry.order,
            pinned: entry.pinned,
            ..NOTHING
        };
        self.link(frame, entry.list);
        self.count(frame, entry.kind, entry.order, true);
    }

    /// A block that is going to be freed; its order.
    pub(super) fn remove(&mut self, frame: u32) -> u8 {
        let PhoneBlock { kind, order, .. } = self.blocks[frame as usize];
        self.unlink(frame);
        self.count(frame, kind, order, false);
        self.blocks[frame as usize] = NOTHING;
        order
    }

    /// Moves a block to the head of a list.
    pub(super) fn move_to(&mut self, frame: u32, list: u32) {
        self.unlink(frame);
        self.link(frame, list);
    }

    /// The contents of a block are in another place now.
    pub(super) fn relocate(&mut self, from: u32, to: u32) {
        let block = self.blocks[from as usize];
        assert!(
            self.blocks[to as usize].kind == BlockKind::Nothing,
            "frame {to} is a target and held"
        );
        self.count(from, block.kind, block.order, false);
        self.count(to, block.kind, block.order, true);
        self.blocks[to as usize] = block;
        self.blocks[from as usize] = NOTHING;
        let list = &mut self.lists[block.list as usize];
        match block.prev {
            NONE => list.head = to,
            prev => self.blocks[prev as usize].next = to,
        }
        match block.next {
            NONE => list.tail = to,
            next => self.blocks[next as usize].prev = to,
        }
    }

    fn count(&mut self, frame: u32, kind: BlockKind, order: u8, more: bool) {
        let len = 1_u32 << order;
        let side = usize::from(!kind.is_movable());
        let held = &mut self.held[(frame >> self.pageblock_order) as usize][side];
        let total = &mut self.frames[kind as usize];
        if more {
            *held += len as u16;
            *total += u64::from(len);
        } else {
            *held -= len as u16;
            *total -= u64::from(len);
        }
    }

    fn link(&mut self, frame: u32, to: u32) {
        let list = &mut self.lists[to as usize];
        let head = std::mem::replace(&mut list.head, frame);
        list.blocks += 1;
        list.frames += 1 << self.blocks[frame as usize].order;
        match head {
            NONE => list.tail = frame,
            head => self.blocks[head as usize].prev = frame,
        }
        let block = &mut self.blocks[frame as usize];
        (block.prev, block.next, block.list) = (NONE, head, to);
    }

    fn unlink(&mut self, frame: u32) {
        let PhoneBlock {
            next,
            prev,
            list,
            order,
            ..
        } = self.blocks[frame as usize];
        let list = &mut self.lists[list as usize];
        list.blocks -= 1;
        list.frames -= 1 << order;
        match prev {
            NONE => list.head = next,
            prev => self.blocks[prev as usize].next = next,
        }
        match next {
            NONE => list.tail = prev,
            next => self.blocks[next as usize].prev = prev,
        }
    }

    /// Every block held, with its kind and order: the slow recount.
    #[cfg(test)]
    pub(super) fn blocks(&self) -> impl Iterator<Item = (u32, BlockKind, u8)> {
        let all = self.blocks.iter().enumerate();
        all.filter(|(_, block)| block.kind != BlockKind::Nothing)
            .map(|(frame, block)| (frame as u32, block.kind, block.order))
    }
}

#[cfg(test)]
mod tests {
    use super::super::super::params::Params;
    use super::*;
    use framewright_sim::Random;

    fn store() -> PhoneStore {
        PhoneStore::new(&Params::default().machine)
    }

    fn entry(kind: BlockKind, order: u8, list: u32) -> StoreEntry {
        StoreEntry {
            kind,
            order,
            list,
            owner: NONE,
            pinned: false,
        }
    }

    #[test]
    fn a_relocated_block_keeps_its_place_on_its_list() {
        for at in 0..3 {
            let mut store = store();
            let list = store.new_list();
            for frame in 0..3 {
                store.insert(frame, entry(BlockKind::Anon, 0, list));
            }
            store.relocate(at, 5000);
            let mut walked = Vec::new();
            while store.list(list).tail != NONE {
                let tail = store.list(list).tail;
                walked.push(tail);
                store.remove(tail);
            }
            let expected: Vec<u32> = (0..3).map(|f| if f == at { 5000 } else { f }).collect();
            assert_eq!(walked, expected);
            assert_eq!(store.frames_held(), 0);
        }
    }

    #[test]
    fn a_pageblock_is_mixed_while_it_holds_movable_and_other_frames() {
        let mut store = store();
        let list = store.new_list();
        store.insert(0, entry(BlockKind::Stack, 2, list));
        assert_eq!(store.mixed_pageblocks(), 0);
        store.insert(4, entry(BlockKind::Anon, 0, list));
        assert_eq!(store.mixed_pageblocks(), 1);
        store.relocate(4, 1 << 20 >> 1);
        assert_eq!(store.mixed_pageblocks(), 0);
        assert_eq!(store.contaminated_pageblocks(), 1);
        assert_eq!(store.list(list).frames, 5);
    }

    #[test]
    fn counts_are_what_a_recount_of_the_blocks_finds() {
        let (mut store, mut random) = (store(), Random::new(5));
        let list = store.new_list();
        let kinds = [
            BlockKind::Anon,
            BlockKind::Slab,
            BlockKind::Graphics,
            BlockKind::File,
        ];
        for _ in 0..4000 {
            let order = random.below(4) as u8;
            let frame = (random.below(1000) << 6) as u32;
            let target = frame + 32;
            match store.kind(frame) {
                BlockKind::Nothing => {
                    let kind = kinds[random.below(4) as usize];
                    store.insert(frame, entry(kind, order, list));
                }
                _ if random.chance(50) && store.kind(target) == BlockKind::Nothing => {
                    store.relocate(frame, target);
                }
                _ => {
                    store.remove(frame);
                }
            }
        }
        let (mut frames, mut held) = (0, vec![[0_u64; 2]; store.held.len()]);
        for (frame, kind, order) in store.blocks() {
            frames += 1 << order;
            held[frame as usize >> 10][usize::from(!kind.is_movable())] += 1 << order;
        }
        assert!(frames > 1000);
        assert_eq!(store.frames_held(), frames);
        assert_eq!(u64::from(store.list(list).frames), frames);
        let mixed = held
            .iter()
            .filter(|held| held[0] > 0 && held[1] > 0)
            .count();
        assert_eq!(store.mixed_pageblocks(), mixed as u64);
    }

    #[test]
    #[should_panic(expected = "handed out twice")]
    fn a_block_that_is_handed_out_twice_ends_the_run() {
        let mut store = store();
        let list = store.new_list();
        store.insert(7, entry(BlockKind::Anon, 0, list));
        store.insert(7, entry(BlockKind::Stack, 0, list));
    }
}
