//! The simulated page table, with TLBs that keep old translations until they are flushed.

mod pool;
mod shared;

pub use pool::PoolFrames;
pub use shared::{SharedFrames, SharedPaging};

use crate::{Machine, MachineCall, Random};
use framewright::platform::{FramePlatform, MapError, RangePlatform, TableSource};
use framewright::{Context, CpuId, Frame, Page, PageAccess, PageRange, Run};
use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;

/// A [`Machine`] with frames, one page table for a window of pages, and a TLB for each CPU.
///
/// ```text
///   access(cpu, page) ──▶ TLB(cpu) ──hit──▶ frame, even one that is no longer mapped there
///                            │ miss
///                            ▼
///                        page table ──▶ frame, kept in the TLB until flush_all
/// ```
///
/// Frames below [`pool_frames`](Self::pool_frames) belong to a pool, from which [`PoolFrames`]
/// takes them; those above are the callers' own, for `map_ram`. Each frame has one word of
/// contents, so a write through one mapping can be read through another.
///
/// A call that the rules forbid does not return an error, but is [recorded](Self::broken): the
/// first broken rule is kept, in words.
///
/// # Rules
/// - A page is mapped only if it is not mapped, and no CPU has an old translation of it.
/// - A pool frame is mapped, filled with zeroes, and given back only while it is taken.
/// - A pool frame is given back only if no page table entry and no TLB reaches it.
/// - A call that may not wait makes the platform neither unmap nor flush.
/// - An unmap takes all pages of a run that one call of `map` mapped, or none.
/// - A frame that a page table lies in is neither mapped, nor filled with zeroes, nor given back by the engine.
#[derive(Debug)]
pub struct Paging {
    machine: Machine,
    start: Page,
    pool_frames: u32,
    /// All CPUs load a translation as soon as it exists. A CPU may do that, and so no stale
    /// translation stays unseen for want of an access.
    is_eager: bool,
    mapped_max: u64,
    /// The pages of one page table; 0 if the platform needs none.
    table_pages: u64,
    lie: Cell<Option<PagingLie>>,
    expected: Cell<Option<Context>>,
    state: RefCell<PagingState>,
}

/// How the platform breaks its promises, so that a test can show that this is noticed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum PagingLie {
    /// A flush leaves all TLBs unchanged.
    FlushNothing,
    /// Unmapping leaves the first mapped page mapped.
    UnmapAllButOne,
    /// An unmap changes nothing.
    UnmapNothing,
    /// The first of the frames is not filled with zeroes.
    ZeroAllButOne,
    /// The frames are mapped in reverse.
    MapReversed,
    /// Pages are mapped to read and write, whatever access is asked for.
    MapForAll,
    /// A frame that was given back is taken by an unrelated user.
    LoseFrames,
}

#[derive(Debug)]
struct PagingState {
    /// Each page's frame + 1, or 0.
    table: Vec<u32>,
    /// The access that each page was mapped for last.
    access: Vec<PageAccess>,
    /// The page tables that there are, by number, with their frames.
    tables: BTreeMap<u64, Frame>,
    /// The call that mapped each page; of a page that is not mapped, the last one.
    mapped_by: Vec<u32>,
    map_calls: u32,
    tlbs: Vec<Tlb>,
    frames: Vec<Physical>,
    free_frames: u64,
    /// Runs that were given back.
    runs_back: u64,
    cursor: usize,
    mapped_pages: u64,
    failed_maps: u64,
    random: Random,
    broken: Option<String>,
}

#[derive(Clone, Copy, Debug)]
struct Physical {
    contents: u64,
    /// Page table entries that reach it.
    entries: u32,
    is_taken: bool,
    /// A page table lies in it.
    is_table: bool,
}

/// What one CPU keeps of the page table. Moving its epoch on makes it forget all of it.
#[derive(Debug)]
struct Tlb {
    epoch: u32,
    /// For each page the epoch in which its translation was loaded, and its frame + 1.
    pages: Vec<(u32, u32)>,
    /// For each frame the last epoch in which a translation to it was loaded.
    frames: Vec<u32>,
}

impl Tlb {
    fn translation(&self, at: usize) -> Option<Frame> {
        let (epoch, entry) = self.pages[at];
        (epoch == self.epoch).then(|| frame_of(entry)).flatten()
    }

    fn reaches(&self, frame: Frame) -> bool {
        self.frames[frame.0 as usize] == self.epoch
    }

