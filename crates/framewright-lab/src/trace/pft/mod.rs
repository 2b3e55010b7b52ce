//! PFT1 to PFT5: a trace in columns, small when compressed. PFT2 names the askers, too, PFT3 says what the kernel did about
//! memory, PFT4 what compaction moved, and PFT5 which free frames lay on CPUs' lists at the start.
//!
//! All numbers are little endian. `varint` is LEB128; `zigzag` is a signed one; a name is a varint of its bytes, at most
//! 255, and the bytes.
//!
//! ```text
//! "PFT1" to "PFT5" u32 nframes  u32 ninit  u32 nalloc  u32 nops  u32 ncols
//! ncols x { char name[8], u64 len_bytes }, then the columns one after another:
//!
//! init    ninit zigzag v: class = v mod 4 (0 unmovable, 1 movable, 2 slab),
//!         frame += (v - class) / 4, from 0; object ids 0.., order 0 each
//! absent  varint pairs (skip, len): frames that do not exist
//! gfptab  u32 flag words
//! ops     a byte each: kind = b & 3, order = b >> 2 & 15, mobility = b >> 6
//!           0 alloc   the next object id       cpu 1, gfp 1, pid 2 bytes
//!           1 free    of a whole object        cpu 1, free: varint next id - 1 - id
//!           2 free    of a part                cpu 1, part: varint as above, varint offset
//!           3 order 15: a tick                 tick: varint milliseconds
//!           3 other:  an allocation failed     cpu 1, gfp 1, pid 2 bytes
//! cpu     low 7 bits the CPU, 0x80 synthetic
//! gfp     index into gfptab, 255 for synthetic
//!
//! From PFT2 on:
//! comm    names of the pids 0.., at most 65536; an empty one is not known
//! stacks  varint number of functions, a name each; then call chains: varint depth, at most 127, and as many varint
//!         functions, the innermost first
//! stack   where there is a chain: a varint for each allocation, failed ones included: 1 + chain, or 0 for none
//!
//! From PFT3 on:
//! work    what was traced (1 kswapd, 2 direct reclaim, 4 compaction; a byte), and of that what happened: a varint of
//!         operations since the entry before, a byte kind = b & 7, the same request as before = b >> 3 & 1, order = b >> 4
//!           0 kswapd began         varint node
//!           1 kswapd slept         varint node
//!           2 a request reclaimed  varint nanoseconds, varint frames
//!           3 a request compacted  varint nanoseconds
//!           4 a compaction for no request  varint nanoseconds
//!
//! From PFT4 on:
//! moves   a block that compaction moved: varint of operations since the entry before, zigzag object, varint
//!         order | whether it is known where to << 4 | frames in front of it in the object << 5, zigzag first frame that it left,
//!         and, if known, zigzag first frame that it came to; what is zigzag is the difference from the entry before, or from
//!         the last one that has it
//!
//! From PFT5 on:
//! unlisted  varint pairs (skip, len): free frames that lay on no free list before the first operation
//! ```
//!
//! A companion file (`*.pfn`) has the frame that the recording kernel chose for each allocation,
//! as zigzag differences. Before them stand `7f "PFN1"` and the SHA-256 of the trace, unpacked; files of earlier
//! versions lack these.
//!
//! # Invariants
//! - **P1** A trace that was read is one: every free refers to what is allocated, every count is
//!   right, every column is used up.
//! - **P2** Memory follows what was read, not what a header claims: each column is held against the
//!   header's counts before its first byte is read ([`len_bytes_of`]), all of them together against
//!   the input's limit. A byte read becomes at most 72 bytes ([`held_bytes`]).
//! - **P3** Writing what was read, in the version that it had, gives the same bytes, where the columns stand in the order
//!   above and numbers in their shortest form, as the writer here leaves them.

mod askers;
mod frames;
mod moves;
mod read;
mod varint;
mod work;
mod write;

pub(super) use frames::MAGIC as FRAMES_MAGIC;
pub use frames::{read_frames, read_frames_digest, write_frames, write_frames_digest};
pub use read::read_pft;
pub use write::{write_pft1, write_pft2, write_pft3, write_pft4, write_pft5};

use super::{CallChains, NameTable, Trace};
use framewright::{Frame, Run};

/// What a file starts with, by version.
pub(super) const MAGICS: [[u8; 4]; 5] = [*b"PFT1", *b"PFT2", *b"PFT3", *b"PFT4", *b"PFT5"];

/// Whether these first bytes are those of a version that is newer than these.
pub(super) fn is_newer(first: &[u8]) -> bool {
    matches!(first, [b'P', b'F', b'T', b'6'..=b'9', ..])
}

/// A version of the form.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd)]
enum PftVersion {
    One,
    Two,
    Three,
    Four,
    Five,
}

impl PftVersion {
    fn of(magic: [u8; 4]) -> Option<Self> {
        let versions = [Self::One, Self::Two, Self::Three, Self::Four, Self::Five];
        versions
            .into_iter()
            .find(|version| version.magic() == magic)
    }

    const fn magic(self) -> [u8; 4] {
        MAGICS[self as usize]
    }

    /// Its columns.
    fn columns(self) -> &'static [&'static str] {
        match self {
            Self::One => &COLUMNS[..=TICK],
            Self::Two => &COLUMNS[..=STACK],
            Self::Three => &COLUMNS[..=WORK],
            Self::Four => &COLUMNS[..=MOVES],
            Self::Five => &COLUMNS,
        }
    }
}

