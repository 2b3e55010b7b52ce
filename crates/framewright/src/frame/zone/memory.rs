//! Operations on a zone as a whole, with all CPUs stopped: memory that comes and goes, labels,
//! isolation, allocation at a place.

use super::super::AllocError;
use super::super::pageblock::Tag;
use super::run_memo::Sought;
use super::{StoppedZone, Zone};
use crate::platform::FramePlatform;
use crate::policy::{Class, Label};
use crate::seats::SeatSet;
use crate::units::{Frame, Mobility, Order, Run, RunError};
use core::ops::Range;

/// How often to search for a run while other CPUs take the run that was found.
const CONTIGUOUS_TRIES: usize = 8;

impl<'m, P: FramePlatform> Zone<'m, P> {
    /// Makes the frames of `run` exist, and free. A pageblock has the label and the isolation that
    /// it had when its last frame [went](Self::remove); at first it is labelled movable. Memory
    /// that exists from the start is added in the same way, run by run.
    ///
    /// Any run inside the zone. Stops all CPUs; O(pageblocks), and O(frames) in each that had frames before, or does not
    /// have all of them afterwards.
    ///
    /// # Errors
    /// If the run is not inside, or a frame of it exists already.
    pub fn add(&self, run: Run) -> Result<(), RunError> {
        let offsets = self.offsets(run)?;
        self.at_rest(|stopped| {
            self.none_present(&offsets)?;
            self.for_each_part(&offsets, |id, slots| {
                self.tag_present(id, &slots);
                let mut held = stopped.hold(id);
                held.add(slots);
                held.unlock();
            });
            stopped.count_change();
            self.set_present_frames(self.present_frames() + run.frames());
            Ok(())
        })
    }

    /// Makes the frames of `run`, all of them free, stop existing.
    ///
    /// Any run. Stops all CPUs and drains; O(frames).
    ///
    /// # Errors
    /// If the run is not inside, a frame of it does not exist or is not free, or its pageblock is being
    /// emptied.
    pub fn remove(&self, run: Run) -> Result<(), RunError> {
        let offsets = self.offsets(run)?;
        self.at_rest(|stopped| {
            self.none_apart(&offsets)?;
            self.all_free(stopped, &offsets)?;
            self.for_each_part(&offsets, |id, slots| {
                let mut held = stopped.hold(id);
                for slot in slots.clone() {
                    self.set_tag(id << self.map.pageblock_order | slot, Tag::ABSENT);
                }
                held.remove(slots);
                held.unlock();
            });
            self.set_present_frames(self.present_frames() - run.frames());
            Ok(())
        })
    }

    /// Allocates exactly the block of `order` at `frame`, whatever the policy would choose. The
    /// pageblock's label stays.
    ///
    /// Stops all CPUs.
    ///
    /// # Errors
    /// If the block is not aligned or not inside, or a frame of it does not exist, is not free, or
    /// is isolated.
    pub fn alloc_at(&self, frame: Frame, order: Order, mobility: Mobility) -> Result<(), RunError> {
        let run = Run::new(frame, order.frames()).ok_or(RunError::Outside)?;
        if !frame.is_aligned(order) || order > self.max_order() {
            return Err(RunError::Outside);
        }
        self.alloc_run_at(run, mobility)
    }

    /// Allocates every frame of `run`, all of which are free, as the fewest aligned blocks. Each is
    /// an allocation of its own; the caller frees them one by one, or together by
    /// [`free_range`](super::super::Seat::free_range).
    ///
    /// Stops all CPUs; drains if something is in the way. O(blocks).
    ///
    /// # Errors
    /// If the run is not inside, or a frame of it does not exist, is not free, or is isolated.
    pub fn alloc_run_at(&self, run: Run, mobility: Mobility) -> Result<(), RunError> {
        let offsets = self.offsets(run)?;
        let stopped = self.stop();
        if self.all_free(&stopped, &offsets).is_err() {
            stopped.drain();
            self.all_free(&stopped, &offsets)?;
        }
        let first = offsets.start >> self.map.pageblock_order;
        let last = (offsets.end - 1) >> self.map.pageblock_order;
        if let Some(id) = (first..=last).find(|&id| self.meta(id).is_isolated()) {
            return Err(RunError::Isolation(
                self.frame(id << self.map.pageblock_order),
            ));
        }
        self.take_run_at(&stopped, &offsets, mobility);
        Ok(())
    }