    fn load(&mut self, at: usize, frame: Frame) {
        self.pages[at] = (self.epoch, frame.0 as u32 + 1);
        self.frames[frame.0 as usize] = self.epoch;
    }
}

const FLUSH_NS: u64 = 4_000;
const MAP_NS: u64 = 1_000;

impl Paging {
    /// A machine with `cpus` CPUs, a page table for `pages` pages from `start`, `pool_frames` free
    /// frames in the pool and `own_frames` behind them that are the callers'. Contents are noise.
    ///
    /// # Panics
    /// If there are 2^32 frames or more.
    #[must_use]
    pub fn new(cpus: u16, start: Page, pages: u64, pool_frames: u32, own_frames: u32) -> Self {
        let frames = pool_frames
            .checked_add(own_frames)
            .expect("less than 2^32 frames");
        let physical = |nth| Physical {
            contents: 0xa5a5_0000_0000_0000 | u64::from(nth),
            entries: 0,
            is_taken: nth >= pool_frames,
            is_table: false,
        };
        let pages = pages as usize;
        let tlb = || Tlb {
            epoch: 1,
            pages: vec![(0, 0); pages],
            frames: vec![0; frames as usize],
        };
        Self {
            machine: Machine::new(cpus),
            start,
            pool_frames,
            is_eager: false,
            mapped_max: u64::MAX,
            table_pages: 0,
            lie: Cell::new(None),
            expected: Cell::new(None),
            state: RefCell::new(PagingState {
                table: vec![0; pages],
                access: vec![PageAccess::DATA; pages],
                tables: BTreeMap::new(),
                mapped_by: vec![0; pages],
                map_calls: 0,
                tlbs: (0..cpus).map(|_| tlb()).collect(),
                frames: (0..frames).map(physical).collect(),
                free_frames: u64::from(pool_frames),
                runs_back: 0,
                cursor: 0,
                mapped_pages: 0,
                failed_maps: 0,
                random: Random::new(0),
                broken: None,
            }),
        }
    }

    /// The same, where all CPUs load a translation as soon as it exists.
    #[must_use]
    pub const fn eager(mut self, is_eager: bool) -> Self {
        self.is_eager = is_eager;
        self
    }

    /// The same, where no more than that many pages can be mapped.
    #[must_use]
    pub const fn limited(mut self, mapped_max: u64) -> Self {
        self.mapped_max = mapped_max;
        self
    }

    /// The same, where each so many pages have a page table, in a frame that `map` takes when it maps the first of them. A
    /// table stays.
    #[must_use]
    pub const fn with_tables(mut self, table_pages: u64) -> Self {
        self.table_pages = table_pages;
        self
    }

    /// The CPUs, the clock, and what fails.
    #[must_use]
    pub const fn machine(&self) -> &Machine {
        &self.machine
    }

    /// Makes the platform break that promise from here on.
    pub fn lie(&self, lie: PagingLie) {
        self.lie.set(Some(lie));
    }

    pub(crate) fn lies(&self, lie: PagingLie) -> bool {
        self.lie.get() == Some(lie)
    }

    /// Runs `work`, during which the engine serves a request in that context, and may ask for no
    /// more than that allows.
    pub fn within<T>(&self, context: Context, work: impl FnOnce() -> T) -> T {
        self.expected.set(Some(context));
        let result = work();
        self.expected.set(None);
        result
    }

    /// The first rule that was broken, in words.
    #[must_use]
    pub fn broken(&self) -> Option<String> {
        self.state.borrow().broken.clone()
    }

    /// How many frames the pool has, taken or not; the callers' own begin behind them.
    #[must_use]
    pub const fn pool_frames(&self) -> u32 {
        self.pool_frames
    }

    /// Frames of the pool that are not taken.
    #[must_use]
    pub fn free_frames(&self) -> u64 {
        self.state.borrow().free_frames
    }

    /// Pages that the page table maps.
    #[must_use]
    pub fn mapped_pages(&self) -> u64 {
        self.state.borrow().mapped_pages
    }

    /// Frames of the pool in which page tables lie.
    #[must_use]
    pub fn table_frames(&self) -> u64 {
        self.state.borrow().tables.len() as u64
    }

    /// Calls of `map` that returned an error.
    #[must_use]
    pub fn failed_maps(&self) -> u64 {
        self.state.borrow().failed_maps
    }

