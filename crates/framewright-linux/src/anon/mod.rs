// UNSAFETY: the handler of faults knows a region by its address, and the region must live as long
// as it is known.

//! Anonymous memory with frames that really move: user addresses stay, the frames behind them
//! change.
//!
//! ```text
//!   pages      0     1     2     3     4     5        a region: a window of address space
//!            ┌─────┬ ─ ─ ┬─────┬ ─ ─ ┬─────┬ ─ ─ ┐
//!            │  7  │     │  9  │     │ 11  │           one mapping: frame = page + 7
//!            └──┬──┴ ─ ─ ┴──┬──┴ ─ ─ ┴──┬──┴ ─ ─ ┘
//!   migrate     ▼           ▼           ▼             1. one call takes the access away
//!            ┌─────┬ ─ ─ ┬─────┬ ─ ─ ┬─────┬ ─ ─ ┐    2. contents are copied
//!            │ 520 │     │ 522 │     │ 524 │          3. one call: frame = page + 520
//!            └─────┴ ─ ─ ┴─────┴ ─ ─ ┴─────┴ ─ ─ ┘    4. one call fills the page tables
//! ```
//!
//! [`Anon::populate`] puts frames of the engine's zone, all zero, behind pages; from then on users
//! load and store directly at their addresses. [`Anon::discard`] gives the frames back. As a
//! [`Migrate`] it moves contents in batches of up to 64. The cost of a batch is the number of
//! mappings that it ends in, so targets are exchanged until few remain (1.2 µs each, with all calls
//! together 2 to 3 µs). Blocks of any order move as a whole.
//!
//! # When a thread touches a page that moves
//! The kernel sends it SIGSEGV, and a handler lets it sleep until the batch is done: then the load
//! or store is made again. It sees the old contents before or the new ones after, which are the
//! same. This holds for loads and stores. A system call that is handed such an address says EFAULT
//! if the page moves at that moment: [pin](Anon::pin) pages that are handed to the kernel, and
//! pages that devices write to.
//!
//! A program may have other handlers of signals. Such a handler must not touch a region if its signal can come in a
//! thread that calls the region's methods, or in which the engine moves pages, as it may in each that asks it for
//! memory. If the signal comes while that thread holds the gate, the handler waits for the gate, and the thread waits
//! for the handler: neither goes on. Block such signals in those threads, or leave the region alone in the handler.
//!
//! # Pages that are not populated
//! A thread must not touch them. If it does, it mostly gets SIGSEGV, as at any address without memory. But a page
//! between two populated ones may show a frame of another user, because one mapping shows them all: like freed
//! memory of a heap, which may have another user by then.
//!
//! # Invariants
//! - **AN1** A populated page shows its frame, or nothing; no other populated page shows that frame.
//! - **AN2** While contents are copied, no thread has access to the page: the call that took it away
//!   has also taken the translations away, on all CPUs.
//! - **AN3** Pinned pages keep their frames.
//! - **AN4** A batch that does not fit into the limit of mappings is refused before anything is
//!   done. A page whose mapping the kernel refuses later is hidden, not lost: a thread that touches
//!   it tries again to show it.
//! - **AN5** When a populate has succeeded, all of its pages are populated, by it or by another thread meanwhile.
//!
//! # Locks
//! A region's gate, for every change of it; a batch holds it for some 50 µs. A thread that holds a lock of the
//! engine never takes the gate. Threads allocate and free frames without the gate.
//!
//! # What is not here
//! Sharing between pages (one page a frame); forking: a child has no access to a region, and ends
//! by SIGSEGV if it touches one; paging out, which [`paged`](crate::paged) does.
//!
//! # Sources
//! Attempts that failed: docs/design/0012-moving-frames-on-linux.md. Fault-around in Linux's
//! MADV_POPULATE_READ (5.14); process_madvise on the caller itself (6.14).

mod error;
mod fill;
mod moves;
mod plan;
mod region;
mod table;

#[cfg(test)]
mod tests;

pub use error::{AnonError, PageError};

