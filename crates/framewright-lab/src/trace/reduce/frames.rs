use crate::trace::{FrameState, InitClass, Snapshot};
use std::collections::HashMap;

/// Frames of a chunk: 4 MiB of 4 KiB frames, one block of order 10, the largest that Linux's
/// buddy system hands out. Chunks are the grain at which frames enter the universe.
pub(super) const CHUNK: u32 = 1 << CHUNK_ORDER;
pub(super) const CHUNK_ORDER: u32 = 10;

/// The most chunks that slots of 32 bits can number: 2^22 chunks of 2^10 frames are 16 TiB.
const CHUNKS_MAX: usize = 1 << (u32::BITS - CHUNK_ORDER);

/// Why a frame's owner is no object: values that no object number reaches.
const NOBODY: u32 = u32::MAX;
const START: u32 = u32::MAX - 1;
const ABSENT: u32 = u32::MAX - 2;

/// Object numbers are below this.
pub(super) const OBJECTS_MAX: usize = ABSENT as usize;

/// The value of `freed_at` for a frame that nothing has been heard of.
const UNHEARD: u32 = u32::MAX;

/// Who has a frame, as far as the events and the snapshot tell.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Holder {
    /// An object of the reduction.
    Object(u32),
    /// Allocated in the snapshot, and no event has named it yet.
    Start,
    /// Free since this operation; 0 if since the start.
    Free(u32),
    /// Never named, and there is no snapshot to ask.
    Unheard,
    /// There is no such frame.
    Absent,
}

#[derive(Debug, Clone, Copy)]
struct Cell {
    owner: u32,
    freed_at: u32,
}

#[derive(Debug)]
struct Chunk {
    number: u64,
    cells: Vec<Cell>,
    start: Vec<Option<InitClass>>,
}

/// The frames that events have named, in chunks made when one is first named.
///
/// A frame is addressed by its *slot*: the number of its chunk in the order of making, then its
/// place in the chunk; so slots are aligned as frames are, up to one chunk.
#[derive(Debug)]
pub(super) struct FrameTable {
    snapshot: Option<Snapshot>,
    chunks: Vec<Chunk>,
    by_number: HashMap<u64, u32>,
    /// The chunk of the last look-up: runs of events stay in one.
    last: Option<(u64, u32)>,
}

impl FrameTable {
    pub(super) fn new(snapshot: Option<Snapshot>) -> Self {
        Self {
            snapshot,
            chunks: Vec::new(),
            by_number: HashMap::new(),
            last: None,
        }
    }

    pub(super) fn snapshot(&self) -> Option<&Snapshot> {
        self.snapshot.as_ref()
    }

    /// The slot of a frame, or `None` when there are more chunks than slots can number.
    pub(super) fn slot(&mut self, frame: u64) -> Option<u32> {
        let number = frame >> CHUNK_ORDER;
        let place = frame as u32 & (CHUNK - 1);
        let index = match self.last {
            Some((last, index)) if last == number => index,
            _ => match self.by_number.get(&number) {
                Some(&index) => index,
                None => self.make(number)?,
            },
        };
        self.last = Some((number, index));
        Some(index << CHUNK_ORDER | place)
    }

    fn make(&mut self, number: u64) -> Option<u32> {
        if self.chunks.len() == CHUNKS_MAX {
            return None;
        }
        let mut chunk = Chunk {
            number,
            cells: Vec::with_capacity(CHUNK as usize),
            start: Vec::with_capacity(CHUNK as usize),
        };
        for place in 0..u64::from(CHUNK) {
            let (owner, freed_at, start) = match &self.snapshot {
                None => (NOBODY, UNHEARD, None),
                Some(snapshot) => {
                    let state = snapshot.state((number << CHUNK_ORDER) + place);
                    match state {
                        FrameState::Free => (NOBODY, 0, None),
                        FrameState::Absent => (ABSENT, UNHEARD, None),
                        allocated => (START, UNHEARD, class_of(allocated)),
                    }
                }
            };
            chunk.cells.push(Cell { owner, freed_at });
            chunk.start.push(start);
        }
        let index = self.chunks.len() as u32;
        self.chunks.push(chunk);
        self.by_number.insert(number, index);
        Some(index)
    }

    fn cell(&self, slot: u32) -> Cell {
        self.chunks[(slot >> CHUNK_ORDER) as usize].cells[(slot & (CHUNK - 1)) as usize]
    }

    fn cell_mut(&mut self, slot: u32) -> &mut Cell {
        &mut self.chunks[(slot >> CHUNK_ORDER) as usize].cells[(slot & (CHUNK - 1)) as usize]
    }

