//! The machine that all tests of objects run on: memory with bytes and a page table, on one thread.

extern crate std;

use super::*;
use crate::frame::{Seat, Zone, ZoneLayout};
use crate::platform::{
    FramePlatform, MapError, ObjectPlatform, RangePlatform, Relief, SingleThread, TableSource,
};
use crate::policy::{Config, RangeConfig};
use crate::units::{Addr, Context, CpuId, Frame, Page, PageAccess, PageRange, Run};
use crate::vrange::{Space, SpaceLayout};
use std::boxed::Box;
use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::vec;
use std::vec::Vec;

mod broken;
mod efforts;
mod errors;
mod loose;
mod objects;
mod realloc;
mod slabs;
mod slabs_shared;
mod watch;

/// Where frame 0 lies, and the first page of the space.
const DIRECT: u64 = 0x4000_0000;
const WINDOW: Page = Page(0x8_0000);

/// What another CPU does, given an address.
type Other = Box<dyn FnOnce(Addr)>;

/// Memory with bytes, and a page table. No part of it is shared between threads.
pub(super) struct KvToy {
    waits: SingleThread,
    bytes: RefCell<Vec<u8>>,
    mapped: RefCell<BTreeMap<u64, Frame>>,
    /// Within which contexts pages were mapped.
    contexts: RefCell<Vec<Context>>,
    /// What another CPU does while bytes are copied, once.
    while_copied: RefCell<Option<Other>>,
    /// How many calls of `map` are still to succeed, if one is to fail.
    map_fails: Cell<Option<u64>>,
}

impl KvToy {
    fn new(frames: u64) -> Self {
        Self {
            waits: SingleThread::new(),
            bytes: RefCell::new(vec![0xa5; (frames * Page::BYTES) as usize]),
            mapped: RefCell::new(BTreeMap::new()),
            contexts: RefCell::default(),
            while_copied: RefCell::default(),
            map_fails: Cell::new(None),
        }
    }

    /// Where a byte lies in RAM.
    fn place(&self, at: u64) -> usize {
        let physical = match self.mapped.borrow().get(&(at / Page::BYTES)) {
            Some(frame) => frame.0 * Page::BYTES + at % Page::BYTES,
            None => at.checked_sub(DIRECT).expect("an address of RAM"),
        };
        physical as usize
    }

    pub(super) fn byte(&self, at: u64) -> u8 {
        self.bytes.borrow()[self.place(at)]
    }

    /// The parts of an object that lie in one page each: where in RAM, and how long.
    fn parts(&self, at: Addr, bytes: u64) -> impl Iterator<Item = std::ops::Range<usize>> {
        let (mut next, end) = (at.0, at.0 + bytes);
        std::iter::from_fn(move || {
            let len = (Page::BYTES - next % Page::BYTES).min(end - next) as usize;
            let start = (len > 0).then(|| self.place(next))?;
            next += len as u64;
            Some(start..start + len)
        })
    }

    /// Fills an object.
    pub(super) fn fill(&self, at: Addr, bytes: u64, value: u8) {
        for part in self.parts(at, bytes) {
            self.bytes.borrow_mut()[part].fill(value);
        }
    }

    pub(super) fn is_filled(&self, at: Addr, bytes: u64, value: u8) -> bool {
        let bytes_of = self.bytes.borrow();
        self.parts(at, bytes)
            .all(|part| bytes_of[part].iter().all(|byte| *byte == value))
    }
}

impl FramePlatform for KvToy {
    const ASYMMETRIC: bool = SingleThread::ASYMMETRIC;
    const ALONE: bool = SingleThread::ALONE;

    fn relax(&self, attempt: u32) {
        self.waits.relax(attempt);
    }

    fn barrier_all(&self) {
        self.waits.barrier_all();
    }
}

impl RangePlatform for KvToy {
    fn map(
        &self,
        at: Page,
        frames: Run,
        _access: PageAccess,
        tables: &mut impl TableSource,
    ) -> Result<(), MapError> {
        self.contexts.borrow_mut().push(tables.context());
        if let Some(left) = self.map_fails.get() {
            self.map_fails.set(left.checked_sub(1));
            if left == 0 {
                return Err(MapError::NoMemory);
            }
        }
        for nth in 0..frames.frames() {
            let before = self
                .mapped
                .borrow_mut()
                .insert(at.0 + nth, Frame(frames.start().0 + nth));
            assert_eq!(before, None, "mapped twice");
        }
        Ok(())
    }