use crate::fault::{ListedRegion, Touched};
use crate::gate::SignalGate;
use crate::ram::Ram;
use crate::window::Window;
use framewright::frame::{AllocError, Seat};
use framewright::platform::{FramePlatform, MapError, RangePlatform};
use framewright::reclaim::{Migrate, Move};
use framewright::{Frame, Mobility, Order, Page, PageAccess, PageRange, Run};
pub(crate) use region::pause;
use region::{AnonCounts, AnonRegion};
use std::ops::Range;
use std::sync::Arc;
use table::AnonTable;

/// A discard of this many pages takes the access away; of fewer pages it would cost a mapping each.
const UNMAP_PAGES: usize = 16;

/// What a region did since it was made.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct AnonStats {
    /// Batches of moves.
    pub batches: u64,
    /// Pages with contents that moved.
    pub moved_pages: u64,
    /// Calls that took access away.
    pub closed: u64,
    /// Calls that showed frames: with `closed`, what moving costs beyond copying.
    pub shown: u64,
    /// Batches and mappings that the limit, or the kernel, did not allow.
    pub refused: u64,
    /// How often a thread waited because it touched a page at a wrong moment.
    pub waits: u64,
}

/// A region of anonymous memory. See the [module's description](self).
///
/// If a region is dropped while pages are populated, their frames stay allocated: the region has no seat with which
/// to free them. [Discard](Self::discard) its range first.
///
/// ```
/// use framewright::reclaim::{Migrate, Move, MoveState};
/// use framewright::{Frame, Mobility, Order, PageRange, frame::ZoneLayout};
/// use framewright_linux::{Anon, Host, Options};
/// use std::sync::Arc;
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let host = Host::fenced(&Options::new(ZoneLayout::new(Frame(0), 4096)))?;
/// let mut seat = host.seat()?;
/// let anon = Anon::new(Arc::clone(host.ram_shared()), 1024)?;
/// let page = anon.range().start();
/// let one = PageRange::new(page, 1).unwrap();
/// anon.populate(&mut seat, one, Order::ZERO)?;
/// let address = anon.address(page)?.cast::<u64>();
/// // SAFETY: populated, and no other thread uses it.
/// unsafe { address.write(42) };
/// let to = seat.alloc(Order::ZERO, Mobility::Movable)?;
/// let from = anon.frame_of(page).unwrap();
/// let mut moves = [Move { from, to, order: Order::ZERO, state: MoveState::Unknown }];
/// anon.migrate(&mut moves);
/// assert_eq!(moves[0].state, MoveState::Moved);
/// assert_eq!(anon.frame_of(page), Some(to));
/// // SAFETY: as above: another frame, the same address.
/// assert_eq!(unsafe { address.read() }, 42);
/// seat.free(from, Order::ZERO)?;
/// anon.discard(&mut seat, one)?;
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
pub struct Anon {
    // Before the region, so that the handler forgets it before it goes.
    _listed: ListedRegion,
    region: Arc<AnonRegion>,
}

impl Anon {
    /// A region of `pages` pages over the frames of `ram`, none of them populated.
    ///
    /// Costs address space and one mapping; memory, less than 17 bytes a page and 8 a frame, only
    /// where it is used. The first one of the process installs the handler of SIGSEGV.
    ///
    /// # Errors
    /// What the host refused, a length that no window can have, or too many regions.
    pub fn new(ram: Arc<Ram>, pages: u64) -> Result<Self, AnonError> {
        Self::over(Window::new(ram, pages).map_err(AnonError::Window)?)
    }

    /// The same with at most `mappings_max` mappings of the kernel's, however many it allows.
    ///
    /// # Errors
    /// As [`new`](Self::new).
    pub fn with_mappings_max(
        ram: Arc<Ram>,
        pages: u64,
        mappings_max: u64,
    ) -> Result<Self, AnonError> {
        let window = Window::with_mappings_max(ram, pages, mappings_max);
        Self::over(window.map_err(AnonError::Window)?)
    }

    fn over(window: Window) -> Result<Self, AnonError> {
        let pages = window.range().pages() as usize;
        let table = AnonTable::new(pages, window.ram().frames());
        let refused = |errno: rustix::io::Errno| {
            AnonError::Window(crate::window::WindowError::Host(errno.raw_os_error()))
        };
        let region = Arc::new(AnonRegion {
            table: table.map_err(refused)?,
            window,
            gate: SignalGate::default(),
            counts: AnonCounts::default(),
        });
        // SAFETY: it lives at its place until the handler has forgotten it: it is dropped after
        // that.
        let listed = unsafe { ListedRegion::new(Arc::as_ptr(&region) as *const dyn Touched) }?;
        Ok(Self {
            _listed: listed,
            region,
        })
    }

