//! What happens before the first request.

use super::compact::{Hands, Scanners310};
use super::kswapd::Kswapd;
use super::lists::{ASKED, CMA, MOVABLE, RESERVE, Tag310, Zone310};
use super::watermark::Watermarks310;
use super::{Kernel310, Variant310};
use crate::before::buddy::MAX_ORDER;
use crate::before::buddy::links::MAX_FRAMES;
use core::fmt;
use framewright::Run;
use framewright::stats::ReclaimStats;

/// Pageblocks kept for the worst, at most (`MIGRATE_RESERVE`).
const RESERVE_PAGEBLOCKS: u64 = 2;

/// What a [`Kernel310`] is built from.
#[derive(Debug, Clone, Copy)]
pub struct Layout310<'a> {
    /// The number of frames; they are numbered from 0.
    pub frames: u64,
    /// Frames that do not exist, or that the kernel has taken for itself before it began. In no
    /// order; they may overlap.
    pub absent: &'a [Run],
    /// The contiguous area: whole pageblocks, aligned to the largest block there is.
    pub cma: &'a [Run],
    /// Whether movable requests take from the contiguous area before their own list. Linux has them
    /// take from there last of all that is movable; kernels for Qualcomm's chips, on which most
    /// phones of that time run, have them fill it first.
    pub cma_first: bool,
    /// CPUs with lists of their own, at least 1; a request from a CPU with a higher number uses the
    /// lists of that number modulo this one.
    pub cpus: u16,
    /// Log2 of a pageblock's length in frames, 1 to 10: 10 on the document's devices, where there
    /// are no huge pages, 9 on x86-64.
    pub pageblock_order: u8,
    /// The min watermark in KiB; by the zone's size if it is not given.
    pub min_free_kbytes: Option<u64>,
    /// Android's: KiB by which low and high are raised, so that the background starts early.
    pub extra_free_kbytes: u64,
    /// By how many bits the demand of a watermark shrinks from one order to the next: 1 in Linux;
    /// Android's own start-up sets 4 on kernels that let it.
    pub min_free_order_shift: u8,
    /// How many looks the background could do in a tenth of a second, its short sleep.
    pub short_sleep: u64,
}

impl Layout310<'static> {
    /// `frames` frames without holes or contiguous area, in pageblocks of 1024, for four CPUs, with
    /// the kernel's own settings; a look takes a microsecond.
    #[must_use]
    pub const fn new(frames: u64) -> Self {
        Self {
            frames,
            absent: &[],
            cma: &[],
            cma_first: false,
            cpus: 4,
            pageblock_order: 10,
            min_free_kbytes: None,
            extra_free_kbytes: 0,
            min_free_order_shift: 1,
            short_sleep: 100_000,
        }
    }
}

/// Why a [`Kernel310`] could not be built.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LayoutError {
    /// More frames than 32-bit links can name.
    TooManyFrames(u64),
    /// No pageblock order between 1 and 10.
    PageblockOrder(u8),
    /// No CPU to keep lists for.
    NoCpu,
    /// A part of the contiguous area that is not made of whole blocks of the largest order, or that
    /// does not exist.
    Cma(Run),
}

impl fmt::Display for LayoutError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::TooManyFrames(n) => write!(f, "{n} frames are above the maximum {MAX_FRAMES}"),
            Self::PageblockOrder(o) => {
                write!(f, "pageblock order {o} is not between 1 and {MAX_ORDER}")
            }
            Self::NoCpu => f.write_str("0 cpus are below the minimum 1"),
            Self::Cma(run) => write!(
                f,
                "frames {} to {} of the contiguous area are not whole existing blocks of order {MAX_ORDER}",
                run.start().0,
                run.end().0
            ),
        }
    }
}

impl core::error::Error for LayoutError {}

impl Kernel310 {
    /// A zone as after boot: every frame that exists is free, every pageblock movable but those of
    /// the contiguous area and of the reserve.
    ///
    /// Memory: 9 bytes a frame. Time: O(frames).
    ///
    /// # Errors
    /// If the layout is outside the limits that [`Layout310`] states.
    pub fn new(layout: &Layout310<'_>, variant: Variant310) -> Result<Self, LayoutError> {
        if layout.frames > MAX_FRAMES {
            return Err(LayoutError::TooManyFrames(layout.frames));
        }
        if !(1..=MAX_ORDER).contains(&layout.pageblock_order) {
            return Err(LayoutError::PageblockOrder(layout.pageblock_order));
        }
        if layout.cpus == 0 {
            return Err(LayoutError::NoCpu);
        }
        let cpus = usize::from(layout.cpus);
        let mut zone = Zone310::new(layout.frames as u32, layout.pageblock_order, cpus * ASKED);
        label_cma(&mut zone, layout)?;
        add_present(&mut zone, layout);
        if let Some(&run) = layout.cma.iter().find(|&&run| !exists(&zone, run)) {
            return Err(LayoutError::Cma(run));
        }
        let marks = Watermarks310::new(layout, zone.present());
        set_reserve_apart(&mut zone, marks.min);
        Ok(Self {
            variant,
            cma_first: layout.cma_first,
            marks,
            cached: vec![0; cpus],
            pages_scanned: 0,
            scanners: Scanners310::new(&zone),
            background: Kswapd::new(layout.short_sleep),
            stats: ReclaimStats::default(),
            parts: Vec::new(),
            hands: Hands::default(),
            zone,
        })
    }
}

fn label_cma(zone: &mut Zone310, layout: &Layout310<'_>) -> Result<(), LayoutError> {
    let block = 1 << MAX_ORDER;
    for &run in layout.cma {
        let (start, end) = (run.start().0, run.end().0);
        if start % block != 0 || end % block != 0 || end > layout.frames {
            return Err(LayoutError::Cma(run));
        }
        for frame in (start..end).step_by(1 << layout.pageblock_order) {
            zone.set_label(zone.pageblock(frame as u32), CMA);
        }
    }
    Ok(())
}

fn exists(zone: &Zone310, run: Run) -> bool {
    let (start, end) = (run.start().0 as usize, run.end().0 as usize);
    zone.tags()[start..end]
        .iter()
        .all(|&tag| tag != Tag310::ABSENT)
}

fn add_present(zone: &mut Zone310, layout: &Layout310<'_>) {
    let mut holes: Vec<(u64, u64)> = layout
        .absent
        .iter()
        .map(|run| (run.start().0, run.end().0.min(layout.frames)))
        .collect();
    holes.sort_unstable();
    let mut at = 0;
    for (start, end) in holes {
        if at < start.min(layout.frames) {
            zone.add_present(at as u32, start.min(layout.frames) as u32);
        }
        at = at.max(end);
    }
    if at < layout.frames {
        zone.add_present(at as u32, layout.frames as u32);
    }
}

/// The reserve: as many pageblocks as the min watermark, two at most; the lowest movable ones of
/// which every frame exists.
fn set_reserve_apart(zone: &mut Zone310, min: u64) {
    let frames = zone.pageblock_frames();
    let mut left = min.div_ceil(u64::from(frames)).min(RESERVE_PAGEBLOCKS);
    let mut start = 0;
    while left > 0 && u64::from(start) + u64::from(frames) <= u64::from(zone.count()) {
        let is_whole = zone.tags()[start as usize..(start + frames) as usize]
            .iter()
            .all(|&tag| tag != Tag310::ABSENT);
        if is_whole && zone.label(start) == MOVABLE {
            zone.set_label(zone.pageblock(start), RESERVE);
            zone.move_pageblock(start, RESERVE);
            left -= 1;
        }
        start += frames;
    }
}
