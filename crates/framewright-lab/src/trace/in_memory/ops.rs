//! A trace in memory: the packed operation of 16 bytes, and the objects that it refers to. How an operation is
//! packed is known here alone; all others make and ask one through its functions.

use super::{Askers, KernelWork, TraceMove};
use framewright::{Frame, Mobility, Order};

/// What the recording knew of a frame that was allocated before the trace began.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum InitClass {
    /// Neither on an LRU list nor anonymous nor slab.
    Unmovable,
    /// On an LRU list, or anonymous.
    Movable,
    /// Slab: reclaimable or unmovable, which page flags do not tell; counted as reclaimable.
    Slab,
}

impl InitClass {
    /// The mobility under which a replay places it.
    #[must_use]
    pub const fn mobility(self) -> Mobility {
        match self {
            Self::Unmovable => Mobility::Unmovable,
            Self::Movable => Mobility::Movable,
            Self::Slab => Mobility::Reclaimable,
        }
    }
}

/// One frame that was allocated before the trace began; its object id is its index.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct InitObject {
    /// Where the recording kernel had it.
    pub frame: Frame,
    /// What it was.
    pub class: InitClass,
}

/// What an [`TraceOp`] does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub enum OpKind {
    /// Allocates the next object: ids count up from the initial objects.
    Alloc,
    /// Frees the object `value`.
    Free,
    /// Frees 2^order frames at offset `offset` of the object `value`.
    FreePart,
    /// `value` milliseconds pass.
    Tick,
    /// An allocation that failed on the recording machine: a probe, nothing stays allocated.
    Failed,
}

/// One operation of a trace, 16 bytes, so that tens of millions stay in memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TraceOp {
    /// The object freed, or the milliseconds of a tick; 0 otherwise.
    pub value: u32,
    /// The frame offset of a [`OpKind::FreePart`]; 0 otherwise.
    pub offset: u32,
    /// Index into [`Trace::gfp`] for allocations; 255 for a synthetic one.
    pub gfp: u8,
    /// The recorded process's small number, for allocations.
    pub pid: u16,
    /// Packed kind (3 bits), mobility (2 bits).
    packed: u8,
    order: u8,
    cpu: u8,
}

impl TraceOp {
    /// The bit in the recorded CPU number that marks a synthetic operation: one that the
    /// recording did not see but that must have happened.
    pub const SYNTHETIC: u8 = 0x80;

    /// An allocation or a failed one.
    #[must_use]
    pub fn alloc(
        failed: bool,
        order: Order,
        mobility: Mobility,
        cpu: u8,
        gfp: u8,
        pid: u16,
    ) -> Self {
        let kind = if failed {
            OpKind::Failed
        } else {
            OpKind::Alloc
        };
        Self {
            value: 0,
            offset: 0,
            gfp,
            pid,
            packed: kind as u8 | (mobility as u8) << 3,
            order: order.get(),
            cpu,
        }
    }

    /// A free of a whole object.
    #[must_use]
    pub fn free(object: u32, order: Order, cpu: u8) -> Self {
        Self {
            value: object,
            offset: 0,
            gfp: 0,
            pid: 0,
            packed: OpKind::Free as u8,
            order: order.get(),
            cpu,
        }
    }

    /// A free of a part of an object.
    #[must_use]
    pub fn free_part(object: u32, offset: u32, order: Order, cpu: u8) -> Self {
        Self {
            offset,
            packed: OpKind::FreePart as u8,
            ..Self::free(object, order, cpu)
        }
    }

    /// Time passing.
    #[must_use]
    pub fn tick(milliseconds: u32) -> Self {
        Self {
            packed: OpKind::Tick as u8,
            ..Self::free(milliseconds, Order::ZERO, 0)
        }
    }

    /// What it does.
    #[must_use]
    pub fn kind(self) -> OpKind {
        match self.packed & 7 {
            0 => OpKind::Alloc,
            1 => OpKind::Free,
            2 => OpKind::FreePart,
            3 => OpKind::Tick,
            _ => OpKind::Failed,
        }
    }

    /// The order of the allocation, or of what is freed.
    #[must_use]
    pub fn order(self) -> Order {
        Order::new(self.order).unwrap_or(Order::MAX)
    }

    /// The mobility asked for; meaningless for frees and ticks.
    #[must_use]
    pub fn mobility(self) -> Mobility {
        Mobility::from_index(usize::from(self.packed >> 3 & 3)).unwrap_or(Mobility::Unmovable)
    }

    /// The CPU, without the synthetic mark.
    #[must_use]
    pub fn cpu(self) -> u16 {
        u16::from(self.cpu & !Self::SYNTHETIC)
    }

    /// The CPU as it was recorded, with the synthetic mark.
    #[must_use]
    pub fn recorded_cpu(self) -> u8 {
        self.cpu
    }

    /// Whether the recording inferred the operation instead of seeing it.
    #[must_use]
    pub fn is_synthetic(self) -> bool {
        self.cpu & Self::SYNTHETIC != 0
    }
}

/// A trace in memory: an initial state and operations on numbered objects.
///
/// A free always refers to a live object, and no object is freed twice. The code that builds a `Trace`
/// owes this: the reduction counts what it has to leave out, the reader of a file refuses the file.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Trace {
    /// The number of frames of the machine; frames are numbered from 0.
    pub nframes: u64,
    /// Frame runs below `nframes` that do not exist.
    pub absent: Vec<framewright::Run>,
    /// What was allocated before the first operation.
    pub init: Vec<InitObject>,
    /// What then happened, in order.
    pub ops: Vec<TraceOp>,
    /// The flag words that [`TraceOp::gfp`] indexes.
    pub gfp: Vec<u32>,
    /// The askers, as far as the recording names them.
    pub askers: Askers,
    /// What the recording kernel did about memory meanwhile, as far as the recording shows it.
    pub work: KernelWork,
    /// What compaction moved meanwhile, in order, as far as the recording shows it.
    pub moves: Vec<TraceMove>,
    /// Runs of free frames that lay on no free list before the first operation, in order, as far as the recording tells: they
    /// lay on CPUs' lists.
    pub unlisted: Vec<framewright::Run>,
}

impl Trace {
    /// How many frames exist.
    #[must_use]
    pub fn present_frames(&self) -> u64 {
        let absent = self.absent.iter().map(|run| run.frames()).sum();
        self.nframes.saturating_sub(absent)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_op_is_sixteen_bytes_and_keeps_what_it_was_given() {
        assert_eq!(size_of::<TraceOp>(), 16);
        let op = TraceOp::alloc(
            false,
            Order::new(9).unwrap(),
            Mobility::Reclaimable,
            0x81,
            7,
            300,
        );
        assert_eq!(op.kind(), OpKind::Alloc);
        assert_eq!(
            (op.order().get(), op.mobility()),
            (9, Mobility::Reclaimable)
        );
        assert_eq!(
            (op.cpu(), op.is_synthetic(), op.gfp, op.pid),
            (1, true, 7, 300)
        );
        let part = TraceOp::free_part(5, 16, Order::new(2).unwrap(), 0);
        assert_eq!(
            (part.kind(), part.value, part.offset),
            (OpKind::FreePart, 5, 16)
        );
        assert_eq!(
            (TraceOp::tick(12).kind(), TraceOp::tick(12).value),
            (OpKind::Tick, 12)
        );
    }
}
