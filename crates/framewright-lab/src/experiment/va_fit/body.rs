//! The cases' preparations and operations.

use crate::experiment::{Failure, Mapper, SpaceSubject};
use framewright::Page;
use framewright_sim::Random;
use std::hint::black_box;

/// What a body is prepared with.
#[derive(Debug, Clone, Copy)]
pub(super) struct Setting {
    pub(super) mapper: Mapper,
    pub(super) seed: u64,
    pub(super) thread: u16,
}

impl Setting {
    fn random(self) -> Random {
        Random::new(self.seed ^ (u64::from(self.thread) << 32))
    }

    /// A host allows 65,530 mappings and has so much memory: there is less of it with frames.
    const fn at_host(self, null: u64, host: u64) -> u64 {
        match self.mapper {
            Mapper::Null => null,
            Mapper::Host => host,
        }
    }
}

/// One case on one CPU.
pub(super) trait FitBody: Sized + Send {
    /// `before` makes this many times fewer operations, where each of them walks a long list; `None`
    /// where it has nothing comparable.
    const BEFORE_DIVISOR: Option<u64> = Some(1);

    /// What there is before the first operation.
    fn prepare(seat: &mut impl SpaceSubject, setting: Setting) -> Result<Self, Failure>;

    /// One operation.
    fn op(&mut self, seat: &mut impl SpaceSubject) -> Result<(), Failure>;
}

const PAGE: u64 = Page::BYTES;

/// An area, freed at once.
#[inline]
fn once(seat: &mut impl SpaceSubject, pages: u64, align_bytes: u64) -> Result<(), Failure> {
    let page = black_box(seat.alloc(pages, align_bytes)?);
    Ok(seat.free(page)?)
}

/// Gaps of this many pages, each between two areas: more than may be lazy, so that no operation meets
/// another gap.
fn gaps(seat: &mut impl SpaceSubject, setting: Setting, pages: u64) -> Result<(), Failure> {
    let mut gaps = Vec::new();
    for _ in 0..setting.at_host(4096, 512) {
        // With its guard page.
        gaps.push(seat.alloc(pages - 1, PAGE)?);
        seat.alloc(1, PAGE)?;
    }
    free_all(seat, gaps)?;
    seat.drain();
    Ok(())
}

/// The document's left-edge fit: each gap begins at a page that will do, and is longer.
pub(super) struct LeFit;

impl FitBody for LeFit {
    fn prepare(seat: &mut impl SpaceSubject, setting: Setting) -> Result<Self, Failure> {
        gaps(seat, setting, 8)?;
        Ok(Self)
    }

    #[inline]
    fn op(&mut self, seat: &mut impl SpaceSubject) -> Result<(), Failure> {
        once(seat, 4, PAGE)
    }
}

/// The document's full fit: each gap has just the length asked for.
pub(super) struct BFit;

impl FitBody for BFit {
    fn prepare(seat: &mut impl SpaceSubject, setting: Setting) -> Result<Self, Failure> {
        gaps(seat, setting, 5)?;
        Ok(Self)
    }

    #[inline]
    fn op(&mut self, seat: &mut impl SpaceSubject) -> Result<(), Failure> {
        once(seat, 4, PAGE)
    }
}

/// The document's no-edge fit: every gap begins two pages behind an aligned one.
pub(super) struct NeFit;

impl FitBody for NeFit {
    fn prepare(seat: &mut impl SpaceSubject, _setting: Setting) -> Result<Self, Failure> {
        seat.alloc(1, 8 * PAGE)?;
        Ok(Self)
    }

    #[inline]
    fn op(&mut self, seat: &mut impl SpaceSubject) -> Result<(), Failure> {
        once(seat, 1, 8 * PAGE)
    }
}

pub(super) struct FixSize;

impl FitBody for FixSize {
    fn prepare(_seat: &mut impl SpaceSubject, _setting: Setting) -> Result<Self, Failure> {
        Ok(Self)
    }

    #[inline]
    fn op(&mut self, seat: &mut impl SpaceSubject) -> Result<(), Failure> {
        once(seat, 1, PAGE)
    }
}

pub(super) struct FullFit;

impl FitBody for FullFit {
    fn prepare(seat: &mut impl SpaceSubject, setting: Setting) -> Result<Self, Failure> {
        let mut freed = Vec::new();
        for _ in 0..setting.at_host(16_384, 2048) {
            seat.alloc(1, PAGE)?;
            freed.push(seat.alloc(1, PAGE)?);
        }
        free_all(seat, freed)?;
        Ok(Self)
    }

    #[inline]
    fn op(&mut self, seat: &mut impl SpaceSubject) -> Result<(), Failure> {
        once(seat, 1, PAGE)
    }
}

/// Freed kernel stacks below the busy areas: 4 pages and a guard page each, and one in use between
/// two of them. Without such holes the busy list is never walked, with them at every operation:
/// the single page goes into one of them, and the 100 pages are searched for from there.
const STACKS: u64 = 512;

/// This many busy areas of one page, with freed stacks below them or without.
pub(super) struct LongBusyList<const AREAS: u64, const HOLES: bool>;

impl<const AREAS: u64, const HOLES: bool> FitBody for LongBusyList<AREAS, HOLES> {
    const BEFORE_DIVISOR: Option<u64> = Some(match (HOLES, AREAS) {
        (false, _) => 1,
        (true, 100_001..) => 5000,
        (true, _) => 100,
    });