    /// The frame behind the page in the page table, whatever TLBs may keep.
    #[must_use]
    pub fn mapped(&self, page: Page) -> Option<Frame> {
        let state = self.state.borrow();
        let at = page.0.checked_sub(self.start.0)?;
        frame_of(*state.table.get(at as usize)?)
    }

    /// What an access through the page may do, if it is mapped.
    #[must_use]
    pub fn access_of(&self, page: Page) -> Option<PageAccess> {
        self.mapped(page)?;
        let at = page.0 - self.start.0;
        Some(self.state.borrow().access[at as usize])
    }

    /// A frame that any CPU reaches through the page, by the page table or by its TLB.
    #[must_use]
    pub fn reached(&self, page: Page) -> Option<Frame> {
        let state = self.state.borrow();
        let at = self.offset(&state, page, 1)?;
        frame_of(state.table[at]).or_else(|| state.tlbs.iter().find_map(|tlb| tlb.translation(at)))
    }

    /// The frame that an access by `cpu` through `page` reaches, by the translation in its TLB, or
    /// else by the page table's, which the TLB keeps from now on. `None` means a fault.
    ///
    /// # Panics
    /// If the machine has no such CPU.
    pub fn access(&self, cpu: CpuId, page: Page) -> Option<Frame> {
        let mut state = self.state.borrow_mut();
        let at = page.0.checked_sub(self.start.0)? as usize;
        if at >= state.table.len() {
            return None;
        }
        let kept = state.tlbs[usize::from(cpu.0)].translation(at);
        if kept.is_some() {
            return kept;
        }
        let frame = frame_of(state.table[at])?;
        state.tlbs[usize::from(cpu.0)].load(at, frame);
        Some(frame)
    }

    /// Reads the word behind the page as `cpu` sees it. `None` means a fault.
    pub fn read(&self, cpu: CpuId, page: Page) -> Option<u64> {
        let frame = self.access(cpu, page)?;
        Some(self.state.borrow().frames[frame.0 as usize].contents)
    }

    /// Writes the word behind the page as `cpu` sees it. Returns whether there is one.
    pub fn write(&self, cpu: CpuId, page: Page, word: u64) -> bool {
        let Some(frame) = self.access(cpu, page) else {
            return false;
        };
        self.state.borrow_mut().frames[frame.0 as usize].contents = word;
        true
    }

    /// The word in the frame.
    ///
    /// # Panics
    /// If there is no such frame.
    #[must_use]
    pub fn contents(&self, frame: Frame) -> u64 {
        self.state.borrow().frames[frame.0 as usize].contents
    }

    /// Puts a word into the frame, as a device would.
    ///
    /// # Panics
    /// If there is no such frame.
    pub fn fill(&self, frame: Frame, word: u64) {
        self.state.borrow_mut().frames[frame.0 as usize].contents = word;
    }

    /// Maps one page for its user. This is not counted, never fails, and is never wrong.
    ///
    /// # Panics
    /// If the page is not in the window, or there is no such frame.
    pub fn map_page(&self, page: Page, frame: Frame) {
        let state = &mut *self.state.borrow_mut();
        let at = self.offset(state, page, 1).expect("a page of the window");
        state.map_calls += 1;
        state.map(page, at, frame);
        state.access[at] = PageAccess::DATA;
    }

    /// Empties one CPU's TLB; flushing all of them means doing that for each, from CPU 0 on.
    ///
    /// # Panics
    /// If the machine has no such CPU.
    pub fn flush(&self, cpu: CpuId) {
        let state = &mut *self.state.borrow_mut();
        if cpu.0 == 0 {
            let slow = if self.machine.is_hit(MachineCall::Flush) {
                1000
            } else {
                1
            };
            self.machine.advance(FLUSH_NS * slow);
            self.check_context(state, "flush", None);
        }
        if !self.lies(PagingLie::FlushNothing) {
            state.tlbs[usize::from(cpu.0)].epoch += 1;
        }
    }

    /// Whether a page table entry or a TLB reaches the frame.
    #[must_use]
    pub fn is_reached(&self, frame: Frame) -> bool {
        let state = self.state.borrow();
        let has_entry = |physical: &Physical| physical.entries > 0;
        state.frames.get(frame.0 as usize).is_some_and(has_entry)
            || state.tlbs.iter().any(|tlb| tlb.reaches(frame))
    }