    /// The region's pages.
    #[must_use]
    pub fn range(&self) -> PageRange {
        self.region.window.range()
    }

    /// Where a page lies. The address is valid as long as the region is. Loads and stores there
    /// belong to the caller as far as the page is populated, wherever its frame is.
    ///
    /// # Errors
    /// If the page is not in the region.
    pub fn address(&self, page: Page) -> Result<*mut u8, PageError> {
        let outside = PageError::Outside(page);
        self.region.window.address(page).map_err(|_| outside)
    }

    /// The frame behind a page at this moment, if it is populated. Another frame may replace it as
    /// soon as this returns, unless the page is [pinned](Self::pin).
    #[must_use]
    pub fn frame_of(&self, page: Page) -> Option<Frame> {
        let pages = self.region.pages_of(PageRange::new(page, 1)?).ok()?;
        self.region.table.frame(pages.start)
    }

    /// An upper bound of the kernel's mappings that make up the region now.
    #[must_use]
    pub fn mappings(&self) -> u64 {
        self.region.window.mappings()
    }

    /// All counters so far.
    #[must_use]
    pub fn stats(&self) -> AnonStats {
        self.region.stats()
    }

    /// Puts movable frames, all zero, behind the pages of `range` that have none. Returns how many
    /// pages those were.
    ///
    /// Takes blocks of up to `largest` where pages and frames allow: memory that is populated at
    /// once, by large blocks, moves with few mappings. The frames are of the seat's zone, which
    /// must be the region's RAM. About 0.5 µs a page in long runs.
    ///
    /// # Errors
    /// No frame, or no more mappings. The populated pages are the same as before.
    pub fn populate<P: FramePlatform>(
        &self,
        seat: &mut Seat<'_, '_, P>,
        range: PageRange,
        largest: Order,
    ) -> Result<u64, PageError> {
        let pages = self.region.pages_of(range)?;
        self.check_seat(seat)?;
        let mut blocks = Vec::new();
        let mut unused = Vec::new();
        let done = self
            .take_blocks(seat, pages, largest, &mut blocks)
            .and_then(|()| {
                // While the gate is shut this allocates nothing, so `unused` gets its room before. At most every
                // second page begins a run.
                let runs = blocks.iter().map(|block| block.pages().len().div_ceil(2));
                unused.reserve(runs.sum());
                self.show_blocks(&blocks, &mut unused)
            });
        if done.is_err() {
            unused.clear();
            let frames = |block: &BehindPages| Run::new(block.frame, block.order.frames());
            unused.extend(blocks.iter().filter_map(frames));
        }
        for run in &unused {
            let freed = seat.free_frames(*run);
            debug_assert!(freed.is_ok(), "the frames were allocated a moment ago");
        }
        done
    }

    /// Whether the seat has the frames of the region's RAM (RS1).
    fn check_seat<P: FramePlatform>(&self, seat: &Seat<'_, '_, P>) -> Result<(), PageError> {
        match self.region.window.ram().is_given_by(seat.zone().origin()) {
            true => Ok(()),
            false => Err(PageError::OtherFrames),
        }
    }

    /// Takes zeroed blocks for all unpopulated pages of `pages`.
    fn take_blocks<P: FramePlatform>(
        &self,
        seat: &mut Seat<'_, '_, P>,
        pages: Range<usize>,
        largest: Order,
        blocks: &mut Vec<BehindPages>,
    ) -> Result<(), PageError> {
        let region = &self.region;
        let largest = largest.min(seat.zone().max_order());
        let mut page = pages.start;
        while page < pages.end {
            let rest = (page..pages.end).take(largest.frames() as usize);
            let empty = rest.take_while(|&page| region.table.frame(page).is_none());
            let Some(fits) = empty.count().checked_ilog2() else {
                page += 1;
                continue;
            };
            let aligned = region.page(page).0.trailing_zeros();
            let order = largest.get().min(fits.min(aligned) as u8);
            let block = take_block(seat, order).map_err(PageError::Frames)?;
            let (frame, order) = block;
            blocks.push(BehindPages { page, frame, order });
            let run = Run::new(frame, order.frames());
            let zeroed = run.map(|run| region.window.ram().zero(run));
            if zeroed != Some(Ok(())) {
                return Err(PageError::Map(MapError::Frame(frame)));
            }
            page += order.frames() as usize;
        }
        Ok(())
    }

