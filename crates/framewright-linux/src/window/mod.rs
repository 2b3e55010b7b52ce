// UNSAFETY: an area's owner may have its bytes as a `&mut [u8]`, and all others copy bytes by a
// system call that takes addresses. Only the engine's users know what they own.

//! A window of address space in which frames appear: page tables are mmap.
//!
//! ```text
//!              base, aligned to 4 MiB                                             end
//!   no access │ no access │ frames 7..9 │ no access │ frame 3 │ no access ...      │ no access
//!   (guard)   │◀─ page ──▶│◀───────────▶│ one mmap(MAP_FIXED | MAP_SHARED) a run   │ (guard)
//! ```
//!
//! [`RangePlatform::map`] is one mmap for a run of consecutive frames, [`RangePlatform::unmap`] one for a range,
//! whatever it contains: it takes access and translations away at once, so there is nothing to
//! flush.
//!
//! # The limit
//! The kernel counts a process's mappings (vm.max_map_count, 65,530 unless changed), and at the
//! limit refuses even calls that would give mappings back. A window bounds its own count from above: for each
//! boundary between pages it notes whether the kernel may begin a mapping there. It refuses a mapping with
//! [`MapError::Limit`] that could bring the process above fifteen sixteenths of the limit, so that unmapping always
//! has room. All windows of the process count as one. The mappings that the rest of the process had when the window
//! was made are left to it. If the rest of the process gets more mappings than that sixteenth holds, the kernel
//! refuses. Then both verbs return `Limit`, too, and nothing is lost; they succeed again once there is room.
//!
//! # Access to a page
//! [`Window::read`] and [`Window::write`] are for all threads. They are system calls
//! (process_vm_readv), not loads: if another thread unmaps the page meanwhile, they return an
//! error, where a load would end the process, and no check before the load could be soon enough.
//! About 0.5 µs. [`Window::bytes_mut`] is for the area's owner, and `unsafe` like
//! [`Ram::bytes_mut`].
//!
//! # What is not here
//! Other protections than readable and writable; a window over the host's pool of huge pages, which
//! cannot be mapped in pieces of 4 KiB.
//!
//! # Sources
//! mmap(2): MAP_FIXED, MAP_FIXED_NOREPLACE; proc(5): max_map_count; process_vm_readv(2).

mod budget;
mod edges;
mod error;
mod reservation;
mod shown;

#[cfg(test)]
mod tests;

pub use error::{AccessError, WindowError};

use crate::ram::{Backing, FRAME_BYTES, Ram};
use budget::MappingBudget;
use edges::Edges;
use framewright::platform::{FramePlatform, MapError, RangePlatform, TableSource};
use framewright::{Frame, Page, PageAccess, PageRange, Run};
use reservation::AddressReservation;
pub(crate) use reservation::MappingAccess;
use rustix::io::Errno;
use shown::ShownFrames;
use std::ops::Range;
use std::os::fd::AsFd;
use std::sync::Arc;

/// A window starts at a multiple of this many bytes: the longest span, 1024 pages.
pub const WINDOW_ALIGN_BYTES: usize = 4 << 20;

/// The longest window, in pages: the engine's.
pub const WINDOW_PAGES_MAX: u64 = 1 << 30;

/// The most bytes that one call copies. The kernel ends a copy at 2 GiB less a page without an
/// error.
const COPY_BYTES_MAX: usize = 1 << 30;

/// Address space in which the frames of a [`Ram`] are mapped. See the
/// [module's description](self).
///
/// ```
/// use framewright::platform::RangePlatform;
/// use framewright::{Frame, Page, PageAccess, PageRange, Run};
/// use framewright_linux::{Ram, RamPages, Window};
/// use std::sync::Arc;
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let ram = Arc::new(Ram::new(Run::new(Frame(0), 64).unwrap(), RamPages::Base)?);
/// let window = Window::new(Arc::clone(&ram), 1024)?;
/// let at = Page(window.range().start().0 + 10);
/// window.map(at, Run::new(Frame(7), 2).unwrap(), PageAccess::DATA, &mut ())?;
/// window.write(at, 4094, b"bytes")?; // over the boundary of two pages
/// let mut frame = [0; 4096];
/// ram.read(Frame(8), &mut frame)?;
/// assert_eq!(&frame[..3], b"tes");
/// window.unmap(PageRange::new(at, 2).unwrap())?;
/// assert!(window.read(at, 0, &mut frame).is_err());
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
pub struct Window {
    reservation: AddressReservation,
    edges: Edges,
    shown: ShownFrames,
    budget: MappingBudget,
    range: PageRange,
    ram: Arc<Ram>,
}

