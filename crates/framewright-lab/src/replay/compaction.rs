//! What compaction did to the recording machine's memory, done to a replay's.
//!
//! ```text
//!   zone   ▕ swept ▏ sweep ▶             ◀ free scanner ▕ filled ▏
//!          0        the frames that the machine        the zone's end
//!                   emptied, in its order
//! ```
//!
//! Compaction sweeps a zone upwards, frame by frame, and moves what it can to the highest free frames. A recording says which
//! frames it emptied and when (PFT4). What lies there in a replay is another object, under another policy, and it moves in
//! its stead: each pageblock is swept from its first frame, or from where the sweep had come to, to the frame that the
//! machine emptied. So a policy gets the work that the machine did, at its time and place, and makes of it what its own layout
//! allows.
//!
//! # Rules
//! As Linux's (`mm/compaction.c`): movable objects below a pageblock move, whole. A pageblock that the sweep leaves upwards is
//! swept to its end. Targets are free frames on free lists, not in CPUs' lists, above the sweep, in pageblocks that movable
//! requests take from and that are not wholly free. The free scanner comes down from the zone's end, and begins there again when
//! the sweep begins at a lower pageblock, but no sooner than an operation for [`BLOCKS_PER_OP`] pageblocks of the zone has passed
//! since it did so last: that bounds the time by the length of the trace.
//!
//! # What is not here
//! What the machine's compaction found no target for, and skipped pageblocks: what it did not move there is not moved here either.
//! Objects of which a part was freed stay, and so do frames that a squeeze holds. Under Linux's policies labels say which
//! pageblocks movable requests take from. The engine's do not tell, and content stands in: nothing moves into a pageblock that
//! has a frame which cannot move, so less moves under them.

use super::notes::WhoFollower;
use super::{ReplaySubject, TraceObjects};
use crate::measure::{AllocatorFault, BLOCK_FRAMES, BLOCK_ORDER, Observer};
use crate::steps;
use crate::trace::TraceMove;
use framewright::{Frame, Mobility, Order};
use std::ops::Range;

/// Nothing that can move begins at the frame.
const NOTHING: u32 = u32::MAX;

/// Pageblocks that the free scanner may pass for each operation, looking for a block of one order.
const BLOCKS_PER_OP: u64 = 64;

/// Follows the moves of a recording.
///
/// # Invariants
/// - **RC1** Each frame at which a whole, movable object of less than a pageblock begins has its number, and no other frame has one.
#[derive(Debug)]
pub(super) struct RecordedCompaction<'a> {
    moves: &'a [TraceMove],
    /// By frame.
    object_at: Vec<u32>,
    /// By frame that has an object: its order.
    order_at: Vec<u8>,
    /// One for each zone that was swept.
    sweeps: Vec<Sweep>,
    /// Frames that were moved.
    pub(super) moved: u64,
}

/// One pass over a zone.
#[derive(Debug)]
struct Sweep {
    zone: Range<u64>,
    /// The pageblock that is swept, by its first frame.
    block: u64,
    /// The frame that comes next.
    next: u64,
    /// The frame behind those that the free scanner may still take, by order.
    free_below: [u64; BLOCK_ORDER as usize],
    /// Before which operation the free scanner began.
    began: u32,
}

/// What a move changes, besides the allocator.
pub(super) struct ReplayedFrames<'r, 'a> {
    pub(super) subject: &'r mut dyn ReplaySubject,
    pub(super) observer: &'r mut Observer,
    pub(super) objects: &'r mut TraceObjects,
    pub(super) who: Option<&'r mut WhoFollower<'a>>,
}

impl<'a> RecordedCompaction<'a> {
    /// Before the first operation, with nothing placed; `None` where nothing was moved.
    pub(super) fn new(moves: &'a [TraceMove], nframes: u64) -> Option<Self> {
        (!moves.is_empty()).then(|| Self {
            moves,
            object_at: vec![NOTHING; nframes as usize],
            order_at: vec![0; nframes as usize],
            sweeps: Vec::new(),
            moved: 0,
        })
    }

    /// The object lies there now.
    pub(super) fn place(&mut self, id: usize, frame: Frame, order: Order, mobility: Mobility) {
        if mobility.is_movable()
            && order.get() < BLOCK_ORDER
            && let Some(object) = self.object_at.get_mut(frame.0 as usize)
        {
            *object = id as u32;
            self.order_at[frame.0 as usize] = order.get();
        }
    }

