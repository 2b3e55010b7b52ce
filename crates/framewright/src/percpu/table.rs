//! States, lists and bits of the units' pages, under one lock.

use super::class::{CLASSES, SLOT_WORDS, UnitClass};
use crate::platform::FramePlatform;
use crate::raw::{Carver, RawRecord, record};
use crate::slots::Tree;
use crate::stats::PerCpuStats;
use crate::sync::{AtomicU32, AtomicU64, Lock, LockGuard, Ordering::Relaxed};
use crate::units::{Frame, Page};

/// The lists: slabs with a free slot by class, idle pages, stuck pages.
pub(super) const LISTS: usize = CLASSES + 2;
pub(super) const IDLE: usize = CLASSES;
pub(super) const STUCK: usize = CLASSES + 1;
/// The most pages whose states change while a CPU holds the lock.
pub(super) const STATES_PART: u32 = if cfg!(shuttle) { 2 } else { 128 };

record! {
    /// What all units have once.
    #[derive(Debug)]
    #[repr(C, align(64))]
    pub(super) struct UnitsRecord {
        lock: AtomicU64,
        /// How often a page became free.
        freed: AtomicU64,
        objects: AtomicU64,
        bytes: AtomicU64,
        allocs: AtomicU64,
        failures: AtomicU64,
        /// Pages with frames behind them, and how many of them are idle, and stuck.
        pages: AtomicU64,
        idle: AtomicU64,
        stuck: AtomicU64,
        /// The first page of each list, plus one.
        heads: [AtomicU32; LISTS],
        /// The last of the stuck pages, plus one.
        last_stuck: AtomicU32,
    } = 24 words;

    /// A page of the units.
    #[derive(Debug)]
    #[repr(C)]
    pub(super) struct UnitPageRecord {
        state: AtomicU32,
        /// A slab's class; a run's pages; how far a page behind a run's first is from that.
        value: AtomicU32,
        /// How many slots of a slab have objects.
        used: AtomicU32,
        /// The neighbours in its list, plus one.
        next: AtomicU32,
        previous: AtomicU32,
        _rest: AtomicU32,
        /// A slab's free slots.
        slots: [AtomicU64; SLOT_WORDS],
    } = 11 words, slots at 3;
}

/// What a page of the units is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum UnitPageState {
    Free,
    /// A call brings its frames, or takes them away.
    Moving,
    Slab(UnitClass),
    Idle,
    /// The first of so many pages of an object.
    Run {
        pages: u32,
    },
    /// A page of an object that begins so many pages before.
    Behind {
        by: u32,
    },
    Stuck,
}

impl UnitPageState {
    const fn words(self) -> (u32, u32) {
        match self {
            Self::Free => (0, 0),
            Self::Moving => (1, 0),
            Self::Slab(class) => (2, class.index() as u32),
            Self::Idle => (3, 0),
            Self::Run { pages } => (4, pages),
            Self::Behind { by } => (5, by),
            Self::Stuck => (6, 0),
        }
    }

    const fn of(state: u32, value: u32) -> Self {
        match state {
            0 => Self::Free,
            1 => Self::Moving,
            2 => Self::Slab(UnitClass::new(value)),
            3 => Self::Idle,
            4 => Self::Run { pages: value },
            5 => Self::Behind { by: value },
            _ => Self::Stuck,
        }
    }

    /// Whether frames lie behind it that no call is moving.
    pub(super) const fn has_frames(self) -> bool {
        !matches!(self, Self::Free | Self::Moving | Self::Stuck)
    }
}

/// The metadata of the units.
#[derive(Debug)]
pub(super) struct UnitTable<'m> {
    all: &'m UnitsRecord,
    pages: &'m [UnitPageRecord],
    /// The set of free pages. Holders of the lock change it; others may look.
    free: Tree<'m>,
    /// By page and CPU: the frame behind it plus one, or 0. Of the page's owner, as [`PC1`](super) has it.
    frames: &'m [AtomicU64],
    cpus: usize,
}