    fn prepare(seat: &mut impl SpaceSubject, setting: Setting) -> Result<Self, Failure> {
        let mut stacks = Vec::new();
        for _ in 0..if HOLES { STACKS } else { 0 } {
            seat.alloc(4, PAGE)?;
            stacks.push(seat.alloc(4, PAGE)?);
        }
        for _ in 0..setting.at_host(AREAS, AREAS.min(8_000)) {
            seat.alloc(1, PAGE)?;
        }
        free_all(seat, stacks)?;
        seat.drain();
        Ok(Self)
    }

    #[inline]
    fn op(&mut self, seat: &mut impl SpaceSubject) -> Result<(), Failure> {
        let long = black_box(seat.alloc(100, PAGE)?);
        let short = black_box(seat.alloc(1, PAGE)?);
        seat.free(long)?;
        Ok(seat.free(short)?)
    }
}

pub(super) struct RandomSize(Random);

impl FitBody for RandomSize {
    fn prepare(_seat: &mut impl SpaceSubject, setting: Setting) -> Result<Self, Failure> {
        Ok(Self(setting.random()))
    }

    #[inline]
    fn op(&mut self, seat: &mut impl SpaceSubject) -> Result<(), Failure> {
        once(seat, 1 + self.0.below(100), PAGE)
    }
}

pub(super) struct FixAlign;

impl FitBody for FixAlign {
    fn prepare(_seat: &mut impl SpaceSubject, _setting: Setting) -> Result<Self, Failure> {
        Ok(Self)
    }

    #[inline]
    fn op(&mut self, seat: &mut impl SpaceSubject) -> Result<(), Failure> {
        once(seat, 5, 32 << 10)
    }
}

pub(super) struct RandomSizeAlign(Random);

impl FitBody for RandomSizeAlign {
    const BEFORE_DIVISOR: Option<u64> = Some(20);

    fn prepare(_seat: &mut impl SpaceSubject, setting: Setting) -> Result<Self, Failure> {
        Ok(Self(setting.random()))
    }

    #[inline]
    fn op(&mut self, seat: &mut impl SpaceSubject) -> Result<(), Failure> {
        let byte = self.0.below(256);
        once(seat, byte % 10 + 1, 1 << (byte % 23))
    }
}

/// Alignments 2^0 to 2^63 in turn. Those that the window does not have must fail with an error; the
/// operation is the request, served or not.
pub(super) struct AlignShift(u32);

impl FitBody for AlignShift {
    const BEFORE_DIVISOR: Option<u64> = Some(20);

    fn prepare(_seat: &mut impl SpaceSubject, _setting: Setting) -> Result<Self, Failure> {
        Ok(Self(0))
    }

    #[inline]
    fn op(&mut self, seat: &mut impl SpaceSubject) -> Result<(), Failure> {
        let shift = self.0 % 64;
        self.0 += 1;
        match seat.alloc(1, 1 << shift) {
            Ok(page) => Ok(seat.free(black_box(page))?),
            Err(_) if shift > 22 => Ok(()),
            Err(error) => Err(error.into()),
        }
    }
}

/// Areas of 1 to `LONGEST` pages that stay until one at random is replaced.
pub(super) struct Replace<const LIVE: usize, const LONGEST: u64> {
    live: Vec<Page>,
    random: Random,
}

/// 10,000 live areas of 1 to 100 pages.
pub(super) type SteadyRandom = Replace<10_000, 100>;

/// A steady churn of 64 areas of 1 to 16 pages.
pub(super) type Churn = Replace<64, 16>;

impl<const LIVE: usize, const LONGEST: u64> FitBody for Replace<LIVE, LONGEST> {
    const BEFORE_DIVISOR: Option<u64> = Some(if LIVE > 1000 { 20 } else { 1 });

    fn prepare(seat: &mut impl SpaceSubject, setting: Setting) -> Result<Self, Failure> {
        let mut random = setting.random();
        let mut live = Vec::new();
        let wanted = setting.at_host(LIVE as u64, (LIVE as u64).min(500));
        for _ in 0..wanted {
            live.push(seat.alloc(1 + random.below(LONGEST), PAGE)?);
        }
        Ok(Self { live, random })
    }

    #[inline]
    fn op(&mut self, seat: &mut impl SpaceSubject) -> Result<(), Failure> {
        let which = self.random.below(self.live.len() as u64) as usize;
        seat.free(self.live[which])?;
        self.live[which] = seat.alloc(1 + self.random.below(LONGEST), PAGE)?;
        Ok(())
    }
}

pub(super) struct MapRam<const PAGES: u64>;

impl<const PAGES: u64> FitBody for MapRam<PAGES> {
    const BEFORE_DIVISOR: Option<u64> = None;

    fn prepare(_seat: &mut impl SpaceSubject, _setting: Setting) -> Result<Self, Failure> {
        Ok(Self)
    }

    #[inline]
    fn op(&mut self, seat: &mut impl SpaceSubject) -> Result<(), Failure> {
        let page = black_box(seat.map_ram(PAGES)?);
        Ok(seat.unmap_ram(page, PAGES)?)
    }
}

fn free_all(seat: &mut impl SpaceSubject, areas: Vec<Page>) -> Result<(), Failure> {
    for page in areas {
        seat.free(page)?;
    }
    Ok(())
}
