//! The one judge of every allocator: what is in use, where, and how mixed, worked out from calls and results.
//! Metrics come from here and never from an allocator's own counts.

use super::{BLOCK_FRAMES, BLOCK_ORDER, Holds, MAX_ORDER, MapCell, REGION_BLOCKS, Sample};
use crate::steps;
use framewright::{Frame, Mobility, Order, Run};
use std::fmt;
use std::ops::Range;

const WORD_ORDER: u8 = 6;

/// What an allocator did that no allocator may do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AllocatorFault {
    /// It handed out a block of which at least one frame was handed out already.
    TakenTwice(Frame, Order),
    /// A block was freed of which at least one frame was not handed out.
    NotTaken(Frame, Order),
    /// It handed out a block that is not aligned to its own length or leaves memory.
    OutOfPlace(Frame, Order),
}

impl fmt::Display for AllocatorFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::TakenTwice(frame, order) => {
                write!(
                    f,
                    "the block of {order} at {frame} holds a frame that is handed out already"
                )
            }
            Self::NotTaken(frame, order) => {
                write!(
                    f,
                    "the freed block of {order} at {frame} holds a frame that is not handed out"
                )
            }
            Self::OutOfPlace(frame, order) => {
                write!(
                    f,
                    "the block of {order} at {frame} is not aligned or not within memory"
                )
            }
        }
    }
}

impl std::error::Error for AllocatorFault {}

/// Frames in use in one 2 MiB block: those that cannot be moved, and those that can.
#[derive(Debug, Clone, Copy, Default)]
struct Use([u16; 2]);

impl Use {
    const fn nonmovable(self) -> u16 {
        self.0[0]
    }

    const fn movable(self) -> u16 {
        self.0[1]
    }

    #[inline(always)]
    fn of(&mut self, mobility: Mobility) -> &mut u16 {
        &mut self.0[usize::from(mobility.is_movable())]
    }
}

/// Watches which frames are handed out, from the calls and their results alone.
///
/// It is the same for every policy and asks none of them anything, so what two policies are
/// compared by does not depend on how they count. One bit a frame, and 20 bytes a 2 MiB block.
///
/// It is also the ownership oracle: each block handed out or freed is checked against the bitmap,
/// always, because the word has to be read anyway.
///
/// # Invariants
/// - **OB1** A bit is set if and only if its frame is handed out, or does not exist.
/// - **OB2** A block's two counts add up to its set bits without the frames that do not exist.
/// - **OB3** No aligned block of an order from `none_from` on is free.
/// - **OB4** What is not among `changed` is counted in `sums` as [`Observer::recount`] would count it, and
///   `total` adds all of those up: so a sample costs what has changed since the last one.
#[derive(Debug, Clone)]
pub struct Observer {
    taken: Vec<u64>,
    blocks: Vec<Use>,
    nframes: u64,
    nonmovable: u64,
    none_from: u8,
    /// By group of [`GROUP`] words, and by region of [`REGION_BLOCKS`] blocks.
    sums: Vec<GroupSums>,
    contaminated: Vec<u32>,
    is_changed: Vec<bool>,
    changed: Vec<u32>,
    total: Sample,
}

/// What a sample adds up, of one group of 1,024 frames.
#[derive(Debug, Clone, Copy, Default)]
struct GroupSums {
    aligned_free: [u16; MAX_ORDER + 1],
    movable_frames_in_mixed: u16,
    contaminated_blocks: u8,
    mixed_blocks: u8,
}

/// Frames of a group, as a shift, and groups of a region.
const GROUP_ORDER: u8 = MAX_ORDER as u8;
const REGION_GROUPS: usize = REGION_BLOCKS / GROUP_BLOCKS;
const GROUP_BLOCKS: usize = 1 << (GROUP_ORDER - BLOCK_ORDER);

impl Observer {
    /// An observer of `nframes` free frames, of which those in `absent` do not exist.
    ///
    /// Runs of `absent` that leave memory count as far as they lie in it.
    #[must_use]
    pub fn new(nframes: u64, absent: &[Run]) -> Self {
        let blocks = nframes.div_ceil(BLOCK_FRAMES) as usize;
        let groups = blocks.div_ceil(GROUP_BLOCKS);
        let mut this = Self {
            // Whole groups of 16 words (order 10), so that the counting below has no edge: frames
            // past the end do not exist.
            taken: vec![0; blocks.next_multiple_of(2) * 8],
            blocks: vec![Use::default(); blocks],
            nframes,
            nonmovable: 0,
            none_from: MAX_ORDER as u8 + 1,
            sums: vec![GroupSums::default(); groups],
            contaminated: vec![0; groups.div_ceil(REGION_GROUPS)],
            is_changed: vec![true; groups],
            changed: (0..groups as u32).collect(),
            total: Sample::default(),
        };
        let end = this.taken.len() as u64 * 64;
        this.set_absent(nframes, end);
        for run in absent {
            this.set_absent(run.start().0.min(nframes), run.end().0.min(nframes));
        }
        this
    }

