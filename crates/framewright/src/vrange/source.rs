//! Sources of frames for areas: a seat in one zone, seats in several, or none.

use crate::frame::{AllocError, CACHED_ORDERS, Seat, Seats};
use crate::platform::FramePlatform;
use crate::units::{Context, Frame, Mobility, Order, Run};
use core::num::NonZeroU64;

/// Identifies the frames of a source: two sources with the same origin give the same frames, and
/// take them back from each other. The seats of one space must have one origin, because each gives
/// back frames that another one took.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Origin(NonZeroU64);

impl Origin {
    /// The origin of sources that share `one`, and take all their frames from it. It is identified
    /// by its address, so it must stay there as long as the space has areas.
    #[must_use]
    pub fn shared<T: ?Sized>(one: &T) -> Self {
        Self::numbered(core::ptr::from_ref(one).cast::<()>().addr() as u64)
    }

    /// The origin with a number that no other source of the space's host has.
    #[must_use]
    pub const fn numbered(number: u64) -> Self {
        match NonZeroU64::new(number) {
            Some(number) => Self(number),
            None => Self(NonZeroU64::MAX),
        }
    }

    /// The origin of a source that first gives what this one gives, and then what `other` does.
    const fn and(self, other: Self) -> Self {
        Self::numbered(self.0.get().rotate_left(21) ^ other.0.get())
    }

    pub(super) const fn number(self) -> u64 {
        self.0.get()
    }
}

/// Where an area's frames come from, and where they go back to.
pub trait FrameSource {
    /// The origin of these frames. Asked once, when a seat is taken; always the same.
    fn origin(&self) -> Origin;

    /// The most frames that this source could give if none were in use: a request for more is
    /// refused before it takes a frame. Asked for each request that no kept area serves; a look at
    /// a number.
    fn frames_in_all(&self) -> u64;

    /// An upper bound of the frames that the source could give at some moment of the call: a
    /// `vmalloc` of more pages fails before it takes a frame. Asked for a request that may wait,
    /// and that is long or meets a source that [is short](Self::is_short). A source that gets
    /// frames back from their users, or does not know how many are free, keeps the default.
    fn frames_free(&self) -> u64 {
        u64::MAX
    }

    /// Takes a run of at most `frames` consecutive frames: the longest that is cheap to find, at
    /// least one. The contents are undefined.
    ///
    /// # Errors
    /// The source has not even one frame to give within the context.
    fn alloc_run(&mut self, frames: u64, context: Context) -> Result<Run, AllocError>;

    /// Gives frames back that were taken from here. A run may be a part of one that was taken, or
    /// of several that lie side by side.
    fn free_run(&mut self, frames: Run);

    /// Whether frames are so scarce that memory kept for speed should go back. Asked when a
    /// `vmalloc` that may wait, and that no kept area serves, is about to take frames: its CPU's
    /// kept areas and the depot's then go back, each time that it is so. A user that takes frames
    /// without the space, and runs short, must drain the space itself.
    fn is_short(&mut self) -> bool {
        false
    }
}

/// The source of a space whose callers map frames of their own: it has none.
#[derive(Clone, Copy, Debug, Default)]
pub struct NoFrames;

impl FrameSource for NoFrames {
    fn origin(&self) -> Origin {
        Origin::numbered(1)
    }

    fn frames_in_all(&self) -> u64 {
        0
    }

    fn alloc_run(&mut self, _frames: u64, _context: Context) -> Result<Run, AllocError> {
        Err(AllocError::Exhausted)
    }

    fn free_run(&mut self, _frames: Run) {}
}

impl<T: FrameSource + ?Sized> FrameSource for &mut T {
    fn origin(&self) -> Origin {
        (**self).origin()
    }

    fn frames_in_all(&self) -> u64 {
        (**self).frames_in_all()
    }

    fn frames_free(&self) -> u64 {
        (**self).frames_free()
    }

    fn alloc_run(&mut self, frames: u64, context: Context) -> Result<Run, AllocError> {
        (**self).alloc_run(frames, context)
    }

    fn free_run(&mut self, frames: Run) {
        (**self).free_run(frames);
    }

    fn is_short(&mut self) -> bool {
        (**self).is_short()
    }
}

/// Unmovable frames, in blocks: the largest that is there at once and fits, or one that is longer
/// by at most a third, of which the rest is freed again. Else smaller ones.
impl<P: FramePlatform> FrameSource for Seat<'_, '_, P> {
    /// The zone, identified by the address of its metadata.
    fn origin(&self) -> Origin {
        Origin::numbered(self.zone().metadata_address())
    }

    /// The frames that exist in the zone, including those in use: one load.
    fn frames_in_all(&self) -> u64 {
        self.zone().present_frames()
    }

