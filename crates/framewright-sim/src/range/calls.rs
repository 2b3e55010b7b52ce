//! The three pairs of calls as one.

use super::ModelArea;
use crate::Paging;
use framewright::frame::FrameSource;
use framewright::platform::RangePlatform;
use framewright::vrange::{AreaInfo, AreaKind, AreaRequest, RangeError, RangeFreeError, RangeSeat};
use framewright::{Context, CpuId, Frame, Page, PageAccess, Run};

/// Frames that are the callers' own, which they map themselves.
pub(super) const OWN_FRAMES: u32 = 256;

/// A request, as the engine gets it.
#[derive(Clone, Copy, Debug)]
pub(super) struct RangeRequest {
    pub(super) cpu: u16,
    pub(super) kind: AreaKind,
    pub(super) pages: u64,
    pub(super) align_bytes: u64,
    pub(super) guard_before: bool,
    pub(super) huge: bool,
    pub(super) zero: bool,
    pub(super) context: Context,
    pub(super) tag: u32,
    /// The number that the area will have.
    pub(super) id: u64,
}

/// The most frames that are listed for one request of `map_ram`.
pub(super) const LISTED_MAX: u64 = 200_000;

/// How many pages of the window belong to an area of this many pages: except for `map_ram`, a guard
/// page too. How far the engine rounds slots up does not matter here.
pub(super) fn covers(kind: AreaKind, pages: u64) -> u64 {
    match kind {
        AreaKind::Plain | AreaKind::Vmalloc => pages.saturating_add(1),
        AreaKind::Ram => pages,
    }
}

pub(super) fn alloc<P: RangePlatform, F: FrameSource>(
    seat: &mut RangeSeat<'_, '_, P, F>,
    pool_frames: u32,
    request: &RangeRequest,
) -> Result<Page, RangeError> {
    let access = access_of(request.kind, request.id);
    let area = AreaRequest {
        pages: request.pages,
        align_bytes: request.align_bytes,
        guard_before: request.guard_before,
        huge: request.huge,
        zero: request.zero,
        access,
        context: request.context,
        tag: request.tag,
    };
    match request.kind {
        AreaKind::Plain => seat.alloc_area(&area),
        AreaKind::Vmalloc => seat.vmalloc(&area),
        AreaKind::Ram => {
            // A request for more than any window has need not list all frames.
            let frames: Vec<Frame> = (0..request.pages.min(LISTED_MAX))
                .map(|nth| own_frame(pool_frames, request.id, nth))
                .collect();
            if access == PageAccess::DATA {
                return seat.map_ram(&frames, request.context);
            }
            let first = frames.first().copied().unwrap_or_default();
            let are_in_order = frames
                .iter()
                .zip(first.0..)
                .all(|(frame, nth)| frame.0 == nth);
            match Run::new(first, request.pages) {
                Some(run) if are_in_order => seat.ioremap(run, access, request.context),
                _ => seat.vmap(&frames, access, request.context),
            }
        }
    }
}

pub(super) fn free<P: RangePlatform, F: FrameSource>(
    seat: &mut RangeSeat<'_, '_, P, F>,
    page: Page,
    kind: AreaKind,
    pages: u64,
) -> Result<u64, RangeFreeError> {
    match kind {
        AreaKind::Plain => seat.free_area(page),
        AreaKind::Vmalloc => seat.vfree(page),
        AreaKind::Ram => seat.unmap_ram(page, pages),
    }
}

/// The callers' own frame behind a page of an area that they map themselves: in each third area one
/// behind the other, in the others by two, or all apart.
pub(super) fn own_frame(pool_frames: u32, id: u64, nth: u64) -> Frame {
    let place = match id % 3 {
        0 => nth,
        1 => nth / 2 * 6 + nth % 2,
        _ => nth * 3,
    };
    Frame(u64::from(pool_frames) + (id * 7 + place) % u64::from(OWN_FRAMES))
}

/// The access that an area is mapped for: of a quarter of them another one than the default. Only what maps the caller's frames
/// goes past caches.
pub(super) const fn access_of(kind: AreaKind, id: u64) -> PageAccess {
    match id % 16 {
        1 | 7 => PageAccess::READ,
        6 => PageAccess::TEXT,
        11 if matches!(kind, AreaKind::Ram) => PageAccess::DEVICE,
        11 => PageAccess::ALL,
        _ => PageAccess::DATA,
    }
}