    fn set_absent(&mut self, start: u64, end: u64) {
        for frame in start..end {
            self.taken[(frame / 64) as usize] |= 1 << (frame % 64);
        }
    }

    /// Notes that the block `frame .. frame + 2^order` was handed out.
    ///
    /// # Errors
    /// If the allocator may not hand out this block; nothing has changed then.
    #[inline]
    pub fn take(
        &mut self,
        frame: Frame,
        order: Order,
        mobility: Mobility,
    ) -> Result<(), AllocatorFault> {
        if !self.is_in_place(frame, order) {
            return Err(AllocatorFault::OutOfPlace(frame, order));
        }
        let len = order.frames();
        let word = (frame.0 / 64) as usize;
        if order.get() < WORD_ORDER {
            // Nearly all: within one word, and so within one 2 MiB block.
            let mask = ((1u64 << len) - 1) << (frame.0 % 64);
            let word = &mut self.taken[word];
            if *word & mask != 0 {
                return Err(AllocatorFault::TakenTwice(frame, order));
            }
            *word |= mask;
            *self.blocks[(frame.0 / BLOCK_FRAMES) as usize].of(mobility) += len as u16;
        } else {
            self.take_words(frame, order, mobility)?;
        }
        if !mobility.is_movable() {
            self.nonmovable += len;
        }
        self.note_change(frame, len);
        Ok(())
    }

    /// What is counted of these frames no longer holds (OB4).
    #[inline(always)]
    fn note_change(&mut self, frame: Frame, len: u64) {
        let group = (frame.0 >> GROUP_ORDER) as usize;
        // A block of more is as many groups; no metric knows such an order, and a trace has none.
        let groups = (len >> GROUP_ORDER).max(1) as usize;
        for group in group..group + groups {
            if !std::mem::replace(&mut self.is_changed[group], true) {
                self.changed.push(group as u32);
            }
        }
    }

    /// Notes that the block `frame .. frame + 2^order` was freed; `mobility` is that of the
    /// allocation it belongs to.
    ///
    /// # Errors
    /// If a frame of the block is not handed out, or if its 2 MiB block holds fewer frames of this
    /// mobility than are freed; nothing has changed then.
    #[inline]
    pub fn give(
        &mut self,
        frame: Frame,
        order: Order,
        mobility: Mobility,
    ) -> Result<(), AllocatorFault> {
        if !self.is_in_place(frame, order) {
            return Err(AllocatorFault::NotTaken(frame, order));
        }
        // Not only the bits: they do not tell frames of another mobility, or frames that do not
        // exist, from those that may be freed, and a count must not pass zero.
        let len = order.frames();
        let word = (frame.0 / 64) as usize;
        if order.get() < WORD_ORDER {
            let mask = ((1u64 << len) - 1) << (frame.0 % 64);
            let word = &mut self.taken[word];
            let count = self.blocks[(frame.0 / BLOCK_FRAMES) as usize].of(mobility);
            if *word & mask != mask || *count < len as u16 {
                return Err(AllocatorFault::NotTaken(frame, order));
            }
            *word &= !mask;
            *count -= len as u16;
        } else {
            self.give_words(frame, order, mobility)?;
        }
        // OB3: the blocks that this free has made are those around it.
        while usize::from(self.none_from) <= MAX_ORDER
            && self.is_block_free(frame.0, self.none_from)
        {
            self.none_from += 1;
        }
        if !mobility.is_movable() {
            self.nonmovable -= len;
        }
        self.note_change(frame, len);
        Ok(())
    }

    /// Takes a block of whole words. Not inlined: it would cost the others their registers.
    #[inline(never)]
    fn take_words(
        &mut self,
        frame: Frame,
        order: Order,
        mobility: Mobility,
    ) -> Result<(), AllocatorFault> {
        let len = order.frames();
        let word = (frame.0 / 64) as usize;
        let words = &mut self.taken[word..word + (len / 64) as usize];
        if words.iter().any(|&w| w != 0) {
            return Err(AllocatorFault::TakenTwice(frame, order));
        }
        words.fill(!0);
        let by = len.min(BLOCK_FRAMES) as u16;
        self.uses(frame, len, mobility)
            .for_each(|count| *count += by);
        Ok(())
    }

