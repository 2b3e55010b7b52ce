//! The reader of `/proc/kpageflags`: of dozens of flags only what the reduction asks, a byte a frame.

use std::io::{self, Read};

/// What a snapshot knows of one frame.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(u8)]
pub enum ReadFrameState {
    /// In a free list of the buddy system.
    Free,
    /// Allocated, neither on an LRU list nor anonymous nor slab. Frames that lie in a per-CPU
    /// list look like this too: no flag tells them.
    Unmovable,
    /// Allocated, on an LRU list or anonymous.
    Movable,
    /// Allocated by the slab allocator.
    Slab,
    /// There is no such frame.
    Absent,
}

/// The state of every frame of a machine at one moment, from `/proc/kpageflags`.
///
/// The moment is as long as the reading takes (about 0.3 s for 24 GiB): the kernel does not stop.
/// One byte a frame.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Snapshot {
    frames: Vec<ReadFrameState>,
}

// The bits of `/proc/kpageflags`, a stable interface: Documentation/admin-guide/mm/pagemap.rst.
const LRU: u64 = 1 << 5;
const SLAB: u64 = 1 << 7;
const BUDDY: u64 = 1 << 10;
const ANON: u64 = 1 << 12;
const COMPOUND_TAIL: u64 = 1 << 16;
const NOPAGE: u64 = 1 << 20;

impl Snapshot {
    /// A snapshot of these states, frame 0 first.
    #[must_use]
    pub fn new(frames: Vec<ReadFrameState>) -> Self {
        Self { frames }
    }

    /// Reads a snapshot: eight bytes a frame in the machine's byte order, frame 0 first.
    ///
    /// The kernel must be 4.6 or newer for free blocks to be marked on all their frames; before
    /// that only the first frame of a free block is, and the others read as unmovable.
    ///
    /// # Errors
    /// What the reader reports, and `UnexpectedEof` if the end is not at a whole frame.
    pub fn read(from: impl Read) -> io::Result<Self> {
        Self::default().read_again(from)
    }

    /// The same in the memory of an earlier snapshot: where that had as many frames, reading takes next to none of the frames
    /// that it reads of.
    ///
    /// # Errors
    /// As [`read`](Self::read); the earlier snapshot is gone then, too.
    pub fn read_again(mut self, mut from: impl Read) -> io::Result<Self> {
        self.frames.clear();
        // 64 KiB: 8,192 frames a call.
        let mut buffer = vec![0; 1 << 16];
        let mut parts = SnapshotParts {
            frames: self.frames,
            ..SnapshotParts::default()
        };
        loop {
            match from.read(&mut buffer) {
                Ok(0) => return parts.finish(),
                Ok(got) => parts.push(&buffer[..got]),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
    }

    /// The state of each frame, frame 0 first.
    #[must_use]
    pub fn frames(&self) -> &[ReadFrameState] {
        &self.frames
    }

    pub(in crate::trace) fn frames_mut(&mut self) -> &mut [ReadFrameState] {
        &mut self.frames
    }

    /// The state of one frame; `Absent` past the end.
    #[must_use]
    pub fn state(&self, frame: u64) -> ReadFrameState {
        usize::try_from(frame)
            .ok()
            .and_then(|index| self.frames.get(index))
            .copied()
            .unwrap_or(ReadFrameState::Absent)
    }

    /// How many frames are in `state`. Time: O(frames).
    #[must_use]
    pub fn count(&self, state: ReadFrameState) -> u64 {
        self.frames.iter().filter(|&&is| is == state).count() as u64
    }
}

/// A snapshot whose bytes come piece by piece, cut anywhere.
#[derive(Debug, Default)]
pub(in crate::trace) struct SnapshotParts {
    frames: Vec<ReadFrameState>,
    /// The state of the last compound page's first frame.
    head: Option<ReadFrameState>,
    /// The bytes of a frame that is not whole yet, and how many they are.
    rest: [u8; 8],
    rest_bytes: usize,
}

impl SnapshotParts {
    pub(in crate::trace) fn push(&mut self, mut bytes: &[u8]) {
        if self.rest_bytes > 0 {
            let take = bytes.len().min(8 - self.rest_bytes);
            let (head, tail) = bytes.split_at(take);
            self.rest[self.rest_bytes..self.rest_bytes + take].copy_from_slice(head);
            self.rest_bytes += take;
            bytes = tail;
            if self.rest_bytes < 8 {
                return;
            }
            self.rest_bytes = 0;
            self.word(self.rest);
        }
        let (words, rest) = bytes.as_chunks::<8>();
        for word in words {
            self.word(*word);
        }
        self.rest[..rest.len()].copy_from_slice(rest);
        self.rest_bytes = rest.len();
    }

    fn word(&mut self, word: [u8; 8]) {
        let flags = u64::from_ne_bytes(word);
        let head = self.head.unwrap_or(ReadFrameState::Unmovable);
        let state = state_of(flags, head);
        if flags & COMPOUND_TAIL == 0 {
            self.head = Some(state);
        }
        self.frames.push(state);
    }

    /// Frames so far, a byte each.
    pub(in crate::trace) fn len(&self) -> usize {
        self.frames.len()
    }

    /// The snapshot; an error if the end is not at a whole frame.
    pub(in crate::trace) fn finish(self) -> io::Result<Snapshot> {
        match self.rest_bytes {
            0 => Ok(Snapshot {
                frames: self.frames,
            }),
            rest => Err(io::Error::new(
                io::ErrorKind::UnexpectedEof,
                format!(
                    "{rest} bytes are left after frame {}: expected 8 bytes a frame",
                    self.frames.len()
                ),
            )),
        }
    }
}

/// `head` is the state of the compound page's first frame: a tail without flags of its own is
/// what its head is.
fn state_of(flags: u64, head: ReadFrameState) -> ReadFrameState {
    if flags & NOPAGE != 0 {
        ReadFrameState::Absent
    } else if flags & BUDDY != 0 {
        ReadFrameState::Free
    } else if flags & SLAB != 0 {
        ReadFrameState::Slab
    } else if flags & (LRU | ANON) != 0 {
        ReadFrameState::Movable
    } else if flags & COMPOUND_TAIL != 0 {
        head
    } else {
        ReadFrameState::Unmovable
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A reader that gives its bytes three at a time.
    struct Dribble<'a>(&'a [u8]);
    impl Read for Dribble<'_> {
        fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
            let give = into.len().min(3).min(self.0.len());
            into[..give].copy_from_slice(&self.0[..give]);
            self.0 = &self.0[give..];
            Ok(give)
        }
    }

