//! Faults that end a replay, apart from failed requests, which are figures.

use super::FreeRefused;
use crate::measure::AllocatorFault;
use framewright::{Frame, Order};
use std::fmt;

/// Why a replay stopped: all but the last are faults of the allocator, of the trace's initial state or of
/// the replay, and none can be passed over without making every later figure meaningless.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ReplayError {
    /// The allocator could not be built over such a memory.
    Unbuilt {
        /// The policy's name.
        policy: &'static str,
        /// What it said.
        why: String,
    },
    /// The observer saw what no allocator may do; `op` is the operation's index, or the start.
    Fault {
        /// The policy's name.
        policy: &'static str,
        /// The operation, `None` while the initial objects were placed.
        op: Option<usize>,
        /// What it was.
        fault: AllocatorFault,
    },
    /// The allocator did not accept a free of a block it had handed out.
    Refused {
        /// The policy's name.
        policy: &'static str,
        /// The operation's index.
        op: usize,
        /// The block.
        frame: Frame,
        /// Its order.
        order: Order,
        /// What the allocator said.
        refused: FreeRefused,
    },
    /// The allocator could not give an initial object the frame that the recording had it in.
    NotImposed {
        /// The policy's name.
        policy: &'static str,
        /// The object's id.
        object: usize,
        /// The frame.
        frame: Frame,
    },
    /// The caller wanted no further replay to begin.
    Stopped,
}

impl fmt::Display for ReplayError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unbuilt { policy, why } => write!(f, "policy {policy}: {why}"),
            Self::Fault {
                policy,
                op: Some(op),
                fault,
            } => {
                write!(f, "policy {policy}, operation {op}: {fault}")
            }
            Self::Fault {
                policy,
                op: None,
                fault,
            } => write!(f, "policy {policy}, start: {fault}"),
            Self::Refused {
                policy,
                op,
                frame,
                order,
                ..
            } => write!(
                f,
                "policy {policy}, operation {op}: the free of {order} at {frame} was refused, \
                 though the block is handed out"
            ),
            Self::NotImposed {
                policy,
                object,
                frame,
            } => write!(
                f,
                "policy {policy}, start: initial object {object} cannot be placed at {frame}"
            ),
            Self::Stopped => write!(f, "stopped before the last replay began"),
        }
    }
}

impl std::error::Error for ReplayError {}
