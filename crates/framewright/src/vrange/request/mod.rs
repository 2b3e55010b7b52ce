//! What a caller asks of a space: an area's length, alignment, contents, context and tag; and frames that it hands in.

mod alloc;
mod at_once;
mod free;
mod kept;
mod need;
mod ram;
mod slow;
mod undo;
mod vmalloc;

use super::Space;
use crate::platform::parts::PART_FRAMES;
use crate::platform::{MapError, RangePlatform, TableSource};
use crate::units::{Context, Frame, Page, PageAccess, Run};

/// A request for an area.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct AreaRequest {
    /// The length in pages, without the guard pages.
    pub pages: u64,
    /// The alignment of the first byte's address, in bytes: a power of two; any page will do for a
    /// page's or less.
    pub align_bytes: u64,
    /// Whether a guard page lies before the area, too: for a stack, which grows down. A request that does not ask for one may
    /// get a kept area that has one.
    pub guard_before: bool,
    /// Whether large entries of page tables should be possible: an area of at least 512 pages then begins at a multiple of
    /// 512 pages, where a gap allows that at once.
    pub huge: bool,
    /// Whether the area's contents must be zero.
    pub zero: bool,
    /// What an access through its pages may do. It means nothing for [`alloc_area`](super::RangeSeat::alloc_area), whose areas
    /// their users map.
    pub access: PageAccess,
    /// What the caller may do while it waits.
    pub context: Context,
    /// The caller's name for the area: a number of the caller's own, 30 bits of it, for listings. Linux shows the
    /// caller's address there; only the caller knows what a number means.
    pub tag: u32,
}

impl AreaRequest {
    /// `pages` pages anywhere, contents of any kind, to read and write, for a caller that may do anything.
    #[must_use]
    pub const fn new(pages: u64) -> Self {
        Self {
            pages,
            align_bytes: Page::BYTES,
            guard_before: false,
            huge: false,
            zero: false,
            access: PageAccess::DATA,
            context: Context::ANY,
            tag: 0,
        }
    }

    /// The same, aligned to `bytes`.
    #[must_use]
    pub const fn aligned_to(mut self, bytes: u64) -> Self {
        self.align_bytes = bytes;
        self
    }

    /// The same, with a guard page on both sides. Such an area comes from the arena, or, in a space that is not strict, is a
    /// kept one that has both.
    #[must_use]
    pub const fn guarded(mut self) -> Self {
        self.guard_before = true;
        self
    }

    /// The same for [large entries](Self::huge) \[`vmalloc_huge`\]. In a crowded window that costs space: the area ends
    /// with a guard page, and the next one that is aligned so begins 511 pages behind that.
    #[must_use]
    pub const fn for_huge_pages(mut self) -> Self {
        self.huge = true;
        self
    }

    /// The same, with zeroes in it.
    #[must_use]
    pub const fn zeroed(mut self) -> Self {
        self.zero = true;
        self
    }

    /// Whether it has no shape and no access of its own, so that each kept area of its length and alignment will do.
    #[inline(always)]
    fn is_plain(&self) -> bool {
        !self.guard_before & self.access.is_data()
    }

    /// The same, mapped for that access. It must be one through caches: [`RangeError::Caching`](super::RangeError::Caching).
    #[must_use]
    pub const fn mapped_for(mut self, access: PageAccess) -> Self {
        self.access = access;
        self
    }

    /// The same for a caller that may do less.
    #[must_use]
    pub const fn within(mut self, context: Context) -> Self {
        self.context = context;
        self
    }

    /// The same with a tag.
    #[must_use]
    pub const fn tagged(mut self, tag: u32) -> Self {
        self.tag = tag;
        self
    }
}

/// The frames as one run, if they follow one another.
#[inline(always)]
fn as_one_run(frames: &[Frame]) -> Option<Run> {
    let [first, others @ ..] = frames else {
        return None;
    };
    if others.is_empty() {
        return Run::new(*first, 1);
    }
    // Most that lie apart do so from the second one on.
    if others[0].0 != first.0.wrapping_add(1) {
        return None;
    }
    // No branch in the loop, so that several frames are compared at a time.
    let mut differences = 0;
    for (frame, nth) in others.iter().zip(1..) {
        differences |= frame.0 ^ first.0.wrapping_add(nth);
    }
    if differences == 0 {
        Run::new(*first, frames.len() as u64)
    } else {
        None
    }
}

/// The most pages that one call of the platform maps.
const MAP_PART: u64 = 1024;

/// Maps the frames of a long area in parts. On failure, returns how many pages are mapped.
#[inline(never)]
fn map_in_parts<P: RangePlatform>(
    space: &Space<'_, P>,
    at: u32,
    pages: u32,
    access: PageAccess,
    tables: &mut impl TableSource,
) -> Result<(), (u32, MapError)> {
    let mut since = 0;
    space.table.for_each_run(at, pages, |page, run| {
        let mut done = 0;
        while done < run.frames() {
            if since >= PART_FRAMES {
                since = 0;
                space.platform.interrupt_window();
            }
            let to = space.page(page + done as u32);
            // The parts end at multiples of their length, so that they may have large pages.
            let now = (MAP_PART - to.0 % MAP_PART).min(run.frames() - done);
            let mapped = space.platform.map(to, run.part(done, now), access, tables);
            mapped.map_err(|error| (page - at + done as u32, error))?;
            done += now;
            since += now;
        }
        Ok(())
    })
}