    /// Allocates `frames` contiguous free frames, the first at a multiple of `align` frames: the
    /// lowest such run. See [`alloc_run_at`](Self::alloc_run_at) for what it consists of.
    ///
    /// Stops all CPUs to drain, and once more to take the run that was found, or to see that nothing moved while
    /// none was found; CPUs work during the search between the two. Stops none for a run that is as long as one
    /// that was not found, or longer, as long as nothing was freed since (F9), nor for more frames than are free.
    /// Time: O(pageblocks), and for a request of several pageblocks O(pageblocks / its length) where hardly
    /// anything is free.
    ///
    /// # Errors
    /// [`AllocError::Impossible`] if no such run of frames exists; this stops no CPU.
    /// [`AllocError::Exhausted`] if fewer frames are free, [`AllocError::Fragmented`] if no such
    /// run is. CPUs work during the search: frames that another CPU took into its cache after the
    /// drain count as taken. If a CPU frees something during a search that finds nothing, the search
    /// is repeated, and at last made while all CPUs stand still (F8).
    #[inline(never)]
    pub fn alloc_contiguous(
        &self,
        frames: u64,
        align: u64,
        mobility: Mobility,
    ) -> Result<Run, AllocError> {
        let wanted = Sought::new(frames, align).ok_or(AllocError::Impossible)?;
        if frames > self.present_frames() || self.find_present(wanted).found.is_none() {
            return Err(AllocError::Impossible);
        }
        if frames > self.frames_not_allocated() {
            return Err(AllocError::Exhausted);
        }
        if self
            .run_memo()
            .is_in_vain(wanted, mobility, self.happened())
        {
            return Err(self.why_no_run(frames, mobility));
        }
        // Frames in caches count as free, so they go back first.
        let drained = self.at_rest(|_| (self.happened(), self.handed_out()));
        for _ in 1..CONTIGUOUS_TRIES {
            let happened = self.happened();
            if let Some(offsets) = self.find_free(wanted, mobility).found {
                let stopped = self.stop();
                if self.is_run_free(&offsets, mobility) {
                    return Ok(self.take_contiguous(&stopped, &offsets, mobility));
                }
                // Other CPUs were faster. They go on, and the search continues behind them.
            } else {
                // What a CPU freed before it took a frame that the search found taken is counted
                // and visible after this.
                let _stopped = self.stop();
                if self.happened() == happened {
                    if (happened, self.handed_out()) == drained {
                        // So no frame went into a cache since the drain.
                        self.run_memo().note(wanted, mobility, happened);
                    }
                    return Err(self.why_no_run(frames, mobility));
                }
                // A run may have become free where the search had passed by.
            }
        }
        // Other CPUs took each run that was found, or freed frames behind each search, so the last
        // one is made while they stand still.
        self.at_rest(|stopped| {
            let found = self.alloc_contiguous_of(stopped, frames, align, mobility);
            found.ok_or_else(|| {
                self.run_memo().note(wanted, mobility, self.happened());
                self.why_no_run(frames, mobility)
            })
        })
    }

    /// A run as [`alloc_contiguous`](Self::alloc_contiguous) finds it, while all CPUs stand still and nothing is
    /// cached.
    pub(in super::super) fn alloc_contiguous_of(
        &self,
        stopped: &StoppedZone<'_, 'm, P>,
        frames: u64,
        align: u64,
        mobility: Mobility,
    ) -> Option<Run> {
        let found = self
            .find_free(Sought::new(frames, align)?, mobility)
            .found?;
        Some(self.take_contiguous(stopped, &found, mobility))
    }

    fn take_contiguous(
        &self,
        stopped: &StoppedZone<'_, 'm, P>,
        offsets: &Range<usize>,
        mobility: Mobility,
    ) -> Run {
        self.take_run_at(stopped, offsets, mobility);
        let first = self.frame(offsets.start);
        Run::new(first, offsets.len() as u64).expect("it is inside the zone")
    }

