//! The trace with what all replays of it share: it is checked once, and how much memory a replay takes is said
//! before any is taken.

use super::labels_by_content;
use crate::measure::MAX_ORDER;
use crate::replay::{BackgroundRuns, CachedBlock, MachineZones, TraceObjects, default_watermark};
use crate::trace::{MemoryLimit, OpKind, RequestCounts, TooMuchMemory, Trace};
use framewright::Mobility;
use std::fmt;

/// A trace, checked, and the machine it happened on: what every policy's replay shares.
#[derive(Debug, Clone)]
pub struct TraceMemory<'a> {
    /// The trace.
    pub trace: &'a Trace,
    /// The label of each pageblock under which the recorded layout is imposed.
    pub labels: Vec<Mobility>,
    /// CPUs that appear in the trace: the largest number, plus one.
    pub cpus: u16,
    /// Allocations in the trace, those that failed on the recording machine left out.
    pub allocs: usize,
    /// Milliseconds from the first operation to the last.
    pub ms: u64,
    /// Requests that the recording machine served, by what their flags say.
    pub requests: RequestCounts,
    /// The min watermark in frames: Linux's own for such a memory, unless the recording says another.
    pub min_watermark: u64,
    /// The machine's zones, whose rules of admission then stand before every policy; without them a policy serves as
    /// long as it finds a block.
    pub zones: Option<MachineZones>,
    /// What lay on CPUs' lists before the first operation, as far as it is known where.
    pub cached: Vec<CachedBlock>,
    /// When the machine's background reclaimed, for zones that follow it; without it they have a model of a background.
    pub background: Option<BackgroundRuns>,
}

/// Why a trace cannot be replayed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MemoryError {
    /// There is no frame, or more than a replay can name.
    Frames(u64),
    /// A replay would hold more for the machine than the trace is long enough for.
    TooLarge {
        /// The frames of the machine.
        nframes: u64,
        /// What they take.
        over: TooMuchMemory,
    },
    /// An operation's order is above the largest a metric knows.
    Order {
        /// The operation's index.
        op: usize,
        /// Its order.
        order: u8,
    },
}

impl fmt::Display for MemoryError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Frames(n) => write!(
                f,
                "the trace's memory has {n} frames, expected 1 to {}",
                TraceObjects::MAX_FRAMES
            ),
            Self::TooLarge { nframes, over } => write!(
                f,
                "the trace's memory has {nframes} frames, far more than its operations name: each \
                 replay {over}"
            ),
            Self::Order { op, order } => {
                write!(
                    f,
                    "operation {op}: order {order} is above the maximum {MAX_ORDER}"
                )
            }
        }
    }
}

impl std::error::Error for MemoryError {}

/// What a replay holds for a frame at most: the links of a free list (8), its order and label, the
/// observer's bit, the frame's holder where the recording kernel's own choice is followed (4).
const FRAME_BYTES: u64 = 16;
/// What it holds besides where it reclaims: the list of the movable ones, the owner.
const RECLAIM_FRAME_BYTES: u64 = 32;
/// What it holds where the recording has moves: what begins there, and its order.
const MOVABLE_FRAME_BYTES: u64 = 5;
/// And for each frame that moved, where the recording kernel's own choice is followed: where it is, in a map that grows.
const MOVED_FRAME_BYTES: u64 = 64;
/// What it holds for an object: where it is.
const OBJECT_BYTES: u64 = 4;
/// Where it reclaims: what the programs know of it, and its content.
const RECLAIM_OBJECT_BYTES: u64 = 44;
/// An operation, where they come in another order than the recorded one.
const PLACED_OP_BYTES: u64 = 8;

impl<'a> TraceMemory<'a> {
    /// What one replay of the trace holds at most, in the order of operations that `interleaving` numbers.
    #[must_use]
    pub fn replay_bytes(trace: &Trace, reclaims: bool, interleaving: u32) -> u64 {
        let (frame, object) = match reclaims {
            false => (FRAME_BYTES, OBJECT_BYTES),
            true => (
                FRAME_BYTES + RECLAIM_FRAME_BYTES,
                OBJECT_BYTES + RECLAIM_OBJECT_BYTES,
            ),
        };
        // Every operation may be an allocation.
        let objects = trace.init.len() as u64 + trace.ops.len() as u64;
        let moved = trace.moves.iter().map(|moved| moved.order.frames());
        let moved = moved.fold(0, u64::saturating_add);
        let frame = match moved {
            0 => frame,
            _ => frame + MOVABLE_FRAME_BYTES,
        };
        let of_frames = trace.nframes.saturating_mul(frame);
        let of_objects = objects.saturating_mul(object);
        let of_order = match interleaving {
            0 => 0,
            _ => (trace.ops.len() as u64).saturating_mul(PLACED_OP_BYTES),
        };
        of_frames
            .saturating_add(of_objects)
            .saturating_add(of_order)
            .saturating_add(moved.saturating_mul(MOVED_FRAME_BYTES))
    }

    /// Whether the machine is one that its trace is long enough for (P4), before anything is held
    /// for it.
    ///
    /// # Errors
    /// [`MemoryError::TooLarge`].
    pub fn check_size(
        trace: &Trace,
        reclaims: bool,
        interleaving: u32,
        limit: MemoryLimit,
    ) -> Result<(), MemoryError> {
        let records = trace.init.len() as u64 + trace.ops.len() as u64;
        let needed = Self::replay_bytes(trace, reclaims, interleaving);
        TooMuchMemory::check(needed, limit.machine_bytes(records)).map_err(|over| {
            MemoryError::TooLarge {
                nframes: trace.nframes,
                over,
            }
        })
    }

    /// Frames that exist and are free before the first operation.
    #[must_use]
    pub fn free_frames_at_start(&self) -> u64 {
        let present = self.trace.present_frames();
        present.saturating_sub(self.trace.init.len() as u64)
    }

    /// The same machine where memory is held back: its background would have had more to do than it did, so a model of it
    /// takes its place. And its CPUs' lists would have been shorter, by how much is not known: they begin empty.
    #[must_use]
    pub fn with_less(self) -> Self {
        Self {
            background: None,
            cached: Vec::new(),
            zones: self.zones.map(MachineZones::with_empty_lists),
            ..self
        }
    }

    /// Checks a trace, and labels its pageblocks by their content.
    ///
    /// # Errors
    /// If the trace cannot be replayed; the message says why.
    pub fn new(trace: &'a Trace) -> Result<Self, MemoryError> {
        if trace.nframes == 0 || trace.nframes > TraceObjects::MAX_FRAMES {
            return Err(MemoryError::Frames(trace.nframes));
        }
        let (mut cpus, mut allocs, mut ms) = (1, 0, 0);
        for (index, op) in trace.ops.iter().enumerate() {
            let kind = op.kind();
            if kind == OpKind::Tick {
                ms += u64::from(op.value);
                continue;
            }
            if op.order().index() > MAX_ORDER {
                return Err(MemoryError::Order {
                    op: index,
                    order: op.order().get(),
                });
            }
            cpus = cpus.max(op.cpu() + 1);
            allocs += usize::from(kind == OpKind::Alloc);
        }
        Ok(Self {
            trace,
            labels: labels_by_content(trace),
            cpus,
            allocs,
            ms,
            requests: RequestCounts::of_trace(trace, OpKind::Alloc),
            min_watermark: default_watermark(trace.present_frames()),
            zones: None,
            cached: Vec::new(),
            background: None,
        })
    }
}