    /// The frames that are not in use, wherever they lie. Time: O(CPUs).
    fn frames_free(&self) -> u64 {
        self.zone().frames_not_allocated()
    }

    fn alloc_run(&mut self, frames: u64, context: Context) -> Result<Run, AllocError> {
        let asked = frames.max(1);
        let largest = self.zone().pageblock_order().get();
        let fits = asked.ilog2() as u8;
        let above = fits + 1;
        let is_close = above <= largest && asked >= 3 << above >> 2 && !asked.is_power_of_two();
        // The largest, and if there is none, those that the seat caches: the orders between would
        // mostly be missing too, and cost a search each time.
        let blocks = (1..=fits.min(CACHED_ORDER_MAX))
            .chain((fits.min(largest) > CACHED_ORDER_MAX).then_some(fits.min(largest)))
            .chain(is_close.then_some(above))
            .rev();
        for order in blocks.filter_map(Order::new) {
            if let Some(frame) = self.try_alloc(order, Mobility::Unmovable) {
                let (run, rest) = split(run_of(frame, order), asked);
                if !rest.is_empty() {
                    self.free_run(rest);
                }
                return Ok(run);
            }
        }
        let frame = if context.may_block {
            self.alloc(Order::ZERO, Mobility::Unmovable)?
        } else {
            self.try_alloc(Order::ZERO, Mobility::Unmovable)
                .ok_or(AllocError::Exhausted)?
        };
        Ok(run_of(frame, Order::ZERO))
    }

    fn free_run(&mut self, frames: Run) {
        let freed = self.free_frames(frames);
        debug_assert!(freed.is_ok(), "frames come back to where they came from");
    }

    fn is_short(&mut self) -> bool {
        self.zone().is_low()
    }
}

/// From the first zone, in the order of preference, that has frames at once; only then is a zone
/// stopped. The seats are short of frames when each zone is.
impl<P: FramePlatform, const N: usize> FrameSource for Seats<'_, '_, P, N> {
    fn origin(&self) -> Origin {
        let zones = self.all().iter().map(Seat::origin);
        zones.reduce(Origin::and).unwrap_or(NoFrames.origin())
    }

    fn frames_in_all(&self) -> u64 {
        self.all().iter().map(Seat::frames_in_all).sum()
    }

    fn frames_free(&self) -> u64 {
        self.all().iter().map(Seat::frames_free).sum()
    }

    fn alloc_run(&mut self, frames: u64, context: Context) -> Result<Run, AllocError> {
        let at_once = Context {
            may_block: false,
            ..context
        };
        let mut worst = None;
        for nth in 0..N {
            match self.seat(nth).alloc_run(frames, at_once) {
                Ok(run) => return Ok(run),
                Err(error) => worst = Some(AllocError::worse(worst, error)),
            }
        }
        if context.may_block {
            let frame = self.alloc(0, Order::ZERO, Mobility::Unmovable)?;
            return Ok(run_of(frame, Order::ZERO));
        }
        Err(worst.unwrap_or(AllocError::Exhausted))
    }

    fn free_run(&mut self, frames: Run) {
        let mut rest = frames;
        while !rest.is_empty() {
            let Some((seat, part)) = self.first_part(rest) else {
                debug_assert!(false, "frames come back to where they came from");
                return;
            };
            seat.free_run(part);
            rest = split(rest, part.frames()).1;
        }
    }

    fn is_short(&mut self) -> bool {
        (0..N).all(|nth| self.seat(nth).is_short())
    }
}

/// The largest order that a seat caches.
const CACHED_ORDER_MAX: u8 = CACHED_ORDERS as u8 - 1;

/// The first `frames` of a run, and the rest.
fn split(run: Run, frames: u64) -> (Run, Run) {
    let frames = frames.min(run.frames());
    let part =
        |start, frames| Run::new(start, frames).expect("it ends where the run does, or before");
    let behind = Frame(run.start().0 + frames);
    (
        part(run.start(), frames),
        part(behind, run.frames() - frames),
    )
}

fn run_of(frame: Frame, order: Order) -> Run {
    Run::new(frame, order.frames()).expect("a block of a zone is below the number range's end")
}

#[cfg(all(test, not(any(loom, shuttle))))]
mod tests {
    extern crate std;
    use super::*;
    use crate::frame::{Frames, Zone, ZoneLayout};
    use crate::platform::SingleThread;
    use crate::policy::Config;
    use crate::units::CpuId;
    use std::vec;
    use std::vec::Vec;