    /// Gives one back.
    #[inline(never)]
    fn give_words(
        &mut self,
        frame: Frame,
        order: Order,
        mobility: Mobility,
    ) -> Result<(), AllocatorFault> {
        let len = order.frames();
        let by = len.min(BLOCK_FRAMES) as u16;
        let has_fewer = |count: &mut u16| *count < by;
        if self.uses(frame, len, mobility).any(has_fewer) {
            return Err(AllocatorFault::NotTaken(frame, order));
        }
        let word = (frame.0 / 64) as usize;
        let words = &mut self.taken[word..word + (len / 64) as usize];
        if words.iter().any(|&w| w != !0) {
            return Err(AllocatorFault::NotTaken(frame, order));
        }
        words.fill(0);
        self.uses(frame, len, mobility)
            .for_each(|count| *count -= by);
        Ok(())
    }

    /// Whether the block is aligned to its own length and within memory.
    #[inline(always)]
    fn is_in_place(&self, frame: Frame, order: Order) -> bool {
        frame.is_aligned(order)
            && frame.0 < self.nframes
            && order.frames() <= self.nframes - frame.0
    }

    /// Frames in use in the 2 MiB block of that frame: those that cannot be moved, and those that can.
    #[must_use]
    pub fn block_use(&self, frame: Frame) -> [u16; 2] {
        let block = self.blocks.get((frame.0 / BLOCK_FRAMES) as usize);
        block.map_or([0; 2], |uses| uses.0)
    }

    /// The counts of `mobility` in the 2 MiB blocks that `len` frames from `frame` lie in.
    fn uses(
        &mut self,
        frame: Frame,
        len: u64,
        mobility: Mobility,
    ) -> impl Iterator<Item = &mut u16> {
        let block = (frame.0 / BLOCK_FRAMES) as usize;
        let blocks = len.div_ceil(BLOCK_FRAMES) as usize;
        let blocks = &mut self.blocks[block..block + blocks];
        blocks.iter_mut().map(move |block| block.of(mobility))
    }

    /// Whether an aligned block of `order` is free.
    ///
    /// Time: that of a [sample](Self::sample). After a `false` it is one comparison until a free makes
    /// such a block, because requests that fail come in their thousands.
    ///
    /// # Panics
    /// If `order` is above [`MAX_ORDER`], which is the largest the observer watches.
    #[must_use]
    pub fn has_free(&mut self, order: Order) -> bool {
        assert!(
            order.index() <= MAX_ORDER,
            "{order} is above the maximum {MAX_ORDER}"
        );
        if order.get() >= self.none_from {
            return false;
        }
        self.settle();
        let found = self.total.aligned_free[order.index()] > 0;
        if !found {
            self.none_from = order.get();
        }
        found
    }

    /// Whether the aligned block of `order` around `frame` is free.
    #[inline]
    fn is_block_free(&self, frame: u64, order: u8) -> bool {
        let start = frame >> order << order;
        let word = (start / 64) as usize;
        if order < WORD_ORDER {
            let mask = ((1u64 << (1 << order)) - 1) << (start % 64);
            self.taken[word] & mask == 0
        } else {
            self.taken[word..word + (1 << (order - WORD_ORDER))]
                .iter()
                .all(|&w| w == 0)
        }
    }

    /// The last aligned block of `order` in these frames that is free.
    #[must_use]
    pub fn last_free(&self, frames: Range<u64>, order: Order) -> Option<Frame> {
        let end = frames.end.min(self.nframes);
        let len = order.frames();
        let mut at = (end & !(len - 1)).checked_sub(len)?;
        while at >= frames.start {
            let word = at / 64;
            if len < 64 && self.taken[word as usize] == !0 {
                // The last block of the word below.
                at = (word * 64).checked_sub(len)?;
                continue;
            }
            if self.is_block_free(at, order.get()) {
                return Some(Frame(at));
            }
            at = at.checked_sub(len)?;
        }
        None
    }

    /// Whether `frame` is handed out (or does not exist).
    #[must_use]
    pub fn is_taken(&self, frame: Frame) -> bool {
        let word = self.taken.get((frame.0 / 64) as usize);
        word.is_none_or(|w| w & 1 << (frame.0 % 64) != 0)
    }

