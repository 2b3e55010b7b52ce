//! Mapping, unmapping, flushing and zeroing: what a space asks of its platform.

use crate::units::{Context, Frame, Page, PageAccess, PageRange, Run};
use core::fmt;

/// Why something was not mapped or unmapped. Nothing has changed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum MapError {
    /// No memory for a structure that the platform needs for mapping, such as a page table.
    NoMemory,
    /// The host allows no more mappings than `max`: something must be unmapped first.
    Limit {
        /// How many mappings it allows.
        max: u64,
    },
    /// The page is not one of those that the platform maps.
    Page(Page),
    /// The frame is not one of those that the platform has.
    Frame(Frame),
    /// The host refused for a reason of its own; on Linux an errno.
    Refused(i32),
}

impl fmt::Display for MapError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoMemory => f.write_str("no memory for the platform's page tables"),
            Self::Limit { max } => {
                write!(
                    f,
                    "the host's limit of {max} mappings (vm.max_map_count on Linux) is reached"
                )
            }
            Self::Page(page) => write!(f, "page {page} is not in the platform's window"),
            Self::Frame(frame) => write!(f, "frame {frame} is not in the platform's memory"),
            Self::Refused(code) => write!(f, "the host refused with error {code}"),
        }
    }
}

impl core::error::Error for MapError {}

/// Where a platform takes frames for its page tables, one at a time, while the engine has it map.
///
/// In a call of the engine these are frames of the calling seat's own source, within the request's context. The value
/// can do no more than take a frame and give one back, so nothing called through it comes back to the address space.
pub trait TableSource {
    /// What the caller of the engine may do meanwhile. The frames obey it by themselves.
    fn context(&self) -> Context;

    /// Takes a frame for a table. Its contents are undefined, and it is unmovable. It is the platform's from here on: for as long
    /// as the platform wants, and counted as in use.
    ///
    /// `None` if the source has none within the context. The platform returns [`MapError::NoMemory`] then.
    fn take_table(&mut self) -> Option<Frame>;

    /// Gives back a frame that was taken here and became no table after all, or is one no longer.
    fn give_back(&mut self, frame: Frame);

    /// The same, for a platform that may be wrong about it: false, and nothing has changed, if the frame was not taken from such
    /// a source, or is free. A source that does not know that takes any.
    fn try_give_back(&mut self, frame: Frame) -> bool {
        self.give_back(frame);
        true
    }
}

/// No frames: for a platform that needs none, or whose tables are there. A call that asks for its context may do anything.
impl TableSource for () {
    #[inline(always)]
    fn context(&self) -> Context {
        Context::ANY
    }

    fn take_table(&mut self) -> Option<Frame> {
        None
    }

    fn give_back(&mut self, _frame: Frame) {}
}

/// What an address space asks of its platform: virtual pages in front of frames, by three verbs about page
/// tables, and zeroing.
///
/// The engine calls none of the three under a lock that another CPU could need for an ordinary request,
/// and never two at a time for the same page. It may call them on behalf of another CPU, which
/// waits: so they must not call the engine's ranges back.
///
/// CPUs map and unmap different pages at once, also pages of one table. An [`unmap`](Self::unmap) takes all pages that one call
/// of [`map`](Self::map) or [`map_frames`](Self::map_frames) mapped, or none of them. So a platform that maps a run by
/// large entries need not split one.
///
/// # When a mapping is visible
/// When [`map`](Self::map) has returned, an access of the calling CPU reaches the frames. So does an access of another
/// CPU that learns of the page from this one, by a release store and a load that acquires it. Where CPUs read page tables
/// out of this order, or keep entries that were empty, the platform sees to it. On RISC-V `map` ends with a fence for its
/// own CPU, and a CPU that faults nevertheless executes one and tries again; on Arm `map` ends with a barrier that reaches
/// all CPUs; x86-64 needs neither.
///
/// A call that fails has mapped nothing, not even for a moment: a CPU may keep what it finds by chance, and the engine
/// flushes nothing behind such a call. So a platform takes page tables before it writes the first entry.
///
/// # Page tables
/// A platform that needs page tables takes their frames from `tables`: the source of the seat that maps. What it
/// keeps is its own, unmovable, and counts as allocated in the zone; no area and no count of the space has it. A call that
/// fails gives back what it took, or keeps it as a table that maps nothing yet, which a later call finds. An unmap gets no
/// source, because it needs no new table. A platform whose host has the tables ignores all this.
///
/// # The flush contract
/// After [`unmap`](Self::unmap) an access through the pages may still reach their old frames, by a
/// translation that a CPU has kept. It cannot after a [`flush_all`](Self::flush_all) that *began*
/// after the unmap ended. Before that the engine neither maps the pages again nor hands out their
/// frames. A platform whose `unmap` removes the translations at once implements `flush_all` as a
/// no-op.
pub trait RangePlatform: super::FramePlatform {
    /// Maps as many pages as `frames` has frames, from `at` on, in order, for that access.
    ///
    /// None of the pages is mapped before. There are only as many calls as runs, so a platform may
    /// use larger mappings than one page.
    ///
    /// # Errors
    /// None of the pages is mapped then, nor was for a moment.
    fn map(
        &self,
        at: Page,
        frames: Run,
        access: PageAccess,
        tables: &mut impl TableSource,
    ) -> Result<(), MapError>;

