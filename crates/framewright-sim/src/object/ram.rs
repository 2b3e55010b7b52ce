//! Frames with bytes. The unused ones hold a value that no user writes, so a read of memory that was not handed out
//! is seen.

use crate::{Machine, Paging, PagingLie};
use framewright::platform::{FramePlatform, MapError, ObjectPlatform, RangePlatform, TableSource};
use framewright::{Addr, CpuId, Frame, Page, PageAccess, PageRange, Run};
use std::cell::RefCell;

/// A [`Paging`] with bytes in its frames, and a direct map to them.
///
/// It records which frames are taken from the zone, so it finds a write to a frame that is not
/// taken, like a break of one of [`Paging`]'s rules.
#[derive(Debug)]
pub struct SimRam {
    paging: Paging,
    first: Frame,
    direct: Addr,
    state: RefCell<RamState>,
}

#[derive(Debug)]
struct RamState {
    bytes: Vec<u8>,
    /// Whether the frame may hold anything but noise.
    is_written: Vec<bool>,
    taken: Vec<bool>,
    taken_frames: u64,
}

impl RamState {
    /// Bytes of one frame, to be written.
    fn write(&mut self, place: usize, len: usize) -> &mut [u8] {
        self.is_written[place / BYTES] = true;
        &mut self.bytes[place..place + len]
    }
}

const BYTES: usize = Page::BYTES as usize;
/// The contents of free memory.
const NOISE: u8 = 0xdb;

impl SimRam {
    /// The memory of `frames` frames from `first` on, of which frame 0 lies at `direct`, with a
    /// window of `pages` pages from `start`.
    ///
    /// # Panics
    /// If there are 2^32 frames or more.
    #[must_use]
    pub fn new(
        cpus: u16,
        first: Frame,
        frames: u64,
        direct: Addr,
        start: Page,
        pages: u64,
    ) -> Self {
        let all = u32::try_from(first.0 + frames).expect("less than 2^32 frames");
        Self {
            // All frames are handled by their users, and none by a pool.
            paging: Paging::new(cpus, start, pages, 0, all).eager(true),
            first,
            direct,
            state: RefCell::new(RamState {
                bytes: vec![NOISE; frames as usize * BYTES],
                is_written: vec![false; frames as usize],
                taken: vec![false; frames as usize],
                taken_frames: 0,
            }),
        }
    }

    /// The page table, the CPUs, the clock, and what fails.
    #[must_use]
    pub const fn paging(&self) -> &Paging {
        &self.paging
    }

    /// The CPUs, the clock, and what fails.
    #[must_use]
    pub const fn machine(&self) -> &Machine {
        self.paging.machine()
    }

    /// How many frames are taken from the zone.
    #[must_use]
    pub fn taken_frames(&self) -> u64 {
        self.state.borrow().taken_frames
    }

    /// Whether the frame is taken.
    #[must_use]
    pub fn is_taken(&self, frame: Frame) -> bool {
        let place = frame.0.wrapping_sub(self.first.0) as usize;
        self.state.borrow().taken.get(place) == Some(&true)
    }

    /// Records that the frames were taken from the zone.
    pub(super) fn take(&self, frames: Run) {
        let state = &mut *self.state.borrow_mut();
        for frame in frames.start().0..frames.end().0 {
            match state
                .taken
                .get_mut(frame.wrapping_sub(self.first.0) as usize)
            {
                Some(taken) if !*taken => *taken = true,
                _ => self
                    .paging
                    .record(|| format!("{} was handed out twice, or is none", Frame(frame))),
            }
        }
        state.taken_frames += frames.frames();
    }

    /// Records that the frames go back to the zone.
    pub(super) fn give(&self, frames: Run) {
        let state = &mut *self.state.borrow_mut();
        for number in frames.start().0..frames.end().0 {
            let (frame, place) = (Frame(number), number.wrapping_sub(self.first.0) as usize);
            match state.taken.get_mut(place) {
                Some(taken) if *taken => *taken = false,
                _ => {
                    self.paging
                        .record(|| format!("{frame} was given back, and was not taken"));
                    continue;
                }
            }
            if std::mem::take(&mut state.is_written[place]) {
                state.bytes[place * BYTES..(place + 1) * BYTES].fill(NOISE);
            }
            if self.paging.is_reached(frame) {
                self.paging
                    .record(|| format!("V5: {frame} was given back and is reached"));
            }
        }
        state.taken_frames = state.taken_frames.wrapping_sub(frames.frames());
    }

