//! The holder of every frame that was heard of (TR2), in pieces that cost memory only where something changed.

use crate::trace::{InitClass, ReadFrameState, Snapshot};
use std::collections::HashMap;

/// Frames of a chunk: 4 MiB of 4 KiB frames, one block of order 10, the largest that Linux's
/// buddy system hands out. Chunks are the grain at which frames enter the universe.
pub(super) const CHUNK: u32 = 1 << CHUNK_ORDER;
pub(super) const CHUNK_ORDER: u32 = 10;

/// The most chunks that slots of 32 bits can number: 2^22 chunks of 2^10 frames are 16 TiB.
const CHUNKS_MAX: usize = 1 << (u32::BITS - CHUNK_ORDER);

/// Why a frame's owner is no object: values that no object number reaches.
const UNOWNED: u32 = u32::MAX;
const START: u32 = u32::MAX - 1;
const ABSENT: u32 = u32::MAX - 2;

/// Object numbers are below this.
pub(super) const OBJECTS_MAX: usize = ABSENT as usize;

/// The value of `freed_at` for a frame that nothing has been heard of.
const UNHEARD: u32 = u32::MAX;

/// The holder of a frame, as far as the events and the snapshot tell.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum HolderOfFrame {
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

/// Frames of a piece of a chunk: an event that names a chunk of its own costs one piece, not the
/// cells of 1,024 frames.
const PIECE: u32 = 1 << PIECE_ORDER;
const PIECE_ORDER: u32 = 6;
const PIECES: usize = 1 << (CHUNK_ORDER - PIECE_ORDER);

/// The frames of a piece that something has changed.
#[derive(Debug)]
struct ChangedPiece {
    cells: [Cell; PIECE as usize],
    start: [Option<InitClass>; PIECE as usize],
}

#[derive(Debug)]
struct HolderChunk {
    number: u64,
    /// None where nothing has changed: the frames are what the snapshot says, or unheard of.
    pieces: [Option<Box<ChangedPiece>>; PIECES],
}

/// What a new chunk takes: itself, and its entries in the vector and the map, each of which may
/// have as much room again.
const CHUNK_BYTES: u64 = 2 * (size_of::<HolderChunk>() as u64 + 32);
const PIECE_BYTES: u64 = size_of::<ChangedPiece>() as u64;

/// The frames that events have named, in chunks made when one is first named.
///
/// A frame is addressed by its *slot*: the number of its chunk in the order of making, then its
/// place in the chunk; so slots are aligned as frames are, up to one chunk.
#[derive(Debug)]
pub(super) struct HolderTable {
    snapshot: Option<Snapshot>,
    chunks: Vec<HolderChunk>,
    by_number: HashMap<u64, u32>,
    /// The chunk of the last look-up: runs of events stay in one.
    last: Option<(u64, u32)>,
    pieces: u64,
    /// Frames that were free at the start, though the snapshot calls them allocated.
    unlisted: Vec<u64>,
}

impl HolderTable {
    pub(super) fn new(snapshot: Option<Snapshot>) -> Self {
        Self {
            snapshot,
            chunks: Vec::new(),
            by_number: HashMap::new(),
            last: None,
            pieces: 0,
            unlisted: Vec::new(),
        }
    }

    pub(super) fn snapshot(&self) -> Option<&Snapshot> {
        self.snapshot.as_ref()
    }

    /// What the table holds besides the snapshot.
    pub(super) fn held_bytes(&self) -> u64 {
        let unlisted = self.unlisted.capacity() * size_of::<u64>();
        self.chunks.len() as u64 * CHUNK_BYTES + self.pieces * PIECE_BYTES + unlisted as u64
    }

    /// How many chunks events have named.
    pub(super) fn chunks(&self) -> u64 {
        self.chunks.len() as u64
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
        let index = self.chunks.len() as u32;
        self.chunks.push(HolderChunk {
            number,
            pieces: Default::default(),
        });
        self.by_number.insert(number, index);
        Some(index)
    }

    fn piece(&self, slot: u32) -> Option<&ChangedPiece> {
        self.chunks[(slot >> CHUNK_ORDER) as usize].pieces[piece_of(slot)].as_deref()
    }

    /// The piece to change, made if nothing has changed in it before.
    fn piece_mut(&mut self, slot: u32) -> &mut ChangedPiece {
        let chunk = &mut self.chunks[(slot >> CHUNK_ORDER) as usize];
        let piece = &mut chunk.pieces[piece_of(slot)];
        piece.get_or_insert_with(|| {
            self.pieces += 1;
            let place = slot & (CHUNK - 1) & !(PIECE - 1);
            let first = (chunk.number << CHUNK_ORDER) + u64::from(place);
            let unchanged = |k: usize| unchanged(self.snapshot.as_ref(), first + k as u64);
            Box::new(ChangedPiece {
                cells: std::array::from_fn(|k| unchanged(k).0),
                start: std::array::from_fn(|k| unchanged(k).1),
            })
        })
    }