    /// What the 2 MiB blocks hold, this many of them a cell. Time: O(frames / 64).
    #[must_use]
    pub fn cells(&self, blocks_per_cell: u64) -> Vec<MapCell> {
        let (words, _) = self.taken.as_chunks::<BLOCK_WORDS>();
        let block = |(words, held): (&[u64; BLOCK_WORDS], &Use)| {
            let is_full = words.iter().all(|&taken| taken == !0);
            let holds = match (held.nonmovable() > 0, held.movable() > 0) {
                (false, false) if is_full => Holds::Absent,
                (false, false) => Holds::Free,
                (false, true) => Holds::Movable,
                (true, false) => Holds::Fixed,
                (true, true) => Holds::Mixed,
            };
            MapCell { holds, is_full }
        };
        let blocks: Vec<MapCell> = words.iter().zip(&self.blocks).map(block).collect();
        let per_cell = usize::try_from(blocks_per_cell).map_or(usize::MAX, |n| n.max(1));
        let cell = |blocks: &[MapCell]| MapCell::of_blocks(blocks.iter().copied());
        blocks.chunks(per_cell).map(cell).collect()
    }

    /// What memory looks like now. Time: O(frames / 64) of the groups of 1,024 frames that have
    /// changed since the last sample.
    #[must_use]
    pub fn sample(&mut self, ms: u64) -> Sample {
        self.settle();
        Sample {
            ms,
            nonmovable_frames: self.nonmovable,
            ..self.total
        }
    }

    /// Counts again what has changed (OB4).
    fn settle(&mut self) {
        while let Some(group) = self.changed.pop() {
            steps::add(1);
            let group = group as usize;
            self.is_changed[group] = false;
            let now = self.sums_of(group);
            let before = std::mem::replace(&mut self.sums[group], now);
            let total = &mut self.total;
            let by = |total: &mut u64, before: u16, now: u16| {
                *total = *total - u64::from(before) + u64::from(now);
            };
            for (k, total) in total.aligned_free.iter_mut().enumerate() {
                by(total, before.aligned_free[k], now.aligned_free[k]);
            }
            let blocks = |sums: GroupSums| {
                (
                    u16::from(sums.contaminated_blocks),
                    u16::from(sums.mixed_blocks),
                )
            };
            let (was, is) = (blocks(before), blocks(now));
            by(&mut total.contaminated_blocks, was.0, is.0);
            by(&mut total.mixed_blocks, was.1, is.1);
            let (was_movable, is_movable) =
                (before.movable_frames_in_mixed, now.movable_frames_in_mixed);
            by(&mut total.movable_frames_in_mixed, was_movable, is_movable);
            let region = &mut self.contaminated[group / REGION_GROUPS];
            total.tainted_regions -= u64::from(*region > 0);
            *region = *region - u32::from(was.0) + u32::from(is.0);
            total.tainted_regions += u64::from(*region > 0);
        }
    }

    fn sums_of(&self, group: usize) -> GroupSums {
        let mut aligned_free = [0u64; MAX_ORDER + 1];
        let (groups, _) = self.taken.as_chunks::<GROUP>();
        count_aligned_free(&groups[group], &mut aligned_free);
        let mut sums = GroupSums {
            aligned_free: aligned_free.map(|n| n as u16),
            ..GroupSums::default()
        };
        let blocks = self.blocks[group * GROUP_BLOCKS..]
            .iter()
            .take(GROUP_BLOCKS);
        for b in blocks.filter(|b| b.nonmovable() > 0) {
            sums.contaminated_blocks += 1;
            if b.movable() > 0 {
                sums.mixed_blocks += 1;
                sums.movable_frames_in_mixed += b.movable();
            }
        }
        sums
    }

    /// What memory looks like now, counted over all of it: what [`Observer::sample`] must say.
    /// Time: O(frames / 64).
    #[must_use]
    pub fn recount(&self, ms: u64) -> Sample {
        let mut aligned_free = [0u64; MAX_ORDER + 1];
        let (groups, _) = self.taken.as_chunks::<GROUP>();
        steps::add(groups.len() as u64);
        for group in groups {
            count_aligned_free(group, &mut aligned_free);
        }
        let mut sample = Sample {
            ms,
            aligned_free,
            nonmovable_frames: self.nonmovable,
            ..Sample::default()
        };
        sample.tainted_regions = self
            .blocks
            .chunks(REGION_BLOCKS)
            .filter(|region| region.iter().any(|b| b.nonmovable() > 0))
            .count() as u64;
        for b in self.blocks.iter().filter(|b| b.nonmovable() > 0) {
            sample.contaminated_blocks += 1;
            if b.movable() > 0 {
                sample.mixed_blocks += 1;
                sample.movable_frames_in_mixed += u64::from(b.movable());
            }
        }
        sample
    }
}