    /// Maps a page to each frame, in order, from `at` on: a caller's frames, wherever they lie \[`vm_map_ram`\]. By
    /// default one [`map`](Self::map) for those that lie side by side. A platform with tables of entries can write
    /// all in one go.
    ///
    /// # Errors
    /// How many pages are mapped, the first ones, and why the next one is not. The engine unmaps those, and flushes before it
    /// uses them again.
    fn map_frames(
        &self,
        at: Page,
        frames: &[Frame],
        access: PageAccess,
        tables: &mut impl TableSource,
    ) -> Result<(), (u64, MapError)> {
        let mut done = 0;
        while let Some(&first) = frames.get(done as usize) {
            let run = first_run(&frames[done as usize..]).ok_or(MapError::Frame(first));
            let page = at.0.checked_add(done).ok_or(MapError::Page(at));
            let mapped = page.and_then(|page| {
                let run = run?;
                self.map(Page(page), run, access, tables).map(|()| run)
            });
            done += mapped.map_err(|error| (done, error))?.frames();
        }
        Ok(())
    }

    /// Unmaps every page of the range. Some of them may not be mapped.
    ///
    /// # Errors
    /// Each page is as it was. The engine tries again later, and uses none of them before.
    fn unmap(&self, range: PageRange) -> Result<(), MapError>;

    /// Waits until no CPU has a translation left of any page that was unmapped before the call.
    /// Cannot fail. May take microseconds for each CPU.
    ///
    /// May be called with all CPUs stopped, or by a free, with interrupts off if the engine was
    /// called that way. CPUs that wait meanwhile are in [`relax`](super::FramePlatform::relax),
    /// which must answer the interrupt that this sends.
    fn flush_all(&self);

    /// Fills the frames with zeroes: the one thing that the engine itself does to frames' contents.
    fn zero(&self, frames: Run);

    /// Called in the midst of long calls, where the calling CPU has left its seats and holds no lock: between parts of
    /// at most 16 frames taken, zeroed or copied, 1,024 pages mapped, 32 frames given back, or fewer frames if their
    /// [source](crate::frame::FrameSource::slow_calls) says that they took a while; and of some 8 runs or 1,024 pages
    /// of small areas unmapped, and as many pages of long ones. Such a part goes on to the end of its 64 pages, and has
    /// what is free or waits before it in the span besides. A kernel that calls the engine with interrupts off may let those
    /// in that wait. A handler finds the caller's seats taken: it works with seats of its own, of another CPU's number, and
    /// may make any call with them.
    ///
    /// Some parts are longer: for a request that may not block, one call maps all of its pages if their frames are one
    /// run, frames that came in one run go back in one, a lazy area is unmapped as a whole, and where nothing of what came
    /// first could be unmapped, a part tries more.
    ///
    /// It must not unwind: the call may have done by then what it was made for. By default it does nothing.
    #[inline]
    fn interrupt_window(&self) {}
}

/// The frames at the beginning that follow one another; `None` if there is none, or if the first one's number is
/// too high for a run.
fn first_run(frames: &[Frame]) -> Option<Run> {
    let (&first, rest) = frames.split_first()?;
    let more = rest
        .iter()
        .zip(1..)
        .take_while(|&(&frame, nth)| first.checked_add(nth) == Some(frame))
        .count();
    // The last frame of the number range has no frame behind it that could end a run.
    let run = Run::new(first, more as u64 + 1).or_else(|| Run::new(first, more as u64));
    run.filter(|run| !run.is_empty())
}

impl<T: RangePlatform + ?Sized> RangePlatform for &T {
    fn map(
        &self,
        at: Page,
        frames: Run,
        access: PageAccess,
        tables: &mut impl TableSource,
    ) -> Result<(), MapError> {
        (**self).map(at, frames, access, tables)
    }

    fn map_frames(
        &self,
        at: Page,
        frames: &[Frame],
        access: PageAccess,
        tables: &mut impl TableSource,
    ) -> Result<(), (u64, MapError)> {
        (**self).map_frames(at, frames, access, tables)
    }

    fn unmap(&self, range: PageRange) -> Result<(), MapError> {
        (**self).unmap(range)
    }

    fn flush_all(&self) {
        (**self).flush_all();
    }

    fn zero(&self, frames: Run) {
        (**self).zero(frames);
    }

    #[inline]
    fn interrupt_window(&self) {
        (**self).interrupt_window();
    }
}