    #[test]
    fn a_frame_is_what_its_flags_say_and_a_tail_what_its_head_is() {
        let head = 1 << 15;
        let words = [
            1 << 32, // reserved by the firmware
            BUDDY,
            LRU,
            ANON | 1 << 11,
            SLAB | head,
            COMPOUND_TAIL,
            head,
            COMPOUND_TAIL,
            NOPAGE,
            LRU | head,
            COMPOUND_TAIL,
        ];
        let bytes: Vec<u8> = words
            .iter()
            .flat_map(|word: &u64| word.to_ne_bytes())
            .collect();
        let snapshot = Snapshot::read(Dribble(&bytes)).unwrap();
        use ReadFrameState::{Absent, Free, Movable, Slab, Unmovable};
        assert_eq!(
            snapshot.frames(),
            [
                Unmovable, Free, Movable, Movable, Slab, Slab, Unmovable, Unmovable, Absent,
                Movable, Movable
            ]
        );
        assert_eq!((snapshot.state(2), snapshot.state(11)), (Movable, Absent));
        assert_eq!(snapshot.state(u64::MAX), Absent);
        assert_eq!(snapshot.count(Movable), 4);
    }

    #[test]
    fn a_second_snapshot_takes_no_memory_of_its_own() {
        let words = [BUDDY, LRU, SLAB].map(u64::to_ne_bytes);
        let first = Snapshot::read(words.as_flattened()).unwrap();
        let at = first.frames().as_ptr();
        let second = first.read_again(Dribble(words[1..].as_flattened()));
        let second = second.unwrap();
        assert_eq!(second.frames().as_ptr(), at);
        use ReadFrameState::{Movable, Slab};
        assert_eq!(second.frames(), [Movable, Slab]);
    }

    #[test]
    fn a_cut_off_snapshot_is_an_error_that_says_where() {
        let error = Snapshot::read(&[0; 20][..]).unwrap_err();
        assert_eq!(
            error.to_string(),
            "4 bytes are left after frame 2: expected 8 bytes a frame"
        );
    }
}