impl Window {
    /// A window of `pages` pages, none of them mapped.
    ///
    /// Costs address space and one mapping; memory, less than nine bytes a page, only where it is used.
    ///
    /// # Errors
    /// What the host refused, a length that no window can have, or RAM in the host's pool of huge
    /// pages.
    pub fn new(ram: Arc<Ram>, pages: u64) -> Result<Self, WindowError> {
        Self::with_budget(ram, pages, None)
    }

    /// The same with at most `mappings_max` mappings of the kernel's, however many it allows.
    ///
    /// # Errors
    /// As [`new`](Self::new).
    pub fn with_mappings_max(
        ram: Arc<Ram>,
        pages: u64,
        mappings_max: u64,
    ) -> Result<Self, WindowError> {
        Self::with_budget(ram, pages, Some(mappings_max))
    }

    fn with_budget(ram: Arc<Ram>, pages: u64, max: Option<u64>) -> Result<Self, WindowError> {
        if !(1..=WINDOW_PAGES_MAX).contains(&pages) {
            return Err(WindowError::Pages(pages));
        }
        if ram.report().backing == Backing::Pool {
            return Err(WindowError::HugePool);
        }
        let refused = |errno: Errno| WindowError::Host(errno.raw_os_error());
        let edges = Edges::new(pages as usize).map_err(refused)?;
        let shown = ShownFrames::new(pages as usize).map_err(refused)?;
        let len_bytes = usize::try_from(pages * Page::BYTES).map_err(|_| refused(Errno::NOMEM))?;
        let reservation =
            AddressReservation::new(len_bytes, WINDOW_ALIGN_BYTES).map_err(refused)?;
        let start = Page::of_address(reservation.start().addr().get() as u64);
        Ok(Self {
            range: PageRange::new(start, pages).expect("addresses are page numbers and more"),
            // After the reservation, which counts as the window's.
            budget: MappingBudget::new(max),
            reservation,
            edges,
            shown,
            ram,
        })
    }

    /// The window's pages; the first one's address is a multiple of [`WINDOW_ALIGN_BYTES`].
    #[must_use]
    pub const fn range(&self) -> PageRange {
        self.range
    }

    /// The frames that appear in it.
    #[must_use]
    pub const fn ram(&self) -> &Arc<Ram> {
        &self.ram
    }

    /// An upper bound of the mappings that the kernel has for the window now. It is exact unless two neighbouring
    /// mappings show consecutive frames, which the kernel may join. 1 if nothing is mapped.
    #[must_use]
    pub fn mappings(&self) -> u64 {
        self.budget.mine()
    }

    /// Where a page lies. The address is valid as long as the window is; for what may be done with
    /// it see [`bytes_mut`](Self::bytes_mut).
    ///
    /// # Errors
    /// If the page is not in the window.
    #[inline]
    pub fn address(&self, page: Page) -> Result<*mut u8, AccessError> {
        let range = PageRange::new(page, 1).ok_or(AccessError::Outside(page))?;
        let bytes = self.bytes_of(range).map_err(AccessError::Outside)?;
        Ok(self.at(bytes.start))
    }

    /// The frame that a page shows, if the page is in the window and mapped at this moment.
    #[must_use]
    pub fn frame_of(&self, page: Page) -> Option<Frame> {
        let range = PageRange::new(page, 1)?;
        self.bytes_of(range).ok()?;
        self.check_process().ok()?;
        let pages = self.pages_of(range);
        match self.edges.first_unmapped(&pages) {
            None => Some(Frame(
                self.ram.frames().start().0 + self.shown.get(pages.start),
            )),
            Some(_) => None,
        }
    }