    /// The object that begins there is gone, or is whole no more.
    pub(super) fn forget(&mut self, frame: Frame) {
        if let Some(object) = self.object_at.get_mut(frame.0 as usize) {
            *object = NOTHING;
        }
    }

    /// Does what was done before operation `index`.
    pub(super) fn run(
        &mut self,
        index: usize,
        frames: &mut ReplayedFrames<'_, '_>,
    ) -> Result<(), AllocatorFault> {
        while let Some((moved, rest)) = self.moves.split_first()
            && moved.at as usize <= index
        {
            self.moves = rest;
            self.follow(moved, frames)?;
        }
        Ok(())
    }

    /// Sweeps up to what was moved. Compaction moves a batch of frames from its last to its first, so that a frame behind
    /// the sweep is nothing new.
    fn follow(
        &mut self,
        moved: &TraceMove,
        frames: &mut ReplayedFrames<'_, '_>,
    ) -> Result<(), AllocatorFault> {
        let from = u64::from(moved.from);
        let (block, end) = (from & !(BLOCK_FRAMES - 1), from + moved.order.frames());
        let known = self
            .sweeps
            .iter()
            .position(|sweep| sweep.zone.contains(&from));
        let mut sweep = match known {
            Some(known) => self.sweeps.swap_remove(known),
            None => {
                let zone = frames.subject.zone_of(Frame(from));
                let end = zone.end.min(self.object_at.len() as u64);
                Sweep::new(zone.start..end, block)
            }
        };
        if !sweep.zone.contains(&from) {
            // No zone has the frame.
            return Ok(());
        }
        if sweep.block < block {
            let rest = sweep.next..sweep.block + BLOCK_FRAMES;
            self.vacate(rest, &mut sweep, frames)?;
            // A move of more than a pageblock may have come further.
            (sweep.block, sweep.next) = (block, sweep.next.max(block));
        } else if sweep.block > block {
            (sweep.block, sweep.next) = (block, block);
            sweep.begin_again(moved.at);
        }
        self.vacate(sweep.next..end, &mut sweep, frames)?;
        sweep.next = sweep.next.max(end);
        self.sweeps.push(sweep);
        Ok(())
    }

    /// Moves what can be moved out of these frames, as long as there is room.
    fn vacate(
        &mut self,
        range: Range<u64>,
        sweep: &mut Sweep,
        frames: &mut ReplayedFrames<'_, '_>,
    ) -> Result<(), AllocatorFault> {
        steps::add(range.end.saturating_sub(range.start));
        for from in range {
            let Some(&id) = self.object_at.get(from as usize) else {
                break;
            };
            if id == NOTHING {
                continue;
            }
            let order = Order::new(self.order_at[from as usize]).unwrap_or(Order::ZERO);
            let from = Frame(from);
            let Some(to) = sweep.target(from, order, frames)? else {
                continue;
            };
            let mobility = Mobility::Movable;
            frames.observer.give(from, order, mobility)?;
            frames.observer.take(to, order, mobility)?;
            frames.objects.place(id as usize, to, mobility);
            if let Some(who) = &mut frames.who {
                who.relocate(from, to, order);
            }
            self.forget(from);
            self.place(id as usize, to, order, mobility);
            self.moved += order.frames();
        }
        Ok(())
    }
}

impl Sweep {
    fn new(zone: Range<u64>, block: u64) -> Self {
        Self {
            free_below: [zone.end; BLOCK_ORDER as usize],
            zone,
            block,
            next: block,
            began: 0,
        }
    }

    fn begin_again(&mut self, now: u32) {
        let blocks = (self.zone.end - self.zone.start) / BLOCK_FRAMES;
        if u64::from(now.saturating_sub(self.began)) * BLOCKS_PER_OP >= blocks {
            self.free_below.fill(self.zone.end);
            self.began = now;
        }
    }