    /// The place in RAM of the byte at `addr`, as `cpu` sees it, if there is one.
    fn place(&self, state: &RamState, cpu: CpuId, addr: Addr) -> Option<usize> {
        let in_direct = addr.0.wrapping_sub(self.direct.0);
        let frame = match Frame(in_direct / Page::BYTES) {
            frame if frame.0.wrapping_sub(self.first.0) < state.taken.len() as u64 => frame,
            _ => self.paging.access(cpu, addr.page())?,
        };
        let place = frame.0.wrapping_sub(self.first.0) as usize;
        if state.taken.get(place) != Some(&true) {
            self.paging
                .record(|| format!("byte {addr} of {frame} is used, but the frame is not taken"));
        }
        Some(place * BYTES + addr.in_page() as usize)
    }

    /// The byte at `addr` as `cpu` sees it. `None` means a fault.
    #[must_use]
    pub fn read(&self, cpu: CpuId, addr: Addr) -> Option<u8> {
        let state = self.state.borrow();
        let place = self.place(&state, cpu, addr)?;
        state.bytes.get(place).copied()
    }

    /// Writes the byte at `addr` as `cpu` sees it. Returns whether there is one.
    #[must_use]
    pub fn write(&self, cpu: CpuId, addr: Addr, byte: u8) -> bool {
        let state = &mut *self.state.borrow_mut();
        match self.place(state, cpu, addr) {
            Some(place) => {
                state.write(place, 1).fill(byte);
                true
            }
            None => false,
        }
    }

    /// The parts of an object that lie in one page each, as the running CPU sees them: their places
    /// in RAM, and their lengths.
    fn parts(&self, state: &RamState, addr: Addr, bytes: u64) -> Vec<(usize, usize)> {
        let (mut at, end) = (addr.0, addr.0 + bytes);
        let mut parts = Vec::new();
        while at < end {
            let len = (Page::BYTES - at % Page::BYTES).min(end - at);
            match self.place(state, self.paging.machine().current(), Addr(at)) {
                Some(place) => parts.push((place, len as usize)),
                None => self
                    .paging
                    .record(|| format!("byte {} of an object is not mapped", Addr(at))),
            }
            at += len;
        }
        parts
    }
}

impl ObjectPlatform for SimRam {
    fn direct_base(&self) -> Addr {
        self.direct
    }

    fn zero_bytes(&self, at: Addr, bytes: u64) {
        let state = &mut *self.state.borrow_mut();
        for (place, len) in self.parts(state, at, bytes) {
            state.write(place, len).fill(0);
        }
    }

    fn copy_bytes(&self, from: Addr, to: Addr, bytes: u64) {
        let state = &mut *self.state.borrow_mut();
        let mut copy = Vec::with_capacity(bytes as usize);
        for (place, len) in self.parts(state, from, bytes) {
            copy.extend_from_slice(&state.bytes[place..place + len]);
        }
        let mut rest = &copy[..];
        for (place, len) in self.parts(state, to, bytes) {
            let (part, behind) = rest.split_at(len.min(rest.len()));
            state.write(place, part.len()).copy_from_slice(part);
            rest = behind;
        }
    }
}

impl RangePlatform for SimRam {
    fn map(
        &self,
        at: Page,
        frames: Run,
        access: PageAccess,
        tables: &mut impl TableSource,
    ) -> Result<(), MapError> {
        for frame in frames.start().0..frames.end().0 {
            if !self.is_taken(Frame(frame)) {
                self.paging
                    .record(|| format!("{} was mapped, but is not taken", Frame(frame)));
            }
        }
        self.paging.map(at, frames, access, tables)
    }

    fn unmap(&self, range: PageRange) -> Result<(), MapError> {
        self.paging.unmap(range)
    }

    fn flush_all(&self) {
        self.paging.flush_all();
    }

    fn zero(&self, frames: Run) {
        let skip = u64::from(self.paging.lies(PagingLie::ZeroAllButOne));
        for frame in frames.start().0 + skip..frames.end().0 {
            if !self.is_taken(Frame(frame)) {
                self.paging
                    .record(|| format!("{} was zeroed, but is not taken", Frame(frame)));
                continue;
            }
            let place = (frame - self.first.0) as usize * BYTES;
            self.state.borrow_mut().write(place, BYTES).fill(0);
        }
    }
}

impl FramePlatform for SimRam {
    const ASYMMETRIC: bool = Paging::ASYMMETRIC;
    const ALONE: bool = Paging::ALONE;

    fn relax(&self, attempt: u32) {
        self.paging.relax(attempt);
    }

    fn barrier_all(&self) {
        self.paging.barrier_all();
    }

    fn now_ns(&self) -> u64 {
        self.paging.now_ns()
    }
}
