//! The state before the first operation: labels, the initial objects, and the frames that are held back, all put in
//! place before a policy is asked for anything.

use super::TraceMemory;
use crate::measure::Observer;
use crate::replay::{ReplayError, ReplaySubject, TraceObjects};
use framewright::{CpuId, Mobility, Order};

/// How the memory that was in use before the trace began comes to be in use in the replay.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Start {
    /// Where the recording had it: the policy inherits another kernel's layout.
    Imposed,
    /// Where the policy puts it: the initial objects are allocated in the order of their ids.
    Fresh,
}

impl Start {
    /// The name on the command line and in a figure's `case`.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Imposed => "imposed",
            Self::Fresh => "fresh",
        }
    }
}

/// Puts the initial objects in place and holds `squeeze` frames back; returns how many of them
/// found no frame.
pub(crate) fn begin(
    subject: &mut dyn ReplaySubject,
    observer: &mut Observer,
    objects: &mut TraceObjects,
    memory: &TraceMemory<'_>,
    start: Start,
    squeeze: u64,
) -> Result<u64, ReplayError> {
    let policy = subject.name();
    let fault = |fault| ReplayError::Fault {
        policy,
        op: None,
        fault,
    };
    let mut unplaced = 0;
    match start {
        Start::Imposed => {
            for (block, &label) in memory.labels.iter().enumerate() {
                subject.set_label(block as u64, label);
            }
            for (id, object) in memory.trace.init.iter().enumerate() {
                let mobility = object.class.mobility();
                observer
                    .take(object.frame, Order::ZERO, mobility)
                    .map_err(fault)?;
                if !subject.alloc_at(object.frame, Order::ZERO, mobility) {
                    return Err(ReplayError::NotImposed {
                        policy,
                        object: id,
                        frame: object.frame,
                    });
                }
                objects.place(id, object.frame, mobility);
            }
        }
        Start::Fresh => {
            for (id, object) in memory.trace.init.iter().enumerate() {
                let mobility = object.class.mobility();
                match subject.alloc(CpuId(0), Order::ZERO, mobility) {
                    Some(frame) => {
                        observer.take(frame, Order::ZERO, mobility).map_err(fault)?;
                        objects.place(id, frame, mobility);
                    }
                    None => unplaced += 1,
                }
            }
        }
    }
    for taken in 0..squeeze {
        let Some(frame) = subject.alloc(CpuId(0), Order::ZERO, Mobility::Movable) else {
            // Nothing is freed in between, so no later one would find a frame either.
            unplaced += squeeze - taken;
            break;
        };
        observer
            .take(frame, Order::ZERO, Mobility::Movable)
            .map_err(fault)?;
    }
    subject.drain();
    // Fresh, other frames are free.
    subject.fill_caches(match start {
        Start::Imposed => &memory.cached,
        Start::Fresh => &[],
    });
    Ok(unplaced)
}