    /// Moves the block to the highest place that takes it, and says where that is.
    fn target(
        &mut self,
        from: Frame,
        order: Order,
        frames: &mut ReplayedFrames<'_, '_>,
    ) -> Result<Option<Frame>, AllocatorFault> {
        let floor = (from.0 & !(BLOCK_FRAMES - 1)) + BLOCK_FRAMES;
        let below = &mut self.free_below[order.index()];
        while *below > floor {
            steps::add(1);
            let block = (*below - 1) & !(BLOCK_FRAMES - 1);
            let [fixed, movable] = frames.observer.block_use(Frame(block));
            let is_target =
                fixed + movable > 0 && frames.subject.receives_moved(block / BLOCK_FRAMES, fixed);
            let found = is_target.then(|| frames.observer.last_free(block..*below, order));
            let Some(to) = found.flatten() else {
                *below = block;
                continue;
            };
            *below = to.0;
            let moved = frames.subject.move_block(from, to, order);
            if moved.map_err(|_| AllocatorFault::NotTaken(from, order))? {
                return Ok(Some(to));
            }
        }
        Ok(None)
    }
}

#[cfg(test)]
mod tests {
    use super::{NOTHING, RecordedCompaction};
    use crate::replay::subjects::NoGrouping;
    use crate::replay::{ReplayOptions, ReplayOutcome, ReplayPolicy, Start, TraceMemory, replay};
    use crate::trace::{InitClass, InitObject, Trace, TraceMove, TraceOp};
    use framewright::{Frame, Mobility, Order};
    use std::sync::atomic::AtomicU64;

    fn order(n: u8) -> Order {
        Order::new(n).unwrap()
    }

    /// Movable frames in three pageblocks of four; the third has a frame that stays, and the last is free.
    fn trace(moves: &[(u32, u32, u32)]) -> Trace {
        let init = |(frame, class)| InitObject {
            frame: Frame(frame),
            class,
        };
        let (movable, fixed) = (InitClass::Movable, InitClass::Unmovable);
        let objects = [
            (1, movable),
            (5, movable),
            (512, movable),
            (600, movable),
            (1024, movable),
            (1500, fixed),
        ];
        let moved = |&(at, object, from)| TraceMove {
            at,
            object,
            offset: 0,
            order: Order::ZERO,
            from,
            to: None,
        };
        Trace {
            nframes: 2048,
            init: objects.map(init).to_vec(),
            ops: vec![TraceOp::tick(0), TraceOp::tick(1000), TraceOp::tick(1000)],
            moves: moves.iter().map(moved).collect(),
            ..Trace::default()
        }
    }

    /// Free 2 MiB blocks at each sample, and how many frames moved.
    fn run(trace: &Trace, options: ReplayOptions) -> (Vec<u64>, u64) {
        let memory = TraceMemory::new(trace).unwrap();
        let options = ReplayOptions {
            every_ms: Some(1),
            ..options
        };
        let outcome: ReplayOutcome = replay(
            &mut NoGrouping::new(&memory),
            &memory,
            options,
            &AtomicU64::new(0),
        )
        .unwrap();
        let points = outcome.series.iter();
        let free = points.map(|point| point.sample.aligned_free[9]);
        (free.collect(), outcome.moved)
    }

    #[test]
    fn a_pageblock_is_swept_up_to_what_the_machine_emptied_and_to_its_end_when_the_sweep_goes_on() {
        let imposed = ReplayOptions::new(Start::Imposed);
        // Up to frame 4: frame 1 moves up to the second pageblock, which has movable frames only.
        assert_eq!(run(&trace(&[(1, 0, 4)]), imposed), (vec![1, 1, 1], 1));
        // Another object than the machine's lies at 5, and moves in its stead: the first pageblock is free.
        assert_eq!(run(&trace(&[(1, 1, 5)]), imposed), (vec![1, 2, 2], 2));
        assert_eq!(
            run(&trace(&[(1, 0, 1), (2, 2, 512)]), imposed),
            (vec![1, 1, 2], 2)
        );
        // Nothing moves twice in one pass, and nothing moves without leave.
        assert_eq!(
            run(&trace(&[(1, 1, 5), (1, 0, 1)]), imposed),
            (vec![1, 2, 2], 2)
        );
        // What moved behind the last operation counts at the end.
        let (free, moved) = run(&trace(&[(3, 1, 5)]), imposed);
        assert_eq!((free, moved), (vec![1, 1, 1], 2));
        let off = ReplayOptions {
            compaction: false,
            ..imposed
        };
        assert_eq!(run(&trace(&[(1, 1, 5)]), off), (vec![1, 1, 1], 0));
    }