/// Words of a 2 MiB block.
const BLOCK_WORDS: usize = (BLOCK_FRAMES / 64) as usize;

/// Words of a block of [`MAX_ORDER`].
const GROUP: usize = 1 << (MAX_ORDER as u8 - WORD_ORDER);
const _: () = assert!(
    GROUP * 8 < 256,
    "a byte holds the sum of its bits over a group"
);

/// Adds the aligned free blocks, by order, in a group of words whose set bits are taken.
///
/// All words are summed up before the parts of a word are: bits by bytes, and what is at most one
/// a byte as it is. So there is no branch, and a compiler can work on several words at once.
#[inline]
fn count_aligned_free(group: &[u64; GROUP], aligned_free: &mut [u64; MAX_ORDER + 1]) {
    const PAIRS: u64 = 0x5555_5555_5555_5555;
    const FOURS: u64 = 0x3333_3333_3333_3333;
    const BYTES: u64 = 0x0f0f_0f0f_0f0f_0f0f;
    if group.iter().all(|&taken| taken == !0) {
        return;
    }
    let mut sums = [0u64; WORD_ORDER as usize];
    for &taken in group {
        let free = !taken;
        let pairs = free - (free >> 1 & PAIRS);
        let fours = (pairs & FOURS) + (pairs >> 2 & FOURS);
        sums[0] += (fours & BYTES) + (fours >> 4 & BYTES);
        let free = halve(free, 0);
        let fours = (free & FOURS) + (free >> 2 & FOURS);
        sums[1] += (fours & BYTES) + (fours >> 4 & BYTES);
        let free = halve(free, 1);
        sums[2] += (free & BYTES) + (free >> 4 & BYTES);
        let free = halve(free, 2);
        sums[3] += free;
        let free = halve(free, 3);
        sums[4] += free;
        let free = halve(free, 4);
        sums[5] += free;
    }
    for (sum, total) in sums.iter().zip(&mut *aligned_free) {
        // Each byte is below 256; by pairs of bytes, then all of them in the top two.
        let pairs = (sum & 0x00ff_00ff_00ff_00ff) + (sum >> 8 & 0x00ff_00ff_00ff_00ff);
        *total += pairs.wrapping_mul(0x0001_0001_0001_0001) >> 48;
    }
    let is_whole = |(nth, &taken): (usize, &u64)| u64::from(taken == 0) << nth;
    let mut whole: u64 = group.iter().enumerate().map(is_whole).sum();
    for (order, total) in (0..).zip(&mut aligned_free[usize::from(WORD_ORDER)..]) {
        *total += u64::from(whole.count_ones());
        whole = halve(whole, order);
    }
}

/// From the starts of aligned free blocks of `order`, those of `order + 1`, within one word.
#[inline]
const fn halve(free: u64, order: u8) -> u64 {
    // Every second start of the order below: 0b01, 0b0001, 0b00000001, ... repeated.
    const STARTS: [u64; 6] = [
        0x5555_5555_5555_5555,
        0x1111_1111_1111_1111,
        0x0101_0101_0101_0101,
        0x0001_0001_0001_0001,
        0x0000_0001_0000_0001,
        0x0000_0000_0000_0001,
    ];
    free & (free >> (1 << order)) & STARTS[order as usize]
}

#[cfg(test)]
mod tests {
    use super::*;
    use framewright_sim::Random;

    fn order(n: u8) -> Order {
        Order::new(n).unwrap()
    }

    /// The obviously right twin of [`Observer::sample`]: tries every aligned position.
    fn aligned_free_slow(observer: &Observer, nframes: u64) -> [u64; MAX_ORDER + 1] {
        std::array::from_fn(|k| {
            let len = 1u64 << k;
            (0..nframes / len)
                .filter(|i| (i * len..(i + 1) * len).all(|f| !observer.is_taken(Frame(f))))
                .count() as u64
        })
    }