    fn unmap(&self, range: PageRange) -> Result<(), MapError> {
        let (start, end) = (range.start().0, range.end().0);
        self.mapped
            .borrow_mut()
            .retain(|page, _| !(start..end).contains(page));
        Ok(())
    }

    fn flush_all(&self) {}

    fn zero(&self, frames: Run) {
        let start = (frames.start().0 * Page::BYTES) as usize;
        let end = (frames.end().0 * Page::BYTES) as usize;
        self.bytes.borrow_mut()[start..end].fill(0);
    }
}

impl ObjectPlatform for KvToy {
    fn direct_base(&self) -> Addr {
        Addr(DIRECT)
    }

    fn zero_bytes(&self, at: Addr, bytes: u64) {
        self.fill(at, bytes, 0);
    }

    fn copy_bytes(&self, from: Addr, to: Addr, bytes: u64) {
        for nth in 0..bytes {
            let value = self.byte(from.0 + nth);
            let place = self.place(to.0 + nth);
            self.bytes.borrow_mut()[place] = value;
        }
        let other = self.while_copied.take();
        if let Some(other) = other {
            other(from);
        }
    }
}

pub(super) type ToySeat<'a> = KvSeat<'a, 'a, 'a, &'a KvToy, Seat<'a, 'a, &'a KvToy>>;

/// Zone, space and object allocator over one [`KvToy`], for as long as the test's process lives.
pub(super) struct ToyMachine {
    pub(super) toy: &'static KvToy,
    pub(super) zone: &'static Zone<'static, &'static KvToy>,
    pub(super) space: &'static Space<'static, &'static KvToy>,
    pub(super) kv: &'static Kv<'static, &'static KvToy>,
}

fn leak<T>(value: T) -> &'static mut T {
    Box::leak(Box::new(value))
}

impl ToyMachine {
    /// `frames` frames, as many CPUs, a window of `pages`.
    pub(super) fn new(frames: u64, cpus: u16, pages: u64) -> Self {
        let toy: &'static KvToy = leak(KvToy::new(frames));
        let layout = ZoneLayout::new(Frame(0), frames).with_cpus(cpus);
        let memory = leak(vec![0; layout.words_needed().unwrap()]);
        let zone = Zone::new(&layout, &Config::default(), memory, toy).unwrap();
        zone.add(Run::new(Frame(0), frames).unwrap()).unwrap();
        let layout = SpaceLayout::new(WINDOW, pages)
            .with_cpus(cpus)
            .with_span_pages(64);
        let memory = leak(vec![0; layout.words_needed().unwrap()]);
        let space = Space::new(&layout, &RangeConfig::for_cpus(cpus), memory, toy).unwrap();
        let layout = KvLayout::new(Frame(0), frames).with_cpus(cpus);
        let memory = leak(vec![!0; layout.words_needed().unwrap()]);
        let kv = Kv::new(&layout, memory, toy).unwrap();
        Self {
            toy,
            zone: leak(zone),
            space: leak(space),
            kv: leak(kv),
        }
    }

    pub(super) fn seat(&self, cpu: u16) -> ToySeat<'static> {
        let frames = self.zone.seat(CpuId(cpu)).unwrap();
        let ranges = self.space.seat(CpuId(cpu), frames).unwrap();
        self.kv.seat(ranges).unwrap()
    }

    /// Nothing is live now: all frames are free again.
    pub(super) fn assert_all_free(&self, mut seat: ToySeat<'static>) {
        seat.drain();
        seat.ranges().drain();
        drop(seat);
        self.zone.drain();
        self.zone.verify().unwrap();
        self.space.verify().unwrap();
        let present = self.zone.recount();
        assert_eq!(
            present.free,
            self.toy.bytes.borrow().len() as u64 / Page::BYTES
        );
    }
}

pub(super) fn machine(frames: u64) -> ToyMachine {
    ToyMachine::new(frames, 1, 4096)
}