    /// Records a broken rule, if it is the first.
    pub(crate) fn record(&self, what: impl FnOnce() -> String) {
        self.state.borrow_mut().record(what);
    }

    /// Records a call that is made within a context.
    pub(crate) fn note_context(&self, call: &str, context: Context) {
        let state = &mut *self.state.borrow_mut();
        self.check_context(state, call, Some(context));
    }

    /// Records a call that needs a caller that may wait.
    pub(crate) fn note_wait(&self, call: &str) {
        let state = &mut *self.state.borrow_mut();
        self.check_context(state, call, None);
    }

    /// Brings the tables of so many pages that are not there yet, or none.
    fn bring_tables(
        &self,
        at: Page,
        pages: u64,
        source: &mut impl TableSource,
    ) -> Result<(), MapError> {
        if self.table_pages == 0 {
            return Ok(());
        }
        let mut brought = Vec::new();
        for number in at.0 / self.table_pages..=(at.0 + pages - 1) / self.table_pages {
            if self.state.borrow().tables.contains_key(&number) {
                continue;
            }
            let Some(frame) = source.take_table() else {
                for (_, frame) in brought {
                    source.give_back(frame);
                }
                return Err(MapError::NoMemory);
            };
            brought.push((number, frame));
        }
        let state = &mut *self.state.borrow_mut();
        for &(_, frame) in &brought {
            state.frames[frame.0 as usize].is_table = true;
        }
        state.tables.extend(brought);
        Ok(())
    }

    /// Maps a run whose tables are there.
    fn map_run(&self, at: Page, frames: Run, access: PageAccess) -> Result<(), MapError> {
        let state = &mut *self.state.borrow_mut();
        let Some(offset) = self.offset(state, at, frames.frames()) else {
            state.record(|| format!("pages from {at} were mapped outside the window"));
            return Err(MapError::Page(at));
        };
        let max = self.mapped_max;
        let error = if frames.end().0 > state.frames.len() as u64 {
            Some(MapError::Frame(frames.start()))
        } else if self.machine.is_hit(MachineCall::Map) {
            Some(MapError::NoMemory)
        } else {
            let is_above = state.mapped_pages + frames.frames() > max;
            is_above.then_some(MapError::Limit { max })
        };
        if let Some(error) = error {
            return Err(error);
        }
        state.map_calls += 1;
        for nth in 0..frames.frames() {
            let from = if self.lies(PagingLie::MapReversed) {
                frames.frames() - 1 - nth
            } else {
                nth
            };
            let frame = Frame(frames.start().0 + from);
            state.map(Page(at.0 + nth), offset + nth as usize, frame);
            let lies = self.lies(PagingLie::MapForAll);
            let access = if lies { PageAccess::DATA } else { access };
            state.access[offset + nth as usize] = access;
        }
        Ok(())
    }

    fn offset(&self, state: &PagingState, page: Page, pages: u64) -> Option<usize> {
        let at = page.0.checked_sub(self.start.0)?;
        let is_inside = at.checked_add(pages)? <= state.table.len() as u64;
        is_inside.then_some(at as usize)
    }

    fn check_context(&self, state: &mut PagingState, call: &str, context: Option<Context>) {
        let Some(expected) = self.expected.get() else {
            return;
        };
        // A part that need not wait may be asked for at once; all else of the context is passed on
        // as it is.
        let is_within = |context: Context| {
            let may_block = context.may_block || expected.may_block;
            may_block == expected.may_block
                && Context {
                    may_block,
                    ..context
                } == expected
        };
        match context {
            Some(context) if !is_within(context) => {
                state.record(|| format!("{call} within {context:?} instead of {expected:?}"));
            }
            None if !expected.may_block => {
                state.record(|| format!("{call} for a caller that may not wait"));
            }
            _ => {}
        }
    }
}

const fn frame_of(entry: u32) -> Option<Frame> {
    match entry.checked_sub(1) {
        Some(frame) => Some(Frame(frame as u64)),
        None => None,
    }
}

impl PagingState {
    fn record(&mut self, what: impl FnOnce() -> String) {
        if self.broken.is_none() {
            self.broken = Some(what());
        }
    }