    /// The bytes of mapped pages, for their owner.
    ///
    /// # Safety
    /// - The pages are mapped, and stay so as long as the result lives: the caller owns the area
    ///   or areas.
    /// - As long as the result lives there is no other access to the frames behind them: not
    ///   through the direct map, not through another page, not by [`read`](Self::read) or
    ///   [`write`](Self::write), not through a second result of this function; and no frame is
    ///   behind two of the pages.
    ///
    /// # Errors
    /// If a page is not in the window, or not mapped.
    #[allow(clippy::mut_from_ref, reason = "the caller owes the exclusiveness")]
    pub unsafe fn bytes_mut(&self, range: PageRange) -> Result<&mut [u8], AccessError> {
        if range.is_empty() {
            return Ok(&mut []);
        }
        let bytes = self.mapped(range)?;
        // SAFETY: inside, mapped and initialised: checked, and the caller's promise that it stays
        // so. Exclusive: the caller's promise. Lifetime: the window lives as long as `self`.
        Ok(unsafe { std::slice::from_raw_parts_mut(self.at(bytes.start), bytes.len()) })
    }

    /// Copies bytes out, from byte `offset` of `page` on, over as many pages as they take.
    ///
    /// A system call for each GiB. Bytes that another thread writes meanwhile may be old or new.
    ///
    /// # Errors
    /// If one of the pages is not in the window or not mapped, or the host does not allow a process
    /// to copy from itself. The contents of `into` are then undefined.
    pub fn read(&self, page: Page, offset: usize, into: &mut [u8]) -> Result<(), AccessError> {
        self.read_by(COPY_BYTES_MAX, page, offset, into)
    }

    fn read_by(
        &self,
        piece: usize,
        page: Page,
        offset: usize,
        into: &mut [u8],
    ) -> Result<(), AccessError> {
        let mut at = self.place(page, offset, into.len())?;
        let mut rest = into;
        while !rest.is_empty() {
            let len = rest.len().min(piece);
            let (here, there) = (iovec(rest.as_mut_ptr(), len), iovec(at, len));
            // SAFETY: the kernel writes to `here`, which is in a `&mut [u8]`, and only reads
            // `there`; memory that is not accessible there is an error and no signal.
            let copied = unsafe { libc::process_vm_readv(process(), &here, 1, &there, 1, 0) };
            let copied = self.copied(copied, at)?;
            rest = &mut rest[copied..];
            at = at.wrapping_byte_add(copied);
        }
        Ok(())
    }

    /// Copies bytes in, from byte `offset` of `page` on, over as many pages as they take.
    ///
    /// A system call for each GiB.
    ///
    /// # Errors
    /// As [`read`](Self::read). If a page is not mapped at the start, nothing is written. If another thread unmaps
    /// a page during the call, the pages before it may have been written.
    pub fn write(&self, page: Page, offset: usize, from: &[u8]) -> Result<(), AccessError> {
        self.write_by(COPY_BYTES_MAX, page, offset, from)
    }

    fn write_by(
        &self,
        piece: usize,
        page: Page,
        offset: usize,
        from: &[u8],
    ) -> Result<(), AccessError> {
        let mut at = self.place(page, offset, from.len())?;
        let mut rest = from;
        while !rest.is_empty() {
            let len = rest.len().min(piece);
            let (here, there) = (iovec(rest.as_ptr().cast_mut(), len), iovec(at, len));
            // SAFETY: the kernel reads from `here`, which is in a `&[u8]`, and writes to `there`,
            // which is in the window (checked by `place`). No Rust value lies there except those
            // that `bytes_mut` handed out, and its users promised that this is not called
            // meanwhile. Memory that is not accessible there is an error and no signal.
            let copied = unsafe { libc::process_vm_writev(process(), &here, 1, &there, 1, 0) };
            let copied = self.copied(copied, at)?;
            rest = &rest[copied..];
            at = at.wrapping_byte_add(copied);
        }
        Ok(())
    }

    /// Where the bytes lie, if all their pages are mapped at this moment.
    fn place(&self, page: Page, offset: usize, len: usize) -> Result<*mut u8, AccessError> {
        let first = (offset / FRAME_BYTES) as u64;
        let within = offset % FRAME_BYTES;
        let pages = within.saturating_add(len).div_ceil(FRAME_BYTES) as u64;
        let start = page
            .checked_add(first)
            .ok_or(AccessError::Outside(Page(u64::MAX)))?;
        let range = PageRange::new(start, pages).ok_or(AccessError::Outside(Page(u64::MAX)))?;
        let bytes = self.mapped(range)?;
        Ok(self.at(bytes.start + within))
    }