impl<'m> UnitTable<'m> {
    pub(super) const fn words(pages: usize, cpus: usize) -> usize {
        let free = Tree::words_needed(pages);
        UnitsRecord::WORDS + pages * (UnitPageRecord::WORDS + cpus) + free
    }

    pub(super) fn new(pages: usize, cpus: usize, carver: &mut Carver<'m>) -> Self {
        let table = Self {
            all: carver.record(),
            pages: carver.records(pages),
            free: Tree::new(carver.words(Tree::words_needed(pages)), pages),
            frames: carver.words(pages * cpus),
            cpus,
        };
        (0..pages).for_each(|page| _ = table.free.insert(page));
        table
    }

    /// How many pages a unit has.
    pub(super) const fn pages(&self) -> usize {
        self.pages.len()
    }

    pub(super) const fn cpus(&self) -> u16 {
        self.cpus as u16
    }

    /// The frame behind a CPU's page, as a word.
    pub(super) fn frame_word(&self, page: u32, cpu: u16) -> &'m AtomicU64 {
        &self.frames[page as usize * self.cpus + usize::from(cpu)]
    }

    /// The frame behind a CPU's page.
    pub(super) fn frame(&self, page: u32, cpu: u16) -> Option<Frame> {
        let word = self.frame_word(page, cpu).load(Relaxed);
        word.checked_sub(1).map(Frame)
    }

    /// How often a page became free.
    pub(super) fn freed(&self) -> u64 {
        self.all.freed.load(Relaxed)
    }

    /// The set of free pages, for a look without the lock.
    pub(super) const fn free_pages(&self) -> Tree<'m> {
        self.free
    }

    /// Waits for the lock. Its holders take a bounded number of steps.
    pub(super) fn lock(&self, platform: &impl FramePlatform) -> LockedUnits<'_, 'm> {
        let lock = Lock::new(&self.all.lock);
        let guard = lock.lock(|attempt| platform.relax(attempt));
        LockedUnits {
            table: self,
            _guard: guard,
        }
    }
}

/// The table, while this CPU holds its lock.
#[derive(Debug)]
pub(super) struct LockedUnits<'a, 'm> {
    pub(super) table: &'a UnitTable<'m>,
    _guard: LockGuard<'m>,
}

/// Changes a count that only holders of the lock change.
fn add(count: &AtomicU64, more: u64) {
    count.store(count.load(Relaxed).wrapping_add(more), Relaxed);
}