/// The columns, in the order in which they are written.
const COLUMNS: [&str; 16] = [
    "init", "absent", "gfptab", "ops", "cpu", "free", "part", "gfp", "pid", "tick", "comm",
    "stacks", "stack", "work", "moves", "unlisted",
];

const INIT: usize = 0;
const ABSENT: usize = 1;
const GFPTAB: usize = 2;
const OPS: usize = 3;
const CPU: usize = 4;
const FREE: usize = 5;
const PART: usize = 6;
const GFP: usize = 7;
const PID: usize = 8;
const TICK: usize = 9;
const COMM: usize = 10;
const STACKS: usize = 11;
const STACK: usize = 12;
const WORK: usize = 13;
const MOVES: usize = 14;
const UNLISTED: usize = 15;

/// The most bytes of the kernel's work for an operation, and for as many more as a short trace may have.
const WORK_BYTES: u64 = 32;
const WORK_OPS: u64 = 1 << 11;

/// The most names of small numbers.
const COMMS_MAX: u64 = 1 << 16;

/// The order that marks a tick among the operations of kind 3.
const TICK_ORDER: u8 = 15;

/// The `gfp` index of an operation whose flags the recording does not have.
const NO_GFP: u8 = 255;

/// The fewest and the most bytes that the column can have, by the header's counts.
///
/// Not by the objects' ids or the runs' lengths: those are known only when the column is there.
fn len_bytes_of(column: usize, nframes: u64, ninit: u64, nops: u64) -> (u64, u64) {
    /// A number of 64 bits, seven to a byte.
    const VARINT_MAX: u64 = 10;
    const NAME_MAX: u64 = 2 + NameTable::NAME_BYTES_MAX as u64;
    const DEPTH_MAX: u64 = CallChains::DEPTH_MAX as u64;
    match column {
        INIT => (ninit, VARINT_MAX * ninit),
        // A run has at least a frame.
        ABSENT | UNLISTED => (0, 2 * VARINT_MAX * nframes),
        GFPTAB => (0, 4 * u64::from(NO_GFP)),
        OPS => (nops, nops),
        CPU | GFP => (0, nops),
        PID => (0, 2 * nops),
        FREE | TICK => (0, VARINT_MAX * nops),
        PART => (0, 2 * VARINT_MAX * nops),
        COMM => (0, NAME_MAX * COMMS_MAX),
        // Each operation can bring a chain of functions that no other has.
        STACKS => (
            0,
            VARINT_MAX * (1 + nops) + (NAME_MAX + VARINT_MAX) * DEPTH_MAX * nops,
        ),
        STACK => (0, VARINT_MAX * nops),
        WORK => (0, WORK_BYTES * (nops + WORK_OPS)),
        // What is nowhere cannot move: no more than there is, and what came since.
        MOVES => (0, moves::MOVE_BYTES * (nframes + nops)),
        _ => (0, 0),
    }
}

/// What is held for a byte of the column at most: the byte itself, and what it becomes.
const fn held_bytes(column: usize) -> u64 {
    match column {
        // An object of 16 bytes, its liveness, and its frame where they do not ascend.
        INIT => 1 + 16 + 1 + 8,
        // A run of 16 bytes from two.
        ABSENT | UNLISTED => 1 + 8,
        // An operation, and an object's liveness.
        OPS => 1 + 16 + 1,
        // An entry of a tree, half of whose nodes' room is free, and its share of the inner nodes.
        PART => 1 + 64,
        // A name that is empty, its end in a vector that grows; or a chain without a function.
        COMM | STACKS => 1 + 3 * 8,
        STACK => 1 + 4,
        // An entry of 32 bytes from three, in a vector that grows.
        WORK => 1 + 2 * 11,
        // An entry of 28 bytes from four, in a vector that grows.
        MOVES => 1 + 2 * 7,
        _ => 1,
    }
}

/// Whether `frame` lies in one of the runs, which ascend.
fn has_frame(runs: &[Run], frame: Frame) -> bool {
    let next = runs.partition_point(|run| run.end() <= frame);
    runs.get(next).is_some_and(|run| run.contains(frame))
}

/// That what lay on no free list is there and in use by nothing; the runs ascend.
fn check_free(trace: &Trace, unlisted: &[Run]) -> Result<(), String> {
    let absent = |run: &&Run| {
        let next = trace.absent.partition_point(|of| of.end() <= run.start());
        trace
            .absent
            .get(next)
            .is_some_and(|of| of.start() < run.end())
    };
    if let Some(run) = unlisted.iter().find(absent) {
        return Err(format!(
            "{run:?} lies on no free list, and a frame of it is absent"
        ));
    }
    let used = trace
        .init
        .iter()
        .find(|object| has_frame(unlisted, object.frame));
    used.map_or(Ok(()), |object| {
        let frame = object.frame;
        Err(format!(
            "frame {frame} lies on no free list, and an initial object is there"
        ))
    })
}

/// A column's name as the file has it.
fn padded(name: &str) -> [u8; 8] {
    let mut bytes = [0; 8];
    bytes[..name.len()].copy_from_slice(name.as_bytes());
    bytes
}