    fn mapped(&self, range: PageRange) -> Result<Range<usize>, AccessError> {
        if !self.ram.is_this_process() {
            return Err(AccessError::Host(libc::EPERM));
        }
        let bytes = self.bytes_of(range).map_err(AccessError::Outside)?;
        let pages = self.pages_of(range);
        match self.edges.first_unmapped(&pages) {
            None => Ok(bytes),
            Some(nth) => Err(AccessError::NotMapped(Page(
                self.range.start().0 + nth as u64,
            ))),
        }
    }

    /// How many bytes a call has copied from or to `at`, at least one; fewer than asked for if a
    /// later page was not mapped, which the next call will report.
    fn copied(&self, copied: isize, at: *mut u8) -> Result<usize, AccessError> {
        if let Some(copied) = usize::try_from(copied).ok().filter(|bytes| *bytes > 0) {
            return Ok(copied);
        }
        let error = std::io::Error::last_os_error().raw_os_error();
        match error.unwrap_or(libc::EFAULT) {
            errno if copied < 0 && errno != libc::EFAULT => Err(AccessError::Host(errno)),
            _ => Err(AccessError::NotMapped(Page::of_address(at.addr() as u64))),
        }
    }

    /// The bytes of the pages in the window, or the first page that is outside.
    fn bytes_of(&self, range: PageRange) -> Result<Range<usize>, Page> {
        let (start, end) = (self.range.start().0, self.range.end().0);
        if range.start().0 < start || range.start().0 > end {
            return Err(range.start());
        }
        if range.end().0 > end {
            return Err(Page(end));
        }
        let pages = self.pages_of(range);
        Ok(pages.start * FRAME_BYTES..pages.end * FRAME_BYTES)
    }

    /// The pages, counted from the window's first.
    fn pages_of(&self, range: PageRange) -> Range<usize> {
        let start = (range.start().0 - self.range.start().0) as usize;
        start..start + range.pages() as usize
    }

    fn at(&self, byte: usize) -> *mut u8 {
        self.reservation.start().as_ptr().wrapping_byte_add(byte)
    }

    /// A forked process must show none of its parent's RAM.
    fn check_process(&self) -> Result<(), MapError> {
        if self.ram.is_this_process() {
            return Ok(());
        }
        Err(MapError::Refused(libc::EPERM))
    }

    /// Lets a forked process read what is shown from here on.
    pub(crate) fn let_children_read(&self) {
        self.reservation.let_children_read();
    }

    /// Whether the limit has room, at this moment, for `changes` more calls of [`map`](RangePlatform::map) and
    /// [`unmap`](RangePlatform::unmap).
    pub(crate) fn has_room(&self, changes: u64) -> bool {
        !self.reservation.is_lost() && self.budget.has_room(changes)
    }

    /// [`map`](RangePlatform::map) over any old mapping. Page tables are filled only if `fill`. It needs
    /// little stack and allocates nothing: a signal handler may call it.
    ///
    /// # Errors
    /// If the limit or the kernel refuses. The pages are as they were, or show nothing.
    ///
    /// # Panics
    /// If a page is not in the window, or a frame not in RAM.
    pub(crate) fn remap(
        &self,
        at: Page,
        frames: Run,
        access: MappingAccess,
        fill: bool,
    ) -> Result<(), MapRefused> {
        let all = self.ram.frames();
        let inside = all.contains(frames.start()) && frames.end() <= all.end();
        assert!(inside, "frames outside of RAM cannot be shown");
        let range = PageRange::new(at, frames.frames()).expect("the pages are in the window");
        assert!(self.bytes_of(range).is_ok(), "the pages are in the window");
        if self.reservation.is_lost() || !self.ram.is_this_process() {
            return Err(MapRefused);
        }
        self.budget.take().map_err(|_| MapRefused)?;
        let shown = self.show(range, frames.start(), access, fill);
        shown.map_err(|_| {
            let pages = self.pages_of(range);
            let gone = self.reservation.is_lost().then(|| self.edges.unmap(&pages));
            self.budget
                .end_take(gone.unwrap_or(0) + self.edges.tear(&pages));
            MapRefused
        })
    }