    /// Labels the whole pageblocks of `run`.
    ///
    /// What is allocated in them stays. Stops all CPUs and drains, so that no cached block from
    /// there is handed out against the new label.
    ///
    /// # Errors
    /// If the run is not inside, or does not start and end at a pageblock, or one is being emptied.
    pub fn set_label(&self, run: Run, label: Label) -> Result<(), RunError> {
        let ids = self.pageblocks_of(run)?;
        self.at_rest(|stopped| {
            self.none_apart(&self.offsets_of(&ids))?;
            for id in ids {
                stopped.relabel(id, label, self.meta(id).is_isolated());
            }
            Ok(())
        })
    }

    /// Sets up to `pageblocks` entirely free pageblocks aside as the high-order reserve, from the
    /// lowest address on, but never more than a hundredth of all. Returns how many the reserve has
    /// then.
    pub fn reserve_high_order(&self, pageblocks: usize) -> usize {
        let stopped = self.stop();
        let limit = pageblocks.min(self.map.blocks / 100);
        let is_reserved = |id: &usize| self.meta(*id).label() == Label::HighOrder;
        let mut reserved = (0..self.map.blocks).filter(is_reserved).count();
        let empty = self.policy.classes().number(Class::Empty);
        for id in 0..self.map.blocks {
            let meta = self.meta(id);
            let is_empty = self.facts(id).free as u64 == self.map.block_frames();
            debug_assert!(is_empty || meta.class() != empty || self.config.fallback.is_labelled());
            let is_plain = matches!(meta.label(), Label::Of(_)) && !meta.is_isolated();
            if reserved < limit && is_empty && is_plain {
                stopped.relabel(id, Label::HighOrder, false);
                reserved += 1;
            }
        }
        reserved
    }

    /// Isolates the pageblocks of `run`: nothing is allocated there until
    /// [`unisolate`](Self::unisolate), but frees succeed. Returns the frames still allocated.
    ///
    /// Stops all CPUs and drains, so that what was cached is free.
    ///
    /// # Errors
    /// If the run is not inside, does not start and end at a pageblock, or one is isolated already or
    /// being emptied.
    pub fn isolate(&self, run: Run) -> Result<u64, RunError> {
        self.set_isolated(run, true)
    }

    /// Ends the isolation of the pageblocks of `run`. Returns the frames still allocated.
    ///
    /// # Errors
    /// If the run is not inside, does not start and end at a pageblock, or one is not isolated or is
    /// being emptied.
    pub fn unisolate(&self, run: Run) -> Result<u64, RunError> {
        self.set_isolated(run, false)
    }

    fn set_isolated(&self, run: Run, isolated: bool) -> Result<u64, RunError> {
        let ids = self.pageblocks_of(run)?;
        self.at_rest(|stopped| {
            self.none_apart(&self.offsets_of(&ids))?;
            if let Some(id) = ids
                .clone()
                .find(|&id| self.meta(id).is_isolated() == isolated)
            {
                return Err(RunError::Isolation(
                    self.frame(id << self.map.pageblock_order),
                ));
            }
            let mut allocated = 0;
            for id in ids {
                stopped.relabel(id, self.meta(id).label(), isolated);
                let facts = self.facts(id);
                allocated += u64::from(facts.movable() + facts.nonmovable());
            }
            Ok(allocated)
        })
    }

    /// Gives all cached blocks back to their pageblocks. Stops all CPUs.
    pub fn drain(&self) {
        self.at_rest(|stopped| stopped.set.unseated_counters().drains.add(1));
    }

    /// Pins the pageblock of `frame`: it cannot be emptied until as many [`unpin`](Self::unpin)s,
    /// and no contents move out of it once this has returned. Returns the number of pins. Stops all
    /// CPUs.
    ///
    /// # Errors
    /// If the frame is not in the zone, its pageblock has 2^32 - 1 pins, or [`RunError::Apart`]
    /// if it is being emptied just now: contents may be on their way already. It opens again soon;
    /// but a client that is called to move contents must not wait for that, because it would wait
    /// for itself.
    pub fn pin(&self, frame: Frame) -> Result<u32, RunError> {
        self.change_pins(frame, 1)
    }

    /// Takes back one pin of the pageblock of `frame`. Returns the number of pins.
    ///
    /// # Errors
    /// If the frame is not in the zone, or its pageblock has no pin.
    pub fn unpin(&self, frame: Frame) -> Result<u32, RunError> {
        self.change_pins(frame, -1)
    }