impl<'m> LockedUnits<'_, 'm> {
    fn all(&self) -> &'m UnitsRecord {
        self.table.all
    }

    fn record(&self, page: u32) -> &'m UnitPageRecord {
        &self.table.pages[page as usize]
    }

    pub(super) fn state(&self, page: u32) -> UnitPageState {
        let record = self.record(page);
        UnitPageState::of(record.state.load(Relaxed), record.value.load(Relaxed))
    }

    fn set_state(&self, page: u32, new: UnitPageState) {
        let had = self.state(page).has_frames();
        add(
            &self.all().pages,
            u64::from(new.has_frames()).wrapping_sub(had.into()),
        );
        let (state, value) = new.words();
        self.record(page).state.store(state, Relaxed);
        self.record(page).value.store(value, Relaxed);
    }

    /// The first page of a list.
    pub(super) fn head(&self, list: usize) -> Option<u32> {
        self.all().heads[list].load(Relaxed).checked_sub(1)
    }

    /// The page behind one in its list.
    pub(super) fn next(&self, page: u32) -> Option<u32> {
        self.record(page).next.load(Relaxed).checked_sub(1)
    }

    fn push(&self, list: usize, page: u32) {
        let head = &self.all().heads[list];
        let first = head.load(Relaxed);
        self.record(page).next.store(first, Relaxed);
        self.record(page).previous.store(0, Relaxed);
        if let Some(first) = first.checked_sub(1) {
            self.record(first).previous.store(page + 1, Relaxed);
        }
        head.store(page + 1, Relaxed);
    }

    fn unlink(&self, list: usize, page: u32) {
        let record = self.record(page);
        let (next, previous) = (record.next.load(Relaxed), record.previous.load(Relaxed));
        match previous.checked_sub(1) {
            Some(before) => self.record(before).next.store(next, Relaxed),
            None => self.all().heads[list].store(next, Relaxed),
        }
        if let Some(behind) = next.checked_sub(1) {
            self.record(behind).previous.store(previous, Relaxed);
        }
    }

    /// The free slots of a slab, as words.
    pub(super) fn slots(&self, page: u32) -> &'m [AtomicU64; SLOT_WORDS] {
        &self.record(page).slots
    }

    /// How many of its slots have objects.
    pub(super) fn used(&self, page: u32) -> u32 {
        self.record(page).used.load(Relaxed)
    }

    /// How many pages the list of the idle or the stuck has.
    pub(super) fn count(&self, list: usize) -> u64 {
        self.count_of(list).load(Relaxed)
    }

    /// Takes a slot of that class, of a slab or of an idle page: the page, and the slot's number.
    pub(super) fn take_slot(&self, class: UnitClass) -> Option<(u32, u32)> {
        if self.head(class.index()).is_none() {
            let page = self.pop(IDLE)?;
            self.begin_slab(page, class);
        }
        let page = self.head(class.index())?;
        let record = self.record(page);
        let (nth, word) = (0..)
            .zip(&record.slots)
            .find(|(_, word)| word.load(Relaxed) != 0)?;
        let bits = word.load(Relaxed);
        word.store(bits & (bits - 1), Relaxed);
        let used = record.used.load(Relaxed) + 1;
        record.used.store(used, Relaxed);
        if used == class.slots() {
            self.unlink(class.index(), page);
        }
        Some((page, nth * 64 + bits.trailing_zeros()))
    }

    /// Takes the first page of the idle or the stuck, for the caller to move.
    pub(super) fn pop(&self, list: usize) -> Option<u32> {
        let page = self.head(list)?;
        self.unlink(list, page);
        if list == STUCK && self.head(list).is_none() {
            self.all().last_stuck.store(0, Relaxed);
        }
        add(self.count_of(list), u64::MAX);
        self.set_state(page, UnitPageState::Moving);
        Some(page)
    }

    fn count_of(&self, list: usize) -> &'m AtomicU64 {
        match list {
            IDLE => &self.all().idle,
            _ => &self.all().stuck,
        }
    }

    /// Makes a page that the caller moves, with its frames, a slab without objects.
    pub(super) fn begin_slab(&self, page: u32, class: UnitClass) {
        self.set_state(page, UnitPageState::Slab(class));
        let record = self.record(page);
        record.used.store(0, Relaxed);
        let mut left = class.slots();
        for word in &record.slots {
            let here = left.min(64);
            word.store(u64::MAX.checked_shr(64 - here).unwrap_or(0), Relaxed);
            left -= here;
        }
        self.push(class.index(), page);
    }

    /// Makes pages that the caller moves those behind the first of an object.
    pub(super) fn begin_behind(&self, first: u32, from: u32, pages: u32) {
        for page in from..from + pages {
            self.set_state(page, UnitPageState::Behind { by: page - first });
        }
    }

    /// Makes a page that the caller moves, and those [behind](Self::begin_behind) it, an object.
    pub(super) fn begin_run(&self, first: u32, pages: u32) {
        self.set_state(first, UnitPageState::Run { pages });
    }

    /// Frees a slot that has an object. A slab without any is idle then; returns whether it is so.
    pub(super) fn free_slot(&self, page: u32, class: UnitClass, slot: u32) -> bool {
        let record = self.record(page);
        let word = &record.slots[slot as usize / 64];
        word.store(word.load(Relaxed) | 1 << (slot % 64), Relaxed);
        let used = record.used.load(Relaxed) - 1;
        record.used.store(used, Relaxed);
        if used + 1 == class.slots() {
            self.push(class.index(), page);
        }
        if used != 0 {
            return false;
        }
        self.unlink(class.index(), page);
        self.set_aside(page, IDLE);
        true
    }

    /// Puts a page that the caller moves, or a slab without objects, among the idle or the stuck.
    pub(super) fn set_aside(&self, page: u32, list: usize) {
        let state = match list {
            IDLE => UnitPageState::Idle,
            _ => UnitPageState::Stuck,
        };
        self.set_state(page, state);
        match list {
            STUCK => self.append_stuck(page),
            _ => self.push(list, page),
        }
        add(self.count_of(list), 1);
    }

    /// The last of the stuck: one that the platform refuses again and again holds none behind it up.
    fn append_stuck(&self, page: u32) {
        let all = self.all();
        let last = all.last_stuck.load(Relaxed);
        self.record(page).next.store(0, Relaxed);
        self.record(page).previous.store(last, Relaxed);
        match last.checked_sub(1) {
            Some(last) => self.record(last).next.store(page + 1, Relaxed),
            None => all.heads[STUCK].store(page + 1, Relaxed),
        }
        all.last_stuck.store(page + 1, Relaxed);
    }

    /// Makes pages of an object the caller's to move.
    pub(super) fn begin_move(&self, first: u32, pages: u32) {
        (first..first + pages).for_each(|page| self.set_state(page, UnitPageState::Moving));
    }

    /// Takes the first free page, for the caller to move.
    pub(super) fn take_page(&self) -> Option<u32> {
        let page = self.table.free.first()? as u32;
        self.take(page);
        Some(page)
    }

    /// Takes these pages, for the caller to move, if all are free. At most [`STATES_PART`].
    pub(super) fn claim(&self, first: u32, pages: u32) -> bool {
        let pages = first..first + pages;
        let is_free = pages
            .clone()
            .all(|page| self.table.free.contains(page as usize));
        if is_free {
            pages.for_each(|page| self.take(page));
        }
        is_free
    }

    fn take(&self, page: u32) {
        self.table.free.remove(page as usize);
        self.set_state(page, UnitPageState::Moving);
    }

    /// Makes a page that the caller moves free: nothing lies behind it.
    pub(super) fn make_free(&self, page: u32) {
        self.set_state(page, UnitPageState::Free);
        self.table.free.insert(page as usize);
        add(&self.all().freed, 1);
    }

    /// Counts an object that is handed out.
    pub(super) fn count_alloc(&self, bytes: u64) {
        add(&self.all().allocs, 1);
        add(&self.all().objects, 1);
        add(&self.all().bytes, bytes);
    }

    /// Counts an object that is given back.
    pub(super) fn count_free(&self, bytes: u64) {
        add(&self.all().objects, u64::MAX);
        add(&self.all().bytes, bytes.wrapping_neg());
    }

    /// Counts a request that failed.
    pub(super) fn count_failure(&self) {
        add(&self.all().failures, 1);
    }

    pub(super) fn stats(&self) -> PerCpuStats {
        let all = self.all();
        PerCpuStats {
            objects: all.objects.load(Relaxed),
            bytes: all.bytes.load(Relaxed),
            allocs: all.allocs.load(Relaxed),
            failures: all.failures.load(Relaxed),
            pages: all.pages.load(Relaxed),
            idle_pages: self.count(IDLE),
            stuck_pages: self.count(STUCK),
        }
    }
}

/// The first page of a unit's page number `page`.
pub(super) const fn page_of(start: Page, pages: usize, cpu: u16, page: u32) -> Page {
    Page(start.0 + cpu as u64 * pages as u64 + page as u64)
}