    #[test]
    fn aligned_free_blocks_are_those_a_slow_count_finds() {
        let nframes = 3 * 1024 + 512 + 40;
        let absent = [Run::new(Frame(100), 70).unwrap()];
        let mut observer = Observer::new(nframes, &absent);
        let mut random = Random::new(7);
        for _ in 0..400 {
            let k = random.below(11) as u8;
            let frame = Frame(random.below(nframes)).align_down(order(k));
            let mobility = Mobility::ALL[random.index(3)];
            let _ = observer.take(frame, order(k), mobility);
            let sample = observer.sample(0);
            assert_eq!(sample, observer.recount(0), "OB4");
            assert_eq!(sample.aligned_free, aligned_free_slow(&observer, nframes));
            for k in 0..=10 {
                let has = sample.aligned_free[usize::from(k)] > 0;
                assert_eq!(observer.has_free(order(k)), has, "order {k}");
            }
            if random.below(2) == 0 {
                let _ = observer.give(frame, order(k), mobility);
            }
        }
    }

    #[test]
    fn a_frame_handed_out_twice_is_a_fault_and_changes_nothing() {
        let mut observer = Observer::new(2048, &[]);
        let unmovable = Mobility::Unmovable;
        observer.take(Frame(8), order(3), unmovable).unwrap();
        let before = observer.sample(0);
        let (inside, around) = (Frame(12), Frame(0));
        assert_eq!(
            observer.take(inside, order(0), unmovable),
            Err(AllocatorFault::TakenTwice(inside, order(0)))
        );
        assert_eq!(
            observer.take(around, order(7), unmovable),
            Err(AllocatorFault::TakenTwice(around, order(7)))
        );
        assert_eq!(
            observer.take(Frame(17), order(1), unmovable),
            Err(AllocatorFault::OutOfPlace(Frame(17), order(1)))
        );
        assert_eq!(
            observer.take(Frame(2048), order(0), unmovable),
            Err(AllocatorFault::OutOfPlace(Frame(2048), order(0)))
        );
        assert_eq!(
            observer.give(around, order(4), unmovable),
            Err(AllocatorFault::NotTaken(around, order(4)))
        );
        assert_eq!(
            observer.give(Frame(1024), order(9), unmovable),
            Err(AllocatorFault::NotTaken(Frame(1024), order(9)))
        );
        assert_eq!(observer.sample(0), before);
    }

    #[test]
    fn no_more_frames_of_a_mobility_are_freed_than_a_block_holds() {
        let mut observer = Observer::new(1024, &[Run::new(Frame(0), 64).unwrap()]);
        observer
            .take(Frame(64), order(0), Mobility::Movable)
            .unwrap();
        let before = observer.sample(0);
        for (frame, k, mobility) in [(0, 6, Mobility::Movable), (64, 0, Mobility::Unmovable)] {
            let frame = Frame(frame);
            let refused = Err(AllocatorFault::NotTaken(frame, order(k)));
            assert_eq!(observer.give(frame, order(k), mobility), refused);
        }
        assert_eq!(observer.sample(0), before);
    }

    #[test]
    fn a_region_is_tainted_as_long_as_one_of_its_64_blocks_is() {
        let mut observer = Observer::new(200 * 512, &[]);
        let mut taint = |block: u64, mobility| {
            observer
                .take(Frame(block * 512), order(0), mobility)
                .unwrap();
            observer.sample(0).tainted_regions
        };
        assert_eq!(taint(0, Mobility::Movable), 0);
        assert_eq!(taint(63, Mobility::Unmovable), 1);
        assert_eq!(taint(62, Mobility::Reclaimable), 1);
        assert_eq!(taint(64, Mobility::Reclaimable), 2);
        // The last region has 8 blocks.
        assert_eq!(taint(199, Mobility::Unmovable), 3);
        let last = Frame(199 * 512);
        observer.give(last, order(0), Mobility::Unmovable).unwrap();
        assert_eq!(observer.sample(0).tainted_regions, 2);
    }

    #[test]
    fn a_block_of_order_ten_counts_in_both_of_its_2_mib_blocks() {
        let mut observer = Observer::new(2048, &[]);
        observer
            .take(Frame(1024), order(10), Mobility::Reclaimable)
            .unwrap();
        let sample = observer.sample(0);
        assert_eq!(sample.contaminated_blocks, 2);
        assert_eq!(sample.contaminated_blocks_floor(), 2);
        observer
            .give(Frame(1024), order(10), Mobility::Reclaimable)
            .unwrap();
        assert_eq!(observer.sample(0), Observer::new(2048, &[]).sample(0));
    }
}
