use super::{Objects, labels_by_content};
use crate::measure::MAX_ORDER;
use crate::trace::{OpKind, Trace};
use framewright::Mobility;
use std::fmt;

/// A trace, checked, and the machine it happened on: what every policy's replay shares.
#[derive(Debug)]
pub struct Memory<'a> {
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
}

/// Why a trace cannot be replayed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MemoryError {
    /// There is no frame, or more than a replay can name.
    Frames(u64),
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
                Objects::MAX_FRAMES
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

impl<'a> Memory<'a> {
    /// Frames that exist and are free before the first operation.
    #[must_use]
    pub fn free_frames_at_start(&self) -> u64 {
        let absent: u64 = self.trace.absent.iter().map(|run| run.frames()).sum();
        (self.trace.nframes - absent).saturating_sub(self.trace.init.len() as u64)
    }

    /// Checks a trace, and labels its pageblocks by their content.
    ///
    /// # Errors
    /// If the trace cannot be replayed; the message says why.
    pub fn new(trace: &'a Trace) -> Result<Self, MemoryError> {
        if trace.nframes == 0 || trace.nframes > Objects::MAX_FRAMES {
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
        })
    }
}