    /// Shows the blocks at those of their pages that are still empty (AN5). The frames of pages that another
    /// thread has populated meanwhile become `unused`. Returns how many pages it shows; on an error it shows none.
    fn show_blocks(&self, blocks: &[BehindPages], unused: &mut Vec<Run>) -> Result<u64, PageError> {
        let region = &self.region;
        let _shut = loop {
            let shut = region.gate.shut();
            let more = self.runs(blocks, false).count();
            if more <= unused.capacity() - unused.len() {
                break shut;
            }
            drop(shut);
            unused.reserve(more);
        };
        let empty = || self.runs(blocks, true);
        for (nth, (page, frames)) in empty().enumerate() {
            let shown = region
                .window
                .map(region.page(page), frames, PageAccess::DATA, &mut ());
            if let Err(error) = shown {
                for (page, frames) in empty().take(nth) {
                    let pages = page..page + frames.frames() as usize;
                    // If the kernel refuses, it shows free frames, but is not populated.
                    let _ = region.window.unmap(region.range(&pages));
                }
                return Err(PageError::Map(error));
            }
        }
        unused.extend(self.runs(blocks, false).map(|(_, frames)| frames));
        let mut shown = 0;
        for block in blocks {
            for (page, frame) in block.pages().zip(block.frame.0..) {
                if region.table.frame(page).is_none() {
                    region.table.set(page, Frame(frame));
                    shown += 1;
                }
            }
        }
        Ok(shown)
    }

    /// The pages of the blocks that are empty, or those that are not, as runs that follow one another on both sides.
    fn runs<'b>(
        &'b self,
        blocks: &'b [BehindPages],
        is_empty: bool,
    ) -> impl Iterator<Item = (usize, Run)> + 'b {
        let all = blocks
            .iter()
            .flat_map(|block| block.pages().zip(block.frame.0..));
        let is_wanted =
            move |(page, _): &(usize, u64)| self.region.table.frame(*page).is_none() == is_empty;
        let mut wanted = all.filter(is_wanted).peekable();
        std::iter::from_fn(move || {
            let (page, frame) = wanted.next()?;
            let mut len = 1;
            let is_next =
                |len: usize, next: &(usize, u64)| *next == (page + len, frame + len as u64);
            while wanted.next_if(|next| is_next(len, next)).is_some() {
                len += 1;
            }
            let frames = Run::new(Frame(frame), len as u64);
            Some((page, frames.expect("allocated frames have numbers")))
        })
    }

    /// Takes the frames behind the pages of `range` away and frees them. Returns how many.
    ///
    /// The seat must be one of the zone that they came from. A part of a larger block may be
    /// discarded.
    ///
    /// # Errors
    /// A page is pinned, or the kernel refuses. All is as before then.
    pub fn discard<P: FramePlatform>(
        &self,
        seat: &mut Seat<'_, '_, P>,
        range: PageRange,
    ) -> Result<u64, PageError> {
        let pages = self.region.pages_of(range)?;
        self.check_seat(seat)?;
        let mut runs: Vec<Run> = Vec::new();
        // Allocates nothing while the gate is shut: an allocation might have to wait for a move.
        while let Some(more) = self.take_away(seat, &pages, &mut runs)? {
            runs.reserve(more);
        }
        for run in &runs {
            let freed = seat.free_frames(*run);
            debug_assert!(freed.is_ok(), "the frames were allocated by `populate`");
        }
        Ok(runs.iter().map(|run| run.frames()).sum())
    }

    /// Takes the frames behind `pages`, which are unpopulated then. Or returns how much room `runs`
    /// must have for them; then nothing has changed.
    fn take_away<P: FramePlatform>(
        &self,
        seat: &Seat<'_, '_, P>,
        pages: &Range<usize>,
        runs: &mut Vec<Run>,
    ) -> Result<Option<usize>, PageError> {
        let region = &self.region;
        let _shut = region.gate.shut();
        let (mut count, mut next) = (0, None);
        for page in pages.clone() {
            let Some(frame) = region.table.frame(page) else {
                continue;
            };
            count += usize::from(next != Some(frame));
            next = Some(Frame(frame.0 + 1));
            if region.table.is_pinned(page) {
                return Err(PageError::Pinned(region.page(page)));
            }
            if !seat.zone().contains(frame) {
                return Err(PageError::Map(MapError::Frame(frame)));
            }
        }
        if count > runs.capacity() {
            return Ok(Some(count));
        }
        if pages.len() >= UNMAP_PAGES {
            let unmapped = region.window.unmap(region.range(pages));
            unmapped.map_err(PageError::Map)?;
        }
        for page in pages.clone() {
            let Some(frame) = region.table.frame(page) else {
                continue;
            };
            region.table.clear(page);
            region.table.forget(frame);
            match runs.last_mut() {
                Some(run) if run.end() == frame => {
                    let longer = Run::new(run.start(), run.frames() + 1);
                    *run = longer.expect("allocated frames have numbers");
                }
                _ => runs.push(Run::new(frame, 1).expect("allocated frames have numbers")),
            }
        }
        Ok(None)
    }

    /// Keeps the frames behind the pages of `range` where they are until the result is dropped.
    ///
    /// Waits for a batch that moves them. A page may be pinned a million times at once.
    ///
    /// # Errors
    /// A page is not populated, or has too many pins. None is pinned then.
    pub fn pin(&self, range: PageRange) -> Result<Pin<'_>, PageError> {
        let pages = self.region.pages_of(range)?;
        let _shut = self.region.gate.shut();
        for page in pages.clone() {
            if self.region.table.frame(page).is_none() {
                return Err(PageError::NotPopulated(self.region.page(page)));
            }
            if !self.region.table.has_room_for_a_pin(page) {
                return Err(PageError::Pins(self.region.page(page)));
            }
        }
        for page in pages.clone() {
            self.region.table.pin(page);
        }
        Ok(Pin { anon: self, pages })
    }
}