    #[test]
    fn a_seat_gives_the_largest_run_that_one_block_has_and_takes_any_part_of_it_back() {
        let layout = ZoneLayout::new(Frame(0), 2048);
        let mut memory = vec![0; layout.words_needed().unwrap()];
        let zone = Zone::new(
            &layout,
            &Config::default(),
            &mut memory,
            SingleThread::new(),
        )
        .unwrap();
        zone.add(Run::new(Frame(0), 2048).unwrap()).unwrap();
        let mut seat = zone.seat(CpuId(0)).unwrap();
        let lengths = [0, 1, 2, 3, 5, 7, 8, 11, 15, 16, 95, 100, 511, 600].map(|asked| {
            let run = seat.alloc_run(asked, Context::NOWAIT).unwrap();
            let got = run.frames();
            // Gives it back in parts that are no blocks, and not from the front.
            let third = got / 3;
            let part = |from: u64, frames| Run::new(Frame(run.start().0 + from), frames).unwrap();
            seat.free_run(part(third, got - third));
            seat.free_run(part(0, third));
            got
        });
        assert_eq!(lengths, [1, 1, 2, 3, 4, 7, 8, 8, 15, 16, 64, 100, 511, 512]);
        zone.drain();
        zone.verify().unwrap();
        assert_eq!(zone.stats().nr_free_pages, 2048);
    }

    #[test]
    fn where_only_single_frames_are_left_single_frames_are_given_until_there_are_none() {
        let layout = ZoneLayout::new(Frame(0), 1024);
        let mut memory = vec![0; layout.words_needed().unwrap()];
        let zone = Zone::new(
            &layout,
            &Config::default(),
            &mut memory,
            SingleThread::new(),
        )
        .unwrap();
        zone.add(Run::new(Frame(0), 1024).unwrap()).unwrap();
        let mut seat = zone.seat(CpuId(0)).unwrap();
        let mut all = Vec::new();
        while let Ok(run) = seat.alloc_run(1024, Context::ANY) {
            all.push(run);
        }
        assert_eq!(all.iter().map(|run| run.frames()).sum::<u64>(), 1024);
        assert_eq!(seat.alloc_run(1, Context::ANY), Err(AllocError::Exhausted));
        assert_eq!(
            seat.alloc_run(1, Context::NOWAIT),
            Err(AllocError::Exhausted)
        );
        for frame in (0..1024).step_by(2) {
            seat.free_run(Run::new(Frame(frame), 1).unwrap());
        }
        let mut singles = 0;
        while let Ok(run) = seat.alloc_run(64, Context::ANY) {
            assert_eq!(run.frames(), 1);
            singles += 1;
        }
        assert_eq!(singles, 512);
        // Gives all back at once: runs of many allocations, side by side.
        seat.free_run(Run::new(Frame(0), 1024).unwrap());
        zone.drain();
        zone.verify().unwrap();
        assert_eq!(zone.stats().nr_free_pages, 1024);
    }

    #[test]
    fn several_zones_give_in_order_of_preference_and_take_runs_over_their_border() {
        // The zones lie side by side, so a run may go back over the border.
        let layouts = [1024, 0].map(|start| ZoneLayout::new(Frame(start), 1024));
        let mut memory = layouts.map(|layout| vec![0; layout.words_needed().unwrap()]);
        let [a, b] = &mut memory;
        let zone = |layout: &ZoneLayout, memory| {
            let zone = Zone::new(layout, &Config::default(), memory, SingleThread::new()).unwrap();
            zone.add(Run::new(layout.start, 1024).unwrap()).unwrap();
            zone
        };
        let zones = [zone(&layouts[0], a), zone(&layouts[1], b)];
        let mut seats = Frames::new(&zones).seats::<2>(CpuId(0)).unwrap();
        for context in [Context::NOWAIT, Context::ANY] {
            let mut runs = Vec::new();
            while let Ok(run) = seats.alloc_run(100, context) {
                runs.push(run);
                let is_short = zones.iter().all(Zone::is_low);
                assert_eq!(seats.is_short(), is_short);
            }
            let taken: u64 = runs.iter().map(|run| run.frames()).sum();
            assert_eq!(taken, 2048);
            assert_eq!(seats.alloc_run(1, context), Err(AllocError::Exhausted));
            // All of the preferred zone comes before any of the other.
            let preferred = runs.iter().take_while(|run| run.start().0 >= 1024);
            assert_eq!(preferred.map(|run| run.frames()).sum::<u64>(), 1024);
            seats.free_run(Run::new(Frame(0), 1000).unwrap());
            seats.free_run(Run::new(Frame(1000), 1048).unwrap());
            zones.iter().for_each(|zone| {
                zone.drain();
                zone.verify().unwrap();
                assert_eq!(zone.stats().nr_free_pages, 1024);
            });
        }
    }
}
