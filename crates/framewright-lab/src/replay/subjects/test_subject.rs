//! The allocator with the fewest rules, so that a test of the replay tests nothing else.

use super::{FreeRefused, ReplaySubject};
use crate::measure::{BLOCK_FRAMES, BLOCK_ORDER, MAX_ORDER};
use crate::replay::{CachedBlock, RecordedStep, TraceMemory};
use framewright::{CpuId, Frame, Mobility, Order};

/// No frame, no neighbour in a list.
const NONE: u32 = u32::MAX;
/// Not the start of a free block.
const NOT_FREE: u8 = u8::MAX;

/// The plainest buddy system, for tests of the replay itself: one list an order, last in, first
/// out. Labels are kept and change nothing.
///
/// # Invariants
/// - **TS1** A free block is in the list of its order and in no other; `order[start]` is its order.
/// - **TS2** Two buddies of one order are never both free: they are one block of the next.
/// - **TS3** A frame's bit in `taken` is set if it is allocated or does not exist.
#[derive(Debug)]
pub(crate) struct NoGrouping {
    order: Vec<u8>,
    next: Vec<u32>,
    prev: Vec<u32>,
    head: [u32; MAX_ORDER + 1],
    taken: Vec<u64>,
    labels: Vec<Mobility>,
    nframes: u64,
    /// Requests so far.
    asked: u64,
    /// Behind how many requests it was told to follow the background, and each step of that.
    pub(crate) told: Vec<(u64, Option<RecordedStep>)>,
    /// Behind how many requests it was told to fill its caches.
    pub(crate) filled_after: Vec<u64>,
}

impl NoGrouping {
    /// A buddy system over the whole of `memory`, all of it free.
    #[must_use]
    pub(crate) fn new(memory: &TraceMemory<'_>) -> Self {
        let nframes = memory.trace.nframes;
        let n = nframes as usize;
        let mut this = Self {
            order: vec![NOT_FREE; n],
            next: vec![NONE; n],
            prev: vec![NONE; n],
            head: [NONE; MAX_ORDER + 1],
            taken: vec![!0; n.div_ceil(64)],
            labels: vec![Mobility::Movable; nframes.div_ceil(BLOCK_FRAMES) as usize],
            nframes,
            asked: 0,
            told: Vec::new(),
            filled_after: Vec::new(),
        };
        let mut exists = vec![true; n];
        for run in &memory.trace.absent {
            exists[run.start().0.min(nframes) as usize..run.end().0.min(nframes) as usize]
                .fill(false);
        }
        // From the last frame down, so that the first block taken is the lowest one.
        for frame in (0..nframes).rev().filter(|&f| exists[f as usize]) {
            this.mark(frame, 1, false);
            this.insert_merged(frame, 0);
        }
        this
    }

    fn mark(&mut self, frame: u64, len: u64, taken: bool) {
        for f in frame..frame + len {
            let bit = 1 << (f % 64);
            let word = &mut self.taken[(f / 64) as usize];
            *word = if taken { *word | bit } else { *word & !bit };
        }
    }

    fn is_all(&self, frame: u64, len: u64, taken: bool) -> bool {
        (frame..frame + len).all(|f| (self.taken[(f / 64) as usize] >> (f % 64) & 1 != 0) == taken)
    }

    fn push(&mut self, frame: u64, order: usize) {
        let (f, head) = (frame as usize, self.head[order]);
        self.order[f] = order as u8;
        self.next[f] = head;
        self.prev[f] = NONE;
        if head != NONE {
            self.prev[head as usize] = frame as u32;
        }
        self.head[order] = frame as u32;
    }

    fn remove(&mut self, frame: u64) {
        let f = frame as usize;
        let (next, prev) = (self.next[f], self.prev[f]);
        if prev == NONE {
            self.head[usize::from(self.order[f])] = next;
        } else {
            self.next[prev as usize] = next;
        }
        if next != NONE {
            self.prev[next as usize] = prev;
        }
        self.order[f] = NOT_FREE;
    }

    fn insert_merged(&mut self, mut frame: u64, mut order: usize) {
        while order < MAX_ORDER {
            let buddy = frame ^ 1 << order;
            if self.order.get(buddy as usize) != Some(&(order as u8)) {
                break;
            }
            self.remove(buddy);
            frame &= !(1 << order);
            order += 1;
        }
        self.push(frame, order);
    }

    /// The free block that contains `frame`, and its order.
    fn containing(&self, frame: u64) -> Option<(u64, usize)> {
        (0..=MAX_ORDER)
            .map(|k| (frame & !((1 << k) - 1), k))
            .find(|&(start, k)| self.order[start as usize] == k as u8)
    }
}

impl ReplaySubject for NoGrouping {
    fn name(&self) -> &'static str {
        "no-grouping"
    }

    fn set_label(&mut self, pageblock: u64, label: Mobility) {
        if let Some(entry) = self.labels.get_mut(pageblock as usize) {
            *entry = label;
        }
    }

    fn alloc_at(&mut self, frame: Frame, order: Order, _mobility: Mobility) -> bool {
        let (f, wanted) = (frame.0, order.index());
        let len = order.frames();
        if !frame.is_aligned(order) || f + len > self.nframes || !self.is_all(f, len, false) {
            return false;
        }
        let Some((start, mut k)) = self.containing(f) else {
            return false;
        };
        self.remove(start);
        let mut start = start;
        while k > wanted {
            k -= 1;
            let half = 1 << k;
            if f & half == 0 {
                self.push(start + half, k);
            } else {
                self.push(start, k);
                start += half;
            }
        }
        self.mark(f, len, true);
        true
    }

    fn fill_caches(&mut self, _blocks: &[CachedBlock]) {
        self.filled_after.push(self.asked);
    }

    fn follow_background(&mut self) {
        self.told.push((self.asked, None));
    }

    fn background(&mut self, step: RecordedStep) {
        self.told.push((self.asked, Some(step)));
    }

    fn alloc(&mut self, _cpu: CpuId, order: Order, _mobility: Mobility) -> Option<Frame> {
        self.asked += 1;
        let wanted = order.index();
        let mut k = (wanted..=MAX_ORDER).find(|&k| self.head[k] != NONE)?;
        let frame = u64::from(self.head[k]);
        self.remove(frame);
        while k > wanted {
            k -= 1;
            self.push(frame + (1 << k), k);
        }
        self.mark(frame, order.frames(), true);
        Some(Frame(frame))
    }

    fn free(&mut self, _cpu: CpuId, frame: Frame, order: Order) -> Result<(), FreeRefused> {
        let len = order.frames();
        let within = frame.is_aligned(order) && frame.0 + len <= self.nframes;
        if !within || order.index() > MAX_ORDER || !self.is_all(frame.0, len, true) {
            return Err(FreeRefused);
        }
        self.mark(frame.0, len, false);
        self.insert_merged(frame.0, order.index());
        Ok(())
    }

    fn drain(&mut self) {}

    fn free_blocks(&self) -> [[u64; 11]; 3] {
        let mut counts = [[0; MAX_ORDER + 1]; 3];
        for (frame, &order) in self.order.iter().enumerate() {
            if order != NOT_FREE {
                let label = self.labels[frame >> BLOCK_ORDER];
                counts[label.index()][usize::from(order)] += 1;
            }
        }
        counts
    }

    fn labels(&self) -> [u64; 3] {
        crate::replay::count_labels(&self.labels)
    }

    fn fallbacks(&self) -> [[u64; 3]; 3] {
        [[0; 3]; 3]
    }
}