    fn unchanged(&self, slot: u32) -> (Cell, Option<InitClass>) {
        let number = self.chunks[(slot >> CHUNK_ORDER) as usize].number;
        let frame = (number << CHUNK_ORDER) + u64::from(slot & (CHUNK - 1));
        unchanged(self.snapshot.as_ref(), frame)
    }

    fn cell(&self, slot: u32) -> Cell {
        match self.piece(slot) {
            Some(piece) => piece.cells[in_piece(slot)],
            None => self.unchanged(slot).0,
        }
    }

    fn cell_mut(&mut self, slot: u32) -> &mut Cell {
        &mut self.piece_mut(slot).cells[in_piece(slot)]
    }

    pub(super) fn holder(&self, slot: u32) -> HolderOfFrame {
        let cell = self.cell(slot);
        match cell.owner {
            UNOWNED if cell.freed_at == UNHEARD => HolderOfFrame::Unheard,
            UNOWNED => HolderOfFrame::Free(cell.freed_at),
            START => HolderOfFrame::Start,
            ABSENT => HolderOfFrame::Absent,
            object => HolderOfFrame::Object(object),
        }
    }

    pub(super) fn give(&mut self, slot: u32, object: u32) {
        self.cell_mut(slot).owner = object;
    }

    pub(super) fn free(&mut self, slot: u32, now: u32) {
        *self.cell_mut(slot) = Cell {
            owner: UNOWNED,
            freed_at: now,
        };
    }

    /// What the frame was at the start, if it was allocated then.
    pub(super) fn start(&self, slot: u32) -> Option<InitClass> {
        match self.piece(slot) {
            Some(piece) => piece.start[in_piece(slot)],
            None => self.unchanged(slot).1,
        }
    }

    pub(super) fn set_start(&mut self, slot: u32, class: Option<InitClass>) {
        self.piece_mut(slot).start[in_piece(slot)] = class;
    }

    /// The frame was free at the start, though the snapshot calls it allocated: it lay on a CPU's list.
    pub(super) fn set_unlisted(&mut self, slot: u32) {
        self.set_start(slot, None);
        let number = self.chunks[(slot >> CHUNK_ORDER) as usize].number;
        let place = u64::from(slot & (CHUNK - 1));
        self.unlisted.push((number << CHUNK_ORDER) + place);
    }

    /// The frames that lay on no free list at the start, though they were free, in order.
    pub(super) fn unlisted(&mut self) -> Vec<u64> {
        let mut frames = std::mem::take(&mut self.unlisted);
        frames.sort_unstable();
        frames.dedup();
        frames
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
            if state != ReadFrameState::Free || !allocated(*frame) {
                continue;
            }
            let place = number as u32 & (CHUNK - 1);
            let made = self.by_number.get(&(number >> CHUNK_ORDER));
            let made = made
                .and_then(|&index| self.chunks[index as usize].pieces[piece_of(place)].as_mut());
            match made {
                None => *frame = ReadFrameState::Free,
                Some(piece) => {
                    let place = in_piece(place);
                    if piece.cells[place].owner != START {
                        continue;
                    }
                    piece.cells[place] = Cell {
                        owner: UNOWNED,
                        freed_at: 0,
                    };
                    piece.start[place] = None;
                }
            }
            self.unlisted.push(number);
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
                let take = states.contains(&ReadFrameState::Free);
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
            (Some(first), None) if self.piece(first + place).is_none() => Ok(None),
            (Some(first), _) => match self.holder(first + place) {
                HolderOfFrame::Absent => Err(()),
                _ => Ok(self.start(first + place)),
            },
            (None, Some(snapshot)) => {
                match snapshot.state((number << CHUNK_ORDER) + u64::from(place)) {
                    ReadFrameState::Absent => Err(()),
                    state => Ok(class_of(state)),
                }
            }
            (None, None) => Ok(None),
        })
    }
}

/// The place of a slot's piece in its chunk.
const fn piece_of(slot: u32) -> usize {
    ((slot & (CHUNK - 1)) >> PIECE_ORDER) as usize
}

/// A slot's place in its piece.
const fn in_piece(slot: u32) -> usize {
    (slot & (PIECE - 1)) as usize
}

/// What a frame is that no event has changed.
fn unchanged(snapshot: Option<&Snapshot>, frame: u64) -> (Cell, Option<InitClass>) {
    let (owner, freed_at, start) = match snapshot.map(|snapshot| snapshot.state(frame)) {
        None => (UNOWNED, UNHEARD, None),
        Some(ReadFrameState::Free) => (UNOWNED, 0, None),
        Some(ReadFrameState::Absent) => (ABSENT, UNHEARD, None),
        Some(allocated) => (START, UNHEARD, class_of(allocated)),
    };
    (Cell { owner, freed_at }, start)
}

fn class_of(state: ReadFrameState) -> Option<InitClass> {
    match state {
        ReadFrameState::Free | ReadFrameState::Absent => None,
        ReadFrameState::Unmovable => Some(InitClass::Unmovable),
        ReadFrameState::Movable => Some(InitClass::Movable),
        ReadFrameState::Slab => Some(InitClass::Slab),
    }
}