/// What the word of an area's page must be.
pub(super) const fn word(id: u64, nth: u64) -> u64 {
    id << 32 | nth << 8 | 0xff
}

impl ModelArea {
    /// Whether the engine reports the same of it.
    pub(super) fn is(&self, info: &AreaInfo) -> bool {
        (info.start, info.pages, info.kind, info.tag)
            == (self.start, self.pages, self.kind, self.tag)
            && info.pages + info.guard == self.covers
            && info.guard_before == self.before
    }

    /// Maps the first `pages` pages of a plain area, as its user does.
    pub(super) fn map_own(&self, paging: &Paging, pages: u64) {
        for nth in 0..pages {
            let frame = own_frame(paging.pool_frames(), self.id, nth);
            paging.map_page(Page(self.start.0 + nth), frame);
        }
    }

    /// Checks what the pages of a new area reach: only frames that were mapped there, and zeroes if
    /// they were asked for. Then uses the area for the first time.
    pub(super) fn inspect(
        &self,
        paging: &Paging,
        cpu: u16,
        zero: bool,
        own_pages: u64,
    ) -> Result<(), String> {
        let mapped = match self.kind {
            AreaKind::Plain => 0,
            AreaKind::Vmalloc | AreaKind::Ram => self.pages,
        };
        let start = self.start.0;
        for page in (start - self.before..start).chain(start + mapped..start + self.covers) {
            let page = Page(page);
            if let Some(frame) = paging.reached(page) {
                return Err(format!(
                    "V5: page {page} of the new {self:?} still reaches {frame}"
                ));
            }
        }
        match self.kind {
            AreaKind::Plain => self.map_own(paging, own_pages),
            AreaKind::Vmalloc => {
                for nth in 0..self.pages {
                    let page = Page(self.start.0 + nth);
                    let found = paging.read(CpuId(cpu), page);
                    if found.is_none() || (zero && found != Some(0)) {
                        return Err(format!("page {page} of the new {self:?} has {found:x?}"));
                    }
                    paging.write(CpuId(cpu), page, word(self.id, nth));
                }
            }
            AreaKind::Ram => {}
        }
        for nth in [0, self.pages / 2, self.pages - 1] {
            self.touch(paging, cpu, nth)?;
        }
        Ok(())
    }

    /// Reads a page of a live area through a CPU's TLB, and writes it anew.
    pub(super) fn touch(&self, paging: &Paging, cpu: u16, nth: u64) -> Result<(), String> {
        let (cpu, page) = (CpuId(cpu), Page(self.start.0 + nth));
        let reached = paging.access(cpu, page);
        let mapped = paging.mapped(page);
        if reached != mapped {
            return Err(format!(
                "V5: {cpu:?} reaches {reached:?} through page {page} of {self:?}, not {mapped:?}"
            ));
        }
        let access = paging.access_of(page);
        if self.kind != AreaKind::Plain && access != Some(access_of(self.kind, self.id)) {
            return Err(format!(
                "V14: page {page} of {self:?} is mapped for {access:?}"
            ));
        }
        let expected = word(self.id, nth);
        match (self.kind, reached) {
            (AreaKind::Vmalloc, Some(_)) => {
                let found = paging.read(cpu, page);
                if found != Some(expected) {
                    return Err(format!(
                        "page {page} of {self:?} has {found:x?}, not {expected:#x}"
                    ));
                }
                paging.write(cpu, page, expected);
            }
            // Its user may have mapped only a part.
            (AreaKind::Plain, None) => {}
            (AreaKind::Plain | AreaKind::Ram, Some(frame)) => {
                let own = own_frame(paging.pool_frames(), self.id, nth);
                if frame != own {
                    return Err(format!("page {page} of {self:?} is {frame}, not {own}"));
                }
                // A write through this mapping must be visible in the frame.
                paging.write(cpu, page, expected);
                if paging.contents(own) != expected {
                    return Err(format!(
                        "the bytes written to {page} of {self:?} are not in {own}"
                    ));
                }
            }
            (AreaKind::Vmalloc | AreaKind::Ram, None) => {
                return Err(format!("page {page} of {self:?} is not mapped"));
            }
        }
        Ok(())
    }
}