    #[test]
    fn a_move_of_two_pageblocks_sweeps_both_once_and_a_frame_of_no_zone_is_passed_over() {
        let mut large = trace(&[(1, 0, 0), (1, 2, 600)]);
        large.moves[0].order = order(10);
        // Frames 1 and 5 move to the second pageblock, which is swept with what came there; above is no room.
        assert_eq!(
            run(&large, ReplayOptions::new(Start::Imposed)),
            (vec![1, 2, 2], 2)
        );
        let outside = trace(&[(1, 0, 4096), (1, 0, 5000), (1, 1, 5)]);
        assert_eq!(
            run(&outside, ReplayOptions::new(Start::Imposed)),
            (vec![1, 2, 2], 2)
        );
    }

    #[test]
    fn rc1_only_a_whole_movable_object_below_a_pageblock_has_a_number() {
        let trace = trace(&[(0, 0, 0)]);
        let mut compaction = RecordedCompaction::new(&trace.moves, 1024).unwrap();
        for (id, frame, n, mobility) in [
            (7, 3, 0, Mobility::Movable),
            (8, 4, 0, Mobility::Unmovable),
            (9, 8, 3, Mobility::Movable),
            (10, 16, 0, Mobility::Reclaimable),
            (11, 512, 9, Mobility::Movable),
            (12, 1024, 0, Mobility::Movable),
        ] {
            compaction.place(id, Frame(frame), order(n), mobility);
        }
        let numbered = |compaction: &RecordedCompaction<'_>| {
            let frames = (0..).zip(&compaction.object_at);
            let known = frames.filter(|(_, id)| **id != NOTHING);
            known.map(|(frame, &id)| (frame, id)).collect::<Vec<_>>()
        };
        assert_eq!(numbered(&compaction), [(3, 7), (8, 9)]);
        compaction.forget(Frame(8));
        compaction.forget(Frame(9));
        assert_eq!(numbered(&compaction), [(3, 7)]);
    }

    #[test]
    fn p5_sweeps_that_find_no_room_cost_no_more_than_the_trace_is_long() {
        let steps = |moves: u32| {
            let mut trace = trace(&[]);
            trace.nframes = 512 * 1000;
            trace.init.truncate(4);
            // Up and down between two pageblocks, and all above is free.
            let moved = |nth| TraceMove {
                at: 1,
                object: 0,
                offset: 0,
                order: Order::ZERO,
                from: 512 * (nth % 2),
                to: None,
            };
            trace.moves = (0..moves).map(moved).collect();
            crate::steps::of(|| {
                let options = ReplayOptions::new(Start::Imposed);
                assert_eq!(run(&trace, options).1, 2, "out of the first pageblock");
            })
        };
        // A move of this kind sweeps a pageblock; what is above is looked at once.
        let (few, many) = (steps(10), steps(1_000));
        let swept = 990 * 512;
        assert!(
            few >= 1000 && many <= few + swept,
            "{few} steps, then {many}"
        );
    }

    #[test]
    fn every_policy_moves_and_no_frame_is_taken_twice() {
        // The replay's observer refuses what is handed out twice.
        for policy in ReplayPolicy::ALL {
            for start in [Start::Imposed, Start::Fresh] {
                let mut trace = trace(&[(10, 0, 500), (50, 2, 1000), (51, 0, 40), (70, 2, 700)]);
                let alloc = |n| TraceOp::alloc(false, order(n), Mobility::Movable, 0, 255, 0);
                trace.ops = (0..100).map(|nth| alloc(nth % 4)).collect();
                trace
                    .ops
                    .extend((6..106).filter(|id| id % 3 == 0).map(|id| {
                        let n = (id - 6) % 4;
                        TraceOp::free(id, order(n as u8), 0)
                    }));
                trace.ops.push(TraceOp::free_part(8, 1, order(0), 0));
                let again = TraceMove {
                    at: 134,
                    ..trace.moves[1]
                };
                trace.moves.push(again);
                let memory = TraceMemory::new(&trace).unwrap();
                let outcome = policy.with(&memory, |subject| {
                    let done = AtomicU64::new(0);
                    replay(subject, &memory, ReplayOptions::new(start), &done)
                });
                let outcome = outcome.unwrap().unwrap();
                assert!(outcome.moved > 0 || start == Start::Fresh, "{policy}");
                assert_eq!(outcome.failures, [0; 11], "{policy}");
            }
        }
    }
}