    /// Maps the pages of `range`, for which there is room in the budget, to frames from `first` on.
    fn show(
        &self,
        range: PageRange,
        first: Frame,
        access: MappingAccess,
        fill: bool,
    ) -> Result<(), Errno> {
        let pages = self.pages_of(range);
        let bytes = pages.start * FRAME_BYTES..pages.end * FRAME_BYTES;
        let offset = (first.0 - self.ram.frames().start().0) * Frame::BYTES;
        self.reservation
            .map(&bytes, self.ram.as_fd(), offset, access, fill)?;
        self.shown.set(&pages, offset / Frame::BYTES);
        self.budget.end_take(self.edges.map(&pages));
        Ok(())
    }

    /// The error for a change that the kernel refused; remembers the change.
    fn refused(&self, pages: &Range<usize>, errno: Errno) -> MapError {
        // A lost range must not be accessed either: it does not count as mapped.
        let gone = self.reservation.is_lost().then(|| self.edges.unmap(pages));
        self.budget
            .end_take(gone.unwrap_or(0) + self.edges.tear(pages));
        match errno {
            Errno::NOMEM | Errno::AGAIN => self.budget.host_is_full().unwrap_or(MapError::NoMemory),
            // No other error is known to occur: addresses, lengths and offsets are checked.
            errno => MapError::Refused(errno.raw_os_error()),
        }
    }
}

/// A window may not show frames at some pages: the limit of mappings, or the kernel, refuses.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct MapRefused;

impl Drop for Window {
    fn drop(&mut self) {
        if self.reservation.is_lost() {
            // Its mappings stay, so they go on to count.
            self.budget.keep();
        }
    }
}

/// Threads that use a space over a window alone wait by spinning; [`Windowed`](crate::Windowed) lets them sleep.
impl FramePlatform for Window {}

impl RangePlatform for Window {
    /// One mmap. Fills the page tables of runs of two and more at once: so 64 pages cost 9 µs, and
    /// 57 µs by one fault after another; a single page costs the same either way. Of the access it takes whether the pages may be
    /// written: a process executes nothing there, and its caches are the kernel's to choose.
    fn map(
        &self,
        at: Page,
        frames: Run,
        access: PageAccess,
        _tables: &mut impl TableSource,
    ) -> Result<(), MapError> {
        if frames.is_empty() {
            return Ok(());
        }
        let all = self.ram.frames();
        if !all.contains(frames.start()) || frames.end() > all.end() {
            let inside = all.contains(frames.start());
            return Err(MapError::Frame(if inside {
                all.end()
            } else {
                frames.start()
            }));
        }
        let range = PageRange::new(at, frames.frames()).ok_or(MapError::Page(at))?;
        self.bytes_of(range).map_err(MapError::Page)?;
        self.check_process()?;
        if self.reservation.is_lost() {
            return Err(MapError::NoMemory);
        }
        self.budget.take()?;
        let fill = frames.frames() > 1;
        let access = if access.is_writable() {
            MappingAccess::Write
        } else {
            MappingAccess::Read
        };
        self.show(range, frames.start(), access, fill)
            .map_err(|errno| self.refused(&self.pages_of(range), errno))
    }

    /// One mmap without access over all of it.
    fn unmap(&self, range: PageRange) -> Result<(), MapError> {
        let bytes = self.bytes_of(range).map_err(MapError::Page)?;
        if range.is_empty() {
            return Ok(());
        }
        self.check_process()?;
        if self.reservation.is_lost() {
            return Err(MapError::NoMemory);
        }
        let pages = self.pages_of(range);
        self.budget.take_always();
        self.reservation
            .unmap(&bytes)
            .map_err(|errno| self.refused(&pages, errno))?;
        self.budget.end_take(self.edges.unmap(&pages));
        Ok(())
    }

    /// Does nothing: the kernel removed the translations when it unmapped.
    fn flush_all(&self) {}

    /// Through the direct map, so that a frame need not be mapped. Skips frames that are not in
    /// RAM.
    fn zero(&self, frames: Run) {
        let all = self.ram.frames();
        let start = frames.start().0.max(all.start().0);
        let end = frames.end().0.min(all.end().0);
        if let Some(inside) = Run::new(Frame(start), end.saturating_sub(start)) {
            let zeroed = self.ram.zero(inside);
            debug_assert!(zeroed.is_ok(), "they are all in RAM");
        }
    }
}

fn iovec(at: *mut u8, len: usize) -> libc::iovec {
    libc::iovec {
        iov_base: at.cast(),
        iov_len: len,
    }
}

fn process() -> libc::pid_t {
    std::process::id() as libc::pid_t
}