    fn map(&mut self, page: Page, at: usize, frame: Frame) {
        if !self.frames[frame.0 as usize].is_taken {
            self.record(|| format!("{frame} was mapped at {page}, but is not taken"));
        }
        if self.frames[frame.0 as usize].is_table {
            self.record(|| format!("{frame} was mapped at {page}, and a page table lies in it"));
        }
        if self.table[at] != 0 {
            self.record(|| format!("page {page} was mapped, and is mapped already"));
            self.unmap(at);
        }
        if self.tlbs.iter().any(|tlb| tlb.translation(at).is_some()) {
            self.record(|| {
                format!("V5: page {page} was mapped while a TLB has an old translation")
            });
        }
        self.table[at] = frame.0 as u32 + 1;
        self.mapped_by[at] = self.map_calls;
        self.frames[frame.0 as usize].entries += 1;
        self.mapped_pages += 1;
    }

    /// Whether one call of `map` mapped the pages on both sides of that place.
    fn is_inside_a_run(&self, at: usize) -> bool {
        let is_mapped = |at: usize| self.table.get(at).is_some_and(|&entry| entry != 0);
        at > 0 && is_mapped(at - 1) && is_mapped(at) && self.mapped_by[at - 1] == self.mapped_by[at]
    }

    fn unmap(&mut self, at: usize) {
        if let Some(frame) = frame_of(self.table[at]) {
            self.table[at] = 0;
            self.frames[frame.0 as usize].entries -= 1;
            self.mapped_pages -= 1;
        }
    }
}

impl RangePlatform for Paging {
    fn map(
        &self,
        at: Page,
        frames: Run,
        access: PageAccess,
        tables: &mut impl TableSource,
    ) -> Result<(), MapError> {
        self.machine.advance(MAP_NS);
        self.note_context("map", tables.context());
        let brought = self.bring_tables(at, frames.frames(), tables);
        let mapped = brought.and_then(|()| self.map_run(at, frames, access));
        self.state.borrow_mut().failed_maps += u64::from(mapped.is_err());
        mapped
    }

    fn unmap(&self, range: PageRange) -> Result<(), MapError> {
        self.machine.advance(MAP_NS);
        let state = &mut *self.state.borrow_mut();
        self.check_context(state, "unmap", None);
        let Some(offset) = self.offset(state, range.start(), range.pages()) else {
            state.record(|| format!("{range:?} was unmapped outside the window"));
            return Err(MapError::Page(range.start()));
        };
        if self.machine.is_hit(MachineCall::Unmap) {
            return Err(MapError::NoMemory);
        }
        let pages = offset..offset + range.pages() as usize;
        if [pages.start, pages.end]
            .into_iter()
            .any(|at| state.is_inside_a_run(at))
        {
            state.record(|| {
                format!("{range:?} was unmapped, which is a part of what one call mapped")
            });
        }
        let skipped = match self.lie.get() {
            Some(PagingLie::UnmapNothing) => return Ok(()),
            Some(PagingLie::UnmapAllButOne) => pages.clone().find(|&at| state.table[at] != 0),
            _ => None,
        };
        for at in pages.filter(|&at| Some(at) != skipped) {
            if let (true, Some(frame)) = (self.is_eager, frame_of(state.table[at])) {
                // It was mapped until now, so each CPU may have loaded it since the last flush.
                for tlb in &mut state.tlbs {
                    tlb.load(at, frame);
                }
            }
            state.unmap(at);
        }
        Ok(())
    }

    fn flush_all(&self) {
        for cpu in 0..self.machine.cpus() {
            self.flush(CpuId(cpu));
        }
    }

    fn zero(&self, frames: Run) {
        let state = &mut *self.state.borrow_mut();
        let skip = u64::from(self.lies(PagingLie::ZeroAllButOne));
        for frame in frames.start().0 + skip..frames.end().0 {
            match state.frames.get_mut(frame as usize) {
                Some(physical)
                    if physical.is_taken
                        && !physical.is_table
                        && frame < u64::from(self.pool_frames) =>
                {
                    physical.contents = 0;
                }
                _ => state.record(|| {
                    format!(
                        "{} was zeroed, which was not taken from the pool",
                        Frame(frame)
                    )
                }),
            }
        }
    }
}

impl FramePlatform for Paging {
    const ASYMMETRIC: bool = Machine::ASYMMETRIC;
    const ALONE: bool = Machine::ALONE;

    fn relax(&self, attempt: u32) {
        self.machine.relax(attempt);
    }

    fn barrier_all(&self) {
        self.machine.barrier_all();
    }

    fn now_ns(&self) -> u64 {
        self.machine.now_ns()
    }
}

#[cfg(test)]
mod tests;