    pub(super) fn holder(&self, slot: u32) -> Holder {
        let cell = self.cell(slot);
        match cell.owner {
            NOBODY if cell.freed_at == UNHEARD => Holder::Unheard,
            NOBODY => Holder::Free(cell.freed_at),
            START => Holder::Start,
            ABSENT => Holder::Absent,
            object => Holder::Object(object),
        }
    }

    pub(super) fn give(&mut self, slot: u32, object: u32) {
        self.cell_mut(slot).owner = object;
    }

    pub(super) fn free(&mut self, slot: u32, now: u32) {
        *self.cell_mut(slot) = Cell {
            owner: NOBODY,
            freed_at: now,
        };
    }

    /// What the frame was at the start, if it was allocated then.
    pub(super) fn start(&self, slot: u32) -> Option<InitClass> {
        self.chunks[(slot >> CHUNK_ORDER) as usize].start[(slot & (CHUNK - 1)) as usize]
    }

    pub(super) fn set_start(&mut self, slot: u32, class: Option<InitClass>) {
        self.chunks[(slot >> CHUNK_ORDER) as usize].start[(slot & (CHUNK - 1)) as usize] = class;
    }

    /// Learns from a snapshot taken after the last event: a frame that was allocated in the first,
    /// that no event named and that is free in the last was free all the time, because every free
    /// has an event. Returns how many there are.
    pub(super) fn learn_from(&mut self, last: &Snapshot) -> u64 {
        let mut learnt = 0;
        let Some(first) = &mut self.snapshot else {
            return learnt;
        };
        let allocated = |state| class_of(state).is_some();
        for ((number, frame), &state) in (0_u64..).zip(first.frames_mut()).zip(last.frames()) {
            if state != FrameState::Free || !allocated(*frame) {
                continue;
            }
            match self.by_number.get(&(number >> CHUNK_ORDER)) {
                None => *frame = FrameState::Free,
                Some(&index) => {
                    let place = number as usize & (CHUNK as usize - 1);
                    let chunk = &mut self.chunks[index as usize];
                    if chunk.cells[place].owner != START {
                        continue;
                    }
                    chunk.cells[place] = Cell {
                        owner: NOBODY,
                        freed_at: 0,
                    };
                    chunk.start[place] = None;
                }
            }
            learnt += 1;
        }
        learnt
    }

    /// The numbers of the chunks that make up the universe, ascending: those that an event named
    /// and, with a snapshot, those that had a free frame. A chunk that was wholly allocated and
    /// never named cannot take part in anything.
    pub(super) fn universe(&self) -> Vec<u64> {
        let mut numbers: Vec<u64> = self.chunks.iter().map(|chunk| chunk.number).collect();
        if let Some(snapshot) = &self.snapshot {
            let chunks = snapshot.frames().chunks(CHUNK as usize).enumerate();
            numbers.extend(chunks.filter_map(|(number, states)| {
                let number = number as u64;
                let take = states.contains(&FrameState::Free);
                (take && !self.by_number.contains_key(&number)).then_some(number)
            }));
        }
        numbers.sort_unstable();
        numbers
    }

    /// For each chunk in the order of making, its number.
    pub(super) fn chunk_numbers(&self) -> impl Iterator<Item = u64> {
        self.chunks.iter().map(|chunk| chunk.number)
    }

    /// What the frames of the chunk of this number were at the start, with later knowledge:
    /// `Err(())` where there is no frame.
    pub(super) fn start_of_chunk(
        &self,
        number: u64,
    ) -> impl Iterator<Item = Result<Option<InitClass>, ()>> {
        let made = self
            .by_number
            .get(&number)
            .map(|&index| index << CHUNK_ORDER);
        (0..CHUNK).map(move |place| match (made, &self.snapshot) {
            (Some(first), _) => match self.holder(first + place) {
                Holder::Absent => Err(()),
                _ => Ok(self.start(first + place)),
            },
            (None, Some(snapshot)) => {
                match snapshot.state((number << CHUNK_ORDER) + u64::from(place)) {
                    FrameState::Absent => Err(()),
                    state => Ok(class_of(state)),
                }
            }
            (None, None) => Ok(None),
        })
    }
}

fn class_of(state: FrameState) -> Option<InitClass> {
    match state {
        FrameState::Free | FrameState::Absent => None,
        FrameState::Unmovable => Some(InitClass::Unmovable),
        FrameState::Movable => Some(InitClass::Movable),
        FrameState::Slab => Some(InitClass::Slab),
    }
}