impl Migrate for Anon {
    /// In batches of up to 64 moves and some 512 pages. Beyond the copy, a batch that ends in one
    /// mapping takes 0.4 to 0.9 µs a page, with one mapping for each page 2 to 4 µs, more if other
    /// populated pages lie between.
    fn migrate(&self, moves: &mut [Move]) {
        self.region.migrate_all(moves);
    }
}

/// Pages with frames that stay in place.
#[derive(Debug)]
#[must_use = "dropped, it pins nothing"]
pub struct Pin<'a> {
    anon: &'a Anon,
    pages: Range<usize>,
}

impl Pin<'_> {
    /// The frame behind the `nth` of the pages.
    #[must_use]
    pub fn frame(&self, nth: usize) -> Option<Frame> {
        let page = self.pages.clone().nth(nth)?;
        self.anon.region.table.frame(page)
    }
}

impl Drop for Pin<'_> {
    fn drop(&mut self) {
        for page in self.pages.clone() {
            self.anon.region.table.unpin(page);
        }
    }
}

/// A block behind as many pages, which may not be shown there yet.
#[derive(Clone, Copy, Debug)]
struct BehindPages {
    page: usize,
    frame: Frame,
    order: Order,
}

impl BehindPages {
    fn pages(&self) -> Range<usize> {
        self.page..self.page + self.order.frames() as usize
    }
}

/// Takes a block of `order`, or the largest that is free.
fn take_block<P: FramePlatform>(
    seat: &mut Seat<'_, '_, P>,
    order: u8,
) -> Result<(Frame, Order), AllocError> {
    for order in (1..=order).rev() {
        let order = Order::new(order).expect("not above the zone's largest");
        // Stops no CPU for a large block: smaller ones will do.
        if let Some(frame) = seat.try_alloc(order, Mobility::Movable) {
            return Ok((frame, order));
        }
    }
    let frame = seat.alloc(Order::ZERO, Mobility::Movable)?;
    Ok((frame, Order::ZERO))
}