    fn change_pins(&self, frame: Frame, by: i32) -> Result<u32, RunError> {
        // Its pageblock may begin before the zone, and end behind it.
        let offset = self.offset(frame).filter(|_| self.contains(frame));
        let offset = offset.ok_or(RunError::Outside)?;
        let id = offset >> self.map.pageblock_order;
        let stopped = self.stop();
        let pins = self.pins(id).checked_add_signed(by);
        let pins = pins.ok_or(RunError::Pins(frame))?;
        self.none_apart(&(offset..offset + 1))?;
        let mut held = stopped.hold(id);
        held.set_pins(pins);
        held.unlock();
        Ok(pins)
    }

    /// Takes the free frames `offsets` as the fewest aligned blocks.
    pub(super) fn take_run_at(
        &self,
        stopped: &StoppedZone<'_, 'm, P>,
        offsets: &Range<usize>,
        mobility: Mobility,
    ) {
        let unseated = self.unseated_counters();
        let mut at = offsets.start;
        while at < offsets.end {
            let frame = self.frame(at);
            let aligned = frame.0.trailing_zeros().min(u32::from(self.map.max_order));
            let order = ((offsets.end - at).ilog2()).min(aligned);
            let order = Order::new(order as u8).expect("the largest order is an order");
            let part = Order::new(order.get().min(self.map.pageblock_order)).unwrap_or(order);
            for start in (at..at + order.frames() as usize).step_by(part.frames() as usize) {
                let mut held = stopped.hold(start >> self.map.pageblock_order);
                let taken = held.take_at(self.slot(start), part, mobility);
                debug_assert!(taken, "the frames of the run are free");
                held.unlock();
            }
            self.set_tag(at, Tag::live(order, mobility));
            unseated.pgalloc[mobility.index()].add(order.frames());
            unseated.net.add(order.frames());
            at += order.frames() as usize;
        }
    }

    /// Whether no CPU empties a pageblock that has a frame of `offsets`. For use while all CPUs
    /// stand still.
    fn none_apart(&self, offsets: &Range<usize>) -> Result<(), RunError> {
        let mut ids = self.pageblock_of(offsets.start)..self.pageblock_of(offsets.end - 1) + 1;
        match ids.find(|&id| self.is_apart(id)) {
            Some(id) => Err(RunError::Apart(
                self.frame(offsets.start.max(id << self.map.pageblock_order)),
            )),
            None => Ok(()),
        }
    }

    fn all_free(
        &self,
        stopped: &StoppedZone<'_, 'm, P>,
        offsets: &Range<usize>,
    ) -> Result<(), RunError> {
        let mut result = Ok(());
        self.for_each_part(offsets, |id, slots| {
            let held = stopped.hold(id);
            for slot in slots {
                if result.is_ok() && !held.is_free(slot) {
                    let offset = id << self.map.pageblock_order | slot;
                    let frame = self.frame(offset);
                    result = Err(if self.is_absent(offset) {
                        RunError::Absent(frame)
                    } else {
                        RunError::NotFree(frame)
                    });
                }
            }
            held.unlock();
        });
        result
    }
}

impl<P> Zone<'_, P> {
    pub(crate) fn offsets(&self, run: Run) -> Result<Range<usize>, RunError> {
        let start = self.offset(run.start()).ok_or(RunError::Outside)?;
        if run.is_empty() || run.start() < self.map.start || run.end() > self.map.end {
            return Err(RunError::Outside);
        }
        Ok(start..start + run.frames() as usize)
    }

    pub(crate) fn pageblocks_of(&self, run: Run) -> Result<Range<usize>, RunError> {
        let offsets = self.offsets(run)?;
        if self.slot(offsets.start) != 0 || self.slot(offsets.end) != 0 {
            return Err(RunError::NotWholePageblocks);
        }
        let shift = self.map.pageblock_order;
        Ok(offsets.start >> shift..offsets.end >> shift)
    }

    /// Calls `part` with each pageblock of a range and the range's slots in it.
    pub(super) fn for_each_part(
        &self,
        offsets: &Range<usize>,
        mut part: impl FnMut(usize, Range<usize>),
    ) {
        let frames = self.map.block_frames() as usize;
        let mut at = offsets.start;
        while at < offsets.end {
            let slot = self.slot(at);
            let here = (frames - slot).min(offsets.end - at);
            part(at >> self.map.pageblock_order, slot..slot + here);
            at += here;
        }
    }
}
